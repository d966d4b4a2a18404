//! Which of their tensors make up one of ours.

use trace::Tree;

use crate::hf::Family;
use crate::stacked::{is_stacked, without_range};

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
    /// Layers of theirs before the first of ours.
    pub(crate) before: usize,
    /// Their name, with `{layer}` and `{expert}` where it is one of several.
    pub(crate) pattern: String,
    pub(crate) layout: Layout,
}

impl Origin {
    /// The name for a layer and an expert.
    pub(crate) fn name(&self, layer: usize, expert: usize) -> String {
        self.pattern.replace("{layer}", &(self.before + layer).to_string()).replace("{expert}", &expert.to_string())
    }

    /// Names of all tensors that make up a parameter of these axes: layers first and experts inside.
    pub(crate) fn names(&self, path: &str, dims: &[usize]) -> Vec<String> {
        let mut dims = dims.iter().copied();
        let mut take = |is_there: bool| if is_there { dims.next().unwrap_or(1) } else { 1 };
        let layers = take(is_stacked(path) && self.is_layered());
        let experts = take(self.has_experts());
        let all = (0..layers).flat_map(|layer| (0..experts).map(move |expert| (layer, expert)));
        all.map(|(layer, expert)| self.name(layer, expert)).collect()
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
    ("lm_head.weight", "lm_head.weight", Layout::Transposed),
    ("layers.attention_norm.weight", "model.layers.{layer}.input_layernorm.weight", Layout::Same),
    ("layers.attention.query.weight", "model.layers.{layer}.self_attn.q_proj.weight", Layout::Transposed),
    ("layers.attention.key.weight", "model.layers.{layer}.self_attn.k_proj.weight", Layout::Transposed),
    ("layers.attention.value.weight", "model.layers.{layer}.self_attn.v_proj.weight", Layout::Transposed),
    ("layers.attention.output.weight", "model.layers.{layer}.self_attn.o_proj.weight", Layout::Transposed),
    ("layers.attention.query_norm.weight", "model.layers.{layer}.self_attn.q_norm.weight", Layout::Same),
    ("layers.attention.key_norm.weight", "model.layers.{layer}.self_attn.k_norm.weight", Layout::Same),
    ("layers.attention.query.bias", "model.layers.{layer}.self_attn.q_proj.bias", Layout::Same),
    ("layers.attention.key.bias", "model.layers.{layer}.self_attn.k_proj.bias", Layout::Same),
    ("layers.attention.value.bias", "model.layers.{layer}.self_attn.v_proj.bias", Layout::Same),
    ("layers.attention.output.bias", "model.layers.{layer}.self_attn.o_proj.bias", Layout::Same),
    ("layers.feed_forward_norm.weight", "model.layers.{layer}.post_attention_layernorm.weight", Layout::Same),
    ("layers.feed_forward.dense.gate.weight", "model.layers.{layer}.mlp.gate_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.up.weight", "model.layers.{layer}.mlp.up_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.down.weight", "model.layers.{layer}.mlp.down_proj.weight", Layout::Transposed),
];

const MIXTRAL_EXPERTS: Table = &[
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

const QWEN3_EXPERTS: Table = &[
    ("layers.feed_forward.experts.router.weight", "model.layers.{layer}.mlp.gate.weight", Layout::Transposed),
    (
        "layers.feed_forward.experts.gate",
        "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
        Layout::Transposed,
    ),
    ("layers.feed_forward.experts.up", "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", Layout::Transposed),
    (
        "layers.feed_forward.experts.down",
        "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight",
        Layout::Transposed,
    ),
];

/// Before those of Llama, which has no multi-head latent attention but the same names around it; experts are named as in Qwen 3.
const DEEPSEEK: Table = &[
    ("layers.attention.query_down.weight", "model.layers.{layer}.self_attn.q_a_proj.weight", Layout::Transposed),
    ("layers.attention.query_down.bias", "model.layers.{layer}.self_attn.q_a_proj.bias", Layout::Same),
    ("layers.attention.query_norm.weight", "model.layers.{layer}.self_attn.q_a_layernorm.weight", Layout::Same),
    ("layers.attention.kv_down.weight", "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight", Layout::Transposed),
    ("layers.attention.kv_down.bias", "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.bias", Layout::Same),
    ("layers.attention.kv_norm.weight", "model.layers.{layer}.self_attn.kv_a_layernorm.weight", Layout::Same),
    ("layers.attention.kv_up.weight", "model.layers.{layer}.self_attn.kv_b_proj.weight", Layout::Transposed),
    ("layers.feed_forward.experts.router.bias", "model.layers.{layer}.mlp.gate.e_score_correction_bias", Layout::Same),
    ("layers.shared.gate.weight", "model.layers.{layer}.mlp.shared_experts.gate_proj.weight", Layout::Transposed),
    ("layers.shared.up.weight", "model.layers.{layer}.mlp.shared_experts.up_proj.weight", Layout::Transposed),
    ("layers.shared.down.weight", "model.layers.{layer}.mlp.shared_experts.down_proj.weight", Layout::Transposed),
];

/// Queries that come from a compressed vector have another name than those that come from the width.
const DEEPSEEK_LOW_QUERY: Table =
    &[("layers.attention.query.weight", "model.layers.{layer}.self_attn.q_b_proj.weight", Layout::Transposed)];

/// Before those of Llama, which has one of these names for another norm.
const GEMMA3_NORMS: Table = &[
    ("layers.attention_output_norm.weight", "model.layers.{layer}.post_attention_layernorm.weight", Layout::Same),
    ("layers.feed_forward_norm.weight", "model.layers.{layer}.pre_feedforward_layernorm.weight", Layout::Same),
    ("layers.feed_forward_output_norm.weight", "model.layers.{layer}.post_feedforward_layernorm.weight", Layout::Same),
];

/// What of a model its names depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    family: Family,
    /// Layers before those that are stacked as `layers`.
    first_layers: usize,
    has_low_queries: bool,
}

impl Naming {
    /// Of a model of that family.
    pub(crate) fn of<P: Tree>(family: Family, model: &P) -> Naming {
        let (paths, specs) = (model.paths(), model.specs());
        let first = paths.iter().zip(&specs).filter(|(path, _)| path.starts_with(FIRST));
        let ends = first.map(|(path, spec)| without_range(path).1 + spec.dims.first().copied().unwrap_or(0));
        Naming {
            family,
            first_layers: ends.max().unwrap_or(0),
            has_low_queries: paths.iter().any(|path| path.contains("attention.query_down.weight")),
        }
    }

