//! The launcher: starts all processes, follows them to their ends, stops the rest when one dies, and says who it was.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use channel::Secret;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Serialize;

use super::lines::{LaunchOutput, Stream, Told};
use super::order::{StartOrder, StopOrder};
use super::{LaunchPlace, LaunchPlan, MAX_PROCESSES, SAVED};
use crate::Error;

/// How long the others have to end by themselves after one died: they say best what they saw.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a worker may take to die after its order to kill. Then its own process is killed, or its connection.
const WORKER_KILL: Duration = Duration::from_millis(500);

/// How long is waited for the last lines of processes that have ended.
const DRAIN: Duration = Duration::from_secs(1);

/// Exit code of ssh where it could not connect or lost the connection.
const SSH_FAILED: i32 = 255;

/// One process, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchedEnd {
    /// Its number.
    pub process: usize,
    /// Its host; `None` on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its exit code; `None` if a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the launcher killed it, after another one died or at the end of its patience.
    pub killed_by_launcher: bool,
}

impl LaunchedEnd {
    /// Its exit code as shells count it.
    pub fn exit_code(&self) -> i32 {
        self.code.unwrap_or_else(|| 128 + self.signal.unwrap_or_default())
    }

    /// `process 2`, or `process 2 on host-c`.
    pub fn name(&self) -> String {
        match &self.host {
            None => format!("process {}", self.process),
            Some(host) => format!("process {} on {host}", self.process),
        }
    }

    /// How it ended, in words.
    pub fn how(&self) -> String {
        match (self.code, self.signal) {
            (Some(0), _) => "ended well".into(),
            (Some(SAVED), _) => "saved its state and stopped (code 75)".into(),
            (Some(SSH_FAILED), _) if self.host.is_some() => {
                "was not reached by ssh, or the connection was lost (code 255)".into()
            }
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => match Signal::from_named_raw(signal) {
                Some(Signal::KILL) => "was killed (SIGKILL): by somebody, or for lack of memory".into(),
                _ => format!("was ended by signal {signal}"),
            },
            (None, None) => "ended".into(),
        }
    }

    fn is_good(&self) -> bool {
        matches!(self.code, Some(0 | SAVED))
    }
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchEnd {
    /// All processes, by number.
    pub processes: Vec<LaunchedEnd>,
    /// The process that failed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<usize>,
    /// The last lines of its standard error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_words: Vec<String>,
}

impl LaunchEnd {
    /// The process that failed first.
    pub fn culprit(&self) -> Option<&LaunchedEnd> {
        self.processes.get(self.culprit?)
    }

    /// One code for all: the culprit's; else 75 where some saved and stopped; else that of the first that was ended by a
    /// signal it was sent; else 0.
    pub fn exit_code(&self) -> i32 {
        if let Some(culprit) = self.culprit() {
            return culprit.exit_code();
        }
        match self.processes.iter().find(|end| !end.is_good()) {
            Some(end) => end.exit_code(),
            None if self.processes.iter().any(|end| end.code == Some(SAVED)) => SAVED,
            None => 0,
        }
    }
}

/// What happens while processes run.
enum Happened {
    Ended(usize, LaunchedEnd),
    /// One of the two outputs of a process is at its end.
    Drained,
    Asked(StopOrder),
}

/// A worker that was started.
struct Started {
    orders: Option<ChildStdin>,
    pid: Option<Pid>,
    /// Whether its id may be another's by now.
    is_reaped: Arc<Mutex<bool>>,
    told: Told,
    end: Option<LaunchedEnd>,
    is_killed: bool,
}

/// Why the launch is coming to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Asked to stop: all save.
    Saving {
        until: Option<Instant>,
    },
    /// One died; the others may still say what they saw.
    Settling {
        until: Instant,
    },
    /// One died; the others are asked to stop.
    Stopping {
        until: Instant,
    },
    /// All are told to die.
    Killing {
        until: Instant,
    },
    /// Their workers are killed.
    Killed,
}

