//! Check of libtpu's lock file: is it there, may it be used, and who holds it.

use std::os::unix::fs::MetadataExt;

use rustix::fs::Access;

use super::{Check, Context, process};

const NAME: &str = "libtpu lock";
const LOCK_FILE: &str = "/tmp/libtpu_lockfile";

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    let system = context.system;
    let path = system.path(LOCK_FILE);
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return vec![Check::ok(NAME, format!("{LOCK_FILE} is not there: nobody uses libtpu"))];
        }
        Err(e) => {
            return vec![Check::warn(
                NAME,
                format!("{LOCK_FILE}: {e}"),
                format!("look at it with `ls -l {LOCK_FILE}`"),
            )];
        }
    };
    let locks = system.read_text("/proc/locks").unwrap_or_default();
    let holders = holders(&locks, metadata.dev(), metadata.ino());
    if holders.is_empty() {
        if rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK).is_err() {
            return vec![Check::warn(
                NAME,
                format!(
                    "{LOCK_FILE} belongs to user {} and cannot be written: libtpu will refuse to start",
                    metadata.uid()
                ),
                format!("`sudo rm {LOCK_FILE}` once no program of that user needs the TPU"),
            )];
        }
        return vec![Check::ok(NAME, format!("{LOCK_FILE} is there and nobody holds it"))];
    }
    let who: Vec<String> = holders.iter().map(|&pid| process::describe(system, pid)).collect();
    vec![Check::warn(
        NAME,
        format!("{LOCK_FILE} is held by {}; another program that uses the TPU here will not start", who.join(", ")),
        "wait for it, or end it; `tpu compile` does not need the lock",
    )]
}

/// Processes that hold a lock on a file. Some file systems report another device in `/proc/locks` than in the file's
/// metadata, so a match of the inode alone counts when no line matches both.
fn holders(locks: &str, device: u64, inode: u64) -> Vec<i64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mut exact = Vec::new();
    let mut by_inode = Vec::new();
    for line in locks.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // `1: POSIX ADVISORY WRITE 1234 fe:00:5678 0 EOF`; one who waits has `->` second, and holds nothing.
        let [_, kind, _, _, pid, file, ..] = fields.as_slice() else { continue };
        let file: Vec<&str> = file.split(':').collect();
        let ([file_major, file_minor, file_inode], Ok(pid)) = (file.as_slice(), pid.parse::<i64>()) else { continue };
        if *kind == "->" || file_inode.parse() != Ok(inode) {
            continue;
        }
        let hexadecimal = |text: &str| u32::from_str_radix(text, 16).ok();
        let list = if (hexadecimal(file_major), hexadecimal(file_minor)) == (Some(major), Some(minor)) {
            &mut exact
        } else {
            &mut by_inode
        };
        if !list.contains(&pid) {
            list.push(pid);
        }
    }
    if exact.is_empty() { by_inode } else { exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_read_from_the_table() {
        let device = rustix::fs::makedev(0xfe, 0);
        let check = |locks: &str, expected: &[i64]| assert_eq!(holders(locks, device, 77), expected, "{locks}");
        check("1: POSIX  ADVISORY  WRITE 20210 fe:00:77 0 EOF\n", &[20210]);
        check("1: POSIX  ADVISORY  WRITE 20210 fe:00:78 0 EOF\n", &[]);
        check("1: POSIX  ADVISORY  WRITE 1 fe:00:77 0 EOF\n1: -> POSIX  ADVISORY  WRITE 2 fe:00:77 0 EOF\n", &[1]);
        check("1: FLOCK  ADVISORY  WRITE 1 00:1f:77 0 EOF\n2: FLOCK ADVISORY WRITE 2 fe:00:77 0 EOF", &[2]);
        check("1: OFDLCK ADVISORY  WRITE -1 00:1f:77 0 EOF\n", &[-1]);
        check("nonsense\n1:\n1: POSIX ADVISORY WRITE x fe:00:77 0 EOF\n\u{fffd}", &[]);
    }
}
