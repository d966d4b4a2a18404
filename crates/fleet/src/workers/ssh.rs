//! One ssh connection to a worker, kept open and shared by all questions.

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    /// It was asked and failed.
    Failed(String),
}

impl fmt::Display for SshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(what) => write!(f, "it cannot be reached: {what}"),
            Self::Failed(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for SshError {}

impl Ssh {
    /// The command that runs `remote` on a host. `alias` names the machine whatever its address: a new one may have the
    /// address of an old one, but not its key.
    pub fn command(&self, host: &str, alias: &str, remote: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "ServerAliveInterval=3"]);
        command.args(["-o", "ServerAliveCountMax=2", "-o", "StrictHostKeyChecking=accept-new", "-o", "LogLevel=ERROR"]);
        command.arg("-o").arg(format!("HostKeyAlias={alias}"));
        command.arg("-o").arg(format!("UserKnownHostsFile={}", self.folder.join("known_hosts").display()));
        command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60"]);
        command.arg("-o").arg(format!("ControlPath={}", self.folder.join("c-%C").display()));
        if let Some(user) = &self.user {
            command.arg("-l").arg(user);
        }
        if let Some(key) = &self.key {
            command.arg("-o").arg("IdentitiesOnly=yes").arg("-i").arg(key);
        }
        command.arg(host).arg("--").arg(remote);
        command
    }

    /// Runs a script on a host; its output. Scripts go through stdin, so that nobody sees what is in them.
    pub fn run(&self, host: &str, alias: &str, script: &str, limit: Duration) -> Result<Vec<u8>, SshError> {
        let mut command = self.command(host, alias, "sh -s");
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
            let bytes = if stderr.is_finished() { stderr.join().unwrap_or_default() } else { Vec::new() };
            String::from_utf8_lossy(&bytes).trim().to_string()
        };
        match status.code() {
            Some(0) => Ok(stdout.join().unwrap_or_default()),
            // ssh's own errors.
            Some(255) | None => Err(SshError::Unreachable(errors())),
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