/// Starts all processes of a plan and waits until the last has ended. `asked` are requests to stop, as signals bring them; a
/// second [`StopOrder::Interrupt`] kills. `tell` gets a line for each thing that people want to know.
///
/// Call it on a thread that lives as long as the processes.
pub fn launch(
    plan: &LaunchPlan,
    output: &LaunchOutput,
    asked: Receiver<StopOrder>,
    tell: &mut dyn FnMut(&str),
) -> Result<LaunchEnd, Error> {
    let count = plan.places.len();
    if plan.command.is_empty() || !(1..=MAX_PROCESSES).contains(&count) {
        return Err(Error::Launch { what: format!("{count} processes cannot be launched: give 1 to {MAX_PROCESSES}") });
    }
    let random = |made: Result<String, String>| made.map_err(|what| Error::Launch { what });
    let (secret, run_id) = (random(Secret::generate())?, random(Secret::fresh_name())?);
    if let Some(folder) = &plan.logs {
        std::fs::create_dir_all(folder).map_err(Error::io("make the folder of logs", folder))?;
    }
    let (happened, events) = mpsc::channel();
    let requests = happened.clone();
    std::thread::spawn(move || {
        asked.into_iter().take_while(|order| requests.send(Happened::Asked(*order)).is_ok()).for_each(drop);
    });
    let mut launching = Launching { started: Vec::new(), phase: Phase::Running, interrupts: 0, suspects: Vec::new() };
    for (process, place) in plan.places.iter().enumerate() {
        let log = plan
            .logs
            .as_ref()
            .map(|folder| Told::log(folder, process).map_err(Error::io("write the logs of a process into", folder)));
        let told = Told::new(prefix(process, place, count), output, log.transpose()?);
        let order = StartOrder::new(
            &plan.command,
            plan.variables(process, &secret, &run_id),
            plan.launcher.folder(place),
            plan.kill_after,
        );
        launching.started.push(Started::new(plan, process, place, &order, told, &happened)?);
    }
    launching.follow(plan, &events, tell)
}

fn prefix(process: usize, place: &LaunchPlace, count: usize) -> String {
    let width = (count - 1).to_string().len();
    match place.host() {
        None => format!("[{process:>width$}] "),
        Some(host) => format!("[{process:>width$} {host}] "),
    }
}

