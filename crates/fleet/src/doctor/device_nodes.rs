//! Check of the device nodes through which libtpu reaches its chips.

use std::os::unix::fs::MetadataExt;

use rustix::fs::Access;

use super::{Check, Context};
use crate::System;

const NAME: &str = "device nodes";

/// A node and whether this user may use it.
struct Node {
    path: String,
    mode: u32,
    uid: u32,
    gid: u32,
    usable: bool,
}

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    judge(&nodes(context.system), context.tpus.len())
}

fn nodes(system: &System) -> Vec<Node> {
    let numbered = |name: &str, prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
    };
    let accel = system.names_in("/dev").into_iter().filter(|n| numbered(n, "accel")).map(|n| format!("/dev/{n}"));
    let vfio = system.names_in("/dev/vfio").into_iter();
    let vfio = vfio.filter(|n| n == "vfio" || numbered(n, "")).map(|n| format!("/dev/vfio/{n}"));
    accel
        .chain(vfio)
        .filter_map(|path| {
            let place = system.path(&path);
            let metadata = place.metadata().ok().filter(|m| !m.is_dir())?;
            let usable = rustix::fs::access(&place, Access::READ_OK | Access::WRITE_OK).is_ok();
            Some(Node { path, mode: metadata.mode() & 0o777, uid: metadata.uid(), gid: metadata.gid(), usable })
        })
        .collect()
}

fn judge(nodes: &[Node], tpu_count: usize) -> Vec<Check> {
    // /dev/vfio/vfio is the container node, not a chip.
    let chips = nodes.iter().filter(|n| n.path != "/dev/vfio/vfio").count();
    if chips == 0 {
        return vec![match tpu_count {
            0 => Check::skipped(NAME, "no /dev/accel* or /dev/vfio/*"),
            count => Check::fail(
                NAME,
                format!("{count} TPU chips on the PCI bus, but no /dev/accel* or /dev/vfio/*"),
                "load the TPU driver (use a TPU VM image), or pass the nodes into the container (`--privileged`, or `--device`)",
            ),
        }];
    }
    let closed: Vec<&Node> = nodes.iter().filter(|n| !n.usable).collect();
    if let Some(first) = closed.first() {
        return vec![Check::fail(
            NAME,
            format!(
                "{} of {} may not be read and written by this user ({} is mode {:03o}, user {}, group {})",
                closed.len(),
                nodes.len(),
                first.path,
                first.mode,
                first.uid,
                first.gid
            ),
            format!("add your user to group {}, or run with sudo", first.gid),
        )];
    }
    let names = nodes.iter().map(|n| n.path.as_str()).collect::<Vec<_>>().join(", ");
    if chips < tpu_count {
        return vec![Check::warn(
            NAME,
            format!("{names}: {chips} nodes for {tpu_count} chips on the PCI bus"),
            "pass all nodes into the container, or look for driver errors with `dmesg`",
        )];
    }
    vec![Check::ok(NAME, names)]
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn nodes_are_judged() {
        let node = |path: &str, usable| Node { path: path.into(), mode: 0o600, uid: 0, gid: 7, usable };
        let check = |nodes: &[Node], tpus, expected| assert_eq!(judge(nodes, tpus)[0].status, expected);
        check(&[], 0, Status::Skipped);
        check(&[], 4, Status::Fail);
        check(&[node("/dev/vfio/vfio", true)], 0, Status::Skipped);
        check(&[node("/dev/vfio/vfio", true), node("/dev/vfio/0", true)], 1, Status::Ok);
        check(&[node("/dev/accel0", true)], 4, Status::Warn);
        check(&[node("/dev/accel0", false)], 1, Status::Fail);
        assert!(judge(&[node("/dev/accel0", false)], 1)[0].remedy.as_ref().unwrap().contains("group 7"));
    }
}
