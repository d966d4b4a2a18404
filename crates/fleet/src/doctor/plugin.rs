//! Checks of the PJRT plugin: found, loadable, which interface version, which package version.

use std::path::Path;

use pjrt::discover::{FoundPlugin, PluginOrigin, Rejected, package_of};

use super::elf::{self, Export};
use super::{Check, Context};
use crate::managed::read_record;

/// Interface versions that were tried, oldest and newest.
const TRIED_MINOR: (i32, i32) = (81, 116);
const SETUP: &str = "run `tpu setup`, or set TPU_LIBRARY_PATH to a libtpu.so";

/// How far a probe went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeDepth {
    /// Only the file was read.
    File,
    /// The library was loaded and initialized.
    Loaded,
}

/// What a probe learned of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFindings {
    /// How far the probe went.
    pub depth: ProbeDepth,
    /// Size of the library.
    pub file_bytes: u64,
    /// Version of the interface: major, minor.
    pub api_version: Option<(i32, i32)>,
    /// What else is worth showing, such as `stablehlo 1.23.0`.
    pub note: Option<String>,
}

/// A probe that reads the file: kind of library, size, and whether it exports `GetPjrtApi`.
pub fn probe_file(path: &Path) -> Result<ProbeFindings, String> {
    let library = elf::read(path, "GetPjrtApi")?;
    if library.machine != std::env::consts::ARCH {
        return Err(format!("a library for {}, this machine is {}", library.machine, std::env::consts::ARCH));
    }
    if library.exports == Some(Export::Missing) {
        return Err("a library, but not a PJRT plugin: it does not export GetPjrtApi".into());
    }
    Ok(ProbeFindings { depth: ProbeDepth::File, file_bytes: library.file_bytes, api_version: None, note: None })
}

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    let search = &context.options.plugins;
    let Some((first, others)) = search.found.split_first() else {
        return vec![Check::fail("plugin", nothing_found(&search.rejected), SETUP)];
    };
    let also = match others.len() {
        0 => String::new(),
        count => format!("; {count} more found, not used"),
    };
    let mut checks =
        vec![Check::ok("plugin", format!("{} ({}){also}", first.path.display(), first.origin)), version(first)];
    match (context.options.probe)(&first.path) {
        Ok(probe) => checks.extend(loaded(&probe)),
        Err(reason) => checks.push(Check::fail("plugin loads", reason, SETUP)),
    }
    checks
}

/// What was looked at in vain, as far as somebody pointed at it: the usual folders being empty is no news.
fn nothing_found(rejected: &[Rejected]) -> String {
    let pointed_at = rejected.iter().filter(|r| matches!(r.origin, PluginOrigin::Explicit | PluginOrigin::Variable(_)));
    let reasons = pointed_at.map(|r| format!("; {} ({}): {}", r.path.display(), r.origin, r.why));
    std::iter::once("no PJRT plugin found".to_owned()).chain(reasons).collect()
}

fn loaded(probe: &ProbeFindings) -> [Check; 2] {
    let how = match probe.depth {
        ProbeDepth::File => "is a PJRT plugin; not loaded",
        ProbeDepth::Loaded => "loads and initializes",
    };
    let note = probe.note.as_ref().map(|n| format!(", {n}")).unwrap_or_default();
    let size = format!("{:.1} MB", probe.file_bytes as f64 / 1e6);
    let (oldest, newest) = TRIED_MINOR;
    let name = "plugin API";
    let api = match probe.api_version {
        None => Check::skipped(name, "known only once the plugin is loaded"),
        Some((major, minor)) if major != 0 => Check::fail(
            name,
            format!("PJRT {major}.{minor}: another major version than 0"),
            "use a plugin of PJRT API 0.x, as `tpu setup` installs",
        ),
        Some((_, minor)) if minor < oldest => Check::warn(
            name,
            format!("PJRT 0.{minor}, older than the oldest tried (0.{oldest})"),
            "a newer plugin is safer: run `tpu setup`",
        ),
        Some((_, minor)) if minor > newest => {
            Check::ok(name, format!("PJRT 0.{minor}, newer than the newest tried (0.{newest})"))
        }
        Some((_, minor)) => Check::ok(name, format!("PJRT 0.{minor}")),
    };
    [Check::ok("plugin loads", format!("{how} ({size}{note})")), api]
}

fn version(found: &FoundPlugin) -> Check {
    let name = "plugin version";
    let known = found.version.clone().map(|version| (found.name.clone(), version));
    match known.or_else(|| package_version(&found.path)) {
        Some((package, version)) => Check::ok(name, format!("{package} {version}")),
        None => Check::skipped(name, "the library is not part of an installed package"),
    }
}

/// Package and version of a library: from the record in the managed folder, else from the folders around it.
fn package_version(path: &Path) -> Option<(String, String)> {
    if let Some(record) = read_record(path.parent()?) {
        return Some((record.name, record.package_version));
    }
    package_of(path).map(|found| (found.package, found.version))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn version_comes_from_dist_info() {
        let site = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = site.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        put("libtpu/libtpu.so");
        put("libtpu-0.0.51.dist-info/RECORD");
        put("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
        put("xla_cpu_pjrt-0.0.1.dist-info/RECORD");
        put("loose/plugin.so");
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(p, v)| (p.to_owned(), v.to_owned()));
            assert_eq!(package_version(&site.path().join(path)), expected, "{path}");
        };
        check("libtpu/libtpu.so", Some(("libtpu", "0.0.51")));
        check("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", Some(("xla_cpu_pjrt", "0.0.1")));
        check("loose/plugin.so", None);
    }

    #[test]
    fn api_versions_are_judged() {
        let check = |api_version, expected| {
            let probe = ProbeFindings { depth: ProbeDepth::Loaded, file_bytes: 1, api_version, note: None };
            assert_eq!(loaded(&probe)[1].status, expected, "{api_version:?}");
        };
        check(Some((0, 116)), Status::Ok);
        check(Some((0, 200)), Status::Ok);
        check(Some((0, 54)), Status::Warn);
        check(Some((1, 0)), Status::Fail);
        check(None, Status::Skipped);
    }

    #[test]
    fn a_file_that_is_no_plugin_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), elf::tests::library("main")).unwrap();
        assert!(probe_file(file.path()).unwrap_err().contains("GetPjrtApi"));
        std::fs::write(file.path(), elf::tests::library("GetPjrtApi")).unwrap();
        assert_eq!(probe_file(file.path()).unwrap().depth, ProbeDepth::File);
    }
}
