//! Files of settings beside a model's weights.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::error::Error;

/// Longest file of settings that is read.
const MAX_SETTINGS_BYTES: u64 = 4 << 20;

/// A file of settings; `None` where there is none.
pub(crate) fn read_settings(path: &Path) -> Result<Option<String>, Error> {
    let failed = |why: String| Error::setting(format!("{}: {why}", path.display()), "get the folder again");
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    let mut text = String::new();
    file.take(MAX_SETTINGS_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MAX_SETTINGS_BYTES {
        return Err(failed(format!("it is longer than {MAX_SETTINGS_BYTES} bytes")));
    }
    Ok(Some(text))
}

/// A file of settings in JSON; `None` where there is none.
pub(crate) fn read_json(path: &Path) -> Result<Option<Value>, Error> {
    let failed = |why: String| Error::setting(format!("{}: {why}", path.display()), "get the folder again");
    let Some(text) = read_settings(path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| failed(error.to_string()))
}
