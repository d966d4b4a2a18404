//! Factors for inputs folded into what comes before them: AWQ and SmoothQuant on a layer.

use std::collections::BTreeMap;

use nn::models::LlamaConfig;

use crate::error::Error;
use crate::methods::{InputScales, InputStatistics, Matrix, Rounding, awq, smoothquant};
use crate::pipeline::calibration::observed_as;
use crate::pipeline::layers::{LayerPlan, Tensors, matrix, put, put_vector, vector};
use crate::pipeline::plan::Method;

/// The usual strength of SmoothQuant.
const SMOOTH_STRENGTH: f64 = 0.5;

/// Weights that share an input, and what gives it.
struct Shared {
    readers: &'static [&'static str],
    before: Before,
}

/// What takes factors back.
enum Before {
    /// The norm whose name ends so.
    Norm(&'static str),
    /// The outputs of a weight.
    Weight(&'static str),
}

/// Finds factors for the inputs of a layer's weights and folds them in; statistics become those of the new inputs.
pub(crate) fn fold(
    method: Method,
    config: &LlamaConfig,
    layer: &LayerPlan,
    tensors: &mut Tensors,
    statistics: &mut BTreeMap<String, InputStatistics>,
    rounding: &Rounding,
) -> Result<(), Error> {
    let is_plain = config.has_plain_layers();
    if !is_plain || config.mla.is_some() {
        return Err(Error::setting(
            "this family has no place for factors of inputs: only decoders with one RMS norm before each half of a layer have",
            "give --method gptq",
        ));
    }
    let mut groups = vec![
        Shared {
            readers: &["attention.query.weight", "attention.key.weight", "attention.value.weight"],
            before: Before::Norm("input_layernorm.weight"),
        },
        Shared {
            readers: &["feed_forward.dense.gate.weight", "feed_forward.dense.up.weight"],
            before: Before::Norm("post_attention_layernorm.weight"),
        },
        Shared { readers: &["feed_forward.dense.down.weight"], before: Before::Weight("feed_forward.dense.up.weight") },
    ];
    // With grouped-query attention several heads read one value, so that no factor can be taken back.
    if config.num_attention_heads == config.num_key_value_heads {
        groups.push(Shared { readers: &["attention.output.weight"], before: Before::Weight("attention.value.weight") });
    }
    for group in groups {
        let name = |path: &str| layer.targets.iter().find(|target| target.path == path)?.names.first().cloned();
        let names: Vec<String> = group.readers.iter().filter_map(|path| name(path)).collect();
        let seen = group.readers.first().and_then(|path| statistics.get(&observed_as(path)));
        let (Some(seen), false) = (seen, names.is_empty()) else { continue };
        let weights = names.iter().map(|name| matrix(tensors, name)).collect::<Result<Vec<Matrix>, Error>>()?;
        let together: Vec<&Matrix> = weights.iter().collect();
        let scales = match method {
            Method::SmoothQuant => smoothquant::scales(&together, seen, SMOOTH_STRENGTH)?,
            _ => awq::search(&together, rounding, seen, &awq::AwqOptions::default())?.scales,
        };
        for mut weight in weights {
            scales.apply(&mut weight)?;
            put(tensors, weight)?;
        }
        let inverse = scales.inverse_factors();
        match group.before {
            Before::Norm(end) => {
                let norm = layer.names.iter().find(|name| name.ends_with(end)).cloned().unwrap_or_default();
                let values = vector(tensors, &norm)?;
                let values: Vec<f32> = values.iter().zip(&inverse).map(|(value, factor)| value * factor).collect();
                put_vector(tensors, &norm, &values)?;
            }
            Before::Weight(path) => {
                let before = name(path).unwrap_or_default();
                let mut weight = matrix(tensors, &before)?;
                weight.scale_outputs(&inverse)?;
                put(tensors, weight)?;
                let bias = before.replace(".weight", ".bias");
                if tensors.contains_key(&bias) {
                    let values = vector(tensors, &bias)?;
                    let values: Vec<f32> = values.iter().zip(&inverse).map(|(value, factor)| value * factor).collect();
                    put_vector(tensors, &bias, &values)?;
                }
            }
        }
        let scaled = scaled(seen, &scales)?;
        for path in group.readers {
            statistics.insert(observed_as(path), scaled.clone());
        }
    }
    Ok(())
}

/// Statistics of inputs that are divided by factors.
fn scaled(statistics: &InputStatistics, scales: &InputScales) -> Result<InputStatistics, Error> {
    let inverse = scales.inverse_factors();
    let width = inverse.len().max(1);
    let rows = statistics.gram().chunks_exact(width).zip(&inverse);
    let gram = rows.flat_map(|(row, own)| row.iter().zip(&inverse).map(move |(value, other)| value * own * other));
    let by_input = |values: &[f32]| values.iter().zip(&inverse).map(|(value, factor)| value * factor).collect();
    InputStatistics::from_parts(
        statistics.name(),
        statistics.rows(),
        gram.collect(),
        by_input(statistics.mean_abs()),
        by_input(statistics.max_abs()),
    )
}
