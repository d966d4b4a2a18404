//! Profiles of a training: windows of steps from its settings, and steps that someone asks for while it runs.
//!
//! A window begins and ends between two steps, with none under way, so that it has whole steps only. What was recorded is put
//! together and written by a thread of its own. A profile never stops a training: what goes wrong is told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use runtime::{BackendProfiler, HostSpan, Stopped};

use super::watch::{Measured, TrainEvent};
use crate::error::Error;
use crate::profiler::{Asked, CaptureDesk, ProfilerAddress, ProfilerServer, refused};

/// What is profiled of a training.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// Windows of steps, in their order; the first step is 1.
    pub windows: Vec<Range<u64>>,
    /// Where their profiles go.
    pub folder: Option<PathBuf>,
    /// Where profiles can be asked for while the training runs.
    pub address: Option<ProfilerAddress>,
    /// The folder of the run, which tells the address.
    pub run: Option<PathBuf>,
}

/// The profiles of a training under way.
pub(super) struct Profiles {
    profiler: BackendProfiler,
    folder: Option<PathBuf>,
    windows: VecDeque<Range<u64>>,
    recording: Option<Window>,
    desk: Arc<CaptureDesk>,
    server: Option<ProfilerServer>,
    /// Puts the last profile together.
    writing: Option<JoinHandle<Result<Written, String>>>,
}

/// Steps that are being recorded.
struct Window {
    steps: Range<u64>,
    /// Who asked for it; `None` for the settings.
    asked: Option<Asked>,
}

/// What became of a profile.
enum Written {
    File(PathBuf, Vec<u64>),
    Sent,
}

impl Profiles {
    /// Refuses what cannot work: a device without a profiler, an address that cannot be listened at.
    pub(super) fn start(options: &ProfileOptions, profiler: &BackendProfiler, rank: usize) -> Result<Profiles, Error> {
        let is_wanted = !options.windows.is_empty() || options.address.is_some();
        if is_wanted && !profiler.is_supported() {
            return Err(Error::new("profiles are asked for, but the plugin of this device has no profiler")
                .hint("leave [profile] out, or train on the CPU device or a TPU"));
        }
        let desk = Arc::new(CaptureDesk::default());
        let listen = |address: SocketAddr| {
            ProfilerServer::start(address, profiler, &desk, options.run.as_deref(), rank).map_err(|error| {
                Error::new(format!("the profiler cannot listen at {address}: {error}"))
                    .hint("give --profiler a free port of this machine; 0 takes any")
            })
        };
        let server = options.address.map(|address| listen(address.of_process(rank))).transpose()?;
        Ok(Profiles {
            profiler: profiler.clone(),
            folder: options.folder.clone(),
            windows: options.windows.iter().cloned().collect(),
            recording: None,
            desk,
            server,
            writing: None,
        })
    }

