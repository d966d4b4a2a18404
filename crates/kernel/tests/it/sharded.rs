//! Attention in programs over several devices becomes what each of them computes of its own sequences and heads.
//!
//! All programs are gradients of attention behind projections that are split as in Megatron, over `data` = 2 and `model` = 4, as JAX exports
//! them: 4 sequences of 128, 8 heads.

use std::path::Path;

use chips::Generation;
use kernel::{Recognised, recognise};

const SHARDY: &str = include_str!("../data/recognise/sharded.mlir");
const GSPMD: &str = include_str!("../data/recognise/sharded_gspmd.mlir");
/// Two KV heads over four devices.
const TWO_KV_HEADS: &str = include_str!("../data/recognise/sharded_two_kv_heads.mlir");
const TWO_KV_HEADS_GSPMD: &str = include_str!("../data/recognise/sharded_two_kv_heads_gspmd.mlir");
const SEGMENTS: &str = include_str!("../data/recognise/sharded_segments.mlir");
/// `with_sharding_constraint` on queries and on weights.
const CONSTRAINTS: &str = include_str!("../data/recognise/sharded_constraints.mlir");
/// Positions of the input over all eight devices.
const POSITIONS: &str = include_str!("../data/recognise/sharded_positions.mlir");
/// Three sequences of three heads on all devices.
const WHOLE: &str = include_str!("../data/recognise/sharded_no_batch.mlir");

fn read(text: &str) -> Recognised {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    recognise(module, Generation::V6e).unwrap()
}

/// The program's own function after all attentions, one with gradients, were found.
#[track_caller]
fn found(text: &str, description: &str) -> String {
    let read = read(text);
    let found: Vec<(&str, bool)> = read.found.iter().map(|one| (one.description.as_str(), one.has_backward)).collect();
    assert_eq!(found, [(description, true)], "{:?}", read.left);
    let printed = hlo::text::print(&read.module);
    assert!(!printed.split("func.func private").next().unwrap().contains("exponential"), "{printed}");
    printed.split("  func.func private").next().unwrap().to_owned()
}

#[track_caller]
fn refused(text: &str, reason: &str) {
    let read = read(text);
    assert_eq!(read.left, [(reason.to_owned(), 1)], "{:?}", read.found);
    assert!(read.found.is_empty());
}

fn check_golden(name: &str, actual: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recognise");
    testkit::Golden::new(folder.join(name)).check(actual);
}

#[test]
fn each_device_computes_its_own_sequences_and_heads() {
    let sizes = "2 × 2 heads (1 KV), 128 queries, 128 keys, depth 32, bf16, causal";
    check_golden("sharded.found.mlir", &found(SHARDY, &format!("{sizes}, on each device of data, model")));
    check_golden("sharded_gspmd.found.mlir", &found(GSPMD, &format!("{sizes}, on each device of x, y")));
}

#[test]
fn kv_heads_that_do_not_divide_are_on_several_devices() {
    let sizes = "2 × 2 heads (1 KV), 128 queries, 128 keys, depth 32, bf16, causal";
    let main = found(TWO_KV_HEADS, &format!("{sizes}, on each device of 2 of model, 2 of model, data"));
    // Keys are split by the first half of the axis, groups of queries by the second, along which gradients of keys are summands.
    assert!(main.contains("[{\"data\"}, {}, {\"model\":(1)2}, {\"model\":(2)2}, {}]"), "{main}");
    assert!(main.contains("[{\"model\":(2)2}, {\"data\"}, {\"model\":(1)2}, {}, {}]"), "{main}");
    assert!(main.contains("across dimensions = [0] : (tensor<2x4x2x128x32xf32>"), "{main}");
    let main = found(TWO_KV_HEADS_GSPMD, &format!("{sizes}, on each device of 2 of y, 2 of y, x"));
    assert!(main.contains("{devices=[2,1,2,2,1]<=[8]}"), "{main}");
    assert!(main.contains("{devices=[2,2,2,1,1]<=[2,2,2]T(2,0,1)}"), "{main}");
}

#[test]
fn masks_of_arguments_are_split_with_their_sequences() {
    let main = found(
        SEGMENTS,
        "2 × 2 heads (1 KV), 128 queries, 128 keys, depth 32, bf16, causal, segment ids, on each device of data, model",
    );
    assert!(main.contains("<@mesh, [{\"data\"}, {}]>]"), "{main}");
    assert!(main.contains("tensor<2x1x128xi32>"), "{main}");
}

#[test]
fn constraints_in_an_attention_are_seen_through() {
    let sizes = "2 × 2 heads (1 KV), 128 queries, 128 keys, depth 32, bf16, causal";
    found(CONSTRAINTS, &format!("{sizes}, on each device of data, model"));
}

#[test]
fn axes_of_positions_are_given_to_heads_and_sequences() {
    let sizes = "2 × 2 heads (1 KV), 128 queries, 128 keys, depth 32, bf16, causal";
    found(POSITIONS, &format!("{sizes}, on each device of data, model"));
}

#[test]
fn what_no_axis_splits_stays() {
    refused(WHOLE, "no axis of the mesh splits its sequences or heads");
}

#[test]
fn shardings_that_are_not_understood_are_a_reason() {
    let two = SHARDY.replace("sdy.mesh @mesh = ", "sdy.mesh @other = <[\"all\"=8]>\n  sdy.mesh @mesh = ");
    refused(&two, "the program has several meshes");
    let fewer = SHARDY.replace("num_partitions = 8", "num_partitions = 7");
    refused(&fewer, "the mesh does not have one device for each partition");
    let odd = GSPMD.replace("{devices=[2,1,1,4]<=[8] ", "{devices=[2,1,1,4]7,6,5,4,3,2,1,0 ");
    assert_ne!(odd, GSPMD);
    refused(&odd, "the shardings are not those of one mesh in its natural order");
    let text = hlo::text::print(&read(GSPMD).module);
    assert!(text.contains("SPMDFullToShardShape") && read(&text).found.is_empty());
}
