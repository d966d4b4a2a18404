//! The parent's side: start the child, feed it, watch time, memory and the caller's wish to stop, read its answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::frame::{self, Kind};
use super::message::{Answer, Request};
use crate::cache::Blob;
use crate::error::CompileError;

/// How often the child's memory and the caller's wish to stop are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How much of what the child prints is kept.
const LOG_BYTES: usize = 64 << 10;

/// How to start the compiler's process.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program; it must call [`super::serve`] when started with `args`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables to set.
    pub env: BTreeMap<String, String>,
    /// Where what the compiler prints goes.
    pub chatter: Chatter,
}

/// What happens to what the compiler prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chatter {
    /// Kept back; the end of it is shown when the process dies.
    #[default]
    Keep,
    /// Passed on to standard error as well.
    Show,
}

impl WorkerCommand {
    /// Starts the running program again with the given arguments.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> io::Result<WorkerCommand> {
        Ok(WorkerCommand {
            program: std::env::current_exe()?,
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            chatter: Chatter::Keep,
        })
    }
}

/// Limits on the child.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Wall-clock time (`compilation_timeout_seconds`).
    pub time: Duration,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        WorkerLimits { time: Duration::from_secs(300), memory_bytes: None }
    }
}

/// What the child answered.
pub(crate) struct Output {
    pub(crate) answer: Answer,
    pub(crate) blobs: Vec<Blob>,
}

enum Event {
    Frame(Kind, Vec<u8>),
    /// The stream ended, cleanly or not.
    End(Option<io::Error>),
}

/// Runs one request in a child. The child is gone when this returns, whatever happened.
pub(crate) fn run(
    launch: &WorkerCommand,
    limits: &WorkerLimits,
    request: &Request,
    program: Option<&[u8]>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Output, CompileError> {
    let failed = |doing| move |source| CompileError::io(doing, &launch.program, source);
    let mut child = Reaped(spawn(launch).map_err(failed("starting the compiler's process"))?);
    let started = Instant::now();

    std::thread::scope(|scope| {
        let stdin = child.0.stdin.take();
        let stdout = child.0.stdout.take();
        let stderr = child.0.stderr.take();
        // A child that dies early closes its end; the answer tells why, so a broken pipe here says nothing new.
        scope.spawn(move || stdin.map(|pipe| feed(pipe, request, program)));
        let log = scope.spawn(move || stderr.map(|pipe| read_log(pipe, launch.chatter)).unwrap_or_default());
        let (events, received) = mpsc::sync_channel(16);
        scope.spawn(move || stdout.map(|pipe| read_frames(pipe, &events)));

        let outcome = watch(&mut child.0, &received, limits, stop, started, progress);
        // Ending the child closes the pipes, which ends the threads. One that ended without an answer is given time to
        // write its last words; one that answered is about to exit, but exit handlers of a plugin may hang.
        let grace = match &outcome {
            Ok(None) => Duration::from_secs(5),
            Ok(Some(_)) => Duration::from_millis(100),
            Err(_) => Duration::ZERO,
        };
        let status = child.end(grace);
        drop(received);
        let log = log.join().unwrap_or_default();
        match outcome {
            Ok(Some(output)) => Ok(output),
            Ok(None) => Err(crashed(status, log)),
            Err(error) => Err(error),
        }
    })
}

fn spawn(launch: &WorkerCommand) -> io::Result<Child> {
    Command::new(&launch.program)
        .args(&launch.args)
        .envs(&launch.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn feed(pipe: impl Write, request: &Request, program: Option<&[u8]>) -> io::Result<()> {
    let mut pipe = BufWriter::new(pipe);
    frame::write(&mut pipe, Kind::Request, &[&serde_json::to_vec(request)?])?;
    if let Some(program) = program {
        frame::write(&mut pipe, Kind::Blob, &[b"program", b"\0", program])?;
    }
    pipe.flush()
}

fn read_frames(pipe: impl Read, events: &mpsc::SyncSender<Event>) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let event = match frame::read(&mut pipe) {
            Ok(Some((kind, bytes))) => Event::Frame(kind, bytes),
            Ok(None) => Event::End(None),
            Err(error) => Event::End(Some(error)),
        };
        let last = matches!(event, Event::End(_));
        if events.send(event).is_err() || last {
            return;
        }
    }
}

/// Keeps the end of what the child prints.
fn read_log(mut pipe: impl Read, chatter: Chatter) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = pipe.read(&mut chunk) {
        if chatter == Chatter::Show {
            let _ = io::stderr().write_all(&chunk[..n]);
        }
        kept.extend(&chunk[..n]);
        if kept.len() > 2 * LOG_BYTES {
            kept.drain(..kept.len() - LOG_BYTES);
        }
    }
    String::from_utf8_lossy(&kept[kept.len().saturating_sub(LOG_BYTES)..]).into_owned()
}

/// The answer, or `None` when the child ended without one.
fn watch(
    child: &mut Child,
    received: &mpsc::Receiver<Event>,
    limits: &WorkerLimits,
    stop: &AtomicBool,
    started: Instant,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Output>, CompileError> {
    let mut blobs = Vec::new();
    loop {
        match received.recv_timeout(LOOK) {
            Ok(Event::Frame(Kind::Progress, text)) => progress(&String::from_utf8_lossy(&text)),
            Ok(Event::Frame(Kind::Blob, frame)) => {
                let (name, bytes) =
                    frame::split_blob(frame).ok_or_else(|| CompileError::Protocol("a nameless blob".into()))?;
                blobs.push(Blob { name, bytes });
            }
            Ok(Event::Frame(Kind::Answer, json)) => {
                let answer =
                    serde_json::from_slice(&json).map_err(|error| CompileError::Protocol(error.to_string()))?;
                return Ok(Some(Output { answer, blobs }));
            }
            Ok(Event::Frame(Kind::Request, _)) => {
                return Err(CompileError::Protocol("a request from the child".into()));
            }
            Ok(Event::End(None)) | Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
            // A child that dies in the middle of a frame has crashed: the exit status says more than the cut stream.
            Ok(Event::End(Some(error))) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Ok(Event::End(Some(error))) => return Err(CompileError::Protocol(error.to_string())),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Err(CompileError::Interrupted);
        }
        if started.elapsed() > limits.time {
            return Err(CompileError::Timeout(limits.time));
        }
        if let (Some(limit), Some(used)) = (limits.memory_bytes, resident_bytes(child.id()))
            && used > limit
        {
            return Err(CompileError::MemoryLimit { used, limit });
        }
    }
}

/// Resident memory of a process, from `/proc`.
fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// A child that never outlives its owner.
#[derive(Debug)]
pub struct Reaped(pub Child);

impl Reaped {
    /// Waits for the child to end by itself, for `grace` at most, and then ends it.
    pub fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + grace;
        loop {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                let _ = self.0.kill();
                return self.0.wait().ok();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn crashed(status: Option<ExitStatus>, log: String) -> CompileError {
    let how = match status {
        Some(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => signal_name(signal),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "no exit code".into(),
        },
        None => "its status is unknown".into(),
    };
    CompileError::Crashed { how, log }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        2 => "SIGINT, interrupted",
        4 => "SIGILL, illegal instruction",
        6 => "SIGABRT, an internal check failed",
        7 => "SIGBUS, bad memory access",
        8 => "SIGFPE, bad arithmetic",
        9 => "SIGKILL, killed; the system may be out of memory",
        11 => "SIGSEGV, bad memory access",
        15 => "SIGTERM, ended from outside",
        _ => return format!("signal {signal}"),
    };
    name.to_string()
}
