//! `fuzz-programs`: runs a campaign of programs on the CPU device, and counts what became of them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, abort};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fuzzing::{Bench, Campaign, FuzzVerdict, Subject, Tally, read_seeds};

const USAGE: &str =
    "usage: fuzz-programs [--start SEED] [--count N] [--seconds S] [--programs DIR]... [--save DIR] [FILE]...

  --start SEED    the first seed (0)
  --count N       how many programs (no end)
  --seconds S     when to stop (never)
  --programs DIR  written programs (*.mlir, folders below too) that are mutated beside those made at random
  --save DIR      where programs that go wrong are written, and the seed that runs (.)
  FILE            programs to judge instead of a campaign

Exits with 1 when something is wrong. A program that takes over 30 seconds is over a limit. One that cannot be stopped then ends
the process after two minutes: `running` in the folder of --save has its seed.";

#[derive(Default)]
struct Arguments {
    start: u64,
    count: Option<u64>,
    seconds: Option<u64>,
    programs: Vec<PathBuf>,
    save: PathBuf,
    files: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { save: ".".into(), ..Arguments::default() };
    let mut rest = std::env::args().skip(1);
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        match &*word {
            "--start" => found.start = number(value()?)?,
            "--count" => found.count = Some(number(value()?)?),
            "--seconds" => found.seconds = Some(number(value()?)?),
            "--programs" => found.programs.push(value()?.into()),
            "--save" => found.save = value()?.into(),
            "--help" | "-h" => return Err(String::new()),
            _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
            _ => found.files.push(word.into()),
        }
    }
    Ok(found)
}

fn texts(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            texts(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "mlir") {
            into.push(path);
        }
    }
}

/// Stops a program that takes too long, and ends the process if that does not help.
fn watch(running: &'static AtomicU64, stop: Arc<AtomicBool>) {
    thread::spawn(move || {
        let mut last = (u64::MAX, Instant::now());
        loop {
            thread::sleep(Duration::from_secs(1));
            let seed = running.load(Ordering::Relaxed);
            if seed != last.0 {
                last = (seed, Instant::now());
            } else if last.1.elapsed() > Duration::from_secs(120) {
                eprintln!("seed {seed} takes too long");
                abort();
            } else if last.1.elapsed() > Duration::from_secs(30) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let bench = Bench::new();
    let mut tally = Tally::default();
    if !arguments.files.is_empty() {
        for path in &arguments.files {
            let verdict = bench.judge(&Subject::of(fs::read_to_string(path).unwrap_or_default()));
            println!("{}: {verdict:?}", path.display());
            tally.add(&verdict);
        }
        println!("{tally}");
        return ExitCode::from(u8::from(tally.wrong > 0));
    }
    let mut paths = Vec::new();
    arguments.programs.iter().for_each(|folder| texts(folder, &mut paths));
    paths.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).map_or(Vec::new(), |text| read_seeds(&text));
    let campaign = Campaign { written: paths.iter().flat_map(read).collect() };
    println!("{} written programs from {} files", campaign.written.len(), paths.len());
    // What panics is reported with the program; the hook would only repeat it.
    std::panic::set_hook(Box::new(|_| {}));
    static RUNNING: AtomicU64 = AtomicU64::new(u64::MAX);
    watch(&RUNNING, bench.stop().clone());
    let running = fs::File::create(arguments.save.join("running")).ok();
    let started = Instant::now();
    let mut told = Instant::now();
    let end = arguments.count.map_or(u64::MAX, |count| arguments.start.saturating_add(count));
    for seed in arguments.start..end {
        if arguments.seconds.is_some_and(|seconds| started.elapsed().as_secs() >= seconds) {
            break;
        }
        RUNNING.store(seed, Ordering::Relaxed);
        // In place: a file that is made anew waits for the disk.
        if let Some(file) = &running {
            let _ = file.write_at(format!("{seed:20}\n").as_bytes(), 0);
        }
        let subject = campaign.subject(seed);
        let verdict = bench.judge(&subject);
        tally.add(&verdict);
        if let FuzzVerdict::Wrong(what) = &verdict {
            let what: String = what.lines().map(|line| format!("// {line}\n")).collect();
            let path = arguments.save.join(format!("wrong-{seed}.mlir"));
            println!("seed {seed}: {}", what.lines().next().unwrap_or(""));
            let _ = fs::write(path, format!("// seed {seed}\n{what}{}", subject.text));
        }
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            println!("{:.0} s, seed {seed}: {tally}", started.elapsed().as_secs_f64());
        }
    }
    RUNNING.store(u64::MAX, Ordering::Relaxed);
    let seconds = started.elapsed().as_secs_f64();
    println!("{tally}");
    println!("{seconds:.0} s, {:.0} programs/s", tally.programs as f64 / seconds);
    ExitCode::from(u8::from(tally.wrong > 0))
}
