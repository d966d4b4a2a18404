//! The same program, faster: changes tried with the real compiler, kept where they gain more than the estimate's error.
//!
//! [`tune()`] goes through changes in an order that lets each one see what the ones before made possible (`change.rs`), judges every
//! compilation by what it changed (`judge.rs`), and asks its caller whether results are still equal ([`ResultCheck`]). Compiler flags
//! come last, since they depend on the program (`flags.rs`); shardings come first, since all sizes depend on them (`sharding`). Only
//! attention kernels are tried before: they decide which sharding is best, and are put in anew for each.

mod change;
mod flags;
mod judge;
mod page;
mod sharding;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use compile::{CompileError, CompileMode, Program, SliceCompiler};
use serde::Serialize;

use crate::compiled::Driver;
use crate::error::Error;
use crate::estimate::{Share, StepTime, apart};
use crate::fit::{FitRequest, fit_program, fixed, read};
use change::{Attempt, CHANGES, Changed, KERNELS, Setting, with_kernels};
use judge::{Judgement, judge};
pub use page::tuned_page;
use sharding::MeshAxes;
pub use sharding::{TuneMesh, TuneSharding};

/// What to ask.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// The slice, flags that always hold, and what a step is.
    pub fit: FitRequest,
    /// How long the search may begin new compilations.
    pub budget: Duration,
    /// The order in which flags are tried.
    pub seed: u64,
    /// Whether compiler flags are searched.
    pub flags: TuneFlags,
    /// Whether the whole compiler confirms the best program.
    pub confirm: TuneConfirm,
}

/// Whether compiler flags are part of the search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TuneFlags {
    /// They are.
    #[default]
    Search,
    /// They stay as they are given.
    AsGiven,
}

/// Whether the whole compiler has the last word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TuneConfirm {
    /// Quick compilations decide.
    #[default]
    Quick,
    /// The program as it was and as it is are compiled whole, which takes minutes.
    Full,
}

/// How far results may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exact {
    /// As far as another order of additions moves them.
    Rounding,
    /// As far as bf16 moves them.
    Bf16,
}

/// What a comparison of results says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResultDifference {
    /// How far results moved, as a share of the largest of their array.
    pub deviation: f64,
    /// How far they may.
    pub tolerance: f64,
}

/// Runs two programs and compares their results.
pub trait ResultCheck {
    /// How far results of `after` are from those of `before`; `Err` says why they could not be compared.
    fn compare(&mut self, before: &Program, after: &Program, exact: Exact) -> Result<ResultDifference, String>;
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneOutcome {
    /// It is part of the tuned program.
    Kept,
    /// It gains less than the error of the estimate.
    NoGain,
    /// There is nothing in the program to change.
    Nothing,
    /// The compiler refuses it, it does not fit, or it cannot be written.
    Refused,
    /// Results are not equal.
    Unequal,
    /// Results could not be compared, so it is not used.
    Unchecked,
    /// The time was up.
    NotTried,
}

impl TuneOutcome {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            TuneOutcome::Kept => "kept",
            TuneOutcome::NoGain => "no gain",
            TuneOutcome::Nothing => "nothing to do",
            TuneOutcome::Refused => "refused",
            TuneOutcome::Unequal => "not equal",
            TuneOutcome::Unchecked => "not checked",
            TuneOutcome::NotTried => "not tried",
        }
    }
}

/// A change as it was tried.
#[derive(Clone, Debug, Serialize)]
pub struct TuneTrial {
    /// Its name.
    pub name: String,
    /// Why it may help.
    pub reason: String,
    /// What became of it.
    pub outcome: TuneOutcome,
    /// What it did, or why it was refused.
    pub detail: String,
    /// Seconds of a step with it and all that was kept before.
    pub step_s: Option<f64>,
    /// Seconds it gains.
    pub gain_s: Option<f64>,
    /// The error of that gain.
    pub error_s: Option<f64>,
    /// Bytes of device memory with it.
    pub hbm_bytes: Option<u64>,
    /// How far results moved.
    pub results: Option<ResultDifference>,
}

impl TuneTrial {
    /// A change that was not tried yet.
    fn new(name: &str, reason: &str) -> TuneTrial {
        TuneTrial {
            name: name.into(),
            reason: reason.into(),
            outcome: TuneOutcome::NotTried,
            detail: String::new(),
            step_s: None,
            gain_s: None,
            error_s: None,
            hbm_bytes: None,
            results: None,
        }
    }
}

/// A program on the slice.
#[derive(Clone, Debug, Serialize)]
pub struct TuneMeasure {
    /// How long a step takes.
    pub step: StepTime,
    /// Bytes of device memory.
    pub hbm_bytes: u64,
    /// Bytes there are.
    pub limit_bytes: u64,
    /// Whether it fits.
    pub fits: bool,
    /// How much of the compiler ran.
    pub mode: CompileMode,
    #[serde(skip)]
    pub(crate) shares: Vec<Share>,
}

