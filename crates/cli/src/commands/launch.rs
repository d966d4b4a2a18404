//! `tpu launch`: many processes of one program, here or over ssh, with one exit code.

use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use fleet::launch::{LaunchEnd, LaunchOutput, LaunchPlace, LaunchPlan, Launcher, StopOrder, launch, work};
use runtime::distributed::DEFAULT_PORT;
use serde::Serialize;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::args::LaunchArgs;
use crate::commands::config::quoted;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::{log, stop};

/// Longest time that can be asked for.
const MAX_SECONDS: f64 = 86_400.0;

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    exit_code: i32,
    #[serde(flatten)]
    end: &'a LaunchEnd,
}

pub(crate) fn run(args: &LaunchArgs, output: &Output) -> Result<Answer, Failure> {
    let plan = plan(args)?;
    let said = if output.is_json() { LaunchOutput::to_error() } else { LaunchOutput::standard() };
    let end = launch(&plan, &said, requests()?, &mut |line| log::say(&format!("launch: {line}")))?;
    let code = end.exit_code();
    tell(&end);
    output.record(&Record { version: 1, exit_code: code, end: &end }, String::new)?;
    match code {
        0 => Ok(Answer::Yes),
        75 => Ok(Answer::Preempted),
        code => std::process::exit(code),
    }
}

/// The process beside each that is launched.
pub(crate) fn serve() -> Result<Answer, Failure> {
    std::process::exit(work())
}

fn plan(args: &LaunchArgs) -> Result<LaunchPlan, Failure> {
    let seconds = |name: &str, value: f64| match (0.0..=MAX_SECONDS).contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err(Failure::new(format!("--{name} {value} is not from 0 to {MAX_SECONDS} seconds"))),
    };
    let hosts = match &args.hosts {
        None => vec![LaunchPlace::Here],
        Some(list) => LaunchPlace::hosts(list).map_err(|why| Failure::new(format!("--hosts: {why}")))?,
    };
    let coordinator = match (&args.coordinator, hosts.first().and_then(LaunchPlace::host)) {
        (Some(given), _) => given.clone(),
        (None, Some(host)) => format!("{host}:{DEFAULT_PORT}"),
        (None, None) => free_address()?,
    };
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program's own file: {error}")))?;
    if args.processes > fleet::launch::MAX_PROCESSES {
        return Err(Failure::new(format!("-n {} is too many", args.processes)).hint("give 1 to 4096"));
    }
    // Those of a host have numbers that follow each other, as workers of a slice have.
    let places = hosts.iter().flat_map(|host| vec![host.clone(); args.processes]).collect();
    Ok(LaunchPlan {
        command: args.command.clone(),
        places,
        coordinator,
        environment: args.environment.iter().map(|text| variable(text)).collect::<Result<_, _>>()?,
        logs: args.logs.clone(),
        kill_after: seconds("kill-after", args.kill_after)?,
        grace: args.grace.map(|grace| seconds("grace", grace)).transpose()?,
        launcher: Launcher {
            here: vec![program.into(), WORKER.into()],
            remote: format!("exec {} {WORKER}", quoted(&args.remote_tpu)),
            ssh: args.ssh.split_whitespace().map(Into::into).collect(),
            folder: None,
            remote_folder: args.remote_folder.clone(),
        },
    })
}

/// The command of [`serve`].
const WORKER: &str = "launch-worker";

fn variable(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (text, std::env::var(text).ok()),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Failure::new(format!("--env {text}: `{name}` is not a name")).hint("write it as --env NAME=VALUE"));
    }
    let value = value.ok_or_else(|| {
        Failure::new(format!("--env {text}: this environment has no such variable"))
            .hint(format!("write it as --env {name}=VALUE"))
    })?;
    Ok((name.to_string(), value))
}

/// A port of this machine that nobody has. Process 0 takes it a moment later.
fn free_address() -> Result<String, Failure> {
    let found = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = found.map_err(|error| {
        Failure::new(format!("no port of this machine is free: {error}")).hint("give --coordinator 127.0.0.1:PORT")
    })?;
    Ok(address.to_string())
}

/// Signals that ask to stop, from here on.
fn requests() -> Result<Receiver<StopOrder>, Failure> {
    let mut signals =
        Signals::new(stop::signals()).map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let order = if signal == SIGINT { StopOrder::Interrupt } else { StopOrder::Terminate };
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

fn tell(end: &LaunchEnd) {
    let Some(culprit) = end.culprit() else { return };
    log::say(&format!("error: {} {}, and all others were stopped", culprit.name(), culprit.how()));
    for line in &end.last_words {
        log::say(&format!("  {line}"));
    }
    log::say("hint: started again, a training goes on from the newest checkpoint");
}
