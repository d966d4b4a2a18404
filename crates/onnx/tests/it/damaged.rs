//! Models that were cut or altered: refused with a reason, or still a program; never a panic.

use std::collections::BTreeMap;

use onnx::OnnxModel;
use testkit::{Mutator, Needed, Random};

#[test]
fn mutated_models_are_refused_or_right() {
    let Some(root) = testkit::require("mutated_models_are_refused_or_right", Needed::Onnx) else { return };
    let names = [
        "node/test_basic_conv_with_padding",
        "node/test_maxpool_2d_ceil",
        "node/test_reshape_reordered_all_dims",
        "node/test_slice_neg_steps",
        "node/test_lstm_with_peepholes",
        "node/test_resize_upsample_sizes_cubic",
        "node/test_einsum_batch_diagonal",
        "node/test_qlinearconv",
        "node/test_if",
        "node/test_attention_4d_gqa",
        "node/test_gathernd_example_int32_batch_dim1",
        "node/test_convtranspose_pad",
        "node/test_edge_pad",
        "pytorch-converted/test_Conv2d_depthwise",
        "pytorch-operator/test_operator_symbolic_override_nested",
        "simple/test_expand_shape_model1",
    ];
    let seeds: Vec<Vec<u8>> =
        names.iter().map(|name| std::fs::read(root.join(name).join("model.onnx")).unwrap()).collect();
    let mut mutator = Mutator::new(23, seeds.clone());
    let mut random = Random::new(29);
    let (mut opened, mut traced) = (0, 0);
    for n in 0..8_000 {
        // Lengths stand before their messages: most files that were cut or grew end at once, those with other bytes do not.
        let bytes = match n % 4 {
            0 => mutator.next_input(),
            _ => {
                let mut bytes = seeds[random.below(seeds.len())].clone();
                for _ in 0..1 + random.below(3) {
                    let at = random.below(bytes.len());
                    bytes[at] =
                        if random.below(2) == 0 { random.next_u64() as u8 } else { bytes[at] ^ 1 << random.below(8) };
                }
                bytes
            }
        };
        let model = match OnnxModel::read(bytes, None) {
            Ok(model) => model,
            Err(error) => {
                assert!(!error.to_string().is_empty() && !error.remedy().is_empty());
                continue;
            }
        };
        opened += 1;
        let Ok(shapes) = model.shapes(&BTreeMap::new()) else { continue };
        // Sizes of inputs are the caller's to bound.
        if shapes.values().any(|dims| dims.iter().product::<usize>() > 1 << 20) {
            continue;
        }
        traced += usize::from(model.trace("main", &shapes).is_ok());
    }
    assert!(opened > 1000 && traced > 100, "{opened} were opened, {traced} translated: the mutations are too coarse");
}

#[test]
fn what_is_refused_is_named() {
    let Some(root) = testkit::require("what_is_refused_is_named", Needed::Onnx) else { return };
    let refused = |name: &str| {
        let model = OnnxModel::open(&root.join("node").join(name).join("model.onnx")).unwrap();
        let shapes = model.shapes(&BTreeMap::new()).unwrap();
        model.trace("main", &shapes).unwrap_err()
    };
    let looped = refused("test_loop11");
    assert!(looped.to_string().contains("op `Loop` is refused"), "{looped}");
    let unknown = refused("test_reshape_reordered_all_dims");
    assert!(unknown.needs_value() && unknown.to_string().contains("sizes are fixed"), "{unknown}");
    assert!(unknown.to_string().starts_with("Reshape `"), "{unknown}");
}
