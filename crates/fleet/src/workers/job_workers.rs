//! The workers of a job, by ssh.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use channel::Secret;
use weights::{CheckpointManager, Store};

use super::bundle::Bundle;
use super::command::ProcessCommand;
use super::host_keys::{HostKeyBook, HostKeySource, alias};
use super::ssh::{Ssh, SshError, SshHost, shell_quoted};
use crate::job::{JobFile, JobPlugin, JobProgram};
use crate::supervisor::{JobAttempt, JobWorkers, Place, StopHow, WorkerSeen};

const AGENT: &str = include_str!("agent.sh");
/// A question that takes longer has no answer.
const LIMIT: Duration = Duration::from_secs(6);
/// Preparing a worker may take longer.
const PREPARE_LIMIT: Duration = Duration::from_secs(1500);
/// A worker that is new may not listen yet.
const KNOCKS: u32 = 150;
const KNOCK_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a log that are kept here.
const MAX_LOG: usize = 1 << 20;
/// The object whose presence asks a job to stop.
const STOP: &str = "job-stop";

/// What is known of one worker of the attempt under way.
#[derive(Clone, Debug, Default)]
struct Desk {
    /// Being prepared, or why that failed.
    preparing: Option<Result<(), String>>,
    offset: u64,
    log: Vec<u8>,
}

type Desks = Arc<Mutex<BTreeMap<(u32, usize), Desk>>>;

/// Told of every new line: the process, the line.
pub type OnLine = Box<dyn Fn(usize, &str) + Send + Sync>;

/// The workers of a job.
pub struct SshWorkers {
    job: JobFile,
    ssh: Ssh,
    program: PathBuf,
    store: Store,
    keys: Arc<HostKeyBook>,
    desks: Desks,
    /// Told of every new line: the process, the line.
    on_line: Arc<OnLine>,
}

impl SshWorkers {
    /// Workers that are given `program` (this one) and reached by `ssh`. `host_keys` tells what is published of them.
    pub fn new(
        job: &JobFile,
        ssh: Ssh,
        program: &Path,
        host_keys: Option<HostKeySource>,
        on_line: OnLine,
    ) -> Result<SshWorkers, String> {
        let open = || Store::open(&job.folder).map_err(|error| error.to_string());
        let keys = Arc::new(HostKeyBook::new(&ssh.folder, open()?, job.cloud.host_keys, host_keys));
        let (job, program, store, on_line) = (job.clone(), program.to_path_buf(), open()?, Arc::new(on_line));
        Ok(SshWorkers { job, ssh, program, store, keys, desks: Desks::default(), on_line })
    }

    fn door(&self, process: usize, place: &Place) -> Door {
        let (keys, on_line) = (self.keys.clone(), self.on_line.clone());
        Door { ssh: self.ssh.clone(), keys, place: place.clone(), address: host(&self.job, place), process, on_line }
    }

    fn desks(&self) -> MutexGuard<'_, BTreeMap<(u32, usize), Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn question(&self, epoch: u64, attempt: &JobAttempt, verb: &str, more: &str) -> String {
        let (run, number) = (shell_quoted(&attempt.run), attempt.number);
        format!("VERB={verb} RUN={run} EPOCH={epoch} ATTEMPT={number}\n{more}\n{AGENT}")
    }

    /// Asks all workers at once.
    fn all(
        &self,
        epoch: u64,
        attempt: &JobAttempt,
        verb: &str,
        more: &(dyn Fn(usize) -> String + Sync),
    ) -> Vec<Result<Vec<u8>, SshError>> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = attempt
                .places
                .iter()
                .enumerate()
                .map(|(at, place)| {
                    let script = self.question(epoch, attempt, verb, &more(at));
                    scope.spawn(move || self.door(at, place).ask(&script, LIMIT))
                })
                .collect();
            let lost = || Err(SshError::Failed("a thread is gone".into()));
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| lost())).collect()
        })
    }

    /// Passes new lines on.
    fn hear(&self, attempt: u32, process: usize, bytes: &[u8]) {
        let mut lines = Vec::new();
        {
            let mut desks = self.desks();
            let desk = desks.entry((attempt, process)).or_default();
            desk.offset += bytes.len() as u64;
            desk.log.extend_from_slice(bytes);
            let begin = desk.log.len() - bytes.len();
            let from = desk.log[..begin].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if let Some(last) = desk.log.iter().rposition(|byte| *byte == b'\n').filter(|last| *last >= begin) {
                lines.extend(String::from_utf8_lossy(&desk.log[from..last]).lines().map(str::to_string));
            }
            let extra = desk.log.len().saturating_sub(MAX_LOG);
            desk.log.drain(..extra);
        }
        lines.iter().for_each(|line| (self.on_line)(process, line));
    }

    /// Puts what was read of the logs of an attempt into the job's folder.
    pub fn keep_logs(&self, attempt: u32) {
        let logs: Vec<(usize, Vec<u8>)> = self
            .desks()
            .range((attempt, 0)..(attempt + 1, 0))
            .map(|((_, process), desk)| (*process, desk.log.clone()))
            .collect();
        for (process, log) in logs {
            let _ = self.store.put(&format!("logs/attempt-{attempt:04}-process-{process:04}.txt"), &log);
        }
    }
}

