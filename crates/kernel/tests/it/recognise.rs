//! Attention as JAX writes it becomes composites; what only looks like attention stays.

use chips::Generation;
use kernel::{Recognised, recognise};

/// `jax.nn.dot_product_attention` with grouped queries and a causal mask, and its gradients.
const GQA: &str = include_str!("../data/recognise/gqa.mlir");
/// Matmul, `jnp.where` with `jnp.tril`, `jax.nn.softmax`, matmul, behind one projection, and its gradients.
const PLAIN: &str = include_str!("../data/recognise/plain.mlir");
/// Multi-head latent attention as DeepSeek has it: rotary features of keys that all heads share, values of fewer features.
const MLA: &str = include_str!("../data/recognise/mla.mlir");
/// Scores under a soft cap as Gemma 2 has them, grouped queries and a window.
const SOFT_CAP: &str = include_str!("../data/recognise/soft_cap.mlir");

fn read(text: &str) -> Recognised {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    recognise(module, Generation::V5e).unwrap()
}

/// How many attentions are found, how many of them with gradients, and why others stay.
#[track_caller]
fn check(text: &str, expected: (usize, usize), reason: &str) {
    let read = read(text);
    let backward = read.found.iter().filter(|one| one.has_backward).count();
    let left: Vec<&str> = read.left.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!((read.found.len(), backward), expected, "{left:?}");
    assert!(left.join("; ").contains(reason), "{left:?}");
    let printed = hlo::text::print(&read.module);
    assert_eq!(printed.contains("tpubridge.flash_attention"), expected.0 > 0, "{printed}");
    if expected.0 > 0 {
        // Nothing of the softmax is left.
        let main = read.module.entry().unwrap();
        assert!(!main.ops.iter().any(|op| op.kind() == Some(hlo::OpKind::Exponential)), "{printed}");
    }
}

