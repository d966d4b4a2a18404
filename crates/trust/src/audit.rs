//! The audit log: who started, stopped, saved, restored, imported and deleted what, when, and how it ended; one JSON object a line.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::owner::create_private_folder;

/// Version of a line's fields.
pub const AUDIT_VERSION: u32 = 1;

/// The file's name in the folder of a run, or of the user's state.
pub const AUDIT_FILE: &str = "audit.jsonl";

/// Names another file for every event, or `off`.
pub const AUDIT_VARIABLE: &str = "TPUBRIDGE_AUDIT_LOG";

/// Longest text of a field; what is longer is cut.
const MAX_TEXT_BYTES: usize = 1024;
/// Longest line: one write, which the system appends whole.
const MAX_LINE_BYTES: usize = 8192;

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum AuditEvent {
    /// A training began, or went on.
    #[serde(rename = "training.start")]
    TrainingStart,
    /// A training ended: finished, stopped, preempted, diverged or failed.
    #[serde(rename = "training.stop")]
    TrainingStop,
    /// A supervisor started a training again.
    #[serde(rename = "training.restart")]
    TrainingRestart,
    /// A checkpoint was written.
    #[serde(rename = "checkpoint.save")]
    CheckpointSave,
    /// A training went on from a checkpoint, or one was read to be used.
    #[serde(rename = "checkpoint.restore")]
    CheckpointRestore,
    /// Checkpoints were deleted.
    #[serde(rename = "checkpoint.delete")]
    CheckpointDelete,
    /// An alert began to fire.
    #[serde(rename = "alert.firing")]
    AlertFiring,
    /// An alert ended.
    #[serde(rename = "alert.resolved")]
    AlertResolved,
    /// A bundle was written.
    #[serde(rename = "cache.export")]
    CacheExport,
    /// A bundle was added to the compile cache.
    #[serde(rename = "cache.import")]
    CacheImport,
    /// The compile cache was emptied.
    #[serde(rename = "cache.clear")]
    CacheClear,
    /// A plugin was installed.
    #[serde(rename = "plugin.install")]
    PluginInstall,
    /// A key was made.
    #[serde(rename = "key.new")]
    KeyNew,
    /// A key is trusted from now on.
    #[serde(rename = "key.trust")]
    KeyTrust,
    /// A key is no longer trusted.
    #[serde(rename = "key.distrust")]
    KeyDistrust,
    /// A file was signed.
    #[serde(rename = "key.sign")]
    KeySign,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// As it should.
    Done,
    /// With this error.
    Failed(String),
}

impl AuditOutcome {
    /// Of a result.
    pub fn of<T, E: std::fmt::Display>(result: &Result<T, E>) -> AuditOutcome {
        match result {
            Ok(_) => AuditOutcome::Done,
            Err(error) => AuditOutcome::Failed(error.to_string()),
        }
    }
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    version: u32,
    time: String,
    event: AuditEvent,
    target: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    who: &'a Who,
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
}

/// Who writes.
#[derive(Debug, Serialize)]
struct Who {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    uid: u32,
    host: String,
    pid: u32,
    command: String,
}

impl Who {
    fn here() -> Who {
        let uid = rustix::process::getuid().as_raw();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
        let command = cut(&without_secrets(&words).join(" "));
        Who { user: user_of(&passwd, uid), uid, host, pid: std::process::id(), command }
    }
}

/// Appends lines to a file. Clones write to the same one. That a line cannot be written is for the caller to warn about, once:
/// it stops nothing.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: Option<PathBuf>,
    /// Whether file and folder are made for this user alone, whatever the umask.
    is_private: bool,
    who: Arc<Who>,
}