fn host(job: &JobFile, place: &Place) -> String {
    let address = place.external.filter(|_| job.cloud.external_ips).unwrap_or(place.internal);
    address.to_string()
}

impl JobWorkers for SshWorkers {
    fn look(&self, epoch: u64, attempt: &JobAttempt) -> Vec<WorkerSeen> {
        let offsets: Vec<u64> = {
            let desks = self.desks();
            (0..attempt.places.len()).map(|at| desks.get(&(attempt.number, at)).map_or(0, |desk| desk.offset)).collect()
        };
        let answers = self.all(epoch, attempt, "look", &|at| format!("OFFSET={}", offsets[at]));
        let mut seen = Vec::new();
        for (process, answer) in answers.into_iter().enumerate() {
            let preparing = self.desks().get(&(attempt.number, process)).and_then(|desk| desk.preparing.clone());
            let bytes = match (answer, preparing) {
                (_, Some(Err(why))) => {
                    seen.push(WorkerSeen::Failed { why });
                    continue;
                }
                (Err(_), Some(Ok(()))) => {
                    seen.push(WorkerSeen::Preparing);
                    continue;
                }
                (Err(SshError::Refused(_)), None) => {
                    seen.push(WorkerSeen::Refusing);
                    continue;
                }
                (Err(_), None) => {
                    seen.push(WorkerSeen::Unreachable);
                    continue;
                }
                (Ok(bytes), _) => bytes,
            };
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
            let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
            self.hear(attempt.number, process, bytes.get(end + 1..).unwrap_or_default());
            let is_preparing =
                self.desks().get(&(attempt.number, process)).is_some_and(|desk| desk.preparing.is_some());
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            let of = u32::try_from(number(1)).unwrap_or(0);
            seen.push(match words.first().copied() {
                // What is there before the start is that of an earlier attempt.
                _ if is_preparing && of != attempt.number => WorkerSeen::Preparing,
                Some("running") => WorkerSeen::Running { attempt: of, silent_s: number(2) },
                Some("exited") => WorkerSeen::Exited { attempt: of, code: i32::try_from(number(2)).unwrap_or(255) },
                Some("idle") => WorkerSeen::Idle,
                _ => WorkerSeen::Unreachable,
            });
        }
        seen
    }

