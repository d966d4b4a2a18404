//! `tpu generate`: text from a trained model, token by token, on the device.

use runtime::Backend;
use serde::Serialize;
use train::{Generator, Sampling};
use trust::{KeySource, KeySourceError};
use weights::Protection;

use crate::args::GenerateArgs;
use crate::commands;
use crate::commands::key;
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
    let keys = &args.keys;
    let encryption_key = keys.encryption_key.as_ref().map(|source| source.parse::<KeySource>()?.key()).transpose();
    let encryption_key = encryption_key.map_err(|error: KeySourceError| {
        let remedy = error.remedy();
        Failure::new(error).hint(remedy)
    })?;
    let trusted_keys = if keys.trusted_key.is_empty() { None } else { Some(key::trusted(&keys.trusted_key)?) };
    let protection = Protection { encryption_key, trusted_keys, signing_key: None };
    let generator = Generator::open(&args.folder, args.step, args.tokenizer.as_deref(), protection)?;
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
