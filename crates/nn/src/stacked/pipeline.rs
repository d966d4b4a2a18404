//! Pipeline parallelism: each stage (a part of the mesh) has some of the layers, and microbatches follow each other through them.
//!
//! One program for all devices: the inputs of all stages are one tensor whose first axis is sharded along the mesh axis of the
//! stages. In each schedule step every stage runs its layers on its own microbatch, then all outputs move on by one stage.

use std::cell::RefCell;
use std::sync::Arc;

use tensor::DType;
use trace::{Dialect, LogicalAxisRules, PartitionSpec, RematPolicy, Rows, Tensor, Tree, custom_vjp, scan, vmap_along};

use super::{apart, run_stacked, together};

/// What stacked layers mean to rules that split them.
pub(crate) const STAGES: &str = "stages";

/// Numbers of microbatches tried for one that works.
const MOST_TRIED: usize = 1 << 16;

thread_local! {
    static ROWS: RefCell<Option<Microbatch>> = const { RefCell::new(None) };
}

/// The microbatch of the layers being traced.
#[derive(Clone)]
struct Microbatch {
    rows: Rows,
    count: usize,
}

/// Which rows of the whole batch these are, if the layers being written have a part of it: what is drawn for an example
/// must not depend on the part it is in.
pub(crate) fn rows_of(dims: &[usize]) -> Option<Rows> {
    ROWS.with_borrow(|part| {
        part.as_ref().filter(|part| dims.first() == Some(&part.count)).map(|part| part.rows.clone())
    })
}

fn with_rows<T>(part: Microbatch, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Microbatch>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ROWS.set(self.0.take());
        }
    }
    let _restore = Restore(ROWS.replace(Some(part)));
    f()
}

/// How layers and batches are split.
pub(crate) struct Stages {
    /// Mesh axes.
    axes: Vec<Arc<str>>,
    count: usize,
    /// Microbatches, where they are given.
    microbatches: Option<usize>,
    /// Mesh axes along which each microbatch is split.
    batch: Vec<Arc<str>>,
    batch_parts: usize,
}

impl Stages {
    /// Those of the function being traced, if it has any.
    pub(crate) fn here() -> Option<Stages> {
        trace::current_rules().as_deref().and_then(Stages::of)
    }

    /// Those of the rules, if it has any.
    pub(crate) fn of(rules: &LogicalAxisRules) -> Option<Stages> {
        let of = |logical_axis: &str| rules.axes.get(logical_axis).cloned().unwrap_or_default();
        let size = |axes: &[Arc<str>]| rules.mesh.size_along(axes.iter().map(|axis| &**axis)).unwrap_or(1);
        let axes = of(STAGES);
        let batch: Vec<Arc<str>> = of("batch").into_iter().filter(|name| !axes.contains(name)).collect();
        let (count, batch_parts) = (size(&axes), size(&batch));
        (count > 1).then_some(Stages { axes, count, microbatches: rules.microbatches, batch, batch_parts })
    }

    /// Microbatches of a batch of so many examples: as given, else twice as many as stages, or fewer where that does not divide it, but
    /// one for each stage at least.
    pub(crate) fn parts_of(&self, examples: usize) -> Option<usize> {
        let fits = |parts: &usize| self.fits(*parts, examples);
        match self.microbatches {
            Some(parts) => Some(parts).filter(|parts| *parts > 0 && fits(parts)),
            None => (self.count..=2 * self.count).rev().find(fits),
        }
    }

    fn fits(&self, parts: usize, examples: usize) -> bool {
        examples.is_multiple_of(parts.saturating_mul(self.batch_parts))
    }

    /// Stops the trace: a batch carried so cannot be taken in parts.
    #[track_caller]
    fn refuse(&self, examples: usize, dims: &[usize]) -> ! {
        let fits = |parts: &usize| self.fits(*parts, examples);
        let wanted = self.microbatches.unwrap_or(2 * self.count);
        let nearest = (1..=examples.min(MOST_TRIED)).filter(fits).min_by_key(|parts| parts.abs_diff(wanted));
        let split = match self.batch_parts {
            1 => String::new(),
            parts => format!(" of examples that {parts} devices share ({})", self.batch.join(", ")),
        };
        let near = match (nearest, self.microbatches) {
            (Some(parts), Some(_)) => format!("; {parts} would work"),
            _ => {
                let multiple = wanted.saturating_mul(self.batch_parts).max(1);
                format!("; a batch of {} would work", multiple.saturating_mul(examples.div_ceil(multiple).max(1)))
            }
        };
        trace::refuse(format!(
            "a batch of {examples} examples, carried as {dims:?}, cannot be split into {wanted} equal microbatches{split} for {} \
             pipeline stages{near}",
            self.count
        ))
    }

