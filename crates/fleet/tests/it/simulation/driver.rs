//! Drives supervisors through a world: starts, kills, pauses and doubles them, and says what came of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fleet::job::JobFile;
use fleet::provider::{PaidTime, ProvidedSlice, Provider, ProviderError, SliceId, SliceRequest};
use fleet::supervisor::{
    Ending, JobAttempt, JobBill, JobOwner, JobWorkers, Journal, Records, StopHow, Supervisor, SupervisorError,
    WorkerSeen,
};

use super::world::{Chances, Fault, Random, World};

/// Steps of the program, one a second.
pub(super) const STEPS: u64 = 120;
/// Steps of one that still runs when requests are filled that were given up 70 minutes before.
const MANY_STEPS: u64 = 5_000;
/// Supervisors that die in one schedule, at most.
const MAX_KILLS: usize = 15;
/// A schedule that takes longer is stuck.
const MAX_SECONDS: u64 = 20_000;

/// What happens in one run.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    seed: u64,
    job: &'static str,
    zones: &'static [&'static str],
    faults: Vec<(u64, Fault)>,
    chances: Chances,
    without_stock: Vec<(&'static str, u64)>,
    quota: usize,
    /// One in so many calls of a supervisor is its last; 0 never.
    kills: u64,
    /// One in so many calls is a long pause.
    pauses: u64,
    /// A second supervisor starts with the first.
    has_two: bool,
    stop_at: Option<u64>,
    steps: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) ending: Ending,
    pub(super) attempts: u32,
    pub(super) slices_of_attempts: Vec<u32>,
    pub(super) bill: JobBill,
    pub(super) met: BTreeMap<&'static str, u64>,
}

const WHOLE: &str = "count = 2\n";
const ELASTIC: &str = "count = 4\nmin_count = 1\n";
const THREE: &[&str] = &["us-east5-a", "us-east5-b", "us-central1-b"];

impl Schedule {
    pub(super) fn quiet() -> Schedule {
        Schedule {
            seed: 7,
            job: WHOLE,
            zones: THREE,
            faults: Vec::new(),
            chances: Chances::default(),
            without_stock: Vec::new(),
            quota: usize::MAX,
            kills: 0,
            pauses: 0,
            has_two: false,
            stop_at: None,
            steps: STEPS,
        }
    }

    pub(super) fn elastic() -> Schedule {
        let faults = vec![(1_070, Fault::PreemptedWithNotice)];
        Schedule { job: ELASTIC, zones: &["us-east5-a"], faults, ..Schedule::quiet() }
    }

    pub(super) fn random(seed: u64) -> Schedule {
        let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1);
        let kinds = [
            Fault::PreemptedWithNotice,
            Fault::PreemptedSilently,
            Fault::Vanished,
            Fault::DeadWorker,
            Fault::CutOff,
            Fault::Hang,
            Fault::Crash,
        ];
        let mut faults: Vec<(u64, Fault)> = (0..random.below(7))
            .map(|_| (1_020 + random.below(500), kinds[random.below(kinds.len() as u64) as usize]))
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        let mut chance = |often: u64| if random.one_in(2) { 0 } else { often + random.below(often) };
        let chances = Chances {
            lost_before: chance(15),
            lost_after: chance(15),
            busy: chance(12),
            failed_request: chance(6),
            late: 0,
            hides_late: false,
        };
        let kills = chance(60);
        let pauses = chance(200);
        let chances = Chances { late: if random.one_in(16) { 3 } else { 0 }, ..chances };
        // The job goes on until every late request has shown itself.
        let hides_late = random.one_in(16);
        let chances = if hides_late { Chances { late: 2, hides_late, ..chances } } else { chances };
        let is_elastic = random.one_in(3);
        let limits = match random.below(8) {
            _ if hides_late => "wait = '2m'\n",
            0 => "budget = '$9'\n",
            1 => "deadline = '3m'\n",
            2 => "wait = '2m'\n",
            _ => "",
        };
        let job = match (is_elastic, limits) {
            (false, "") => WHOLE,
            (true, "") => ELASTIC,
            (false, limits) => leaked(format!("{WHOLE}[limits]\n{limits}")),
            (true, limits) => leaked(format!("{ELASTIC}[limits]\n{limits}")),
        };
        let mut without_stock = Vec::new();
        for zone in THREE {
            if random.one_in(3) {
                without_stock.push((*zone, 1_000 + random.below(400)));
            }
        }
        Schedule {
            seed,
            job,
            zones: if random.one_in(3) { &THREE[..1] } else { THREE },
            faults,
            chances,
            without_stock,
            quota: if random.one_in(3) { if is_elastic { 5 } else { 1 } } else { usize::MAX },
            kills,
            pauses,
            has_two: random.one_in(3),
            stop_at: (random.one_in(15) && !hides_late).then(|| 1_030 + random.below(150)),
            steps: if hides_late { MANY_STEPS } else { STEPS },
        }
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// One supervisor's door to the world.
struct Door {
    id: usize,
}

struct Seat {
    supervisor: Option<Supervisor<'static, Door>>,
    due: u64,
    is_dead: bool,
    is_inside: bool,
}

struct Drive {
    world: World,
    schedule: Schedule,
    job: &'static JobFile,
    seats: Vec<Seat>,
    is_pausing: bool,
    /// Who asked workers under which epoch.
    epochs: BTreeMap<u64, usize>,
    problem: Option<String>,
}

impl Drive {
    /// Workers tell supervisors apart by their epochs: two of one epoch could both start something.
    fn speaks(&mut self, id: usize, epoch: u64) {
        let first = *self.epochs.entry(epoch).or_insert(id);
        if first != id {
            self.problem.get_or_insert(format!("supervisors {first} and {id} have the same epoch {epoch}"));
        }
    }

