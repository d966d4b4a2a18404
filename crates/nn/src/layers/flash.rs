//! Attention as two composites, forward and backward, which TPU compilers get as kernels: scores never reach memory.

use hlo::Attrs;
use kernel::composites::{FLASH, FLASH_BACKWARD, FlashAttributes};
use tensor::DType;
use trace::{Sharding, Tensor, Tree, composite, custom_vjp, shard_map};

use super::attend::{Places, Saved, Sight, running_backward, running_softmax};

/// Elements of the queries of one head that one backward kernel takes: it keeps them, what belongs to them and their gradients in
/// the memory beside the core, which has 64 to 128 MiB.
const PIECE_ELEMENTS: usize = 1 << 21;

/// Keys in one block where no kernel is known.
pub(super) const BLOCK: usize = 512;

/// From so many keys on, attention that may choose is computed so.
const LONG: usize = 1024;

/// Whether attention over so many keys of so many heads is better computed block by block.
pub(super) fn is_better(queries: usize, keys: usize, key_heads: usize, places: &Places) -> bool {
    // A kernel needs whole sequences: devices that share one must have heads to exchange for positions.
    let has_whole_sequences = || {
        let Some(layout) = trace::layout() else { return true };
        let heads = heads_for_positions(&layout).sharding(&["heads"], &[key_heads]);
        let positions = layout.meanings.get("sequence").map_or(&[][..], Vec::as_slice);
        positions.iter().all(|axis| layout.mesh.size_of(axis) == Some(1) || heads.axes().any(|used| used == axis))
    };
    keys >= LONG && is_possible(queries, keys, places) && has_whole_sequences()
}

/// The layout in which devices that share sequences have whole ones, of fewer heads.
fn heads_for_positions(layout: &trace::Layout) -> trace::Layout {
    let mut layout = layout.clone();
    let positions = layout.meanings.remove("sequence").unwrap_or_default();
    layout.meanings.entry("heads".into()).or_default().extend(positions);
    layout
}

/// Whether all scores at once would take much memory.
pub(super) fn is_long(queries: usize, keys: usize) -> bool {
    queries >= LONG && keys >= LONG
}

/// Whether queries and keys are one sequence from its first position on.
pub(super) fn is_possible(queries: usize, keys: usize, places: &Places) -> bool {
    places.is_sequence && queries == keys
}

/// What the composites take.
type Inputs = (Tensor, Tensor, Tensor, Option<(Tensor, Tensor)>);

/// Attention of `query [batch, queries, heads, head]` to `key` and `value [batch, keys, groups, head]`.
#[track_caller]
pub(super) fn flash(query: &Tensor, key: &Tensor, value: &Tensor, places: &Places, sight: Sight, scale: f64) -> Tensor {
    let by_head = |tensor: &Tensor| tensor.transpose(&[0, 2, 1, 3]);
    let rows = |numbers: &Tensor| numbers.expand(1);
    let segments = places.segments.as_ref().map(|(queries, keys)| (rows(queries), rows(keys)));
    let inputs: Inputs = (by_head(query), by_head(key), by_head(value), segments);
    let (out, _) = custom_vjp(
        &inputs,
        |inputs| {
            on_each_device(inputs, |inputs| {
                composite(FLASH, attributes(sight, scale), inputs, |inputs| forward(inputs, sight, scale))
            })
        },
        move |inputs: &Inputs, (out, total): &(Tensor, Tensor), (ct, _)| {
            let (query, key, value, segments) = inputs.clone();
            let all = (query, key, value, (out.clone(), total.clone(), ct.clone()), segments);
            let (query, key, value) = backward_on_each_device(&all, |all| {
                let piece = piece_of(all.0.dims()[2], all.0.dims()[3]);
                backward_in_pieces(all, sight, scale, piece)
            });
            (query, key, value, inputs.3.as_ref().map(|pair| pair.map_leaves(Tensor::zeros_like)))
        },
    );
    by_head(&out.named("attention")).laid_out(&["batch", "sequence", "heads", "head"])
}

