//! `config.json` of models that read images: the towers of LLaVA, and classifiers (ViT, ConvNeXt).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::hf::config::ModelConfig;
use crate::layers::{Activation, Bias};
use crate::models::{
    ClipConfig, ClipTextConfig, ConvNextConfig, Family, LlavaConfig, LlavaPositions, VisionConfig, VisionKind,
    VitConfig,
};

/// Most labels of a classifier.
const MAX_LABELS: usize = 1 << 20;

/// `vision_config`.
#[derive(Deserialize)]
#[serde(default)]
struct RawTower {
    model_type: String,
    image_size: usize,
    patch_size: usize,
    num_channels: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: Option<Activation>,
    layer_norm_eps: Option<f64>,
}

impl Default for RawTower {
    fn default() -> RawTower {
        RawTower {
            model_type: "clip_vision_model".into(),
            image_size: 224,
            patch_size: 32,
            num_channels: 3,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: None,
            layer_norm_eps: None,
        }
    }
}

impl RawTower {
    fn of(given: Value) -> Result<RawTower, Error> {
        let is_siglip = model_type(&given) == "siglip_vision_model";
        let has_patches = given.get("patch_size").is_some();
        let mut tower: RawTower = serde_json::from_value(given).map_err(malformed)?;
        if is_siglip && !has_patches {
            tower.patch_size = 16;
        }
        Ok(tower)
    }

    /// The tower up to so many layers.
    fn config(self, layers: usize) -> Result<VisionConfig, Error> {
        let (kind, act, epsilon) = match self.model_type.as_str() {
            "clip_vision_model" => (VisionKind::Clip, Activation::QuickGelu, 1e-5),
            "siglip_vision_model" => (VisionKind::Siglip, Activation::GeluTanh, 1e-6),
            other => {
                return Err(Error::config(format!(
                    "vision towers of type `{other}` are not known; known are clip_vision_model and siglip_vision_model"
                )));
            }
        };
        let config = VisionConfig {
            image_size: self.image_size,
            patch_size: self.patch_size,
            num_channels: self.num_channels,
            hidden_size: self.hidden_size,
            num_hidden_layers: layers,
            num_attention_heads: self.num_attention_heads,
            intermediate_size: self.intermediate_size,
            hidden_act: self.hidden_act.unwrap_or(act),
            layer_norm_eps: self.layer_norm_eps.unwrap_or(epsilon),
            kind,
        };
        config.checked()
    }
}

/// `text_config` of CLIP.
#[derive(Deserialize)]
#[serde(default)]
struct RawClipText {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    hidden_act: Activation,
    layer_norm_eps: f64,
}

impl Default for RawClipText {
    fn default() -> RawClipText {
        RawClipText {
            vocab_size: 49_408,
            hidden_size: 512,
            intermediate_size: 2048,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
            hidden_act: Activation::QuickGelu,
            layer_norm_eps: 1e-5,
        }
    }
}

/// The configuration of a CLIP; `None` where a model is none.
pub fn read_clip_config(config: &Value) -> Result<Option<ClipConfig>, Error> {
    if model_type(config) != "clip" {
        return Ok(None);
    }
    let part = |name: &str| config.get(name).map_or(Value::Null, without_nulls);
    let object = |value: Value| if value.is_null() { Value::Object(serde_json::Map::new()) } else { value };
    let raw: RawClipText = serde_json::from_value(object(part("text_config"))).map_err(malformed)?;
    let text = ClipTextConfig {
        vocab_size: raw.vocab_size,
        hidden_size: raw.hidden_size,
        intermediate_size: raw.intermediate_size,
        num_hidden_layers: raw.num_hidden_layers,
        num_attention_heads: raw.num_attention_heads,
        max_position_embeddings: raw.max_position_embeddings,
        hidden_act: raw.hidden_act,
        layer_norm_eps: raw.layer_norm_eps,
    };
    let sizes = [text.vocab_size, text.hidden_size, text.num_hidden_layers, text.max_position_embeddings];
    let heads = text.num_attention_heads;
    if sizes.contains(&0) || heads == 0 || !text.hidden_size.is_multiple_of(heads) {
        return Err(Error::config("text_config of the CLIP has sizes of 0, or heads that do not divide hidden_size"));
    }
    let tower = RawTower::of(object(part("vision_config")))?;
    let layers = tower.num_hidden_layers;
    let vision = tower.config(layers)?;
    if vision.kind != VisionKind::Clip {
        return Err(Error::config("the vision_config of a CLIP is that of another tower"));
    }
    let projection_dim = match config.get("projection_dim") {
        None | Some(Value::Null) => 512,
        Some(given) => given.as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(0),
    };
    match projection_dim {
        0 => Err(Error::config("projection_dim is no positive number")),
        _ => Ok(Some(ClipConfig { text, vision, projection_dim })),
    }
}

/// A LLaVA, but for its model of text.
#[derive(Deserialize)]
#[serde(default)]
struct RawLlava {
    vision_config: Value,
    #[serde(alias = "image_token_id")]
    image_token_index: u32,
    projector_hidden_act: Activation,
    vision_feature_select_strategy: String,
    vision_feature_layer: Value,
    multimodal_projector_bias: bool,
}

impl Default for RawLlava {
    fn default() -> RawLlava {
        RawLlava {
            vision_config: Value::Null,
            image_token_index: 32_000,
            projector_hidden_act: Activation::Gelu,
            vision_feature_select_strategy: "default".into(),
            vision_feature_layer: Value::from(-2),
            multimodal_projector_bias: true,
        }
    }
}

fn malformed(error: serde_json::Error) -> Error {
    Error::config(format!("the configuration is malformed: {error}"))
}

