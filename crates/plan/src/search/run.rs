//! The search itself: the closed form orders candidates, the compiler answers for the best, its answers correct the form.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chips::{Generation, Overrides, PriceKind, Slice};
use compile::{CompileError, CompileMode, CompileRequest, SliceCompiler};
use xla::Opcode;

use super::answer::{Answer, Confidence, Plan, Refused};
use super::candidate::{self, Candidate, FlagSet, ShardingChoice, WindowedEinsum};
use super::goal::Goal;
use super::load;
use super::roles::StepKind;
use super::rough::{Rough, rough};
use super::source::ProgramSource;
use crate::calibrate::MachineFile;
use crate::error::Error;
use crate::estimate::{Estimate, Workload};
use crate::machine::{Machine, MeasuredRates};

/// What to explore, and how long.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// What the caller wants.
    pub goal: Goal,
    /// Slices.
    pub slices: Vec<Slice>,
    /// Batches, where the program takes any; `None` tries some for each device.
    pub batches: Option<Vec<u64>>,
    /// Terms of the price.
    pub price: PriceKind,
    /// Region of the price; `None` takes the lowest.
    pub region: Option<String>,
    /// Figures that replace those of the table.
    pub overrides: Overrides,
    /// Compilations at most.
    pub compiles: usize,
    /// Time at most.
    pub time: Duration,
    /// Compilations side by side.
    pub workers: usize,
    /// Flags for every compilation.
    pub flags: BTreeMap<String, String>,
    /// Whether the whole compiler confirms the best plan.
    pub confirm: Confirm,
    /// Rates measured on the caller's own chips, for slices of their generation.
    pub machine: Option<MachineFile>,
}

impl SearchOptions {
    /// A search over these slices for the cheapest step on demand: at most 24 compilations and ten minutes.
    pub fn new(slices: Vec<Slice>) -> SearchOptions {
        SearchOptions {
            goal: Goal::default(),
            slices,
            batches: None,
            price: PriceKind::OnDemand,
            region: None,
            overrides: Overrides::default(),
            compiles: 24,
            time: Duration::from_secs(600),
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            flags: BTreeMap::new(),
            confirm: Confirm::No,
            machine: None,
        }
    }
}

/// Whether the whole compiler runs at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirm {
    /// The first phase is enough.
    #[default]
    No,
    /// The best plan goes through all of it.
    Best,
}

/// How far a search is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Compilations that are done.
    pub done: usize,
    /// Compilations that may be.
    pub of: usize,
    /// Seconds left, as far as can be said.
    pub left_s: Option<f64>,
    /// What is being done.
    pub doing: String,
}

/// Explores the candidates of a source. `progress` hears what is done, from several threads.
pub fn search(
    source: &dyn ProgramSource,
    options: &SearchOptions,
    compiler: &SliceCompiler,
    stop: &AtomicBool,
    progress: &(dyn Fn(&Progress) + Sync),
) -> Result<Answer, Error> {
    let started = Instant::now();
    let facts = source.facts();
    let prices = prices(options)?;
    let mut notes = notes(source, options);
    // What has no price cannot be compared with what has one.
    let is_comparable = |slice: &&Slice| prices.is_empty() || prices.contains_key(&slice.generation());
    let slices: Vec<Slice> = options.slices.iter().filter(is_comparable).copied().collect();
    let candidates = candidate::all(source, &slices, options.batches.as_deref());
    let considered = candidates.len();
    if candidates.is_empty() {
        return Err(Error::NoCandidates(why_none(source, options)));
    }
    let mut machines: BTreeMap<String, Machine> = BTreeMap::new();
    let points: Vec<Point> = candidates
        .into_iter()
        .map(|candidate| {
            let machine = machines.entry(candidate.slice.to_string()).or_insert_with(|| Machine::of(&candidate.slice));
            let of = source.facts_for(&candidate);
            let rough = rough(of, machine, &candidate, source.argument_bytes(&candidate));
            Point { candidate, rough, state: PointState::Waiting }
        })
        .collect();

    let hunt = Hunt {
        source,
        options,
        compiler,
        prices,
        progress,
        started,
        expired: AtomicBool::new(false),
        finished: AtomicUsize::new(0),
        board: Mutex::new(Board {
            points,
            plans: Vec::new(),
            refused: Vec::new(),
            asked: 0,
            corrections: Vec::new(),
            windowed_einsum: BTreeMap::new(),
            cut: Vec::new(),
            failure: None,
        }),
    };
    hunt.run(stop);
    let is_out_of_time = hunt.started.elapsed() >= options.time;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Compile(CompileError::Interrupted));
    }
    let mut board = hunt.board.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (true, Some(failure)) = (board.plans.is_empty(), board.failure.take()) {
        return Err(Error::Compile(failure));
    }
    if is_out_of_time {
        notes.push(format!("stopped after {:.0} s, as --time says", options.time.as_secs_f64()));
    }
    let mut answer = Answer {
        goal: options.goal,
        facts: facts.clone(),
        considered,
        compiled: board.asked,
        plans: board.plans,
        loads: Vec::new(),
        refused: board.refused,
        wall_s: started.elapsed().as_secs_f64(),
        notes,
    };
    answer.arrange();
    Ok(answer)
}

