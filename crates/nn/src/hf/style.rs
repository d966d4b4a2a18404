//! What families do otherwise than Llama, by the keys of their `config.json`; keys with no meaning here are refused.

use crate::error::Error;
use crate::hf::defaults::Kind;
use crate::hf::raw::Raw;
use crate::hf::rope::RawRope;
use crate::layers::{Bias, MlaSizes, RopePairs};
use crate::models::{DecoderNormKind, Family, FeedForwardKind, HeadNorm, Norms, ResidualForm, Style, WindowKind};

impl Raw {
    /// Heads of keys of a Falcon, each with the queries that share it.
    pub(super) fn falcon_groups(&self) -> usize {
        match (self.new_decoder_architecture, self.multi_query.unwrap_or(true)) {
            (false, true) => 1,
            (false, false) => self.num_attention_heads,
            (true, _) => self.num_key_value_heads.unwrap_or(self.num_attention_heads),
        }
    }

    /// The style of a family.
    pub(super) fn style(&self, kind: Kind, mla: Option<MlaSizes>) -> Result<Style, Error> {
        let bias = |has_one: bool| if has_one { Bias::Zero } else { Bias::None };
        let usual = Style { feed_forward_bias: bias(self.mlp_bias), ..Style::default() };
        let head_dim = self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads.max(1));
        let rotary_dim = Some((head_dim as f64 * self.partial_rotary_factor()) as usize);
        let by_width = (self.hidden_size as f64).sqrt();
        let of_scalar = self.query_pre_attn_scalar.map(|scalar| scalar.sqrt().recip());
        let residual = if self.use_parallel_residual { ResidualForm::Parallel } else { ResidualForm::Sequential };
        Ok(match kind {
            // Scores grow with the angles' factor, as in the code that the models were published with.
            Kind::DeepSeek2 | Kind::DeepSeek3 => Style {
                score_scale: mla.map(|mla| {
                    let grown = self.rope().map_or(1.0, RawRope::score_growth);
                    grown / (mla.head_dim() as f64).sqrt()
                }),
                ..usual
            },
            Kind::Qwen3 | Kind::Qwen3Moe => Style { head_norm: HeadNorm::Rms, ..usual },
            Kind::Olmoe => Style { head_norm: HeadNorm::RmsOfAllHeads, family: Some(Family::Qwen3Moe), ..usual },
            Kind::Gemma => Style { norm_offset: 1.0, embedding_scale: by_width, ..usual },
            Kind::Gemma2 => Style {
                norms: Norms::Around,
                norm_offset: 1.0,
                embedding_scale: by_width,
                score_scale: of_scalar,
                score_soft_cap: self.attn_logit_softcapping,
                logit_soft_cap: self.final_logit_softcapping,
                ..usual
            },
            Kind::Gemma3 => Style {
                head_norm: HeadNorm::Rms,
                norms: Norms::Around,
                norm_offset: 1.0,
                embedding_scale: by_width,
                score_scale: of_scalar,
                ..usual
            },
            Kind::Olmo2 | Kind::Olmo3 => Style { head_norm: HeadNorm::RmsOfAllHeads, norms: Norms::After, ..usual },
            Kind::Phi => Style {
                norm_kind: DecoderNormKind::Layer,
                residual: ResidualForm::ParallelOneNorm,
                feed_forward: FeedForwardKind::Plain,
                feed_forward_bias: Bias::Zero,
                head_bias: Bias::Zero,
                rotary_dim,
                family: Some(Family::Phi),
                ..usual
            },
            Kind::Phi3 => Style { rotary_dim, family: Some(Family::Phi3), ..usual },
            Kind::Glm | Kind::Glm4 => Style {
                norms: if kind == Kind::Glm4 { Norms::Around } else { Norms::Before },
                rotary_dim,
                rope_pairs: RopePairs::Neighbours,
                family: Some(Family::Glm4),
                ..usual
            },
            Kind::GptOss => Style { sinks: Bias::Zero, family: Some(Family::GptOss), ..usual },
            Kind::Llama4 => Style {
                head_norm: if self.use_qk_norm { HeadNorm::AfterRotary } else { HeadNorm::None },
                rope_pairs: RopePairs::Neighbours,
                window: WindowKind::Chunk,
                family: Some(Family::Llama4),
                ..usual
            },
            Kind::Granite => Style {
                embedding_scale: self.embedding_multiplier.unwrap_or(1.0),
                residual_scale: self.residual_multiplier.unwrap_or(1.0),
                score_scale: Some(self.attention_multiplier.unwrap_or(1.0)),
                logit_scale: self.logits_scaling.unwrap_or(1.0).recip(),
                ..usual
            },
            Kind::Cohere | Kind::Cohere2 => Style {
                norm_kind: DecoderNormKind::LayerWithoutBias,
                residual: ResidualForm::ParallelOneNorm,
                rope_pairs: RopePairs::Neighbours,
                logit_scale: self.logit_scale.unwrap_or(0.0625),
                ..usual
            },
            Kind::Starcoder2 => Style {
                norm_kind: DecoderNormKind::Layer,
                feed_forward: FeedForwardKind::Plain,
                feed_forward_bias: bias(self.use_bias),
                ..usual
            },
            Kind::StableLm => Style {
                norm_kind: DecoderNormKind::Layer,
                residual: if self.use_parallel_residual { ResidualForm::ParallelOneNorm } else { residual },
                rotary_dim,
                ..usual
            },
            Kind::Falcon => {
                let is_parallel = self.new_decoder_architecture || self.parallel_attn.unwrap_or(true);
                let has_two_norms =
                    self.new_decoder_architecture && self.num_ln_in_parallel_attn.is_none_or(|norms| norms == 2);
                Style {
                    norm_kind: DecoderNormKind::Layer,
                    residual: match (is_parallel, has_two_norms) {
                        (_, true) => ResidualForm::Parallel,
                        (true, false) => ResidualForm::ParallelOneNorm,
                        (false, false) => ResidualForm::Sequential,
                    },
                    feed_forward: FeedForwardKind::Plain,
                    feed_forward_bias: bias(self.use_bias),
                    family: Some(Family::Falcon { groups: self.falcon_groups(), has_two_norms }),
                    ..usual
                }
            }
            Kind::GptNeoX => Style {
                norm_kind: DecoderNormKind::Layer,
                residual,
                feed_forward: FeedForwardKind::Plain,
                feed_forward_bias: Bias::Zero,
                rotary_dim,
                family: Some(Family::GptNeoX { heads: self.num_attention_heads }),
                ..usual
            },
            _ => usual,
        })
    }

    /// The share of a head's features that have rotary positions: what files say with the angles counts.
    fn partial_rotary_factor(&self) -> f64 {
        self.rope().and_then(RawRope::partial_rotary_factor).or(self.partial_rotary_factor).unwrap_or(1.0)
    }

    /// Refuses what would change results and is not known.
    pub(super) fn refuse_unknown(&self, kind: Kind) -> Result<(), Error> {
        let may_have_mlp_bias = matches!(kind, Kind::Llama | Kind::Granite | Kind::SmolLm3);
        let has_caps = kind == Kind::Gemma2;
        let has_partial =
            matches!(kind, Kind::Phi | Kind::Phi3 | Kind::Glm | Kind::Glm4 | Kind::StableLm | Kind::GptNeoX);
        let unknown = [
            (self.mlp_bias && !may_have_mlp_bias, "feed-forwards with a bias (mlp_bias)"),
            (!self.mlp_only_layers.is_empty(), "layers without experts among others (mlp_only_layers)"),
            (self.decoder_sparse_step.unwrap_or(1) != 1, "experts in some layers only (decoder_sparse_step)"),
            (self.moe_layer_freq.unwrap_or(1) != 1, "experts in some layers only (moe_layer_freq)"),
            (
                self.interleave_moe_layer_step.unwrap_or(1) != 1 && kind != Kind::Llama4,
                "experts in some layers only (interleave_moe_layer_step)",
            ),
            (self.moe_layers.is_some() && kind != Kind::Llama4, "experts in some layers only (moe_layers)"),
            (self.attn_logit_softcapping.is_some() && !has_caps, "scores under a soft cap (attn_logit_softcapping)"),
            (self.final_logit_softcapping.is_some() && !has_caps, "logits under a soft cap (final_logit_softcapping)"),
            (self.use_bidirectional_attention, "attention to later positions (use_bidirectional_attention)"),
            (self.qk_layernorm, "layer norms of queries and keys (qk_layernorm)"),
            (self.use_qk_norm && kind != Kind::Llama4, "layer norms of queries and keys (use_qk_norm)"),
            (self.alibi, "positions as a slope of scores (alibi)"),
            (self.clip_qkv.is_some(), "queries, keys and values within bounds (clip_qkv)"),
            (
                self.partial_rotary_factor() != 1.0 && !has_partial,
                "rotary positions of some features (partial_rotary_factor)",
            ),
            (
                kind == Kind::Phi3
                    && self.rope().is_some_and(|rope| !["default", "longrope", "su"].contains(&rope.kind())),
                "stretched angles of phi3 other than longrope (rope_scaling)",
            ),
            (kind == Kind::Phi3 && self.attention_bias, "biases of queries, keys and values of phi3 (attention_bias)"),
        ];
        match unknown.iter().find(|(is_asked, _)| *is_asked) {
            Some((_, what)) => Err(Error::config(format!("{what} are not supported"))),
            None => Ok(()),
        }
    }
}
