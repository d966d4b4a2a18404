//! Flash attention as two composites, forward and backward, which TPUs get as kernels: scores never reach HBM.

use hlo::Attrs;
use kernel::composites::{FLASH, FLASH_BACKWARD, FlashAttributes};
use tensor::DType;
use trace::{CompileTarget, PartitionSpec, Tensor, Tree, composite, custom_vjp, shard_map};

use super::attend::{AttentionMask, Positions, Saved, Scoring, online_softmax, online_softmax_backward};

/// Elements of the queries of one head that one backward kernel takes: it keeps them, their residuals and their gradients in VMEM,
/// which has 64 to 128 MiB.
const CHUNK_ELEMENTS: usize = 1 << 21;

/// Keys in one block where no kernel is known.
pub(super) const BLOCK: usize = 512;

/// From so many keys on, `auto` chooses flash or chunked attention.
const LONG: usize = 1024;

/// From so many keys on, `auto` chooses flash attention on GPUs, which have it from cuDNN.
const LONG_ON_CUDA: usize = 128;

/// Whether flash attention is the better implementation for so many keys of so many KV heads.
pub(super) fn is_better(queries: usize, keys: usize, key_heads: usize, dtype: DType, positions: &Positions) -> bool {
    // A kernel needs whole sequences: with sequence parallelism there must be heads for the all-to-all (Ulysses).
    let has_whole_sequences = || {
        let Some(rules) = trace::current_rules() else { return true };
        let heads = ulysses_rules(&rules).sharding(&["heads"], &[key_heads]);
        let sequence = rules.axes.get("sequence").map_or(&[][..], Vec::as_slice);
        sequence.iter().all(|axis| rules.mesh.size_of(axis) == Some(1) || heads.axes().any(|used| used == axis))
    };
    let long = match trace::current_target() {
        CompileTarget::Cuda if dtype != DType::F32 => LONG_ON_CUDA,
        CompileTarget::Any | CompileTarget::Cpu | CompileTarget::Cuda => LONG,
    };
    keys >= long && is_possible(queries, keys, positions) && has_whole_sequences()
}

/// Logical axis rules of Ulysses sequence parallelism: devices that share sequences have whole ones, of fewer heads each. The
/// partitioner turns the change into all-to-alls.
fn ulysses_rules(rules: &trace::LogicalAxisRules) -> trace::LogicalAxisRules {
    let mut rules = rules.clone();
    let sequence = rules.axes.remove("sequence").unwrap_or_default();
    rules.axes.entry("heads".into()).or_default().extend(sequence);
    rules
}

/// Whether the scores of plain attention would take much memory.
pub(super) fn is_long(queries: usize, keys: usize) -> bool {
    queries >= LONG && keys >= LONG
}

/// Whether queries and keys are one sequence from its first position on.
pub(super) fn is_possible(queries: usize, keys: usize, positions: &Positions) -> bool {
    positions.is_sequence && queries == keys
}

/// What the composites take.
type Inputs = (Tensor, Tensor, Tensor, Option<(Tensor, Tensor)>);

/// Attention of `query [batch, queries, heads, head]` to `key` and `value [batch, keys, kv heads, head]`.
#[track_caller]
pub(super) fn flash(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    scale: f64,
) -> Tensor {
    let by_head = |tensor: &Tensor| tensor.transpose(&[0, 2, 1, 3]);
    let rows = |numbers: &Tensor| numbers.expand(1);
    let segments = positions.segments.as_ref().map(|(queries, keys)| (rows(queries), rows(keys)));
    let inputs: Inputs = (by_head(query), by_head(key), by_head(value), segments);
    let (out, _) = custom_vjp(
        &inputs,
        |inputs| {
            on_each_device(inputs, |inputs| {
                composite(FLASH, attributes(mask, scale), inputs, |inputs| forward(inputs, mask, scale))
            })
        },
        move |inputs: &Inputs, (out, total): &(Tensor, Tensor), (ct, _)| {
            let (query, key, value, segments) = inputs.clone();
            let all = (query, key, value, (out.clone(), total.clone(), ct.clone()), segments);
            let (query, key, value) = backward_on_each_device(&all, |all| {
                let chunk = match trace::current_target() {
                    CompileTarget::Any | CompileTarget::Cpu => chunk_of(all.0.dims()[2], all.0.dims()[3]),
                    CompileTarget::Cuda => all.0.dims()[2],
                };
                backward_in_chunks(all, mask, scale, chunk)
            });
            (query, key, value, inputs.3.as_ref().map(|pair| pair.map_leaves(Tensor::zeros_like)))
        },
    );
    by_head(&out.named("attention")).with_logical_axes(&["batch", "sequence", "heads", "head"])
}

