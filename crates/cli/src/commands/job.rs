//! `tpu job`: a job from a file to its end, through preemptions, crashes, hangs and the death of this process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cloud::{Account, Ask, CloudTpu, requests};
use fleet::System;
use fleet::job::{JobFile, JobPlatform};
use fleet::supervisor::{
    Action, Ending, JobBill, JobOwner, JobState, Journal, Seen, Supervisor, SupervisorError, UnitFate, decide,
};
use fleet::workers::{HostKeySource, Ssh, SshWorkers, ask_to_stop};
use serde::Serialize;
use weights::Store;

use crate::args::{JobArgs, JobCommand};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::{human, log, stop};

/// How often a signal is looked for between two turns.
const LOOK: Duration = Duration::from_millis(50);

/// What `--json` prints of a job.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    job: &'a str,
    owner: Option<String>,
    is_over: bool,
    ending: Option<&'a Ending>,
    attempt: Option<u32>,
    attempts: u32,
    restarts_used: u32,
    restarts: u32,
    step: Option<u64>,
    slices: Vec<SliceRecord<'a>>,
    bill: &'a JobBill,
    budget_usd: Option<f64>,
    /// At the deadline, if it goes on like this.
    projected_usd: Option<f64>,
    deadline_unix_s: Option<u64>,
}

/// One request for slices.
#[derive(Serialize)]
struct SliceRecord<'a> {
    name: &'a str,
    zone: &'a str,
    slices: u32,
    state: String,
}

/// What `--json` prints of something that happened.
#[derive(Serialize)]
struct Event<'a> {
    version: u32,
    event: &'a str,
    unix_ms: u64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<usize>,
}

pub(crate) fn run(args: &JobArgs, output: &Output) -> Result<Answer, Failure> {
    match &args.command {
        JobCommand::Run { file, dry_run: true } => dry_run(&read(file)?, output),
        JobCommand::Run { file, dry_run: false } => supervise(&read(file)?, output),
        JobCommand::Watch { file, every } => watch(&read(file)?, Duration::from_secs(*every), output),
        JobCommand::Stop { file } => ask(&read(file)?),
        JobCommand::Status { file } => {
            let job = read(file)?;
            show(&job, &journal(&job)?, output)?;
            Ok(Answer::Yes)
        }
    }
}

