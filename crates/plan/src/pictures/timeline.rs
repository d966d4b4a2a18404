//! When what runs in a step: ops of the core in the order of the schedule, transfers beside them, loops around them.

use std::collections::HashMap;

use serde::Serialize;
use xla::{Collective, ComputationId, Executions, HloModule, InstructionId, Link, Opcode, TripCount, Users};

use crate::estimate::short_source;
use crate::op_time::Bound;
use crate::simulate::{OpCost, Simulation, scheduled_collectives};

/// A step on a time axis. A loop is drawn once, as long as all its iterations together: each of its ops is as long as
/// all executions of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Seconds of the step.
    pub seconds: f64,
    /// What the core does or waits for, in order and without overlap.
    pub spans: Vec<Span>,
    /// Transfers from the op that starts them to the op that waits for them.
    pub windows: Vec<TransferWindow>,
    /// Loops, outer ones first.
    pub loops: Vec<LoopSpan>,
    /// Windows and loops that were left out because there are too many.
    pub left_out: u64,
}

/// What the core does in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum SpanKind {
    /// It works.
    Work,
    /// It waits for a transfer.
    Wait,
}

/// Neighbouring ops of the same source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Where it begins.
    pub begin_s: f64,
    /// Where it ends.
    pub end_s: f64,
    /// Name in the source; of several, the one that takes longest.
    pub name: String,
    /// Work or wait.
    pub kind: SpanKind,
    /// What limits it, or what it waits for.
    pub bound: Bound,
    /// Instructions in it.
    pub ops: u64,
}

/// A transfer beside the core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferWindow {
    /// Where it is started.
    pub begin_s: f64,
    /// Where it is waited for.
    pub end_s: f64,
    /// Name of the instruction.
    pub name: String,
    /// What it travels over.
    pub lane: Bound,
    /// Transfers in it.
    pub transfers: u64,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopSpan {
    /// Where it begins.
    pub begin_s: f64,
    /// Where it ends.
    pub end_s: f64,
    /// Iterations; `None` where not known, and one is drawn.
    pub trips: Option<u64>,
    /// Loops around it.
    pub depth: u32,
}

/// Spans narrower than one part in this many are joined with their neighbours.
const NARROWEST: f64 = 250.0;
/// Windows kept on each lane.
const WINDOWS: usize = 200;
/// Loops kept.
const LOOPS: usize = 60;
/// Computations within computations followed.
const DEPTH: u32 = 64;
/// Instructions visited: a small program can call a computation very many times.
const VISITS: u64 = 4_000_000;

impl Timeline {
    /// The timeline of a simulated step.
    pub fn of(module: &HloModule, executions: &Executions, simulation: &Simulation) -> Timeline {
        let mut walk = Walk {
            module,
            users: module.users(),
            collectives: scheduled_collectives(module, executions),
            trips: executions.loops().iter().map(|(id, trips)| (*id, trips)).collect(),
            ops: &simulation.ops,
            next: 0,
            now: 0.0,
            visits_left: VISITS,
            started: HashMap::new(),
            spans: Vec::new(),
            windows: Vec::new(),
            loops: Vec::new(),
        };
        walk.run(module.entry(), 0, 0);
        // What the walk did not meet, such as ops of a computation called too deep, still takes its time.
        while walk.next < walk.ops.len() {
            walk.take();
        }
        let seconds = walk.now;
        let (windows, cut) = fewer_windows(walk.windows, seconds);
        let mut loops = walk.loops;
        loops.retain(|span| span.end_s > span.begin_s);
        loops.sort_by(|a, b| (b.end_s - b.begin_s).total_cmp(&(a.end_s - a.begin_s)));
        let left_out = cut + loops.len().saturating_sub(LOOPS) as u64;
        loops.truncate(LOOPS);
        Timeline { seconds, spans: fewer_spans(walk.spans, seconds), windows, loops, left_out }
    }
}

struct Walk<'a> {
    module: &'a HloModule,
    users: Users,
    collectives: HashMap<InstructionId, Collective>,
    trips: HashMap<InstructionId, &'a TripCount>,
    /// Costs in the order of the walk.
    ops: &'a [OpCost],
    next: usize,
    now: f64,
    visits_left: u64,
    /// Transfers under way, and when they began.
    started: HashMap<InstructionId, (f64, Bound)>,
    spans: Vec<Span>,
    windows: Vec<TransferWindow>,
    loops: Vec<LoopSpan>,
}

