//! This command once more in a child process: signals are passed on to it, it ends with its parent, orphans are reaped.

use std::process::Command;

use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::stop;

/// Set in the child: the id of the process that started it.
const PARENT: &str = "TPUBRIDGE_PARENT";

/// A process that waits for its child and passes signals on to it.
pub(crate) struct Parent {
    signals: Signals,
    told: Option<i32>,
}

/// How a child ended.
pub(crate) struct ChildEnd {
    /// Its exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
}

impl Parent {
    /// Takes signals over, so that none is lost between here and the start of the child. Handlers are installed even
    /// for what would end any process: the first one of a container gets no signal without.
    pub(crate) fn new() -> Result<Parent, Failure> {
        let heard = [stop::signals(), vec![SIGCHLD]].concat();
        let signals = Signals::new(heard).map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
        Ok(Parent { signals, told: None })
    }

    /// The first signal that asked this process to stop.
    pub(crate) fn told(&mut self) -> Option<i32> {
        let first = self.signals.pending().find(|signal| *signal != SIGCHLD);
        self.told = self.told.or(first);
        self.told
    }

    /// This program with the same words, to be changed and given to [`run`](Self::run).
    pub(crate) fn again() -> Result<Command, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program's own file: {error}")))?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1));
        Ok(command)
    }

    /// Starts a child and waits for its end. Call it on the main thread: the child ends with the thread that started it.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<ChildEnd, Failure> {
        command.env(PARENT, std::process::id().to_string());
        let child = command.spawn().map_err(|error| Failure::new(format!("cannot start a process: {error}")))?;
        let pid = Pid::from_child(&child);
        loop {
            for signal in self.signals.wait().filter(|signal| *signal != SIGCHLD) {
                self.told.get_or_insert(signal);
                // The child is not yet waited for, so that its id is no other process's.
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = kill_process(pid, signal);
                }
            }
            if let Some(ended) = reap(pid)? {
                return Ok(ended);
            }
        }
    }
}

/// Waits for every child that has ended: the first process of a container also has those whose parents are gone.
fn reap(child: Pid) -> Result<Option<ChildEnd>, Failure> {
    let mut ended = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == child => {
                ended = Some(ChildEnd { code: status.exit_status(), signal: status.terminating_signal() });
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Ok(ended),
            Err(rustix::io::Errno::CHILD) if ended.is_some() => return Ok(ended),
            Err(error) => return Err(Failure::new(format!("cannot wait for a process: {error}"))),
        }
    }
}

/// In a child: SIGTERM when the parent ends, however it ends; an end at once if it is gone already.
pub(crate) fn end_with_parent() -> Result<(), Failure> {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|text| text.parse().ok()).and_then(Pid::from_raw) else {
        return Ok(());
    };
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Failure::new(format!("cannot ask for the end of the parent: {error}")))?;
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(Failure::new("the process that started this one is gone")),
    }
}

/// Whether this is the first process of a container, which must reap orphans and gets only signals it handles.
pub(crate) fn is_first_of_container() -> bool {
    getpid().is_init()
}
