//! Predictions beside measurements as a file keeps them: the page is written from this record alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Comparison, HeldOut, MicroRow, MicroRows, ProfileClasses, Table, is_fitted};
use crate::error::Error;
use crate::op_time::Bound;

/// The version of the record.
const VERSION: u32 = 1;

/// All predictions of one front end, of one run of the command or of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    version: u32,
    /// Who wrote the programs: `jax` or `rust`.
    pub front_end: String,
    /// What a reader of the page should know beside the figures, a paragraph each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How programs differ from those that were measured, each for some of the rows, in order.
    pub differences: Vec<String>,
    /// Training runs, by name.
    pub rows: Vec<ResultRow>,
    /// Rows predicted with constants that were chosen without their family, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// Steps of inference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inference: Vec<InferenceRow>,
    /// Profiles op by op.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileClasses>,
    /// Micro-benchmarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub micro: Vec<MicroRow>,
    /// Micro-benchmarks that cannot be predicted, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<(String, String)>,
}

/// A training run beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultRow {
    /// Name of the row.
    pub id: String,
    /// Slice it ran on.
    pub slice: String,
    /// Which table it belongs to.
    pub table: Table,
    /// Whether constants were chosen with this row in sight.
    pub fitted: bool,
    /// Seconds of a step, as published or as the published rate says.
    pub measured_s: Option<f64>,
    /// What is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Why nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A step of inference beside a published rate, if there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferenceRow {
    /// Name of the row.
    pub id: String,
    /// What runs: the model, its weights, its KV cache.
    pub what: String,
    /// Slice.
    pub slice: String,
    /// How a decode step is sharded over it.
    pub mesh: String,
    /// Sequences that decode together.
    pub sequences: u64,
    /// Seconds of a decode step.
    pub step_s: f64,
    /// Lower end of the range.
    pub low_s: f64,
    /// Upper end of the range.
    pub high_s: f64,
    /// Tokens per second on the slice, of decode steps alone.
    pub tokens_per_s: f64,
    /// Device memory of a decode step by the compiler's own figure, bytes.
    pub hbm_bytes: u64,
    /// Device memory there is, bytes.
    pub hbm_limit_bytes: u64,
    /// What comes before decoding, where it was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<PredictedPrefill>,
    /// Tokens per second as published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_tokens_per_s: Option<f64>,
}

/// The prompt of a sequence, and what is written after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictedPrefill {
    /// Seconds of a prefill step, for each prompt of it.
    pub seconds: f64,
    /// Prompts that are read at once.
    pub prompts: u64,
    /// Tokens written after each prompt.
    pub output_tokens: u64,
}

impl InferenceRow {
    /// Tokens per second of a run in which each sequence has its prompt read before its tokens are written: both take turns on the
    /// slice.
    pub fn whole_run_tokens_per_s(&self) -> Option<f64> {
        let PredictedPrefill { seconds, output_tokens, .. } = self.prefill?;
        let output = output_tokens as f64;
        Some(output / (output * self.step_s / self.sequences.max(1) as f64 + seconds))
    }
}

/// A prediction; of some only the seconds were kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Seconds of a step.
    pub step_s: f64,
    /// The rest, where it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// What is known of a prediction beside its seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Details {
    /// Lower end of the range.
    pub low_s: f64,
    /// Upper end of the range.
    pub high_s: f64,
    /// Share of the step by what limits it: `matrix`, `vector`, `hbm`, `ici`, `dcn`, `host`.
    pub shares: BTreeMap<String, f64>,
    /// Device memory by the compiler's own figure, bytes.
    pub hbm_bytes: u64,
    /// Device memory there is, bytes.
    pub hbm_limit_bytes: u64,
    /// How much of the compiler ran: `quick` or `full`.
    pub mode: String,
    /// Seconds it took.
    pub compile_seconds: f64,
}

impl ResultRow {
    /// How far the prediction is from the measurement, as a share of the measurement.
    pub fn error(&self) -> Option<f64> {
        Some(self.predicted.as_ref()?.step_s / self.measured_s? - 1.0)
    }