fn attributes(mask: AttentionMask, scale: f64) -> Attrs {
    let window = match mask {
        AttentionMask::SlidingWindow(size) => Some(size),
        // The last two have another implementation.
        AttentionMask::Causal | AttentionMask::Full | AttentionMask::Chunk(_) | AttentionMask::Around(_) => None,
    };
    FlashAttributes { causal: mask != AttentionMask::Full, window, scale: scale as f32, soft_cap: None, density: None }
        .to_attrs()
}

/// `[batch, heads, queries, head]` as `[batch, queries, kv heads, repeats, head]`.
fn grouped(query: &Tensor, groups: usize) -> Tensor {
    let [batch, heads, queries, head] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    query.reshape(&[batch, groups, heads / groups.max(1), queries, head]).transpose(&[0, 3, 1, 2, 4])
}

fn by_position(tensor: &Tensor) -> Tensor {
    tensor.transpose(&[0, 2, 1, 3])
}

/// Positions where the last query is at the last key.
fn positions_of(queries: usize, keys: usize, segments: &Option<(Tensor, Tensor)>) -> Positions {
    let flat = |numbers: &Tensor| numbers.squeeze(1);
    let segments = segments.as_ref().map(|(queries, keys)| (flat(queries), flat(keys)));
    let of_keys = Positions::sequence(keys);
    Positions { queries: of_keys.queries.slice(0, keys.saturating_sub(queries)..keys), segments, ..of_keys }
}

/// What [`FLASH`] means.
fn forward((query, key, value, segments): &Inputs, mask: AttentionMask, scale: f64) -> (Tensor, Tensor) {
    let [batch, heads, queries, _] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let groups = key.dims()[1];
    let (key, value) = (by_position(key), by_position(value));
    let block = BLOCK.min(queries.max(1));
    let positions = positions_of(queries, queries, segments);
    let scoring = Scoring::scaled(scale);
    let (out, total) = online_softmax(&grouped(query, groups), &key, &value, &positions, None, mask, scoring, block);
    (out.transpose(&[0, 2, 3, 1, 4]).reshape(query.dims()), total.reshape(&[batch, heads, 1, queries]))
}

/// What [`FLASH_BACKWARD`] takes.
type BackwardInputs = (Tensor, Tensor, Tensor, (Tensor, Tensor, Tensor), Option<(Tensor, Tensor)>);

/// What [`FLASH_BACKWARD`] means.
fn backward(all: &BackwardInputs, mask: AttentionMask, scale: f64) -> (Tensor, Tensor, Tensor) {
    let (query, key, value, (out, total, ct), segments) = all;
    let [batch, heads, queries, _] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let groups = key.dims()[1];
    let total = total.reshape(&[batch, groups, heads / groups.max(1), queries]);
    let (out, ct) = (grouped(out, groups), grouped(ct, groups));
    let saved = Saved { out: &out, total: &total, ct: &ct };
    let block = BLOCK.min(queries.max(1));
    let (key, value) = (by_position(key), by_position(value));
    let positions = positions_of(queries, key.dims()[1], segments);
    let scoring = Scoring::scaled(scale);
    let (query_ct, key_ct, value_ct) =
        online_softmax_backward(&grouped(query, groups), &key, &value, &positions, &saved, mask, scoring, block);
    let query_ct = query_ct.transpose(&[0, 2, 3, 1, 4]).reshape(query.dims());
    (query_ct, by_position(&key_ct), by_position(&value_ct))
}

/// Queries of one backward kernel: all, or a part that divides them evenly into whole blocks.
fn chunk_of(queries: usize, head: usize) -> usize {
    let mut chunk = queries;
    while chunk.saturating_mul(head) > CHUNK_ELEMENTS && chunk.is_multiple_of(2 * BLOCK) {
        chunk /= 2;
    }
    chunk
}