impl Walk<'_> {
    fn run(&mut self, computation: ComputationId, depth: u32, loop_depth: u32) {
        if depth > DEPTH {
            return;
        }
        for &at in self.module.order(computation) {
            if self.visits_left == 0 {
                return;
            }
            self.visits_left -= 1;
            self.step(at, depth, loop_depth);
        }
    }

    fn step(&mut self, at: InstructionId, depth: u32, loop_depth: u32) {
        let instruction = self.module.instruction(at);
        let begin_s = self.now;
        let mut waited = None;
        while self.ops.get(self.next).is_some_and(|op| op.instruction == at || self.is_begun_by(at, op)) {
            waited = self.take().or(waited);
        }
        match instruction.opcode() {
            Opcode::While => {
                for &called in instruction.called_computations().iter().take(1) {
                    self.run(called, depth + 1, loop_depth + 1);
                }
                let trips = match self.trips.get(&at) {
                    Some(TripCount::Known(trips)) => Some(*trips),
                    _ => None,
                };
                self.loops.push(LoopSpan { begin_s, end_s: self.now, trips, depth: loop_depth });
                // What goes on from one iteration to the next was started and awaited in all of them.
                self.started.clear();
            }
            Opcode::Call | Opcode::Conditional => {
                for &called in instruction.called_computations() {
                    self.run(called, depth + 1, loop_depth);
                }
            }
            _ => {
                if let Some(lane) = self.lane(at) {
                    self.started.insert(at, (begin_s, lane));
                }
                self.finish(at, begin_s, waited);
            }
        }
    }

    /// Whether an op that was started without its operands begins its work with this update.
    fn is_begun_by(&self, update: InstructionId, op: &OpCost) -> bool {
        *self.module.instruction(update).opcode() == Opcode::AsyncUpdate
            && *self.module.instruction(op.instruction).opcode() == Opcode::AsyncStart
    }

    /// What a transfer that begins at an instruction travels over.
    fn lane(&self, at: InstructionId) -> Option<Bound> {
        if let Some(collective) = self.collectives.get(&at) {
            return Some(match collective.link {
                Link::DataCenter => Bound::Dcn,
                Link::Host => Bound::Host,
                _ => Bound::Ici,
            });
        }
        if !matches!(self.module.instruction(at).opcode(), Opcode::CopyStart | Opcode::AsyncStart) {
            return None;
        }
        let traffic = self.users.traffic(self.module, at);
        (traffic.read.host + traffic.written.host > 0.0).then_some(Bound::Host)
    }

    /// Ends a transfer at the instruction that waits for it: the one that began it where nothing runs beside it.
    fn finish(&mut self, at: InstructionId, begin_s: f64, waited: Option<Bound>) {
        let start = if self.started.contains_key(&at) && waited.is_some() { Some(at) } else { self.start_of(at) };
        let window = match start.and_then(|start| Some((start, self.started.remove(&start)?))) {
            Some((start, (begin_s, lane))) => Some((start, begin_s, lane)),
            // The transfer began in the iteration before: what is seen of it here is the wait.
            None => waited.filter(|bound| is_lane(*bound)).map(|lane| (at, begin_s, lane)),
        };
        if let Some((start, begin_s, lane)) = window
            && self.now > begin_s
        {
            let name = self.module.instruction(start).name().to_string();
            self.windows.push(TransferWindow { begin_s, end_s: self.now, name, lane, transfers: 1 });
        }
    }

    /// Where the transfer began that an instruction waits for.
    fn start_of(&self, done: InstructionId) -> Option<InstructionId> {
        let mut at = done;
        for _ in 0..DEPTH {
            let &operand = self.module.instruction(at).operands().first()?;
            if self.started.contains_key(&operand) {
                return self.module.instruction(done).opcode().is_done().then_some(operand);
            }
            match self.module.instruction(operand).opcode() {
                Opcode::AsyncUpdate | Opcode::Bitcast | Opcode::GetTupleElement | Opcode::OptimizationBarrier => {
                    at = operand;
                }
                _ => return None,
            }
        }
        None
    }

    /// Puts the next op on the axis, and tells what it waits for.
    fn take(&mut self) -> Option<Bound> {
        let op = &self.ops[self.next];
        self.next += 1;
        let seconds = op.total_s();
        if !seconds.is_finite() || seconds <= 0.0 {
            return None;
        }
        let begin_s = self.now;
        self.now += seconds;
        let metadata = self.module.instruction(op.instruction).metadata();
        let name = short_source(metadata.map_or("", |metadata| metadata.op_name.as_str()));
        // Copies within device memory move bytes beside the core; an op of that kind without bytes is a wait for one.
        let is_wait = is_lane(op.bound) || op.bound == Bound::Hbm && op.hbm_bytes == 0.0;
        let kind = if is_wait { SpanKind::Wait } else { SpanKind::Work };
        match self.spans.last_mut() {
            Some(last) if last.name == name && last.bound == op.bound && last.kind == kind => {
                last.end_s = self.now;
                last.ops += 1;
            }
            _ => self.spans.push(Span { begin_s, end_s: self.now, name, kind, bound: op.bound, ops: 1 }),
        }
        is_wait.then_some(op.bound)
    }
}