/// A tuned program.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Module name.
    pub module: String,
    /// Slice, in canonical form.
    pub slice: String,
    /// The program as it was.
    pub before: TuneMeasure,
    /// The program as it is.
    pub after: TuneMeasure,
    /// How many times faster.
    pub speedup: f64,
    /// What was tried, in order.
    pub trials: Vec<TuneTrial>,
    /// Flags that were kept.
    pub flags: BTreeMap<String, String>,
    /// The mesh, where it changed.
    pub mesh: Option<TuneMesh>,
    /// Arguments that are split in another way.
    pub shardings: Vec<TuneSharding>,
    /// What was assumed.
    pub notes: Vec<String>,
    /// The program, with composites in place of what kernels compute: every compiler takes it.
    #[serde(skip)]
    pub program: Program,
    /// The program that was run to compare results, with the same changes.
    #[serde(skip)]
    pub compared: Program,
}

impl Tuned {
    /// The flags as libtpu reads them from its environment.
    pub fn libtpu_init_args(&self) -> String {
        let flags: Vec<String> = self.flags.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        flags.join(" ")
    }

    /// The flags as a configuration file of ours has them; empty where there are none.
    pub fn configuration(&self) -> String {
        let value = |value: &str| match value.parse::<i64>().is_ok() || matches!(value, "true" | "false") {
            true => value.to_owned(),
            false => format!("{value:?}"),
        };
        let lines = self.flags.iter().map(|(name, text)| format!("{name} = {}\n", value(text)));
        if self.flags.is_empty() { String::new() } else { format!("[xla_flags]\n{}", lines.collect::<String>()) }
    }

    /// The flags as `compiler_options` of `jax.jit`.
    pub fn compiler_options(&self) -> String {
        let flags: Vec<String> = self.flags.iter().map(|(name, value)| format!("{name:?}: {value:?}")).collect();
        format!("{{{}}}", flags.join(", "))
    }
}

/// Who may look for equal results: the same program in a size that runs here.
pub struct TuneComparison<'a> {
    /// Runs programs.
    pub check: &'a mut dyn ResultCheck,
    /// The program to run in place of the tuned one, which gets the same changes; `None`: the program itself.
    pub smaller: Option<&'a Program>,
}

/// The search.
struct Search<'a, 'b> {
    driver: Driver<'a>,
    request: &'a TuneRequest,
    comparison: &'a mut TuneComparison<'b>,
    began: Instant,
    /// The program as it was, and the one that is run to compare.
    first: Program,
    compared_first: Program,
    /// The best one.
    program: Program,
    compared: Program,
    flags: BTreeMap<String, String>,
    measure: TuneMeasure,
    trials: Vec<TuneTrial>,
    /// The mesh of the best program, where another layout was kept.
    mesh: Option<MeshAxes>,
    /// The best program and the one that is run without kernels, where some were kept: kernels are written for the parts of one sharding.
    base: Option<Base>,
    /// Those kernels, by the names of their changes.
    kernels: Vec<&'static str>,
}

/// Programs without the kernels that are put in before shardings are tried.
#[derive(Clone)]
struct Base {
    program: Program,
    compared: Program,
}

