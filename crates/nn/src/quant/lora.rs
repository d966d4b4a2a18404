//! Low-rank adapters (LoRA): a tree of their own beside a frozen model, which may be quantized (QLoRA).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::quant::in_training::is_scaled;
use crate::quant::{InputAxis, MapWeights, QuantScheme, Weight};

/// The table `[lora]` of a training file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// Rank of adapters.
    pub rank: usize,
    /// An adapter's result is multiplied by `alpha / rank`.
    pub alpha: f64,
    /// Dropout of an adapter's input.
    #[serde(default)]
    pub dropout: f64,
    /// Layers with an adapter, by the ends of their names in Hugging Face's files, such as `q_proj`; all linear layers but the LM
    /// head if empty.
    #[serde(default)]
    pub target_modules: Vec<String>,
    /// How the frozen weights are quantized as they are loaded (QLoRA); as they are if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<QuantScheme>,
}

impl LoraConfig {
    /// What the result of an adapter is multiplied by.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank.max(1) as f64
    }

    /// Refuses numbers that make no adapter.
    pub fn check(&self) -> Result<(), String> {
        if self.rank == 0 {
            return Err("lora.rank is 0; it must be at least 1".into());
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return Err(format!("lora.alpha is {}; it must be a positive number, often twice the rank", self.alpha));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(format!("lora.dropout is {}; it must be at least 0 and below 1", self.dropout));
        }
        Ok(())
    }
}

/// The two matrices of an adapter; stacked layers have an axis before these.
#[derive(Clone, Debug, Tree)]
pub struct LoraPair {
    /// `[in, rank]`.
    #[tree(rename = "lora_a")]
    pub a: Tensor,
    /// `[rank, out]`, zero at first.
    #[tree(rename = "lora_b")]
    pub b: Tensor,
}

/// Adapters by the paths of the weights they are for.
pub type Adapters = BTreeMap<String, LoraPair>;

/// Adapters of the weights that `is_target` chooses by path, before the first step: `a` is drawn as PEFT draws it, uniformly
/// with a bound of `1 / sqrt(in)`, and `b` is zero.
#[track_caller]
pub fn init_adapters<M: MapWeights>(
    key: &Key,
    model: &M,
    config: &LoraConfig,
    mut is_target: impl FnMut(&str) -> bool,
) -> Adapters {
    let mut adapters = Adapters::new();
    let mut count = 0u64;
    model.map_weights(|path, weight, axis| {
        if can_adapt(path, weight, axis) && is_target(path) {
            count += 1;
            let dims = weight.dims();
            let (layers, inputs, outputs) = (&dims[..dims.len() - 2], dims[dims.len() - 2], dims[dims.len() - 1]);
            let bound = (inputs.max(1) as f64).sqrt().recip();
            let a = [layers, &[inputs, config.rank]].concat();
            adapters.insert(
                path.to_string(),
                LoraPair {
                    a: key.fold_in(count).uniform(DType::F32, &a, -bound, bound),
                    b: Tensor::zeros(DType::F32, &[layers, &[config.rank, outputs]].concat()),
                },
            );
        }
        weight.clone()
    });
    adapters
}

/// Whether a weight can have an adapter: those of linear layers, but not of embeddings, routers, the LM head and experts.
pub fn can_adapt(path: &str, weight: &Weight, axis: InputAxis) -> bool {
    is_scaled(path, weight.dims().len(), axis)
}

/// A model with its adapters merged into dense weights: `w + scale · a · b`, computed in `f32`.
#[track_caller]
pub fn merged<M: MapWeights>(model: &M, adapters: &Adapters, config: &LoraConfig) -> M {
    model.map_weights(|path, weight, _| {
        let Some(pair) = adapters.get(path) else { return weight.clone() };
        let dtype = match weight {
            Weight::Dense(tensor) => tensor.dtype(),
            _ => DType::F32,
        };
        let added = pair.a.cast(DType::F32).matmul(&pair.b.cast(DType::F32));
        let sum = weight.dense(DType::F32) + &added * config.scale();
        Weight::Dense(sum.cast(dtype))
    })
}
