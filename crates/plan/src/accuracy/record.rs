//! What the exporter says of a run: how to compile it, and what was measured.

use std::collections::BTreeMap;

use chips::Slice;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;

/// The record of an exported run, as `benchmarks/accuracy/export.py` writes it beside the program.
#[derive(Clone, Debug, Deserialize)]
pub struct RunRecord {
    /// Version of the record.
    pub version: u32,
    /// Name of the row.
    pub id: String,
    /// File of the program, beside the record.
    pub program: String,
    /// Slice to compile for.
    pub slice: String,
    /// Devices of the partitions.
    pub device_ids: Vec<i64>,
    /// Compiler flags.
    #[serde(default, rename = "flags")]
    raw_flags: BTreeMap<String, Value>,
    /// The model.
    pub model: String,
    /// Tokens of a step on all devices.
    pub tokens_per_step: Option<f64>,
    /// Operations of the model in a step on one chip, by the row's convention.
    pub model_flops_per_chip: Option<f64>,
    /// Seconds of a step, as published or as the published rate says.
    pub measured_step_s: Option<f64>,
    /// The published figures.
    #[serde(default)]
    measured: Value,
    /// How the program differs from the one that was measured.
    #[serde(default)]
    pub approximations: Vec<String>,
    /// The run itself, for front ends that write it.
    pub run: Option<Run>,
}

/// A training run, as its recipe describes it; names are those of the recipe.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// Dimensions of the model.
    pub model: serde_json::Map<String, Value>,
    /// Sequences in a step.
    pub sequences: usize,
    /// Tokens of a sequence.
    pub sequence: usize,
    /// Devices along each axis within a slice.
    pub mesh_in_slice: BTreeMap<String, u64>,
    /// Slices along each axis.
    pub mesh_between_slices: BTreeMap<String, u64>,
    /// Values kept on the device for the backward pass.
    pub save: Vec<String>,
    /// Values kept on the host.
    pub offload: Vec<String>,
    /// Type of matmuls, if it is not that of activations; `none` otherwise.
    pub quantization: String,
    /// Where scales of matmuls in few bits come from, in the recipe's words: `absmax`, or `fixed,-A,A`; `absmax` if absent.
    #[serde(default)]
    pub calibration: Option<String>,
    /// Type of parameters.
    pub weight_dtype: String,
    /// Room of each expert, as a share of what it would get if all got the same.
    pub capacity_factor: Option<f64>,
}

/// Which table a run belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Figures of the row agree with each other.
    Verified,
    /// Only a rate was published.
    RateOnly,
}

/// The version this program reads.
const VERSION: u32 = 1;

impl RunRecord {
    /// Reads a record.
    pub fn read(json: &[u8]) -> Result<RunRecord, Error> {
        let record: RunRecord = serde_json::from_slice(json).map_err(|error| Error::Record(error.to_string()))?;
        if record.version != VERSION {
            return Err(Error::Record(format!("version {}, this program reads {VERSION}", record.version)));
        }
        Ok(record)
    }

    /// Which table the run belongs to.
    pub fn table(&self) -> Table {
        let pairing = self.measured.get("pairing").and_then(Value::as_str).unwrap_or_default();
        if pairing.starts_with("verified") { Table::Verified } else { Table::RateOnly }
    }

    /// The slice.
    pub(super) fn slice(&self) -> Result<Slice, Error> {
        Ok(self.slice.parse::<Slice>()?)
    }

    /// Compiler flags as text.
    pub(super) fn flags(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        self.raw_flags.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"version": 1, "id": "a/b", "program": "a_b.mlir.bc", "slice": "2xv5e-4", "device_ids": [100000, 200003],
        "flags": {"x": true, "y": 3, "z": "ON"}, "model": "m", "measured": {"pairing": "verified: yes"}, "measured_step_s": 2.0}"#;

    #[test]
    fn records_say_how_to_compile() {
        let record = RunRecord::read(JSON.as_bytes()).unwrap();
        assert_eq!(record.table(), Table::Verified);
        let flags: Vec<(String, String)> = record.flags().into_iter().collect();
        let expected = [("x", "true"), ("y", "3"), ("z", "ON")].map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(flags, expected);
        assert_eq!(record.slice().unwrap().devices(), 8);
        assert!(RunRecord::read(JSON.replace("\"version\": 1", "\"version\": 2").as_bytes()).is_err());
        assert!(RunRecord::read(b"{").is_err());
    }
}
