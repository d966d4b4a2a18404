//! The largest batch of a training that fits and the fastest: by the TPU compiler for a slice, or measured on the device here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use compile::{CompileRequest, SliceCompiler};
use plan::batch_size::{BatchPlan, BatchRequest, BatchSearch, BatchSizes, BatchSplit, Growth, find_batch_size};
use runtime::mesh::site_of;
use runtime::{Backend, ValidationError};
use tensor::{Literal, Spec};
use trace::Tree;

use crate::batch_size::{MeasuredStep, Samples, measure_batch_sizes};
use crate::data::Dataset;
use crate::datasets::Datasets;
use crate::error::Error;
use crate::sharding::{check, sharded_shapes};
use crate::step::step_program;
use crate::task::ModelTask;
use crate::trainer::Task;
use crate::training::{TaskVisitor, Training};

/// Speed that a doubled batch must bring on this machine for larger ones to be tried.
const WORTHWHILE: f64 = 0.05;
/// Largest batch measured here: its examples are made on the host.
const LARGEST_MEASURED: u64 = 1 << 16;
/// Batches of data that fill a large sample, again and again.
const DISTINCT_BATCHES: u64 = 64;

/// Where batches are tried.
pub enum TriedOn<'a> {
    /// Quick compilations for a slice that need not be here.
    Slice(&'a SliceCompiler, CompileRequest),
    /// A few steps on the first device of a backend.
    Device(&'a Backend),
}

/// What was found.
#[derive(Clone, Debug)]
pub struct FoundBatch {
    /// Tokens or images of one example.
    pub tokens_per_example: f64,
    /// Every batch tried, the largest that fits, and the fastest.
    pub sizes: BatchSizes,
    /// The slice, where there is one.
    pub plan: Option<BatchPlan>,
}

impl Training {
    /// Tries batches of this training.
    pub fn find_batch(
        &self,
        tried_on: &TriedOn<'_>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<FoundBatch, Error> {
        if self.rules().is_some() && matches!(tried_on, TriedOn::Device(_)) {
            return Err(Error::new("batch sizes on a mesh are compiled for a slice, not measured here")
                .hint("name the slice with --slice, or leave the mesh out"));
        }
        self.visit(Find { training: self, tried_on, stop, progress })
    }
}

struct Find<'a> {
    training: &'a Training,
    tried_on: &'a TriedOn<'a>,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&str),
}

impl TaskVisitor for Find<'_> {
    type Output = FoundBatch;

    fn visit<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        self,
        task: ModelTask<M, X>,
        datasets: Datasets,
    ) -> Result<FoundBatch, Error> {
        let (data, train) = (&datasets.training, &self.training.config().train);
        let batch = train.batch_size as u64;
        let tokens_per_example = task.tokens_per_step as f64 / batch.max(1) as f64;
        let parts = train.gradient_accumulation_steps.max(1) as u64;
        let search = BatchSearch { multiple_of: parts, ..BatchSearch::from_batch(batch) };
        // What the data cannot fill is no answer.
        let examples =
            [data, &datasets.evaluation].map(|data| data.batches_per_epoch().map(|n| n.saturating_mul(batch)));
        let search = BatchSearch { largest: examples.into_iter().flatten().fold(search.largest, u64::min), ..search };
        match self.tried_on {
            TriedOn::Slice(compiler, request) => {
                let plan = self.compiled(compiler, request.clone(), search, data, &task)?;
                Ok(FoundBatch { tokens_per_example, sizes: plan.sizes.clone(), plan: Some(plan) })
            }
            TriedOn::Device(backend) => {
                let sizes = self.measured(backend, search, data, task)?;
                Ok(FoundBatch { tokens_per_example, sizes, plan: None })
            }
        }
    }
}

impl Find<'_> {
    /// By quick compilations for a slice.
    fn compiled<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        self,
        compiler: &SliceCompiler,
        compile: CompileRequest,
        search: BatchSearch,
        data: &Arc<dyn Dataset>,
        task: &ModelTask<M, X>,
    ) -> Result<BatchPlan, Error> {
        let state = trace::shapes_of(&(), |()| task.init())?;
        let leaves = state.specs().len();
        let (first, rules, site) = (data.specs(), self.training.rules(), site_of(&compile.slice));
        let split = match rules {
            Some(rules) => {
                check(rules, &sharded_shapes(&state.params, &state.carried), &[], &site)?;
                BatchSplit::AsWritten(rules.batch_parts())
            }
            None => BatchSplit::ByRule,
        };
        let mut program = |batch: u64| Ok(step_program(task, rules, &rows(&first, batch)?, &site)?.0);
        let request = BatchRequest { search, split, ..BatchRequest::new(compile, search.first, leaves) };
        find_batch_size(compiler, &request, &mut program, self.stop, self.progress)
    }

    /// By a few steps of each on the device that is here.
    fn measured<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        self,
        backend: &Backend,
        search: BatchSearch,
        data: &Arc<dyn Dataset>,
        task: ModelTask<M, X>,
    ) -> Result<BatchSizes, Error> {
        let largest = search.largest.min(LARGEST_MEASURED);
        let search = BatchSearch { growth: Growth::UntilFlat(WORTHWHILE), largest, ..search };
        let known = data.specs();
        let progress = std::cell::RefCell::new(self.progress);
        let samples = Samples {
            specs: &|batch| {
                (progress.borrow_mut())(&format!("measuring steps of {batch} examples"));
                rows(&known, batch)
            },
            arrays: &|batch| sampled(data, batch),
        };
        measure_batch_sizes(backend, Arc::new(task), MeasuredStep::default(), &search, &samples, self.stop)
    }
}

/// The arrays of a batch, for another number of examples.
fn rows(specs: &[Spec], batch: u64) -> Result<Vec<Spec>, Error> {
    let of = |spec: &Spec| {
        let mut dims = spec.dims.clone();
        let first = dims.first_mut().zip(usize::try_from(batch).ok());
        let (first, size) = first.ok_or_else(|| ValidationError::Other(format!("{spec} has no batch")))?;
        *first = size;
        Ok(Spec::new(spec.dtype, dims))
    };
    specs.iter().map(of).collect()
}

/// So many examples of the data, some of them again where there are very many.
fn sampled(data: &Arc<dyn Dataset>, batch: u64) -> Result<Vec<Literal>, Error> {
    let specs = rows(&data.specs(), batch)?;
    let mut arrays: Vec<Vec<u8>> = vec![Vec::new(); specs.len()];
    let wanted: Vec<usize> = specs.iter().map(|spec| usize::try_from(spec.bytes()).unwrap_or(usize::MAX)).collect();
    let mut step = 0;
    while arrays.iter().zip(&wanted).any(|(array, wanted)| array.len() < *wanted) {
        for ((array, part), wanted) in arrays.iter_mut().zip(data.batch(step % DISTINCT_BATCHES)?).zip(&wanted) {
            let bytes = part.into_bytes();
            if bytes.is_empty() {
                return Err(ValidationError::Other("a batch of the data is empty".into()).into());
            }
            let room = wanted.saturating_sub(array.len());
            array.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
        step += 1;
    }
    let literal = |(spec, bytes): (&Spec, Vec<u8>)| {
        Literal::new(spec.dtype, spec.dims.clone(), bytes)
            .ok_or_else(|| ValidationError::Other(format!("the data do not fill {spec}")).into())
    };
    specs.iter().zip(arrays).map(literal).collect()
}
