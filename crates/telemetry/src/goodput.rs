//! Goodput: the share of wall time that went into steps that were kept, over all attempts of a run.
//!
//! Each process adds lines to a file in the run's folder: when an attempt began, after which step, and what its seconds went
//! into up to a step. Sums, not differences, so that a line that is lost loses nothing. Steps that were done again after a
//! restart are lost work; the time between two attempts is restart. Names and meaning follow `ml-goodput-measurement`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Version of the lines, in each of them.
pub const GOODPUT_VERSION: u32 = 1;

/// Longest line that is read.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Lines are at least this far apart, but for those of checkpoints and ends.
const EVERY: Duration = Duration::from_secs(10);

/// What the seconds of an attempt went into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Training steps.
    pub step_seconds: f64,
    /// The first state, devices, and whatever is before it.
    pub initialize_seconds: f64,
    /// Compilation.
    pub compile_seconds: f64,
    /// Waiting for batches.
    pub data_seconds: f64,
    /// Saving checkpoints, as far as steps waited for it.
    pub save_seconds: f64,
    /// Restoring a checkpoint.
    pub restore_seconds: f64,
    /// Evaluation.
    pub evaluate_seconds: f64,
    /// Everything else.
    pub other_seconds: f64,
}

impl Spent {
    /// Seconds in all.
    pub fn seconds(&self) -> f64 {
        let Spent {
            step_seconds,
            initialize_seconds,
            compile_seconds,
            data_seconds,
            save_seconds,
            restore_seconds,
            evaluate_seconds,
            other_seconds,
        } = self;
        step_seconds
            + initialize_seconds
            + compile_seconds
            + data_seconds
            + save_seconds
            + restore_seconds
            + evaluate_seconds
            + other_seconds
    }
}

/// What a process did from its start to a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    version: u32,
    /// Seconds since 1970 when it began.
    pub started_seconds: f64,
    /// Seconds since 1970 of this line.
    pub time_seconds: f64,
    /// The step it began after.
    pub first_step: u64,
    /// The step it has come to.
    pub step: u64,
    /// What its seconds went into.
    #[serde(flatten)]
    pub spent: Spent,
}

impl Attempt {
    /// An attempt as far as it has come.
    pub fn new(started_seconds: f64, first_step: u64, step: u64, spent: Spent) -> Attempt {
        let version = GOODPUT_VERSION;
        Attempt { version, started_seconds, time_seconds: started_seconds + spent.seconds(), first_step, step, spent }
    }
}

/// The file of one process of a run.
#[derive(Debug)]
pub struct GoodputFile {
    path: PathBuf,
    file: Option<File>,
    last: Option<Instant>,
}

impl GoodputFile {
    /// Opens the file to add to it. One that cannot be opened is a warning, and nothing is kept.
    pub fn open(path: &Path) -> GoodputFile {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = folder.map_or(Ok(()), std::fs::create_dir_all);
        let opened = made.and_then(|()| OpenOptions::new().append(true).create(true).open(path));
        let mut goodput = GoodputFile { path: path.to_path_buf(), file: None, last: None };
        match opened {
            Ok(file) => goodput.file = Some(file),
            Err(error) => goodput.lose(&error),
        }
        goodput
    }

    /// Adds a line if the last one is old enough.
    pub fn note(&mut self, attempt: &Attempt) {
        if self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.write(attempt);
        }
    }

    /// Adds a line.
    pub fn write(&mut self, attempt: &Attempt) {
        self.last = Some(Instant::now());
        let Some(file) = &mut self.file else { return };
        // A line that a crash cut off ends here; the reader passes over it.
        let line = serde_json::to_string(attempt).unwrap_or_default();
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &io::Error) {
        self.file = None;
        tracing::warn!(path = %self.path.display(), %error, "goodput cannot be kept; the training goes on");
    }
}

/// Where the wall time of a run went, over all its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Goodput {
    /// From the start of the first attempt to the last line.
    pub elapsed_seconds: f64,
    /// Steps that were kept.
    pub productive_seconds: f64,
    /// Steps that were done again after a restart.
    pub lost_seconds: f64,
    /// Between attempts.
    pub restart_seconds: f64,
    /// What else the attempts spent time on.
    #[serde(flatten)]
    pub badput: Spent,
    /// Attempts.
    pub attempts: u64,
}

