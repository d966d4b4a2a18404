//! A grid of processes that run at the same time: their places, and where they meet.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hlo::Module;

use super::context::{InterpreterOptions, Run};
use super::value::InterpreterValue;
use crate::error::Error;

/// Processes one grid may have: each is a thread.
const MAX_PROCESSES: usize = 512;
/// Stack of a process: regions and calls nest up to the limit of a run.
const STACK_BYTES: usize = 32 << 20;
/// How often a waiting process looks whether the caller asked to stop.
const POLL: Duration = Duration::from_millis(20);

/// One process of a grid.
#[derive(Debug)]
pub(crate) struct Process {
    /// Number in the grid: `replica * partitions + partition`.
    pub(crate) id: usize,
    pub(crate) grid: Arc<Grid>,
    /// How often this process has met others, per meeting point.
    visits: Mutex<HashMap<Point, u64>>,
}

impl Process {
    pub(crate) fn replica(&self) -> usize {
        self.id / self.grid.partitions
    }

    pub(crate) fn partition(&self) -> usize {
        self.id % self.grid.partitions
    }

    /// Gives `values` to the members of a group and gets those of all members, in the order of the group.
    pub(crate) fn meet(
        &self,
        options: &InterpreterOptions,
        op: &str,
        channel: i64,
        group: &[usize],
        values: Vec<InterpreterValue>,
    ) -> Result<Vec<Arc<Vec<InterpreterValue>>>, Error> {
        let point = Point { op: op.to_string(), channel, group: group.to_vec() };
        let visit = {
            let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
            let visit = visits.entry(point.clone()).or_insert(0);
            *visit += 1;
            *visit
        };
        let key = (point, visit);
        let mut state = self.grid.lock();
        state.meetings.entry(key.clone()).or_default().brought.insert(self.id, Arc::new(values));
        self.grid.changed.notify_all();
        let mut state = self.grid.wait(state, self.id, options, Wait::Meeting(key.clone()))?;
        let Some(meeting) = state.meetings.get_mut(&key) else {
            return Err(Error::Internal("a meeting ended before its members left".into()));
        };
        let found = group.iter().map(|member| meeting.brought.get(member).cloned()).collect::<Option<Vec<_>>>();
        meeting.left += 1;
        if meeting.left == group.len() {
            state.meetings.remove(&key);
        }
        found.ok_or_else(|| Error::Internal("a member of a meeting is missing".into()))
    }

    /// Puts values into a channel.
    pub(crate) fn send(&self, channel: i64, values: Vec<InterpreterValue>) {
        self.grid.lock().channels.entry(channel).or_default().push_back(values);
        self.grid.changed.notify_all();
    }

    /// Takes values out of a channel, waiting for them.
    pub(crate) fn receive(&self, options: &InterpreterOptions, channel: i64) -> Result<Vec<InterpreterValue>, Error> {
        let mut state = self.grid.wait(self.grid.lock(), self.id, options, Wait::Channel(channel))?;
        state
            .channels
            .get_mut(&channel)
            .and_then(VecDeque::pop_front)
            .ok_or_else(|| Error::Internal("a channel emptied itself".into()))
    }

    /// The function that makes the next infeed.
    pub(crate) fn next_infeed(&self) -> Option<Arc<str>> {
        self.grid.lock().infeed.pop_front()
    }
}

/// Where processes meet: one op of one channel, one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Point {
    op: String,
    channel: i64,
    group: Vec<usize>,
}

#[derive(Debug, Default)]
struct Meeting {
    brought: HashMap<usize, Arc<Vec<InterpreterValue>>>,
    left: usize,
}

#[derive(Debug, Default)]
struct State {
    meetings: HashMap<(Point, u64), Meeting>,
    channels: HashMap<i64, VecDeque<Vec<InterpreterValue>>>,
    infeed: VecDeque<Arc<str>>,
    /// What each waiting process waits for.
    waiting: HashMap<usize, Wait>,
    /// Processes that are neither waiting nor done. When it reaches zero while one waits, nothing can happen any more.
    running: usize,
    /// Why the grid stops: the first error of a process.
    failed: Option<Error>,
}