    fn start(&self, epoch: u64, attempt: &JobAttempt) {
        let made = Secret::generate().and_then(|secret| {
            let bundle = Bundle::of(&self.job, &self.program)?;
            let file = match &self.job.run.program {
                JobProgram::Train { file, .. } => bundle.remote(file),
                JobProgram::Command(_) => PathBuf::new(),
            };
            let lines = (0..attempt.places.len()).map(|at| ProcessCommand::of(&self.job, attempt, at, &file));
            let lines = lines.map(|command| command.map(|command| command.line())).collect::<Result<Vec<_>, _>>()?;
            Ok((secret, bundle, lines))
        });
        {
            let mut desks = self.desks();
            desks.retain(|(number, _), _| *number == attempt.number);
            for at in 0..attempt.places.len() {
                let preparing = Some(made.as_ref().map(|_| ()).map_err(Clone::clone));
                desks.insert((attempt.number, at), Desk { preparing, ..Desk::default() });
            }
        }
        let Ok((secret, bundle, lines)) = made else { return };
        let bundle = Arc::new(bundle);
        for ((at, place), line) in attempt.places.iter().enumerate().zip(lines) {
            let start = self.question(
                epoch,
                attempt,
                "start",
                &format!("SECRET={}\nPROGRAM={}", shell_quoted(&secret), shell_quoted(&line)),
            );
            let worker = Preparation {
                door: self.door(at, place),
                bundle: bundle.clone(),
                plugin: plugin_script(&self.job, &bundle),
                setup: self.job.run.setup.clone(),
                have: self.question(epoch, attempt, "bundle", ""),
                unpacked: self.question(epoch, attempt, "unpacked", &format!("BUNDLE={}", bundle.identity)),
                run: attempt.run.clone(),
                start,
            };
            let (desks, key) = (self.desks.clone(), (attempt.number, at));
            std::thread::spawn(move || {
                let outcome = worker.run();
                let mut desks = desks.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(desk) = desks.get_mut(&key) {
                    desk.preparing = match outcome {
                        Ok(()) => None,
                        // A worker that is gone is told by looking at it.
                        Err(SshError::Unreachable(_) | SshError::Refused(_)) => None,
                        Err(error) => Some(Err(error.to_string())),
                    };
                }
            });
        }
    }

    fn stop(&self, epoch: u64, attempt: &JobAttempt, how: StopHow) {
        let verb = match how {
            StopHow::Ask => "ask",
            StopHow::Kill => "kill",
        };
        self.all(epoch, attempt, verb, &|_| String::new());
    }

    fn newest_step(&self) -> Option<u64> {
        let folder = format!("{}/checkpoints", self.job.folder.trim_end_matches('/'));
        CheckpointManager::open(&folder).ok()?.latest().ok().flatten()
    }

    fn is_stopped(&self) -> bool {
        self.store.list(STOP).is_ok_and(|objects| !objects.is_empty()) || self.store.read(STOP, 0, 1).is_ok()
    }
}

/// Asks the supervisor of a job, wherever it is, to save and stop it.
pub fn ask_to_stop(job: &JobFile) -> Result<(), String> {
    let store = Store::open(&job.folder).map_err(|error| error.to_string())?;
    store.put(STOP, b"stop").map_err(|error| error.to_string())
}

/// Says where the plugin of a job is: gets the package, or names the file. Nothing where the machine's own is meant.
fn plugin_script(job: &JobFile, bundle: &Bundle) -> Option<String> {
    match job.run.plugin()? {
        JobPlugin::Cpu => None,
        JobPlugin::File(path) => {
            let file = shell_quoted(&bundle.remote(&path).display().to_string());
            Some(format!("test -f {file} && echo \"$PWD/\"{file} >../plugin"))
        }
        JobPlugin::Package { name, version } => {
            let version = version.map_or_else(String::new, |version| format!(" --version {}", shell_quoted(&version)));
            // Where it was put, from the record that it prints.
            let path = r#"sed -n 's/.*"path": *"\([^"]*\)".*/\1/p'"#;
            Some(format!(
                "TPUBRIDGE_HOME=\"$HOME/.tpubridge\" ./bin/tpu setup {}{version} --json >../setup.json && {path} <../setup.json >../plugin && \
                 test -f \"$(cat ../plugin)\"",
                shell_quoted(&name)
            ))
        }
    }
}

/// A worker behind ssh.
struct Door {
    ssh: Ssh,
    keys: Arc<HostKeyBook>,
    place: Place,
    address: String,
    process: usize,
    on_line: Arc<OnLine>,
}

