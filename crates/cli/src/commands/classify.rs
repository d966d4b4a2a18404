//! `tpu classify`: which class images are of.

use infer::{ClassScore, ImageClassifier};
use nn::models::RunOptions;
use runtime::Backend;
use serde::Serialize;

use crate::args::ClassifyArgs;
use crate::commands;
use crate::commands::generate::read_image_file;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;

/// Images that are in memory together.
const TOGETHER: usize = 8;

/// What `--json` prints, one line an image.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    image: String,
    classes: &'a [ClassScore],
}

pub(crate) fn run(args: &ClassifyArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.config, args.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let run = RunOptions { precision: args.precision, ..RunOptions::default() };
    let mut classifier = ImageClassifier::open(&Backend::auto(&device)?, &args.folder, &run)?;
    for paths in args.images.chunks(TOGETHER) {
        let files = paths.iter().map(|path| read_image_file(path)).collect::<Result<Vec<_>, Failure>>()?;
        for (path, classes) in paths.iter().zip(classifier.classify(&files, args.top_k)?) {
            let image = path.display().to_string();
            if output.is_json() {
                let record = Record { version: 1, image, classes: &classes };
                let line = serde_json::to_string(&record).map_err(|error| Failure::new(error.to_string()))?;
                output.text(&format!("{line}\n"))?;
                continue;
            }
            output.text(&format!("{image}\n"))?;
            for ClassScore { label, probability, .. } in &classes {
                output.text(&format!("  {:6.2} %  {label}\n", 100.0 * probability))?;
            }
        }
    }
    Ok(Answer::Yes)
}
