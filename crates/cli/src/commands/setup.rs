//! `tpu setup`: get a plugin with the user's own pip or uv, pinned and hash-checked.

use fleet::System;
use fleet::setup::{Outcome, SetupOptions, SetupPlan, SetupProgress as Step};
use serde_json::json;
use trust::AuditEvent;

use crate::args::SetupArgs;
use crate::audit::audited;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::{human, stop};

pub(crate) fn run(args: &SetupArgs, output: &Output) -> Result<Answer, Failure> {
    let options = SetupOptions {
        version: args.version.clone(),
        wheel: args.from.clone(),
        sha256: args.sha256.clone(),
        ..SetupOptions::new(System::host(), args.package.clone())
    };
    let plan = SetupPlan::new(&options)?;
    if args.dry_run {
        output.record(&plan, || plan.describe())?;
        return Ok(Answer::Yes);
    }
    eprint!("{}", with_newline(plan.describe()));
    let stop = stop::on_signal();
    let progress = Progress::start();
    let installed = plan.run(&stop, &mut |step| progress.step(&say(&step)));
    drop(progress);
    let target = plan.destination().display();
    let installed = audited(AuditEvent::PluginInstall, target, installed, |installed| {
        vec![
            ("outcome", json!(installed.outcome)),
            ("sha256", json!(installed.record.sha256)),
            ("check", json!(installed.trust)),
        ]
    })?;
    output.record(&installed, || {
        let what = match installed.outcome {
            Outcome::New => "installed",
            Outcome::AlreadyInstalled => "already installed",
            Outcome::Replaced => "replaced what was there",
        };
        format!("{what}: {}\n", installed.path.display())
    })?;
    Ok(Answer::Yes)
}

fn with_newline(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn say(step: &Step) -> String {
    let of = |bytes: u64, expected: Option<u64>| match expected {
        Some(expected) => format!("{} of {}", human::bytes(bytes), human::bytes(expected)),
        None => human::bytes(bytes),
    };
    match step {
        Step::Waiting => "waiting for another setup".into(),
        Step::Started { command } => format!("running {command}"),
        Step::Downloading { bytes, expected_bytes } => format!("downloading {}", of(*bytes, *expected_bytes)),
        Step::Checking { bytes } => format!("checking {}", human::bytes(*bytes)),
        Step::Unpacking { bytes, expected_bytes } => format!("unpacking {}", of(*bytes, *expected_bytes)),
        Step::Finishing => "finishing".into(),
    }
}
