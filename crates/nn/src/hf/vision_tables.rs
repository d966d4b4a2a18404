//! Our paths and the names of models that read images.

use crate::hf::layout::Layout;
use crate::hf::tables::Table;

/// The half of a LLaVA that reads images.
pub(super) const LLAVA_VISION: Table = &[
    ("tower.patches.kernel", "vision_tower.vision_model.embeddings.patch_embedding.weight", Layout::Kernel),
    ("tower.patches.bias", "vision_tower.vision_model.embeddings.patch_embedding.bias", Layout::Same),
    ("tower.class_embedding", "vision_tower.vision_model.embeddings.class_embedding", Layout::Same),
    ("tower.position_embedding", "vision_tower.vision_model.embeddings.position_embedding.weight", Layout::Same),
    ("tower.norm.*", "vision_tower.vision_model.pre_layrnorm.*", Layout::Same),
    ("tower.layers.attention_norm.*", "vision_tower.vision_model.encoder.layers.{layer}.layer_norm1.*", Layout::Same),
    (
        "tower.layers.attention.query.weight",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.q_proj.weight",
        Layout::Transposed,
    ),
    (
        "tower.layers.attention.query.bias",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.q_proj.bias",
        Layout::Same,
    ),
    (
        "tower.layers.attention.key.weight",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.k_proj.weight",
        Layout::Transposed,
    ),
    (
        "tower.layers.attention.key.bias",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.k_proj.bias",
        Layout::Same,
    ),
    (
        "tower.layers.attention.value.weight",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.v_proj.weight",
        Layout::Transposed,
    ),
    (
        "tower.layers.attention.value.bias",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.v_proj.bias",
        Layout::Same,
    ),
    (
        "tower.layers.attention.output.weight",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.out_proj.weight",
        Layout::Transposed,
    ),
    (
        "tower.layers.attention.output.bias",
        "vision_tower.vision_model.encoder.layers.{layer}.self_attn.out_proj.bias",
        Layout::Same,
    ),
    (
        "tower.layers.feed_forward_norm.*",
        "vision_tower.vision_model.encoder.layers.{layer}.layer_norm2.*",
        Layout::Same,
    ),
    (
        "tower.layers.feed_forward.up.weight",
        "vision_tower.vision_model.encoder.layers.{layer}.mlp.fc1.weight",
        Layout::Transposed,
    ),
    (
        "tower.layers.feed_forward.up.bias",
        "vision_tower.vision_model.encoder.layers.{layer}.mlp.fc1.bias",
        Layout::Same,
    ),
    (
        "tower.layers.feed_forward.down.weight",
        "vision_tower.vision_model.encoder.layers.{layer}.mlp.fc2.weight",
        Layout::Transposed,
    ),
    (
        "tower.layers.feed_forward.down.bias",
        "vision_tower.vision_model.encoder.layers.{layer}.mlp.fc2.bias",
        Layout::Same,
    ),
    ("first.weight", "multi_modal_projector.linear_1.weight", Layout::Transposed),
    ("first.bias", "multi_modal_projector.linear_1.bias", Layout::Same),
    ("second.weight", "multi_modal_projector.linear_2.weight", Layout::Transposed),
    ("second.bias", "multi_modal_projector.linear_2.bias", Layout::Same),
];

pub(super) const CLIP_TEXT: Table = &[
    ("token_embedding.weight", "text_model.embeddings.token_embedding.weight", Layout::Same),
    ("position_embedding.weight", "text_model.embeddings.position_embedding.weight", Layout::Same),
    ("norm.*", "text_model.final_layer_norm.*", Layout::Same),
    ("projection.weight", "text_projection.weight", Layout::Transposed),
    ("layers.attention_norm.*", "text_model.encoder.layers.{layer}.layer_norm1.*", Layout::Same),
    ("layers.attention.query.weight", "text_model.encoder.layers.{layer}.self_attn.q_proj.weight", Layout::Transposed),
    ("layers.attention.query.bias", "text_model.encoder.layers.{layer}.self_attn.q_proj.bias", Layout::Same),
    ("layers.attention.key.weight", "text_model.encoder.layers.{layer}.self_attn.k_proj.weight", Layout::Transposed),
    ("layers.attention.key.bias", "text_model.encoder.layers.{layer}.self_attn.k_proj.bias", Layout::Same),
    ("layers.attention.value.weight", "text_model.encoder.layers.{layer}.self_attn.v_proj.weight", Layout::Transposed),
    ("layers.attention.value.bias", "text_model.encoder.layers.{layer}.self_attn.v_proj.bias", Layout::Same),
    (
        "layers.attention.output.weight",
        "text_model.encoder.layers.{layer}.self_attn.out_proj.weight",
        Layout::Transposed,
    ),
    ("layers.attention.output.bias", "text_model.encoder.layers.{layer}.self_attn.out_proj.bias", Layout::Same),
    ("layers.feed_forward_norm.*", "text_model.encoder.layers.{layer}.layer_norm2.*", Layout::Same),
    ("layers.feed_forward.up.weight", "text_model.encoder.layers.{layer}.mlp.fc1.weight", Layout::Transposed),
    ("layers.feed_forward.up.bias", "text_model.encoder.layers.{layer}.mlp.fc1.bias", Layout::Same),
    ("layers.feed_forward.down.weight", "text_model.encoder.layers.{layer}.mlp.fc2.weight", Layout::Transposed),
    ("layers.feed_forward.down.bias", "text_model.encoder.layers.{layer}.mlp.fc2.bias", Layout::Same),
];

