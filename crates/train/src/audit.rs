//! What a training writes to the audit log: that it began and ended, what it saved, restored and deleted.

use std::cell::Cell;
use std::path::PathBuf;

use serde_json::{Value, json};
use trust::{AuditEvent, AuditLog, AuditOutcome};

use crate::error::Error;
use crate::trainer::{Ended, TrainEvent};

/// The log of a training's folder: a file in it, or the user's where it is a bucket. A training without a folder leaves nothing,
/// no log either.
pub(crate) fn log_of(folder: Option<&str>, local: Option<PathBuf>) -> Option<AuditLog> {
    let env = |name: &str| std::env::var(name).ok();
    folder?;
    Some(match local {
        Some(folder) => AuditLog::in_folder(&folder, env),
        None => AuditLog::of_user(env),
    })
}

/// Writes what one process of a training does.
pub(crate) struct TrainingAudit {
    log: Option<AuditLog>,
    folder: String,
    process: usize,
    is_warned: Cell<bool>,
}

impl TrainingAudit {
    pub(crate) fn new(log: Option<AuditLog>, folder: Option<&str>, process: usize) -> TrainingAudit {
        TrainingAudit { log, folder: folder.unwrap_or_default().to_string(), process, is_warned: Cell::new(false) }
    }

    pub(crate) fn started(&self, steps: u64, devices: usize) {
        let details = [("steps", json!(steps)), ("devices", json!(devices)), ("process", json!(self.process))];
        self.write(AuditEvent::TrainingStart, &AuditOutcome::Done, details);
    }

    /// What happened while it trained.
    pub(crate) fn hear(&self, event: &TrainEvent) {
        use AuditEvent::{CheckpointDelete, CheckpointRestore, CheckpointSave};
        let failed = |message: &String| AuditOutcome::Failed(message.clone());
        match event {
            TrainEvent::Resumed(step) => {
                self.write(
                    CheckpointRestore,
                    &AuditOutcome::Done,
                    [("step", json!(step)), ("process", json!(self.process))],
                );
            }
            TrainEvent::Damaged(step, message) => {
                self.write(CheckpointRestore, &failed(message), [("step", json!(step))])
            }
            TrainEvent::Saved { step, seconds, size_bytes, deleted } => {
                let details = [("step", json!(step)), ("bytes", json!(size_bytes)), ("seconds", json!(seconds))];
                self.write(CheckpointSave, &AuditOutcome::Done, details);
                if !deleted.is_empty() {
                    self.write(CheckpointDelete, &AuditOutcome::Done, [("steps", json!(deleted))]);
                }
            }
            TrainEvent::SaveFailed(message) => self.write(CheckpointSave, &failed(message), []),
            _ => {}
        }
    }

    /// How it ended.
    pub(crate) fn ended(&self, ended: Result<(u64, Ended), &Error>) {
        let process = ("process", json!(self.process));
        match ended {
            Ok((step, ended)) => {
                let how = match ended {
                    Ended::Finished => "finished",
                    Ended::Stopped => "stopped",
                    Ended::Diverged { .. } => "diverged",
                };
                self.write(
                    AuditEvent::TrainingStop,
                    &AuditOutcome::Done,
                    [("step", json!(step)), ("ended", json!(how)), process],
                );
            }
            Err(error) => {
                let outcome = AuditOutcome::Failed(compile::with_causes(error));
                self.write(AuditEvent::TrainingStop, &outcome, [process]);
            }
        }
    }

    fn write(
        &self,
        event: AuditEvent,
        outcome: &AuditOutcome,
        details: impl IntoIterator<Item = (&'static str, Value)>,
    ) {
        let Some(log) = &self.log else { return };
        if let Err(error) = log.write(event, &self.folder, outcome, details)
            && !self.is_warned.replace(true)
        {
            let path = log.path().map(|path| path.display().to_string()).unwrap_or_default();
            tracing::warn!(%error, path, "the audit log cannot be written; training goes on");
        }
    }
}
