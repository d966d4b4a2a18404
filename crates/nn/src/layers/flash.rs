//! Attention as two composites, forward and backward, which TPU compilers get as kernels: scores never reach memory.

use hlo::{Attr, Attrs, ElementType, Real};
use tensor::DType;
use trace::{Sharding, Tensor, Tree, composite, custom_vjp, shard_map};

use super::attend::{Places, Saved, Sight, running_backward, running_softmax};

/// Name of the composite of the forward pass: queries `[batch, heads, queries, head]`, keys and values `[batch, groups, keys,
/// head]`, where sequences are packed the numbers of queries and keys `i32 [batch, 1, …]`; gives the result and `f32 [batch, heads,
/// 1, queries]`, the logarithms of the sums of exponentials.
pub const FLASH: &str = "tpubridge.flash_attention";

/// Name of the composite of the backward pass: what [`FLASH`] takes and gives, and the cotangent of the result, before the
/// numbers of packed sequences; gives the cotangents of queries, keys and values.
pub const FLASH_BACKWARD: &str = "tpubridge.flash_attention_backward";

/// Keys in one block where no kernel is known.
pub(super) const BLOCK: usize = 512;

/// From so many keys on, attention that may choose is computed so.
const LONG: usize = 1024;

/// Whether attention over so many keys is better computed block by block.
pub(super) fn is_better(queries: usize, keys: usize, places: &Places) -> bool {
    let splits_sequence =
        || trace::layout().is_some_and(|layout| layout.meanings.get("sequence").is_some_and(|a| !a.is_empty()));
    keys >= LONG && is_possible(queries, keys, places) && !splits_sequence()
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
    let attributes = attributes(sight, scale);
    let backward_attributes = attributes.clone();
    let (out, _) = custom_vjp(
        &inputs,
        |inputs| {
            on_each_device(inputs, |inputs| {
                composite(FLASH, attributes.clone(), inputs, |inputs| forward(inputs, sight, scale))
            })
        },
        move |inputs: &Inputs, (out, total): &(Tensor, Tensor), (ct, _)| {
            let (query, key, value, segments) = inputs.clone();
            let all = (query, key, value, (out.clone(), total.clone(), ct.clone()), segments);
            let (query, key, value) = backward_on_each_device(&all, |all| {
                composite(FLASH_BACKWARD, backward_attributes.clone(), all, |all| backward(all, sight, scale))
            });
            (query, key, value, inputs.3.as_ref().map(|pair| pair.map_leaves(Tensor::zeros_like)))
        },
    );
    by_head(&out.named("attention"))
}

fn attributes(sight: Sight, scale: f64) -> Attrs {
    let mut attributes = Attrs::new();
    attributes.set("causal", Attr::Bool(sight != Sight::Everything));
    if let Sight::Window(size) = sight {
        attributes.set("window", Attr::i64(size as i64));
    }
    attributes.set("scale", Attr::Float(Real::new(f64::from(scale as f32)), ElementType::Plain(DType::F32)));
    attributes
}

/// `[batch, heads, queries, head]` as `[batch, queries, groups, repeats, head]`.
fn grouped(query: &Tensor, groups: usize) -> Tensor {
    let [batch, heads, queries, head] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    query.reshape(&[batch, groups, heads / groups.max(1), queries, head]).transpose(&[0, 3, 1, 2, 4])
}

fn by_position(tensor: &Tensor) -> Tensor {
    tensor.transpose(&[0, 2, 1, 3])
}

fn places_of(queries: usize, segments: &Option<(Tensor, Tensor)>) -> Places {
    let flat = |numbers: &Tensor| numbers.squeeze(1);
    let segments = segments.as_ref().map(|(queries, keys)| (flat(queries), flat(keys)));
    Places { segments, ..Places::sequence(queries) }
}

/// What [`FLASH`] means.
fn forward((query, key, value, segments): &Inputs, sight: Sight, scale: f64) -> (Tensor, Tensor) {
    let [batch, heads, queries, _] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let groups = key.dims()[1];
    let (key, value) = (by_position(key), by_position(value));
    let block = BLOCK.min(queries.max(1));
    let places = places_of(queries, segments);
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
    let places = places_of(queries, segments);
    let (query_ct, key_ct, value_ct) =
        running_backward(&grouped(query, groups), &key, &value, &places, &saved, sight, scale, block);
    let query_ct = query_ct.transpose(&[0, 2, 3, 1, 4]).reshape(query.dims());
    (query_ct, by_position(&key_ct), by_position(&value_ct))
}

/// How heads lie on the mesh, by those of the keys: `None` without a mesh.
fn by_heads(key: &Tensor) -> Option<Sharding> {
    let layout = trace::layout()?;
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
            assert!(is_better(2048, 2048, &places) && !is_better(128, 128, &Places::sequence(128)));
            assert!(!is_better(1, 2048, &places) && !is_long(1, 2048) && is_long(2048, 2048));
            let given = Places { is_sequence: false, ..places };
            assert!(!is_possible(2048, 2048, &given));
        })
        .unwrap();
    }
}