/// What the processes of a grid share.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) replicas: usize,
    pub(crate) partitions: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Grid {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a condition; fails when another process fails, when no process can move, or when asked to stop.
    fn wait<'g>(
        &'g self,
        mut state: MutexGuard<'g, State>,
        process: usize,
        options: &InterpreterOptions,
        wait: Wait,
    ) -> Result<MutexGuard<'g, State>, Error> {
        state.running -= 1;
        state.waiting.insert(process, wait.clone());
        let result = loop {
            if let Some(error) = &state.failed {
                break Err(error.clone());
            }
            if state.is_ready(&wait) {
                break Ok(());
            }
            if options.stop.as_ref().is_some_and(|stop| stop.load(std::sync::atomic::Ordering::Relaxed)) {
                break Err(Error::Interrupted);
            }
            if state.running == 0 && !state.waiting.values().any(|wait| state.is_ready(wait)) {
                let error =
                    Error::Program { op: wait.to_string(), message: "every other process has ended or waits".into() };
                state.failed = Some(error.clone());
                self.changed.notify_all();
                break Err(error);
            }
            state = self.changed.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.running += 1;
        state.waiting.remove(&process);
        result.map(|()| state)
    }

    fn done(&self, error: Option<&Error>) {
        let mut state = self.lock();
        state.running -= 1;
        if let (None, Some(error)) = (&state.failed, error) {
            state.failed = Some(error.clone());
        }
        self.changed.notify_all();
    }
}

impl State {
    fn is_ready(&self, wait: &Wait) -> bool {
        match wait {
            Wait::Meeting(key) => self.meetings.get(key).is_some_and(|m| m.brought.len() == key.0.group.len()),
            Wait::Channel(channel) => self.channels.get(channel).is_some_and(|queue| !queue.is_empty()),
        }
    }
}

/// What a process waits for.
#[derive(Clone, Debug)]
enum Wait {
    /// That all members of a meeting have come.
    Meeting((Point, u64)),
    /// A message on a channel.
    Channel(i64),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Meeting((point, _)) => write!(f, "{} with processes {:?}", point.op, point.group),
            Wait::Channel(channel) => write!(f, "stablehlo.recv on channel {channel}"),
        }
    }
}

/// What one process runs.
pub(crate) struct Program {
    pub(crate) func: String,
    pub(crate) arguments: Vec<InterpreterValue>,
}

/// The size of a grid of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSize {
    /// Number of replicas.
    pub replicas: usize,
    /// Number of partitions of each replica.
    pub partitions: usize,
}

/// Runs one program per process, all at the same time, and gives the results of each.
pub(crate) fn run_processes(
    module: &Module,
    options: &InterpreterOptions,
    size: GridSize,
    programs: Vec<Program>,
    infeed: Vec<Arc<str>>,
) -> Result<Vec<Vec<InterpreterValue>>, Error> {
    run_each(size, programs, infeed, |process, program| {
        Run::new(module, options, Some(process)).call(&program.func, program.arguments)
    })
}

/// Does one piece of work per process, all at the same time, and gives what comes of each.
pub(crate) fn run_each<W: Send, R: Send>(
    size: GridSize,
    work: Vec<W>,
    infeed: Vec<Arc<str>>,
    run: impl Fn(Arc<Process>, W) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let GridSize { replicas, partitions } = size;
    let count = replicas.checked_mul(partitions).filter(|&n| n > 0 && n <= MAX_PROCESSES);
    if count != Some(work.len()) {
        return Err(Error::Arguments(format!(
            "a grid of {replicas} by {partitions} processes (at most {MAX_PROCESSES}) cannot run {} programs",
            work.len()
        )));
    }
    let state = State { running: work.len(), infeed: infeed.into(), ..State::default() };
    let grid = Arc::new(Grid { replicas, partitions, state: Mutex::new(state), changed: Condvar::new() });
    let run = &run;
    let results: Vec<Result<R, Error>> = std::thread::scope(|scope| {
        let start = |(id, work): (usize, W)| {
            let process = Arc::new(Process { id, grid: Arc::clone(&grid), visits: Mutex::default() });
            let grid = Arc::clone(&grid);
            let body = move || {
                // The guard reports the end of the process even if it unwinds.
                let mut end = End { grid, error: Some(Error::Internal("a process panicked".into())) };
                let result = run(process, work);
                end.error = result.as_ref().err().cloned();
                result
            };
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body)
        };
        let threads: Vec<_> = work
            .into_iter()
            .enumerate()
            .map(start)
            .inspect(|thread| {
                if let Err(error) = thread {
                    grid.done(Some(&Error::Exhausted(format!("cannot start a thread: {error}"))));
                }
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|_| Err(Error::Internal("a process of the grid panicked".into())))
                }
                Err(error) => Err(Error::Exhausted(format!("cannot start a thread: {error}"))),
            })
            .collect()
    });
    if let Some(error) = grid.lock().failed.take() {
        return Err(error);
    }
    results.into_iter().collect()
}

struct End {
    grid: Arc<Grid>,
    error: Option<Error>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.grid.done(self.error.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Elements, Interpreter, TensorValue};
    use super::*;

