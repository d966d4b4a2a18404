//! `tpu stage`: a host that runs a pipeline stage of a model for an engine on another one.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use infer::{OpenOptions, OpenedModel, StageServer};
use runtime::Backend;
use serde::Serialize;

use crate::args::StageArgs;
use crate::commands::run::{isolate_again, must_isolate};
use crate::commands::{config, generate, key};
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::stop;

/// How often the signal to stop is looked for.
const PACE: Duration = Duration::from_millis(100);

/// What `--json` prints once the host is ready.
#[derive(Serialize)]
struct Record {
    version: u32,
    address: String,
}

pub(crate) fn run(args: &StageArgs, output: &Output) -> Result<Answer, Failure> {
    let device = config::as_written(&args.config, args.device.as_deref())?;
    let device = match &args.mesh {
        // The CPU pretends to be as many devices as the mesh has.
        Some(mesh) => device.cpu_devices(mesh.num_devices()),
        None => device,
    };
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    // The first host has the tokenizer.
    let options = OpenOptions { tokenizer: Some("bytes"), step: args.step, protection: key::protection(&args.keys)? };
    let source = OpenedModel::open(Path::new(&args.folder), options)?;
    let (backend, secret) = (Backend::auto(&device)?, generate::secret()?);
    let at = (args.listen.as_str(), &secret);
    let server = StageServer::start(&backend, &source, args.mesh.as_ref(), at, |line| eprintln!("{line}"))?;
    let stop = stop::on_signal();
    let address = server.address().to_string();
    output.record(&Record { version: 1, address: address.clone() }, || {
        format!("a pipeline stage of {} is ready at {address}\n", args.folder)
    })?;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PACE);
    }
    eprintln!("stopped");
    Ok(Answer::Yes)
}
