//! Batches of this process: the rows that its devices need, and no others, are read, made and sent.

use std::ops::Range;
use std::sync::Arc;

use runtime::{Backend, DeviceArray};
use tensor::{Literal, Spec};

use crate::data::{DataError, Dataset, Shard};
use crate::error::Error;
use crate::sharding::{BatchSharding, StateSharding};

/// Batches of this process. As a dataset, its batch has the arrays of each of its runs of rows, one run after the other.
pub(super) struct OwnRows {
    data: Arc<dyn Dataset>,
    on: Option<BatchSharding>,
    shards: Vec<Shard>,
}

impl OwnRows {
    /// All rows on one device; on a mesh those of the devices of this process.
    pub(super) fn new(data: Arc<dyn Dataset>, mesh: Option<&StateSharding>) -> Result<OwnRows, Error> {
        let specs = data.specs();
        let on = mesh.map(|mesh| mesh.batch(&specs)).transpose()?;
        let shards = match &on {
            None => vec![Shard::WHOLE],
            Some(on) => {
                let ranges = specs.iter().enumerate().map(|(n, spec)| on.local_rows(n, spec));
                shards_of(&specs, ranges.collect::<Result<_, _>>()?)
            }
        };
        Ok(OwnRows { data, on, shards })
    }

    /// Sends a batch.
    pub(super) fn send(&self, backend: &Backend, batch: &[Arc<Literal>]) -> Result<Vec<DeviceArray>, runtime::Error> {
        let Some(on) = &self.on else { return batch.iter().map(|array| backend.send(array)).collect() };
        let arrays = batch.len() / self.shards.len().max(1);
        let send = |n: usize| {
            let runs = self.shards.iter().zip(batch.iter().skip(n).step_by(arrays.max(1)));
            on.send_rows(backend, n, &runs.map(|(shard, array)| (*shard, array)).collect::<Vec<_>>())
        };
        (0..arrays).map(send).collect()
    }
}

impl Dataset for OwnRows {
    fn specs(&self) -> Vec<Spec> {
        self.data.specs()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.data.batches_per_epoch()
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        if self.shards == [Shard::WHOLE] {
            return self.data.batch(step);
        }
        let mut arrays = Vec::new();
        for shard in &self.shards {
            arrays.extend(self.data.rows(step, *shard)?);
        }
        Ok(arrays)
    }

    fn describe(&self) -> String {
        self.data.describe()
    }
}

/// The parts of a batch that have these rows of each array, as few as can be; all of it where they are no equal parts.
fn shards_of(specs: &[Spec], mut of_arrays: Vec<Vec<Range<usize>>>) -> Vec<Shard> {
    for ranges in &mut of_arrays {
        ranges.sort_by_key(|range| (range.start, range.end));
        ranges.dedup();
    }
    let Some(batch) = specs.first().and_then(|spec| spec.dims.first().copied()) else { return vec![Shard::WHOLE] };
    let Some(ranges) = of_arrays.first().cloned() else { return vec![Shard::WHOLE] };
    let is_alike =
        of_arrays.iter().all(|other| *other == ranges) && specs.iter().all(|spec| spec.dims.first() == Some(&batch));
    let part = |range: &Range<usize>| {
        let rows = range.end.checked_sub(range.start).filter(|rows| *rows > 0)?;
        let is_equal = batch.is_multiple_of(rows) && range.start.is_multiple_of(rows);
        is_equal.then(|| Shard { index: range.start / rows, count: batch / rows })
    };
    let is_run = ranges.windows(2).all(|pair| pair[0].end == pair[1].start);
    let whole_run = ranges.first().zip(ranges.last()).map(|(first, last)| first.start..last.end);
    let merged = whole_run.filter(|_| is_run).as_ref().and_then(part).map(|shard| vec![shard]);
    let parts = merged.or_else(|| ranges.iter().map(part).collect::<Option<Vec<_>>>());
    parts.filter(|parts| is_alike && !parts.is_empty()).unwrap_or_else(|| vec![Shard::WHOLE])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::DType;

    #[test]
    fn rows_become_as_few_parts_as_can_be() {
        // Begin and end of the rows of each device, for each array.
        let check = |arrays: &[&[(usize, usize)]], expected: &[(usize, usize)]| {
            let specs = vec![Spec::new(DType::F32, [8, 2]); arrays.len()];
            let ranges = arrays.iter().map(|ranges| ranges.iter().map(|(start, end)| *start..*end).collect());
            let shards = shards_of(&specs, ranges.collect());
            let expected: Vec<Shard> =
                expected.iter().map(|(index, count)| Shard { index: *index, count: *count }).collect();
            assert_eq!(shards, expected, "{arrays:?}");
        };
        check(&[&[(2, 4)]], &[(1, 4)]);
        check(&[&[(4, 6), (4, 6)], &[(4, 6)]], &[(2, 4)]);
        // Two devices with neighbouring rows, in any order; with rows that are no half; with rows apart.
        check(&[&[(2, 4), (0, 2)]], &[(0, 2)]);
        check(&[&[(2, 4), (4, 6)]], &[(1, 4), (2, 4)]);
        check(&[&[(0, 2), (4, 6)]], &[(0, 4), (2, 4)]);
        check(&[&[(0, 8)]], &[(0, 1)]);
        check(&[&[(0, 4), (4, 8)]], &[(0, 1)]);
        // Arrays that need different rows, and parts that are not equal.
        check(&[&[(0, 2)], &[(0, 8)]], &[(0, 1)]);
        check(&[&[(0, 3)]], &[(0, 1)]);
        check(&[], &[(0, 1)]);
    }
}
