//! Where a process runs, and the command that starts its worker there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Where a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchPlace {
    /// This machine.
    Here,
    /// A host as ssh knows it, `HOST` or `USER@HOST`.
    Host(String),
}

impl LaunchPlace {
    /// A list of hosts as in `a,b,user@c`.
    pub fn hosts(list: &str) -> Result<Vec<LaunchPlace>, String> {
        let read = |host: &str| {
            let host = host.trim();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:[]%".contains(c);
            match host.is_empty() || host.starts_with('-') || !host.chars().all(is_plain) {
                true => Err(format!("`{host}` is not a host: give HOST or USER@HOST")),
                false => Ok(LaunchPlace::Host(host.to_string())),
            }
        };
        list.split(',').map(read).collect()
    }

    /// The host without its user; `None` on this machine.
    pub fn host(&self) -> Option<&str> {
        match self {
            LaunchPlace::Here => None,
            LaunchPlace::Host(host) => Some(host.rsplit_once('@').map_or(host.as_str(), |(_, host)| host)),
        }
    }
}

/// How workers are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Program and arguments of a worker on this machine, which calls [`work`](super::work).
    pub here: Vec<OsString>,
    /// The same on a host, for its shell.
    pub remote: String,
    /// The ssh client and its options.
    pub ssh: Vec<OsString>,
    /// Folder in which processes of this machine start.
    pub folder: Option<PathBuf>,
    /// The same on hosts; `None` for the one that ssh starts in.
    pub remote_folder: Option<PathBuf>,
}

impl Launcher {
    /// The command of a worker.
    pub(super) fn command(&self, place: &LaunchPlace) -> Command {
        let words: Vec<OsString> = match place {
            LaunchPlace::Here => self.here.clone(),
            LaunchPlace::Host(host) => {
                // A host that is gone is noticed, and nobody is asked for a password.
                let options = [
                    "-T",
                    "-oBatchMode=yes",
                    "-oConnectTimeout=20",
                    "-oServerAliveInterval=5",
                    "-oServerAliveCountMax=3",
                ];
                let options = options.into_iter().map(OsString::from);
                let words = self.ssh.iter().cloned().chain(options);
                words.chain(["--".into(), host.into(), self.remote.clone().into()]).collect()
            }
        };
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// The folder a process starts in.
    pub(super) fn folder(&self, place: &LaunchPlace) -> Option<PathBuf> {
        match place {
            LaunchPlace::Here => self.folder.clone(),
            LaunchPlace::Host(_) => self.remote_folder.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_never_options() {
        let hosts = LaunchPlace::hosts("a, me@b.c,10.0.0.1").unwrap();
        assert_eq!(hosts.iter().map(|place| place.host().unwrap()).collect::<Vec<_>>(), ["a", "b.c", "10.0.0.1"]);
        for wrong in ["", "a,,b", "-oProxyCommand=x", "a b", "a;b"] {
            assert!(LaunchPlace::hosts(wrong).is_err(), "{wrong}");
        }
    }
}