    /// Whether the supervisor that calls dies here.
    fn kills(&mut self) -> bool {
        let has_had_enough = self.seats.len() > MAX_KILLS;
        let dies = !has_had_enough && self.world.random.one_in(self.schedule.kills);
        if dies {
            self.world.meet("supervisor killed");
        }
        dies
    }
}

thread_local! {
    static DRIVE: RefCell<Option<Drive>> = const { RefCell::new(None) };
}

fn with<T>(run: impl FnOnce(&mut Drive) -> T) -> T {
    DRIVE.with(|drive| run(drive.borrow_mut().as_mut().expect("a run is under way")))
}

impl Door {
    /// Before every call: the supervisor may die here, or sleep for long. False if it is dead.
    fn enter(&self) -> bool {
        let pause = with(|drive| {
            if drive.seats[self.id].is_dead {
                return None;
            }
            if drive.kills() {
                drive.seats[self.id].is_dead = true;
                return None;
            }
            let may_pause = !drive.is_pausing && drive.seats.len() > 1;
            if may_pause && drive.world.random.one_in(drive.schedule.pauses) {
                drive.world.meet("supervisor paused");
                drive.is_pausing = true;
                return Some(drive.world.now + 20 + drive.world.random.below(60));
            }
            Some(0)
        });
        if let Some(until) = pause.filter(|until| *until > 0) {
            run_until(until);
            with(|drive| drive.is_pausing = false);
        }
        pause.is_some()
    }

    /// After a call: it may die before it has the answer.
    fn leave(&self) {
        with(|drive| {
            drive.seats[self.id].is_dead |= drive.kills();
        });
    }

    fn call<T>(&self, run: impl FnOnce(&mut World) -> Result<T, ProviderError>) -> Result<T, ProviderError> {
        let killed = || ProviderError::Unknown("the supervisor is dead".into());
        if !self.enter() {
            return Err(killed());
        }
        let answer = with(|drive| {
            let (before, after) = drive.world.luck();
            if let Some(error) = before {
                return Err(error);
            }
            let answer = run(&mut drive.world);
            after.map_or(answer, Err)
        });
        self.leave();
        answer
    }
}

impl Provider for Door {
    fn create(&self, request: &SliceRequest) -> Result<(), ProviderError> {
        self.call(|world| world.create(request))
    }

    fn list(&self, zone: &str, labels: &BTreeMap<String, String>) -> Result<Vec<ProvidedSlice>, ProviderError> {
        self.call(|world| Ok(world.list(zone, labels)))
    }

    fn get(&self, id: &SliceId) -> Result<Option<ProvidedSlice>, ProviderError> {
        self.call(|world| Ok(world.get(id)))
    }

    fn delete(&self, id: &SliceId) -> Result<(), ProviderError> {
        self.call(|world| {
            world.delete(id);
            Ok(())
        })
    }

    fn paid(&self, id: &SliceId) -> Result<Vec<PaidTime>, ProviderError> {
        let times = self.call(|world| Ok(world.paid(id)))?;
        Ok(times.into_iter().map(|(from, until)| PaidTime { from: Some(from), until }).collect())
    }
}

impl JobWorkers for Door {
    fn look(&self, epoch: u64, attempt: &JobAttempt) -> Vec<WorkerSeen> {
        if !self.enter() {
            return Vec::new();
        }
        with(|drive| {
            drive.speaks(self.id, epoch);
            drive.world.look(epoch, attempt)
        })
    }

