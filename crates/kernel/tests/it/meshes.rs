//! Experts, losses and norms in programs over several devices become what each of them computes of its own part.
//!
//! The programs are made by `tests/data/meshes/export.py`.

use chips::Generation;
use kernel::{LossForm, recognise_experts, recognise_losses, recognise_norms};
use testkit::repository;

fn module(name: &str) -> hlo::Verified {
    let path = repository().join("crates/kernel/tests/data/meshes").join(name).with_extension("mlir");
    let text = std::fs::read(path).unwrap();
    hlo::verify(hlo::read(&text).unwrap()).unwrap()
}

/// What mixtures are found, and the program's own function.
#[track_caller]
fn experts(name: &str, descriptions: &[&str]) -> String {
    let read = recognise_experts(module(name), Generation::V6e).unwrap();
    assert_eq!(read.found, descriptions, "{name}: {:?}", read.left);
    let printed = hlo::text::print(&read.module);
    printed.split("  func.func private").next().unwrap().to_owned()
}

#[track_caller]
fn no_experts(name: &str, reason: &str) {
    let read = recognise_experts(module(name), Generation::V6e).unwrap();
    assert_eq!(read.left, [(reason.to_owned(), 1)], "{name}: {:?}", read.found);
    assert!(read.found.is_empty());
}

const DENSE: &str = "2 of 4 experts, 256 tokens, 9 grouped matmuls with gradients";
const CAPACITY: &str = "2 of 4 experts with a capacity of 40, 256 tokens, 9 grouped matmuls with gradients";

#[test]
fn each_device_sorts_its_own_tokens() {
    let sizes = "2 of 4 experts, 512 tokens, 9 grouped matmuls with gradients";
    let main = experts("experts_fsdp", &[&format!("{sizes}, on each device of data")]);
    // Matrices are whole, and each device has a summand of their gradients.
    assert!(
        main.contains("(%arg5: tensor<1x64x2xi32>, %arg6: tensor<1x64x128xbf16>, %arg7: tensor<4x128x256xbf16>"),
        "{main}"
    );
    assert!(main.contains("across dimensions = [0] : (tensor<8x4x128x256xbf16>"), "{main}");
}

#[test]
fn hidden_features_of_experts_are_split() {
    let main = experts("experts_tensor", &[&format!("{DENSE}, on each device of data, model")]);
    // What tokens get is summed over the devices that have other features, where it leaves.
    assert!(main.contains("[{\"model\"}, {\"data\"}, {}, {}]") && !main.contains("all_reduce"), "{main}");
    assert!(main.contains("tensor<4x128x128xbf16>"), "{main}");
    experts("experts_tensor_gspmd", &[&format!("{DENSE}, on each device of x, y")]);
    let one = format!("{DENSE}, on each device of data, model");
    let main = experts("experts_two_layers", &[&one, &one]);
    // Forward and backward of each layer.
    assert_eq!(main.matches("sdy.manual_computation").count(), 4, "{main}");
}

#[test]
fn experts_are_split() {
    let main = experts("experts_expert", &[&format!("{DENSE}, on each device of data, expert")]);
    assert!(main.contains("tensor<1x128x256xbf16>"), "{main}");
    experts("experts_expert_gspmd", &[&format!("{DENSE}, on each device of x, y")]);
    experts("experts_all_axes", &[&format!("{DENSE}, on each device of data, expert, model")]);
}

#[test]
fn experts_with_a_capacity_are_split() {
    let main = experts("capacity_tensor", &[&format!("{CAPACITY}, on each device of data, model")]);
    // Gradients of weights are whole before the arithmetic of masks.
    assert!(main.contains("stablehlo.all_reduce") && main.contains("[[0, 1, 2, 3], [4, 5, 6, 7]]"), "{main}");
    experts("capacity_tensor_gspmd", &[&format!("{CAPACITY}, on each device of x, y")]);
    experts("capacity_expert", &[&format!("{CAPACITY}, on each device of data, expert")]);
}

#[test]
fn what_no_axis_splits_stays() {
    no_experts("experts_whole", "no axis of the mesh splits tokens, experts or hidden features of a mixture");
    no_experts("experts_too_few", "grouped matmuls do not take what one device has of a mixture of experts");
}

#[track_caller]
fn loss(name: &str, form: LossForm, description: &str) -> String {
    let read = recognise_losses(module(name), Generation::V6e, form).unwrap();
    assert_eq!(read.found, [description], "{name}: {:?}", read.left);
    hlo::text::print(&read.module)
}

#[test]
fn rows_and_vocabulary_of_losses_are_split() {
    let sizes = "1024 rows of 64, vocabulary of 1024, bf16 with gradients";
    for form in [LossForm::Kernels, LossForm::Chunks] {
        let text = loss("loss_vocabulary", form, &format!("{sizes}, on each device of data, model"));
        assert_eq!(text.matches("stablehlo.all_reduce").count(), 3, "{text}");
        assert!(text.contains("tensor<256x64xbf16>"), "{text}");
        loss("loss_vocabulary_gspmd", form, &format!("{sizes}, on each device of x, y"));
        loss("loss_masked", form, &format!("{sizes}, on each device of data, model"));
        let text = loss("loss_rows", form, &format!("{sizes}, on each device of data"));
        assert!(
            !text.contains("stablehlo.all_reduce")
                && text.contains("across dimensions = [0] : (tensor<4x1024x64xbf16>"),
            "{text}"
        );
    }
}

#[test]
fn rows_of_norms_are_split() {
    for (name, axes) in [("norms", "data"), ("norms_gspmd", "x")] {
        let read = recognise_norms(module(name), Generation::V6e).unwrap();
        let found: Vec<&str> = read.found.iter().map(|one| one.description.as_str()).collect();
        let end = format!("256 rows of 128, bf16, on each device of {axes}");
        assert_eq!(found, [format!("RMS norm, {end}"), format!("layer norm, {end}")], "{:?}", read.left);
        assert!(read.found.iter().all(|one| one.has_forward && one.has_backward));
    }
}
