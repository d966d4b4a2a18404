//! `tpu transcribe`: speech to text.

use infer::{SpeechOptions, SpeechTask, Transcriber, Transcript, WavAudio};
use nn::models::RunOptions;
use runtime::Backend;
use serde::Serialize;

use crate::args::{TaskArg, TranscribeArgs};
use crate::commands;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;

/// What `--json` prints, one line a chunk.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    start_seconds: f64,
    end_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
    text: &'a str,
    tokens: &'a [u32],
}

pub(crate) fn run(args: &TranscribeArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.config, args.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let audio = WavAudio::open(&args.audio)?;
    let run = RunOptions { precision: args.precision, ..RunOptions::default() };
    let mut transcriber = Transcriber::open(&Backend::auto(&device)?, &args.folder, &run)?;
    let options = SpeechOptions {
        language: args.language.clone(),
        task: match args.task {
            TaskArg::Transcribe => SpeechTask::Transcribe,
            TaskArg::Translate => SpeechTask::Translate,
        },
        max_tokens: args.max_tokens,
    };
    let mut failed = None;
    transcriber.transcribe(&audio, &options, &mut |chunk| {
        if let (Err(failure), None) = (write(chunk, output), &failed) {
            failed = Some(failure);
        }
    })?;
    failed.map_or(Ok(Answer::Yes), Err)
}

fn write(chunk: &Transcript, output: &Output) -> Result<(), Failure> {
    if !output.is_json() {
        return output.text(&format!("{}\n", chunk.text));
    }
    let record = Record {
        version: 1,
        start_seconds: chunk.start,
        end_seconds: chunk.end,
        language: chunk.language.as_deref(),
        text: &chunk.text,
        tokens: &chunk.tokens,
    };
    let line = serde_json::to_string(&record).map_err(|error| Failure::new(error.to_string()))?;
    output.text(&format!("{line}\n"))
}
