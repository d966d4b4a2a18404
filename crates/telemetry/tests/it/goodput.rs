//! Goodput of random jobs against Google's own calculator (`crates/testkit/python/goodput_peer.py`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use telemetry::{Attempt, Goodput, GoodputFile, GoodputHistory, Spent};
use testkit::{Needed, repository, require};

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn seconds(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn count(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }
}

/// A job as it happens: what Google's recorder would log, and what our file has.
struct Job {
    now: f64,
    entries: Vec<Value>,
    spent: Spent,
    /// Seconds of waits for data within steps that were lost later.
    data_in_lost_seconds: f64,
    /// Seconds of first waits for data that are counted twice there: those from the third attempt on.
    data_twice_seconds: f64,
}

impl Job {
    fn log(&mut self, name: &str) {
        let mut entry = json!({ "job_name": "job" });
        entry[name] = self.now.into();
        self.entries.push(entry);
    }

    /// A wait of a kind of its own.
    fn custom(&mut self, kind: &str, seconds: f64) {
        for end in ["start", "end"] {
            self.log(&format!("custom_badput_event_{end}_time"));
            if let Some(entry) = self.entries.last_mut() {
                entry["custom_badput_event_type"] = kind.into();
            }
            self.now += if end == "start" { seconds } else { 0.0 };
        }
    }

    /// What checkpoint managers of Orbax log.
    fn checkpoint(&mut self, kind: &str, step: u64, seconds: f64) {
        self.now += seconds;
        self.entries.push(json!({
            "job_name": "job", "event_type": kind, "step": step, "directory": "gs://bucket/run",
            "checkpoint_manager_blocking_duration_secs": seconds, "checkpointer_blocking_duration_secs": seconds,
            "wait_for_prev_duration_secs": 0.0, "get_old_steps_duration_secs": 0.0,
            "checkpoint_manager_duration_secs": seconds, "checkpointer_duration_secs": seconds,
        }));
    }

    /// A part of the start, between two entries.
    fn part(&mut self, name: &str, seconds: f64) {
        self.log(&format!("{name}_start_time"));
        self.now += seconds;
        self.log(&format!("{name}_end_time"));
    }
}

/// Runs a job through some attempts, all but the last of which are interrupted within a step.
fn run(random: &mut Random, file: &mut GoodputFile) -> Job {
    let start = 1.7e9 + random.seconds(0.0, 1e6);
    let mut job = Job {
        now: start,
        entries: Vec::new(),
        spent: Spent::default(),
        data_in_lost_seconds: 0.0,
        data_twice_seconds: 0.0,
    };
    let save_every = random.count(5, 12);
    let base = random.seconds(1.1, 3.0);
    let mut first_step = 0;
    let attempts = random.count(1, 5);
    for attempt in 1..=attempts {
        let is_last = attempt == attempts;
        let started = job.now;
        job.spent = Spent::default();
        job.log("job_start_time");
        let (init, prepare) = (random.seconds(2.0, 20.0), random.seconds(1.0, 10.0));
        job.part("tpu_init", init);
        job.part("training_prep", prepare);
        job.spent.initialize_seconds = init + prepare;
        if first_step > 0 {
            let restore = random.seconds(1.0, 20.0);
            job.checkpoint("restore", first_step - 1, restore);
            job.spent.restore_seconds = restore;
        }
        let other = random.seconds(0.5, 5.0);
        job.now += other;
        job.spent.other_seconds = other;
        let data = random.seconds(0.5, 8.0);
        job.part("data_loading", data);
        job.spent.data_seconds = data;
        job.data_twice_seconds += if attempt > 2 { data } else { 0.0 };
        // Some whole intervals between checkpoints, then some steps that are lost; the last attempt loses none.
        let kept = save_every * random.count(1, 6);
        let lost = if is_last { 0 } else { random.count(0, save_every - 1) };
        let end = first_step + kept + lost;
        for step in first_step..=end {
            if is_last && step == end {
                break;
            }
            job.entries.push(json!({ "job_name": "job", "step_count": step, "step_start_time": job.now }));
            file.write(&Attempt::new(started, first_step, step, job.spent));
            if step == end {
                // Interrupted within this step, and started again some time later.
                job.now += random.seconds(0.0, base) + random.seconds(5.0, 300.0);
                break;
            }
            if step == first_step {
                let compile = random.seconds(40.0, 120.0);
                job.now += compile;
                job.spent.compile_seconds = compile;
            } else if random.count(0, 2) == 0 && step + 1 < end {
                let data = random.seconds(0.1, 1.5);
                job.custom("data_wait", data);
                job.spent.data_seconds += data;
                job.data_in_lost_seconds += if step >= first_step + kept { data } else { 0.0 };
            }
            let seconds = base * random.seconds(0.99, 1.01);
            job.now += seconds;
            job.spent.step_seconds += seconds;
            let done = step + 1;
            if done.is_multiple_of(save_every) {
                let save = random.seconds(0.02, 0.1);
                job.checkpoint("save", step, save);
                job.spent.save_seconds += save;
                if random.count(0, 1) == 0 && done < end {
                    let evaluate = random.seconds(0.5, 5.0);
                    job.custom("evaluation", evaluate);
                    job.spent.evaluate_seconds += evaluate;
                }
            }
        }
        if is_last {
            job.log("job_end_time");
            file.write(&Attempt::new(started, first_step, end, job.spent));
        }
        first_step += kept;
    }
    job
}