    fn run(text: &str, size: GridSize, inputs: &[i128]) -> Result<Vec<Vec<i128>>, Error> {
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let tensor = |&x: &i128| {
            let ty = hlo::TensorType::new(vec![1], tensor::DType::I64);
            vec![TensorValue { ty, elements: Elements::Int(vec![x]) }.into()]
        };
        let results = Interpreter::new(&module, InterpreterOptions::default()).run_grid(
            size,
            "main",
            inputs.iter().map(tensor).collect(),
        )?;
        let ints = |value: &InterpreterValue| match &value.tensor().unwrap().elements {
            Elements::Int(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        Ok(results.iter().map(|values| values.iter().flat_map(ints).collect()).collect())
    }

    const SUM: &str = r#"func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {
      %0 = "stablehlo.all_reduce"(%x) ({
        ^bb0(%a: tensor<i64>, %b: tensor<i64>):
          %s = stablehlo.add %a, %b : tensor<i64>
          stablehlo.return %s : tensor<i64>
      }) {replica_groups = dense<[[GROUPS]]> : tensor<KIND>CHANNEL} : (tensor<1xi64>) -> tensor<1xi64>
      return %0 : tensor<1xi64>
    }"#;

    fn sum(groups: &str, kind: &str, channel: &str) -> String {
        SUM.replace("GROUPS", groups).replace("KIND", kind).replace("CHANNEL", channel)
    }

    #[test]
    fn a_grid_gives_the_results_of_each_process() {
        let grid = GridSize { replicas: 2, partitions: 2 };
        let across_replicas = sum("0, 1", "1x2xi64", "");
        assert_eq!(run(&across_replicas, grid, &[1, 2, 3, 4]).unwrap(), [[4], [6], [4], [6]]);
        let channel = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>";
        assert_eq!(run(&sum("0, 1", "1x2xi64", channel), grid, &[1, 2, 3, 4]).unwrap(), [[10], [10], [10], [10]]);
        let global = format!("{channel}, use_global_device_ids");
        let flattened = sum("0, 3], [1, 2", "2x2xi64", &global);
        assert_eq!(run(&flattened, grid, &[1, 2, 4, 8]).unwrap(), [[9], [6], [6], [9]]);
    }

    #[test]
    fn processes_that_never_meet_end_with_an_error() {
        // Only replica 0 takes the branch with the collective.
        let text = r#"func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {
          %id = stablehlo.replica_id : tensor<ui32>
          %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
          %0 = "stablehlo.case"(%i) ({
            %p = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
              : (tensor<1xi64>) -> tensor<1xi64>
            stablehlo.return %p : tensor<1xi64>
          }, {
            stablehlo.return %x : tensor<1xi64>
          }) : (tensor<i32>) -> tensor<1xi64>
          return %0 : tensor<1xi64>
        }"#;
        let error = run(text, GridSize { replicas: 2, partitions: 1 }, &[1, 2]).unwrap_err();
        assert!(matches!(&error, Error::Program { message, .. } if message.contains("every other process")), "{error}");
    }

    #[test]
    fn a_message_nobody_reads_does_not_hide_that_all_wait() {
        let text = r#"func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {
          %t = stablehlo.create_token : !stablehlo.token
          %s = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
            is_host_transfer = true} : (tensor<1xi64>, !stablehlo.token) -> !stablehlo.token
          %r:2 = "stablehlo.recv"(%s) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>,
            is_host_transfer = true} : (!stablehlo.token) -> (tensor<1xi64>, !stablehlo.token)
          return %r#0 : tensor<1xi64>
        }"#;
        let error = run(text, GridSize { replicas: 2, partitions: 1 }, &[1, 2]).unwrap_err();
        assert!(matches!(&error, Error::Program { op, .. } if op.contains("channel 2")), "{error}");
    }

    #[test]
    fn one_failure_ends_the_grid() {
        let text = sum("0, 1", "1x2xi64", "").replace("@main", "@other");
        let text = format!(
            r#"{text}
            func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {{
              %id = stablehlo.replica_id : tensor<ui32>
              %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
              %0 = "stablehlo.case"(%i) ({{
                %c = stablehlo.custom_call @nobody_has_this(%x) : (tensor<1xi64>) -> tensor<1xi64>
                stablehlo.return %c : tensor<1xi64>
              }}, {{
                %c = func.call @other(%x) : (tensor<1xi64>) -> tensor<1xi64>
                stablehlo.return %c : tensor<1xi64>
              }}) : (tensor<i32>) -> tensor<1xi64>
              return %0 : tensor<1xi64>
            }}"#
        );
        let error = run(&text, GridSize { replicas: 2, partitions: 1 }, &[1, 2]).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { what } if what.contains("nobody_has_this")), "{error}");
    }

    #[test]
    fn grids_and_groups_that_do_not_fit_are_refused() {
        assert!(matches!(
            run(&sum("0", "1x1xi64", ""), GridSize { replicas: 0, partitions: 1 }, &[]),
            Err(Error::Arguments(_))
        ));
        let groups = sum("0, 1", "1x2xi64", "");
        let error = run(&groups, GridSize { replicas: 1, partitions: 1 }, &[1]).unwrap_err();
        assert!(matches!(error, Error::Program { .. }), "{error}");
    }
}
