//! What slices that are not here make of a program: the real TPU compiler, asked in a child process.

use std::sync::atomic::AtomicBool;

use compile::cache::{Cache, CacheConfig, default_folder};
use compile::worker::{WorkerCommand, WorkerLimits};
use compile::{PluginFile, Program, SliceCompiler};
use pjrt::discover::{Discovery, first};
use plan::search::{Answer, ProgramSource, SearchOptions};
use plan::{Fit, FitRequest};
use trace::{Donate, Tree};

use crate::error::{NoCompiler, Result};

/// The argument that makes this program the compiler's process.
const WORKER: &str = "compile-worker";

/// Serves the TPU compiler where this program was started again for that, and does not return then.
///
/// The compiler may abort, hang or print, so it runs in a child: this program, started again. Call this first in `main` of a
/// program that calls [`fit`] or [`plan()`].
pub fn compile_worker() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == WORKER) {
        let is_done = compile::worker::serve() == std::process::ExitCode::SUCCESS;
        std::process::exit(if is_done { 0 } else { 2 });
    }
}

/// The TPU compiler of this machine, with the cache of compilations and the usual limits. No TPU is needed.
pub fn slice_compiler() -> Result<SliceCompiler> {
    // Without this, a program that forgot `compile_worker` would start itself without end.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == WORKER) {
        return Err(NoCompiler::NotServed.into());
    }
    let found = first(&Discovery::from_environment(), "libtpu").ok_or(NoCompiler::NotInstalled)?;
    Ok(SliceCompiler {
        plugin: PluginFile::open(&found.path)?,
        cache: Cache::open(&CacheConfig {
            folder: default_folder(|name| std::env::var(name).ok()),
            ..CacheConfig::default()
        })?,
        launch: WorkerCommand::this_program([WORKER])?,
        limits: WorkerLimits::default(),
    })
}

/// The program of a function over tensors of these types and shapes: what [`fit`] and [`plan()`] ask about, and what
/// [`runtime::Backend::load`] runs.
///
/// ```
/// use tpubridge::prelude::*;
///
/// let x = Tensor::of(Spec::new(DType::F32, [4]));
/// let program = lower("twice", &x, |x| x * 2.0)?;
/// assert_eq!(program.name(), "twice");
/// # Ok::<(), Error>(())
/// ```
pub fn lower<I: Tree, O: Tree>(name: &str, inputs: &I, f: impl FnOnce(&I) -> O) -> Result<Program> {
    let (function, _) = trace::trace(name, inputs, Donate::Nothing, f)?;
    Ok(Program::from_module(function.module))
}

/// Whether a program fits a slice, what fills it, how long a step takes and what it costs.
///
/// ```no_run
/// use tpubridge::prelude::*;
///
/// compile_worker();
/// let program = Program::open("step.mlir")?;
/// let answer = fit(&program, &FitRequest::new("v5e-4".parse()?))?;
/// println!("{}", if answer.verdict.fits { "fits" } else { "does not fit" });
/// # Ok::<(), Error>(())
/// ```
pub fn fit(program: &Program, request: &FitRequest) -> Result<Fit> {
    Ok(plan::fit(&slice_compiler()?, program.bytes(), request, &AtomicBool::new(false), &mut |_| {})?)
}

/// Where to run a program or a model, split how, with which batch: the slices of `options`, best first.
///
/// ```no_run
/// use tpubridge::prelude::*;
///
/// compile_worker();
/// let model = Planned::read("examples/train/tiny-gpt.toml".as_ref(), &PlannedStep::default())?;
/// let answer = plan(&model.source()?, &SearchOptions::new(vec!["v5e-4".parse()?, "v6e-4".parse()?]))?;
/// println!("{:?}", answer.best().map(|best| &best.slice));
/// # Ok::<(), Error>(())
/// ```
pub fn plan(source: &dyn ProgramSource, options: &SearchOptions) -> Result<Answer> {
    Ok(plan::search::search(source, options, &slice_compiler()?, &AtomicBool::new(false), &|_| {})?)
}
