//! Stacked layers: parameters of equal layers along a first axis, run by a scan with a rematerialization policy.

mod pipeline;

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use trace::{CompileTarget, Key, RematPolicy, Tensor, Tree, checkpoint, current_target, custom_vjp, scan};

use self::pipeline::run_in_stages;
pub(crate) use self::pipeline::{STAGES, Stages, rows_of};

/// How the layers of a step of inference follow each other in its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerIteration {
    /// One layer in a loop, so that programs are small and compiled fast; on GPUs one after the other.
    #[default]
    Auto,
    /// One after the other.
    Unrolled,
}

impl LayerIteration {
    /// Whether it is the usual one.
    pub(crate) fn is_default(&self) -> bool {
        *self == LayerIteration::default()
    }
}

/// The field under which models keep stacked layers: a parameter below it has an axis of layers first.
const STACKED: &str = "layers";

/// Whether a parameter at this path has an axis of layers first: it is below `layers`, or below a range of layers, as in
/// `transformer.h.0-11.ln_1.weight`.
pub fn is_stacked(path: &str) -> bool {
    let mut words = path.split('.').skip_while(|word| *word != STACKED);
    // Layers in a list are numbered and not stacked.
    let is_below = words.next().is_some() && words.next().is_some_and(|next| next.parse::<usize>().is_err());
    is_below || path.split('.').any(is_range)
}

/// Whether a word of a path is a range of layers: two numbers with a dash between them.
fn is_range(word: &str) -> bool {
    word.split_once('-').is_some_and(|(first, last)| [first, last].iter().all(|n| n.parse::<usize>().is_ok()))
}

/// A path without the range of layers that follows `layers`, and the first of them: `layers.4-7.norm` is `layers.norm` from layer 4.
pub(crate) fn without_range(path: &str) -> (Cow<'_, str>, usize) {
    let mut words: Vec<&str> = path.split('.').collect();
    let at = words.iter().position(|word| *word == STACKED).map_or(words.len(), |at| at + 1);
    match words.get(at).filter(|word| is_range(word)).and_then(|word| word.split_once('-')?.0.parse().ok()) {
        Some(start) => {
            words.remove(at);
            (words.join(".").into(), start)
        }
        None => (path.into(), 0),
    }
}

/// The word for a range of layers in paths, undone by [`without_range`]: the first and the last.
pub(crate) fn range_word(layers: &Range<usize>) -> String {
    format!("{}-{}", layers.start, layers.end.saturating_sub(1))
}

/// The path of the stack that a parameter is in, without a range of layers: `first.layers` of `first.layers.norm.weight`.
pub(crate) fn stack_of(path: &str) -> Option<&str> {
    let mut end = 0;
    path.split('.').find_map(|word| {
        end += word.len() + 1;
        (word == STACKED).then(|| &path[..end - 1])
    })
}

/// The field under which models keep layers that are run before the others, by every device.
const FIRST: &str = "first";

/// Whether a parameter at this path is of layers that stages share.
pub(crate) fn is_staged(path: &str) -> bool {
    is_stacked(path) && !path.split('.').any(|word| word == FIRST)
}

/// Names that layers of all models give to values, for the policies `save_only_these_names` and `offload`: a layer's input, and
/// results inside attention and feed-forwards.
pub const CHECKPOINT_NAMES: [&str; 11] = [
    "layer_input",
    "mla_q",
    "mla_kv",
    "query",
    "key",
    "value",
    "attention",
    "attention_output",
    "gate",
    "up",
    "feed_forward_output",
];

/// Draws so many layers, stacked.
#[track_caller]
pub fn init_stacked<L: Tree>(key: &Key, layers: usize, init: impl FnOnce(&Key) -> L) -> L {
    scan(&(), &key.stacked(layers), None, |(), key| ((), init(key))).1
}

/// Runs layers one after the other. `layer` takes the carry and one layer's slice of `layers`, and returns the next carry and a
/// result; results are stacked. On a mesh with pipeline stages the layers are split over the stages: then the carry has
/// examples along its first axis, and results must be means over examples.
#[track_caller]
pub fn run_stacked<C: Tree, L: Tree, Y: Tree>(
    remat: &RematPolicy,
    carried: &C,
    layers: &L,
    layer: impl Fn(&C, &L) -> (C, Y),
) -> (C, Y) {
    match Stages::here() {
        Some(stages) => run_in_stages(&stages, remat, carried, layers, layer),
        None => run_on_all(remat, carried, layers, layer),
    }
}