    /// Where profiles can be asked for.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(ProfilerServer::address)
    }

    /// Whether something begins or ends before the next step.
    pub(super) fn is_due(&self, next: u64) -> bool {
        match &self.recording {
            Some(window) => {
                window.steps.end <= next || window.asked.as_ref().is_some_and(|asked| asked.answer.is_closed())
            }
            None => self.windows.front().is_some_and(|window| window.start <= next) || self.desk.is_asked(),
        }
    }

    /// Begins and ends what is due before the next step. No step is under way.
    pub(super) fn turn(&mut self, next: u64, watch: &mut dyn FnMut(&TrainEvent)) {
        if let Some(window) = self.recording.take_if(|window| {
            window.steps.end <= next || window.asked.as_ref().is_some_and(|asked| asked.answer.is_closed())
        }) {
            self.end(window, watch);
        }
        if self.recording.is_some() {
            return;
        }
        while self.windows.front().is_some_and(|window| window.end <= next) {
            self.windows.pop_front();
        }
        if self.windows.front().is_some_and(|window| window.start <= next)
            && let Some(steps) = self.windows.pop_front()
        {
            match self.profiler.start() {
                Ok(()) => self.recording = Some(Window { steps: next..steps.end, asked: None }),
                Err(error) => {
                    let why = compile::with_causes(&error);
                    let message = format!("steps {}..{} are not profiled: {why}", steps.start, steps.end);
                    watch(&TrainEvent::ProfileFailed(message));
                }
            }
        } else if let Some(asked) = self.desk.take() {
            match self.profiler.start() {
                Ok(()) => {
                    let end = next.saturating_add(asked.steps);
                    self.recording = Some(Window { steps: next..end, asked: Some(asked) });
                }
                Err(error) => drop(asked.answer.send(Err(refused(&error)))),
            }
        }
    }

    fn end(&mut self, window: Window, watch: &mut dyn FnMut(&TrainEvent)) {
        self.wait(watch);
        let stopped = match self.profiler.stop() {
            Ok(Some(stopped)) => stopped,
            Ok(None) => return,
            Err(error) => {
                if let Some(asked) = window.asked {
                    let _ = asked.answer.send(Err(refused(&error)));
                }
                return watch(&TrainEvent::ProfileFailed(compile::with_causes(&error)));
            }
        };
        let folder = self.folder.clone();
        let thread = std::thread::Builder::new().name("profile".into());
        match thread.spawn(move || write(stopped, window, folder)) {
            Ok(writing) => self.writing = Some(writing),
            Err(error) => watch(&TrainEvent::ProfileFailed(format!("no thread for the profile: {error}"))),
        }
    }

    /// Tells what became of the last profile, once that is known.
    pub(super) fn hear(&mut self, watch: &mut dyn FnMut(&TrainEvent)) {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait(watch);
        }
    }

    /// Waits until the last profile is written, and tells what became of it.
    fn wait(&mut self, watch: &mut dyn FnMut(&TrainEvent)) {
        let Some(writing) = self.writing.take() else { return };
        match writing.join() {
            Ok(Ok(Written::File(path, steps))) => watch(&TrainEvent::Profiled { path, steps }),
            Ok(Ok(Written::Sent)) => {}
            Ok(Err(why)) => watch(&TrainEvent::ProfileFailed(why)),
            Err(_) => watch(&TrainEvent::ProfileFailed("the profile could not be put together".into())),
        }
    }

    /// Tells whoever asks how the training goes.
    pub(super) fn tell(&self, measured: &Measured) {
        if self.server.is_some() {
            let loss = measured.loss().map_or_else(String::new, |loss| format!(", loss {loss:.4}"));
            let rate = measured.tokens_per_second.map_or_else(String::new, |rate| format!(", {rate:.0} tokens/s"));
            let text = format!("step {}: {:.4} s a step{rate}{loss}\n", measured.step, measured.step_seconds);
            self.desk.tell(text);
        }
    }

    /// The next step, as the host sees it.
    pub(super) fn step(&self, number: u64) -> HostSpan {
        self.profiler.step(number)
    }

    /// A part of a step, as the host sees it.
    pub(super) fn phase(&self, name: &'static str) -> HostSpan {
        self.profiler.span(name)
    }

    /// The training has ended: what was recorded of a window is kept, and who asked gets it.
    pub(super) fn finish(mut self, watch: &mut dyn FnMut(&TrainEvent)) {
        if let Some(window) = self.recording.take() {
            self.end(window, watch);
        }
        self.desk.close();
        self.wait(watch);
    }
}

impl Drop for Profiles {
    fn drop(&mut self) {
        self.desk.close();
        if self.recording.take().is_some() {
            // The training failed, and its error is what matters.
            let _ = self.profiler.stop();
        }
    }
}

fn write(stopped: Stopped, window: Window, folder: Option<PathBuf>) -> Result<Written, String> {
    let collected = stopped.collect();
    if let Some(asked) = window.asked {
        // Nobody may be left to hear it.
        let _ = asked.answer.send(collected.map_err(|error| refused(&error)));
        return Ok(Written::Sent);
    }
    let profile = collected.map_err(|error| compile::with_causes(&error))?;
    let folder = folder.ok_or("there is no folder for profiles")?;
    let first = profile.steps.first().copied().unwrap_or(window.steps.start);
    let last = profile.steps.last().copied().unwrap_or(first);
    // The same in all processes, so that tools show them together.
    let path = profile.write(&folder, &format!("steps-{first}-{last}"));
    let path = path.map_err(|error| compile::with_causes(&error))?;
    Ok(Written::File(path, profile.steps))
}