    fn of(comparison: &Comparison) -> ResultRow {
        let record = &comparison.record;
        let predicted = comparison.prediction.as_ref().ok().map(|prediction| {
            let estimate = &prediction.estimate;
            let shares = LIMITS.iter().filter_map(|(bound, name)| {
                let share = estimate.shares.iter().find(|share| share.bound == *bound)?;
                Some((name.to_string(), share.share))
            });
            let details = Details {
                low_s: estimate.step.low_s,
                high_s: estimate.step.high_s,
                shares: shares.collect(),
                hbm_bytes: prediction.hbm_bytes,
                hbm_limit_bytes: prediction.hbm_limit_bytes,
                mode: match prediction.mode {
                    compile::CompileMode::Quick => "quick".into(),
                    compile::CompileMode::Full => "full".into(),
                },
                compile_seconds: prediction.compile_seconds,
            };
            Predicted { step_s: estimate.step.seconds, details: Some(details) }
        });
        ResultRow {
            id: record.id.clone(),
            slice: record.slice.clone(),
            table: record.table(),
            fitted: is_fitted(&record.id),
            measured_s: record.measured_step_s,
            predicted,
            failure: comparison.prediction.as_ref().err().cloned(),
        }
    }
}

/// What can limit a step, in the order of the page's columns, by the name that the record has for it.
pub(super) const LIMITS: [(Bound, &str); 6] = [
    (Bound::Matrix, "matrix"),
    (Bound::Vector, "vector"),
    (Bound::Hbm, "hbm"),
    (Bound::Ici, "ici"),
    (Bound::Dcn, "dcn"),
    (Bound::Host, "host"),
];

impl Results {
    /// None yet.
    pub fn new(front_end: &str) -> Results {
        let front_end = front_end.to_string();
        Results {
            version: VERSION,
            front_end,
            notes: vec![],
            differences: vec![],
            rows: vec![],
            held_out: None,
            inference: vec![],
            profiles: vec![],
            micro: vec![],
            left_out: vec![],
        }
    }

    /// Reads a record.
    pub fn read(json: &[u8]) -> Result<Results, Error> {
        let results: Results = serde_json::from_slice(json).map_err(|error| Error::Record(error.to_string()))?;
        if results.version != VERSION {
            return Err(Error::Record(format!("version {}, this program reads {VERSION}", results.version)));
        }
        Ok(results)
    }

    /// The record as JSON, with a line's end.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("plain data is JSON");
        json + "\n"
    }

    /// Keeps the errors of a profile, in place of earlier ones of the same file.
    pub fn add_profile(&mut self, profile: ProfileClasses) {
        let is_same = |old: &ProfileClasses| old.file == profile.file && old.slice == profile.slice;
        self.profiles.retain(|old| !is_same(old));
        self.profiles.push(profile);
        self.profiles.sort_by(|a, b| (&a.file, &a.slice).cmp(&(&b.file, &b.slice)));
    }

    /// Adds what was predicted now; a row that was there is replaced, unless nothing is predicted now.
    pub fn add(&mut self, comparisons: &[Comparison], micro: &MicroRows) {
        for row in comparisons.iter().map(ResultRow::of) {
            match self.rows.iter_mut().find(|old| old.id == row.id) {
                Some(old) if row.predicted.is_some() || old.predicted.is_none() => *old = row,
                Some(_) => {}
                None => self.rows.push(row),
            }
        }
        self.rows.sort_by(|a, b| a.id.cmp(&b.id));
        self.differences.extend(comparisons.iter().flat_map(|comparison| comparison.record.approximations.clone()));
        self.differences.sort_unstable();
        self.differences.dedup();
        for row in &micro.known {
            put(&mut self.micro, row, |row| &row.id);
            self.left_out.retain(|(id, _)| *id != row.id);
        }
        self.leave_out(&micro.unknown);
    }

    /// Adds rows of inference that were predicted now, in place of earlier ones of the same name.
    pub fn add_inference(&mut self, rows: &[InferenceRow]) {
        for row in rows {
            put(&mut self.inference, row, |row| &row.id);
            self.left_out.retain(|(id, _)| *id != row.id);
        }
        let key = |row: &InferenceRow| (row.published_tokens_per_s.is_some(), row.id.clone());
        self.inference.sort_by_key(key);
    }

    /// Keeps why rows cannot be predicted.
    pub fn leave_out(&mut self, rows: &[(String, String)]) {
        self.left_out.retain(|(old, _)| rows.iter().all(|(id, _)| id != old));
        self.left_out.extend_from_slice(rows);
    }
}

