//! Checks of disk, memory, processors and the kernel's limits.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::{Check, Context};
use crate::System;
use crate::managed::Home;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// A full compilation of a large program took up to 2.1 GiB.
const COMFORTABLE_MEMORY_BYTES: u64 = 3 * GIB;
/// Loading libtpu and compiling a small program.
const LEAST_MEMORY_BYTES: u64 = 512 * MIB;
const COMFORTABLE_DISK_BYTES: u64 = 5 * GIB;
/// Below this neither setup nor the compile cache can work.
const LEAST_DISK_BYTES: u64 = GIB;
const LEAST_OPEN_FILES: u64 = 1024;

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    let mut checks = disks(context);
    checks.extend([memory(context.system), processors(context.system), limits(context), overcommit(context.system)]);
    checks
}

fn disks(context: &Context<'_>) -> Vec<Check> {
    let options = context.options;
    let home = options.home.clone().or_else(|| Home::of(context.system).ok());
    let folders: [(&'static str, Option<PathBuf>, &str); 3] = [
        ("disk: plugins", home.map(|h| h.path().to_owned()), "TPUBRIDGE_HOME"),
        ("disk: cache", options.cache_dir.clone(), "the cache folder"),
        ("disk: temporary", Some(context.system.temp_dir()), "TMPDIR"),
    ];
    folders.into_iter().filter_map(|(name, path, setting)| Some(disk(name, &path?, setting))).collect()
}

fn disk(name: &'static str, path: &Path, setting: &str) -> Check {
    let elsewhere = format!("free some space, or point {setting} at another disk");
    // What does not exist yet will be made on the disk of its nearest existing parent.
    let Some(existing) = path.ancestors().find(|p| p.exists()) else {
        return Check::fail(name, format!("{} cannot be made", path.display()), format!("set {setting}"));
    };
    if !existing.is_dir() {
        return Check::fail(name, format!("{} is not a folder", existing.display()), format!("set {setting}"));
    }
    if rustix::fs::access(existing, Access::WRITE_OK).is_err() {
        let detail = format!("{} cannot be written", existing.display());
        return Check::fail(name, detail, format!("point {setting} at a folder you may write to"));
    }
    let disk = match rustix::fs::statvfs(existing) {
        Ok(disk) => disk,
        Err(e) => return Check::warn(name, format!("{}: {e}", existing.display()), format!("set {setting}")),
    };
    if disk.f_files > 0 && disk.f_favail == 0 {
        return Check::fail(name, format!("no inodes left for {}", path.display()), elsewhere);
    }
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let detail = format!("{} free for {}", gibibytes(free_bytes), path.display());
    match free_bytes {
        bytes if bytes < LEAST_DISK_BYTES => Check::fail(name, detail, elsewhere),
        bytes if bytes < COMFORTABLE_DISK_BYTES => Check::warn(name, detail, elsewhere),
        _ => Check::ok(name, detail),
    }
}

fn memory(system: &System) -> Check {
    let name = "memory";
    let text = system.read_text("/proc/meminfo").unwrap_or_default();
    let field = |wanted: &str| {
        let (_, rest) = text.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| *k == wanted)?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let (Some(total), Some(free)) = (field("MemTotal"), field("MemAvailable").or(field("MemFree"))) else {
        return Check::skipped(name, "/proc/meminfo cannot be read");
    };
    let group_bytes = |file: &str| system.read_text(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    let group = group_bytes("memory.max")
        .map(|limit| (limit, limit.saturating_sub(group_bytes("memory.current").unwrap_or_default())));
    let (total, free, whose) = match group {
        Some((limit, left)) if left < free => (limit, left, " (limit of this container)"),
        _ => (total, free, ""),
    };
    let detail = format!("{} available of {}{whose}", gibibytes(free), gibibytes(total));
    let remedy = "end other programs, or compile on a machine with more memory";
    match free {
        bytes if bytes < LEAST_MEMORY_BYTES => Check::fail(name, detail, remedy),
        bytes if bytes < COMFORTABLE_MEMORY_BYTES => Check::warn(name, detail, remedy),
        _ => Check::ok(name, detail),
    }
}

fn processors(system: &System) -> Check {
    let name = "processors";
    let status = system.read_text("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    match allowed.and_then(list_length) {
        Some(1) => Check::warn(name, "1 usable", "compiling will be slow: allow this process more processors"),
        Some(count) => Check::ok(name, format!("{count} usable")),
        None => Check::skipped(name, "/proc/self/status cannot be read"),
    }
}

/// Length of a kernel list such as `0-3,8`.
fn list_length(list: &str) -> Option<u64> {
    let mut length: u64 = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        length = length.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(length)
}

/// Soft limit of a line of `/proc/self/limits`; `u64::MAX` when unlimited.
fn soft_limit(limits: &str, wanted: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(wanted))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn limits(context: &Context<'_>) -> Check {
    let name = "limits";
    let text = context.system.read_text("/proc/self/limits").unwrap_or_default();
    let (Some(files), Some(locked)) = (soft_limit(&text, "Max open files"), soft_limit(&text, "Max locked memory"))
    else {
        return Check::skipped(name, "/proc/self/limits cannot be read");
    };
    let count = |n: u64| if n == u64::MAX { "unlimited".to_owned() } else { n.to_string() };
    let detail = format!("open files {}, locked memory {} bytes", count(files), count(locked));
    if files < LEAST_OPEN_FILES {
        return Check::warn(name, detail, format!("`ulimit -n {LEAST_OPEN_FILES}` or more"));
    }
    if !context.tpus.is_empty() && locked != u64::MAX {
        return Check::warn(
            name,
            format!("{detail}; libtpu locks memory for transfers to the chips"),
            "`ulimit -l unlimited` (in a container: `--ulimit memlock=-1`)",
        );
    }
    Check::ok(name, detail)
}

fn overcommit(system: &System) -> Check {
    let name = "overcommit";
    match system.read_text("/proc/sys/vm/overcommit_memory").as_deref().map(str::trim) {
        Ok(mode @ ("0" | "1")) => Check::ok(name, format!("vm.overcommit_memory is {mode}")),
        Ok("2") => Check::warn(
            name,
            "vm.overcommit_memory is 2: libtpu reserves more address space than it uses and may be refused",
            "`sudo sysctl vm.overcommit_memory=0`",
        ),
        _ => Check::skipped(name, "vm.overcommit_memory cannot be read"),
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_limits() {
        for (list, expected) in
            [("0-3,8", Some(5)), ("0", Some(1)), ("3-1", None), ("", None), ("0-18446744073709551615", None)]
        {
            assert_eq!(list_length(list), expected, "{list}");
        }
        let limits = "Max open files            20000                20000                files\n\
                      Max locked memory         unlimited            unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(20000));
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(u64::MAX));
        assert_eq!(soft_limit("Max open files x", "Max open files"), None);
    }
}