/// [`run_stacked`] with all layers on all devices: with pipeline stages they run before the pipeline, each device on its part of
/// the batch. See [`is_staged`].
#[track_caller]
pub(crate) fn run_on_all<C: Tree, L: Tree, Y: Tree>(
    remat: &RematPolicy,
    carried: &C,
    layers: &L,
    layer: impl Fn(&C, &L) -> (C, Y),
) -> (C, Y) {
    match *remat {
        RematPolicy::None => run_in_order(carried, layers, layer),
        RematPolicy::EveryLayers(count) if count > 1 => {
            let split = layers.map_leaves(|leaf| apart(leaf, count));
            let (carried, results) = scan(carried, &split, None, |carried, group| {
                checkpoint(
                    remat,
                    &Pair(carried.map_leaves(Tensor::clone), group.map_leaves(Tensor::clone)),
                    |Pair(carried, group)| {
                        let (carried, results) =
                            scan(carried, group, None, |carried, slice| checked(remat, carried, slice, &layer));
                        Pair(carried, results)
                    },
                )
                .into_parts()
            });
            (carried, results.map_leaves(together))
        }
        _ => run_in_order(carried, layers, |carried, slice| checked(remat, carried, slice, &layer)),
    }
}

/// Layers of a stack.
fn num_layers<L: Tree>(layers: &L) -> usize {
    layers.specs().first().and_then(|spec| spec.dims.first()).map_or(0, |count| *count)
}

/// More layers than this are a loop on every device: compiling them one by one takes too long.
const MOST_UNROLLED: usize = 48;

/// Runs layers one after the other: a scan, or on GPUs one by one, where a loop would copy what the backward pass needs into stacks
/// and out of them.
#[track_caller]
pub(crate) fn run_in_order<C: Tree, L: Tree, Y: Tree>(
    carried: &C,
    layers: &L,
    layer: impl Fn(&C, &L) -> (C, Y),
) -> (C, Y) {
    let count = num_layers(layers);
    if current_target() != CompileTarget::Cuda || count == 0 || count > MOST_UNROLLED {
        return scan(carried, layers, None, layer);
    }
    run_unrolled(carried, layers, count, |carried, slice, _| layer(carried, slice))
}

/// Runs layers one by one, each told its number.
#[track_caller]
fn run_unrolled<C: Tree, L: Tree, Y: Tree>(
    carried: &C,
    layers: &L,
    count: usize,
    layer: impl Fn(&C, &L, usize) -> (C, Y),
) -> (C, Y) {
    let slices = unstacked(&layers.leaves(), count);
    let (mut x, mut results) = (carried.map_leaves(Tensor::clone), Vec::new());
    for n in 0..count {
        let mut leaves = slices.iter();
        let of_layer = layers.map_leaves(|leaf| match leaves.next().and_then(|slices| slices.get(n)) {
            Some(slice) => slice.clone(),
            None => leaf.at(0, n),
        });
        let (next, result) = layer(&x, &of_layer, n);
        x = next;
        results.push(result);
    }
    (x, merged(&results, |parts| Tensor::stack(parts, 0)))
}

/// Every leaf's slices along its first axis. Gradients are stacked again, each written once.
#[track_caller]
fn unstacked(leaves: &Vec<Tensor>, count: usize) -> Vec<Vec<Tensor>> {
    custom_vjp(
        leaves,
        |leaves| leaves.iter().map(|leaf| (0..count).map(|n| leaf.at(0, n)).collect()).collect(),
        |_: &Vec<Tensor>, _: &Vec<Vec<Tensor>>, cts: &Vec<Vec<Tensor>>| {
            cts.iter().map(|of_leaf| Tensor::stack(of_leaf, 0)).collect()
        },
    )
}