fn is_lane(bound: Bound) -> bool {
    matches!(bound, Bound::Ici | Bound::Dcn | Bound::Host)
}

/// Joins spans too narrow to see with their neighbours, work with work and wait with wait.
fn fewer_spans(spans: Vec<Span>, seconds: f64) -> Vec<Span> {
    let narrow = seconds / NARROWEST;
    let mut kept: Vec<Span> = Vec::new();
    // Seconds of the part that gave a joined span its name.
    let mut longest = 0.0;
    for span in spans {
        let width = span.end_s - span.begin_s;
        match kept.last_mut() {
            Some(last) if width < narrow && last.end_s - last.begin_s < narrow => {
                last.end_s = span.end_s;
                last.ops += span.ops;
                if width > longest {
                    longest = width;
                    (last.name, last.bound, last.kind) = (span.name, span.bound, span.kind);
                }
            }
            _ => {
                longest = width;
                kept.push(span);
            }
        }
    }
    kept
}

/// Joins windows that begin and end at nearly the same time, and keeps the longest of each lane.
fn fewer_windows(mut windows: Vec<TransferWindow>, seconds: f64) -> (Vec<TransferWindow>, u64) {
    let narrow = seconds / NARROWEST;
    windows.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
    let mut left_out = 0;
    let mut kept = Vec::new();
    for lane in [Bound::Ici, Bound::Dcn, Bound::Host] {
        let mut joined: Vec<TransferWindow> = Vec::new();
        for window in windows.iter().filter(|window| window.lane == lane) {
            match joined.last_mut() {
                Some(last)
                    if window.begin_s - last.begin_s < narrow && (window.end_s - last.end_s).abs() < 2.0 * narrow =>
                {
                    last.end_s = last.end_s.max(window.end_s);
                    last.transfers += 1;
                }
                _ => joined.push(window.clone()),
            }
        }
        joined.sort_by(|a, b| (b.end_s - b.begin_s).total_cmp(&(a.end_s - a.begin_s)));
        left_out += joined.iter().skip(WINDOWS).map(|window| window.transfers).sum::<u64>();
        joined.truncate(WINDOWS);
        joined.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
        kept.extend(joined);
    }
    (kept, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin_s: f64, end_s: f64, name: &str) -> Span {
        Span { begin_s, end_s, name: name.into(), kind: SpanKind::Work, bound: Bound::Matrix, ops: 1 }
    }

    #[test]
    fn narrow_spans_are_joined_and_no_time_is_lost() {
        let spans: Vec<Span> = (0..100_000).map(|n| span(f64::from(n), f64::from(n + 1), &n.to_string())).collect();
        let fewer = fewer_spans(spans, 100_000.0);
        assert!(fewer.len() <= 2 * NARROWEST as usize + 1, "{}", fewer.len());
        assert_eq!(fewer.iter().map(|span| span.ops).sum::<u64>(), 100_000);
        assert_eq!(fewer.iter().map(|span| span.end_s - span.begin_s).sum::<f64>(), 100_000.0);
        assert!(fewer.windows(2).all(|pair| pair[0].end_s == pair[1].begin_s));
    }

    #[test]
    fn a_long_span_keeps_its_name() {
        let fewer = fewer_spans(
            vec![span(0.0, 0.1, "a"), span(0.1, 0.3, "b"), span(0.3, 99.0, "c"), span(99.0, 100.0, "d")],
            100.0,
        );
        let named: Vec<(&str, u64)> = fewer.iter().map(|span| (span.name.as_str(), span.ops)).collect();
        assert_eq!(named, [("b", 2), ("c", 1), ("d", 1)]);
    }

    #[test]
    fn windows_are_bounded() {
        let window = |n: u32| TransferWindow {
            begin_s: f64::from(n),
            end_s: f64::from(n) + 5000.0 * f64::from(n % 2),
            name: "all-gather-start".into(),
            lane: Bound::Ici,
            transfers: 1,
        };
        let (kept, left_out) = fewer_windows((0..100_000).map(window).collect(), 100_000.0);
        assert!(kept.len() <= WINDOWS);
        assert_eq!(kept.iter().map(|window| window.transfers).sum::<u64>() + left_out, 100_000);
    }
}