fn read(file: &Path) -> Result<JobFile, Failure> {
    JobFile::read(file).map_err(|error| Failure::new(error).hint("docs/reference/job.md has every key of a job file"))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn account(job: &JobFile) -> Result<Account, Failure> {
    Account::of(&System::host(), job.cloud.project.as_deref()).map_err(cloud_failure)
}

fn cloud_failure(error: cloud::Error) -> Failure {
    let hint = error.remedy();
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn only_tpu_vms(job: &JobFile) -> Result<(), Failure> {
    match job.platform {
        JobPlatform::TpuVm => Ok(()),
        JobPlatform::Gke => {
            Err(Failure::new(format!("job {} is for Kubernetes, which supervises it itself", job.name))
                .hint("use `tpu k8s apply FILE`"))
        }
    }
}

/// The requests of the first turn.
fn dry_run(job: &JobFile, output: &Output) -> Result<Answer, Failure> {
    only_tpu_vms(job)?;
    let account = account(job)?;
    let mut state = JobState::new(job, "run", now_ms());
    let decision = decide(job, &mut state, &Seen::nothing_in(job), now_ms());
    let mut asked = Vec::new();
    for action in &decision.actions {
        if let Action::Create(request) = action {
            asked.extend(requests::to_create(&account, request, &Ask::default()).map_err(Failure::new)?);
        }
    }
    let text = || {
        let mut text = format!(
            "{}: {} workers of {}, {} zones at once, the first to give wins\n",
            job.name,
            job.processes(),
            job.slice(),
            job.slices.zones.len()
        );
        for zone in &job.slices.zones {
            let price = job.usd_per_slice_hour(zone).map(|usd| usd * f64::from(job.slice().num_slices()));
            let price = price.map_or_else(|| "price unknown".into(), |usd| format!("${usd:.2}/h"));
            text.push_str(&format!("  {zone}: {price}\n"));
        }
        for request in &asked {
            text.push_str(&format!("\n{} {}\n", request.method, request.url));
            if let Some(body) = &request.body {
                text.push_str(&format!("{body:#}\n"));
            }
        }
        text
    };
    output.record(&asked, text)?;
    Ok(Answer::Yes)
}

fn supervise(job: &JobFile, output: &Output) -> Result<Answer, Failure> {
    only_tpu_vms(job)?;
    let told = stop::on_signal();
    let provider = Arc::new(CloudTpu::new(account(job)?).map_err(cloud_failure)?);
    let store = Store::open(&job.folder).map_err(Failure::new)?;
    let folder = tempfile::Builder::new().prefix("tpu-job-").tempdir().map_err(Failure::new)?;
    let program = std::env::current_exe().map_err(Failure::new)?;
    let find = |name: &str| System::host().find_program(name);
    let ssh = Ssh {
        program: find("ssh")
            .ok_or_else(|| Failure::new("ssh was not found on PATH").hint("install OpenSSH's client"))?,
        user: job.cloud.ssh_user.clone(),
        key: job.cloud.ssh_key.clone(),
        folder: folder.path().to_path_buf(),
    };
    let is_json = output.is_json();
    let on_line = Box::new(move |process: usize, line: &str| match is_json {
        true => println!("{}", event("log", line, Some(process))),
        false => eprintln!("[{process}] {line}"),
    });
    let host_keys = host_keys(job, provider.clone());
    let workers = SshWorkers::new(job, ssh, &program, Some(host_keys), on_line).map_err(Failure::new)?;
    let me = JobOwner::here(&random());
    let clock = now_ms;
    let mut supervisor = Supervisor::new(job, &*provider, &workers, store, &clock, me, &random()[..6]);
    let mut holder = None;
    let mut ended = 0;
    loop {
        let tick = match supervisor.tick() {
            Ok(tick) => tick,
            // The store may answer again.
            Err(SupervisorError::Journal(error)) => {
                say(output, &format!("warning: {error}"))?;
                if wait(1_000, &told) {
                    return Err(Failure::new(error).hint("this supervisor stops; the job goes on without one"));
                }
                continue;
            }
            Err(error) => return Err(Failure::new(error).hint("`tpu job watch` shows what it does")),
        };
        for line in &tick.says {
            say(output, line)?;
        }
        if tick.held_by != holder {
            if let Some(by) = &tick.held_by {
                say(output, &format!("the job is supervised by {by}; this one takes over if that one is gone"))?;
            }
            holder = tick.held_by;
        }
        if let Some(state) = supervisor.state() {
            for attempt in state.ended.iter().skip(ended) {
                workers.keep_logs(attempt.number);
            }
            ended = state.ended.len();
        }
        if tick.is_over {
            break;
        }
        if told.load(Ordering::Relaxed) || wait(tick.wait_ms, &told) {
            supervisor.release().map_err(Failure::new)?;
            say(
                output,
                "this supervisor stops; the job goes on without one. `tpu job run` supervises it again, `tpu job stop` ends it",
            )?;
            return Ok(Answer::Preempted);
        }
    }
    let journal = journal(job)?;
    show(job, &journal, output)?;
    match journal.state.ending {
        Some(Ending::Finished) => Ok(Answer::Yes),
        Some(Ending::Answered) => Ok(Answer::No),
        Some(Ending::Stopped | Ending::Budget | Ending::Deadline) => Ok(Answer::Preempted),
        Some(Ending::GivenUp { why }) => Err(Failure::new(why).hint(
            "logs of every attempt are in the job's folder, below logs; with another folder the job begins anew",
        )),
        None => Err(Failure::new("the job is over without an ending")),
    }
}

/// Keys of workers' ssh servers, as their guest attributes publish them.
fn host_keys(job: &JobFile, provider: Arc<CloudTpu>) -> HostKeySource {
    // Slices of one request are nodes with numbers.
    let is_numbered = job.slice().num_slices() > 1 && !job.is_elastic();
    Box::new(move |place| {
        let node = if is_numbered { format!("{}-{}", place.unit, place.unit_slice) } else { place.unit.clone() };
        provider.host_keys(&place.zone, &node, place.worker).map_err(|error| error.to_string())
    })
}

/// Waits, unless a signal comes. Whether one did.
fn wait(ms: u64, told: &std::sync::atomic::AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        if told.load(Ordering::Relaxed) {
            return true;
        }
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    told.load(Ordering::Relaxed)
}

fn event(kind: &str, message: &str, process: Option<usize>) -> String {
    let event = Event { version: 1, event: kind, unix_ms: now_ms(), message, process };
    serde_json::to_string(&event).unwrap_or_default()
}

fn say(output: &Output, line: &str) -> Result<(), Failure> {
    match output.is_json() {
        true => output.text(&format!("{}\n", event("job", line, None))),
        false => {
            log::say(line);
            Ok(())
        }
    }
}

fn ask(job: &JobFile) -> Result<Answer, Failure> {
    let journal = journal(job)?;
    if journal.state.is_over {
        log::say("the job is over already");
        return Ok(Answer::Yes);
    }
    ask_to_stop(job).map_err(Failure::new)?;
    match journal.owner {
        Some(owner) => log::say(&format!("asked: {owner} saves, stops and deletes; `tpu job watch` shows it")),
        None => log::say("asked; no supervisor is there: `tpu job run` stops it and deletes its slices"),
    }
    Ok(Answer::Yes)
}

fn journal(job: &JobFile) -> Result<Journal, Failure> {
    let store = Store::open(&job.folder).map_err(Failure::new)?;
    let found = Journal::read(&store).map_err(Failure::new)?;
    let missing = || {
        Failure::new(format!("no journal is in {}: the job was never run", job.folder))
            .hint("start it with `tpu job run`")
    };
    found.map(|(journal, _)| journal).ok_or_else(missing)
}

fn watch(job: &JobFile, every: Duration, output: &Output) -> Result<Answer, Failure> {
    let told = stop::on_signal();
    loop {
        let journal = journal(job)?;
        show(job, &journal, output)?;
        if journal.state.is_over || wait(every.as_millis() as u64, &told) {
            return Ok(Answer::Yes);
        }
    }
}

fn show(job: &JobFile, journal: &Journal, output: &Output) -> Result<(), Failure> {
    let state = &journal.state;
    let now = now_ms();
    let bill = JobBill::of(job, state, now);
    let deadline = job.limits.deadline_s.map(|seconds| state.started_ms + seconds * 1000);
    let left = |deadline: u64| deadline.saturating_sub(now) as f64 / 3_600_000.0;
    let projected = deadline.filter(|_| !state.is_over).map(|deadline| bill.usd + bill.usd_per_hour * left(deadline));
    let slices = state.units.iter().filter(|unit| unit.gone_ms.is_none()).map(|unit| {
        let state = match (&unit.fate, unit.is_ready, unit.is_seen) {
            (UnitFate::Doomed { why }, _, _) => format!("deleting: {why}"),
            (UnitFate::Wanted, true, _) => "ready".into(),
            (UnitFate::Wanted, false, true) => "waiting".into(),
            (UnitFate::Wanted, false, false) => unit.refused.clone().unwrap_or_else(|| "asked for".into()),
        };
        SliceRecord { name: &unit.name, zone: &unit.zone, slices: unit.slices, state }
    });
    let record = Record {
        version: 1,
        job: &state.job,
        owner: journal.owner.as_ref().map(ToString::to_string),
        is_over: state.is_over,
        ending: state.ending.as_ref(),
        attempt: state.attempt.as_ref().map(|attempt| attempt.number),
        attempts: state.attempts,
        restarts_used: state.policy.used,
        restarts: state.policy.restarts,
        step: state.step,
        slices: slices.collect(),
        bill: &bill,
        budget_usd: job.limits.budget_usd,
        projected_usd: projected,
        deadline_unix_s: deadline.map(|deadline| deadline / 1000),
    };
    output.record(&record, || text(&record))
}

fn text(record: &Record<'_>) -> String {
    let mut text = format!("job {}: ", record.job);
    text.push_str(&match (record.is_over, record.ending, record.attempt) {
        (true, Some(ending), _) => format!("over, {}", ending_text(ending)),
        (_, Some(ending), _) => format!("ending, {}", ending_text(ending)),
        (_, None, Some(attempt)) => format!("attempt {attempt} is under way"),
        (_, None, None) => "waiting for slices".into(),
    });
    let step = record.step.map_or_else(|| "no checkpoint yet".into(), |step| format!("checkpoint of step {step}"));
    text.push_str(&format!(
        "\n{step}, {} attempts, {} of {} restarts used\n",
        record.attempts, record.restarts_used, record.restarts
    ));
    match (&record.owner, record.is_over) {
        (Some(owner), _) => text.push_str(&format!("supervised by {owner}\n")),
        (None, false) => text.push_str("nobody supervises it: `tpu job run` does\n"),
        (None, true) => {}
    }
    for slice in &record.slices {
        text.push_str(&format!("  {} in {}: {}\n", slice.name, slice.zone, slice.state));
    }
    let bill = record.bill;
    if !bill.slices.is_empty() {
        use Align::{Left, Right};
        let mut table = Table::new(&[Left, Left, Right, Right, Right]);
        table.row(["slice", "zone", "paid", "wasted", "cost"]);
        for slice in &bill.slices {
            let cost = slice.usd_per_hour.map(|usd| format!("${:.2}", usd * slice.seconds as f64 / 3600.0));
            let time = |seconds: u64| human::seconds(seconds as f64);
            table.row([
                slice.name.clone(),
                slice.zone.clone(),
                time(slice.seconds),
                time(slice.wasted_seconds),
                cost.unwrap_or("-".into()),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render());
        text.push_str(&format!(
            "${:.2} so far, ${:.2} of it wasted by restarts, waits and deleting\n",
            bill.usd, bill.wasted_usd
        ));
    }
    if let Some(budget) = record.budget_usd {
        text.push_str(&format!("budget ${budget:.2}\n"));
    }
    if let Some(projected) = record.projected_usd {
        text.push_str(&format!("${projected:.2} at the deadline, if it goes on like this\n"));
    }
    text
}

fn ending_text(ending: &Ending) -> String {
    match ending {
        Ending::Finished => "finished".into(),
        Ending::Answered => "its program said no".into(),
        Ending::Stopped => "stopped".into(),
        Ending::Budget => "the budget is spent".into(),
        Ending::Deadline => "the deadline was reached".into(),
        Ending::GivenUp { why } => format!("given up: {why}"),
    }
}

fn random() -> String {
    use std::hash::BuildHasher;
    format!("{:016x}", std::hash::RandomState::new().hash_one(now_ms()))
}