impl Goodput {
    /// The share of wall time that was productive, from 0 to 1.
    pub fn ratio(&self) -> f64 {
        if self.elapsed_seconds > 0.0 { self.productive_seconds / self.elapsed_seconds } else { 0.0 }
    }

    /// The parts of the wall time with their names, productive first.
    pub fn parts(&self) -> [(&'static str, f64); 10] {
        let badput = &self.badput;
        [
            ("productive", self.productive_seconds),
            ("lost_work", self.lost_seconds),
            ("restart", self.restart_seconds),
            ("initialize", badput.initialize_seconds),
            ("compile", badput.compile_seconds),
            ("data", badput.data_seconds),
            ("checkpoint_save", badput.save_seconds),
            ("checkpoint_restore", badput.restore_seconds),
            ("evaluation", badput.evaluate_seconds),
            ("other", badput.other_seconds),
        ]
    }
}

/// One attempt, from its lines.
#[derive(Debug)]
struct Seen {
    last: Attempt,
    /// Seconds of steps up to a step, rising.
    steps: Vec<(u64, f64)>,
}

impl Seen {
    fn new(first: Attempt) -> Seen {
        let steps = vec![(first.first_step, 0.0), (first.step, first.spent.step_seconds)];
        Seen { last: first, steps }
    }

    /// Seconds of the steps up to one; between two lines steps take equally long.
    fn step_seconds_up_to(&self, step: u64) -> f64 {
        let after = self.steps.partition_point(|(known, _)| *known <= step);
        match (after.checked_sub(1).and_then(|n| self.steps.get(n)), self.steps.get(after)) {
            (Some((before, seconds)), Some((next, more))) => {
                seconds + (more - seconds) * (step - before) as f64 / (next - before) as f64
            }
            (Some((_, seconds)), None) => *seconds,
            (None, _) => 0.0,
        }
    }
}

/// The attempts of a run, as one of its processes kept them.
#[derive(Debug, Default)]
pub struct GoodputHistory {
    attempts: Vec<Seen>,
}

impl GoodputHistory {
    /// Reads the file of a process. Lines that cannot be read are left out.
    pub fn read(path: &Path) -> io::Result<GoodputHistory> {
        let mut from = BufReader::new(File::open(path)?);
        let mut history = GoodputHistory::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                return Ok(history);
            }
            let Ok(attempt) = serde_json::from_slice::<Attempt>(&line) else { continue };
            let is_sound = attempt.version == GOODPUT_VERSION
                && attempt.step >= attempt.first_step
                && attempt.spent.seconds().is_finite()
                && attempt.time_seconds >= attempt.started_seconds;
            if is_sound {
                history.push(attempt);
            }
        }
    }

    /// Attempts so far.
    pub fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// The step that the last attempt has come to.
    pub fn last_step(&self) -> Option<u64> {
        self.attempts.last().map(|seen| seen.last.step)
    }

    /// Seconds since 1970 of the last line.
    pub fn last_seconds(&self) -> Option<f64> {
        self.attempts.last().map(|seen| seen.last.time_seconds)
    }

    /// Where the time went; `None` without an attempt.
    pub fn goodput(&self) -> Option<Goodput> {
        sum(&self.attempts.iter().collect::<Vec<_>>())
    }

    /// Where the time went, with one more attempt as far as it has come.
    pub fn with(&self, attempt: &Attempt) -> Goodput {
        let current = Seen::new(attempt.clone());
        let all: Vec<&Seen> = self.attempts.iter().chain([&current]).collect();
        sum(&all).unwrap_or_default()
    }

    fn push(&mut self, attempt: Attempt) {
        match self.attempts.last_mut() {
            Some(seen) if seen.last.started_seconds == attempt.started_seconds => {
                if seen.last.step < attempt.step {
                    seen.steps.push((attempt.step, attempt.spent.step_seconds));
                }
                seen.last = attempt;
            }
            _ => self.attempts.push(Seen::new(attempt)),
        }
    }
}

