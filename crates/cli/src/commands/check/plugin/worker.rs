//! One process that holds a plugin, as the command sees it: started, asked, watched, and never left behind.

use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use compile::worker::{Reaped, WorkerCommand};

use super::message::{self, Answer, Output};

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long a plugin may take to load and find its devices.
const START: Duration = Duration::from_secs(120);
/// How long a process that closed its end may take to die.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How much of what the process prints is kept.
const LOG_BYTES: usize = 16 << 10;
/// Lines told of what a process that died printed.
const TOLD_LINES: usize = 3;

/// Why there is no answer; the process is of no more use.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It could not be started, or the plugin not be loaded.
    Start(String),
    /// It died.
    Crashed { how: String, log: String },
    /// It was told to stop, or took too long to start.
    Stopped,
    /// It answered what makes no sense.
    Answer(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Start(why) => f.write_str(why),
            Trouble::Crashed { how, log } if log.is_empty() => write!(f, "the plugin crashed with {how}"),
            Trouble::Crashed { how, log } => write!(f, "the plugin crashed with {how}\n{log}"),
            Trouble::Stopped => f.write_str("stopped"),
            Trouble::Answer(why) => write!(f, "internal error: {why}"),
        }
    }
}

type Answered = io::Result<Option<(Answer, Vec<Output>)>>;

/// A process that is ready for a program.
#[derive(Debug)]
pub(super) struct Worker {
    process: Reaped,
    requests: BufWriter<ChildStdin>,
    answers: Receiver<Answered>,
    /// The end of what it printed.
    log: Arc<Mutex<Vec<u8>>>,
    /// Reads what it prints, until the last process that may print has ended.
    reader: thread::JoinHandle<()>,
    device: String,
}

impl Worker {
    /// Starts a process and waits until its plugin is loaded.
    pub(super) fn start(launch: &WorkerCommand, stop: &AtomicBool) -> Result<Worker, Trouble> {
        let failed = |error: io::Error| Trouble::Start(format!("cannot start a process: {error}"));
        let child = Command::new(&launch.program)
            .args(&launch.args)
            .envs(&launch.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut process = Reaped(child);
        let pipes = (process.0.stdin.take(), process.0.stdout.take(), process.0.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Trouble::Start("the process has no pipes".into()));
        };
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        let reader = thread::Builder::new().spawn(move || keep_end(stderr, &kept)).map_err(failed)?;
        let (sender, answers) = mpsc::channel();
        thread::Builder::new().spawn(move || read_answers(stdout, &sender)).map_err(failed)?;
        let device = String::new();
        let mut worker = Worker { process, requests: BufWriter::new(stdin), answers, log, reader, device };
        match worker.answer(stop, Some(Instant::now() + START))? {
            (Answer::Ready(device), _) => Ok(Worker { device, ..worker }),
            (Answer::Failed(why), _) => Err(Trouble::Start(why)),
            (Answer::Results(_), _) => Err(Trouble::Answer("results before anything was asked".into())),
        }
    }

    /// The plugin's first device, in words.
    pub(super) fn device(&self) -> &str {
        &self.device
    }

    /// Runs a program; gives its results, or the error the plugin answered with.
    pub(super) fn execute(
        &mut self,
        program: &[u8],
        stop: &AtomicBool,
    ) -> Result<Result<Vec<Output>, String>, Trouble> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // A process that died closes its end; how it died says more than the broken pipe.
        let _ = message::write_request(&mut self.requests, program);
        match self.answer(stop, None)? {
            (Answer::Results(_), outputs) => Ok(Ok(outputs)),
            (Answer::Failed(why), _) => Ok(Err(why)),
            (Answer::Ready(_), _) => Err(Trouble::Answer("the plugin is ready a second time".into())),
        }
    }

    fn answer(&mut self, stop: &AtomicBool, until: Option<Instant>) -> Result<(Answer, Vec<Output>), Trouble> {
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(Ok(Some(answer))) => return Ok(answer),
                Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    return Err(Trouble::Answer(error.to_string()));
                }
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(self.crashed()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            if until.is_some_and(|until| Instant::now() > until) {
                return Err(Trouble::Start(format!("the plugin did not load within {} s", START.as_secs())));
            }
        }
    }

    fn crashed(&mut self) -> Trouble {
        let how = match self.process.end(LAST_WORDS) {
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("signal {signal}"),
                (None, code) => format!("exit code {}", code.unwrap_or_default()),
            },
            None => "an unknown status".into(),
        };
        // The pipe outlives the process; a process it started may hold the other end for ever.
        let until = Instant::now() + LAST_WORDS;
        while !self.reader.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Trouble::Crashed { how, log: last_lines(&String::from_utf8_lossy(&log)) }
    }
}

