//! The worker beside each process: starts it, passes orders on, and ends it and its children when the launcher is gone.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process, setpgid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::order::{MAX_ORDER_BYTES, StartOrder, StopOrder};

/// Exit code where the program cannot be started, as shells have it.
const NOT_STARTED: i32 = 127;

/// How often it is looked whether a group is empty.
const LOOK: Duration = Duration::from_millis(20);

/// Tells a `tpu` command the id of the process that it must not outlive.
const PARENT: &str = "TPUBRIDGE_PARENT";

/// The whole work of a worker: what to start and when to end it comes from standard input. Gives the exit code of the
/// program, or 128 and its signal. Call it on the main thread of a process that does nothing else.
pub fn work() -> i32 {
    match start_and_wait() {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
        Err(why) => {
            eprintln!("error: {why}");
            NOT_STARTED
        }
    }
}

fn start_and_wait() -> Result<ExitStatus, String> {
    // Everything the program starts is in this group, and nothing else.
    if getpgrp() != getpid() {
        setpgid(None, None).map_err(|error| format!("cannot make a process group: {error}"))?;
    }
    // Before the start, so that no signal ends this process and leaves the program behind.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| format!("cannot handle signals: {error}"))?;
    let mut orders = BufReader::new(std::io::stdin());
    let mut line = String::new();
    orders
        .by_ref()
        .take(MAX_ORDER_BYTES)
        .read_line(&mut line)
        .map_err(|error| format!("cannot read what to start: {error}"))?;
    let order = StartOrder::read(&line)?;
    let words = order.command();
    let (program, arguments) = words.split_first().ok_or("there is no program to start")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    order.without.iter().for_each(|name| {
        command.env_remove(name);
    });
    command.envs(order.environment.iter().map(|(name, value)| (name, value)));
    command.env(PARENT, std::process::id().to_string());
    if let Some(folder) = order.folder() {
        command.current_dir(folder);
    }
    let mut child =
        command.spawn().map_err(|error| format!("cannot start `{}`: {error}", program.to_string_lossy()))?;
    let kill_after = order.kill_after();
    std::thread::spawn(move || follow(orders, kill_after));
    std::thread::spawn(move || pass_on(signals));
    let status = child.wait().map_err(|error| format!("cannot wait for the program: {error}"))?;
    kill_all();
    Ok(status)
}

/// Does what the launcher says. When it says no more, it or the connection is gone: the program ends.
fn follow(mut orders: impl BufRead, kill_after: Duration) {
    loop {
        let mut line = String::new();
        match orders.read_line(&mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => match StopOrder::read(&line) {
                Some(StopOrder::Kill) => return kill_all(),
                Some(order) => signal_all(order.signal()),
                None => {}
            },
        }
    }
    signal_all(Signal::TERM);
    let deadline = Instant::now() + kill_after;
    while Instant::now() < deadline && !others().is_empty() {
        std::thread::sleep(LOOK);
    }
    kill_all();
}

fn pass_on(mut signals: Signals) {
    for signal in signals.forever() {
        // A terminal that is gone is a launcher that is gone.
        let signal = if signal == SIGHUP { SIGTERM } else { signal };
        if let Some(signal) = Signal::from_named_raw(signal) {
            signal_all(signal);
        }
    }
}

/// Kills until nobody is left: what is killed may have started another just before.
fn kill_all() {
    while !others().is_empty() {
        signal_all(Signal::KILL);
        std::thread::sleep(LOOK);
    }
}

fn signal_all(signal: Signal) {
    for other in others() {
        let _ = kill_process(other, signal);
    }
}

/// The live processes of this group but this one.
fn others() -> Vec<Pid> {
    let (own, group) = (getpid(), getpgrp());
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let ids = ids.filter_map(Pid::from_raw).filter(|id| *id != own);
    ids.filter(|id| group_of(*id) == Some(group)).collect()
}

/// The group of a process that lives.
fn group_of(id: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).ok()?;
    // The name is in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    match state {
        "Z" | "X" => None,
        _ => Pid::from_raw(group),
    }
}