/// Puts a row in the place of the one of its name, or behind the others.
fn put<T: Clone>(rows: &mut Vec<T>, row: &T, id: impl Fn(&T) -> &str) {
    match rows.iter_mut().find(|old| id(old) == id(row)) {
        Some(old) => *old = row.clone(),
        None => rows.push(row.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut results = Results::new("jax");
        let predicted = Some(Predicted { step_s: 1.1, details: None });
        results.rows.push(ResultRow {
            id: "a".into(),
            slice: "v5e-4".into(),
            table: Table::Verified,
            fitted: false,
            measured_s: Some(1.0),
            predicted,
            failure: None,
        });
        assert_eq!(Results::read(results.to_json().as_bytes()).unwrap(), results);
        assert!((results.rows[0].error().unwrap() - 0.1).abs() < 1e-12);
        assert!(Results::read(results.to_json().replace("\"version\": 1", "\"version\": 9").as_bytes()).is_err());
    }

    /// 100 sequences write 1,000 tokens each in steps of 20 ms, after 50 ms for each prompt.
    #[test]
    fn a_whole_run_has_prefill_and_decode() {
        let json = r#"{"id": "a", "what": "a model", "slice": "v6e-1", "mesh": "one device", "sequences": 100, "step_s": 0.02,
            "low_s": 0.0, "high_s": 1.0, "tokens_per_s": 5000.0, "hbm_bytes": 1, "hbm_limit_bytes": 2,
            "prefill": {"seconds": 0.05, "prompts": 1, "output_tokens": 1000}}"#;
        let mut row: InferenceRow = serde_json::from_str(json).unwrap();
        assert!((row.whole_run_tokens_per_s().unwrap() - 4000.0).abs() < 1e-6);
        row.prefill = None;
        assert_eq!(row.whole_run_tokens_per_s(), None);
        let mut results = Results::new("jax");
        results.add_inference(&[row.clone(), InferenceRow { id: "b".into(), ..row.clone() }]);
        row.step_s = 0.03;
        results.add_inference(&[row]);
        let kept: Vec<_> = results.inference.iter().map(|row| (row.id.as_str(), row.step_s)).collect();
        assert_eq!(kept, [("a", 0.03), ("b", 0.02)]);
        results.leave_out(&[("c".into(), "no".into()), ("a".into(), "not yet".into())]);
        results.add_inference(&results.inference.clone());
        results.leave_out(&[("c".into(), "never".into()), ("d".into(), "no".into())]);
        assert_eq!(results.left_out, [("c".into(), "never".into()), ("d".into(), "no".into())]);
    }

    /// The range is p10 to p90: it holds eight in ten of the verified rows.
    #[test]
    fn the_range_holds_eight_in_ten() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/results/accuracy.json");
        let results = Results::read(&std::fs::read(path).unwrap()).unwrap();
        let verified = results.rows.iter().filter(|row| row.table == Table::Verified);
        let ratios: Vec<f64> = verified.filter_map(|row| Some(1.0 / (1.0 + row.error()?))).collect();
        let (low, high) = crate::estimate::RANGE;
        let inside = ratios.iter().filter(|ratio| (low..=high).contains(*ratio)).count() as f64 / ratios.len() as f64;
        assert!((0.75..=0.85).contains(&inside), "{inside} of {}", ratios.len());
    }
}