/// The backward pass of so many queries at a time, each part with the keys it attends to: cotangents of keys add up.
#[track_caller]
fn backward_in_chunks(all: &BackwardInputs, mask: AttentionMask, scale: f64, chunk: usize) -> (Tensor, Tensor, Tensor) {
    let whole = |all: &BackwardInputs, mask: AttentionMask| {
        composite(FLASH_BACKWARD, attributes(mask, scale), all, |all| backward(all, mask, scale))
    };
    let queries = all.0.dims()[2];
    if chunk >= queries || chunk == 0 || !queries.is_multiple_of(chunk) {
        return whole(all, mask);
    }
    let (mut query_cts, mut key_ct, mut value_ct) = (Vec::new(), None, None);
    for begin in (0..queries).step_by(chunk) {
        let mut query_ct = None;
        for (keys, mask) in key_chunks(begin..begin + chunk, queries, mask) {
            let (of_query, of_key, of_value) = whole(&part_of(all, begin..begin + chunk, keys.clone()), mask);
            let placed = |ct: &Tensor| ct.cast(DType::F32).pad(2, keys.start, queries - keys.end);
            add_to(&mut query_ct, of_query.cast(DType::F32));
            add_to(&mut key_ct, placed(&of_key));
            add_to(&mut value_ct, placed(&of_value));
        }
        query_cts.extend(query_ct);
    }
    let narrow = |sum: Option<Tensor>, like: &Tensor| sum.map_or(like.clone(), |sum| sum.cast(like.dtype()));
    let query_ct = Tensor::concat(&query_cts, 2).cast(all.0.dtype());
    (query_ct, narrow(key_ct, &all.1), narrow(value_ct, &all.2))
}

fn add_to(sum: &mut Option<Tensor>, more: Tensor) {
    *sum = Some(match sum.take() {
        Some(sum) => sum + more,
        None => more,
    });
}

/// The keys that a part of the queries attends to, and the mask for each part of them. A kernel knows no other position of its
/// queries than at its last keys.
fn key_chunks(
    part: std::ops::Range<usize>,
    keys: usize,
    mask: AttentionMask,
) -> Vec<(std::ops::Range<usize>, AttentionMask)> {
    let size = part.len();
    let before =
        |end: usize| (0..end).step_by(size).map(move |begin| (begin..(begin + size).min(end), AttentionMask::Full));
    match mask {
        AttentionMask::Full => before(keys).collect(),
        AttentionMask::Causal => before(part.start).chain([(part, AttentionMask::Causal)]).collect(),
        AttentionMask::Chunk(_) | AttentionMask::Around(_) => vec![(0..keys, mask)],
        // Whole blocks: the kernel masks what lies before the window.
        AttentionMask::SlidingWindow(window) => {
            let first = part.start.saturating_sub(window) / BLOCK * BLOCK;
            vec![(first..part.end, mask)]
        }
    }
}

/// These queries, and these keys.
fn part_of(all: &BackwardInputs, queries: std::ops::Range<usize>, keys: std::ops::Range<usize>) -> BackwardInputs {
    let (query, key, value, (out, total, ct), segments) = all;
    let of_queries = |tensor: &Tensor| tensor.slice(2, queries.clone());
    let of_keys = |tensor: &Tensor| tensor.slice(2, keys.clone());
    let sums = total.slice(3, queries.clone());
    let segments = segments.as_ref().map(|(queries, keys)| (of_queries(queries), of_keys(keys)));
    (of_queries(query), of_keys(key), of_keys(value), (of_queries(out), sums, of_queries(ct)), segments)
}

/// How heads are sharded, by those of the keys: `None` without a mesh.
fn by_heads(key: &Tensor) -> Option<PartitionSpec> {
    let rules = ulysses_rules(&*trace::current_rules()?);
    Some(rules.sharding(&["batch", "heads", "keys", "head"], key.dims()))
}

/// The sharding of each leaf: four axes as the heads, three as their batch.
fn shardings<T: Tree>(tree: &T, heads: &PartitionSpec) -> Vec<PartitionSpec> {
    let of = |spec: &trace::Spec| PartitionSpec {
        dims: if spec.dims.len() == 4 {
            heads.dims.clone()
        } else {
            vec![heads.dims[0].clone(), Some(Vec::new()), Some(Vec::new())]
        },
    };
    tree.specs().iter().map(of).collect()
}