/// Runs stacked layers in an interleaved (repeating) pattern of `pattern` different layers, each told its place in the pattern:
/// one scan over whole patterns, then the layers left over. Otherwise as [`run_stacked`].
#[track_caller]
pub fn run_repeating_pattern<C: Tree, L: Tree, Y: Tree>(
    remat: &RematPolicy,
    carried: &C,
    layers: &L,
    pattern: usize,
    layer: impl Fn(&C, &L, usize) -> (C, Y),
) -> (C, Y) {
    if pattern <= 1 {
        return run_stacked(remat, carried, layers, |carried, slice| layer(carried, slice, 0));
    }
    // The policy is applied layer by layer, inside the pattern.
    let across = match *remat {
        RematPolicy::EveryLayers(count) if count > 1 => {
            if !count.is_multiple_of(pattern) {
                trace::refuse(format!(
                    "remat every_layers = {count}: it must be a multiple of the layer pattern, which repeats every {pattern} layers"
                ));
            }
            // One pattern is a layer of the outer scan.
            if count == pattern { RematPolicy::Full } else { RematPolicy::EveryLayers(count / pattern) }
        }
        _ => RematPolicy::None,
    };
    let one = |carried: &C, slice: &L, place: usize| match remat {
        RematPolicy::None => layer(carried, slice, place),
        _ => checked(remat, carried, slice, |carried, slice| layer(carried, slice, place)),
    };
    in_pattern(carried, layers, pattern, one, |carried, patterns, whole| run_stacked(&across, carried, patterns, whole))
}

/// [`run_repeating_pattern`] without a backward pass and without pipeline stages.
#[track_caller]
pub fn scan_repeating_pattern<C: Tree, L: Tree, Y: Tree>(
    carried: &C,
    layers: &L,
    pattern: usize,
    layer: impl Fn(&C, &L, usize) -> (C, Y),
) -> (C, Y) {
    if pattern <= 1 {
        return run_in_order(carried, layers, |carried, slice| layer(carried, slice, 0));
    }
    in_pattern(carried, layers, pattern, layer, |carried, patterns, whole| run_in_order(carried, patterns, whole))
}

/// [`scan_repeating_pattern`], or the same layers unrolled.
#[track_caller]
pub fn infer_repeating_pattern<C: Tree, L: Tree, Y: Tree>(
    layer_iteration: LayerIteration,
    carried: &C,
    layers: &L,
    pattern: usize,
    layer: impl Fn(&C, &L, usize) -> (C, Y),
) -> (C, Y) {
    match layer_iteration {
        LayerIteration::Auto => scan_repeating_pattern(carried, layers, pattern, layer),
        LayerIteration::Unrolled => {
            let place = |number: usize| number % pattern.max(1);
            run_unrolled(carried, layers, num_layers(layers), |x, slice, number| layer(x, slice, place(number)))
        }
    }
}

/// Runs whole patterns by `across`, which is given the layers of one pattern at a time, and then the layers left over.
#[track_caller]
fn in_pattern<C: Tree, L: Tree, Y: Tree>(
    carried: &C,
    layers: &L,
    pattern: usize,
    layer: impl Fn(&C, &L, usize) -> (C, Y),
    across: impl FnOnce(&C, &L, &dyn Fn(&C, &L) -> (C, Y)) -> (C, Y),
) -> (C, Y) {
    let count = num_layers(layers);
    let left = count % pattern;
    if left > 0 && Stages::here().is_some() {
        trace::refuse(format!(
            "{count} layers are not a multiple of the layer pattern ({pattern} layers): pipeline stages cannot share them"
        ));
    }
    let several = |carried: &C, layers: &L, many: usize| {
        let (mut x, mut results) = (carried.map_leaves(Tensor::clone), Vec::new());
        for place in 0..many {
            let (next, result) = layer(&x, &layers.map_leaves(|leaf| leaf.at(0, place)), place);
            x = next;
            results.push(result);
        }
        (x, results)
    };
    let whole = |carried: &C, layers: &L| {
        let (x, results) = several(carried, layers, pattern);
        (x, merged(&results, |parts| Tensor::stack(parts, 0)))
    };
    let mut done = None;
    let mut x = carried.map_leaves(Tensor::clone);
    if count >= pattern {
        let patterns = layers.map_leaves(|leaf| apart(&leaf.slice(0, 0..count - left), pattern));
        let (next, results) = across(&x, &patterns, &whole);
        x = next;
        done = Some(results.map_leaves(together));
    }
    if left == 0
        && let Some(done) = done
    {
        return (x, done);
    }
    let (x, results) = several(&x, &layers.map_leaves(|leaf| leaf.slice(0, count - left..count)), left);
    let rest = merged(&results, |parts| Tensor::stack(parts, 0));
    let all = match done {
        Some(done) => concatenated(&[done, rest]),
        None => rest,
    };
    (x, all)
}

