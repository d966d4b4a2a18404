//! Progress on standard error: one line that changes on a terminal, nothing elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A line that says what is being done and for how long.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Option<(Sender<String>, JoinHandle<()>)>,
}

impl Progress {
    pub(crate) fn start() -> Self {
        if !io::stderr().is_terminal() {
            return Progress { shown: None };
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
        Progress { shown: Some((sender, thread)) }
    }

    /// Says what is being done now.
    pub(crate) fn step(&self, doing: &str) {
        if let Some((sender, _)) = &self.shown {
            let _ = sender.send(doing.to_string());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.shown.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
