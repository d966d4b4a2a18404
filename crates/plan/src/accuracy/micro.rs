//! Micro-benchmarks: one matmul, one copy, one collective, against the primitives of the estimate.

use chips::Slice;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xla::{CollectiveKind, PrimitiveType, SpaceBytes, Traffic};

use crate::error::Error;
use crate::machine::Machine;
use crate::work::{Matmul, Work};

/// A micro-benchmark beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroRow {
    /// Name of the row.
    pub id: String,
    /// What was measured, in words.
    pub what: String,
    /// Seconds, as published or as the published rate says.
    pub measured_s: f64,
    /// Seconds predicted.
    pub predicted_s: f64,
}

impl MicroRow {
    /// How far the prediction is off, as a share of the measurement.
    pub fn error(&self) -> f64 {
        self.predicted_s / self.measured_s - 1.0
    }
}

/// The micro-benchmarks of a file of measurements.
#[derive(Clone, Debug, Default)]
pub struct MicroRows {
    /// Those that can be predicted.
    pub known: Vec<MicroRow>,
    /// Those that cannot, by name, with the reason.
    pub unknown: Vec<(String, String)>,
}

/// Reads and predicts the micro-benchmarks of a file of measurements.
pub fn micro_rows(json: &[u8]) -> Result<MicroRows, Error> {
    let file: Value = serde_json::from_slice(json).map_err(|error| Error::Record(error.to_string()))?;
    let rows = file.get("rows").and_then(Value::as_array).ok_or_else(|| Error::Record("there are no `rows`".into()))?;
    let MicroRows { mut known, mut unknown } = MicroRows::default();
    for row in rows.iter().filter(|row| row.get("kind").and_then(Value::as_str) == Some("micro")) {
        let id = text(row, "id").to_string();
        match read(row) {
            Ok((what, measured_s, predicted_s)) => known.push(MicroRow { id, what, measured_s, predicted_s }),
            Err(why) => unknown.push((id, why)),
        }
    }
    Ok(MicroRows { known, unknown })
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(row: &Value, key: &str) -> Result<f64, String> {
    row.get(key).and_then(Value::as_f64).filter(|n| n.is_finite() && *n > 0.0).ok_or_else(|| format!("no `{key}`"))
}

/// What was measured, its seconds, and the seconds predicted.
fn read(row: &Value) -> Result<(String, f64, f64), String> {
    let op = text(row, "op");
    let slice = |topology: &str| -> Result<Slice, String> {
        let name = format!("{}:{topology}", text(row, "tpu"));
        name.parse::<Slice>().map_err(|error| error.to_string())
    };
    if op.contains("gemm") {
        let n = number(row, "n")?;
        let flops = 2.0 * n.powi(3);
        let measured = number(row, "ms").map_or_else(
            |_| number(row, "tflops_per_device").map(|rate| flops / (rate * 1e12)),
            |milliseconds| Ok(milliseconds / 1e3),
        )?;
        let machine = Machine::of(&slice(one_chip(text(row, "tpu")))?);
        let bytes = 3.0 * 2.0 * n * n;
        let size = n as u64;
        let matmul = Matmul { flops, element: PrimitiveType::Bf16, contracted: size, columns: size };
        let work = Work { matmuls: vec![matmul], traffic: moved(bytes), ..Work::default() };
        return Ok((format!("bf16 matmul {n} cubed"), measured, machine.alone_s(&work)));
    }
    if op.contains("copy") {
        let bytes = number(row, "tensor_bytes")?;
        let measured = 2.0 * bytes / (number(row, "GBps_per_device")? * 1e9);
        let machine = Machine::of(&slice(one_chip(text(row, "tpu")))?);
        let work = Work { traffic: moved(2.0 * bytes), ..Work::default() };
        return Ok((format!("copy of {:.0} MB", bytes / 1e6), measured, machine.alone_s(&work)));
    }
    if op.contains("all-gather") {
        let sent = number(row, "transferred_GB")? * 1e9;
        let measured = sent / (number(row, "GBps")? * 1e9);
        let slice = slice(text(row, "topology"))?;
        let machine = Machine::of(&slice);
        let per_chip = machine.torus.devices_per_chip;
        // One core of each of the first four chips.
        let group = machine.torus.group(&(0..4).map(|chip| chip * per_chip).collect::<Vec<_>>());
        let payload = (sent * 4.0 / 3.0) as u64;
        let predicted = machine.collective_s(CollectiveKind::AllGather, payload, &group, 0.0);
        return Ok((format!("all-gather over 4 chips, {:.1} MB received", sent / 1e6), measured, predicted));
    }
    Err(format!("`{op}` does not say what its rate counts"))
}

fn one_chip(tpu: &str) -> &'static str {
    match tpu {
        "v5e" | "v6e" => "1x1",
        "tpu7x" => "1x1x1",
        _ => "2x2x1",
    }
}

fn moved(bytes: f64) -> Traffic {
    let half = SpaceBytes { hbm: bytes / 2.0, ..SpaceBytes::default() };
    Traffic { read: half, written: half }
}
