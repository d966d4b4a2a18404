//! The best batch of a training step on a slice that is not here: quick compilations say what fits and how long it takes.

use std::sync::atomic::AtomicBool;

use compile::{CompileError, CompileMode, CompileRequest, Program, SliceCompiler};
use serde::Serialize;

use crate::batch_size::{BatchSearch, BatchSizes, Trial, TrialOutcome as Fits, search_batch_sizes};
use crate::compiled::{Compiled, Driver, Outcome};
use crate::error::Error;
use crate::estimate::{Estimate, Workload};
use crate::fit::{device_numbers, hbm_limit};
use crate::search::{
    BatchName, Candidate, FlagSet, MeshShape, OneProgram, PrecisionChoice, ProgramSource, ShardingChoice,
    WindowedEinsum,
};

/// What to ask.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    /// Slice, devices and flags; the mode is always the quick one.
    pub compile: CompileRequest,
    /// Batches to try, of all devices together. Its multiple grows to the parts that the mesh cuts a batch into.
    pub search: BatchSearch,
    /// The argument of the program whose first dimension is the batch.
    pub batch_argument: usize,
    /// Share of device memory that stays free.
    pub headroom: f64,
    /// How the step comes onto several devices.
    pub split: BatchSplit,
}

/// How a step comes onto several devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSplit {
    /// It is written for one, and cut by rule.
    ByRule,
    /// It is written for all of them, with the batch in so many parts.
    AsWritten(u64),
}

/// Share of device memory that stays free unless the caller says otherwise: the runtime, other programs such as an
/// evaluation, and batches sent ahead need some.
pub const DEFAULT_HEADROOM: f64 = 0.05;

impl BatchRequest {
    /// From a batch on, for a slice.
    pub fn new(compile: CompileRequest, first: u64, batch_argument: usize) -> BatchRequest {
        let search = BatchSearch::from_batch(first);
        BatchRequest { compile, search, batch_argument, headroom: DEFAULT_HEADROOM, split: BatchSplit::ByRule }
    }
}

/// The answer for one slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchPlan {
    /// Slice, in canonical form.
    pub slice: String,
    /// Chips of the slice.
    pub chips: u64,
    /// How the step lies on its devices; `None` where the program says so itself.
    pub mesh: Option<MeshShape>,
    /// Share of device memory that stays free.
    pub headroom: f64,
    /// Batches that were tried, of all devices together.
    #[serde(flatten)]
    pub sizes: BatchSizes,
}