impl AuditLog {
    /// The log of a folder, with the permissions of the umask, unless the environment names another file or `off`. The folder is made when something is written.
    pub fn in_folder(folder: &Path, env: impl Fn(&str) -> Option<String>) -> AuditLog {
        let path = match env(AUDIT_VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) if value == "off" => None,
            Some(value) => Some(value.into()),
            None => Some(folder.join(AUDIT_FILE)),
        };
        AuditLog { path, is_private: false, who: Arc::new(Who::here()) }
    }

    /// The log of this user: `$XDG_STATE_HOME/tpubridge/audit.jsonl`, else `~/.local/state/tpubridge/audit.jsonl`. Without a home
    /// nothing is written. It is for this user alone.
    pub fn of_user(env: impl Fn(&str) -> Option<String>) -> AuditLog {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local").join("state")));
        match state {
            Some(state) => AuditLog { is_private: true, ..AuditLog::in_folder(&state.join("tpubridge"), env) },
            None => AuditLog {
                path: set(AUDIT_VARIABLE).filter(|path| path != Path::new("off")),
                is_private: true,
                who: Arc::new(Who::here()),
            },
        }
    }

    /// The file; `None` where nothing is written.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Appends what happened to what, with details. The error says what to warn about.
    pub fn write(
        &self,
        event: AuditEvent,
        target: &str,
        outcome: &AuditOutcome,
        details: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let details = details.into_iter().filter(|(_, value)| !value.is_null());
        let details = details.map(|(name, value)| (name.to_string(), value)).collect();
        let text = self.line(event, target, outcome, details, SystemTime::now()).map_err(io::Error::other)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.is_private { create_private_folder(folder)? } else { std::fs::create_dir_all(folder)? }
        }
        // Opened for every line, so that the file can be moved away at any time.
        let mode = if self.is_private { 0o600 } else { 0o666 };
        let mut file = File::options().append(true).create(true).mode(mode).open(path)?;
        let written = file.write(text.as_bytes())?;
        if written == text.len() { Ok(()) } else { Err(io::Error::other("a part of the line was written")) }
    }

    fn line(
        &self,
        event: AuditEvent,
        target: &str,
        outcome: &AuditOutcome,
        details: Map<String, Value>,
        now: SystemTime,
    ) -> serde_json::Result<String> {
        let (outcome, error) = match outcome {
            AuditOutcome::Done => ("done", None),
            AuditOutcome::Failed(error) => ("failed", Some(cut(error))),
        };
        let time = utc(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        let target = cut(&without_credentials(target));
        let mut line = Line { version: AUDIT_VERSION, time, event, target, outcome, error, who: &self.who, details };
        let mut text = serde_json::to_string(&line)?;
        if text.len() >= MAX_LINE_BYTES {
            line.details = Map::from_iter([("cut".to_string(), Value::Bool(true))]);
            text = serde_json::to_string(&line)?;
        }
        text.push('\n');
        Ok(text)
    }
}

/// The first part of a text that is too long. Control characters, which take six bytes in JSON, are blanks.
fn cut(text: &str) -> String {
    let plain = |part: &str| part.replace(|c: char| c.is_control(), " ");
    if text.len() <= MAX_TEXT_BYTES {
        return plain(text);
    }
    let end = (0..=MAX_TEXT_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", plain(&text[..end]))
}

/// A command line with secrets hidden: values of options that are named like one, and credentials in addresses.
fn without_secrets(words: &[String]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut hide_next = false;
    for word in words {
        if std::mem::take(&mut hide_next) && !word.starts_with("--") {
            shown.push(HIDDEN.to_string());
            continue;
        }
        match word.split_once('=') {
            Some((name, _)) if is_secret(name) => shown.push(format!("{name}={HIDDEN}")),
            Some(_) => shown.push(without_credentials(word)),
            None => {
                hide_next = word.starts_with('-') && is_secret(word);
                shown.push(without_credentials(word));
            }
        }
    }
    shown
}

/// Whether a name is one of a secret, by its words.
fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["secret", "token", "password", "passwd", "passphrase", "credential", "credentials", "key", "apikey"];
    name.to_ascii_lowercase().split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// An address without its user, password and query, which may hold a signature.
fn without_credentials(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_string() };
    let rest = rest.split_once('?').map_or_else(|| rest.to_string(), |(rest, _)| format!("{rest}?{HIDDEN}"));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or_else(|| host.to_string(), |(_, host)| format!("{HIDDEN}@{host}"));
    format!("{scheme}://{host}{path}")
}

