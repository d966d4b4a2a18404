//! What the host did: events by name, with the kind of work or wait that the name tells.

use super::nest::Closed;
use super::ops::{Sum, cut};
use std::collections::HashMap;

/// A name in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostId(u32);

/// Names of host events with their time.
#[derive(Default)]
pub(super) struct HostTable {
    names: Vec<(String, HostKind, Sum)>,
    by_name: HashMap<String, HostId>,
}

/// Names kept at most; further ones are counted together.
const MOST: usize = 1 << 16;
const LONGEST: usize = 300;

impl HostTable {
    pub(super) fn intern(&mut self, name: &str) -> HostId {
        let mut name = name.to_string();
        cut(&mut name, LONGEST);
        if self.names.len() >= MOST && !self.by_name.contains_key(&name) {
            name = "(further names)".into();
        }
        if let Some(&id) = self.by_name.get(&name) {
            return id;
        }
        let id = HostId(self.names.len() as u32);
        self.names.push((name.clone(), HostKind::of(&name), Sum::default()));
        self.by_name.insert(name, id);
        id
    }

    pub(super) fn add(&mut self, closed: &Closed<HostId>) {
        self.names[closed.what.0 as usize].2.add(1, closed.total_ps, closed.self_ps);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, HostKind, &Sum)> {
        self.names.iter().filter(|(.., sum)| sum.count > 0).map(|(name, kind, sum)| (name.as_str(), *kind, sum))
    }
}

/// What a host event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostKind {
    Data,
    HostToDevice,
    DeviceToHost,
    Compile,
    Dispatch,
    DeviceWait,
    Checkpoint,
    Python,
    Other,
}

/// Pieces of names by the kind they tell; the first that is found decides.
const PIECES: &[(HostKind, &[&str])] = &[
    (HostKind::Data, &["IteratorGetNext", "Iterator::", "data_wait", "data wait", "next_batch", "DataLoader"]),
    (HostKind::Compile, &["ompile", "XlaLower", "lower_jaxpr"]),
    (
        HostKind::HostToDevice,
        &[
            "TransferToDevice",
            "H2D",
            "HtoD",
            "BufferFromHost",
            "XlaLinearize",
            "device_put",
            "DevicePut",
            "TransferHostToDevice",
        ],
    ),
    (
        HostKind::DeviceToHost,
        &["TransferFromDevice", "D2H", "DtoH", "Delinearize", "ToLiteral", "CopyToHost", "CopyRawToHost"],
    ),
    (
        HostKind::DeviceWait,
        &[
            "lockUntilReady",
            "block_until_ready",
            "wait for device",
            "device_wait",
            "StreamSynchronize",
            "EventSynchronize",
            "CtxSynchronize",
            "Await",
        ],
    ),
    (HostKind::Checkpoint, &["heckpoint", "save"]),
    (HostKind::Dispatch, &["PjitFunction", "Execute", "EnqueueProgram", "Launch", "dispatch", "RunProgram"]),
];

impl HostKind {
    fn of(name: &str) -> HostKind {
        if name.starts_with('$') {
            return HostKind::Python;
        }
        let is_in = |pieces: &[&str]| pieces.iter().any(|piece| name.contains(piece));
        PIECES.iter().find(|(_, pieces)| is_in(pieces)).map_or(HostKind::Other, |(kind, _)| *kind)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            HostKind::Data => "data",
            HostKind::HostToDevice => "host to device",
            HostKind::DeviceToHost => "device to host",
            HostKind::Compile => "compile",
            HostKind::Dispatch => "dispatch",
            HostKind::DeviceWait => "wait for device",
            HostKind::Checkpoint => "checkpoint",
            HostKind::Python => "Python",
            HostKind::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_kind() {
        for (name, kind) in [
            ("tpu::System::TransferToDevice=>IssueEvent=>Done", HostKind::HostToDevice),
            ("PjitFunction(step)", HostKind::Dispatch),
            ("IteratorGetNextOp::DoCompute", HostKind::Data),
            ("$profiler.py:307 trace", HostKind::Python),
            ("TfrtCpuClient::Compile", HostKind::Compile),
            ("cuStreamSynchronize", HostKind::DeviceWait),
            ("ParseArguments", HostKind::Other),
        ] {
            assert_eq!(HostKind::of(name), kind, "{name}");
        }
    }
}
