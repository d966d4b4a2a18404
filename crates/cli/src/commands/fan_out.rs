//! One command for each of many workers at the same time: their lines told apart, one exit code for all.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use cloud::ssh::WorkerReach;
use serde_json::json;

use super::slices::VERSION;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::stop;

/// A line that goes on for longer is shown in pieces.
const LINE_LIMIT_BYTES: u64 = 64 << 10;
/// What ssh ends with when it was not let in, or lost the connection.
const SSH_FAILED: i32 = 255;

/// What is run for one worker.
pub(crate) struct Task {
    /// What stands before its lines.
    pub(crate) mark: String,
    pub(crate) worker: WorkerReach,
    pub(crate) program: &'static str,
    pub(crate) words: Vec<OsString>,
}

/// A command as a person would type it.
pub(crate) fn line_of(program: &str, words: &[OsString]) -> String {
    let mut line = program.to_owned();
    for word in words {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => line.push_str(&format!(" {word}")),
            false => line.push_str(&format!(" '{}'", word.replace('\'', r"'\''"))),
        }
    }
    line
}

/// Runs all, and says at the end which of them failed.
pub(crate) fn run_all(tasks: Vec<Task>, dry_run: bool, output: &Output) -> Result<Answer, Failure> {
    if dry_run {
        let lines: Vec<String> = tasks.iter().map(|task| line_of(task.program, &task.words)).collect();
        output.record(&json!({"version": VERSION, "commands": lines}), || lines.join("\n") + "\n")?;
        return Ok(Answer::Yes);
    }
    let is_many = tasks.len() > 1;
    let mut children = Vec::new();
    for task in &tasks {
        let mut command = Command::new(task.program);
        command.args(&task.words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                end(&mut children);
                return Err(Failure::new(format!("{}: {error}", task.program)).hint("install OpenSSH's client"));
            }
        }
    }
    // Lines of different workers do not mix. With --json standard output has the record alone.
    let lock = Mutex::new(());
    let to_stderr = output.is_json();
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for (task, child) in tasks.iter().zip(&mut children) {
            let mark = if is_many { format!("[{}] ", task.mark) } else { String::new() };
            if let Some(out) = child.stdout.take() {
                let (mark, lock) = (mark.clone(), &lock);
                readers.push(scope.spawn(move || copy(out, &mark, lock, to_stderr)));
            }
            if let Some(err) = child.stderr.take() {
                let lock = &lock;
                readers.push(scope.spawn(move || copy(err, &mark, lock, true)));
            }
        }
        for reader in readers {
            let _ = reader.join();
        }
        children.iter_mut().map(code).collect()
    });
    let mut failed = 0;
    for (task, code) in tasks.iter().zip(&codes).filter(|(_, code)| **code != 0) {
        failed += 1;
        let what = match *code {
            SSH_FAILED => format!("was not reached, or the connection was lost ({} ended with 255)", task.program),
            code => format!("ended with {code}"),
        };
        eprintln!("worker {} ({}) {what}", task.mark, task.worker.address);
    }
    if failed > 0 && is_many {
        eprintln!("{failed} of {} workers failed", tasks.len());
    }
    if output.is_json() {
        let record = |(task, code): (&Task, &i32)| {
            let WorkerReach { slice, number, address, .. } = &task.worker;
            json!({"slice": slice, "worker": number, "address": address.to_string(), "code": code})
        };
        let workers: Vec<_> = tasks.iter().zip(&codes).map(record).collect();
        output.record(&json!({"version": VERSION, "workers": workers}), String::new)?;
    }
    Ok(if failed == 0 { Answer::Yes } else { Answer::No })
}

fn end(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// How a process ended, as shells count it.
fn code(child: &mut Child) -> i32 {
    match child.wait() {
        Ok(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(SSH_FAILED),
        Err(_) => SSH_FAILED,
    }
}

fn copy(from: impl Read, mark: &str, lock: &Mutex<()>, to_stderr: bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(LINE_LIMIT_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let _one = lock.lock();
        let written = if to_stderr {
            let mut out = std::io::stderr().lock();
            out.write_all(mark.as_bytes()).and_then(|()| out.write_all(&line)).and_then(|()| out.flush())
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(mark.as_bytes()).and_then(|()| out.write_all(&line)).and_then(|()| out.flush())
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => stop::die_of_closed_pipe(),
            _ => {}
        }
    }
}
