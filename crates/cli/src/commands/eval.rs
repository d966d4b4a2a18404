//! `tpu eval`: how well a model of a folder predicts a text.

use nn::models::RunOptions;
use quantize::pipeline::{EvaluateOptions, Evaluation, ModelFolder, evaluate_folder, read_tokens};
use runtime::Backend;
use serde::Serialize;

use crate::args::{EvalArgs, TextArgs};
use crate::commands;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;

/// Longest window where none is asked for.
const DEFAULT_SEQUENCE: usize = 2048;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    folder: String,
    /// How it is quantized.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    sequence: usize,
    #[serde(flatten)]
    evaluation: Evaluation,
}

pub(crate) fn run(args: &EvalArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.text.config, args.text.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let folder = ModelFolder::open(&args.folder)?;
    let tokens = read_tokens(&folder, &args.data, args.text.tokenizer.as_deref())?;
    let options = options_of(&args.text, &folder, tokens.len())?;
    let backend = Backend::auto(&device)?;
    let evaluation = evaluated(&backend, &folder, &tokens, &options)?;
    let record = Record {
        version: 1,
        folder: folder.path.display().to_string(),
        format: folder.files.describe(),
        sequence: options.sequence,
        evaluation,
    };
    output.record(&record, || {
        let evaluation = &record.evaluation;
        let mut text = format!(
            "perplexity {:.4}, next-token accuracy {:.2} %, {} tokens in windows of {}, {:.0} MB of parameters{}\n",
            evaluation.perplexity,
            100.0 * evaluation.accuracy,
            evaluation.tokens,
            options.sequence,
            evaluation.parameter_bytes as f64 / 1e6,
            record.format.as_ref().map_or(String::new(), |format| format!(" ({format})"))
        );
        evaluation.load.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        text
    })?;
    Ok(Answer::Yes)
}

/// How a text of so many tokens is evaluated.
pub(super) fn options_of(args: &TextArgs, folder: &ModelFolder, tokens: usize) -> Result<EvaluateOptions, Failure> {
    let most = folder.max_positions();
    let sequence = args.sequence.unwrap_or(DEFAULT_SEQUENCE.min(most).min(tokens.saturating_sub(1).max(1)));
    if sequence > most {
        return Err(Failure::new(format!("windows of {sequence} tokens are over the model's {most} positions"))
            .hint("lower --sequence"));
    }
    let run = RunOptions { precision: args.precision, ..RunOptions::default() };
    Ok(EvaluateOptions { sequence, batch: args.batch, windows: args.windows, run })
}

/// Evaluates with progress.
pub(super) fn evaluated(
    backend: &Backend,
    folder: &ModelFolder,
    tokens: &[u32],
    options: &EvaluateOptions,
) -> Result<Evaluation, Failure> {
    let progress = Progress::start();
    Ok(evaluate_folder(backend, folder, tokens, options, &mut |done, all| {
        progress.step(&format!("evaluating {}: {done} of {all} windows", folder.path.display()));
    })?)
}
