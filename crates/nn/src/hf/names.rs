//! Which of their tensors make up one of ours.

use trace::Tree;

use crate::hf::layout::{AxisPart, Fused, Layout};
use crate::hf::tables::{
    BERT, DEEPSEEK, DEEPSEEK_LOW_QUERY, DISTILBERT, FALCON, FALCON_ONE_NORM, FALCON_TWO_NORMS, GATE_UP, GEMMA3_NORMS,
    GEMMA4, GLM4_NORMS, GPT_NEOX, GPT_OSS, GPT_OSS_EXPERTS, GPT_OSS_SINGLE_EXPERTS, GPT2, LLAMA, LLAMA4,
    MIXTRAL_EXPERTS, MODERNBERT, OLMO2_NORMS, PHI, PHI3, QWEN3_EXPERTS, Table, WHISPER,
};
use crate::hf::vision_tables::{CLIP_TEXT, CLIP_VISION, CONVNEXT, LLAVA_VISION, VIT};
use crate::hf::{Family, TensorSource};
use crate::stacked::{is_stacked, without_range};

/// Sizes of projections that files have in one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Projections {
    query: usize,
    key: usize,
    /// Groups of heads: in each, queries are followed by keys and values.
    groups: usize,
}

/// Where one of our parameters comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Layers of theirs before the first of ours.
    pub(crate) before: usize,
    /// Their name, with `{layer}` and `{expert}` where it is one of several.
    pub(crate) pattern: String,
    pub(crate) layout: Layout,
    pub(crate) projections: Option<Projections>,
}

impl Origin {
    /// Which elements of their axis ours are, where theirs has more than ours: of an axis of so many of ours.
    pub(crate) fn part(&self, ours: usize) -> Option<AxisPart> {
        let fused = match self.layout {
            Layout::Same | Layout::Transposed | Layout::Kernel | Layout::AloneInBatch => return None,
            Layout::Third(n) => return Some(AxisPart { group: 3 * ours, start: n * ours, count: ours }),
            Layout::Columns(fused) | Layout::Rows(fused) => fused,
        };
        let projections = || {
            let Projections { query, key, groups } = self.projections?;
            Some((query / groups.max(1), key / groups.max(1)))
        };
        Some(match fused {
            Fused::Half(n) => AxisPart { group: 2 * ours, start: n * ours, count: ours },
            Fused::InTurns(n) => AxisPart { group: 2, start: n, count: 1 },
            Fused::Query => {
                let (query, key) = projections()?;
                AxisPart { group: query + 2 * key, start: 0, count: query }
            }
            Fused::Key | Fused::Value => {
                let (query, key) = projections()?;
                let start = if fused == Fused::Key { query } else { query + key };
                AxisPart { group: query + 2 * key, start, count: key }
            }
        })
    }

    /// The axes of their tensor, for a part of ours of these.
    pub(crate) fn dims_in_files(&self, ours: &[usize]) -> Vec<usize> {
        let whole = |size: usize| self.part(size).map_or(size, |part| part.whole(size));
        match (self.layout, ours) {
            (Layout::Transposed, [batch @ .., rows, columns]) => [batch, &[*columns, *rows]].concat(),
            (Layout::Kernel, [spatial @ .., input, output]) => [&[*output, *input], spatial].concat(),
            (Layout::AloneInBatch, ours) => [&[1], ours].concat(),
            (Layout::Rows(_), [batch @ .., rows, columns]) => [batch, &[whole(*columns), *rows]].concat(),
            (Layout::Third(_) | Layout::Columns(_) | Layout::Rows(_), [rest @ .., last]) => {
                rest.iter().copied().chain([whole(*last)]).collect()
            }
            _ => ours.to_vec(),
        }
    }

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

/// What of a model its names depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    family: Family,
    /// Layers before those that are stacked as `layers`.
    first_layers: usize,
    has_low_queries: bool,
    /// Whether files have experts one by one that the family has in one tensor.
    has_single_experts: bool,
    pub(crate) projections: Option<Projections>,
}