fn sum(attempts: &[&Seen]) -> Option<Goodput> {
    let (first, last) = (attempts.first()?, attempts.last()?);
    let mut total = Goodput { attempts: attempts.len() as u64, ..Goodput::default() };
    total.elapsed_seconds = last.last.time_seconds - first.last.started_seconds;
    for (n, seen) in attempts.iter().enumerate() {
        let later = attempts.get(n + 1..).unwrap_or_default();
        // The furthest that a later attempt went back to is what is kept of this one.
        let kept_up_to = later.iter().map(|next| next.last.first_step).min().unwrap_or(u64::MAX);
        let kept = seen.step_seconds_up_to(kept_up_to);
        total.productive_seconds += kept;
        total.lost_seconds += seen.last.spent.step_seconds - kept;
        if let Some(next) = later.first() {
            total.restart_seconds += (next.last.started_seconds - seen.last.time_seconds).max(0.0);
        }
        let (badput, spent) = (&mut total.badput, &seen.last.spent);
        badput.initialize_seconds += spent.initialize_seconds;
        badput.compile_seconds += spent.compile_seconds;
        badput.data_seconds += spent.data_seconds;
        badput.save_seconds += spent.save_seconds;
        badput.restore_seconds += spent.restore_seconds;
        badput.evaluate_seconds += spent.evaluate_seconds;
        badput.other_seconds += spent.other_seconds;
    }
    Some(total)
}

/// Seconds since 1970.
pub fn now_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(step_seconds: f64, compile_seconds: f64, other_seconds: f64) -> Spent {
        Spent { step_seconds, compile_seconds, other_seconds, ..Spent::default() }
    }

    #[test]
    fn steps_done_again_are_lost_and_time_between_attempts_is_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("goodput/0.jsonl");
        let mut file = GoodputFile::open(&path);
        // Ten steps of 5 s, a line in the middle; then a loss 10 s later, and the next attempt goes on after step 6.
        file.write(&Attempt::new(1000.0, 0, 4, spent(20.0, 30.0, 5.0)));
        file.write(&Attempt::new(1000.0, 0, 10, spent(50.0, 30.0, 10.0)));
        drop(file);
        let mut file = GoodputFile::open(&path);
        let current = Attempt::new(1100.0, 6, 20, spent(70.0, 5.0, 5.0));
        let with_current = GoodputHistory::read(&path).unwrap().with(&current);
        file.write(&current);
        let goodput = GoodputHistory::read(&path).unwrap().goodput().unwrap();
        assert_eq!(goodput.attempts, 2);
        // While an attempt is under way, the same is known without its lines.
        assert_eq!(goodput, with_current);
        assert_eq!(goodput.elapsed_seconds, 180.0);
        assert_eq!(goodput.productive_seconds, 100.0);
        assert_eq!(goodput.lost_seconds, 20.0);
        assert_eq!(goodput.restart_seconds, 10.0);
        assert_eq!(goodput.badput.compile_seconds, 35.0);
        assert_eq!(goodput.parts().iter().map(|(_, seconds)| seconds).sum::<f64>(), goodput.elapsed_seconds);
    }

    #[test]
    fn lines_that_cannot_be_read_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.jsonl");
        let good = serde_json::to_string(&Attempt::new(0.0, 0, 1, spent(1.0, 0.0, 0.0))).unwrap();
        let newer = good.replace("\"version\":1", "\"version\":9");
        let back = good.replace("\"first_step\":0", "\"first_step\":5");
        let long = "x".repeat(3 * MAX_LINE_BYTES as usize);
        std::fs::write(&path, format!("{{\"version\":1\n\u{fffd}\n{newer}\n{back}\n{long}\n{good}\n{}", &good[..20]))
            .unwrap();
        let goodput = GoodputHistory::read(&path).unwrap().goodput().unwrap();
        assert_eq!((goodput.attempts, goodput.productive_seconds), (1, 1.0));
        std::fs::write(&path, "").unwrap();
        assert_eq!(GoodputHistory::read(&path).unwrap().goodput(), None);
    }
}
