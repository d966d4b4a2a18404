//! Changes of `tpu tune`: attention, losses and norms that became composites give the same results.

use std::sync::Arc;

use chips::Generation;
use compile::Program;
use compile::optimize::offload_activations;
use kernel::LossForm;
use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use runtime::optimize::compare_programs;
use tensor::{Literal, encode_float};

/// Arrays of numbers up to a size, one for each argument; integers are below 384.
fn samples(program: &Program, size: f64) -> Vec<Arc<Literal>> {
    let mut state = 7u64;
    let mut array = |ty: &hlo::Type| {
        let ty = ty.as_tensor().unwrap();
        let dtype = ty.element.plain().unwrap();
        let dims: Vec<usize> = ty.dims.iter().map(|&size| size as usize).collect();
        let mut literal = Literal::zeros(dtype, dims).unwrap();
        for element in literal.bytes_mut().chunks_exact_mut(dtype.size_bytes()) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let real = (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0;
            let bits = if dtype.is_float() { encode_float(dtype, size * real).unwrap() } else { (state >> 33) % 384 };
            element.copy_from_slice(&bits.to_le_bytes()[..element.len()]);
        }
        Arc::new(literal)
    };
    program.module().entry().unwrap().inputs.iter().map(&mut array).collect()
}

#[test]
fn attention_as_composites_gives_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let in_f32 = |text: &str| text.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
    let plain = include_str!("../../../kernel/tests/data/recognise/plain.mlir");
    let wide = in_f32(plain);
    // Values have fewer features than keys.
    let mla = include_str!("../../../kernel/tests/data/recognise/mla.mlir");
    let wide_mla = in_f32(mla);
    let capped = include_str!("../../../kernel/tests/data/recognise/soft_cap.mlir");
    let wide_capped = in_f32(capped);
    let gqa = include_str!("../../../kernel/tests/data/recognise/gqa.mlir");
    // Large scores in bf16 hang on where a program rounds them: in f32 they are compared too.
    for (name, text, size, tolerance) in [
        ("gqa", gqa, 0.3, 0.03),
        ("plain", plain, 0.3, 0.03),
        ("mla", mla, 0.3, 0.03),
        ("f32", wide.as_str(), 0.3, 1e-4),
        ("f32, mla", wide_mla.as_str(), 0.3, 1e-4),
        ("soft cap", capped, 0.3, 0.03),
        ("f32, soft cap", wide_capped.as_str(), 1.0, 1e-4),
        ("f32, large scores", wide.as_str(), 1.0, 1e-4),
    ] {
        let before = Program::read(text.as_bytes().to_vec()).unwrap();
        let found = kernel::recognise(before.verified().clone(), Generation::V5e).unwrap();
        assert!(found.found.len() == 1 && found.found[0].has_backward, "{name}: {:?}", found.left);
        let after = Program::from_module(found.module);
        let moved = compare_programs(&backend, &before, &after, &samples(&before, size)).unwrap();
        for (n, result) in moved.iter().enumerate() {
            assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
        }
    }
}

/// What two loops over layers save for their gradients.
#[test]
fn activations_in_host_memory_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let text = include_str!("../data/scanned_attention.mlir").replace("bf16", "f32");
    let before = Program::read(text.into_bytes()).unwrap();
    let made = offload_activations(before.verified(), 0).unwrap().unwrap();
    let text = hlo::text::print(&made.module);
    let sent = text.matches("\"pinned_host\"").count() as u64;
    assert!(made.stacks > 2 && sent == made.stacks, "{sent} of {} are sent:\n{text}", made.stacks);
    assert!(text.matches("_xla_buffer_placement = \"device\"").count() as u64 >= sent, "all come back:\n{text}");
    assert_eq!(text.matches("@LayoutConstraint").count() as u64, sent);
    assert!(offload_activations(&made.module, 0).unwrap().is_none(), "all are there already");
    let small = offload_activations(before.verified(), 1 << 40).unwrap();
    assert!(small.is_none(), "small stacks stay");
    let after = Program::from_module(made.module);
    let moved = compare_programs(&backend, &before, &after, &samples(&before, 0.3)).unwrap();
    for (n, result) in moved.iter().enumerate() {
        assert!(result.is_finite && result.deviation <= 1e-6, "result {n}: {result:?}");
    }
}