impl Naming {
    /// Of a model of that family.
    pub(crate) fn of<P: Tree>(family: Family, model: &P) -> Naming {
        let (paths, specs) = (model.paths(), model.specs());
        let first = paths.iter().zip(&specs).filter(|(path, _)| path.starts_with(FIRST));
        let ends = first.map(|(path, spec)| without_range(path).1 + spec.dims.first().copied().unwrap_or(0));
        let outputs = |end: &str| {
            let found = paths.iter().zip(&specs).find(|(path, _)| without_range(path).0 == end);
            found.and_then(|(_, spec)| spec.dims.last().copied())
        };
        let sizes = outputs("layers.attention.query.weight").zip(outputs("layers.attention.key.weight"));
        let groups = match family {
            Family::GptNeoX { heads } => heads,
            Family::Falcon { groups, .. } => groups,
            _ => 1,
        };
        Naming {
            family,
            first_layers: ends.max().unwrap_or(0),
            has_low_queries: paths.iter().any(|path| path.contains("attention.query_down.weight")),
            has_single_experts: false,
            projections: sizes.map(|(query, key)| Projections { query, key, groups }),
        }
    }

    /// Of a model of that family, as files have it: some have experts one by one that the family has in one tensor.
    pub(crate) fn in_files<P: Tree>(files: &dyn TensorSource, family: Family, model: &P) -> Naming {
        let naming = Naming::of(family, model);
        let first = "model.layers.0.mlp.experts.0.gate_proj.weight";
        Naming { has_single_experts: family == Family::GptOss && files.contains(first), ..naming }
    }

    /// Where the parameter at a path comes from.
    pub(crate) fn origin(&self, path: &str) -> Option<Origin> {
        // Of a stage, the number is a part of their names too.
        if let Some((stage, rest)) = path.strip_prefix("stages.").and_then(|path| path.split_once('.'))
            && self.family == Family::ConvNext
        {
            let origin = self.of_layers(&format!("stages.{rest}"))?;
            return Some(Origin { pattern: origin.pattern.replace("{stage}", stage), ..origin });
        }
        let (path, start) = without_range(path);
        // What reads images has a projector whose first half is called so.
        if matches!(self.family, Family::LlavaVision | Family::ClipVision) {
            return self.of_layers(&path);
        }
        let (path, earlier) = match path.strip_prefix(FIRST) {
            Some(path) => (path, 0),
            None => (&*path, self.first_layers),
        };
        self.of_layers(path).map(|origin| Origin { before: earlier + start, ..origin })
    }

    fn of_layers(&self, path: &str) -> Option<Origin> {
        let low: Table = if self.has_low_queries { DEEPSEEK_LOW_QUERY } else { &[] };
        let tables: &[Table] = match self.family {
            Family::Gpt2 => &[GPT2],
            Family::Llama => &[LLAMA],
            Family::Mixtral => &[LLAMA, MIXTRAL_EXPERTS],
            Family::Qwen3Moe => &[LLAMA, QWEN3_EXPERTS],
            Family::Gemma3 => &[GEMMA3_NORMS, LLAMA],
            Family::DeepSeek => &[low, DEEPSEEK, LLAMA, QWEN3_EXPERTS],
            Family::Olmo2 => &[OLMO2_NORMS, LLAMA],
            Family::Phi => &[PHI, LLAMA],
            Family::Phi3 => &[PHI3, GATE_UP, LLAMA],
            Family::Glm4 => &[GLM4_NORMS, GATE_UP, LLAMA],
            Family::GptOss if self.has_single_experts => &[GPT_OSS, GPT_OSS_SINGLE_EXPERTS, LLAMA, QWEN3_EXPERTS],
            Family::GptOss => &[GPT_OSS, GPT_OSS_EXPERTS, LLAMA],
            Family::Llama4 => &[LLAMA4, LLAMA],
            Family::Gemma4 => &[GEMMA4, GEMMA3_NORMS, LLAMA],
            Family::GptNeoX { .. } => &[GPT_NEOX],
            Family::Bert => &[BERT],
            Family::DistilBert => &[DISTILBERT, BERT],
            Family::ModernBert => &[MODERNBERT],
            Family::Whisper => &[WHISPER],
            Family::Falcon { has_two_norms: true, .. } => &[FALCON_TWO_NORMS, FALCON],
            Family::Falcon { has_two_norms: false, .. } => &[FALCON_ONE_NORM, FALCON],
            Family::LlavaVision => &[LLAVA_VISION],
            Family::ClipText => &[CLIP_TEXT],
            Family::ClipVision => &[CLIP_VISION, LLAVA_VISION],
            Family::Vit => &[VIT],
            Family::ConvNext => &[CONVNEXT],
        };
        let (start, last) = path.rsplit_once('.').unwrap_or(("", path));
        tables.iter().flat_map(|table| table.iter()).find_map(|&(ours, theirs, layout)| {
            let is_match = ours == path || ours.strip_suffix(".*") == Some(start);
            let projections = self.projections;
            is_match.then(|| Origin { before: 0, pattern: theirs.replace('*', last), layout, projections })
        })
    }
}