/// The lines that tell why: a failed check, else the last ones.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let telling = |line: &&str| line.contains("Check failed") || line.contains("LLVM ERROR");
    let mut told: Vec<&str> = lines.iter().copied().filter(telling).take(TOLD_LINES).collect();
    if told.is_empty() {
        told = lines[lines.len().saturating_sub(TOLD_LINES)..].to_vec();
    }
    told.join("\n")
}

fn read_answers(pipe: ChildStdout, answers: &mpsc::Sender<Answered>) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let answer = message::read_answer(&mut pipe);
        let is_last = !matches!(answer, Ok(Some(_)));
        if answers.send(answer).is_err() || is_last {
            return;
        }
    }
}

fn keep_end(mut pipe: impl Read, log: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = pipe.read(&mut chunk) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend(&chunk[..n]);
        if log.len() > 2 * LOG_BYTES {
            let surplus = log.len() - LOG_BYTES;
            log.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use compile::worker::Chatter;

    use super::*;

    /// A process that runs a shell script instead of a plugin.
    fn script(script: &str) -> WorkerCommand {
        let args = ["-c".into(), script.into()].into();
        WorkerCommand { program: "/bin/sh".into(), args, env: BTreeMap::new(), chatter: Chatter::Keep }
    }

    fn start(text: &str) -> Result<Worker, String> {
        Worker::start(&script(text), &AtomicBool::new(false)).map_err(|trouble| trouble.to_string())
    }

    const READY: &str = r#"echo '{"Ready":"fake"}';"#;

    #[test]
    fn a_plugin_that_dies_takes_its_own_process_only() {
        let dies = format!("{READY} read line; echo 'Check failed: x' >&2; kill -ABRT $$");
        let mut worker = start(&dies).unwrap();
        assert_eq!(worker.device(), "fake");
        let trouble = worker.execute(b"", &AtomicBool::new(false)).unwrap_err();
        assert_eq!(trouble.to_string(), "the plugin crashed with signal 6\nCheck failed: x");
        // Asked again, it has still died.
        assert!(matches!(worker.execute(b"", &AtomicBool::new(false)), Err(Trouble::Crashed { .. })));
        let mut exits = start(&format!("{READY} read line; printf '{{\"Results\"'; exit 3")).unwrap();
        let trouble = exits.execute(b"", &AtomicBool::new(false)).unwrap_err();
        assert_eq!(trouble.to_string(), "the plugin crashed with exit code 3");
    }

    #[test]
    fn answers_are_results_or_the_plugins_error() {
        let answers = format!(
            r#"{READY} read line; echo '{{"Failed":"no such op"}}'; read line;
            echo '{{"Results":[{{"element_type":"s8","dims":[2],"bytes":2}}]}}'; printf ab; read line"#
        );
        let mut worker = start(&answers).unwrap();
        let stop = AtomicBool::new(false);
        assert_eq!(worker.execute(b"", &stop).unwrap(), Err("no such op".into()));
        let output = Output { element_type: "s8".into(), dims: vec![2], bytes: b"ab".to_vec() };
        assert_eq!(worker.execute(b"", &stop).unwrap(), Ok(vec![output]));
    }

    #[test]
    fn a_plugin_that_hangs_is_ended() {
        let mut worker = start(&format!("{READY} read line; read line")).unwrap();
        assert!(matches!(worker.execute(b"", &AtomicBool::new(true)), Err(Trouble::Stopped)));
    }

    #[test]
    fn a_plugin_that_does_not_load_says_why() {
        assert_eq!(start(r#"echo '{"Failed":"no devices"}'"#).unwrap_err(), "no devices");
        assert_eq!(start("exit 2").unwrap_err(), "the plugin crashed with exit code 2");
        assert!(start("echo nonsense; read line").unwrap_err().starts_with("internal error: "));
    }
}
