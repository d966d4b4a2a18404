//! Which layers of a decoder attend to everything before, to a window, or know no positions, as a `config.json` says it.

use crate::error::Error;
use crate::hf::defaults::Kind;
use crate::hf::raw::Raw;

/// Attention masks of the layers of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerMasks {
    /// Causal.
    Full,
    /// Sliding windows.
    Sliding,
    /// Sliding windows, and full causal attention in the last of every so many layers.
    FullEvery(usize),
}

impl Raw {
    /// Masks of the layers.
    pub(super) fn layer_masks(&self, kind: Kind) -> Result<LayerMasks, Error> {
        let layers = self.num_hidden_layers;
        if self.sliding_window.is_none() {
            return Ok(LayerMasks::Full);
        }
        if kind == Kind::SmolLm3 && self.use_sliding_window == Some(true) {
            return Err(Error::config("sliding windows of smollm3 (use_sliding_window) are not supported"));
        }
        let is_qwen = matches!(kind, Kind::Qwen2 | Kind::Qwen3 | Kind::Qwen3Moe);
        if is_qwen && self.use_sliding_window != Some(true) {
            return Ok(LayerMasks::Full);
        }
        if let Some(types) = &self.layer_types {
            return layer_masks_of(types, layers);
        }
        match kind {
            Kind::Phi3 | Kind::Starcoder2 => Ok(LayerMasks::Sliding),
            Kind::Mistral | Kind::Mixtral if self.use_sliding_window.unwrap_or(true) => Ok(LayerMasks::Sliding),
            Kind::Qwen2 | Kind::Qwen3 => match self.max_window_layers {
                0 => Ok(LayerMasks::Sliding),
                from if from >= layers => Ok(LayerMasks::Full),
                from => Err(Error::config(format!(
                    "sliding windows from layer {from} of {layers} on (max_window_layers) are not supported; only in all layers or in none"
                ))),
            },
            Kind::Qwen3Moe => Ok(LayerMasks::Sliding),
            Kind::Gemma2 | Kind::Gemma3 | Kind::Olmo3 | Kind::GptOss | Kind::Cohere2 => {
                match self.sliding_window_pattern {
                    0 => Err(Error::config("sliding_window_pattern is 0")),
                    1 => Ok(LayerMasks::Full),
                    every if every > layers => Ok(LayerMasks::Sliding),
                    every => Ok(LayerMasks::FullEvery(every)),
                }
            }
            _ => Ok(LayerMasks::Full),
        }
    }

    /// One of every so many layers knows no positions (NoPE): the last; `None` where all know them.
    pub(super) fn layers_without_positions(&self) -> Result<Option<usize>, Error> {
        let layers = self.num_hidden_layers;
        let Some(listed) = self.no_rope_layers.as_ref().filter(|listed| !listed.is_empty()) else {
            return match self.no_rope_layer_interval {
                Some(0) => Err(Error::config("no_rope_layer_interval is 0")),
                every => Ok(every.filter(|every| *every <= layers)),
            };
        };
        // 1 where a layer has rotary positions.
        if listed.len() < layers {
            return Err(Error::config(format!(
                "no_rope_layers lists {} layers, but the model has {layers}",
                listed.len()
            )));
        }
        let listed = listed.get(..layers).unwrap_or_default();
        let Some(first) = listed.iter().position(|has_rope| *has_rope == 0) else { return Ok(None) };
        let is_regular = listed.iter().enumerate().all(|(n, has)| (*has == 0) == ((n + 1) % (first + 1) == 0));
        if first == 0 || !is_regular {
            return Err(Error::config(
                "no_rope_layers is no regular order: the last of every so many layers must be the one without rotary positions",
            ));
        }
        Ok(Some(first + 1))
    }

    /// Layers of Llama 4: those with rotary positions have chunks, the others see everything.
    pub(super) fn check_chunks(&self, every: Option<usize>) -> Result<(), Error> {
        let Some(types) = &self.layer_types else { return Ok(()) };
        let is_chunk = |layer: usize| every.is_none_or(|every| !(layer + 1).is_multiple_of(every));
        let expected = |layer: usize| if is_chunk(layer) { "chunked_attention" } else { "full_attention" };
        let is_right = types.len() == self.num_hidden_layers
            && types.iter().enumerate().all(|(layer, name)| name == expected(layer));
        if !is_right {
            return Err(Error::config(
                "layer_types of llama4_text: layers with rotary positions must be chunked_attention, others full_attention",
            ));
        }
        Ok(())
    }
}

/// What the types of layers that a file lists say of all.
fn layer_masks_of(types: &[String], layers: usize) -> Result<LayerMasks, Error> {
    if types.len() != layers {
        return Err(Error::config(format!("layer_types lists {} layers, but the model has {layers}", types.len())));
    }
    let mut is_full = Vec::with_capacity(types.len());
    for name in types {
        is_full.push(match name.as_str() {
            "full_attention" => true,
            "sliding_attention" => false,
            other => return Err(Error::config(format!("layers of type `{other}` (layer_types) are not supported"))),
        });
    }
    match is_full.iter().position(|is_full| *is_full) {
        None => Ok(LayerMasks::Sliding),
        Some(0) if is_full.iter().all(|is_full| *is_full) => Ok(LayerMasks::Full),
        Some(first)
            if first > 0 && is_full.iter().enumerate().all(|(n, full)| *full == ((n + 1) % (first + 1) == 0)) =>
        {
            Ok(LayerMasks::FullEvery(first + 1))
        }
        Some(_) => Err(Error::config(
            "layer_types is no regular order: the last of every so many layers must be the one with full_attention",
        )),
    }
}