/// Masks of arguments with gradients, as JAX exports them, and the same in f32.
const MASKS: [(&str, &str); 7] = [
    ("segments", include_str!("../../../kernel/tests/data/recognise/mask_segments.mlir")),
    ("lengths", include_str!("../../../kernel/tests/data/recognise/mask_lengths.mlir")),
    ("padding", include_str!("../../../kernel/tests/data/recognise/mask_padding.mlir")),
    ("added", include_str!("../../../kernel/tests/data/recognise/mask_added.mlir")),
    ("boolean", include_str!("../../../kernel/tests/data/recognise/mask_boolean.mlir")),
    ("bias", include_str!("../../../kernel/tests/data/recognise/mask_bias.mlir")),
    ("sparse", include_str!("../../../kernel/tests/data/recognise/mask_sparse.mlir")),
];

#[test]
fn masks_of_arguments_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    for (name, text) in MASKS {
        let wide = text.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
        // Some matmuls are asked to round f32 to bf16.
        let is_rounded = text.contains("lhs_precision_type = bf16");
        for (text, tolerance) in [(text, 0.03), (wide.as_str(), if is_rounded { 0.01 } else { 1e-4 })] {
            let before = Program::read(text.as_bytes().to_vec()).unwrap();
            let found = kernel::recognise(before.verified().clone(), Generation::V5e).unwrap();
            assert!(found.found.len() == 1 && found.found[0].has_backward, "{name}: {:?}", found.left);
            let after = Program::from_module(found.module);
            let mut samples = samples(&before, 0.3);
            // Few ids, so that some are equal; zeros first, so that queries see no key where later ones are masked.
            for sample in samples.iter_mut().filter(|sample| !sample.dtype().is_float()) {
                let dims = sample.dims().to_vec();
                let numbers: Vec<i32> =
                    (0..dims.iter().product()).map(|n: usize| ((n + 180) / 77 % 3) as i32).collect();
                *sample = Arc::new(match sample.dtype().is_bool() {
                    true => Literal::from_slice(&numbers.iter().map(|&n| n > 0).collect::<Vec<_>>(), dims).unwrap(),
                    false if name == "lengths" => Literal::from_slice(&[100, 256], dims).unwrap(),
                    false if name == "segments" => Literal::from_slice(&numbers, dims).unwrap(),
                    false => Literal::from_slice(&numbers.iter().map(|&n| n.min(1)).collect::<Vec<_>>(), dims).unwrap(),
                });
            }
            let moved = compare_programs(&backend, &before, &after, &samples).unwrap();
            for (n, result) in moved.iter().enumerate() {
                assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
            }
        }
    }
}

/// -1e4 added to all scores of a query hides no key: f32 keeps three digits of them.
#[test]
fn what_is_added_to_all_scores_hides_nothing() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let text = MASKS[3].1.replace("bf16", "f32").replace("stablehlo.multiply %3, %4", "stablehlo.add %3, %4");
    let before = Program::read(text.into_bytes()).unwrap();
    let found = kernel::recognise(before.verified().clone(), Generation::V5e).unwrap();
    assert_eq!(found.found.len(), 1, "{:?}", found.left);
    let mut samples = samples(&before, 0.3);
    let numbers: Vec<i32> = (0..512).map(|n| n % 5).collect();
    samples[3] = Arc::new(Literal::from_slice(&numbers, vec![2, 256]).unwrap());
    let moved = compare_programs(&backend, &before, &Program::from_module(found.module), &samples).unwrap();
    for (n, result) in moved.iter().enumerate() {
        assert!(result.is_finite && result.deviation <= 0.01, "result {n}: {result:?}");
    }
}

/// Attention behind projections that are split over 2 × 4 devices, with gradients, as JAX exports it for Shardy and for GSPMD.
const SHARDED: [(&str, &str); 7] = [
    ("shardy", include_str!("../../../kernel/tests/data/recognise/sharded.mlir")),
    ("gspmd", include_str!("../../../kernel/tests/data/recognise/sharded_gspmd.mlir")),
    ("two KV heads", include_str!("../../../kernel/tests/data/recognise/sharded_two_kv_heads.mlir")),
    ("two KV heads, gspmd", include_str!("../../../kernel/tests/data/recognise/sharded_two_kv_heads_gspmd.mlir")),
    ("segments", include_str!("../../../kernel/tests/data/recognise/sharded_segments.mlir")),
    ("constraints", include_str!("../../../kernel/tests/data/recognise/sharded_constraints.mlir")),
    ("positions", include_str!("../../../kernel/tests/data/recognise/sharded_positions.mlir")),
];

