//! `tpu train --restarts N`: the training in a child process that is started again after a crash or a preemption notice.

use std::time::{Duration, Instant};

use fleet::restart::{RestartPolicy, RestartVerdict, RunEnd};
use serde::Serialize;
use train::Training;
use trust::{AuditEvent, AuditOutcome};
use weights::CheckpointManager;

use crate::audit::note;
use crate::child::{ChildEnd, Parent};
use crate::failure::{Answer, Failure};
use crate::log;
use crate::output::Output;

/// Set in the training that is watched.
const SUPERVISED: &str = "TPUBRIDGE_SUPERVISED";

/// How often signals are looked for in a pause.
const LOOK: Duration = Duration::from_millis(50);

/// What `--json` prints before a restart.
#[derive(Serialize)]
struct Restart {
    version: u32,
    event: &'static str,
    /// Which restart, from 1.
    restart: u32,
    restarts: u32,
    /// Why the run ended.
    reason: String,
    /// The step of the newest checkpoint, from which the next run goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    pause_seconds: f64,
}

/// Whether this process is to watch over the training, and not to do it.
pub(super) fn is_supervisor(restarts: u32) -> bool {
    restarts > 0 && std::env::var_os(SUPERVISED).is_none()
}

/// Runs the training until it ends for good.
pub(super) fn run(restarts: u32, training: &Training, output: &Output) -> Result<Answer, Failure> {
    let Some(checkpoints) = training.options().checkpoints else {
        return Err(Failure::new("--restarts needs checkpoints: without any, every run begins anew")
            .hint("give --folder, or train.folder in the file"));
    };
    let manager = CheckpointManager::open(&checkpoints).map_err(train::Error::from)?;
    let mut parent = Parent::new()?;
    let mut policy = RestartPolicy::new(restarts);
    loop {
        let before = newest(&manager);
        let ended = parent.run(Parent::again()?.env(SUPERVISED, "1"))?;
        match ended.code {
            Some(0) => return Ok(Answer::Yes),
            // The loss is not finite: it would be so again.
            Some(1) => return Ok(Answer::No),
            _ => {}
        }
        if parent.told().is_some() {
            return stopped(&ended);
        }
        let after = newest(&manager);
        let reason = reason(&ended);
        let kind = if ended.code == Some(2) { RunEnd::Refused } else { RunEnd::Failed };
        let pause = match policy.ended(kind, after > before) {
            RestartVerdict::Again { pause } => pause,
            RestartVerdict::GiveUp { why } => return given_up(&ended, &reason, &why, after),
        };
        let used = policy.used;
        let from = after.map_or_else(|| "the beginning".to_string(), |step| format!("step {step}"));
        let seconds = pause.as_secs_f64();
        log::say(&format!("{reason}; restart {used} of {restarts} from {from} in {seconds:.0} s"));
        let restart = Restart {
            version: 1,
            event: "restart",
            restart: used,
            restarts,
            reason,
            step: after,
            pause_seconds: pause.as_secs_f64(),
        };
        if let Some(log) = training.audit_log() {
            let details =
                vec![("restart", used.into()), ("step", after.into()), ("reason", restart.reason.clone().into())];
            let target = training.folder().unwrap_or_default();
            note(&log, AuditEvent::TrainingRestart, target, &AuditOutcome::Done, details);
        }
        output.record(&restart, String::new)?;
        if !waited(&mut parent, pause) {
            log::say("stopped between two runs; the state of the newest checkpoint is saved");
            return Ok(Answer::Preempted);
        }
    }
}

/// Whether a pause went by without a signal.
fn waited(parent: &mut Parent, pause: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < pause {
        if parent.told().is_some() {
            return false;
        }
        std::thread::sleep(LOOK.min(pause));
    }
    parent.told().is_none()
}

/// A run that ended because the supervisor was asked to stop.
fn stopped(ended: &ChildEnd) -> Result<Answer, Failure> {
    match (ended.code, ended.signal) {
        (Some(75), _) => Ok(Answer::Preempted),
        // It has said why, or had nothing to save.
        (code, signal) => std::process::exit(code.unwrap_or(128 + signal.unwrap_or_default())),
    }
}

fn given_up(ended: &ChildEnd, reason: &str, why_not: &str, newest: Option<u64>) -> Result<Answer, Failure> {
    let saved = newest.map_or_else(|| "no checkpoint".to_string(), |step| format!("the checkpoint of step {step}"));
    let message = format!("{reason}, and is not started again: {why_not}; there is {saved}");
    if ended.code == Some(75) {
        log::say(&message);
        return Ok(Answer::Preempted);
    }
    Err(Failure::new(message).hint("see what the last run said; the same command goes on from the newest checkpoint"))
}

fn reason(ended: &ChildEnd) -> String {
    match (ended.code, ended.signal) {
        (Some(75), _) => "the training was stopped by a preemption notice or a signal".into(),
        (Some(code), _) => format!("the training ended with code {code}"),
        (None, Some(signal)) => format!("the training was ended by signal {signal}"),
        (None, None) => "the training ended".into(),
    }
}

/// The step of the newest checkpoint. Where it cannot be seen there is none, which is told.
fn newest(manager: &CheckpointManager) -> Option<u64> {
    manager.latest().unwrap_or_else(|error| {
        log::say(&format!("warning: checkpoints cannot be listed: {error}"));
        None
    })
}
