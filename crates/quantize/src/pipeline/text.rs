//! Text as tokens, for calibration and evaluation.

use std::path::Path;

use data::Tokenizer;

use crate::error::Error;
use crate::pipeline::ModelFolder;

/// Longest text that is read.
const MAX_TEXT_BYTES: u64 = 4 << 30;

/// The tokens of a text file, by a tokenizer: `bytes`, a `tokenizer.json`, or the model's own where none is named.
pub fn read_tokens(folder: &ModelFolder, text: &Path, tokenizer: Option<&str>) -> Result<Vec<u32>, Error> {
    let own = folder.path.join("tokenizer.json");
    let tokenizer = match tokenizer {
        Some("bytes") => Tokenizer::bytes(),
        Some(path) => Tokenizer::open(Path::new(path))?,
        None if own.is_file() => Tokenizer::open(&own)?,
        None if folder.vocab_size() == Tokenizer::bytes().vocab_size() as usize => Tokenizer::bytes(),
        None => {
            return Err(Error::setting(
                format!("{} has no tokenizer.json", folder.path.display()),
                "give --tokenizer FILE, or --tokenizer bytes",
            ));
        }
    };
    let failed = |why: String| Error::setting(format!("{}: {why}", text.display()), "give a text file in UTF-8");
    let size = std::fs::metadata(text).map_err(|error| failed(error.to_string()))?.len();
    if size > MAX_TEXT_BYTES {
        return Err(failed(format!("it has {size} bytes; at most {MAX_TEXT_BYTES} are read")));
    }
    let bytes = std::fs::read(text).map_err(|error| failed(error.to_string()))?;
    let tokens = tokenizer.encode(&String::from_utf8_lossy(&bytes))?;
    let vocab = folder.vocab_size();
    match tokens.iter().find(|token| **token as usize >= vocab) {
        Some(token) => Err(Error::setting(
            format!("the tokenizer gives token {token}, but the model knows {vocab}"),
            "give the model's own tokenizer by --tokenizer FILE",
        )),
        None => Ok(tokens),
    }
}