/// Where models keep layers before the others.
const FIRST: &str = "first.";

/// Whether a name may be in a file though no parameter comes from it: buffers, heads that are tied, and what reads images.
pub(crate) fn is_needless(family: Family, name: &str) -> bool {
    let is_other = match family {
        Family::Gpt2 => name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"),
        Family::LlavaVision | Family::ClipText | Family::ClipVision => true,
        Family::Vit => name.starts_with("vit.pooler."),
        // Files have keys and values of layers that share those of others, too.
        Family::Gemma4
            if ["k_proj", "v_proj", "k_norm"].iter().any(|end| name.ends_with(&format!(".self_attn.{end}.weight"))) =>
        {
            true
        }
        Family::Gemma3 | Family::Gemma4 | Family::Llama4 | Family::Llama => {
            let is_buffer = name.ends_with(".rotary_emb.inv_freq");
            let name = name.strip_prefix("model.").unwrap_or(name);
            READS_IMAGES.iter().any(|start| name.starts_with(start)) || is_buffer
        }
        Family::GptNeoX { .. } => {
            let ends = [".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"];
            ends.iter().any(|end| name.ends_with(end))
        }
        // Heads of what the encoder was trained for.
        Family::Bert | Family::DistilBert => {
            let name = ENCODER_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
            !["embeddings.", "encoder.", "transformer."].iter().any(|start| name.starts_with(start))
                || name.ends_with("embeddings.position_ids")
                || name.ends_with("embeddings.token_type_ids")
        }
        Family::Whisper => name == "proj_out.weight",
        Family::ModernBert => ["head.", "decoder.", "classifier."].iter().any(|start| name.starts_with(start)),
        _ => name.ends_with(".rotary_emb.inv_freq"),
    };
    is_other || is_tied_head(name)
}

/// Starts of the names of what reads images or sounds.
const READS_IMAGES: [&str; 8] = [
    "vision_tower.",
    "vision_model.",
    "multi_modal_projector.",
    "visual.",
    "audio_tower.",
    "embed_vision.",
    "embed_audio.",
    "image_newline",
];

fn is_tied_head(name: &str) -> bool {
    name == "lm_head.weight" || name == "language_model.lm_head.weight"
}

/// What stands before the names of an encoder that is a part of a model.
const ENCODER_PREFIXES: [&str; 3] = ["bert.", "roberta.", "distilbert."];

/// Names under which files have it too: of a bare model, or of the model of text within one of images.
pub(crate) fn other_names(family: Family, name: &str) -> Vec<String> {
    if matches!(family, Family::Bert | Family::DistilBert) {
        // Older files have other names for the two parts of a norm.
        let older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let both = if older == name { vec![older] } else { vec![name.to_string(), older] };
        let within = both.iter().flat_map(|name| ENCODER_PREFIXES.map(|prefix| format!("{prefix}{name}")));
        return both.iter().cloned().chain(within).collect();
    }
    if family == Family::LlavaVision {
        let bare = name.replace("vision_tower.vision_model.", "vision_tower.");
        return vec![format!("model.{name}"), bare.clone(), format!("model.{bare}")];
    }
    // The tower of a LLaVA is a CLIP's within another model.
    if family == Family::ClipVision {
        return vec![name.replace("vision_tower.", "")];
    }
    if matches!(family, Family::Vit | Family::ConvNext | Family::ClipText) {
        return Vec::new();
    }
    if family == Family::ModernBert {
        return vec![format!("model.{name}")];
    }
    let prefix = match family {
        Family::Gpt2 | Family::Falcon { .. } => "transformer.",
        Family::GptNeoX { .. } => "gpt_neox.",
        _ => "model.",
    };
    let may_be_within = matches!(family, Family::Gemma3 | Family::Gemma4 | Family::Llama4 | Family::Llama);
    let Some(bare) = name.strip_prefix(prefix) else {
        return if may_be_within { vec![format!("language_model.{name}")] } else { Vec::new() };
    };
    if may_be_within {
        return vec![bare.into(), format!("model.language_model.{bare}"), format!("language_model.model.{bare}")];
    }
    vec![bare.into()]
}