/// Tries changes on a program and keeps what makes it faster.
///
/// `stop` ends the search from another thread or a signal handler. `progress` hears what is being done.
pub fn tune(
    compiler: &SliceCompiler,
    program: &[u8],
    request: &TuneRequest,
    comparison: &mut TuneComparison<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Tuned, Error> {
    request.fit.check()?;
    let program = read(program)?;
    let program = fixed(&program, request.fit.batch)?.unwrap_or(program);
    let mut driver = Driver { compiler, stop, progress };
    let before = measured(&mut driver, &program, request, &BTreeMap::new(), CompileMode::Quick)?;
    let compared = comparison.smaller.unwrap_or(&program).clone();
    let mut search = Search {
        driver,
        request,
        comparison,
        began: Instant::now(),
        first: program.clone(),
        compared_first: compared.clone(),
        program,
        compared,
        flags: BTreeMap::new(),
        measure: before.clone(),
        trials: Vec::new(),
        mesh: None,
        base: None,
        kernels: Vec::new(),
    };
    let tried = search.kernels_of_devices()?;
    sharding::search(&mut search)?;
    for change in CHANGES {
        let is_settled = search.kernels.contains(&change.name) || tried.as_ref() == Some(&search.program.digest());
        if KERNELS.contains(&change.name) && is_settled {
            continue;
        }
        let setting = search.setting();
        search.try_change(change.name, change.reason, change.exact, &|program| (change.apply)(program, &setting))?;
    }
    if request.flags == TuneFlags::Search {
        flags::search(&mut search)?;
    }
    search.finish(before)
}

/// What the compiler and the estimate say of a program.
fn measured(
    driver: &mut Driver<'_>,
    program: &Program,
    request: &TuneRequest,
    flags: &BTreeMap<String, String>,
    mode: CompileMode,
) -> Result<TuneMeasure, Error> {
    let mut fit = request.fit.clone();
    fit.compile.mode = mode;
    fit.compile.flags.extend(flags.iter().map(|(name, value)| (name.clone(), value.clone())));
    let fit = fit_program(driver, program, &fit)?;
    let estimate = fit.estimate.ok_or(Error::Missing("estimate of the step"))?;
    Ok(TuneMeasure {
        step: estimate.step,
        hbm_bytes: fit.verdict.needed_bytes.unwrap_or(0),
        limit_bytes: fit.verdict.limit_bytes.unwrap_or(0),
        fits: fit.verdict.fits,
        mode,
        shares: estimate.shares,
    })
}

impl Search<'_, '_> {
    fn is_over(&self) -> bool {
        self.began.elapsed() >= self.request.budget
    }

    fn setting(&self) -> Setting {
        Setting { slice: self.request.fit.compile.slice, fits: self.measure.fits }
    }

    /// Tries a change on the best program so far, and says what became of it.
    fn try_change(
        &mut self,
        name: &str,
        reason: &str,
        exact: Exact,
        apply: &dyn Fn(&Program) -> Attempt,
    ) -> Result<TuneOutcome, Error> {
        let from = Base { program: self.program.clone(), compared: self.compared.clone() };
        self.try_change_of(&from, (name, reason, exact), apply)
    }

    /// Puts kernels of attention and experts into a program over several devices; the program after which that need not be tried again.
    fn kernels_of_devices(&mut self) -> Result<Option<[u8; 32]>, Error> {
        if self.program.partitions().is_none_or(|count| count < 2) {
            return Ok(None);
        }
        let base = Base { program: self.program.clone(), compared: self.compared.clone() };
        for change in CHANGES.iter().filter(|change| KERNELS.contains(&change.name)) {
            let setting = self.setting();
            let outcome = self
                .try_change(change.name, change.reason, change.exact, &|program| (change.apply)(program, &setting))?;
            if outcome == TuneOutcome::Kept {
                self.kernels.push(change.name);
                self.base.get_or_insert_with(|| base.clone());
            }
        }
        Ok(Some(self.program.digest()))
    }

    /// The program that shardings are made from.
    fn unkernelled(&self) -> &Program {
        self.base.as_ref().map_or(&self.program, |base| &base.program)
    }

    /// A sharding of a program, with the kernels that the best program has.
    fn resharded(&self, program: &Program, apply: &dyn Fn(&Program) -> Attempt) -> Attempt {
        match apply(program)? {
            Ok(changed) => with_kernels(changed, &self.setting(), &self.kernels),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// Tries another sharding.
    fn try_layout(
        &mut self,
        name: &str,
        reason: &str,
        apply: &dyn Fn(&Program) -> Attempt,
    ) -> Result<TuneOutcome, Error> {
        let Some(base) = self.base.clone() else { return self.try_change(name, reason, Exact::Rounding, apply) };
        let (setting, kernels) = (self.setting(), self.kernels.clone());
        let kernelled = |program: &Program| match apply(program)? {
            Ok(changed) => with_kernels(changed, &setting, &kernels),
            Err(reason) => Ok(Err(reason)),
        };
        let outcome = self.try_change_of(&base, (name, reason, Exact::Rounding), &kernelled)?;
        if outcome == TuneOutcome::Kept {
            let resharded =
                |program: Program| Ok::<_, Error>(apply(&program)?.map_or(program, |changed| changed.program));
            self.base = Some(Base { program: resharded(base.program)?, compared: resharded(base.compared)? });
        }
        Ok(outcome)
    }

    /// Tries a change on programs that the best one was made of.
    fn try_change_of(
        &mut self,
        from: &Base,
        (name, reason, exact): (&str, &str, Exact),
        apply: &dyn Fn(&Program) -> Attempt,
    ) -> Result<TuneOutcome, Error> {
        let mut trial = TuneTrial::new(name, reason);
        if !self.is_over() {
            (self.driver.progress)(&format!("trying: {name}"));
            let (outcome, detail) = self.tried(from, exact, apply, &mut trial)?;
            (trial.outcome, trial.detail) = (outcome, detail);
        }
        let outcome = trial.outcome;
        self.trials.push(trial);
        Ok(outcome)
    }

    fn tried(
        &mut self,
        from: &Base,
        exact: Exact,
        apply: &dyn Fn(&Program) -> Attempt,
        trial: &mut TuneTrial,
    ) -> Result<(TuneOutcome, String), Error> {
        let changed = match apply(&from.program) {
            Ok(Ok(changed)) => changed,
            Ok(Err(reason)) => return Ok((TuneOutcome::Nothing, reason)),
            // One change that cannot be written does not end the search.
            Err(Error::Kernel(error)) => return Ok((TuneOutcome::Refused, error.to_string())),
            Err(error) => return Err(error),
        };
        let Changed { program, mut detail } = changed;
        let measure = match self.compiled(&program, &self.flags.clone())? {
            Ok(measure) => measure,
            Err(reason) => return Ok((TuneOutcome::Refused, reason)),
        };
        let judgement = judge(&self.measure, &measure);
        record(trial, &measure, &judgement);
        if !judgement.is_better {
            return Ok((TuneOutcome::NoGain, detail));
        }
        (self.driver.progress)(&format!("comparing results: {}", trial.name));
        let compared = match self.comparison.smaller {
            None => program.clone(),
            Some(_) => match apply(&from.compared)? {
                Ok(changed) => changed.program,
                Err(reason) => {
                    let why = format!("the smaller program does not change: {reason}");
                    return Ok((TuneOutcome::Unchecked, why));
                }
            },
        };
        // Rounding is that of this change alone; what bf16 moves adds up over all changes.
        let before = match exact {
            Exact::Rounding => &self.compared,
            Exact::Bf16 => &self.compared_first,
        };
        match self.comparison.check.compare(before, &compared, exact) {
            Err(reason) => return Ok((TuneOutcome::Unchecked, reason)),
            Ok(difference) => {
                trial.results = Some(difference);
                // A NaN is within no tolerance.
                let is_equal = difference.deviation <= difference.tolerance;
                if !is_equal {
                    return Ok((TuneOutcome::Unequal, detail));
                }
            }
        }
        if self.comparison.smaller.is_some() {
            detail.push_str("; results compared at smaller sizes");
        }
        (self.program, self.compared, self.measure) = (program, compared, measure);
        Ok((TuneOutcome::Kept, detail))
    }

    /// A quick compilation; the reason where the compiler refuses.
    fn compiled(
        &mut self,
        program: &Program,
        flags: &BTreeMap<String, String>,
    ) -> Result<Result<TuneMeasure, String>, Error> {
        match measured(&mut self.driver, program, self.request, flags, CompileMode::Quick) {
            Ok(measure) => Ok(Ok(measure)),
            Err(error @ Error::Compile(CompileError::Interrupted)) => Err(error),
            Err(error @ (Error::Compile(_) | Error::Missing(_))) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    fn finish(mut self, before: TuneMeasure) -> Result<Tuned, Error> {
        let mut notes = vec!["times are estimates of the compiler's output, not measurements".to_string()];
        let (mut before, mut after) = (before, self.measure.clone());
        let changed = self.program.digest() != self.first.digest() || !self.flags.is_empty();
        if self.request.confirm == TuneConfirm::Full && changed {
            (self.driver.progress)("confirming with the whole compiler");
            let (flags, none) = (self.flags.clone(), BTreeMap::new());
            let full =
                measured(&mut self.driver, &self.first, self.request, &none, CompileMode::Full).and_then(|first| {
                    let last = measured(&mut self.driver, &self.program, self.request, &flags, CompileMode::Full)?;
                    Ok((first, last))
                });
            match full {
                Ok(measures) => {
                    let said = [("as it was", &before, &measures.0), ("as tuned", &after, &measures.1)];
                    notes.extend(said.into_iter().filter_map(|(which, quick, full)| {
                        Some(format!("{which}: {}", apart(&quick.shares, &full.shares)?))
                    }));
                    (before, after) = measures;
                }
                Err(error @ Error::Compile(CompileError::Interrupted)) => return Err(error),
                Err(error) => notes.push(format!("the whole compiler did not confirm it: {error}")),
            }
        }
        if after.step.seconds > before.step.seconds {
            notes.push("the whole compiler sees no gain: use the program as it was".into());
        }
        let (mesh, shardings) = sharding::changes(&self.first, &self.program, self.mesh.as_ref());
        Ok(Tuned {
            module: self.first.name().to_string(),
            slice: self.request.fit.compile.slice.to_string(),
            speedup: before.step.seconds / after.step.seconds.max(f64::MIN_POSITIVE),
            before,
            after,
            trials: self.trials,
            flags: self.flags,
            mesh,
            shardings,
            notes,
            program: self.program,
            compared: self.compared,
        })
    }
}

fn record(trial: &mut TuneTrial, measure: &TuneMeasure, judgement: &Judgement) {
    trial.step_s = Some(measure.step.seconds);
    trial.hbm_bytes = Some(measure.hbm_bytes);
    trial.gain_s = Some(judgement.gain_s);
    trial.error_s = Some(judgement.error_s);
}
