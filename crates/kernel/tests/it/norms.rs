//! Norms as JAX and PyTorch write them become composites, forward and backward; what only looks like a norm stays.

use chips::Generation;
use hlo::OpKind;
use kernel::{RecognisedNorms, recognise_norms};

/// Residual connections around a norm and a projection with `tanh`, with all gradients: 2 × 16 rows of 128.
const NORMS: [(&str, &str, &str); 9] = [
    // By hand: f32 inside, bf16 outside, two passes.
    ("layer_bf16", include_str!("../data/norms/layer_bf16.mlir"), "layer norm, 32 rows of 128, bf16"),
    // As flax writes it: mean of squares less the square of the mean, no less than 0; the weight times the inverse first.
    ("layer_flax", include_str!("../data/norms/layer_flax.mlir"), "layer norm, 32 rows of 128, f32"),
    // As Haiku writes it.
    ("layer_haiku", include_str!("../data/norms/layer_haiku.mlir"), "layer norm, 32 rows of 128, f32"),
    // `jnp.var`, square root and division.
    ("layer_sqrt", include_str!("../data/norms/layer_sqrt.mlir"), "layer norm, 32 rows of 128, f32"),
    // Without weight and bias.
    ("layer_plain", include_str!("../data/norms/layer_plain.mlir"), "layer norm, 32 rows of 128, f32"),
    // As transformers writes it: rounded before the weight.
    ("rms_llama", include_str!("../data/norms/rms_llama.mlir"), "RMS norm, 32 rows of 128, bf16"),
    // A weight of `1 + w`.
    ("rms_gemma", include_str!("../data/norms/rms_gemma.mlir"), "RMS norm, 32 rows of 128, bf16"),
    // Divided by the root of the sum, not of the mean.
    ("rms_sum", include_str!("../data/norms/rms_sum.mlir"), "RMS norm, 32 rows of 128, f32"),
    // `native_layer_norm` and its gradients as PyTorch decomposes them.
    ("layer_torch", include_str!("../data/norms/layer_torch.mlir"), "layer norm, 32 rows of 128, f32"),
];

fn read(text: &str) -> RecognisedNorms {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    recognise_norms(module, Generation::V6e).unwrap()
}

#[test]
fn norms_and_their_gradients_are_found() {
    for (name, text, description) in NORMS {
        let read = read(text);
        let printed = hlo::text::print(&read.module);
        let [found] = &read.found[..] else { panic!("{name}: {:?} {:?}\n{printed}", read.found, read.left) };
        assert_eq!(found.description, description, "{name}");
        assert!(found.has_forward && found.has_backward && read.left.is_empty(), "{name}: {found:?} {:?}", read.left);
        // Nothing of the norm is left but its composites.
        let main = read.module.entry().unwrap();
        let left = |kinds: &[OpKind]| main.ops.iter().any(|op| op.kind().is_some_and(|kind| kinds.contains(&kind)));
        assert!(!left(&[OpKind::Rsqrt, OpKind::Sqrt]), "{name}: {printed}");
        assert_eq!(main.ops.iter().filter(|op| op.kind() == Some(OpKind::Composite)).count(), 2, "{name}: {printed}");
        // The loss, which PyTorch's program does not return.
        let losses = usize::from(name != "layer_torch");
        assert_eq!(main.ops.iter().filter(|op| op.kind() == Some(OpKind::Reduce)).count(), losses, "{name}: {printed}");
    }
}

/// A norm by its number in [`NORMS`], with one op changed.
#[track_caller]
fn changed(norm: usize, from: &str, to: &str) -> RecognisedNorms {
    let text = NORMS[norm].1;
    assert!(text.contains(from), "{from}");
    read(&text.replace(from, to))
}

#[test]
fn what_only_looks_like_a_norm_stays() {
    // In the gradients of `rms_sum`: a factor, a power, a sign, another sum, a term too few.
    for (from, to) in [
        ("%cst_2 = stablehlo.constant dense<5.000000e-01>", "%cst_2 = stablehlo.constant dense<5.100000e-01>"),
        ("%12 = stablehlo.multiply %7, %7", "%12 = stablehlo.add %7, %7"),
        ("%46 = stablehlo.negate %45", "%46 = stablehlo.abs %45"),
        ("%43 = stablehlo.multiply %42, %arg0", "%43 = stablehlo.multiply %42, %19"),
        ("%54 = stablehlo.add %49, %53", "%54 = stablehlo.subtract %49, %53"),
    ] {
        let read = changed(7, from, to);
        assert!(read.found.is_empty(), "{to}: {:?}", read.found);
        assert_eq!(read.left.len(), 1, "{to}");
        assert!(read.left[0].0.contains("is also read by"), "{to}: {:?}", read.left);
    }
    // No root, another root, nothing added: rows of zeros would have no direction.
    for (from, to) in [
        ("%7 = stablehlo.sqrt %6", "%7 = stablehlo.exponential %6"),
        ("%7 = stablehlo.sqrt %6", "%7 = stablehlo.cbrt %6"),
        ("dense<9.99999974E-5>", "dense<0.0>"),
        ("dense<9.99999974E-5>", "dense<-1.0>"),
    ] {
        let read = changed(7, from, to);
        assert!(read.found.is_empty(), "{to}: {:?}", read.found);
    }
}

