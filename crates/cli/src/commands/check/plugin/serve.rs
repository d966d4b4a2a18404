//! `tpu check-worker PLUGIN`: the process that holds a plugin and runs programs on its first device; not for people.

use std::io::{self, BufReader, BufWriter};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc;

use compile::with_causes;
use pjrt::{Client, ClientOptions, CompileOptions, EncodedProgram, ExecuteOptions, Plugin};

use super::message::{self, Answer, Output};
use crate::failure::{self, Failure};

/// Runs the programs that arrive on standard input until it closes.
pub(crate) fn serve(plugin: &Path) -> Result<failure::Answer, Failure> {
    let broken = |error: io::Error| Failure::new(format!("check worker: {error}"));
    // Answers go to the real standard output; what the plugin prints there goes to standard error.
    let answers = io::stdout().as_fd().try_clone_to_owned().map_err(broken)?;
    rustix::stdio::dup2_stdout(io::stderr()).map_err(|e| broken(e.into()))?;
    let mut out = BufWriter::new(std::fs::File::from(answers));
    let programs = programs();
    let client = match open(plugin) {
        Ok((client, device)) => {
            message::write_answer(&mut out, &Answer::Ready(device)).map_err(broken)?;
            client
        }
        Err(error) => {
            message::write_answer(&mut out, &Answer::Failed(with_causes(&error))).map_err(broken)?;
            return Ok(failure::Answer::No);
        }
    };
    for program in programs {
        let written = match execute(&client, program) {
            Ok(outputs) => message::write_results(&mut out, &outputs),
            Err(error) => message::write_answer(&mut out, &Answer::Failed(with_causes(&error))),
        };
        written.map_err(broken)?;
    }
    Ok(failure::Answer::Yes)
}

/// Programs as they arrive. Whoever asks for them keeps the pipe open: when it closes nobody waits for answers any more, and
/// this process ends in the middle of whatever the plugin does.
fn programs() -> mpsc::Receiver<Vec<u8>> {
    let (sender, programs) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin().lock());
        while let Ok(Some(program)) = message::read_request(&mut input) {
            if sender.send(program).is_err() {
                return;
            }
        }
        // Not an orderly exit: exit handlers of a plugin may wait for what never ends.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
    programs
}

fn open(path: &Path) -> Result<(Client, String), pjrt::Error> {
    let client = Plugin::load(path)?.client(&ClientOptions::default())?;
    let platform = client.platform_name()?;
    let kind = client.addressable_devices()?.first().map(|device| device.description()).transpose()?;
    let device = match kind {
        Some(description) if description.kind != platform => format!("{platform} ({})", description.kind),
        _ => platform,
    };
    Ok((client, device))
}

fn execute(client: &Client, program: Vec<u8>) -> Result<Vec<Output>, pjrt::Error> {
    let loaded = client.compile(&EncodedProgram::mlir(program), &CompileOptions::default())?;
    let launch = loaded.execute(&[Vec::new()], &ExecuteOptions::default())?;
    launch.wait()?;
    let output = |buffer: &pjrt::Buffer| {
        Ok(Output {
            element_type: buffer.element_type()?.name().to_string(),
            dims: buffer.dims()?,
            bytes: buffer.to_host()?.wait()?,
        })
    };
    launch.outputs.iter().flatten().map(output).collect()
}