/// A kernel knows one device only: each runs it on its own heads of its own sequences.
#[track_caller]
fn on_each_device(inputs: &Inputs, f: impl FnOnce(&Inputs) -> (Tensor, Tensor)) -> (Tensor, Tensor) {
    match by_heads(&inputs.1) {
        Some(heads) => shard_map(inputs, &shardings(inputs, &heads), &[heads.clone(), heads.clone()], f),
        None => f(inputs),
    }
}

#[track_caller]
fn backward_on_each_device(
    inputs: &BackwardInputs,
    f: impl FnOnce(&BackwardInputs) -> (Tensor, Tensor, Tensor),
) -> (Tensor, Tensor, Tensor) {
    match by_heads(&inputs.1) {
        Some(heads) => shard_map(inputs, &shardings(inputs, &heads), &[heads.clone(), heads.clone(), heads.clone()], f),
        None => f(inputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_attention_is_for_self_attention() {
        trace::shapes_of(&(), |()| {
            let positions = Positions::sequence(2048);
            assert!(
                is_better(2048, 2048, 4, DType::F32, &positions)
                    && !is_better(128, 128, 4, DType::F32, &Positions::sequence(128))
            );
            assert!(!is_better(1, 2048, 4, DType::F32, &positions) && !is_long(1, 2048) && is_long(2048, 2048));
            let given = Positions { is_sequence: false, ..positions };
            assert!(!is_possible(2048, 2048, &given));
        })
        .unwrap();
    }

    #[test]
    fn long_sequences_are_taken_in_whole_blocks() {
        assert_eq!(chunk_of(8192, 128), 8192);
        assert_eq!(chunk_of(32768, 256), 8192);
        assert_eq!(chunk_of(131_072, 128), 16384);
        // Not into parts that are no blocks.
        assert_eq!(chunk_of(1000 * 512 + 1, 256), 1000 * 512 + 1);
        let ranges = |mask| key_chunks(2048..3072, 4096, mask);
        assert_eq!(ranges(AttentionMask::SlidingWindow(700)), [(1024..3072, AttentionMask::SlidingWindow(700))]);
        assert_eq!(
            ranges(AttentionMask::Causal)[1..],
            [(1024..2048, AttentionMask::Full), (2048..3072, AttentionMask::Causal)]
        );
        assert_eq!(ranges(AttentionMask::Full).len(), 4);
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        use compile::Program;
        use runtime::config::{Config, Mode, Target};
        use runtime::{Backend, Parameters};
        let (function, _) = trace::trace("pieces", &(), trace::Donate::Nothing, |()| {
            let keys = trace::Key::from_seed(3u64).split(4);
            let of = |n: usize, heads: usize| keys[n].normal(DType::F32, &[2, heads, 1536, 4]);
            let (query, key, value, ct) = (of(0, 4), of(1, 2), of(2, 2), of(3, 4));
            let number = Tensor::iota(DType::I32, &[2, 1, 1536], 2);
            let numbers = number.greater(&Tensor::scalar(DType::I32, 700.0)).cast(DType::I32);
            let mut off = Vec::new();
            for mask in [AttentionMask::Full, AttentionMask::Causal, AttentionMask::SlidingWindow(300)] {
                for segments in [None, Some((numbers.clone(), numbers.clone()))] {
                    let inputs = (query.clone(), key.clone(), value.clone(), segments.clone());
                    let (out, total) = forward(&inputs, mask, 0.5);
                    let all = (query.clone(), key.clone(), value.clone(), (out, total, ct.clone()), segments);
                    let (whole, parts) = (backward(&all, mask, 0.5), backward_in_chunks(&all, mask, 0.5, 512));
                    for (whole, part) in whole.leaves().into_iter().zip(parts.leaves()) {
                        off.push((&whole - &part).abs().max(&[0, 1, 2, 3]) / whole.abs().max(&[0, 1, 2, 3]));
                    }
                }
            }
            Tensor::stack(&off, 0)
        })
        .unwrap();
        let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu)).unwrap();
        let program = std::sync::Arc::new(Program::from_module(function.module));
        let results =
            backend.prepare_program(&program, &Parameters::none()).unwrap().run::<runtime::DeviceArray>(&[]).unwrap();
        let bytes = results[0].to_host().unwrap().bytes().to_vec();
        let off: Vec<f32> = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(off.len(), 18);
        assert!(off.iter().all(|off| *off < 1e-5), "{off:?}");
    }
}
