//! Text as tokens, for calibration and evaluation.

use std::path::Path;

use data::Tokenizer;

use crate::error::Error;
use crate::pipeline::ModelFolder;

/// Longest text that is read.
const MAX_TEXT_BYTES: u64 = 4 << 30;

/// The tokenizer of a name: `bytes`, or the path of a `tokenizer.json`. Without a name the model's own; bytes where it has none
/// and knows as many tokens as there are bytes.
pub fn tokenizer_of(folder: &ModelFolder, name: Option<&str>) -> Result<Option<Tokenizer>, Error> {
    let own = folder.path.join("tokenizer.json");
    Ok(match name {
        Some("bytes") => Some(Tokenizer::bytes()),
        Some(path) => Some(Tokenizer::open(Path::new(path))?),
        None if own.is_file() => Some(Tokenizer::open(&own)?),
        None if folder.vocab_size() == Tokenizer::bytes().vocab_size() as usize => Some(Tokenizer::bytes()),
        None => None,
    })
}

/// The tokens of a text file, by a tokenizer: `bytes`, a `tokenizer.json`, or the model's own where none is named.
pub fn read_tokens(folder: &ModelFolder, text: &Path, tokenizer: Option<&str>) -> Result<Vec<u32>, Error> {
    let Some(tokenizer) = tokenizer_of(folder, tokenizer)? else {
        return Err(Error::setting(
            format!("{} has no tokenizer.json", folder.path.display()),
            "give --tokenizer FILE, or --tokenizer bytes",
        ));
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