#[track_caller]
fn change(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn attention_and_its_gradients_are_found() {
    check(GQA, (1, 1), "");
    check(PLAIN, (1, 1), "");
    let gqa = read(GQA);
    assert_eq!(gqa.found[0].description, "1 × 4 heads (2 KV), 256 queries, 256 keys, depth 64, bf16, causal");
    check(MLA, (1, 1), "");
    let mla = "1 × 2 heads (2 KV), 128 queries, 128 keys, depth 48 (values 32), bf16, causal";
    assert_eq!(read(MLA).found[0].description, mla);
    check(SOFT_CAP, (1, 1), "");
    let capped = "1 × 4 heads (2 KV), 128 queries, 128 keys, depth 32, bf16, window of 40, soft cap 2";
    assert_eq!(read(SOFT_CAP).found[0].description, capped);
    let plain = read(PLAIN);
    assert_eq!(plain.found[0].description, "1 × 4 heads (4 KV), 256 queries, 256 keys, depth 64, bf16, causal");
}

#[test]
fn masks_are_what_they_compute() {
    // The same set of keys, said the other way around.
    let less = change(PLAIN, "compare GE, %2, %3", "compare LT, %2, %3");
    let less = change(&less, "select %4, %arg0, %5 : tensor<256x256xi1>", "select %4, %5, %arg0 : tensor<256x256xi1>");
    check(&less, (1, 1), "");
    // A query that sees nothing, keys that come after, all but the own one: masks that kernels read.
    for other in ["GT", "LE", "NE"] {
        let text = change(PLAIN, "compare GE, %2, %3", &format!("compare {other}, %2, %3"));
        check(&text, (1, 1), "");
        assert!(read(&text).found[0].description.ends_with("full, a mask"), "{other}");
    }
    check(&change(PLAIN, "-1.000000e+09", "-1.000000e+00"), (0, 0), "");
    // Everything is seen.
    check(&change(PLAIN, "dense<0> : tensor<i32>", "dense<1000> : tensor<i32>"), (1, 1), "");
    // Positions that do not fit their type wrap around: the second half of the queries does not see what it seems to.
    let narrow = change(PLAIN, "256x256xi32>", "256x256xi8>").replace("tensor<i32>", "tensor<i8>");
    check(&narrow, (1, 1), "");
    assert!(read(&narrow).found[0].description.ends_with("full, a mask"), "{:?}", read(&narrow).found);
}

/// Masks of arguments, each with gradients, as JAX writes them: 2 sequences of 256, 2 heads of 64.
const MASKS: [(&str, &str, &str); 7] = [
    // Equal ids, and causal.
    ("segments", include_str!("../data/recognise/mask_segments.mlir"), "causal, segment ids"),
    // `key_value_seq_lengths` of `jax.nn.dot_product_attention`, and causal.
    ("lengths", include_str!("../data/recognise/mask_lengths.mlir"), "causal, padding"),
    // `attention_mask > 0`, and causal.
    ("padding", include_str!("../data/recognise/mask_padding.mlir"), "causal, padding"),
    // `(1 - attention_mask) * -1e4`, added.
    ("added", include_str!("../data/recognise/mask_added.mlir"), "full, a bias"),
    // Any pairs, by sequence.
    ("boolean", include_str!("../data/recognise/mask_boolean.mlir"), "full, a mask"),
    // A bias by head without a gradient, and causal.
    ("bias", include_str!("../data/recognise/mask_bias.mlir"), "causal, a bias"),
    // Own block of 64 and the first, constant.
    ("sparse", include_str!("../data/recognise/mask_sparse.mlir"), "full, a mask"),
];

#[test]
fn masks_of_arguments_become_operands() {
    for (name, text, mask) in MASKS {
        check(text, (1, 1), "");
        let found = read(text);
        assert!(found.found[0].description.ends_with(&format!("bf16, {mask}")), "{name}: {:?}", found.found);
        let printed = hlo::text::print(&found.module);
        let main = printed.split("func.func private").next().unwrap();
        let call = main.lines().find(|line| line.contains("\"tpubridge.flash_attention\"")).unwrap();
        let expected = match name {
            "segments" | "lengths" | "padding" => "tensor<2x1x256xi32>, tensor<2x1x256xi32>)",
            "added" => "tensor<2x1x1x256xf32>)",
            "boolean" => "tensor<2x1x256x256xi8>)",
            "bias" => "tensor<1x2x256x256xbf16>)",
            _ => "tensor<1x1x256x256xi8>)",
        };
        assert!(call.contains(expected), "{name}: {call}");
    }
}

#[test]
fn numbers_that_keep_the_order_of_scores_are_added() {
    // A shift of all scores of a query.
    let added = MASKS[3].1;
    let shifted = change(added, "stablehlo.multiply %3, %4", "stablehlo.add %3, %4");
    check(&shifted, (1, 1), "");
    assert!(read(&shifted).found[0].description.ends_with("full, a bias"), "{:?}", read(&shifted).found);
}

#[test]
fn ids_that_are_not_equal_are_a_mask() {
    // Ids that are not equal are a mask of pairs.
    let less = change(MASKS[0].1, "%4 = stablehlo.compare EQ", "%4 = stablehlo.compare LE");
    check(&less, (1, 1), "");
    assert!(read(&less).found[0].description.ends_with("causal, a mask"), "{:?}", read(&less).found);
}

#[test]
fn a_gradient_of_something_else_stays() {
    // The row sum is added, a power is missing, another number scales.
    check(&change(PLAIN, "stablehlo.negate", "stablehlo.abs"), (0, 0), "also read by");
    check(&change(PLAIN, "%66 = stablehlo.negate %65", "%66 = stablehlo.add %65, %65"), (0, 0), "also read by");
    check(
        &change(PLAIN, "multiply %31, %31 : tensor<1x4x256x1xf32>", "add %31, %31 : tensor<1x4x256x1xf32>"),
        (0, 0),
        "also",
    );
    check(&change(PLAIN, "divide %75, %76", "multiply %75, %76"), (0, 0), "also read by");
    // The values are not those of the forward pass, or the wrong factor.
    check(
        &change(PLAIN, "%57 = stablehlo.dot_general %54, %39", "%57 = stablehlo.dot_general %54, %11"),
        (0, 0),
        "also",
    );
    check(&change(GQA, "%62 = stablehlo.dot_general %61, %0", "%62 = stablehlo.dot_general %61, %38"), (0, 0), "also");
    // The gradient of another mask.
    let other = change(PLAIN, "call @_where_0(%21#1, %74)", "call @_where_0(%99, %74)");
    let other = change(
        &other,
        "    %75 = call",
        "    %98 = stablehlo.iota dim = 3 : tensor<1x4x256x256xi32>
    %97 = stablehlo.constant dense<7> : tensor<1x4x256x256xi32>
    %99 = stablehlo.compare LT, %98, %97, SIGNED : (tensor<1x4x256x256xi32>, tensor<1x4x256x256xi32>) -> tensor<1x4x256x256xi1>
    %75 = call",
    );
    check(&other, (0, 0), "also read by");
}

#[test]
fn a_softmax_of_something_else_stays() {
    // A sum over other keys, a maximum of other scores, an exponential of more.
    check(&change(PLAIN, "%28 = stablehlo.subtract %22, %27", "%28 = stablehlo.add %22, %27"), (0, 0), "");
    check(&change(PLAIN, "%29 = stablehlo.exponential %28", "%29 = stablehlo.tanh %28"), (0, 0), "");
    check(&change(PLAIN, "%33 = stablehlo.divide %29, %32", "%33 = stablehlo.multiply %29, %32"), (0, 0), "");
    check(&change(PLAIN, "%28 = stablehlo.subtract %22, %27", "%28 = stablehlo.subtract %27, %22"), (0, 0), "");
    // Precision that kernels do not have, in f32.
    let wide = change(&change(PLAIN, "xbf16>", "xf32>"), "tensor<bf16>", "tensor<f32>");
    check(&wide, (1, 1), "");
    check(
        &change(&wide, "precision = [DEFAULT, DEFAULT]", "precision = [HIGHEST, HIGHEST]"),
        (0, 0),
        "default precision",
    );
}

#[test]
fn weights_that_are_results_stay() {
    let text =
        change(PLAIN, "return %48, %94, %93 : tensor<f32>, ", "return %33, %94, %93 : tensor<1x4x256x256xf32>, ");
    let text = change(
        &text,
        "(tensor<f32> {jax.result_info = \"result[0]\"}",
        "(tensor<1x4x256x256xf32> {jax.result_info = \"result[0]\"}",
    );
    check(&text, (0, 0), "also read by func.return");
}

/// The plain attention of another length.
fn of_length(length: usize) -> String {
    let n = length.to_string();
    let text = change(&change(PLAIN, "256x256xi1", &format!("{n}x{n}xi1")), "256x256xi32", &format!("{n}x{n}xi32"));
    let text = text.replace("4x256x", &format!("4x{n}x")).replace("x256x4x64", &format!("x{n}x4x64"));
    let text = text.replace("4x64x256", &format!("4x64x{n}")).replace(&format!("x{n}x256x"), &format!("x{n}x{n}x"));
    let text = text.replace("4x256xf32", &format!("4x{n}xf32")).replace("1x256x256xbf16", &format!("1x{n}x256xbf16"));
    let text = text.replace("1x256x256xf32", &format!("1x{n}x256xf32")).replace("1x256x768", &format!("1x{n}x768"));
    text.replace("[0:1, 0:256,", &format!("[0:1, 0:{n},"))
}

#[test]
fn odd_lengths_are_padded() {
    check(&of_length(200), (1, 1), "");
    let full = change(&of_length(200), "dense<0> : tensor<i32>", "dense<1000> : tensor<i32>");
    check(&full, (1, 1), "");
    assert!(hlo::text::print(&read(&full).module).contains("tensor<1x1x256xi32>"), "added keys are not seen");
    check(&of_length(32), (0, 0), "too few");
}

/// Every expert on every token, and weights of a `top_k`.
const EXPERTS: &str = include_str!("../data/recognise/experts.mlir");

#[track_caller]
fn experts(text: &str) -> (usize, String) {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    let read = kernel::recognise_experts(module, Generation::V6e).unwrap();
    (read.found.len(), read.found.first().cloned().unwrap_or_default() + &hlo::text::print(&read.module))
}

#[test]
fn experts_that_were_not_chosen_do_not_run() {
    let (found, text) = experts(EXPERTS);
    assert_eq!(found, 1);
    assert!(text.starts_with("2 of 4 experts, 256 tokens, 3 grouped matmuls"), "{text}");
    assert!(!text.contains("1x256x4x256"), "{text}");
}

/// The same with SiLU and a residual, and gradients of tokens, router and all matrices.
const EXPERTS_BACKWARD: &str = include_str!("../data/recognise/experts_backward.mlir");

#[test]
fn gradients_of_experts_are_of_chosen_ones() {
    let (found, text) = experts(EXPERTS_BACKWARD);
    assert_eq!(found, 1, "{text}");
    // Three forward, one of the weighed gradient, two of tokens, three of matrices.
    assert!(text.starts_with("2 of 4 experts, 256 tokens, 9 grouped matmuls with gradients"), "{text}");
    let main = text.split("func.func private").next().unwrap();
    assert!(!main.contains("x4x256xbf16") && !main.contains("4x128x1x256"), "{main}");
}

#[test]
fn weights_that_are_not_chosen_stay() {
    // Indices that may be anything, another comparison, a maximum of weights, a bias that experts differ in.
    let from_argument = change(EXPERTS, "call @_one_hot(%indices)", "call @_one_hot(%other)");
    let from_argument = change(&from_argument, "(%x: tensor", "(%other: tensor<1x256x2xi32>, %x: tensor");
    assert_eq!(experts(&from_argument).0, 0);
    assert_eq!(experts(&change(EXPERTS, "compare EQ", "compare LE")).0, 0);
    let largest =
        change(EXPERTS, "(%12 init: %zero) applies stablehlo.add", "(%12 init: %zero) applies stablehlo.maximum");
    assert_eq!(experts(&largest).0, 0);
    let reversed = "stablehlo.reverse %18, dims = [2]";
    let mixed = change(
        EXPERTS,
        "%20 = stablehlo.multiply %18, %19",
        &format!("%99 = {reversed} : tensor<1x256x4x256xbf16>\n    %20 = stablehlo.multiply %99, %19"),
    );
    assert_eq!(experts(&mixed).0, 0);
    assert_eq!(experts(&change(EXPERTS, "precision = [DEFAULT, DEFAULT]", "precision = [HIGHEST, HIGHEST]")).0, 0);
}

/// `log_softmax` times `one_hot`, and gradients of hidden states and weight, as JAX writes them.
const LOSS: &str = include_str!("../data/recognise/loss_one_hot.mlir");

#[track_caller]
fn losses(text: &str, expected: usize, reason: &str) -> String {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    let read = kernel::recognise_losses(module, Generation::V6e, kernel::LossForm::Kernels).unwrap();
    assert_eq!(read.found.len(), expected, "{:?}", read.left);
    let left: Vec<&str> = read.left.iter().map(|(reason, _)| reason.as_str()).collect();
    assert!(left.join("; ").contains(reason), "{left:?}");
    read.found.first().cloned().unwrap_or_default() + &hlo::text::print(&read.module)
}

#[test]
fn logits_of_a_loss_are_not_written() {
    let text = losses(LOSS, 1, "");
    assert!(text.starts_with("256 rows of 64, vocabulary of 384, f32 with gradients"), "{text}");
    let main = text.split("func.func private").next().unwrap();
    assert!(main.contains("tpubridge.cross_entropy_backward") && !main.contains("128x384xf32"), "{main}");
    // Rows that are no whole blocks are padded.
    let odd = LOSS.replace("2x128", "2x100").replace("2.560000e+02", "2.000000e+02");
    assert!(losses(&odd, 1, "").contains("tensor<1x256xf32>"));
}

#[test]
fn a_loss_of_something_else_stays() {
    let softmax = "%5 = stablehlo.subtract %arg0, %4 : tensor<2x128x384xf32>";
    losses(&change(LOSS, softmax, &softmax.replace("subtract", "add")), 0, "");
    losses(&change(LOSS, "%6 = stablehlo.exponential", "%6 = stablehlo.tanh"), 0, "");
    losses(&change(LOSS, "%9 = stablehlo.log ", "%9 = stablehlo.sqrt "), 0, "also read by");
    // The logarithm is added, the sum left out: what comes out hangs on the largest logit.
    let shifted = "%11 = stablehlo.subtract %5, %10";
    losses(&change(LOSS, shifted, "%11 = stablehlo.add %5, %10"), 0, "also read by");
    losses(&change(LOSS, "%3 = stablehlo.divide %2, %arg1", "%3 = stablehlo.multiply %2, %arg1"), 0, "also read by");
    // Another comparison, a label of another row.
    losses(&change(LOSS, "compare EQ", "compare LE"), 0, "");
    let turned = "%9 = stablehlo.reverse %arg0, dims = [1] : tensor<2x128xi32>\n    %0 = stablehlo.broadcast_in_dim %9";
    losses(&change(LOSS, "%0 = stablehlo.broadcast_in_dim %arg0", turned), 1, "");
    // The gradient is that of another weight, or more is read of it.
    losses(&change(LOSS, "%16 = stablehlo.dot_general %13, %arg1", "%16 = stablehlo.dot_general %1, %arg1"), 1, "");
    losses(
        &change(
            LOSS,
            "return %7, %16, %15",
            "%17 = stablehlo.cosine %13 : tensor<2x128x384xf32>\n    %18 = stablehlo.dot_general %17, %arg1, contracting_dims = [2] x [1] : (tensor<2x128x384xf32>, tensor<64x384xf32>) -> tensor<2x128x64xf32>\n    return %7, %18, %15",
        ),
        0,
        "also read by stablehlo.cosine",
    );
    losses(&change(LOSS, "precision = [DEFAULT, DEFAULT]", "precision = [HIGHEST, HIGHEST]"), 0, "");
}

/// Experts with a capacity and their gradients, as their users write them in JAX: 2 sequences of 64 tokens, 4 experts.
const CAPACITIES: [(&str, &str, &str); 4] = [
    // The two best of four, in the order of tokens, by sequence.
    ("maxtext", include_str!("../data/recognise/capacity_maxtext.mlir"), "2 of 4 experts with a capacity of 28"),
    // The same, all first choices before all second ones.
    ("flaxformer", include_str!("../data/recognise/capacity_flaxformer.mlir"), "2 of 4 experts with a capacity of 28"),
    // One expert, by `argmax`.
    ("switch", include_str!("../data/recognise/capacity_switch.mlir"), "1 of 4 experts with a capacity of 18"),
    // Sequences in one list, a mask for each choice, two matmuls of experts.
    ("list", include_str!("../data/recognise/capacity_list.mlir"), "2 of 4 experts with a capacity of 56"),
];

/// The two best, each with a running count of its own, of which one goes on where the other ends.
const GSHARD: &str = include_str!("../data/recognise/capacity_gshard.mlir");

#[track_caller]
fn shared_slots(text: &str) {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    let read = kernel::recognise_experts(module, Generation::V6e).unwrap();
    let left: Vec<&str> = read.left.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!((read.found.len(), read.replaced), (0, 0), "{:?}", read.found);
    assert_eq!(left, ["experts with a capacity: it cannot be seen that no two tokens share a slot"]);
}

#[test]
fn slots_become_rows() {
    for (name, text, expected) in CAPACITIES {
        let (found, printed) = experts(text);
        let matmuls = if name == "list" { 6 } else { 9 };
        let rest = format!(", 128 tokens, {matmuls} grouped matmuls with gradients");
        assert_eq!(found, 1, "{name}: {printed}");
        assert!(printed.starts_with(&format!("{expected}{rest}")), "{name}: {printed}");
        // No array has slots any more.
        let main = printed.split("func.func private").next().unwrap();
        let slots = ["x28x", "x18x", "x56x", "x28>", "x28xf32", "x29x", "x18xf32"];
        assert!(!slots.iter().any(|slots| main.contains(slots)), "{name}: {main}");
    }
}

#[test]
fn slots_that_tokens_may_share_stay() {
    shared_slots(GSHARD);
    let maxtext = CAPACITIES[0].1;
    // A count of something else: not of all rows, from the end, of what is no one-hot vector, in a type that ends at 256.
    shared_slots(&change(
        maxtext,
        "padding = dense<[[0, 0], [127, 0], [0, 0]]>",
        "padding = dense<[[0, 0], [0, 127], [0, 0]]>",
    ));
    shared_slots(&change(
        maxtext,
        "padding = dense<[[0, 0], [127, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 128, 1>",
        "padding = dense<[[0, 0], [63, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 64, 1>",
    ));
    // Places of all experts are one place more for those that were kept.
    shared_slots(&change(maxtext, "%30 = stablehlo.multiply %29, %24", "%30 = stablehlo.add %29, %24"));
    // Places that are cut off at the last slot are shared.
    let flaxformer = CAPACITIES[1].1;
    shared_slots(&change(
        flaxformer,
        "%28 = call @_one_hot_1(%27)",
        "%99 = stablehlo.constant dense<2.700000e+01> : tensor<2x64x4xf32>\n    %98 = stablehlo.minimum %27, %99 : tensor<2x64x4xf32>\n    %28 = call @_one_hot_1(%98)",
    ));
    // First places are given twice: that of a row that was not chosen is 1 too.
    shared_slots(&change(flaxformer, "multiply %19, %18", "add %19, %18"));
}
