//! One ssh connection to a worker, kept open and shared by all questions.

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What ssh says of an error is there when it has ended, or is held open by a connection that is kept.
const ERRORS_LIMIT: Duration = Duration::from_millis(100);

/// How workers are reached.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// The program, `ssh`.
    pub program: PathBuf,
    /// The user; ssh's own choice if absent.
    pub user: Option<String>,
    /// The private key; ssh's own choice if absent.
    pub key: Option<PathBuf>,
    /// A folder of this run for connections and keys of hosts.
    pub folder: PathBuf,
}

/// Why a worker did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshError {
    /// There is no connection to it.
    Unreachable(String),
    /// Its machine says that nobody listens.
    Refused(String),
    /// It was asked and failed.
    Failed(String),
}

impl fmt::Display for SshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(what) | Self::Refused(what) => write!(f, "it cannot be reached: {what}"),
            Self::Failed(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for SshError {}

/// How a worker proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTrust {
    /// Its keys are known: another one is refused.
    Known,
    /// Nobody has met it: the first key is written down.
    First,
}

/// A worker and how it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHost {
    /// Its address.
    pub address: String,
    /// Its name whatever its address: a new machine may have the address of an old one, but not its key.
    pub alias: String,
    /// How it proves who it is.
    pub trust: HostTrust,
}

impl Ssh {
    /// The command that runs `remote` on a host.
    pub fn command(&self, host: &SshHost, remote: &str) -> Command {
        let mut command = Command::new(&self.program);
        let strict = match host.trust {
            HostTrust::Known => "StrictHostKeyChecking=yes",
            HostTrust::First => "StrictHostKeyChecking=accept-new",
        };
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "ServerAliveInterval=3"]);
        command.args(["-o", "ServerAliveCountMax=2", "-o", strict, "-o", "LogLevel=ERROR", "-o", "UpdateHostKeys=no"]);
        command.args(["-o", "CheckHostIP=no", "-o", "ForwardAgent=no", "-o", "GlobalKnownHostsFile=/dev/null"]);
        command.args(["-o", "HashKnownHosts=no"]);
        command.arg("-o").arg(format!("HostKeyAlias={}", host.alias));
        command.arg("-o").arg(format!("UserKnownHostsFile={}", self.folder.join("known_hosts").display()));
        command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60"]);
        command.arg("-o").arg(format!("ControlPath={}", self.folder.join("c-%C").display()));
        if let Some(user) = &self.user {
            command.arg("-l").arg(user);
        }
        if let Some(key) = &self.key {
            command.arg("-o").arg("IdentitiesOnly=yes").arg("-i").arg(key);
        }
        command.arg(&host.address).arg("--").arg(remote);
        command
    }

    /// Runs a script on a host; its output. Scripts go through stdin, so that nobody sees what is in them.
    pub fn run(&self, host: &SshHost, script: &str, limit: Duration) -> Result<Vec<u8>, SshError> {
        let mut command = self.command(host, "sh -s");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed =
            |error: std::io::Error| SshError::Failed(format!("{} cannot be run: {error}", self.program.display()));
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let script = script.to_string();
        let feed = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(script.as_bytes())));
        let read = |pipe: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // A worker that floods is not believed.
                let _ = pipe.map(|pipe| pipe.take(1 << 20).read_to_end(&mut bytes));
                bytes
            })
        };
        let stdout = read(stdout.map(|pipe| Box::new(pipe) as _));
        // The connection that is kept holds stderr open: nobody waits for its end.
        let stderr = read(stderr.map(|pipe| Box::new(pipe) as _));
        let started = Instant::now();
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break Some(status),
                None if started.elapsed() >= limit => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let _ = feed.join();
        let Some(status) = status else {
            return Err(SshError::Unreachable(format!("no answer in {} s", limit.as_secs())));
        };
        let errors = || {
            let asked = Instant::now();
            while !stderr.is_finished() && asked.elapsed() < ERRORS_LIMIT {
                std::thread::sleep(Duration::from_millis(2));
            }
            let bytes = if stderr.is_finished() { stderr.join().unwrap_or_default() } else { Vec::new() };
            String::from_utf8_lossy(&bytes).trim().to_string()
        };
        match status.code() {
            Some(0) => Ok(stdout.join().unwrap_or_default()),
            // ssh's own errors.
            Some(255) | None => {
                let what = errors();
                let is_refused = what.contains("Connection refused");
                Err(if is_refused { SshError::Refused(what) } else { SshError::Unreachable(what) })
            }
            Some(code) => Err(SshError::Failed(format!("a command ended with code {code}: {}", errors()))),
        }
    }
}

/// A text as one word of a shell.
pub fn shell_quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_stay_words() {
        for text in ["a", "", "a b", "it's", "$(reboot)", "a;b", "`x`", "\"", "\\", "new\nline", "*"] {
            let script = format!("printf '%s' {}", shell_quoted(text));
            let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
