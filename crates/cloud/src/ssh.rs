//! The system's ssh and scp to the workers of a slice, strict about who answers.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::Listed;

/// Seconds in which a worker answers.
const CONNECT_SECONDS: u32 = 15;

/// A worker and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerReach {
    /// Its slice, from 0.
    pub slice: u32,
    /// Its number in the slice, from 0.
    pub number: u32,
    /// The id of its node.
    pub node: String,
    /// Where it is.
    pub address: IpAddr,
    /// The name under which its keys are known. A slice that was made anew has others.
    pub alias: String,
}

impl WorkerReach {
    /// What stands before its lines: its number, after that of its slice where there are several.
    pub fn mark(&self, slices: u32) -> String {
        if slices > 1 { format!("{}/{}", self.slice, self.number) } else { self.number.to_string() }
    }
}

/// The workers of a slice, by their addresses on the internet where they have one and `internal` is not asked for.
pub fn reaches(listed: &Listed, project: &str, internal: bool) -> Vec<WorkerReach> {
    let made = listed.slice.created.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let made = made.map_or(0, |since| since.as_secs());
    let found = listed.slice.workers.iter().filter_map(|worker| {
        let node = listed.nodes.get(worker.slice as usize)?.clone();
        let zone = &listed.slice.id.zone;
        let alias = format!("{node}-{}.{made}.{zone}.{}", worker.number, project.replace(':', "-"));
        let address = if internal { worker.internal } else { worker.external.unwrap_or(worker.internal) };
        Some(WorkerReach { slice: worker.slice, number: worker.number, node, address, alias })
    });
    found.collect()
}

/// How strangers are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKeys {
    /// The API said which keys are right.
    Known,
    /// The API does not know them: the first is believed, and kept.
    First,
}

/// How workers are spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// The user; ssh's own choice if none.
    pub user: Option<String>,
    /// The private key; those that ssh finds if none.
    pub key: Option<PathBuf>,
    /// Further options, as `ssh -o` takes them; the first of a kind counts, so these come before ours.
    pub options: Vec<String>,
    /// The file of keys of workers.
    pub known_hosts: PathBuf,
    /// How strangers are treated.
    pub host_keys: HostKeys,
}

impl Shell {
    fn options(&self, reach: &WorkerReach, is_interactive: bool) -> Vec<OsString> {
        let strict = match self.host_keys {
            HostKeys::Known => "yes",
            HostKeys::First => "accept-new",
        };
        let mut all: Vec<String> = self.options.clone();
        all.extend([
            format!("StrictHostKeyChecking={strict}"),
            format!("HostKeyAlias={}", reach.alias),
            "GlobalKnownHostsFile=/dev/null".into(),
            "UpdateHostKeys=no".into(),
            "CheckHostIP=no".into(),
            "ForwardAgent=no".into(),
            "PasswordAuthentication=no".into(),
            "KbdInteractiveAuthentication=no".into(),
            format!("ConnectTimeout={CONNECT_SECONDS}"),
            "ServerAliveInterval=15".into(),
            "ServerAliveCountMax=4".into(),
            "LogLevel=ERROR".into(),
        ]);
        if !is_interactive {
            all.push("BatchMode=yes".into());
        }
        let mut words: Vec<OsString> = all.into_iter().flat_map(|one| ["-o".into(), one.into()]).collect();
        let mut known = OsString::from("UserKnownHostsFile=");
        known.push(quoted_path(&self.known_hosts));
        words.extend(["-o".into(), known]);
        if let Some(key) = &self.key {
            words.extend(["-o".into(), "IdentitiesOnly=yes".into(), "-i".into(), key.clone().into()]);
        }
        words
    }