/// Without what is `null`, which is as if a key were not there.
fn without_nulls(value: &Value) -> Value {
    let mut given = value.clone();
    if let Some(keys) = given.as_object_mut() {
        keys.retain(|_, value| !value.is_null());
    }
    given
}

fn model_type(config: &Value) -> &str {
    config.get("model_type").and_then(Value::as_str).unwrap_or("")
}

/// The configuration of what reads images in a LLaVA; `None` where a model is none.
pub fn read_llava_config(config: &Value) -> Result<Option<LlavaConfig>, Error> {
    if model_type(config) != "llava" {
        return Ok(None);
    }
    let mut given = without_nulls(config);
    if let Some(keys) = given.as_object_mut()
        && keys.contains_key("image_token_index")
    {
        keys.remove("image_token_id");
    }
    let raw: RawLlava = serde_json::from_value(given).map_err(malformed)?;
    let tower = match without_nulls(&raw.vision_config) {
        // As the class has it.
        Value::Null => RawTower {
            image_size: 336,
            patch_size: 14,
            hidden_size: 1024,
            num_hidden_layers: 24,
            num_attention_heads: 16,
            intermediate_size: 4096,
            ..RawTower::default()
        },
        given => RawTower::of(given)?,
    };
    let layers = tower.num_hidden_layers;
    // Of the states before, between and after the layers.
    let layer = raw.vision_feature_layer.as_i64().and_then(|layer| match layer {
        0.. => usize::try_from(layer).ok(),
        _ => (layers + 1).checked_sub(usize::try_from(layer.unsigned_abs()).ok()?),
    });
    let Some(layer) = layer.filter(|layer| (1..=layers).contains(layer)) else {
        return Err(Error::config(format!(
            "vision_feature_layer {} of {layers} layers is not supported: give one number of a layer",
            raw.vision_feature_layer
        )));
    };
    let positions = match raw.vision_feature_select_strategy.as_str() {
        "default" => LlavaPositions::AllButFirst,
        "full" => LlavaPositions::All,
        other => {
            return Err(Error::config(format!("vision_feature_select_strategy `{other}` is not default or full")));
        }
    };
    let text_width = ModelConfig::parse(&config.to_string())?.hidden_size();
    let tower = tower.config(layer)?;
    Ok(Some(LlavaConfig {
        tower,
        positions,
        text_width,
        projector_act: raw.projector_hidden_act,
        projector_bias: if raw.multimodal_projector_bias { Bias::Zero } else { Bias::None },
        image_token: raw.image_token_index,
    }))
}

/// A configuration of a classifier of images.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyClassifierConfig {
    /// A vision transformer.
    Vit(VitConfig),
    /// A ConvNeXt.
    ConvNext(ConvNextConfig),
}

impl AnyClassifierConfig {
    /// From a `config.json`; with the names of the classes.
    pub fn of(config: &Value) -> Result<(AnyClassifierConfig, Vec<String>), Error> {
        let given = without_nulls(config);
        let labels = labels(&given)?;
        let is = |name: &str, usual: bool| given.get(name).and_then(Value::as_bool).unwrap_or(usual);
        let read = match model_type(&given) {
            "vit" => {
                if !is("qkv_bias", true) {
                    return Err(Error::config(
                        "a ViT without biases of queries, keys and values (qkv_bias) is not supported",
                    ));
                }
                let sizes: VitConfig = serde_json::from_value(given).map_err(malformed)?;
                AnyClassifierConfig::Vit(VitConfig { num_classes: labels.len(), dropout: 0.0, ..sizes }.checked()?)
            }
            "convnext" => {
                let sizes: ConvNextConfig = serde_json::from_value(given).map_err(malformed)?;
                let sizes = ConvNextConfig { num_classes: labels.len(), ..sizes };
                AnyClassifierConfig::ConvNext(sizes.checked()?)
            }
            other => {
                return Err(Error::config(format!(
                    "models of type `{other}` classify no images here; `vit` and `convnext` do"
                )));
            }
        };
        Ok((read, labels))
    }

    /// How its tensors are named.
    pub fn family(&self) -> Family {
        match self {
            AnyClassifierConfig::Vit(_) => Family::Vit,
            AnyClassifierConfig::ConvNext(_) => Family::ConvNext,
        }
    }

    /// Side of the images that it takes.
    pub fn image_size(&self) -> usize {
        match self {
            AnyClassifierConfig::Vit(sizes) => sizes.image_size,
            AnyClassifierConfig::ConvNext(sizes) => sizes.image_size,
        }
    }
}

/// Names of the classes, in their order: `id2label`, else numbers.
fn labels(config: &Value) -> Result<Vec<String>, Error> {
    let wrong = || Error::config("id2label does not name classes by numbers from 0 on");
    let count = match config.get("id2label") {
        Some(Value::Object(named)) => {
            let parse = |(key, value): (&String, &Value)| {
                Some((key.parse::<usize>().ok()?, value.as_str().map_or_else(|| value.to_string(), String::from)))
            };
            let by_number: Option<BTreeMap<usize, String>> = named.iter().map(parse).collect();
            let by_number = by_number.ok_or_else(wrong)?;
            let are_all = by_number.keys().copied().eq(0..named.len());
            return if are_all && !named.is_empty() { Ok(by_number.into_values().collect()) } else { Err(wrong()) };
        }
        Some(_) => return Err(wrong()),
        // As the classes have it: two.
        None => config.get("num_labels").map_or(Some(2), |count| usize::try_from(count.as_u64()?).ok()),
    };
    let count = count.filter(|count| (1..=MAX_LABELS).contains(count)).ok_or_else(wrong)?;
    Ok((0..count).map(|n| format!("LABEL_{n}")).collect())
}