/// Finds the largest batch of a training step that fits a slice, and the fastest. `program` writes the step for a batch. One
/// that is written for one device is cut by rule: the batch among all devices, and where even the smallest does not fit with
/// whole copies of the state, the state too.
pub fn find_batch_size<E: From<Error>>(
    compiler: &SliceCompiler,
    request: &BatchRequest,
    program: &mut dyn FnMut(u64) -> Result<Program, E>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<BatchPlan, E> {
    if !(0.0..1.0).contains(&request.headroom) {
        return Err(
            Error::NotPositive { what: "what is left beside the headroom", given: 1.0 - request.headroom }.into()
        );
    }
    let devices = u64::from(request.compile.slice.devices());
    let copies = MeshShape { data: devices, ..MeshShape::ONE };
    let parts = MeshShape { fsdp: devices, ..MeshShape::ONE };
    let mut driver = Driver { compiler, stop, progress };
    let mut on = |mesh: Option<MeshShape>| {
        let mut finder = Finder { driver: &mut driver, request, mesh, has_fitted: false };
        finder.find(program).map(|sizes| BatchPlan {
            slice: request.compile.slice.to_string(),
            chips: u64::from(request.compile.slice.chips()),
            mesh,
            headroom: request.headroom,
            sizes,
        })
    };
    if let BatchSplit::AsWritten(_) = request.split {
        return on(None);
    }
    let plan = on(Some(copies))?;
    if plan.sizes.largest.is_some() || devices == 1 {
        return Ok(plan);
    }
    on(Some(parts))
}

struct Finder<'a, 'd> {
    driver: &'a mut Driver<'d>,
    request: &'a BatchRequest,
    mesh: Option<MeshShape>,
    has_fitted: bool,
}

impl Finder<'_, '_> {
    fn find<E: From<Error>>(&mut self, program: &mut dyn FnMut(u64) -> Result<Program, E>) -> Result<BatchSizes, E> {
        let parts = match (self.mesh, self.request.split) {
            (Some(mesh), _) => mesh.batch_parts(),
            (None, BatchSplit::AsWritten(parts)) => parts,
            (None, BatchSplit::ByRule) => 1,
        };
        let multiple_of = least_common(self.request.search.multiple_of.max(1), parts);
        let first = self.request.search.first.max(multiple_of);
        let search = BatchSearch { multiple_of, first, ..self.request.search };
        search_batch_sizes(&search, &mut |batch| {
            (self.driver.progress)(&format!("compiling a step of {batch} examples"));
            let program = program(batch)?;
            let program = self.split(program, batch)?;
            Ok(self.compiled(batch, &program)?)
        })
    }

    /// The program with its arguments cut over the mesh.
    fn split(&self, program: Program, batch: u64) -> Result<Program, Error> {
        let Some(mesh) = self.mesh.filter(|mesh| mesh.devices() > 1) else { return Ok(program) };
        let name = BatchName::Dimension(self.request.batch_argument, 0);
        let source = OneProgram::read(program.bytes().to_vec(), Some(&name))?;
        source.program(&Candidate {
            variant: None,
            slice: self.request.compile.slice,
            sharding: ShardingChoice::ByRule(mesh),
            batch,
            precision: PrecisionChoice::AsWritten,
            flags: FlagSet::Default,
            windowed_einsum: WindowedEinsum::Default,
        })
    }

    fn compiled(&mut self, batch: u64, program: &Program) -> Result<Trial, Error> {
        let compile = CompileRequest { mode: CompileMode::Quick, ..self.request.compile.clone() };
        let limit = (hbm_limit(&compile) as f64 * (1.0 - self.request.headroom)) as u64;
        let refused =
            |outcome| Trial { batch, outcome, needed_bytes: None, limit_bytes: Some(limit), step_seconds: None };
        match self.driver.once(program, &compile) {
            Ok(Outcome::Fits(compiled)) => Ok(self.judged(batch, &compiled, limit)),
            Ok(Outcome::TooLarge(oom)) => {
                Ok(Trial { needed_bytes: oom.needed_bytes, ..refused(Fits::TooLarge(oom.message)) })
            }
            Err(error @ Error::Compile(CompileError::Interrupted)) => Err(error),
            // Far past the limit the compiler may do anything; that smaller batches went through says it is the size.
            Err(Error::Compile(error)) if self.has_fitted => Ok(refused(Fits::Failed(compile::with_causes(&error)))),
            Err(error) => Err(error),
        }
    }

    fn judged(&mut self, batch: u64, compiled: &Compiled, limit: u64) -> Trial {
        let slice = &self.request.compile.slice;
        let devices = device_numbers(slice, self.request.compile.device_ids.as_deref());
        let estimate = Estimate::of(compiled.module(), slice, &devices, &Workload::default());
        let needed = compiled.report.memory.total;
        let outcome = match needed <= limit {
            true => Fits::Fits,
            false => {
                Fits::TooLarge(format!("{needed} bytes leave less than {:.0} % free", self.request.headroom * 1e2))
            }
        };
        self.has_fitted |= outcome == Fits::Fits;
        let (needed_bytes, limit_bytes) = (Some(needed), Some(limit));
        Trial { batch, outcome, needed_bytes, limit_bytes, step_seconds: Some(estimate.step.seconds) }
    }
}

/// The least common multiple; the larger number where it is past counting.
fn least_common(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a.max(1), b.max(1));
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a.max(1) / x).checked_mul(b.max(1)).unwrap_or(a.max(b))
}

#[cfg(test)]
mod tests {
    use super::least_common;

    #[test]
    fn multiples() {
        assert_eq!([least_common(1, 8), least_common(4, 6), least_common(0, 3)], [8, 12, 3]);
        assert_eq!(least_common(u64::MAX, u64::MAX - 1), u64::MAX);
    }
}