    /// Laid out with these mesh axes first; other axes are left to the compiler.
    #[track_caller]
    fn with_logical_axes(&self, x: &Tensor, first: &[&[Arc<str>]]) -> Tensor {
        // GSPMD's words leave no axis open: what is not named would be made whole.
        if trace::current_rules().is_none_or(|rules| rules.dialect == Dialect::Gspmd) {
            return x.clone();
        }
        let mut dims: Vec<Option<Vec<Arc<str>>>> = first.iter().map(|axes| Some(axes.to_vec())).collect();
        dims.resize(x.rank(), None);
        x.with_sharding_constraint(&PartitionSpec { dims })
    }

    /// `[stages, examples, …]`, each stage on its own devices.
    #[track_caller]
    fn by_stage(&self, x: &Tensor) -> Tensor {
        self.with_logical_axes(x, &[&self.axes, &self.batch])
    }
}

/// Runs layers as [`run_stacked`] does: what is carried has examples along its first axis, results are means over examples.
#[track_caller]
pub(crate) fn run_in_stages<C: Tree, L: Tree, Y: Tree>(
    stages: &Stages,
    remat: &RematPolicy,
    carried: &C,
    layers: &L,
    layer: impl Fn(&C, &L) -> (C, Y),
) -> (C, Y) {
    let count = stages.count;
    let of_stage = layers_of_stage(stages, remat, layers);
    let specs = carried.specs();
    let first = specs.first().map(|spec| spec.dims.clone()).unwrap_or_default();
    let Some(&examples) = first.first() else {
        trace::refuse("pipeline stages need a batch: the carry of the layers has no axis of examples");
    };
    if let Some(other) = specs.iter().find(|spec| spec.dims.first() != Some(&examples)) {
        trace::refuse(format!(
            "pipeline stages need the same batch everywhere: layers carry {examples} examples and {other}"
        ));
    }
    let parts = stages.parts_of(examples).unwrap_or_else(|| stages.refuse(examples, &first));
    let steps = parts + count - 1;
    // In the last schedule steps the first stage is idle (the bubble): it gets an input again, whose output nobody reads. Usual
    // numbers make no NaN.
    let inputs = carried.map_leaves(|leaf| {
        let apart = stages.with_logical_axes(&in_parts(leaf, parts), &[&[], &stages.batch]);
        let again = vec![apart.slice(0, parts - 1..parts).stop_gradient(); count - 1];
        Tensor::concat(&[vec![apart], again].concat(), 0)
    });
    let start = inputs.map_leaves(|leaf| {
        let dims: Vec<usize> = [count].iter().chain(&leaf.dims()[1..]).copied().collect();
        stages.by_stage(&leaf.at(0, 0).stop_gradient().broadcast_to(&dims))
    });
    let split = layers.map_leaves(|leaf| stages.with_logical_axes(&apart(leaf, of_stage), &[&stages.axes]));
    let numbers = Tensor::iota(DType::I32, &[count], 0);
    let zero = Tensor::zeros(DType::I32, &[]);
    let last_part = Tensor::scalar(DType::I32, (parts - 1) as f64);
    let xs = (Tensor::iota(DType::I32, &[steps], 0), inputs);
    let (_, (outputs, results)) = scan(&start, &xs, None, |state, (step, next)| {
        let is_first = numbers.equals(&zero);
        let mut entering = next.leaves().into_iter();
        let state = state.map_leaves(|leaf| match entering.next() {
            Some(next) => stages.by_stage(&along(&is_first, leaf.rank()).select(&next.expand(0), leaf)),
            None => leaf.clone(),
        });
        // The microbatch that each stage has in this schedule step, if there is one.
        let part = &step.broadcast_to(&[count]) - &numbers;
        let is_there = part.greater_equal(&zero).and(&part.less_equal(&last_part));
        let lanes = (state, split.map_leaves(Tensor::clone), part.clamp(&zero, &last_part));
        let (outputs, results) = vmap_along(
            &stages.axes,
            |(x, layers, part)| {
                let rows = Rows { first: part.clone(), every: parts, of: examples };
                with_rows(Microbatch { rows, count: examples / parts }, || run_stacked(remat, x, layers, layer))
            },
            &lanes,
        );
        let results = results.map_leaves(|leaf| {
            if !leaf.dtype().is_float() {
                trace::refuse(format!(
                    "results of layers in pipeline stages must be means over examples, in floats: {} is not",
                    leaf.spec()
                ));
            }
            along(&is_there, leaf.rank()).select(leaf, &Tensor::zeros(leaf.dtype(), &[]))
        });
        let outputs = outputs.map_leaves(|leaf| stages.by_stage(leaf));
        (outputs.map_leaves(|leaf| stages.by_stage(&moved_on(leaf))), (outputs, results))
    });
    // The outputs of the last stage, from its first microbatch on: one exchange after all schedule steps.
    let is_last = numbers.equals(&Tensor::scalar(DType::I32, (count - 1) as f64));
    let outputs = outputs.map_leaves(|leaf| {
        let leaf = leaf.slice(0, count - 1..steps);
        let of_last = along(&is_last, leaf.rank() - 1).select(&leaf, &Tensor::zeros(leaf.dtype(), &[]));
        joined(&stages.with_logical_axes(&of_last.sum(&[1]), &[&[], &stages.batch]))
    });
    let results = results.map_leaves(|leaf| together(&(&leaf.sum(&[0]) / parts as f64)));
    (outputs, results)
}

