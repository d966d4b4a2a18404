//! An attempt as a trace: a span for itself, one for the steps between two records, and theirs for the phases.

use std::time::{Duration, Instant, SystemTime};

use telemetry::otlp::{Otlp, OtlpValue, SpanContext, SpanId, SpanRecord, TraceId, unix_nanos};

use super::Ended;
use crate::telemetry::TrainPhase;

/// Steps between records are one span with the next ones until it is this long: toys record a thousand times a second.
const SHORTEST: Duration = Duration::from_secs(1);

/// Phases of one span of steps that have spans of their own. Attributes have the sums of all.
const MAX_PHASES: usize = 128;

/// The trace of an attempt.
pub(super) struct AttemptSpans {
    otlp: Otlp,
    trace: TraceId,
    attempt: SpanId,
    /// The same moment by both clocks.
    started: (Instant, u64),
    attempts: u64,
    first_step: u64,
    step: u64,
    ended: Option<&'static str>,
    steps: Option<Steps>,
}

/// The steps since a record.
struct Steps {
    span: SpanId,
    since: Instant,
    /// The step before them.
    before: u64,
    /// Whether a record was written since.
    is_recorded: bool,
    phases: Vec<(TrainPhase, Instant, Instant)>,
    seconds: [f64; TrainPhase::ALL.len()],
}

impl AttemptSpans {
    /// Begins a trace.
    pub(super) fn start(otlp: Otlp, now: Instant) -> AttemptSpans {
        let (trace, attempt) = (TraceId::new(), SpanId::new());
        otlp.enter(Some(SpanContext { trace, span: attempt }));
        AttemptSpans {
            otlp,
            trace,
            attempt,
            started: (now, unix_nanos(SystemTime::now())),
            attempts: 1,
            first_step: 0,
            step: 0,
            ended: None,
            steps: None,
        }
    }

    /// The attempt of this number goes on after a step.
    pub(super) fn resumed(&mut self, step: u64, attempts: u64) {
        (self.first_step, self.step, self.attempts) = (step, step, attempts);
    }

    pub(super) fn step_ended(&mut self, step: u64) {
        self.step = step;
    }

    /// Metrics were written: the steps so far may be one span.
    pub(super) fn recorded(&mut self) {
        if let Some(steps) = &mut self.steps {
            steps.is_recorded = true;
        }
    }

    pub(super) fn ended(&mut self, ended: &Ended) {
        self.ended = Some(match ended {
            Ended::Finished => "finished",
            Ended::Stopped => "stopped",
            Ended::Diverged { .. } => "diverged",
        });
    }

    /// A phase begins. The batch of the first step after a record begins the next span of steps.
    pub(super) fn enters(&mut self, phase: TrainPhase, now: Instant) {
        if phase != TrainPhase::Data {
            return;
        }
        let is_over = |steps: &Steps| steps.is_recorded && now - steps.since >= SHORTEST;
        if self.steps.as_ref().is_none_or(is_over) {
            self.send_steps(now);
            let (span, before) = (SpanId::new(), self.step);
            self.otlp.enter(Some(SpanContext { trace: self.trace, span }));
            self.steps = Some(Steps {
                span,
                since: now,
                before,
                is_recorded: false,
                phases: Vec::new(),
                seconds: Default::default(),
            });
        }
    }

    /// A phase has ended.
    pub(super) fn left(&mut self, phase: TrainPhase, since: Instant, until: Instant) {
        // What is between phases has no name.
        let is_named = phase != TrainPhase::Other;
        let Some(steps) = &mut self.steps else {
            // What is before the first step belongs to the attempt.
            if is_named {
                self.send(SpanId::new(), self.attempt, phase.name(), (since, until), Vec::new());
            }
            return;
        };
        if let Some(seconds) = steps.seconds.get_mut(phase as usize) {
            *seconds += (until - since).as_secs_f64();
        }
        if is_named && steps.phases.len() < MAX_PHASES {
            steps.phases.push((phase, since, until));
        }
    }

    /// The attempt is over, within a phase that began some time ago.
    pub(super) fn end(mut self, phase: TrainPhase, since: Instant, now: Instant) {
        self.left(phase, since, now);
        self.send_steps(now);
        let attributes = vec![
            ("tpubridge.attempt".to_string(), int(self.attempts)),
            ("tpubridge.first_step".to_string(), int(self.first_step)),
            ("tpubridge.step".to_string(), int(self.step)),
            ("tpubridge.ended".to_string(), OtlpValue::Text(self.ended.unwrap_or("failed").to_string())),
        ];
        let error = match self.ended {
            None => Some("the training failed; its log says why".to_string()),
            Some("diverged") => Some("the loss is not finite".to_string()),
            Some(_) => None,
        };
        let context = SpanContext { trace: self.trace, span: self.attempt };
        let time_unix_nanos = (self.unix_nanos(self.started.0), self.unix_nanos(now));
        self.otlp.span(SpanRecord { context, parent: None, name: "attempt", time_unix_nanos, attributes, error });
        self.otlp.enter(None);
    }

    /// Sends the span of the steps so far with those of its phases.
    fn send_steps(&mut self, now: Instant) {
        let Some(steps) = self.steps.take() else { return };
        for (phase, since, until) in &steps.phases {
            self.send(SpanId::new(), steps.span, phase.name(), (*since, *until), Vec::new());
        }
        let mut attributes = vec![
            ("tpubridge.first_step".to_string(), int(steps.before)),
            ("tpubridge.step".to_string(), int(self.step)),
        ];
        for (phase, seconds) in TrainPhase::ALL.iter().zip(steps.seconds).filter(|(_, seconds)| *seconds > 0.0) {
            attributes.push((format!("tpubridge.{}_seconds", phase.name()), OtlpValue::Number(seconds)));
        }
        self.send(steps.span, self.attempt, "steps", (steps.since, now), attributes);
    }

    fn send(
        &self,
        span: SpanId,
        parent: SpanId,
        name: &'static str,
        (since, until): (Instant, Instant),
        attributes: Vec<(String, OtlpValue)>,
    ) {
        let context = SpanContext { trace: self.trace, span };
        let time_unix_nanos = (self.unix_nanos(since), self.unix_nanos(until));
        self.otlp.span(SpanRecord { context, parent: Some(parent), name, time_unix_nanos, attributes, error: None });
    }

    fn unix_nanos(&self, moment: Instant) -> u64 {
        let (start, nanos) = self.started;
        nanos.saturating_add(u64::try_from(moment.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX))
    }
}

fn int(value: u64) -> OtlpValue {
    OtlpValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
