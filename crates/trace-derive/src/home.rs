//! Under which name the crate that derives knows `trace`: its own dependency, or a module of `tpubridge`.

use proc_macro2::{Span, TokenStream as Tokens};
use quote::quote;
use syn::{DeriveInput, Error, Ident, Path};

/// The path of the `trace` crate: what `#[tree(crate = ...)]` says, else what the manifest of the crate being compiled has.
pub(crate) fn path(input: &DeriveInput) -> Result<Tokens, Error> {
    let mut given: Option<Path> = None;
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("tree")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected `crate = path::of::trace`"));
            }
            given = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    if let Some(path) = given {
        return Ok(quote!(#path));
    }
    // Examples, tests and doctests of the facade see it as users do; its library is compiled under its own name.
    let variable = |name: &str| std::env::var(name).ok();
    if variable("CARGO_PKG_NAME").as_deref() == Some("tpubridge")
        && variable("CARGO_CRATE_NAME").as_deref() != Some("tpubridge")
    {
        return Ok(quote!(::tpubridge::trace));
    }
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|folder| std::fs::read_to_string(std::path::Path::new(&folder).join("Cargo.toml")).ok());
    let names = names(manifest.as_deref().unwrap_or_default());
    let of = |name: &str| Ident::new(&name.replace('-', "_"), Span::call_site());
    Ok(match names {
        Names { facade: Some(facade), .. } => {
            let facade = of(&facade);
            quote!(::#facade::trace)
        }
        Names { trace: Some(trace), .. } => {
            let trace = of(&trace);
            quote!(::#trace)
        }
        _ => quote!(::trace),
    })
}

/// What a manifest calls the two crates, if it depends on them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    facade: Option<String>,
    trace: Option<String>,
}

/// Reads the dependencies of a manifest, line by line: a key, and the package it renames.
fn names(manifest: &str) -> Names {
    let mut names = Names::default();
    let mut section = String::new();
    let mut table = None;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            section = header.trim().to_string();
            // `[dependencies.trace]` is a dependency by itself.
            table = section.rsplit_once("dependencies.").map(|(_, name)| name.trim_matches('"').to_string());
            if let Some(name) = &table {
                names.know(name, name);
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if let Some(name) = &table {
            if key.trim() == "package" {
                names.know(name, value.trim().trim_matches('"'));
            }
        } else if section.ends_with("dependencies") {
            let key = key.split('.').next().unwrap_or_default().trim().trim_matches('"');
            names.know(key, renamed(value).unwrap_or(key));
        }
    }
    names
}

impl Names {
    /// A dependency by that name, on that package.
    fn know(&mut self, name: &str, package: &str) {
        match package {
            "tpubridge" => self.facade = Some(name.to_string()),
            // The library of the package is called `trace`, unless the manifest renames it.
            "tpubridge-trace" if name == package => self.trace = Some("trace".to_string()),
            "tpubridge-trace" | "trace" => self.trace = Some(name.to_string()),
            _ => {}
        }
    }
}

/// The `package` of an inline table.
fn renamed(value: &str) -> Option<&str> {
    let after = value.split_once("package")?.1.trim_start().strip_prefix('=')?.trim_start();
    after.strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(manifest: &str, facade: Option<&str>, trace: Option<&str>) {
        let expected = Names { facade: facade.map(str::to_string), trace: trace.map(str::to_string) };
        assert_eq!(names(manifest), expected, "{manifest}");
    }

    #[test]
    fn every_way_to_depend_is_found() {
        check("[package]\nname = \"trace\"\n[dependencies]\nserde = \"1\"", None, None);
        check("[dependencies]\ntpubridge = \"0.1\"", Some("tpubridge"), None);
        check("[dependencies]\ntpubridge.workspace = true\ntrace.workspace = true", Some("tpubridge"), Some("trace"));
        check("[dev-dependencies]\ntpubridge-trace = { path = \"x\" }", None, Some("trace"));
        check("[dependencies]\ntpu = { package = \"tpubridge\", path = \"x\" }", Some("tpu"), None);
        check("[dependencies]\nt = { version = \"1\", package = \"tpubridge-trace\" }", None, Some("t"));
        check("[dependencies.tpubridge]\npath = \"x\"", Some("tpubridge"), None);
        check("[dependencies.tpu]\npackage = \"tpubridge\"\n[features]\ntrace = []", Some("tpu"), None);
        check("[target.'cfg(unix)'.dependencies]\ntrace = { path = \"x\" }", None, Some("trace"));
    }
}
