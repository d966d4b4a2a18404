//! Results against expected ones.

use std::path::Path;

use serde::Serialize;
use tensor::{DType, Literal};

use super::inputs;
use super::show::numbers;
use crate::failure::Failure;

/// How results compare with what was expected.
#[derive(Serialize)]
pub(super) struct Comparison {
    pub(super) agrees: bool,
    results: Vec<Difference>,
}

#[derive(Serialize)]
struct Difference {
    name: String,
    agrees: bool,
    /// Relative to the largest expected value.
    largest: f64,
    tolerance: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What results of a type may differ by, relative to the largest value, where nobody says.
fn default_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::C128 => 1e-10,
        DType::F32 | DType::C64 => 1e-4,
        DType::F16 => 5e-3,
        DType::BF16 => 3e-2,
        dtype if dtype.is_float() => 0.25,
        _ => 0.0,
    }
}

pub(super) fn with(
    path: &Path,
    names: &[String],
    results: &[Literal],
    tolerance: Option<f64>,
) -> Result<Comparison, Failure> {
    let expected = inputs::read(path)?;
    let by_name = names.iter().all(|name| expected.iter().any(|(given, _)| given == name));
    if !by_name && expected.len() != results.len() {
        let what = format!("{} has {} arrays for {} results", path.display(), expected.len(), results.len());
        return Err(Failure::new(what).hint("`--out` writes a file of the right form"));
    }
    let mut differences = Vec::new();
    for (index, (name, result)) in names.iter().zip(results).enumerate() {
        let found = if by_name { expected.iter().find(|(given, _)| given == name) } else { expected.get(index) };
        let Some((_, wanted)) = found else { continue };
        differences.push(difference(
            name,
            result,
            wanted,
            tolerance.unwrap_or_else(|| default_tolerance(result.dtype())),
        ));
    }
    Ok(Comparison { agrees: differences.iter().all(|difference| difference.agrees), results: differences })
}

fn difference(name: &str, result: &Literal, wanted: &Literal, tolerance: f64) -> Difference {
    let name = name.to_string();
    if (result.dtype(), result.dims()) != (wanted.dtype(), wanted.dims()) {
        let spec = |literal: &Literal| runtime::Spec::new(literal.dtype(), literal.dims()).to_string();
        let problem = Some(format!("is {}, expected was {}", spec(result), spec(wanted)));
        return Difference { name, agrees: false, largest: f64::NAN, tolerance, at: None, problem };
    }
    let (result, wanted) = (numbers(result), numbers(wanted));
    let scale = wanted.iter().filter(|value| value.is_finite()).fold(0.0f64, |scale, value| scale.max(value.abs()));
    let scale = if scale == 0.0 { 1.0 } else { scale };
    let mut largest = (0.0, None);
    for (at, (one, other)) in result.iter().zip(&wanted).enumerate() {
        let apart = match (one, other) {
            (one, other) if one == other || (one.is_nan() && other.is_nan()) => 0.0,
            (one, other) if one.is_finite() && other.is_finite() => (one - other).abs() / scale,
            _ => f64::INFINITY,
        };
        if apart > largest.0 {
            largest = (apart, Some(at));
        }
    }
    Difference { name, agrees: largest.0 <= tolerance, largest: largest.0, tolerance, at: largest.1, problem: None }
}

impl Comparison {
    pub(super) fn text(&self) -> String {
        let mut text = String::from("expected\n");
        for result in &self.results {
            let verdict = if result.agrees { "agrees" } else { "DIFFERS" };
            text.push_str(&match (&result.problem, result.at) {
                (Some(problem), _) => format!("  {}  {verdict}: {problem}\n", result.name),
                (None, None) => format!("  {}  {verdict}, equal\n", result.name),
                (None, Some(at)) => format!(
                    "  {}  {verdict}: at most {:.2e} apart at element {at}, {:.2e} is allowed\n",
                    result.name, result.largest, result.tolerance
                ),
            });
        }
        text
    }
}
