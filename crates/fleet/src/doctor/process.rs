//! Which process holds a lock or a socket, from `/proc`.

use crate::System;

/// Most file descriptors looked at when searching for a socket's owner.
const MAX_DESCRIPTORS: usize = 100_000;

/// `python3 (process 1234)`, or what can be said of a process that cannot be seen.
pub(super) fn describe(system: &System, pid: i64) -> String {
    if pid <= 0 {
        return "a process of another container".into();
    }
    match system.read_text(format!("/proc/{pid}/comm")) {
        Ok(name) => {
            let name: String = name.trim().chars().filter(|c| !c.is_control()).take(64).collect();
            format!("{name} (process {pid})")
        }
        Err(_) => format!("process {pid}"),
    }
}

/// The process that has a socket open; `None` when it belongs to somebody else.
pub(super) fn owner_of_socket(system: &System, inode: u64) -> Option<i64> {
    let wanted = format!("socket:[{inode}]");
    let mut looked_at = 0;
    for pid in system.names_in("/proc").iter().filter_map(|n| n.parse::<i64>().ok()) {
        let folder = format!("/proc/{pid}/fd");
        for name in system.names_in(&folder) {
            looked_at += 1;
            if looked_at > MAX_DESCRIPTORS {
                return None;
            }
            let target = std::fs::read_link(system.path(format!("{folder}/{name}")));
            if target.is_ok_and(|t| t.as_os_str() == wanted.as_str()) {
                return Some(pid);
            }
        }
    }
    None
}