impl Door {
    /// The host, once it is known how it proves who it is.
    fn host(&self) -> Result<SshHost, SshError> {
        let trust = self.keys.trust(&self.place)?;
        Ok(SshHost { address: self.address.clone(), alias: alias(&self.place), trust })
    }

    fn ask(&self, script: &str, limit: Duration) -> Result<Vec<u8>, SshError> {
        let answer = self.ssh.run(&self.host()?, script, limit)?;
        if let Some(warning) = self.keys.met(&self.place) {
            (self.on_line)(self.process, &warning);
        }
        Ok(answer)
    }
}

/// What is done to one worker before its process runs.
struct Preparation {
    door: Door,
    bundle: Arc<Bundle>,
    plugin: Option<String>,
    setup: Option<String>,
    have: String,
    unpacked: String,
    run: String,
    start: String,
}

impl Preparation {
    fn ask(&self, script: &str, limit: Duration) -> Result<String, SshError> {
        let answer = self.door.ask(script, limit)?;
        Ok(String::from_utf8_lossy(&answer).trim().to_string())
    }

    fn run(&self) -> Result<(), SshError> {
        let mut knocks = 0;
        let have = loop {
            match self.ask(&self.have, LIMIT) {
                Err(SshError::Unreachable(_) | SshError::Refused(_)) if knocks < KNOCKS => knocks += 1,
                answer => break answer?,
            }
            std::thread::sleep(KNOCK_PAUSE);
        };
        if have != self.bundle.identity {
            self.copy()?;
            for step in [&self.plugin, &self.setup].into_iter().flatten() {
                let script = format!("cd \"$HOME/.tpubridge/jobs/{}/work\" && {{ {step}\n}}", self.run);
                self.ask(&script, PREPARE_LIMIT)?;
            }
            self.ask(&self.unpacked, LIMIT)?;
        }
        match self.ask(&self.start, LIMIT)?.as_str() {
            "started" => Ok(()),
            other => Err(SshError::Failed(format!("it did not start the program: {other}"))),
        }
    }

    fn copy(&self) -> Result<(), SshError> {
        let failed = |what: String| SshError::Failed(what);
        let mut tar = self.bundle.tar();
        let mut tar =
            tar.stdout(Stdio::piped()).spawn().map_err(|error| failed(format!("tar cannot be run: {error}")))?;
        let Some(stream) = tar.stdout.take() else { return Err(failed("tar has no output".into())) };
        let remote =
            format!("umask 077; mkdir -p .tpubridge/jobs/{0}/work && tar -C .tpubridge/jobs/{0}/work -xf -", self.run);
        let mut ssh = self.door.ssh.command(&self.door.host()?, &remote);
        let status = ssh.stdin(stream).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let packed = tar.wait();
        match (status, packed) {
            (Ok(status), Ok(packed)) if status.success() && packed.success() => Ok(()),
            (Ok(status), _) if status.code() == Some(255) => Err(SshError::Unreachable("the copy was cut off".into())),
            (status, packed) => Err(failed(format!("files could not be copied: ssh {status:?}, tar {packed:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_gotten_or_copied() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["t.toml", "my plugin.so", "tpu"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let script = |plugin: &str| {
            let text = format!(
                "name = 'a'\nfolder = 'run'\n[run]\ntrain = 't.toml'\nplugin = '{plugin}'\n[slices]\ntype = 'v6e-8'\nzones = ['us-east5-b']\n"
            );
            std::fs::write(folder.path().join("job.toml"), text).unwrap();
            let job = JobFile::read(&folder.path().join("job.toml")).unwrap();
            let bundle = Bundle::of(&job, &folder.path().join("tpu")).unwrap();
            (plugin_script(&job, &bundle), bundle.files.len())
        };
        assert_eq!(script("cpu"), (None, 1));
        let (file, files) = script("./my plugin.so");
        assert_eq!(
            (file.unwrap().as_str(), files),
            ("test -f 'my plugin.so' && echo \"$PWD/\"'my plugin.so' >../plugin", 2)
        );
        let (package, _) = script("libtpu==0.0.51");
        assert!(package.unwrap().contains("./bin/tpu setup libtpu --version 0.0.51 --json"));
    }
}