    fn destination(&self, address: IpAddr, is_copy: bool) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        match address {
            IpAddr::V6(address) if is_copy => format!("{user}[{address}]"),
            address => format!("{user}{address}"),
        }
    }

    /// The words of an ssh command after `ssh`: with a command on the worker, or none for a shell.
    pub fn ssh(&self, reach: &WorkerReach, command: &[String]) -> Vec<OsString> {
        let mut words = self.options(reach, command.is_empty());
        words.push(if command.is_empty() { "-t" } else { "-T" }.into());
        words.extend([self.destination(reach.address, false).into(), "--".into()]);
        match command {
            [] => {
                words.pop();
            }
            // A line for the worker's shell, as ssh has it.
            [line] => words.push(line.into()),
            many => words.push(many.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ").into()),
        }
        words
    }

    /// The words of an scp command after `scp`: a file or folder of this machine to a worker.
    pub fn send(&self, reach: &WorkerReach, from: &Path, to: &str) -> Vec<OsString> {
        let mut words = self.options(reach, false);
        let to = format!("{}:{to}", self.destination(reach.address, true));
        words.extend(["-r".into(), "-p".into(), "--".into(), plain_path(from), to.into()]);
        words
    }

    /// The words of an scp command after `scp`: a file or folder of a worker to this machine.
    pub fn fetch(&self, reach: &WorkerReach, from: &str, to: &Path) -> Vec<OsString> {
        let mut words = self.options(reach, false);
        let from = format!("{}:{from}", self.destination(reach.address, true));
        words.extend(["-r".into(), "-p".into(), "--".into(), from.into(), plain_path(to)]);
        words
    }
}

/// A path that scp does not take for one of another host.
fn plain_path(path: &Path) -> OsString {
    if path.is_absolute() || path.starts_with(".") || path.starts_with("..") {
        return path.into();
    }
    Path::new(".").join(path).into()
}

/// A path in an option of ssh, where blanks separate several.
fn quoted_path(path: &Path) -> OsString {
    let mut text = OsString::from("\"");
    text.push(path);
    text.push("\"");
    text
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The file of keys: a line for each key of each worker.
pub fn known_hosts(keys: &[(String, Vec<String>)]) -> String {
    keys.iter().flat_map(|(alias, keys)| keys.iter().map(move |key| format!("{alias} {key}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Shell {
        let known_hosts = "/home/a b/known".into();
        let user = Some("me".into());
        Shell { user, key: None, options: vec!["Port=2222".into()], known_hosts, host_keys: HostKeys::Known }
    }

    fn reach(address: &str) -> WorkerReach {
        let address = address.parse().unwrap();
        WorkerReach { slice: 0, number: 1, node: "a".into(), address, alias: "a-1.0.z.p".into() }
    }

    fn text(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nobody_is_believed_by_his_address() {
        let words = text(&shell().ssh(&reach("10.0.0.2"), &["hostname".into()]));
        assert!(words.starts_with("-o Port=2222 -o StrictHostKeyChecking=yes -o HostKeyAlias=a-1.0.z.p "), "{words}");
        for option in ["UserKnownHostsFile=\"/home/a b/known\"", "ForwardAgent=no", "BatchMode=yes", "CheckHostIP=no"] {
            assert!(words.contains(&format!("-o {option}")), "{words}");
        }
        assert!(words.ends_with("-T me@10.0.0.2 -- hostname"), "{words}");
        let first = Shell { host_keys: HostKeys::First, key: Some("k".into()), ..shell() };
        let words = text(&first.ssh(&reach("10.0.0.2"), &[]));
        assert!(words.contains("StrictHostKeyChecking=accept-new") && words.contains("-o IdentitiesOnly=yes -i k"));
        assert!(words.ends_with("-t me@10.0.0.2") && !words.contains("BatchMode"), "{words}");
    }

    #[test]
    fn words_arrive_as_they_were_written() {
        let command = ["echo", "a b", "it's", "$HOME", ""].map(String::from);
        let words = shell().ssh(&reach("::1"), &command);
        assert_eq!(words.last().unwrap(), r"echo 'a b' 'it'\''s' '$HOME' ''");
        let words = text(&shell().send(&reach("::1"), Path::new("host:file"), "/tmp/x"));
        assert!(words.ends_with("-r -p -- ./host:file me@[::1]:/tmp/x"), "{words}");
        let words = text(&shell().fetch(&reach("10.0.0.2"), "log", Path::new("/out")));
        assert!(words.ends_with("-- me@10.0.0.2:log /out"), "{words}");
    }
}