#[test]
fn sums_of_other_lengths_are_other_norms() {
    // An unbiased variance is a variance times a number, and so are its gradients.
    let haiku = NORMS[2].1;
    let unbiased =
        haiku.replace("stablehlo.constant dense<0> : tensor<i32>", "stablehlo.constant dense<1> : tensor<i32>");
    assert_ne!(unbiased, haiku);
    let read = read(&unbiased);
    assert_eq!(read.found.len(), 1, "{:?}", read.left);
    let printed = hlo::text::print(&read.module);
    // The epsilon is of the biased variance then: 1e-5 times 127 / 128.
    assert!(printed.contains("epsilon = 9.921") && !printed.contains("epsilon = 1.0"), "{printed}");
}

#[test]
fn norms_of_other_axes_are_transposed() {
    let text = |of: &str| {
        format!(
            "func.func @main(%x: tensor<128x4x16xf32>, %w: tensor<{of}xf32>) -> tensor<128x4x16xf32> {{
               %zero = stablehlo.constant dense<0.0> : tensor<f32>
               %size = stablehlo.constant dense<128.0> : tensor<4x16xf32>
               %epsilon = stablehlo.constant dense<1.0e-6> : tensor<4x16xf32>
               %squares = stablehlo.multiply %x, %x : tensor<128x4x16xf32>
               %sum = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<128x4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
               %mean = stablehlo.divide %sum, %size : tensor<4x16xf32>
               %shifted = stablehlo.add %mean, %epsilon : tensor<4x16xf32>
               %rsqrt = stablehlo.rsqrt %shifted : tensor<4x16xf32>
               %wide = stablehlo.broadcast_in_dim %rsqrt, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<128x4x16xf32>
               %normal = stablehlo.multiply %x, %wide : tensor<128x4x16xf32>
               %ww = stablehlo.broadcast_in_dim %w, dims = [{}] : (tensor<{of}xf32>) -> tensor<128x4x16xf32>
               %y = stablehlo.multiply %normal, %ww : tensor<128x4x16xf32>
               return %y : tensor<128x4x16xf32>
             }}",
            if of == "128" { 0 } else { 2 }
        )
    };
    let printed = |of: &str| {
        let read = read(&text(of));
        assert_eq!(read.found.len(), 1, "{:?}", read.left);
        assert!(read.found[0].has_forward && !read.found[0].has_backward);
        hlo::text::print(&read.module)
    };
    let whole = printed("128");
    assert!(whole.contains("(tensor<64x128xf32>, tensor<1x128xf32>) -> tensor<64x128xf32>"), "{whole}");
    assert!(whole.contains("stablehlo.transpose"), "{whole}");
    // What is no weight of the features is multiplied behind.
    let other = printed("16");
    let main = other.split("func.func private").next().unwrap();
    assert!(main.contains("stablehlo.multiply"), "{other}");
}

#[test]
fn rows_that_fill_no_tile_are_padded() {
    let read = changed(5, "2x16x", "3x9x");
    assert_eq!(read.found.len(), 1, "{:?}", read.left);
    assert_eq!(read.found[0].description, "RMS norm, 27 rows of 128, bf16");
    let printed = hlo::text::print(&read.module);
    assert!(printed.contains("tensor<32x128xbf16>") && printed.contains("stablehlo.pad"), "{printed}");
    let few = changed(5, "2x16x", "1x3x");
    assert!(few.found.is_empty() && few.left[0].0.contains("3 rows are too few"), "{:?}", few.left);
    let half = changed(7, "f32", "f16");
    assert!(half.found.is_empty() && half.left[0].0.contains("f16"), "{:?}", half.left);
}

/// A loop over layers of norms with gradients, rematerialized (`jax.checkpoint`).
const SCANNED: &str = include_str!("../data/norms/scanned_remat.mlir");

#[test]
fn norms_in_loops_are_found() {
    let read = read(SCANNED);
    let forward = read.found.iter().filter(|one| one.has_forward).count();
    let backward = read.found.iter().filter(|one| one.has_backward).count();
    // The backward loop computes the result of the norm again.
    assert_eq!((read.found.len(), forward, backward), (2, 2, 1), "{:?} {:?}", read.found, read.left);
}