    /// Where the parameter at a path comes from.
    pub(crate) fn origin(&self, path: &str) -> Option<Origin> {
        let (path, start) = without_range(path);
        let (path, earlier) = match path.strip_prefix(FIRST) {
            Some(path) => (path, 0),
            None => (&*path, self.first_layers),
        };
        self.of_layers(path).map(|origin| Origin { before: earlier + start, ..origin })
    }

    fn of_layers(&self, path: &str) -> Option<Origin> {
        let low: Table = if self.has_low_queries { DEEPSEEK_LOW_QUERY } else { &[] };
        from_tables(self.family, low, path)
    }
}

/// Where models keep layers before the others.
const FIRST: &str = "first.";

fn from_tables(family: Family, before: Table, path: &str) -> Option<Origin> {
    let tables: &[Table] = match family {
        Family::Gpt2 => &[GPT2],
        Family::Llama => &[LLAMA],
        Family::Mixtral => &[LLAMA, MIXTRAL_EXPERTS],
        Family::Qwen3Moe => &[LLAMA, QWEN3_EXPERTS],
        Family::Gemma3 => &[GEMMA3_NORMS, LLAMA],
        Family::DeepSeek => &[before, DEEPSEEK, LLAMA, QWEN3_EXPERTS],
    };
    let (start, last) = path.rsplit_once('.').unwrap_or(("", path));
    tables.iter().flat_map(|table| table.iter()).find_map(|&(ours, theirs, layout)| {
        let is_match = ours == path || ours.strip_suffix(".*") == Some(start);
        is_match.then(|| Origin { before: 0, pattern: theirs.replace('*', last), layout })
    })
}

/// Whether a name may be in a file though no parameter comes from it: buffers, heads that are tied, and what reads images.
pub(crate) fn is_needless(family: Family, name: &str) -> bool {
    let is_other = match family {
        Family::Gpt2 => name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"),
        Family::Gemma3 => {
            let name = name.strip_prefix("model.").unwrap_or(name);
            name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.") || is_tied_head(name)
        }
        Family::Llama | Family::Mixtral | Family::Qwen3Moe | Family::DeepSeek => name.ends_with(".rotary_emb.inv_freq"),
    };
    is_other || is_tied_head(name)
}

fn is_tied_head(name: &str) -> bool {
    name == "lm_head.weight" || name == "language_model.lm_head.weight"
}

/// Names under which files have it too: of a bare model, or of the model of text within one of images.
pub(crate) fn other_names(family: Family, name: &str) -> Vec<String> {
    let prefix = if family == Family::Gpt2 { "transformer." } else { "model." };
    let Some(bare) = name.strip_prefix(prefix) else {
        return if family == Family::Gemma3 { vec![format!("language_model.{name}")] } else { Vec::new() };
    };
    match family {
        Family::Gemma3 => {
            vec![bare.into(), format!("model.language_model.{bare}"), format!("language_model.model.{bare}")]
        }
        _ => vec![bare.into()],
    }
}
