//! Which process writes which part of a checkpoint: each part once, by a process whose devices hold it.

use std::collections::BTreeMap;

use runtime::distributed::Session;
use runtime::{Backend, DeviceArray, Error};
use weights::{Cause, SaveGroup, SnapshotPiece, TensorRegion};

/// The processes of a session, as those that save together.
#[derive(Debug)]
pub(super) struct SavingProcesses {
    session: Session,
    work: String,
}

impl SavingProcesses {
    pub(super) fn new(session: &Session) -> SavingProcesses {
        SavingProcesses { work: session.next_work(), session: session.clone() }
    }
}

impl SaveGroup for SavingProcesses {
    fn process(&self) -> usize {
        self.session.config().process_id
    }

    fn processes(&self) -> usize {
        self.session.config().processes
    }

    fn tell(&self, name: &str, value: &[u8]) -> Result<(), Cause> {
        Ok(self.session.tell(&format!("{}/{name}", self.work), value)?)
    }

    fn hear(&self, name: &str) -> Result<Vec<u8>, Cause> {
        Ok(self.session.hear(&format!("{}/{name}", self.work))?)
    }

    fn still_member(&self) -> Result<(), Cause> {
        Ok(self.session.still_member()?)
    }
}

/// Shares the parts of arrays out among the processes that have them. All processes come to the same result, because all know
/// the mesh and ask for the same arrays in the same order.
#[derive(Debug, Default)]
struct Writers {
    /// Bytes that each process writes.
    bytes: BTreeMap<usize, u64>,
}

impl Writers {
    /// The process that writes each part of an array: of those that have it, the one with the least to write so far. Replicas
    /// are written once.
    fn share_out(&mut self, holders: &[(TensorRegion, usize)], element_bytes: usize) -> Vec<(TensorRegion, usize)> {
        let mut shared: Vec<(TensorRegion, usize)> = Vec::new();
        for (region, _) in holders {
            if shared.iter().any(|(have, _)| have == region) {
                continue;
            }
            let having = holders.iter().filter(|(held, _)| held == region).map(|(_, process)| *process);
            let load = |process: &usize| (self.bytes.get(process).copied().unwrap_or_default(), *process);
            let Some(writer) = having.min_by_key(load) else { continue };
            let size_bytes = region.size_bytes(element_bytes).unwrap_or(usize::MAX) as u64;
            let bytes = self.bytes.entry(writer).or_default();
            *bytes = bytes.saturating_add(size_bytes);
            shared.push((region.clone(), writer));
        }
        shared
    }
}

/// Copies to the host what this process writes of a state. Nothing is gathered.
pub(super) fn own_pieces(backend: &Backend, arrays: Vec<(String, DeviceArray)>) -> Result<Vec<SnapshotPiece>, Error> {
    let mut writers = Writers::default();
    let mut pieces = Vec::new();
    for (path, array) in arrays {
        let spec = array.spec();
        let holders = match array.named_sharding() {
            Some(placed) => {
                let processes = placed.mesh.processes().iter().copied();
                placed.regions(spec)?.into_iter().zip(processes).collect()
            }
            None => vec![(TensorRegion::whole(&spec.dims), 0)],
        };
        let shared = writers.share_out(&holders, spec.dtype.size_bytes());
        let is_own = |region: &TensorRegion| shared.contains(&(region.clone(), backend.rank()));
        for (region, part) in array.some_parts_to_host(&is_own)? {
            pieces.push(SnapshotPiece::slice(path.clone(), &spec.dims, &region.start, part.into()));
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(start: usize, size: usize) -> TensorRegion {
        TensorRegion { start: vec![start], size: vec![size] }
    }

    #[test]
    fn each_part_is_written_once_and_the_work_is_shared() {
        let mut writers = Writers::default();
        // Sharded in two, each half on two processes; then whole on all four.
        let halves = [(rows(0, 2), 0), (rows(2, 2), 1), (rows(0, 2), 2), (rows(2, 2), 3)];
        assert_eq!(writers.share_out(&halves, 4), [(rows(0, 2), 0), (rows(2, 2), 1)]);
        assert_eq!(writers.share_out(&halves, 4), [(rows(0, 2), 2), (rows(2, 2), 3)]);
        let whole = [0, 1, 2, 3].map(|process| (rows(0, 4), process));
        let who: Vec<usize> = (0..4).map(|_| writers.share_out(&whole, 1)[0].1).collect();
        assert_eq!(who, [0, 1, 2, 3]);
        assert!(writers.bytes.values().all(|bytes| *bytes == 12), "{writers:?}");
        assert_eq!(writers.share_out(&[], 4), []);
    }
}