/// Prices by generation. A region or terms that no generation has is an error; a generation without is left without.
fn prices(options: &SearchOptions) -> Result<BTreeMap<Generation, f64>, Error> {
    let mut prices = BTreeMap::new();
    let mut regions: Vec<String> = Vec::new();
    for slice in &options.slices {
        let spec = slice.spec().with(&options.overrides);
        regions.extend(spec.prices.iter().filter(|p| p.kind == options.price).map(|p| p.region.to_string()));
        if let Some(price) = spec.price(options.price, options.region.as_deref()) {
            prices.insert(slice.generation(), price.usd_per_chip_hour);
        }
    }
    regions.sort();
    regions.dedup();
    let is_known = options.region.as_ref().is_none_or(|region| regions.contains(region));
    let is_needed = options.region.is_some() || options.goal.budget_usd.is_some();
    if !is_known || (prices.is_empty() && is_needed) {
        regions.retain(|region| region != "any");
        return Err(Error::NoPrice { region: options.region.clone(), kind: options.price, regions });
    }
    Ok(prices)
}

fn notes(source: &dyn ProgramSource, options: &SearchOptions) -> Vec<String> {
    let facts = source.facts();
    let mut notes = Vec::new();
    if let Some(batch) = facts.batch {
        notes.push(format!("the program's batch of {batch} stays; export it with a symbolic batch to explore others"));
    }
    if let Some(devices) = source.devices() {
        notes.push(format!("the program has shardings for {devices} devices; they stay"));
    }
    if !facts.is_donated && facts.state_bytes > 0 && facts.kind == StepKind::Training {
        notes.push("the state is not donated: it is in memory twice; export with donated arguments".into());
    }
    if facts.precise_matmuls > 0 {
        notes.push(format!("{} matmuls ask for more than the default precision", facts.precise_matmuls));
    }
    let priced =
        |slice: &Slice| slice.spec().with(&options.overrides).price(options.price, options.region.as_deref()).is_some();
    let mut unpriced: Vec<String> =
        options.slices.iter().filter(|slice| !priced(slice)).map(|slice| slice.generation().to_string()).collect();
    unpriced.dedup();
    if !unpriced.is_empty() {
        notes.push(format!(
            "no price is known for {}, which is left out where others have one: --set {}_price=USD",
            unpriced.join(", "),
            unpriced[0]
        ));
    }
    notes
}

fn why_none(source: &dyn ProgramSource, options: &SearchOptions) -> String {
    match (source.devices(), source.facts().batch) {
        _ if options.slices.is_empty() => "no slice was chosen".into(),
        (Some(devices), _) => format!("the program is split over {devices} devices, and no chosen slice has as many"),
        (None, Some(batch)) => format!("a batch of {batch} can be split over no chosen slice"),
        (None, None) => "no batch can be split over a chosen slice".into(),
    }
}

/// A candidate on the board.
struct Point {
    candidate: Candidate,
    rough: Rough,
    state: PointState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PointState {
    Waiting,
    Taken,
}

/// How layers lie on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layers {
    /// Each device computes whole layers, for its part of the batch.
    Whole,
    /// Devices share the work of a layer, or the program says how.
    Shared,
}

impl Layers {
    fn of(candidate: &Candidate) -> Layers {
        match candidate.sharding {
            ShardingChoice::ByRule(mesh) if mesh.model == 1 => Layers::Whole,
            _ => Layers::Shared,
        }
    }
}

