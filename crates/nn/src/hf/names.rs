//! Which of their tensors make up one of ours.

use crate::hf::Family;

/// How one of their tensors lies in ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As it is.
    Same,
    /// A matrix with its axes exchanged: theirs is `[out, in]`.
    Transposed,
    /// This third of the last axis: queries, keys and values in one.
    Third(usize),
}

/// Where one of our parameters comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Their name, with `{layer}` and `{expert}` where it is one of several.
    pub(crate) pattern: String,
    pub(crate) layout: Layout,
}

impl Origin {
    /// The name for a layer and an expert.
    pub(crate) fn name(&self, layer: usize, expert: usize) -> String {
        self.pattern.replace("{layer}", &layer.to_string()).replace("{expert}", &expert.to_string())
    }

    pub(crate) fn is_layered(&self) -> bool {
        self.pattern.contains("{layer}")
    }

    pub(crate) fn has_experts(&self) -> bool {
        self.pattern.contains("{expert}")
    }
}

/// Our paths and their names; `*` stands for `weight` or `bias`.
type Table = &'static [(&'static str, &'static str, Layout)];

const GPT2: Table = &[
    ("token_embedding.weight", "transformer.wte.weight", Layout::Same),
    ("position_embedding.weight", "transformer.wpe.weight", Layout::Same),
    ("norm.*", "transformer.ln_f.*", Layout::Same),
    ("layers.attention_norm.*", "transformer.h.{layer}.ln_1.*", Layout::Same),
    ("layers.attention.query.*", "transformer.h.{layer}.attn.c_attn.*", Layout::Third(0)),
    ("layers.attention.key.*", "transformer.h.{layer}.attn.c_attn.*", Layout::Third(1)),
    ("layers.attention.value.*", "transformer.h.{layer}.attn.c_attn.*", Layout::Third(2)),
    ("layers.attention.output.*", "transformer.h.{layer}.attn.c_proj.*", Layout::Same),
    ("layers.feed_forward_norm.*", "transformer.h.{layer}.ln_2.*", Layout::Same),
    ("layers.feed_forward.up.*", "transformer.h.{layer}.mlp.c_fc.*", Layout::Same),
    ("layers.feed_forward.down.*", "transformer.h.{layer}.mlp.c_proj.*", Layout::Same),
];

const LLAMA: Table = &[
    ("token_embedding.weight", "model.embed_tokens.weight", Layout::Same),
    ("norm.weight", "model.norm.weight", Layout::Same),
    ("head.weight", "lm_head.weight", Layout::Transposed),
    ("layers.attention_norm.weight", "model.layers.{layer}.input_layernorm.weight", Layout::Same),
    ("layers.attention.query.weight", "model.layers.{layer}.self_attn.q_proj.weight", Layout::Transposed),
    ("layers.attention.key.weight", "model.layers.{layer}.self_attn.k_proj.weight", Layout::Transposed),
    ("layers.attention.value.weight", "model.layers.{layer}.self_attn.v_proj.weight", Layout::Transposed),
    ("layers.attention.output.weight", "model.layers.{layer}.self_attn.o_proj.weight", Layout::Transposed),
    ("layers.attention.query.bias", "model.layers.{layer}.self_attn.q_proj.bias", Layout::Same),
    ("layers.attention.key.bias", "model.layers.{layer}.self_attn.k_proj.bias", Layout::Same),
    ("layers.attention.value.bias", "model.layers.{layer}.self_attn.v_proj.bias", Layout::Same),
    ("layers.attention.output.bias", "model.layers.{layer}.self_attn.o_proj.bias", Layout::Same),
    ("layers.feed_forward_norm.weight", "model.layers.{layer}.post_attention_layernorm.weight", Layout::Same),
    ("layers.feed_forward.dense.gate.weight", "model.layers.{layer}.mlp.gate_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.up.weight", "model.layers.{layer}.mlp.up_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.down.weight", "model.layers.{layer}.mlp.down_proj.weight", Layout::Transposed),
];

const EXPERTS: Table = &[
    (
        "layers.feed_forward.experts.router.weight",
        "model.layers.{layer}.block_sparse_moe.gate.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.gate",
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.down",
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.up",
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight",
        Layout::Transposed,
    ),
];

/// Where the parameter at a path comes from.
pub(crate) fn origin(family: Family, path: &str) -> Option<Origin> {
    let tables: &[Table] = match family {
        Family::Gpt2 => &[GPT2],
        Family::Llama => &[LLAMA],
        Family::Mixtral => &[LLAMA, EXPERTS],
    };
    let (start, last) = path.rsplit_once('.').unwrap_or(("", path));
    tables.iter().flat_map(|table| table.iter()).find_map(|&(ours, theirs, layout)| {
        let is_match = ours == path || ours.strip_suffix(".*") == Some(start);
        is_match.then(|| Origin { pattern: theirs.replace('*', last), layout })
    })
}

/// Whether a name may be in a file though no parameter comes from it: buffers, and heads that are tied.
pub(crate) fn is_needless(family: Family, name: &str) -> bool {
    let is_buffer = match family {
        Family::Gpt2 => name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"),
        Family::Llama | Family::Mixtral => name.ends_with(".rotary_emb.inv_freq"),
    };
    is_buffer || name == "lm_head.weight"
}

/// The name without the prefix that files of a bare model leave out.
pub(crate) fn bare(family: Family, name: &str) -> Option<&str> {
    match family {
        Family::Gpt2 => name.strip_prefix("transformer."),
        Family::Llama | Family::Mixtral => name.strip_prefix("model."),
    }
}