#[test]
fn attention_of_each_device_gives_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    for (name, text) in SHARDED {
        let wide = text.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
        for (text, tolerance) in [(text, 0.03), (wide.as_str(), 1e-4)] {
            let before = Program::read(text.as_bytes().to_vec()).unwrap();
            let found = kernel::recognise(before.verified().clone(), Generation::V6e).unwrap();
            assert!(found.found.len() == 1 && found.found[0].has_backward, "{name}: {:?}", found.left);
            let after = Program::from_module(found.module);
            let mut samples = samples(&before, 0.3);
            for sample in samples.iter_mut().filter(|sample| !sample.dtype().is_float()) {
                let dims = sample.dims().to_vec();
                let ids: Vec<i32> = (0..dims.iter().product()).map(|n: usize| (n / 77 % 3) as i32).collect();
                *sample = Arc::new(Literal::from_slice(&ids, dims).unwrap());
            }
            let moved = compare_programs(&backend, &before, &after, &samples).unwrap();
            for (n, result) in moved.iter().enumerate() {
                assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
            }
        }
    }
}

/// A program over several devices, as `crates/kernel/tests/data/meshes/export.py` makes it, or the same in f32.
fn on_mesh(name: &str, is_wide: bool) -> Program {
    let path = testkit::repository().join("crates/kernel/tests/data/meshes").join(name).with_extension("mlir");
    let text = std::fs::read_to_string(path).unwrap();
    let wide = text.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
    Program::read(if is_wide { wide } else { text }.into_bytes()).unwrap()
}

#[track_caller]
fn same_results(name: &str, [before, after]: [&Program; 2], tolerance: f64) {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let moved = compare_programs(&backend, before, after, &samples(before, 0.3)).unwrap();
    for (n, result) in moved.iter().enumerate() {
        assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
    }
}

#[test]
fn experts_of_each_device_give_the_same_results() {
    for (name, count) in [
        ("experts_tensor", 1),
        ("experts_tensor_gspmd", 1),
        ("experts_expert", 1),
        ("experts_expert_gspmd", 1),
        ("experts_fsdp", 1),
        ("experts_all_axes", 1),
        ("experts_two_layers", 2),
        ("capacity_tensor", 1),
        ("capacity_tensor_gspmd", 1),
        ("capacity_expert", 1),
    ] {
        for (is_wide, tolerance) in [(false, 0.03), (true, 1e-3)] {
            let before = on_mesh(name, is_wide);
            let found = kernel::recognise_experts(before.verified().clone(), Generation::V6e).unwrap();
            assert_eq!(found.found.len(), count, "{name}: {:?}", found.left);
            assert!(found.found.iter().all(|one| one.contains("on each device")), "{name}: {:?}", found.found);
            same_results(name, [&before, &Program::from_module(found.module)], tolerance);
        }
    }
}

#[test]
fn losses_of_each_device_give_the_same_results() {
    for name in ["loss_vocabulary", "loss_vocabulary_gspmd", "loss_rows", "loss_masked"] {
        for (is_wide, tolerance) in [(false, 0.03), (true, 1e-4)] {
            let before = on_mesh(name, is_wide);
            for form in [LossForm::Kernels, LossForm::Chunks] {
                let found = kernel::recognise_losses(before.verified().clone(), Generation::V6e, form).unwrap();
                assert_eq!(found.found.len(), 1, "{name}: {:?}", found.left);
                assert!(found.found[0].contains("with gradients, on each device"), "{name}: {:?}", found.found);
                same_results(name, [&before, &Program::from_module(found.module)], tolerance);
            }
        }
    }
}