/// Before those of the tower within a LLaVA.
pub(super) const CLIP_VISION: Table = &[
    ("norm.*", "vision_model.post_layernorm.*", Layout::Same),
    ("projection.weight", "visual_projection.weight", Layout::Transposed),
];

pub(super) const VIT: Table = &[
    ("patches.kernel", "vit.embeddings.patch_embeddings.projection.weight", Layout::Kernel),
    ("patches.bias", "vit.embeddings.patch_embeddings.projection.bias", Layout::Same),
    ("class_embedding", "vit.embeddings.cls_token", Layout::Same),
    ("position_embedding", "vit.embeddings.position_embeddings", Layout::AloneInBatch),
    ("layers.attention_norm.*", "vit.encoder.layer.{layer}.layernorm_before.*", Layout::Same),
    ("layers.attention.query.weight", "vit.encoder.layer.{layer}.attention.attention.query.weight", Layout::Transposed),
    ("layers.attention.query.bias", "vit.encoder.layer.{layer}.attention.attention.query.bias", Layout::Same),
    ("layers.attention.key.weight", "vit.encoder.layer.{layer}.attention.attention.key.weight", Layout::Transposed),
    ("layers.attention.key.bias", "vit.encoder.layer.{layer}.attention.attention.key.bias", Layout::Same),
    ("layers.attention.value.weight", "vit.encoder.layer.{layer}.attention.attention.value.weight", Layout::Transposed),
    ("layers.attention.value.bias", "vit.encoder.layer.{layer}.attention.attention.value.bias", Layout::Same),
    ("layers.attention.output.weight", "vit.encoder.layer.{layer}.attention.output.dense.weight", Layout::Transposed),
    ("layers.attention.output.bias", "vit.encoder.layer.{layer}.attention.output.dense.bias", Layout::Same),
    ("layers.feed_forward_norm.*", "vit.encoder.layer.{layer}.layernorm_after.*", Layout::Same),
    ("layers.feed_forward.up.weight", "vit.encoder.layer.{layer}.intermediate.dense.weight", Layout::Transposed),
    ("layers.feed_forward.up.bias", "vit.encoder.layer.{layer}.intermediate.dense.bias", Layout::Same),
    ("layers.feed_forward.down.weight", "vit.encoder.layer.{layer}.output.dense.weight", Layout::Transposed),
    ("layers.feed_forward.down.bias", "vit.encoder.layer.{layer}.output.dense.bias", Layout::Same),
    ("norm.*", "vit.layernorm.*", Layout::Same),
    ("head.weight", "classifier.weight", Layout::Transposed),
    ("head.bias", "classifier.bias", Layout::Same),
];

/// `{stage}` is the number of the stage.
pub(super) const CONVNEXT: Table = &[
    ("patches.kernel", "convnext.embeddings.patch_embeddings.weight", Layout::Kernel),
    ("patches.bias", "convnext.embeddings.patch_embeddings.bias", Layout::Same),
    ("patch_norm.*", "convnext.embeddings.layernorm.*", Layout::Same),
    ("stages.norm.*", "convnext.encoder.stages.{stage}.downsampling_layer.0.*", Layout::Same),
    ("stages.downsample.kernel", "convnext.encoder.stages.{stage}.downsampling_layer.1.weight", Layout::Kernel),
    ("stages.downsample.bias", "convnext.encoder.stages.{stage}.downsampling_layer.1.bias", Layout::Same),
    ("stages.layers.depthwise.kernel", "convnext.encoder.stages.{stage}.layers.{layer}.dwconv.weight", Layout::Kernel),
    ("stages.layers.depthwise.bias", "convnext.encoder.stages.{stage}.layers.{layer}.dwconv.bias", Layout::Same),
    ("stages.layers.norm.*", "convnext.encoder.stages.{stage}.layers.{layer}.layernorm.*", Layout::Same),
    (
        "stages.layers.feed_forward.up.weight",
        "convnext.encoder.stages.{stage}.layers.{layer}.pwconv1.weight",
        Layout::Transposed,
    ),
    ("stages.layers.feed_forward.up.bias", "convnext.encoder.stages.{stage}.layers.{layer}.pwconv1.bias", Layout::Same),
    (
        "stages.layers.feed_forward.down.weight",
        "convnext.encoder.stages.{stage}.layers.{layer}.pwconv2.weight",
        Layout::Transposed,
    ),
    (
        "stages.layers.feed_forward.down.bias",
        "convnext.encoder.stages.{stage}.layers.{layer}.pwconv2.bias",
        Layout::Same,
    ),
    ("stages.layers.scale", "convnext.encoder.stages.{stage}.layers.{layer}.layer_scale_parameter", Layout::Same),
    ("norm.*", "convnext.layernorm.*", Layout::Same),
    ("head.weight", "classifier.weight", Layout::Transposed),
    ("head.bias", "classifier.bias", Layout::Same),
];
