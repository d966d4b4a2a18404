//! Results as people read them: shape, range, mean and the first values.

use serde::Serialize;
use tensor::{DType, Literal, decode_float};

use crate::output::{Align, Table};

/// Values that are shown of a large array.
const FIRST: usize = 6;

/// What is said of a result.
#[derive(Serialize)]
pub(super) struct Summary {
    name: String,
    shape: String,
    least: Option<f64>,
    greatest: Option<f64>,
    mean: Option<f64>,
    not_finite: usize,
    first: Vec<f64>,
}

/// Elements as numbers; the parts of complex numbers one after the other.
pub(super) fn numbers(literal: &Literal) -> Vec<f64> {
    let part = match literal.dtype() {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    };
    let width = part.size_bytes();
    let decode = |bytes: &[u8]| {
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(raw);
        match decode_float(part, bits) {
            Some(value) => value,
            None if part.is_signed_integer() => {
                let spare = 64 - 8 * width as u32;
                (((bits << spare) as i64) >> spare) as f64
            }
            None => bits as f64,
        }
    };
    literal.bytes().chunks_exact(width).map(decode).collect()
}

pub(super) fn summary(name: &str, literal: &Literal) -> Summary {
    let values = numbers(literal);
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let mean = (!finite.is_empty()).then(|| finite.iter().sum::<f64>() / finite.len() as f64);
    Summary {
        name: name.to_string(),
        shape: runtime::Spec::new(literal.dtype(), literal.dims()).to_string(),
        least: finite.iter().copied().reduce(f64::min),
        greatest: finite.iter().copied().reduce(f64::max),
        mean,
        not_finite: values.len() - finite.len(),
        first: values.into_iter().take(FIRST).collect(),
    }
}

pub(super) fn table(results: &[Summary]) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["name", "shape", "least", "greatest", "mean", "first values"]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_string(), short);
    for result in results {
        let mut first: Vec<String> = result.first.iter().copied().map(short).collect();
        if result.not_finite > 0 {
            first.push(format!("({} not finite)", result.not_finite));
        }
        let range = [number(result.least), number(result.greatest), number(result.mean), first.join(" ")];
        table.row([result.name.clone(), result.shape.clone()].into_iter().chain(range));
    }
    table.render()
}

/// One value in one line.
pub(super) fn line(literal: &Literal, location: &str) -> String {
    let first: Vec<String> = numbers(literal).into_iter().take(FIRST).map(short).collect();
    let more = if literal.num_elements() > FIRST { " …" } else { "" };
    format!("{}  {}{more}  # {location}", runtime::Spec::new(literal.dtype(), literal.dims()), first.join(" "))
}

fn short(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e6 {
        format!("{value}")
    } else if (1e-3..1e5).contains(&size) {
        format!("{value:.4}")
    } else {
        format!("{value:.3e}")
    }
}
