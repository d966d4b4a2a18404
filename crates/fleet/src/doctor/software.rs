//! Checks of the C library and of the tools setup needs.

use super::{Check, Context};
use crate::setup::Installer;

/// libtpu's wheels are built for manylinux_2_31.
const LEAST_GLIBC: (u32, u32) = (2, 31);

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    vec![glibc(context.system.glibc()), installers(context)]
}

fn glibc(version: Option<&str>) -> Check {
    let name = "glibc";
    let remedy = format!(
        "use a Linux with glibc {}.{} or newer, such as Debian 11 or Ubuntu 20.04",
        LEAST_GLIBC.0, LEAST_GLIBC.1
    );
    let Some(version) = version else {
        return Check::fail(name, "this program does not run on glibc; libtpu needs it", remedy);
    };
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= LEAST_GLIBC => Check::ok(name, version),
        (Some(_), Some(_)) => Check::fail(name, format!("{version}; libtpu needs a newer one"), remedy),
        _ => Check::warn(name, format!("{version:?} is not a version"), remedy),
    }
}

fn installers(context: &Context<'_>) -> Check {
    let name = "installer";
    let found: Vec<String> =
        Installer::all(context.system).iter().map(|i| format!("{} ({})", i.words(), i.program.display())).collect();
    if !found.is_empty() {
        return Check::ok(name, found.join(", "));
    }
    let python = context.system.find_program("python3").map(|p| format!("{} has no pip", p.display()));
    Check::warn(
        name,
        python.unwrap_or("neither uv nor python3 nor pip3 on PATH".into()),
        "only `tpu setup` needs one: install uv or pip, or give it a wheel file",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn glibc_versions() {
        for (version, expected) in [
            (Some("2.36"), Status::Ok),
            (Some("2.31"), Status::Ok),
            (Some("2.28"), Status::Fail),
            (Some("3.0"), Status::Ok),
            (Some("odd"), Status::Warn),
            (None, Status::Fail),
        ] {
            assert_eq!(glibc(version).status, expected, "{version:?}");
        }
    }
}
