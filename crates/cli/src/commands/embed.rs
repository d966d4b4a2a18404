//! `tpu embed`: vectors of texts and images.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use infer::{EmbedOptions, Embedder, ImageEmbedder, TooLong, VectorLength};
use nn::models::RunOptions;
use runtime::Backend;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trace::DTypePolicy;

use crate::args::{EmbedArgs, VectorArgs};
use crate::commands;
use crate::commands::generate::read_image_file;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;

/// Longest line of a file of texts.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Texts whose vectors are written together.
const TOGETHER: usize = 1024;

/// What `--json` prints, one line a text.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    text: &'a str,
    tokens: usize,
    embedding: &'a [f32],
}

/// What `--json` prints, one line an image.
#[derive(Serialize)]
struct ImageRecord<'a> {
    version: u32,
    image: String,
    embedding: &'a [f32],
}

/// One line of a file of texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Object {
        #[serde(default)]
        id: Option<Value>,
        text: String,
    },
}

pub(crate) fn run(args: &EmbedArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.config, args.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let texts = match &args.texts {
        Some(path) => read_texts(path)?,
        None => args.text.iter().map(|text| (None, text.clone())).collect(),
    };
    let options = EmbedOptions {
        max_length: args.max_length,
        batch: args.batch,
        tokenizer: args.tokenizer.clone(),
        ..options(&args.embed, args.precision)
    };
    let backend = Backend::auto(&device)?;
    if !texts.is_empty() {
        embed_texts(&backend, args, &options, &texts, output)?;
    }
    if !args.image.is_empty() {
        embed_images(&backend, args, &options, output)?;
    }
    Ok(Answer::Yes)
}

fn embed_images(backend: &Backend, args: &EmbedArgs, options: &EmbedOptions, output: &Output) -> Result<(), Failure> {
    let mut embedder = ImageEmbedder::open(backend, &args.folder, options.length, &options.run)?;
    for path in &args.image {
        let embedding = embedder.embed(&read_image_file(path)?)?;
        let image = path.display().to_string();
        match output.is_json() {
            true => {
                let record = ImageRecord { version: 1, image, embedding: &embedding };
                let line = serde_json::to_string(&record).map_err(|error| Failure::new(error.to_string()))?;
                output.text(&format!("{line}\n"))?;
            }
            false => output.text(&numbers(&embedding))?,
        }
    }
    Ok(())
}

fn embed_texts(
    backend: &Backend,
    args: &EmbedArgs,
    options: &EmbedOptions,
    texts: &[(Option<Value>, String)],
    output: &Output,
) -> Result<(), Failure> {
    let mut embedder = Embedder::open(backend, &args.folder, options)?;
    for part in texts.chunks(TOGETHER) {
        let plain: Vec<&str> = part.iter().map(|(_, text)| text.as_str()).collect();
        for ((id, text), made) in part.iter().zip(embedder.embed(&plain)?) {
            let embedding = made.vector.as_slice();
            if output.is_json() {
                let record = Record { version: 1, id: id.as_ref(), text, tokens: made.tokens, embedding };
                let line = serde_json::to_string(&record).map_err(|error| Failure::new(error.to_string()))?;
                output.text(&format!("{line}\n"))?;
            } else {
                output.text(&numbers(embedding))?;
            }
        }
    }
    Ok(())
}

/// A vector as a line of numbers.
fn numbers(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("{}\n", numbers.join(" "))
}

/// What is asked of vectors.
pub(crate) fn options(args: &VectorArgs, precision: DTypePolicy) -> EmbedOptions {
    EmbedOptions {
        pooling: args.pooling,
        length: args.normalize.map(|is| if is { VectorLength::Normalized } else { VectorLength::AsComputed }),
        too_long: if args.truncate { TooLong::Truncated } else { TooLong::Refused },
        prompt: args.prompt_name.clone(),
        run: RunOptions { precision, ..RunOptions::default() },
        ..EmbedOptions::default()
    }
}

fn read_texts(path: &Path) -> Result<Vec<(Option<Value>, String)>, Failure> {
    let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(|error| failed(error.to_string()))?);
    let mut texts = Vec::new();
    for number in 1.. {
        let mut line = String::new();
        let read = (&mut file).take(MAX_LINE_BYTES + 1).read_line(&mut line).map_err(|e| failed(e.to_string()))?;
        if read as u64 > MAX_LINE_BYTES {
            return Err(failed(format!("line {number} is longer than {MAX_LINE_BYTES} bytes")));
        }
        if read == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let hint = "give a text in quotes, or an object with text";
        let line = serde_json::from_str(&line).map_err(|e| failed(format!("line {number}: {e}")).hint(hint))?;
        texts.push(match line {
            Line::Text(text) => (None, text),
            Line::Object { id, text } => (id, text),
        });
    }
    if texts.is_empty() {
        return Err(failed("it has no texts".into()));
    }
    Ok(texts)
}