/// Ours and theirs of each part.
fn pairs(ours: &Goodput, theirs: &BTreeMap<String, f64>, job: &Job) -> Vec<(&'static str, f64, f64)> {
    let of = |name: &str| theirs.get(name).copied().unwrap_or_default();
    let badput = &ours.badput;
    let (in_lost, twice) = (job.data_in_lost_seconds, job.data_twice_seconds);
    vec![
        ("elapsed", ours.elapsed_seconds, of("ELAPSED")),
        ("productive", ours.productive_seconds, of("PRODUCTIVE")),
        // There, all that happened in lost steps is lost; here, what was no step is what it was.
        ("lost work", ours.lost_seconds + in_lost, of("WASTED_PROGRESS_FROM_DISRUPTION")),
        ("restart", ours.restart_seconds, of("INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION")),
        ("initialize", badput.initialize_seconds, of("TPU_INITIALIZATION") + of("TRAINING_PREP")),
        ("compile", badput.compile_seconds, of("PROGRAM_STARTUP")),
        ("data", badput.data_seconds + twice, of("DATA_LOADING_SYNC") + of("CUSTOM_DATA_WAIT") + in_lost),
        ("save", badput.save_seconds, of("UNPRODUCTIVE_CHECKPOINT_SAVE_TIME")),
        ("restore", badput.restore_seconds, of("UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME")),
        ("evaluation", badput.evaluate_seconds, of("CUSTOM_EVALUATION")),
        // What is left there.
        ("other", (badput.other_seconds - twice).max(0.0), of("OTHER")),
        ("disruptions", (ours.attempts - 1) as f64, of("DISRUPTIONS")),
    ]
}

#[test]
fn goodput_of_random_jobs_is_that_of_googles_calculator() {
    let test = "goodput_of_random_jobs_is_that_of_googles_calculator";
    let Some(python) = require(test, Needed::OperatePython) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(20);
    let jobs: Vec<(Job, Goodput)> = (0..200)
        .map(|n| {
            let path = folder.path().join(format!("{n}.jsonl"));
            let job = run(&mut random, &mut GoodputFile::open(&path));
            (job, GoodputHistory::read(&path).unwrap().goodput().unwrap())
        })
        .collect();
    let mut peer = Command::new(python);
    peer.arg(repository().join("crates/testkit/python/goodput_peer.py"));
    // It warns of the negative seconds that counting twice gives.
    let mut peer = peer.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let entries: Vec<&Vec<Value>> = jobs.iter().map(|(job, _)| &job.entries).collect();
    peer.stdin.take().unwrap().write_all(&serde_json::to_vec(&entries).unwrap()).unwrap();
    let output = peer.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Vec<BTreeMap<String, f64>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all.len(), jobs.len());
    assert!(jobs.iter().filter(|(_, goodput)| goodput.lost_seconds > 0.0).count() > 100);
    let mut wrong = Vec::new();
    for (n, ((job, ours), theirs)) in jobs.iter().zip(&all).enumerate() {
        for (part, ours, theirs) in pairs(ours, theirs, job) {
            // Times are in seconds since 1970, of which a float has a few tenths of a microsecond.
            if (ours - theirs).abs() > 0.01 * ours.abs().max(theirs.abs()) + 1e-4 {
                wrong.push(format!("job {n}: {part} {ours:.3} s here, {theirs:.3} s there"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