#[test]
fn norms_of_each_device_give_the_same_results() {
    for name in ["norms", "norms_gspmd"] {
        for (is_wide, tolerance) in [(false, 0.03), (true, 1e-4)] {
            let before = on_mesh(name, is_wide);
            let found = kernel::recognise_norms(before.verified().clone(), Generation::V6e).unwrap();
            let on_devices =
                found.found.iter().filter(|one| one.has_backward && one.description.contains("on each device"));
            assert_eq!(on_devices.count(), 2, "{name}: {:?}", found.left);
            same_results(name, [&before, &Program::from_module(found.module)], tolerance);
        }
    }
}

#[test]
fn chosen_experts_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let forward = include_str!("../../../kernel/tests/data/recognise/experts.mlir");
    let backward = include_str!("../../../kernel/tests/data/recognise/experts_backward.mlir");
    let wide = backward.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
    for (text, replaced, tolerance) in [(forward, 1, 0.03), (backward, 7, 0.03), (wide.as_str(), 7, 1e-3)] {
        let before = Program::read(text.as_bytes().to_vec()).unwrap();
        let found = kernel::recognise_experts(before.verified().clone(), Generation::V6e).unwrap();
        assert_eq!((found.found.len(), found.replaced), (1, replaced), "{:?}", found.found);
        let after = Program::from_module(found.module);
        let moved = compare_programs(&backend, &before, &after, &samples(&before, 0.3)).unwrap();
        assert!(moved.iter().all(|result| result.is_finite && result.deviation <= tolerance), "{moved:?}");
    }
}

/// Experts with a capacity and their gradients: 2 sequences of 64 tokens; some tokens find no slot.
const CAPACITIES: [(&str, &str); 4] = [
    ("maxtext", include_str!("../../../kernel/tests/data/recognise/capacity_maxtext.mlir")),
    ("flaxformer", include_str!("../../../kernel/tests/data/recognise/capacity_flaxformer.mlir")),
    ("switch", include_str!("../../../kernel/tests/data/recognise/capacity_switch.mlir")),
    ("list", include_str!("../../../kernel/tests/data/recognise/capacity_list.mlir")),
];

#[test]
fn experts_with_a_capacity_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    for (name, text) in CAPACITIES {
        let wide = text.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
        for (text, tolerance) in [(text, 0.03), (wide.as_str(), 1e-4)] {
            let before = Program::read(text.as_bytes().to_vec()).unwrap();
            let found = kernel::recognise_experts(before.verified().clone(), Generation::V6e).unwrap();
            assert_eq!(found.found.len(), 1, "{name}: {:?}", found.left);
            let after = Program::from_module(found.module);
            let moved = compare_programs(&backend, &before, &after, &samples(&before, 0.3)).unwrap();
            for (n, result) in moved.iter().enumerate() {
                assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
            }
        }
    }
}

/// Losses as JAX exports them with gradients of hidden states and weight: rows of 64 in bf16 or f32, a vocabulary of 384.
const LOSSES: [(&str, &str, f64); 6] = [
    // The shifted logit of a label, as optax takes it, with a tied embedding.
    ("optax", include_str!("../../../kernel/tests/data/recognise/loss_optax.mlir"), 0.03),
    // `log_softmax` and `take_along_axis`.
    ("log_softmax", include_str!("../../../kernel/tests/data/recognise/loss_log_softmax.mlir"), 0.03),
    // `log_softmax` times `one_hot`, in f32.
    ("one_hot", include_str!("../../../kernel/tests/data/recognise/loss_one_hot.mlir"), 1e-4),
    // `logsumexp` of all positions but the last, a mask and a z-loss.
    ("logsumexp", include_str!("../../../kernel/tests/data/recognise/loss_logsumexp.mlir"), 0.03),
    // Rows in one list.
    ("flat", include_str!("../../../kernel/tests/data/recognise/loss_flat.mlir"), 0.03),
    // Rows in one list, indexed by their number and label.
    ("indexed", include_str!("../../../kernel/tests/data/recognise/loss_indexed.mlir"), 0.03),
];