    fn start(&self, epoch: u64, attempt: &JobAttempt) {
        if self.enter() {
            with(|drive| {
                drive.speaks(self.id, epoch);
                drive.world.start(epoch, attempt);
            });
            self.leave();
        }
    }

    fn stop(&self, epoch: u64, attempt: &JobAttempt, how: StopHow) {
        if self.enter() {
            with(|drive| {
                drive.speaks(self.id, epoch);
                drive.world.stop(epoch, attempt, how);
            });
            self.leave();
        }
    }

    fn newest_step(&self) -> Option<u64> {
        with(|drive| drive.world.saved)
    }

    fn is_stopped(&self) -> bool {
        with(|drive| drive.world.is_stopped)
    }
}

impl Records for Door {
    type Version = u64;

    fn read(&self) -> Result<Option<(Vec<u8>, u64)>, String> {
        let answer = self.call(|world| Ok(world.journal.clone()));
        answer.map_err(|error| error.to_string())
    }

    fn swap(&self, expected: Option<&u64>, bytes: &[u8]) -> Result<Option<u64>, String> {
        let answer = self.call(|world| {
            let found = world.journal.as_ref().map(|(_, version)| *version);
            if found != expected.copied() {
                return Ok(None);
            }
            let version = found.unwrap_or(0) + 1;
            world.journal = Some((bytes.to_vec(), version));
            Ok(Some(version))
        });
        answer.map_err(|error| error.to_string())
    }
}

fn clock() -> u64 {
    with(|drive| drive.world.now * 1000)
}

/// Sits a new supervisor down.
fn begin(due: u64) {
    with(|drive| {
        let id = drive.seats.len();
        let door: &'static Door = Box::leak(Box::new(Door { id }));
        let me = JobOwner { id: format!("s{id}"), host: "here".into(), process: id as u32, machine: None };
        let supervisor = Supervisor::new(drive.job, door, door, Door { id }, &(clock as fn() -> u64), me, "r1");
        drive.seats.push(Seat { supervisor: Some(supervisor), due, is_dead: false, is_inside: false });
    });
}

/// Lets time go by, with every supervisor that is not in the middle of something.
fn run_until(end: u64) {
    while with(|drive| drive.world.now < end && drive.problem.is_none()) {
        with(|drive| {
            drive.world.advance();
            drive.world.is_stopped |= drive.schedule.stop_at.is_some_and(|at| drive.world.now >= at);
            if let Some(broken) = drive.world.broken.take() {
                drive.problem.get_or_insert(broken);
            }
        });
        let seats = with(|drive| drive.seats.len());
        for id in 0..seats {
            turn(id);
        }
    }
}

/// One turn of one supervisor, if it is due.
fn turn(id: usize) {
    let taken = with(|drive| {
        let now = drive.world.now;
        let seat = &mut drive.seats[id];
        if seat.is_inside || now < seat.due {
            return None;
        }
        let supervisor = seat.supervisor.take()?;
        seat.is_inside = true;
        Some(supervisor)
    });
    let Some(mut supervisor) = taken else { return };
    let tick = supervisor.tick();
    let again = with(|drive| {
        let now = drive.world.now;
        let seat = &mut drive.seats[id];
        seat.is_inside = false;
        if seat.is_dead {
            // Somebody starts another one, sooner or later.
            return Some(now + 1 + drive.world.random.below(40));
        }
        match tick {
            Ok(tick) if tick.is_over => None,
            Ok(tick) => {
                seat.due = now + (tick.wait_ms / 1000).max(1);
                let holds = supervisor.state().is_some();
                seat.supervisor = Some(supervisor);
                if holds {
                    drive.world.supervised();
                }
                None
            }
            Err(SupervisorError::Journal(_)) => {
                seat.due = now + 1;
                seat.supervisor = Some(supervisor);
                None
            }
            Err(SupervisorError::Replaced { .. }) => None,
            Err(error) => {
                drive.problem.get_or_insert(error.to_string());
                None
            }
        }
    });
    if let Some(due) = again {
        begin(due);
    }
}

/// Runs a schedule to its end and checks what must hold.
pub(super) fn run(schedule: &Schedule) -> Result<Outcome, String> {
    let zones: Vec<String> = schedule.zones.iter().map(|zone| format!("{zone:?}")).collect();
    let (slices, limits) = schedule.job.split_once("[limits]\n").unwrap_or((schedule.job, ""));
    let text = format!(
        "name = 'sim'\nfolder = 'gs://b/sim'\n[run]\ntrain = 't.toml'\n[slices]\ntype = 'v6e-16'\ncapacity = 'spot'\nzones = [{}]\n{slices}\n\
         [limits]\nrestarts = 1000\nhang = '60s'\ngrace = '20s'\n{limits}",
        zones.join(", ")
    );
    let job: &'static JobFile = Box::leak(Box::new(JobFile::parse(&text).map_err(|error| error.to_string())?));
    let mut world = World::new(schedule.seed);
    world.workers_per_slice = job.workers_per_slice();
    world.chances = schedule.chances.clone();
    world.quota = schedule.quota;
    world.without_stock = schedule.without_stock.iter().map(|(zone, until)| ((*zone).to_string(), *until)).collect();
    world.faults = schedule.faults.clone();
    world.steps = schedule.steps;
    let drive = Drive {
        world,
        schedule: schedule.clone(),
        job,
        seats: Vec::new(),
        is_pausing: false,
        epochs: BTreeMap::new(),
        problem: None,
    };
    DRIVE.with(|slot| *slot.borrow_mut() = Some(drive));
    begin(0);
    if schedule.has_two {
        with(|drive| drive.world.meet("two supervisors"));
        begin(0);
    }
    loop {
        let now = with(|drive| drive.world.now);
        run_until(now + 1);
        let (is_over, problem) = with(|drive| {
            let is_over = drive.seats.iter().all(|seat| seat.supervisor.is_none());
            (is_over, drive.problem.clone())
        });
        if let Some(problem) = problem {
            return Err(problem);
        }
        if is_over {
            break;
        }
        if now > MAX_SECONDS {
            return Err(with(|drive| {
                let bytes = drive.world.journal.clone().map(|(bytes, _)| bytes).unwrap_or_default();
                let journal: Option<Journal> = serde_json::from_slice(&bytes).ok();
                let known = journal.map(|mut journal| {
                    journal.state.units.retain(|unit| unit.gone_ms.is_none());
                    journal.state.ended.reverse();
                    journal.state.ended.truncate(2);
                    journal
                });
                format!("it does not end: there are {:?}, known is {known:?}", drive.world.left())
            }));
        }
    }
    // Whatever was on its way arrives.
    with(|drive| (0..5_000).for_each(|_| drive.world.advance()));
    with(|drive| ended(drive, job))
}

fn ended(drive: &mut Drive, job: &JobFile) -> Result<Outcome, String> {
    let world = &mut drive.world;
    if let Some(broken) = world.broken.take() {
        return Err(broken);
    }
    if !world.left().is_empty() {
        return Err(format!("orphans: {:?}", world.left()));
    }
    if world.has_processes() {
        return Err("processes are left".into());
    }
    let Some((bytes, _)) = &world.journal else { return Err("no journal".into()) };
    let journal: Journal = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let state = journal.state;
    let bill = JobBill::of(job, &state, world.now * 1000);
    for (name, times) in &world.record {
        let paid: u64 = times.iter().map(|(from, until)| until.unwrap_or(world.now) - from).sum();
        let billed = bill.slices.iter().find(|slice| slice.name == *name).map_or(0, |slice| slice.seconds);
        if paid != billed {
            return Err(format!("{name} is paid for {paid} s and billed for {billed} s"));
        }
    }
    let known: u64 = bill.slices.iter().map(|slice| slice.seconds).sum();
    let paid: u64 = world.record.values().flatten().map(|(from, until)| until.unwrap_or(world.now) - from).sum();
    if known != paid {
        return Err(format!("{paid} s are paid and {known} s billed"));
    }
    if bill.wasted_seconds > bill.slice_seconds {
        return Err(format!("more is wasted than paid: {bill:?}"));
    }
    let ending = state.ending.clone().ok_or("it has no ending")?;
    if let Ending::GivenUp { why } = &ending {
        return Err(format!("given up: {why}"));
    }
    if ending == Ending::Finished && world.saved != Some(world.steps) {
        return Err(format!("it finished at step {:?}", world.saved));
    }
    if state.step != world.saved && ending == Ending::Finished {
        return Err(format!("the journal knows step {:?}, saved is {:?}", state.step, world.saved));
    }
    // What nobody can delete costs more, and so does a time without a supervisor.
    let excuses = ["filled 70 minutes later", "supervisor killed", "supervisor paused"];
    let is_excused = excuses.iter().any(|name| world.met.contains_key(name));
    if ending == Ending::Budget && !is_excused && job.limits.budget_usd.is_some_and(|budget| bill.usd > budget * 1.05) {
        return Err(format!("${:.2} of {:?} are spent", bill.usd, job.limits.budget_usd));
    }
    Ok(Outcome {
        ending,
        attempts: state.attempts,
        slices_of_attempts: state.ended.iter().map(|attempt| attempt.slices).collect(),
        bill,
        met: std::mem::take(&mut world.met),
    })
}
