//! Models a training's file may name: Hugging Face's language models in their own words, models of images, and programs of PyTorch.

use std::path::Path;

use nn::hf;
use nn::models::{ResNetConfig, VitConfig};
use serde_json::Value;

use crate::error::Error;
use crate::imported::ImportedModel;

/// A model and its sizes.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has one of these")]
pub enum TrainModelConfig {
    /// GPT-2, Llama, Mistral, Mixtral, Qwen 2 or 3, Gemma 3, or DeepSeek 2 or 3.
    Language(hf::ModelConfig),
    /// A vision transformer.
    Vit(VitConfig),
    /// A program of PyTorch.
    Program(ImportedModel),
    /// A residual network, with norms of groups: statistics of a batch are no parameters.
    ResNet(ResNetConfig),
}

impl TrainModelConfig {
    /// From the table `[model]`: `model_type` and its sizes, as a `config.json` has them, or `config`, the path of one, or
    /// `program`, an archive of PyTorch.
    pub fn read(table: &Value, beside: &Path) -> Result<TrainModelConfig, Error> {
        let wrong = |error: &dyn std::fmt::Display| {
            Error::new(format!("[model]: {error}")).hint("docs/reference/train.md lists the models and their sizes")
        };
        if table.get("program").is_some() {
            return Ok(TrainModelConfig::Program(ImportedModel::open(table, beside)?));
        }
        if let Some(path) = table.get("config").and_then(Value::as_str) {
            return Ok(TrainModelConfig::Language(hf::read_config(&beside.join(path)).map_err(|error| wrong(&error))?));
        }
        let sizes = || {
            let mut sizes = table.clone();
            if let Some(sizes) = sizes.as_object_mut() {
                sizes.remove("model_type");
            }
            sizes
        };
        match table.get("model_type").and_then(Value::as_str) {
            Some("vit") => Ok(TrainModelConfig::Vit(serde_json::from_value(sizes()).map_err(|error| wrong(&error))?)),
            Some("resnet") => {
                Ok(TrainModelConfig::ResNet(serde_json::from_value(sizes()).map_err(|error| wrong(&error))?))
            }
            Some(_) => Ok(TrainModelConfig::Language(
                hf::ModelConfig::parse(&table.to_string()).map_err(|error| wrong(&error))?,
            )),
            None => Err(wrong(&"there is neither `model_type` nor `config` nor `program`")),
        }
    }
}

/// Sizes of a model of token sequences, in the words of all families.
pub struct TokenSizes {
    /// Tokens it knows.
    pub vocabulary: usize,
    /// Positions of a sequence it knows.
    pub positions: usize,
    /// Weights of matmuls that a token passes, the head among them.
    pub active_weights: f64,
    /// Width of all heads of all layers.
    pub attention: usize,
    /// Share of all weights that routed experts are; 0 where there are none.
    pub expert_share: f64,
}

impl TokenSizes {
    /// Sizes of a model.
    pub fn of(config: &hf::ModelConfig) -> TokenSizes {
        match config {
            hf::ModelConfig::Gpt2(config) => {
                let (width, layers) = (config.n_embd, config.n_layer);
                let layer = 4 * width * width + 2 * width * config.inner();
                TokenSizes {
                    vocabulary: config.vocab_size,
                    positions: config.n_positions,
                    active_weights: (layers * layer + config.vocab_size * width) as f64,
                    attention: layers * width,
                    expert_share: 0.0,
                }
            }
            hf::ModelConfig::Llama(config) => {
                let (width, layers) = (config.hidden_size, config.num_hidden_layers);
                let (queries, keys) =
                    (config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim);
                let attention = match &config.mla {
                    None => width * (2 * queries + 2 * keys),
                    Some(mla) => {
                        let heads = config.num_attention_heads;
                        let query = mla.q_lora_rank.map_or(width * queries, |rank| rank * (width + queries));
                        let key_value = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim);
                        query
                            + width * (mla.kv_lora_rank + mla.qk_rope_head_dim)
                            + key_value
                            + heads * mla.v_head_dim * width
                    }
                };
                let chosen = config.experts.as_ref().map_or(1, |experts| experts.chosen);
                let shared = config.experts.as_ref().and_then(|experts| experts.shared).unwrap_or(0);
                let others = config.feed_forward_matmuls() * width * (chosen * config.intermediate_size + shared);
                let first = config.experts.and_then(|experts| experts.dense).map_or(0, |dense| dense.inner);
                let dense = config.num_dense_layers();
                let interleaved = config.experts.and_then(|experts| experts.interleaved).map_or(0, |dense| dense.inner);
                let between = config.num_interleaved_dense_layers();
                let mixtures = layers - dense - between;
                let weights =
                    layers * attention + mixtures * others + 3 * width * (dense * first + between * interleaved);
                let routed = |count: usize| {
                    let each = config.feed_forward_matmuls() * width * config.intermediate_size;
                    mixtures as f64 * each as f64 * count as f64
                };
                let all_routed = config.experts.as_ref().map_or(0.0, |experts| routed(experts.count));
                let active_weights = (weights + config.vocab_size * width) as f64;
                // The embedding is no weight of a matmul.
                let all = active_weights - routed(chosen) + all_routed + (config.vocab_size * width) as f64;
                TokenSizes {
                    vocabulary: config.vocab_size,
                    positions: config.max_position_embeddings,
                    active_weights,
                    attention: layers * queries,
                    expert_share: all_routed / all.max(1.0),
                }
            }
            hf::ModelConfig::Gemma4(config) => {
                let width = config.hidden_size;
                let heads = config.is_full.iter().map(|&is_full| config.attention(is_full).head_dim);
                let active_weights = (config.active_layer_weights() + config.vocab_size * width) as f64;
                let (chosen, all_routed) = config.experts.map_or((0.0, 0.0), |experts| {
                    let one = (config.is_full.len() * 3 * width * experts.inner) as f64;
                    (one * experts.chosen as f64, one * experts.count as f64)
                });
                let all = active_weights - chosen + all_routed + (config.vocab_size * width) as f64;
                TokenSizes {
                    vocabulary: config.vocab_size,
                    positions: config.max_position_embeddings,
                    active_weights,
                    attention: heads.sum::<usize>() * config.num_attention_heads,
                    expert_share: all_routed / all.max(1.0),
                }
            }
        }
    }

    /// Operations of training on a token: 6 for each weight it passes, 12 for each position and each element of its
    /// queries. Attention is not halved for the causal mask; recomputation is not counted.
    pub fn flops_per_token(&self, sequence: usize) -> f64 {
        6.0 * self.active_weights + 12.0 * (self.attention * sequence) as f64
    }
}