/// Results of layers that follow each other, as one.
#[track_caller]
pub(crate) fn concatenated<Y: Tree>(parts: &[Y]) -> Y {
    merged(parts, |parts| Tensor::concat(parts, 0))
}

/// Equal structures as one, leaf by leaf.
#[track_caller]
fn merged<Y: Tree>(parts: &[Y], merge: impl Fn(&[Tensor]) -> Tensor) -> Y {
    let mut leaves: Vec<_> = parts.iter().map(|part| part.leaves().into_iter()).collect();
    let Some(first) = parts.first() else { trace::refuse("the model has no layers") };
    first.map_leaves(|_| merge(&leaves.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()))
}

/// Two structures as one, without asking that they can be cloned.
struct Pair<A, B>(A, B);

impl<A: Tree, B: Tree> Tree for Pair<A, B> {
    fn visit(&self, path: &mut trace::Path, f: &mut dyn FnMut(&trace::Path, &Tensor)) {
        path.within("0", |path| self.0.visit(path, f));
        path.within("1", |path| self.1.visit(path, f));
    }

    fn map(&self, path: &mut trace::Path, f: &mut dyn FnMut(&trace::Path, &Tensor) -> Tensor) -> Self {
        Pair(path.within("0", |path| self.0.map(path, f)), path.within("1", |path| self.1.map(path, f)))
    }
}

impl<A, B> Pair<A, B> {
    fn into_parts(self) -> (A, B) {
        (self.0, self.1)
    }
}

#[track_caller]
fn checked<C: Tree, L: Tree, Y: Tree>(
    policy: &RematPolicy,
    carried: &C,
    slice: &L,
    layer: impl Fn(&C, &L) -> (C, Y),
) -> (C, Y) {
    let inputs = Pair(carried.map_leaves(Tensor::clone), slice.map_leaves(Tensor::clone));
    checkpoint(policy, &inputs, |Pair(carried, slice)| {
        let (carried, result) = layer(&carried.map_leaves(|leaf| leaf.named(CHECKPOINT_NAMES[0])), slice);
        Pair(carried, result)
    })
    .into_parts()
}

/// `[layers, …]` as `[layers / count, count, …]`.
#[track_caller]
pub(crate) fn apart(leaf: &Tensor, count: usize) -> Tensor {
    let mut dims = leaf.dims().to_vec();
    if let Some(first) = dims.first_mut() {
        *first /= count;
    }
    dims.insert(1.min(dims.len()), count);
    leaf.reshape(&dims)
}

/// Undoes [`apart`].
pub(crate) fn together(leaf: &Tensor) -> Tensor {
    let mut dims = leaf.dims().to_vec();
    let count = dims.remove(1);
    dims[0] *= count;
    leaf.reshape(&dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_layers_are_told_from_names() {
        let check = |path: &str, name: &str, start: usize| {
            assert_eq!(without_range(path), (name.into(), start), "{path}");
            assert!(is_stacked(path));
        };
        check("layers.4-7.norm.weight", "layers.norm.weight", 4);
        check("first.layers.0-0.norm.weight", "first.layers.norm.weight", 0);
        check("layers.norm.weight", "layers.norm.weight", 0);
        check(&format!("layers.{}.norm", range_word(&(12..20))), "layers.norm", 12);
        assert_eq!(without_range("lm_head.weight"), ("lm_head.weight".into(), 0));
        assert_eq!(stack_of("first.layers.0-0.norm.weight"), Some("first.layers"));
        assert_eq!(stack_of("layers.norm.weight"), Some("layers"));
        assert_eq!(stack_of("lm_head.weight"), None);
    }
}
