//! The phases of a training one after another: what each second went into, for metrics, goodput and whoever asks why it hangs.

use std::path::Path;
use std::time::Instant;

use telemetry::{Attempt, GoodputFile, GoodputHistory, Spent, now_seconds};

use super::spans::AttemptSpans;
use super::{Ended, TrainEvent};
use crate::telemetry::{Scalars, TrainPhase, TrainTelemetry};

/// The phases so far.
pub(super) struct Timeline {
    telemetry: TrainTelemetry,
    phase: TrainPhase,
    since: Instant,
    seconds: [f64; TrainPhase::ALL.len()],
    started_seconds: f64,
    first_step: u64,
    step: u64,
    /// When the last step ended, and the seconds that were no part of steps up to then.
    last_end: Option<(Instant, f64)>,
    goodput: Option<Kept>,
    /// When the phase began.
    entered: Instant,
    spans: Option<AttemptSpans>,
}

/// Goodput over attempts: what was before, and the file that it is kept in.
struct Kept {
    file: GoodputFile,
    earlier: GoodputHistory,
}

impl Timeline {
    /// Begins an attempt; goodput is kept in a file, if one is given.
    pub(super) fn start(telemetry: &TrainTelemetry, goodput: Option<&Path>) -> Timeline {
        telemetry.in_phase(TrainPhase::Initialize);
        let goodput = goodput.map(|path| Kept {
            earlier: GoodputHistory::read(path).unwrap_or_default(),
            file: GoodputFile::open(path),
        });
        let now = Instant::now();
        Timeline {
            telemetry: telemetry.clone(),
            phase: TrainPhase::Initialize,
            since: now,
            seconds: Default::default(),
            started_seconds: now_seconds(),
            first_step: 0,
            step: 0,
            last_end: None,
            goodput,
            entered: now,
            spans: telemetry.otlp().map(|otlp| AttemptSpans::start(otlp, now)),
        }
    }

    /// What is done from now on.
    pub(super) fn enter(&mut self, phase: TrainPhase) {
        if phase != self.phase {
            self.count();
            if let Some(spans) = &mut self.spans {
                spans.left(self.phase, self.entered, self.since);
                spans.enters(phase, self.since);
            }
            self.phase = phase;
            self.entered = self.since;
            self.telemetry.in_phase(phase);
        }
    }

    /// The training goes on after this step.
    pub(super) fn resumed(&mut self, step: u64) {
        (self.first_step, self.step) = (step, step);
        let earlier = self.goodput.as_ref().map_or(0, |kept| kept.earlier.len() as u64);
        self.telemetry.resumed(step, earlier + 1);
        if let Some(spans) = &mut self.spans {
            spans.resumed(step, earlier + 1);
        }
    }

    /// How the attempt ended. One that ends without saying so has failed.
    pub(super) fn ended(&mut self, ended: &Ended) {
        if let Some(spans) = &mut self.spans {
            spans.ended(ended);
        }
    }

    pub(super) fn dispatched(&self, step: u64) {
        self.telemetry.dispatched(step);
    }

    /// A step has ended; so many tokens were in its batch.
    pub(super) fn step_ended(&mut self, step: u64, tokens: Option<u64>) {
        self.count();
        let (now, apart) = (self.since, self.apart());
        let seconds =
            self.last_end.replace((now, apart)).map(|(last, before)| (now - last).as_secs_f64() - (apart - before));
        self.step = step;
        self.telemetry.step_ended(step, seconds, tokens);
        if let Some(spans) = &mut self.spans {
            spans.step_ended(step);
        }
    }

    /// A good moment to write down where the time went: steps were just looked at. `Checkpoint` is always kept.
    pub(super) fn note(&mut self, moment: Moment) {
        self.count();
        if let (Some(spans), Moment::Record) = (&mut self.spans, moment) {
            spans.recorded();
        }
        let attempt = Attempt::new(self.started_seconds, self.first_step, self.step, self.spent());
        let Some(kept) = &mut self.goodput else { return };
        match moment {
            Moment::Record => kept.file.note(&attempt),
            Moment::Checkpoint => kept.file.write(&attempt),
        }
        self.telemetry.goodput(&kept.earlier.with(&attempt));
    }

    fn count(&mut self) {
        let now = Instant::now();
        let seconds = (now - self.since).as_secs_f64();
        self.since = now;
        if let Some(sum) = self.seconds.get_mut(self.phase as usize) {
            *sum += seconds;
        }
        self.telemetry.spent(self.phase, seconds);
    }

    /// Seconds that belong to no step.
    fn apart(&self) -> f64 {
        [TrainPhase::Compile, TrainPhase::Save, TrainPhase::Evaluate].map(|phase| self.in_phase(phase)).iter().sum()
    }

    fn in_phase(&self, phase: TrainPhase) -> f64 {
        self.seconds.get(phase as usize).copied().unwrap_or_default()
    }

    fn spent(&self) -> Spent {
        Spent {
            step_seconds: self.in_phase(TrainPhase::Step),
            initialize_seconds: self.in_phase(TrainPhase::Initialize),
            compile_seconds: self.in_phase(TrainPhase::Compile),
            data_seconds: self.in_phase(TrainPhase::Data),
            save_seconds: self.in_phase(TrainPhase::Save),
            restore_seconds: self.in_phase(TrainPhase::Restore),
            evaluate_seconds: self.in_phase(TrainPhase::Evaluate),
            other_seconds: self.in_phase(TrainPhase::Other),
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.note(Moment::Checkpoint);
        if let Some(spans) = self.spans.take() {
            spans.end(self.phase, self.entered, self.since);
        }
    }
}

/// Counts what happened.
pub(super) fn hear(telemetry: &TrainTelemetry, event: &TrainEvent) {
    match event {
        TrainEvent::Saved { step, seconds, size_bytes, .. } => telemetry.saved(*step, *seconds, *size_bytes),
        TrainEvent::SaveFailed(_) => telemetry.save_failed(),
        TrainEvent::Step(measured) => telemetry.measured(Scalars::OfStep, &measured.values),
        TrainEvent::Evaluated(measured) => telemetry.measured(Scalars::OfEvaluation, &measured.values),
        _ => {}
    }
}

/// Why the time is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Metrics are written.
    Record,
    /// A checkpoint is saved, from which another attempt may go on; or the end.
    Checkpoint,
}
