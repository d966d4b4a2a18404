//! Work in chunks over all CPU cores, with results in the order of the chunks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads of a method: one for each core, few enough for the stacks of all.
fn count(chunks: usize) -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(64).min(chunks).max(1)
}

/// What `f` gives for each chunk of `0..total`, in order. A chunk is `chunk` long but for the last.
pub(crate) fn map_chunks<R: Send>(
    total: usize,
    chunk: usize,
    f: impl Fn(std::ops::Range<usize>) -> R + Sync,
) -> Vec<R> {
    let chunk = chunk.max(1);
    let chunks = total.div_ceil(chunk);
    let range = |index: usize| index * chunk..((index + 1) * chunk).min(total);
    let threads = count(chunks);
    if threads == 1 {
        return (0..chunks).map(|index| f(range(index))).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= chunks {
                return done;
            }
            done.push((index, f(range(index))));
        }
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Calls `f` with the number and the elements of each chunk of `values`. A chunk is `chunk` long but for the last.
pub(crate) fn for_each_chunk<T: Send>(values: &mut [T], chunk: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let chunk = chunk.max(1);
    let threads = count(values.len().div_ceil(chunk));
    let pending = values.chunks_mut(chunk).enumerate();
    if threads == 1 {
        pending.for_each(|(index, values)| f(index, values));
        return;
    }
    let pending = Mutex::new(pending);
    let work = || {
        loop {
            // A thread that panicked stops all of them: the scope panics too.
            let Some((index, values)) = pending.lock().ok().and_then(|mut pending| pending.next()) else { return };
            f(index, values);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_in_order_and_cover_everything() {
        for (total, chunk) in [(0, 3), (1, 3), (10, 3), (9, 3), (1000, 1), (5, 0)] {
            let ranges = map_chunks(total, chunk, |range| range.collect::<Vec<_>>());
            assert_eq!(ranges.concat(), (0..total).collect::<Vec<_>>());
            let mut values = vec![0; total];
            for_each_chunk(&mut values, chunk, |index, values| {
                values.iter_mut().enumerate().for_each(|(n, value)| *value = index * chunk.max(1) + n);
            });
            assert_eq!(values, (0..total).collect::<Vec<_>>());
        }
    }
}
