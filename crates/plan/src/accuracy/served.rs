//! Rows of inference: what a published rate, or a row of our own, says of the steps to predict.

use std::collections::BTreeMap;

use chips::{Generation, Slice};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// What rows of others do not say in a form that a program reads, by the names of the rows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serving {
    rows: BTreeMap<String, ServingSettings>,
}

/// How a row was served.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServingSettings {
    /// The model, by its name among the dimensions of public models.
    pub model: Option<String>,
    /// The scheme of its weights.
    pub weights: Option<String>,
    /// The type of its KV cache.
    pub kv_cache: Option<String>,
}

impl Serving {
    /// Reads the settings.
    pub fn read(json: &[u8]) -> Result<Serving, Error> {
        serde_json::from_slice(json).map_err(|error| Error::Record(format!("settings of inference rows: {error}")))
    }
}

/// A row of inference: the decode step of a batch, and what comes before it where requests were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedRow {
    /// Name of the row.
    pub id: String,
    /// Slice it runs on.
    pub slice: Slice,
    /// The model, by its name among the dimensions of public models.
    pub model: String,
    /// The scheme of its weights; `None`: bf16.
    pub weights: Option<String>,
    /// The type of its KV cache; `None`: bf16.
    pub kv_cache: Option<String>,
    /// Sequences that decode together.
    pub sequences: u64,
    /// Positions of the KV cache in a decode step: those of a request half way through its output, where requests were measured.
    pub positions: usize,
    /// Each request, where they were measured.
    pub request: Option<ServedRequest>,
    /// Tokens written per second on the slice, as published.
    pub published_tokens_per_s: Option<f64>,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    /// Of its prompt.
    pub prompt: usize,
    /// Of its answer.
    pub output: u64,
}

impl ServedRow {
    /// What runs, in words.
    pub fn what(&self) -> String {
        let weights = self.weights.as_deref().unwrap_or("bf16");
        let cache = self.kv_cache.as_deref().unwrap_or("bf16");
        format!("{}, {weights} weights, {cache} KV cache, {} positions", self.model, self.positions)
    }
}

/// The rows of inference of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedRows {
    /// Those that can be predicted.
    pub known: Vec<ServedRow>,
    /// Those that cannot, by name, with the reason.
    pub unknown: Vec<(String, String)>,
}

/// A row as files have it.
#[derive(Clone, Debug, Deserialize)]
struct Written {
    tpu: String,
    chips: u32,
    model: String,
    weights: Option<String>,
    kv_cache: Option<String>,
    max_num_seqs: Option<u64>,
    concurrency: Option<u64>,
    positions: Option<usize>,
    workload: Option<String>,
    output_tok_s_per_chip: Option<f64>,
}

/// Reads the rows of inference of a file of measurements. `serving` says what they leave out, `is_model` knows models by name.
pub fn served_rows(json: &[u8], serving: &Serving, is_model: impl Fn(&str) -> bool) -> Result<ServedRows, Error> {
    let file: Value = serde_json::from_slice(json).map_err(|error| Error::Record(error.to_string()))?;
    let rows = file.get("rows").and_then(Value::as_array).ok_or_else(|| Error::Record("there are no `rows`".into()))?;
    let mut served = ServedRows::default();
    for row in rows.iter().filter(|row| row.get("kind").and_then(Value::as_str) == Some("infer")) {
        let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
        let read = Written::deserialize(row).map_err(|error| error.to_string());
        match read.and_then(|row| row.served(id, serving.rows.get(id))) {
            Ok(row) if is_model(&row.model) => served.known.push(row),
            Ok(row) => served.unknown.push((id.into(), format!("the dimensions of {} are not known here", row.model))),
            Err(why) => served.unknown.push((id.into(), why)),
        }
    }
    Ok(served)
}