fn attributes(sight: Sight, scale: f64) -> Attrs {
    let window = match sight {
        Sight::Window(size) => Some(size),
        Sight::Causal | Sight::Everything => None,
    };
    FlashAttributes { causal: sight != Sight::Everything, window, scale: scale as f32 }.to_attrs()
}

/// `[batch, heads, queries, head]` as `[batch, queries, groups, repeats, head]`.
fn grouped(query: &Tensor, groups: usize) -> Tensor {
    let [batch, heads, queries, head] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    query.reshape(&[batch, groups, heads / groups.max(1), queries, head]).transpose(&[0, 3, 1, 2, 4])
}

fn by_position(tensor: &Tensor) -> Tensor {
    tensor.transpose(&[0, 2, 1, 3])
}

/// The last query stands at the last key.
fn places_of(queries: usize, keys: usize, segments: &Option<(Tensor, Tensor)>) -> Places {
    let flat = |numbers: &Tensor| numbers.squeeze(1);
    let segments = segments.as_ref().map(|(queries, keys)| (flat(queries), flat(keys)));
    let of_keys = Places::sequence(keys);
    Places { queries: of_keys.queries.slice(0, keys.saturating_sub(queries)..keys), segments, ..of_keys }
}

/// What [`FLASH`] means.
fn forward((query, key, value, segments): &Inputs, sight: Sight, scale: f64) -> (Tensor, Tensor) {
    let [batch, heads, queries, _] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let groups = key.dims()[1];
    let (key, value) = (by_position(key), by_position(value));
    let block = BLOCK.min(queries.max(1));
    let places = places_of(queries, queries, segments);
    let (out, total) = running_softmax(&grouped(query, groups), &key, &value, &places, sight, scale, block);
    (out.transpose(&[0, 2, 3, 1, 4]).reshape(query.dims()), total.reshape(&[batch, heads, 1, queries]))
}

/// What [`FLASH_BACKWARD`] takes.
type BackwardInputs = (Tensor, Tensor, Tensor, (Tensor, Tensor, Tensor), Option<(Tensor, Tensor)>);

/// What [`FLASH_BACKWARD`] means.
fn backward(all: &BackwardInputs, sight: Sight, scale: f64) -> (Tensor, Tensor, Tensor) {
    let (query, key, value, (out, total, ct), segments) = all;
    let [batch, heads, queries, _] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let groups = key.dims()[1];
    let total = total.reshape(&[batch, groups, heads / groups.max(1), queries]);
    let (out, ct) = (grouped(out, groups), grouped(ct, groups));
    let saved = Saved { out: &out, total: &total, ct: &ct };
    let block = BLOCK.min(queries.max(1));
    let (key, value) = (by_position(key), by_position(value));
    let places = places_of(queries, key.dims()[1], segments);
    let (query_ct, key_ct, value_ct) =
        running_backward(&grouped(query, groups), &key, &value, &places, &saved, sight, scale, block);
    let query_ct = query_ct.transpose(&[0, 2, 3, 1, 4]).reshape(query.dims());
    (query_ct, by_position(&key_ct), by_position(&value_ct))
}

/// Queries of one backward kernel: all, or a part that divides them evenly into whole blocks.
fn piece_of(queries: usize, head: usize) -> usize {
    let mut piece = queries;
    while piece.saturating_mul(head) > PIECE_ELEMENTS && piece.is_multiple_of(2 * BLOCK) {
        piece /= 2;
    }
    piece
}