/// What the compiler said against the closed form.
struct Correction {
    generation: Generation,
    /// Seconds by the estimate over seconds by the form, where it compiled.
    step: Option<f64>,
    /// Bytes likewise.
    memory: f64,
}

struct Board {
    points: Vec<Point>,
    plans: Vec<Plan>,
    refused: Vec<Refused>,
    asked: usize,
    corrections: Vec<Correction>,
    /// What was faster on a slice where the compiler cuts matmuls.
    windowed_einsum: BTreeMap<(Slice, Layers), WindowedEinsum>,
    /// Candidates whose matmuls the compiler cut, with their seconds.
    cut: Vec<(Candidate, f64)>,
    failure: Option<CompileError>,
}

struct Hunt<'a> {
    source: &'a dyn ProgramSource,
    options: &'a SearchOptions,
    compiler: &'a SliceCompiler,
    prices: BTreeMap<Generation, f64>,
    progress: &'a (dyn Fn(&Progress) + Sync),
    started: Instant,
    expired: AtomicBool,
    finished: AtomicUsize,
    board: Mutex<Board>,
}

/// So few compilations all go to different candidates, none to other compiler flags.
const FEW: usize = 4;
/// How full a device may be by the closed form before and after the compiler corrected it, and what is not worth asking.
const UNSURE: f64 = 1.3;
const SURE: f64 = 1.02;
const HOPELESS: f64 = 4.0;
/// Above the score of every plan that misses its goal.
const EXPECTED_TO_FAIL: f64 = 1e60;