impl Started {
    fn new(
        plan: &LaunchPlan,
        process: usize,
        place: &LaunchPlace,
        order: &StartOrder,
        told: Told,
        happened: &Sender<Happened>,
    ) -> Result<Started, Error> {
        let end = LaunchedEnd {
            process,
            host: place.host().map(ToString::to_string),
            code: None,
            signal: None,
            killed_by_launcher: false,
        };
        let line = order.line().map_err(|source| Error::Encode { source })?;
        let mut command = plan.launcher.command(place);
        // A group of its own: a terminal's Ctrl-C reaches the launcher alone, which passes it on once.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut started =
            Started { orders: None, pid: None, is_reaped: Arc::default(), told, end: None, is_killed: false };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let why = format!("error: cannot start `{}`: {error}\n", command.get_program().to_string_lossy());
                started.told.all(Stream::Error, why.as_bytes());
                // Two outputs that are at their ends.
                let _ = happened.send(Happened::Drained).and_then(|()| happened.send(Happened::Drained));
                let _ = happened.send(Happened::Ended(process, LaunchedEnd { code: Some(127), ..end }));
                return Ok(started);
            }
        };
        started.pid = Some(Pid::from_child(&child));
        started.orders = child.stdin.take();
        let streams: [(Stream, Option<Box<dyn std::io::Read + Send>>); 2] = [
            (Stream::Output, child.stdout.take().map(|stream| Box::new(stream) as _)),
            (Stream::Error, child.stderr.take().map(|stream| Box::new(stream) as _)),
        ];
        for (stream, from) in streams {
            let (told, happened) = (started.told.clone(), happened.clone());
            std::thread::spawn(move || {
                from.into_iter().for_each(|from| told.all(stream, from));
                let _ = happened.send(Happened::Drained);
            });
        }
        // A worker that is dead already does not read; its end tells why.
        started.order(&line);
        let (is_reaped, happened) = (started.is_reaped.clone(), happened.clone());
        std::thread::spawn(move || {
            let end = wait(child, &is_reaped, end);
            let _ = happened.send(Happened::Ended(process, end));
        });
        Ok(started)
    }

    fn order(&mut self, line: &str) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(line.as_bytes()).and_then(|()| orders.flush());
        }
    }

    /// Kills the worker, and what is in its group.
    fn kill_worker(&self) {
        if let (Some(pid), Ok(is_reaped)) = (self.pid, self.is_reaped.lock())
            && !*is_reaped
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Waits for a worker. What is left of its group, which can be if it was killed, is killed before its id is free.
fn wait(mut child: Child, is_reaped: &Mutex<bool>, end: LaunchedEnd) -> LaunchedEnd {
    let pid = Pid::from_child(&child);
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
    let mut is_reaped = is_reaped.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait();
    *is_reaped = true;
    let Ok(status) = status else { return end };
    // A worker tells the signal of its program as shells do.
    match status.code() {
        Some(code) if (129..=192).contains(&code) => LaunchedEnd { signal: Some(code - 128), ..end },
        Some(code) => LaunchedEnd { code: Some(code), ..end },
        None => LaunchedEnd { signal: status.signal(), ..end },
    }
}

/// All processes, and why they are coming to their end.
struct Launching {
    started: Vec<Started>,
    phase: Phase,
    /// How often the keyboard asked.
    interrupts: u32,
    /// Those that failed while nobody had asked them to stop, in the order in which that was seen.
    suspects: Vec<usize>,
}

impl Launching {
    fn follow(
        mut self,
        plan: &LaunchPlan,
        events: &Receiver<Happened>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<LaunchEnd, Error> {
        let (mut drained, mut quiet_until) = (0, None);
        while !self.alive().is_empty() || drained < 2 * self.started.len() {
            if self.alive().is_empty() {
                quiet_until.get_or_insert_with(|| Instant::now() + DRAIN);
            }
            let until = quiet_until.or(match self.phase {
                Phase::Saving { until } => until,
                Phase::Settling { until } | Phase::Stopping { until } | Phase::Killing { until } => Some(until),
                Phase::Running | Phase::Killed => None,
            });
            let happened = match until {
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => events.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match happened {
                Ok(Happened::Drained) => drained += 1,
                Ok(Happened::Ended(process, end)) => self.ended(plan, process, end, tell),
                Ok(Happened::Asked(order)) => self.asked(plan, order, tell),
                Err(RecvTimeoutError::Timeout) if quiet_until.is_some() => break,
                Err(RecvTimeoutError::Timeout) => self.time_is_up(plan, tell),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(self.end())
    }

    fn alive(&self) -> Vec<usize> {
        let alive = self.started.iter().enumerate().filter(|(_, started)| started.end.is_none());
        alive.map(|(process, _)| process).collect()
    }

    fn order(&mut self, order: StopOrder) {
        for process in self.alive() {
            self.started[process].is_killed |= order == StopOrder::Kill;
            self.started[process].order(order.line());
        }
    }

    fn ended(&mut self, plan: &LaunchPlan, process: usize, end: LaunchedEnd, tell: &mut dyn FnMut(&str)) {
        let started = &mut self.started[process];
        started.orders = None;
        let end = LaunchedEnd { killed_by_launcher: started.is_killed, ..end };
        started.end = Some(end.clone());
        match self.phase {
            Phase::Running if end.code == Some(SAVED) => {
                if !self.alive().is_empty() {
                    tell(&format!("{} {}; the others are asked to stop", end.name(), end.how()));
                }
                self.order(StopOrder::Terminate);
                self.phase = Phase::Saving { until: plan.grace.map(|grace| Instant::now() + grace) };
            }
            Phase::Running | Phase::Saving { .. } if !end.is_good() && !self.is_ended_as_asked(&end) => {
                self.suspects.push(process);
                if !self.alive().is_empty() {
                    tell(&format!("{} {}; all others are stopped", end.name(), end.how()));
                }
                self.phase = Phase::Settling { until: Instant::now() + SETTLE };
            }
            Phase::Settling { .. } if !end.is_good() => self.suspects.push(process),
            _ => {}
        }
    }

    /// Whether a process ended by the signal that it was sent because this launcher was asked to stop.
    fn is_ended_as_asked(&self, end: &LaunchedEnd) -> bool {
        let asked = [Signal::TERM, Signal::INT].map(|signal| Some(signal.as_raw()));
        matches!(self.phase, Phase::Saving { .. }) && asked.contains(&end.signal)
    }

    fn asked(&mut self, plan: &LaunchPlan, order: StopOrder, tell: &mut dyn FnMut(&str)) {
        if order == StopOrder::Interrupt {
            self.interrupts += 1;
        }
        match order {
            StopOrder::Interrupt if self.interrupts > 1 => self.kill(tell),
            StopOrder::Kill => self.kill(tell),
            _ => {
                tell("asked to stop: all processes save and stop");
                self.order(order);
                if self.phase == Phase::Running {
                    self.phase = Phase::Saving { until: plan.grace.map(|grace| Instant::now() + grace) };
                }
            }
        }
    }

    fn time_is_up(&mut self, plan: &LaunchPlan, tell: &mut dyn FnMut(&str)) {
        match self.phase {
            Phase::Running | Phase::Killed => {}
            Phase::Settling { .. } => {
                self.order(StopOrder::Terminate);
                self.phase = Phase::Stopping { until: Instant::now() + plan.kill_after };
            }
            Phase::Saving { .. } | Phase::Stopping { .. } => self.kill(tell),
            Phase::Killing { .. } => {
                self.alive().into_iter().for_each(|process| self.started[process].kill_worker());
                self.phase = Phase::Killed;
            }
        }
    }

    fn kill(&mut self, tell: &mut dyn FnMut(&str)) {
        let names: Vec<String> = self.alive().iter().map(ToString::to_string).collect();
        match names.as_slice() {
            [] => {}
            [one] => tell(&format!("process {one} does not stop and is killed")),
            many => tell(&format!("processes {} do not stop and are killed", many.join(", "))),
        }
        self.order(StopOrder::Kill);
        self.phase = Phase::Killing { until: Instant::now() + WORKER_KILL };
    }

    fn end(self) -> LaunchEnd {
        let words: Vec<Vec<String>> = self.started.iter().map(|started| started.told.last_words()).collect();
        let processes: Vec<LaunchedEnd> = self.started.into_iter().filter_map(|started| started.end).collect();
        let culprit = culprit(&self.suspects, &processes, &words);
        let last_words = culprit.and_then(|culprit| words.get(culprit).cloned()).unwrap_or_default();
        LaunchEnd { processes, culprit, last_words }
    }
}

/// Who failed first. One that dies takes the others with it within milliseconds, so that the order in which ends are seen says
/// little: a signal tells most, then whom the others say they lost, then the order.
fn culprit(suspects: &[usize], ends: &[LaunchedEnd], words: &[Vec<String>]) -> Option<usize> {
    let by_signal = suspects.iter().find(|suspect| ends.get(**suspect).is_some_and(|end| end.signal.is_some()));
    if let Some(killed) = by_signal {
        return Some(*killed);
    }
    let is_named = |suspect: &&usize| {
        let gone = format!("process {suspect} is gone");
        let others = words.iter().enumerate().filter(|(process, _)| process != *suspect);
        others.flat_map(|(_, lines)| lines).any(|line| line.contains(&gone))
    };
    suspects.iter().find(is_named).or(suspects.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(process: usize, code: Option<i32>, signal: Option<i32>) -> LaunchedEnd {
        LaunchedEnd { process, host: None, code, signal, killed_by_launcher: false }
    }

    #[test]
    fn the_culprit_is_who_was_killed_or_who_is_missed_or_who_ended_first() {
        let failed = |process| end(process, Some(2), None);
        let silent = vec![Vec::new(); 3];
        let ends = [failed(0), failed(1), end(2, None, Some(9))];
        assert_eq!(culprit(&[0, 1, 2], &ends, &silent), Some(2));
        let ends = [failed(0), failed(1), failed(2)];
        assert_eq!(culprit(&[1, 0, 2], &ends, &silent), Some(1));
        let words =
            vec![vec!["error: x".into(), "  caused by: process 2 is gone: its connection".into()], vec![], vec![]];
        assert_eq!(culprit(&[0, 1, 2], &ends, &words), Some(2));
        // What a process says of itself does not count, nor one that did not fail.
        assert_eq!(culprit(&[0, 1], &ends, &words), Some(0));
        assert_eq!(culprit(&[], &ends, &words), None);
    }

    #[test]
    fn one_exit_code_for_all() {
        let of = |codes: &[i32], culprit| {
            let processes = codes.iter().enumerate().map(|(n, code)| end(n, Some(*code), None)).collect();
            LaunchEnd { processes, culprit, last_words: Vec::new() }.exit_code()
        };
        assert_eq!(of(&[0, 0], None), 0);
        assert_eq!(of(&[75, 75], None), 75);
        assert_eq!(of(&[0, 75], None), 75);
        assert_eq!(of(&[75, 3, 2], Some(1)), 3);
        let processes = vec![end(0, Some(75), None), end(1, None, Some(15))];
        assert_eq!(LaunchEnd { processes, culprit: None, last_words: Vec::new() }.exit_code(), 143);
    }
}