/// Layers that each stage has.
#[track_caller]
fn layers_of_stage<L: Tree>(stages: &Stages, remat: &RematPolicy, layers: &L) -> usize {
    let count = stages.count;
    for (path, spec) in layers.paths().iter().zip(layers.specs()) {
        if !spec.dims.first().is_some_and(|layers| layers.is_multiple_of(count)) {
            trace::refuse(format!(
                "`{path}` of {spec}: the number of layers is not a multiple of the {count} pipeline stages"
            ));
        }
    }
    let of_stage = layers.specs().first().and_then(|spec| spec.dims.first()).map_or(0, |layers| layers / count);
    if let RematPolicy::EveryLayers(every) = remat
        && !of_stage.is_multiple_of((*every).max(1))
    {
        trace::refuse(format!(
            "remat every_layers = {every} does not divide the {of_stage} layers of each of the {count} pipeline stages"
        ));
    }
    of_stage
}

/// A tensor `[stages]` so that it broadcasts to the first axis of others of this rank.
#[track_caller]
fn along(x: &Tensor, rank: usize) -> Tensor {
    let mut dims = x.dims().to_vec();
    dims.resize(rank, 1);
    x.reshape(&dims)
}

/// `[examples, …]` as `[parts, examples / parts, …]`. Neighbours go to different parts, so that each device has some of every
/// part.
#[track_caller]
fn in_parts(x: &Tensor, parts: usize) -> Tensor {
    let mut dims = vec![x.dims()[0] / parts, parts];
    dims.extend(&x.dims()[1..]);
    x.reshape(&dims).swap_axes(0, 1)
}

/// Undoes [`in_parts`].
#[track_caller]
fn joined(x: &Tensor) -> Tensor {
    let mut dims = vec![x.dims()[0] * x.dims()[1]];
    dims.extend(&x.dims()[2..]);
    x.swap_axes(0, 1).reshape(&dims)
}

/// Each stage's output at the next stage, the last one's at the first (a collective permute). Compilers know a concatenation of two
/// slices as a rotation, so the gradient is written as one too.
#[track_caller]
fn moved_on(x: &Tensor) -> Tensor {
    let rotated = |x: &Tensor, at: usize| {
        let size = x.dims()[0];
        Tensor::concat(&[x.slice(0, at..size), x.slice(0, 0..at)], 0)
    };
    let last = x.dims()[0] - 1;
    custom_vjp(x, |x| rotated(x, last), move |_: &Tensor, _: &Tensor, ct: &Tensor| rotated(ct, 1))
}
