//! `tpu export`: the model of a training as a Hugging Face folder, which transformers, vLLM and `tpu quantize` read.

use std::path::PathBuf;

use serde::Serialize;
use tensor::DType;
use train::export_model;

use crate::args::ExportArgs;
use crate::commands::key;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    folder: PathBuf,
    checkpoint: String,
    step: u64,
    is_ema: bool,
    parameters: u64,
    bytes: u64,
    dtype: String,
    has_tokenizer: bool,
}

pub(crate) fn run(args: &ExportArgs, output: &Output) -> Result<Answer, Failure> {
    let dtype = match args.dtype.as_str() {
        "f32" => DType::F32,
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        other => {
            return Err(Failure::new(format!("--dtype {other} is not a type of exported weights"))
                .hint("give f32, bf16 or f16; `tpu quantize` writes fewer bits from the folder"));
        }
    };
    let done = export_model(&args.folder, args.step, key::protection(&args.keys)?, &args.out, dtype)?;
    let record = Record {
        version: 1,
        folder: done.folder,
        checkpoint: done.checkpoint,
        step: done.step,
        is_ema: done.is_ema,
        parameters: done.parameters,
        bytes: done.bytes,
        dtype: dtype.to_string(),
        has_tokenizer: done.has_tokenizer,
    };
    output.record(&record, || text(&record))?;
    Ok(Answer::Yes)
}

fn text(record: &Record) -> String {
    let what = if record.is_ema { "EMA of the parameters" } else { "parameters" };
    let mut text = format!(
        "{}: {what} of step {}, {} in {}, {}\n",
        record.folder.display(),
        record.step,
        human::count(record.parameters as f64),
        record.dtype,
        human::bytes(record.bytes)
    );
    if !record.has_tokenizer {
        text.push_str("no tokenizer.json: the training had no file of one\n");
    }
    text.push_str(&format!("next: `tpu eval {} --data FILE`, or `tpu quantize`\n", record.folder.display()));
    text
}