/// The name of a user in the system's list.
fn user_of(passwd: &str, uid: u32) -> Option<String> {
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    });
    name.map(cut)
}

/// A time since the epoch as `2026-11-16T20:04:29.123Z`.
pub fn utc(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length || year >= 9999 {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let millis = since_epoch.subsec_millis();
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_written() {
        let check = |words: &[&str], expected: &str| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(without_secrets(&words).join(" "), expected);
        };
        check(&["tpu", "train", "a.toml", "--with", "train.steps=3"], "tpu train a.toml --with train.steps=3");
        check(&["tpu", "--api-key", "abc", "x"], "tpu --api-key *** x");
        check(
            &["tpu", "--access_key=abc", "AWS_SECRET_ACCESS_KEY=abc"],
            "tpu --access_key=*** AWS_SECRET_ACCESS_KEY=***",
        );
        check(&["tpu", "--token", "--json", "x"], "tpu --token --json x");
        check(&["tpu", "monkey=1", "--keyboard", "x"], "tpu monkey=1 --keyboard x");
        check(&["https://me:pw@host/a/b?X-Amz-Signature=1"], "https://***@host/a/b?***");
        check(&["--with", "train.folder=s3://id:pw@bucket/a"], "--with train.folder=s3://***@bucket/a");
        check(&["s3://bucket/a@b"], "s3://bucket/a@b");
    }

    #[test]
    fn times_are_utc() {
        let at = |seconds: u64| utc(Duration::from_millis(seconds * 1000 + 7));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_709_251_200), "2024-03-01T00:00:00.007Z");
        assert_eq!(at(4_102_444_799), "2099-12-31T23:59:59.007Z");
    }

    #[test]
    fn users_are_found_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(user_of(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(user_of(passwd, 7), None);
    }

    #[test]
    fn lines_are_whole_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::in_folder(&folder.path().join("run"), |_| None);
        let long = "\\é\u{1}".repeat(100_000);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (log, long) = (log.clone(), &long);
                scope.spawn(move || {
                    for step in 0..50 {
                        let outcome = AuditOutcome::Failed(long.clone());
                        let details =
                            [("step", Value::from(step)), ("thread", thread.into()), ("why", long.as_str().into())];
                        log.write(AuditEvent::CheckpointSave, long, &outcome, details).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(log.path().unwrap()).unwrap();
        assert_eq!(text.lines().count(), 400);
        for line in text.lines() {
            assert!(line.len() < MAX_LINE_BYTES, "{}", line.len());
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((line["event"].as_str(), line["outcome"].as_str()), (Some("checkpoint.save"), Some("failed")));
            assert_eq!(line["pid"], std::process::id());
        }
    }

    #[test]
    fn a_log_can_be_elsewhere_or_off_and_a_failure_is_only_told() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("elsewhere.jsonl");
        let env = |value: &str| {
            let value = value.to_string();
            move |name: &str| (name == AUDIT_VARIABLE).then(|| value.clone())
        };
        let log = AuditLog::in_folder(folder.path(), env(named.to_str().unwrap()));
        log.write(AuditEvent::CacheClear, "cache", &AuditOutcome::Done, [("entries", Value::Null)]).unwrap();
        let line = std::fs::read_to_string(&named).unwrap();
        assert!(line.ends_with('\n') && !line.contains("entries"), "{line}");
        let off = AuditLog::of_user(env("off"));
        off.write(AuditEvent::CacheClear, "cache", &AuditOutcome::Done, []).unwrap();
        assert_eq!(off.path(), None);
        let full = AuditLog::in_folder(folder.path(), env("/dev/full"));
        assert!(full.write(AuditEvent::CacheClear, "cache", &AuditOutcome::Done, []).is_err());
    }
}
