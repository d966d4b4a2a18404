//! The `tpu` command: arguments in, one of the commands run, exit code out.

mod args;
mod audit;
mod child;
mod commands;
mod failure;
mod human;
mod imported;
mod log;
mod output;
mod plugins;
mod progress;
mod quantity;
mod stop;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{Answer, Failure};

fn main() -> ExitCode {
    stop::die_quietly_without_readers();
    let cli = Cli::parse();
    match run(cli) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // The system's own number for "try again later".
        Ok(Answer::Preempted) => ExitCode::from(75),
        Err(failure) => {
            failure.print();
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> Result<Answer, Failure> {
    let asked = cli.output;
    log::start(asked.log.as_deref(), asked.log_format)?;
    if asked.progress {
        progress::say_everywhere();
    }
    let output = output::Output::new(asked.json, asked.tables);
    match cli.command {
        Command::Setup(args) => commands::setup::run(&args, &output),
        Command::Info(args) => commands::info::run(&args, &output),
        Command::Chips(args) => commands::chips::run(&args, &output),
        Command::Doctor(args) => commands::doctor::run(&args, &output),
        Command::Compile(args) => commands::compile::run(&args, &output),
        Command::Plan(args) => commands::plan::run(&args, &output),
        Command::Fit(args) => commands::fit::run(&args, &output),
        Command::Explain(args) => commands::explain::run(&args, &output),
        Command::Tune(args) => commands::tune::run(&args, &output),
        Command::Run(args) => commands::run::run(&args, &output),
        Command::Profile(args) => commands::profile::run(&args, &output),
        Command::Accuracy(args) => commands::accuracy::run(&args, &output),
        Command::Calibrate(args) => commands::calibrate::run(&args, &output),
        Command::Train(args) => commands::train::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Job(args) => commands::job::run(&args, &output),
        Command::Launch(args) => commands::launch::run(&args, &output),
        #[cfg(feature = "k8s")]
        Command::K8s(args) => commands::k8s::run(&args, &output),
        Command::Monitor(args) => commands::monitor::run(&args, &output),
        Command::Cost(args) => commands::cost::run(&args, &output),
        Command::Dashboard(args) => commands::dashboard::run(&args, &output),
        Command::Diagnose(args) => commands::diagnose::run(&args, &output),
        Command::Hang(args) => commands::hang::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Up(args) => commands::up::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Ls(args) => commands::ls::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Down(args) => commands::down::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Ssh(args) => commands::ssh::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Exec(args) => commands::exec::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Cp(args) => commands::cp::run(&args, &output),
        #[cfg(feature = "cloud")]
        Command::Logs(args) => commands::logs::run(&args, &output),
        Command::Generate(args) => commands::generate::run(&args, &output),
        Command::Embed(args) => commands::embed::run(&args, &output),
        Command::Classify(args) => commands::classify::run(&args, &output),
        Command::Transcribe(args) => commands::transcribe::run(&args, &output),
        Command::Serve(args) => commands::serve::run(&args, &output),
        Command::Stage(args) => commands::stage::run(&args, &output),
        Command::Bench(args) => commands::bench::run(&args, &output),
        Command::Export(args) => commands::export::run(&args, &output),
        Command::Quantize(args) => commands::quantize::run(&args, &output),
        Command::Eval(args) => commands::eval::run(&args, &output),
        Command::Quickstart(args) => commands::quickstart::run(&args, &output),
        Command::Config(args) => commands::config::run(&args, &output),
        Command::Hlo(args) => commands::hlo::run(&args, &output),
        Command::Check(args) => commands::check::run(&args, &output),
        Command::Weights(args) => commands::weights::run(&args, &output),
        Command::Cache(args) => commands::cache::run(&args, &output),
        Command::Key(args) => commands::key::run(&args, &output),
        Command::Completions(args) => commands::completions::run(&args, &output),
        Command::Man(args) => commands::man::run(&args, &output),
        Command::Worker => commands::worker::run(),
        Command::LaunchWorker => commands::launch::serve(),
        Command::CheckWorker { plugin } => commands::check::serve(&plugin),
    }
}
