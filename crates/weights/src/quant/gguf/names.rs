//! Names of GGUF files as Hugging Face has them, and what llama.cpp's converter did to the tensors.

use crate::quant::refusal::Refusal;

/// An architecture whose tensors have names in Hugging Face's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// Llama, Mistral, and Mixtral where there are experts.
    Llama,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    Gemma3,
}

const ARCHITECTURES: &[(&str, Architecture)] = &[
    ("llama", Architecture::Llama),
    ("qwen2", Architecture::Qwen2),
    ("qwen3", Architecture::Qwen3),
    ("qwen3moe", Architecture::Qwen3Moe),
    ("gemma3", Architecture::Gemma3),
];

/// What was done to a tensor on its way into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// Halves of the rows of each query head were interleaved.
    QueryRows,
    /// Halves of the rows of each key head were interleaved.
    KeyRows,
    /// 1 was added.
    PlusOne,
}

/// Where a tensor of the file goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One parameter.
    One(String, Change),
    /// One parameter for each expert, named by its number in the place of `{}`.
    Experts(String),
    /// None: the configuration says it.
    Nothing,
}

const MODEL: &[(&str, &str)] =
    &[("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

const LAYER: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Before those of all: norms around blocks.
const GEMMA3_LAYER: &[(&str, &str)] = &[
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

const MIXTRAL_EXPERTS: &[(&str, &str)] = &[
    ("ffn_gate_exps", "block_sparse_moe.experts.{}.w1"),
    ("ffn_down_exps", "block_sparse_moe.experts.{}.w2"),
    ("ffn_up_exps", "block_sparse_moe.experts.{}.w3"),
    ("ffn_gate_inp", "block_sparse_moe.gate"),
];

const QWEN3_EXPERTS: &[(&str, &str)] = &[
    ("ffn_gate_exps", "mlp.experts.{}.gate_proj"),
    ("ffn_down_exps", "mlp.experts.{}.down_proj"),
    ("ffn_up_exps", "mlp.experts.{}.up_proj"),
    ("ffn_gate_inp", "mlp.gate"),
];

impl Architecture {
    pub(crate) fn of(name: &str) -> Result<Architecture, Refusal> {
        let known = ARCHITECTURES.iter().find(|(known, _)| *known == name).map(|(_, architecture)| *architecture);
        known.ok_or_else(|| {
            let names: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
            Refusal::new(
                format!("the architecture `{name}` is not read; {} are", names.join(", ")),
                "take the model as safetensors",
            )
        })
    }

    /// Where a tensor goes; `None` for a name that is not known.
    pub(crate) fn target(self, name: &str) -> Option<Target> {
        if name == "rope_freqs.weight" {
            return Some(Target::Nothing);
        }
        let (stem, ending) = name.rsplit_once('.').filter(|(_, ending)| ["weight", "bias"].contains(ending))?;
        let find = |table: &[(&str, &'static str)], part: &str| {
            table.iter().find(|(own, _)| *own == part).map(|(_, theirs)| *theirs)
        };
        if let Some(theirs) = find(MODEL, stem) {
            return Some(Target::One(format!("{theirs}.{ending}"), self.change(stem)));
        }
        let (number, part) = stem.strip_prefix("blk.")?.split_once('.')?;
        let number: usize = number.parse().ok()?;
        let tables: &[&[(&str, &'static str)]] = match self {
            Architecture::Llama => &[LAYER, MIXTRAL_EXPERTS],
            Architecture::Qwen2 | Architecture::Qwen3 => &[LAYER],
            Architecture::Qwen3Moe => &[LAYER, QWEN3_EXPERTS],
            Architecture::Gemma3 => &[GEMMA3_LAYER, LAYER],
        };
        let theirs = tables.iter().find_map(|table| find(table, part))?;
        let full = format!("model.layers.{number}.{theirs}.{ending}");
        Some(if theirs.contains("{}") { Target::Experts(full) } else { Target::One(full, self.change(part)) })
    }

    /// The name in a file of one of Hugging Face's parameters, and what is to be done to it.
    pub(crate) fn file_name(self, name: &str) -> Option<(String, Change)> {
        let (stem, ending) = name.rsplit_once('.').filter(|(_, ending)| ["weight", "bias"].contains(ending))?;
        if let Some((own, _)) = MODEL.iter().find(|(_, theirs)| *theirs == stem) {
            return Some((format!("{own}.{ending}"), self.change(own)));
        }
        let (number, part) = stem.strip_prefix("model.layers.")?.split_once('.')?;
        let number: usize = number.parse().ok()?;
        let (own, _) = LAYER.iter().find(|(_, theirs)| *theirs == part)?;
        Some((format!("blk.{number}.{own}.{ending}"), self.change(own)))
    }

    fn change(self, part: &str) -> Change {
        match (self, part) {
            (Architecture::Llama, "attn_q") => Change::QueryRows,
            (Architecture::Llama, "attn_k") => Change::KeyRows,
            (Architecture::Gemma3, part) if part.ends_with("norm") => Change::PlusOne,
            _ => Change::None,
        }
    }
}

/// The row of the file that is each row of Hugging Face's matrix, for heads whose halves were interleaved.
pub(crate) fn row_order(rows: usize, heads: usize) -> Option<Vec<usize>> {
    let size = rows.checked_div(heads).filter(|size| *size > 0 && size * heads == rows && size.is_multiple_of(2))?;
    let half = size / 2;
    Some((0..rows).map(|row| row / size * size + row % half * 2 + row % size / half).collect())
}

/// The other way round: the row of Hugging Face's matrix that is each row of the file.
pub(crate) fn interleaved_order(rows: usize, heads: usize) -> Option<Vec<usize>> {
    let order = row_order(rows, heads)?;
    let mut inverse = vec![0; rows];
    order.into_iter().enumerate().for_each(|(row, of_file)| inverse[of_file] = row);
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_changes_are_those_of_the_converter() {
        let check = |architecture: Architecture, name: &str, expected: Option<Target>| {
            assert_eq!(architecture.target(name), expected, "{name}");
        };
        let one = |name: &str, change| Some(Target::One(name.into(), change));
        check(Architecture::Llama, "token_embd.weight", one("model.embed_tokens.weight", Change::None));
        check(
            Architecture::Llama,
            "blk.7.attn_q.weight",
            one("model.layers.7.self_attn.q_proj.weight", Change::QueryRows),
        );
        check(Architecture::Qwen2, "blk.7.attn_q.bias", one("model.layers.7.self_attn.q_proj.bias", Change::None));
        check(Architecture::Gemma3, "output_norm.weight", one("model.norm.weight", Change::PlusOne));
        let norm = "model.layers.0.pre_feedforward_layernorm.weight";
        check(Architecture::Gemma3, "blk.0.ffn_norm.weight", one(norm, Change::PlusOne));
        let experts = Target::Experts("model.layers.1.mlp.experts.{}.up_proj.weight".into());
        check(Architecture::Qwen3Moe, "blk.1.ffn_up_exps.weight", Some(experts));
        check(Architecture::Llama, "rope_freqs.weight", Some(Target::Nothing));
        for unknown in ["blk.x.attn_q.weight", "blk.0.ssm_a", "attn_q.weight", "v.patch_embd.weight", ""] {
            check(Architecture::Llama, unknown, None);
        }
        assert_eq!(row_order(8, 2).unwrap(), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(row_order(8, 3), None);
        assert_eq!(row_order(8, 0), None);
    }
}
