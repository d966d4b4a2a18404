//! `tpu generate`: text from a trained model, token by token, on the device.

use runtime::Backend;
use serde::Serialize;
use train::{Generator, Sampling};

use crate::args::GenerateArgs;
use crate::commands;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    checkpoint: String,
    step: u64,
    prompt: String,
    text: String,
    tokens: Vec<u32>,
    seconds_per_token: f64,
}

pub(crate) fn run(args: &GenerateArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.config, args.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let generator = Generator::open(&args.folder, args.step, args.tokenizer.as_deref())?;
    let sampling = Sampling { tokens: args.tokens, temperature: args.temperature, top_k: args.top_k, seed: args.seed };
    let (text, sampled) = generator.generate(&Backend::auto(&device)?, &args.prompt, &sampling)?;
    let record = Record {
        version: 1,
        checkpoint: generator.checkpoint().address(),
        step: generator.checkpoint().step(),
        prompt: args.prompt.clone(),
        text,
        tokens: sampled.tokens,
        seconds_per_token: sampled.seconds_per_token,
    };
    output.record(&record, || format!("{}{}\n", record.prompt, record.text))?;
    Ok(Answer::Yes)
}
