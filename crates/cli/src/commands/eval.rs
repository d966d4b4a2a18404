//! `tpu eval`: how well a model of a folder predicts a text, or which choices it prefers.

use std::path::Path;

use infer::{ChoiceTask, OpenOptions, OpenedModel, ScoreOptions, TaskResult, score};
use nn::models::RunOptions;
use quantize::pipeline::{EvaluateOptions, Evaluation, ModelFolder, evaluate_folder, read_tokens};
use runtime::Backend;
use runtime::config::Config;
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

/// What `--json` prints of a task.
#[derive(Serialize)]
struct TaskRecord {
    version: u32,
    folder: String,
    task: String,
    #[serde(flatten)]
    result: TaskResult,
}

pub(crate) fn run(args: &EvalArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.text.config, args.text.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let data = match (&args.task, &args.data) {
        (Some(path), _) => return task(args, path, &device, output),
        (None, Some(data)) => data,
        (None, None) => return Err(Failure::new("there is nothing to evaluate on").hint("give --data or --task")),
    };
    let folder = ModelFolder::open(&args.folder)?;
    let tokens = read_tokens(&folder, data, args.text.tokenizer.as_deref())?;
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

/// Evaluates a task of lm-evaluation-harness.
fn task(args: &EvalArgs, path: &Path, device: &Config, output: &Output) -> Result<Answer, Failure> {
    let named = |error: infer::Error| {
        let remedy = error.remedy();
        let failure = Failure::new(format!("{}: {error}", path.display()));
        remedy.into_iter().fold(failure, |failure, remedy| failure.hint(&remedy))
    };
    let task = ChoiceTask::open(path, args.data.as_deref(), args.limit.unwrap_or(usize::MAX))?;
    let options = OpenOptions { tokenizer: args.text.tokenizer.as_deref(), ..OpenOptions::default() };
    let source = OpenedModel::open(&args.folder, options)?;
    let pairs = task.pairs(source.needed_tokenizer()?, source.begin_token()).map_err(named)?;
    let run = RunOptions { precision: args.text.precision, ..RunOptions::default() };
    let options = ScoreOptions { batch: args.text.batch, run };
    let backend = Backend::auto(device)?;
    let progress = Progress::start();
    let scores = score(&backend, &source, &pairs, &options, &mut |done, all| {
        progress.step(&format!("scoring {done} of {all} texts"));
    })?;
    drop(progress);
    let record = TaskRecord {
        version: 1,
        folder: args.folder.display().to_string(),
        task: path.display().to_string(),
        result: task.result(&scores)?,
    };
    output.record(&record, || {
        let TaskResult { documents, acc, acc_stderr, acc_norm, acc_norm_stderr, perplexity } = record.result;
        let norm = acc_norm.zip(acc_norm_stderr);
        let norm = norm.map_or(String::new(), |(acc, error)| format!(", acc_norm {acc:.4} ± {error:.4}"));
        format!("acc {acc:.4} ± {acc_stderr:.4}{norm}, perplexity {perplexity:.4}, {documents} documents\n")
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