impl Hunt<'_> {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, stop: &AtomicBool) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Ends children that are under way when the time is up or the caller stops.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if stop.load(Ordering::Relaxed) || self.started.elapsed() >= self.options.time {
                        self.expired.store(true, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            // What is reserved for other compiler flags, and other loads, on the best plan.
            let is_enough = self.options.compiles > FEW;
            let facts = self.source.facts();
            let is_served = facts.kind == StepKind::Inference && facts.batch.is_none();
            let for_loads = if is_served { load::MOST.min(self.options.compiles / 3) } else { 0 };
            let other_choices = self.source.variants().len().saturating_sub(1);
            let held_back = if is_enough { FlagSet::TRIALS.len() + other_choices + for_loads } else { 0 };
            self.work(self.options.compiles.saturating_sub(held_back.min(self.options.compiles / 2)));
            if self.board().plans.is_empty() {
                // Nothing to try other choices on.
                self.work(self.options.compiles);
            }
            if is_enough {
                self.try_variants();
                self.try_flags();
                self.try_loads(for_loads);
            }
            if self.options.confirm == Confirm::Best {
                self.confirm();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    /// Compiles candidates side by side until so many were asked about.
    fn work(&self, limit: usize) {
        std::thread::scope(|scope| {
            for _ in 0..self.options.workers.max(1) {
                scope.spawn(|| {
                    while !self.expired.load(Ordering::Relaxed) {
                        let Some((candidate, rough)) = self.take(limit) else { break };
                        self.ask(&candidate, rough, CompileMode::Quick);
                        self.compare_windowed_einsum(&candidate, rough);
                    }
                });
            }
        });
    }

    /// The next candidate: in turns the best of all, and the best on a slice that was not asked about.
    fn take(&self, limit: usize) -> Option<(Candidate, Rough)> {
        let mut board = self.board();
        if board.asked >= limit {
            return None;
        }
        let seen: Vec<Slice> =
            board.points.iter().filter(|p| p.state == PointState::Taken).map(|p| p.candidate.slice).collect();
        let wants_new_slice = board.asked % 2 == 1;
        let mut best: Option<(bool, f64, usize)> = None;
        for (n, point) in board.points.iter().enumerate().filter(|(_, point)| point.state == PointState::Waiting) {
            let Some(score) = self.promise(&board.corrections, point) else { continue };
            let is_behind = wants_new_slice && seen.contains(&point.candidate.slice);
            if best.is_none_or(|(behind, least, _)| (is_behind, score) < (behind, least)) {
                best = Some((is_behind, score, n));
            }
        }
        let (_, _, n) = best?;
        board.asked += 1;
        let point = &mut board.points[n];
        point.state = PointState::Taken;
        let (mut candidate, rough) = (point.candidate.clone(), point.rough);
        if let Some(windowed_einsum) = board.windowed_einsum.get(&(candidate.slice, Layers::of(&candidate))) {
            candidate.windowed_einsum = *windowed_einsum;
        }
        Some((candidate, rough))
    }

    /// Where the compiler cut matmuls, asks about them in one piece too, once for each slice and way to lay layers out. The
    /// faster way is then taken for the other candidates of that kind.
    fn compare_windowed_einsum(&self, candidate: &Candidate, rough: Rough) {
        let cut_s = {
            let mut board = self.board();
            let is_known = board.windowed_einsum.contains_key(&(candidate.slice, Layers::of(candidate)));
            let Some(cut_s) = board.cut.iter().find(|(cut, _)| cut == candidate).map(|(_, seconds)| *seconds) else {
                return;
            };
            if is_known || self.options.compiles <= FEW {
                return;
            }
            // Also keeps other workers from asking the same.
            board.windowed_einsum.insert((candidate.slice, Layers::of(candidate)), WindowedEinsum::Default);
            board.asked += 1;
            cut_s
        };
        let whole = Candidate { windowed_einsum: WindowedEinsum::Off, ..candidate.clone() };
        self.ask(&whole, rough, CompileMode::Quick);
        let mut board = self.board();
        let whole_s = board.plans.iter().find(|plan| plan.candidate == whole).map(|plan| plan.step.seconds);
        match whole_s {
            Some(whole_s) if whole_s < cut_s => {
                board.windowed_einsum.insert((candidate.slice, Layers::of(candidate)), WindowedEinsum::Off);
            }
            Some(_) => {}
            // It did not fit, which says nothing of smaller batches.
            None => {
                board.windowed_einsum.remove(&(candidate.slice, Layers::of(candidate)));
            }
        }
    }

    /// The score a candidate is expected to have; `None` where it is far from fitting. One that is expected not to fit
    /// comes after all that are, the smallest first.
    fn promise(&self, corrections: &[Correction], point: &Point) -> Option<f64> {
        let generation = point.candidate.slice.generation();
        let memory = mean(corrections.iter().map(|c| c.memory)).unwrap_or(1.0);
        let limit = point.candidate.slice.usable_hbm_bytes_per_device() as f64;
        let filled = point.rough.hbm_bytes * memory / limit;
        if filled > HOPELESS {
            return None;
        }
        if filled > if corrections.is_empty() { UNSURE } else { SURE } {
            return Some(EXPECTED_TO_FAIL * filled);
        }
        let of_generation = mean(corrections.iter().filter(|c| c.generation == generation).filter_map(|c| c.step));
        let step = of_generation.or_else(|| mean(corrections.iter().filter_map(|c| c.step))).unwrap_or(1.0);
        let tokens = self.tokens(&point.candidate);
        let price = self.prices.get(&generation).copied();
        let chips = f64::from(point.candidate.slice.chips());
        let outcome = self.options.goal.outcome(tokens, point.rough.step_s * step, chips, price);
        Some(self.options.goal.score(&outcome))
    }

    fn tokens(&self, candidate: &Candidate) -> f64 {
        candidate.batch as f64 * self.source.facts().tokens_per_sample as f64
    }

    /// Asks the compiler about a candidate and writes down what it says.
    fn ask(&self, candidate: &Candidate, rough: Rough, mode: CompileMode) {
        let outcome = self.compile(candidate, rough, mode);
        self.finished.fetch_add(1, Ordering::Relaxed);
        let mut board = self.board();
        let generation = candidate.slice.generation();
        match outcome {
            Ok(plan) => {
                board.corrections.push(Correction {
                    generation,
                    step: Some(plan.step.seconds / rough.step_s),
                    memory: plan.hbm_bytes as f64 / rough.hbm_bytes.max(1.0),
                });
                let fits = plan.headroom_bytes() >= 0;
                let same = |other: &Plan| other.candidate == plan.candidate;
                if let (true, Some(at)) = (mode == CompileMode::Full, board.plans.iter().position(same)) {
                    board.plans[at] = plan;
                } else if fits {
                    board.plans.push(plan);
                } else {
                    let why = format!("needs {} bytes of HBM more than there are", -plan.headroom_bytes());
                    board.refused.push(Refused { candidate: candidate.to_string(), why });
                }
            }
            Err(Error::Compile(CompileError::OutOfMemory(oom))) => {
                if let Some(needed) = oom.needed_bytes {
                    let memory = needed as f64 / rough.hbm_bytes.max(1.0);
                    board.corrections.push(Correction { generation, step: None, memory });
                }
                // More samples on the same devices take more.
                board.points.retain(|point| {
                    let other = &point.candidate;
                    let is_larger = other.slice == candidate.slice
                        && other.sharding == candidate.sharding
                        && other.variant == candidate.variant
                        && other.batch > candidate.batch;
                    point.state == PointState::Taken || !is_larger
                });
                let why = match (oom.needed_bytes, oom.available_bytes) {
                    (Some(needed), Some(available)) => format!(
                        "does not fit: {:.1} of {:.1} GiB",
                        needed as f64 / (1u64 << 30) as f64,
                        available as f64 / (1u64 << 30) as f64
                    ),
                    _ => oom.message,
                };
                board.refused.push(Refused { candidate: candidate.to_string(), why });
            }
            Err(Error::Compile(error)) => {
                if !matches!(error, CompileError::Interrupted) {
                    board.refused.push(Refused { candidate: candidate.to_string(), why: error.to_string() });
                    board.failure.get_or_insert(error);
                }
            }
            Err(error) => board.refused.push(Refused { candidate: candidate.to_string(), why: error.to_string() }),
        }
    }

    fn compile(&self, candidate: &Candidate, rough: Rough, mode: CompileMode) -> Result<Plan, Error> {
        self.say(candidate, mode);
        let program = self.source.program(candidate)?;
        let mut request = CompileRequest::new(candidate.slice);
        request.mode = mode;
        request.flags = candidate.compiler_flags();
        request.flags.extend(self.options.flags.clone());
        let compiled = self.compiler.compile_program(&program, &request, &self.expired, &mut |_| {})?;
        let protocol = |message: String| Error::Compile(CompileError::Protocol(message));
        let optimized = compiled.optimized().map_err(|error| protocol(error.to_string()))?;
        let optimized = optimized.ok_or_else(|| protocol("no optimized program came back".into()))?;
        let (entry, module) = (&compiled.entry, &optimized.module);
        let facts = self.source.facts();
        let tokens_per_step = self.tokens(candidate);
        let travels = |opcode: &Opcode| matches!(opcode, Opcode::CollectivePermute | Opcode::CollectivePermuteStart);
        let is_cut = module.instructions().any(|(_, instruction)| travels(instruction.opcode()));
        let workload = Workload {
            tokens_per_step: Some(tokens_per_step),
            model_flops_per_step: Some(facts.model_flops_per_sample * candidate.batch as f64),
            rates: self.rates(&candidate.slice),
        };
        let estimate = Estimate::of(module, &candidate.slice, &[], &workload);
        let chips = candidate.slice.chips();
        let usd_per_chip_hour = self.prices.get(&candidate.slice.generation()).copied();
        let goal = &self.options.goal;
        let outcome = goal.outcome(tokens_per_step, estimate.step.seconds, f64::from(chips), usd_per_chip_hour);
        if is_cut && candidate.windowed_einsum == WindowedEinsum::Default {
            self.board().cut.push((candidate.clone(), estimate.step.seconds));
        }
        let tokens_per_s = tokens_per_step / estimate.step.seconds.max(1e-30);
        Ok(Plan {
            slice: candidate.slice.to_string(),
            chips,
            sharding: candidate.sharding,
            batch: candidate.batch,
            tokens_per_step,
            precision: candidate.precision,
            variant: candidate.variant.clone(),
            flags: candidate.flags,
            windowed_einsum: candidate.windowed_einsum,
            confidence: if mode == CompileMode::Full { Confidence::Full } else { Confidence::Quick },
            step: estimate.step,
            rough_step_s: rough.step_s,
            mfu: estimate.mfu.unwrap_or(0.0),
            hfu: estimate.hfu,
            tokens_per_s,
            tokens_per_s_per_chip: tokens_per_s / f64::from(chips.max(1)),
            hbm_bytes: entry.report.memory.total,
            hbm_limit_bytes: entry.report.memory.limit,
            usd_per_chip_hour,
            outcome,
            is_met: goal.is_met(&outcome),
            is_on_frontier: false,
            candidate: candidate.clone(),
        })
    }

    fn say(&self, candidate: &Candidate, mode: CompileMode) {
        let done = self.finished.load(Ordering::Relaxed);
        let elapsed = self.started.elapsed().as_secs_f64();
        let left = self.options.compiles.saturating_sub(done) as f64;
        let by_time = (self.options.time.as_secs_f64() - elapsed).max(0.0);
        let left_s = (done > 0).then(|| (elapsed / done as f64 * left).min(by_time));
        let verb = if mode == CompileMode::Full { "confirming" } else { "compiling" };
        (self.progress)(&Progress { done, of: self.options.compiles, left_s, doing: format!("{verb} {candidate}") });
    }

    /// The best plan so far.
    fn best(&self) -> Option<(Candidate, Rough)> {
        let board = self.board();
        let score = |plan: &Plan| self.options.goal.score(&plan.outcome);
        let best = board.plans.iter().min_by(|a, b| score(a).total_cmp(&score(b)))?;
        // As the compiler measured it, so that nothing is corrected by it twice.
        let rough = Rough { step_s: best.rough_step_s, hbm_bytes: best.hbm_bytes as f64 };
        Some((best.candidate.clone(), rough))
    }

    /// The best plan once more with other compiler flags.
    fn try_flags(&self) {
        let Some((candidate, rough)) = self.best() else { return };
        let trials = FlagSet::TRIALS.map(|flags| (Candidate { flags, ..candidate.clone() }, rough));
        self.ask_all(trials.to_vec());
    }

    /// The best plan once more written in the other ways, as far as they may fit: what they cost beside each other depends on
    /// what the compiler hides, which the closed form does not know.
    fn try_variants(&self) {
        let Some((best, _)) = self.best() else { return };
        let mut trials = Vec::new();
        {
            let board = self.board();
            for variant in self.source.variants().into_iter().filter(|variant| *variant != best.variant) {
                let candidate = Candidate { variant, ..best.clone() };
                let facts = self.source.facts_for(&candidate);
                let machine = Machine::of(&candidate.slice);
                let rough = rough(facts, &machine, &candidate, self.source.argument_bytes(&candidate));
                let point = Point { candidate, rough, state: PointState::Taken };
                let is_likely = self.promise(&board.corrections, &point).is_some_and(|score| score < EXPECTED_TO_FAIL);
                if is_likely && board.plans.iter().all(|plan| plan.candidate != point.candidate) {
                    trials.push((point.candidate, rough));
                }
            }
        }
        self.ask_all(trials);
    }

    /// Rates that were measured on chips of a slice's generation.
    fn rates(&self, slice: &Slice) -> MeasuredRates {
        self.options.machine.as_ref().and_then(|file| file.rates_for(slice).ok()).unwrap_or_default()
    }

    /// Asks about candidates side by side.
    fn ask_all(&self, trials: Vec<(Candidate, Rough)>) {
        let left = Mutex::new(trials);
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        std::thread::scope(|scope| {
            for _ in 0..self.options.workers.max(1) {
                scope.spawn(|| {
                    while let Some((candidate, rough)) = next().filter(|_| !self.expired.load(Ordering::Relaxed)) {
                        self.board().asked += 1;
                        self.ask(&candidate, rough, CompileMode::Quick);
                    }
                });
            }
        });
    }

    /// The best plan with more and fewer sequences, until there are too many.
    fn try_loads(&self, most: usize) {
        let Some((best, _)) = self.best() else { return };
        let all = load::candidates(&best, self.source.facts(), self.options.batches.as_deref());
        for candidate in all.into_iter().take(most) {
            let is_known = self.board().plans.iter().any(|plan| plan.candidate == candidate);
            if is_known || self.expired.load(Ordering::Relaxed) {
                continue;
            }
            let machine = Machine::of(&candidate.slice);
            let rough = rough(self.source.facts(), &machine, &candidate, self.source.argument_bytes(&candidate));
            self.board().asked += 1;
            self.ask(&candidate, rough, CompileMode::Quick);
            if !self.board().plans.iter().any(|plan| plan.candidate == candidate) {
                break;
            }
        }
    }

    /// The best plan through the whole compiler.
    fn confirm(&self) {
        if let Some((candidate, rough)) = self.best().filter(|_| !self.expired.load(Ordering::Relaxed)) {
            self.ask(&candidate, rough, CompileMode::Full);
        }
    }
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}