impl Written {
    fn served(self, id: &str, settings: Option<&ServingSettings>) -> Result<ServedRow, String> {
        let settings = settings.cloned().unwrap_or_default();
        let generation =
            Generation::from_name(&self.tpu).ok_or_else(|| format!("{} is no TPU generation", self.tpu))?;
        let slice = Slice::with_chips(generation, self.chips);
        let slice = slice.ok_or_else(|| format!("there is no slice of {} {} chips", self.chips, self.tpu))?;
        let sequences = self.max_num_seqs.or(self.concurrency).filter(|sequences| *sequences > 0);
        let request = self.workload.as_deref().map(request).transpose()?;
        let half_way = request.map(|request| request.prompt + usize::try_from(request.output / 2).unwrap_or(0));
        let rate = self.output_tok_s_per_chip.filter(|rate| rate.is_finite() && *rate > 0.0);
        Ok(ServedRow {
            id: id.into(),
            slice,
            model: settings.model.unwrap_or(self.model),
            weights: settings.weights.or(self.weights),
            kv_cache: settings.kv_cache.or(self.kv_cache),
            sequences: sequences.ok_or("it does not say how many sequences decode together")?,
            positions: self.positions.or(half_way).filter(|positions| *positions > 0).ok_or("no `positions`")?,
            request,
            published_tokens_per_s: rate.map(|rate| rate * f64::from(self.chips)),
        })
    }
}

/// Tokens of a request, as in `8k/1k`.
fn request(workload: &str) -> Result<ServedRequest, String> {
    const MOST: u64 = 1 << 24;
    let tokens = |text: &str| match text.strip_suffix('k') {
        Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(1024),
        None => text.parse().ok(),
    };
    let both = workload.split_once('/').and_then(|(prompt, output)| Some((tokens(prompt)?, tokens(output)?)));
    match both.filter(|(prompt, output)| (1..=MOST).contains(prompt) && (1..=MOST).contains(output)) {
        Some((prompt, output)) => Ok(ServedRequest { prompt: prompt as usize, output }),
        None => Err(format!("`{workload}` is no PROMPT/OUTPUT in tokens")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(row: &str, settings: &str) -> ServedRows {
        let file = format!(r#"{{"rows": [{{"kind": "micro", "id": "m"}}, {row}]}}"#);
        let serving = Serving::read(format!(r#"{{"rows": {settings}}}"#).as_bytes()).unwrap();
        served_rows(file.as_bytes(), &serving, |model| model == "small").unwrap()
    }

    #[test]
    fn a_published_rate_takes_what_it_leaves_out_from_the_settings() {
        let row = r#"{"kind": "infer", "id": "a", "tpu": "tpu7x", "chips": 4, "model": "small-of-theirs", "workload": "8k/1k",
            "concurrency": 64, "precision": "fp8", "output_tok_s_per_chip": 250.0}"#;
        let settings = r#"{"a": {"model": "small", "weights": "w8a8-fp8", "kv_cache": "fp8"}}"#;
        let served = rows(row, settings);
        let [row] = &served.known[..] else { panic!("{served:?}") };
        assert_eq!(row.slice.to_string(), "tpu7x-8");
        assert_eq!((row.sequences, row.positions), (64, 8704));
        assert_eq!(row.request, Some(ServedRequest { prompt: 8192, output: 1024 }));
        assert_eq!(row.published_tokens_per_s, Some(1000.0));
        assert_eq!(row.what(), "small, w8a8-fp8 weights, fp8 KV cache, 8704 positions");
    }

    #[test]
    fn a_row_that_cannot_be_predicted_says_why() {
        let why = |row: &str| {
            let served = rows(row, "{}");
            let [(id, why)] = &served.unknown[..] else { panic!("{served:?}") };
            assert_eq!(id, "a");
            why.clone()
        };
        let of = |rest: &str| why(&format!(r#"{{"kind": "infer", "id": "a", "tpu": "v6e", {rest}}}"#));
        let enough = r#""concurrency": 8, "positions": 64"#;
        assert!(of(&format!(r#""chips": 4, "model": "other", {enough}"#)).contains("other are not known"));
        assert!(of(&format!(r#""chips": 5, "model": "small", {enough}"#)).contains("no slice of 5 v6e chips"));
        assert!(of(&format!(r#""chips": 4, {enough}"#)).contains("model"));
        assert!(of(r#""chips": 4, "model": "small", "positions": 64"#).contains("how many sequences"));
        assert!(of(r#""chips": 4, "model": "small", "concurrency": 8"#).contains("positions"));
        for workload in ["8k", "0/1k", "1k/99999999999999999999", "1k/20000000k"] {
            let why = of(&format!(r#""chips": 4, "model": "small", "concurrency": 8, "workload": "{workload}""#));
            assert!(why.contains("PROMPT/OUTPUT"), "{why}");
        }
    }
}