#[test]
fn losses_as_composites_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    for (name, text, tolerance) in LOSSES {
        let before = Program::read(text.as_bytes().to_vec()).unwrap();
        let (module, _) = compile::optimize::one_hot_indexing(before.verified().clone()).unwrap();
        let found = kernel::recognise_losses(module.clone(), Generation::V6e, LossForm::Kernels).unwrap();
        assert!(found.found.len() == 1 && found.found[0].contains("gradients"), "{name}: {:?}", found.left);
        let printed = hlo::text::print(&found.module);
        let main = printed.split("func.func private").next().unwrap();
        let logits = ["128x384xf32>", "127x384xf32>", "256x384xf32>"];
        assert!(!logits.iter().any(|logits| main.contains(logits)), "{name}: logits are left: {main}");
        let mut forms = vec![Program::from_module(found.module)];
        let chunks = kernel::recognise_losses(module, Generation::V6e, LossForm::Chunks).unwrap();
        // The gradient of a z-loss depends on the loss.
        assert_eq!(chunks.found.len(), usize::from(name != "logsumexp"), "{name}: {:?}", chunks.left);
        if !chunks.found.is_empty() {
            forms.push(Program::from_module(chunks.module));
            assert!(hlo::text::print(forms[1].module()).contains("128x384x"), "{name}: two chunks");
        }
        for (form, size) in forms.iter().flat_map(|form| [(form, 0.3), (form, 2.0)]) {
            let moved = compare_programs(&backend, &before, form, &samples(&before, size)).unwrap();
            for (n, result) in moved.iter().enumerate() {
                let tolerance = tolerance * size.max(1.0);
                assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
            }
        }
    }
}

/// Norms between residual connections as JAX and PyTorch write them, with gradients; rows of 128.
const NORMS: [(&str, &str, f64); 10] = [
    ("layer_bf16", include_str!("../../../kernel/tests/data/norms/layer_bf16.mlir"), 0.03),
    ("layer_flax", include_str!("../../../kernel/tests/data/norms/layer_flax.mlir"), 1e-4),
    ("layer_haiku", include_str!("../../../kernel/tests/data/norms/layer_haiku.mlir"), 1e-4),
    ("layer_sqrt", include_str!("../../../kernel/tests/data/norms/layer_sqrt.mlir"), 1e-4),
    ("layer_plain", include_str!("../../../kernel/tests/data/norms/layer_plain.mlir"), 1e-4),
    ("layer_torch", include_str!("../../../kernel/tests/data/norms/layer_torch.mlir"), 1e-4),
    ("rms_llama", include_str!("../../../kernel/tests/data/norms/rms_llama.mlir"), 0.03),
    ("rms_gemma", include_str!("../../../kernel/tests/data/norms/rms_gemma.mlir"), 0.03),
    ("rms_sum", include_str!("../../../kernel/tests/data/norms/rms_sum.mlir"), 1e-4),
    ("scanned_remat", include_str!("../../../kernel/tests/data/norms/scanned_remat.mlir"), 0.03),
];

#[test]
fn norms_as_composites_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    for (name, text, tolerance) in NORMS {
        let before = Program::read(text.as_bytes().to_vec()).unwrap();
        let found = kernel::recognise_norms(before.verified().clone(), Generation::V6e).unwrap();
        assert!(found.found.iter().any(|one| one.has_backward), "{name}: {:?}", found.left);
        let after = Program::from_module(found.module);
        let moved = compare_programs(&backend, &before, &after, &samples(&before, 0.3)).unwrap();
        for (n, result) in moved.iter().enumerate() {
            assert!(result.is_finite && result.deviation <= tolerance, "{name}, result {n}: {result:?}");
        }
    }
}

#[test]
fn labels_outside_of_the_vocabulary_stay_so() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let before = Program::read(LOSSES[2].1.as_bytes().to_vec()).unwrap();
    let found = kernel::recognise_losses(before.verified().clone(), Generation::V6e, LossForm::Kernels).unwrap();
    assert_eq!(found.found.len(), 1, "{:?}", found.left);
    let after = Program::from_module(found.module);
    let mut samples = samples(&before, 0.3);
    let labels = samples.iter_mut().find(|sample| !sample.dtype().is_float()).unwrap();
    let dims = labels.dims().to_vec();
    let outside: Vec<i32> = (0..dims.iter().product()).map(|n: usize| [3, -1, 384, 100_000][n % 4]).collect();
    *labels = Arc::new(Literal::from_slice(&outside, dims).unwrap());
    let moved = compare_programs(&backend, &before, &after, &samples).unwrap();
    assert!(moved.iter().all(|result| result.is_finite && result.deviation <= 1e-4), "{moved:?}");
}
