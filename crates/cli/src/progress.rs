//! Progress on standard error: one line that changes on a terminal; elsewhere nothing, or a line for each step if asked for.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::log;

static EVERYWHERE: OnceLock<()> = OnceLock::new();

/// From now on progress is said where there is no terminal too: in the form of the log, with `progress` in its records.
pub(crate) fn say_everywhere() {
    let _ = EVERYWHERE.set(());
}

/// A line that says what is being done and for how long.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Nowhere,
    Lines,
    Terminal(Sender<String>, JoinHandle<()>),
}

impl Progress {
    pub(crate) fn start() -> Self {
        if EVERYWHERE.get().is_some() {
            return Progress { shown: Shown::Lines };
        }
        if !io::stderr().is_terminal() {
            return Progress { shown: Shown::Nowhere };
        }
        let (sender, steps) = mpsc::channel::<String>();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut doing = String::new();
            loop {
                match steps.recv_timeout(Duration::from_millis(100)) {
                    Ok(step) => doing = step,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if !doing.is_empty() {
                    let _ = write!(io::stderr(), "\r\x1b[K{doing} … {:.1} s", started.elapsed().as_secs_f64());
                }
            }
            let _ = write!(io::stderr(), "\r\x1b[K");
        });
        Progress { shown: Shown::Terminal(sender, thread) }
    }

    /// Says what is being done now.
    pub(crate) fn step(&self, doing: &str) {
        self.say(doing, None);
    }

    /// The same, with how much of all that is to be done is done.
    pub(crate) fn part(&self, done: usize, of: usize, doing: &str) {
        self.say(doing, Some((done, of)));
    }

    fn say(&self, doing: &str, part: Option<(usize, usize)>) {
        match &self.shown {
            Shown::Nowhere => {}
            Shown::Lines => {
                let mut known = vec![("progress".to_string(), true.into())];
                known.extend(
                    part.iter().flat_map(|(done, of)| {
                        [("done".to_string(), (*done).into()), ("of".to_string(), (*of).into())]
                    }),
                );
                log::say_with(doing, &known);
            }
            Shown::Terminal(sender, _) => {
                let _ = sender.send(doing.to_string());
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Terminal(sender, thread) = std::mem::replace(&mut self.shown, Shown::Nowhere) {
            drop(sender);
            let _ = thread.join();
        }
    }
}