/// The backward pass of so many queries at a time, each part with the keys it sees: cotangents of keys add up.
#[track_caller]
fn backward_in_pieces(all: &BackwardInputs, sight: Sight, scale: f64, piece: usize) -> (Tensor, Tensor, Tensor) {
    let whole = |all: &BackwardInputs, sight: Sight| {
        composite(FLASH_BACKWARD, attributes(sight, scale), all, |all| backward(all, sight, scale))
    };
    let queries = all.0.dims()[2];
    if piece >= queries || piece == 0 || !queries.is_multiple_of(piece) {
        return whole(all, sight);
    }
    let (mut query_cts, mut key_ct, mut value_ct) = (Vec::new(), None, None);
    for begin in (0..queries).step_by(piece) {
        let mut query_ct = None;
        for (keys, sight) in key_pieces(begin..begin + piece, queries, sight) {
            let (of_query, of_key, of_value) = whole(&part_of(all, begin..begin + piece, keys.clone()), sight);
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

/// The keys that a part of the queries sees, and how it sees each part of them. A kernel knows no other place of its queries than
/// at its last keys.
fn key_pieces(part: std::ops::Range<usize>, keys: usize, sight: Sight) -> Vec<(std::ops::Range<usize>, Sight)> {
    let size = part.len();
    let before =
        |end: usize| (0..end).step_by(size).map(move |begin| (begin..(begin + size).min(end), Sight::Everything));
    match sight {
        Sight::Everything => before(keys).collect(),
        Sight::Causal => before(part.start).chain([(part, Sight::Causal)]).collect(),
        // Whole blocks: what lies before the window is hidden by the kernel.
        Sight::Window(window) => {
            let first = part.start.saturating_sub(window) / BLOCK * BLOCK;
            vec![(first..part.end, sight)]
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

/// How heads lie on the mesh, by those of the keys: `None` without a mesh.
fn by_heads(key: &Tensor) -> Option<Sharding> {
    let layout = heads_for_positions(&*trace::layout()?);
    Some(layout.sharding(&["batch", "heads", "keys", "head"], key.dims()))
}

/// The sharding of each leaf: four axes as heads lie, three as their batch does.
fn shardings<T: Tree>(tree: &T, heads: &Sharding) -> Vec<Sharding> {
    let of = |spec: &trace::Spec| Sharding {
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
    fn only_a_sequence_that_looks_at_itself_is_one() {
        trace::shapes_of(&(), |()| {
            let places = Places::sequence(2048);
            assert!(is_better(2048, 2048, 4, &places) && !is_better(128, 128, 4, &Places::sequence(128)));
            assert!(!is_better(1, 2048, 4, &places) && !is_long(1, 2048) && is_long(2048, 2048));
            let given = Places { is_sequence: false, ..places };
            assert!(!is_possible(2048, 2048, &given));
        })
        .unwrap();
    }

    #[test]
    fn long_sequences_are_taken_in_whole_blocks() {
        assert_eq!(piece_of(8192, 128), 8192);
        assert_eq!(piece_of(32768, 256), 8192);
        assert_eq!(piece_of(131_072, 128), 16384);
        // Not into parts that are no blocks.
        assert_eq!(piece_of(1000 * 512 + 1, 256), 1000 * 512 + 1);
        let ranges = |sight| key_pieces(2048..3072, 4096, sight);
        assert_eq!(ranges(Sight::Window(700)), [(1024..3072, Sight::Window(700))]);
        assert_eq!(ranges(Sight::Causal)[1..], [(1024..2048, Sight::Everything), (2048..3072, Sight::Causal)]);
        assert_eq!(ranges(Sight::Everything).len(), 4);
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
            for sight in [Sight::Everything, Sight::Causal, Sight::Window(300)] {
                for segments in [None, Some((numbers.clone(), numbers.clone()))] {
                    let inputs = (query.clone(), key.clone(), value.clone(), segments.clone());
                    let (out, total) = forward(&inputs, sight, 0.5);
                    let all = (query.clone(), key.clone(), value.clone(), (out, total, ct.clone()), segments);
                    let (whole, parts) = (backward(&all, sight, 0.5), backward_in_pieces(&all, sight, 0.5, 512));
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
            backend.prepare_model(&program, &Parameters::none()).unwrap().run::<runtime::DeviceArray>(&[]).unwrap();
        let bytes = results[0].to_host().unwrap().bytes().to_vec();
        let off: Vec<f32> = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(off.len(), 18);
        assert!(off.iter().all(|off| *off < 1e-5), "{off:?}");
    }
}
