//! Programs of PyTorch on the command line: archives that it wrote, with its own answers.

use testkit::{Needed, require};

use crate::harness::{Bench, arg};

#[test]
fn archives_are_checked_against_pytorch() {
    let Some(folder) = require("archives_are_checked_against_pytorch", Needed::TorchExport) else { return };
    let bench = Bench::bare();
    let record = bench.json(&["check", arg(&folder)]);
    assert_eq!((&record["failed"], &record["skipped"]), (&0.into(), &0.into()), "{record}");
    assert!(record["passed"].as_u64().unwrap() >= 30, "{}", record["passed"]);
}

#[test]
fn an_archive_is_a_program_like_others() {
    let Some(folder) = require("an_archive_is_a_program_like_others", Needed::TorchExport) else { return };
    let bench = Bench::bare();
    let archive = folder.join("mlp.pt2");
    let out = bench.path("mlp.mlir");
    let hlo = bench.json(&["hlo", arg(&archive), "--out", arg(&out)]);
    assert_eq!(hlo["verified"], true, "{hlo}");
    assert!(std::fs::read_to_string(&out).unwrap().contains("params.up.weight"));
    // Weights come from the archive, sizes from the inputs.
    let ran = bench.json(&["run", arg(&archive), "--inputs", arg(&folder.join("mlp.2.npz")), "-d", "cpu"]);
    assert_eq!(ran["results"][0]["name"], "outputs.0", "{ran}");
    bench.json(&["run", arg(&archive), "-d", "cpu"]);
    let refused = bench.expect(2, &["run", arg(&archive), "--inputs", arg(&folder.join("gpt.0.npz")), "-d", "cpu"]);
    assert!(refused.stderr.contains("argument `x` has no value"), "{}", refused.stderr);
    let cut = bench.write("cut.pt2", &std::fs::read(&archive).unwrap()[..5000]);
    let refused = bench.expect(2, &["hlo", arg(&cut)]);
    assert!(refused.stderr.contains("zip") && refused.stderr.contains("hint:"), "{}", refused.stderr);
}

#[test]
fn a_model_of_onnx_is_a_program_like_others() {
    let test = "a_model_of_onnx_is_a_program_like_others";
    let (Some(root), Some(bench)) = (require(test, Needed::Onnx), Bench::with_libtpu(test)) else { return };
    let nodes =
        ["test_basic_conv_with_padding", "test_lstm_defaults", "test_reshape_reordered_all_dims", "test_qlinearconv"];
    let mut paths: Vec<String> = nodes.iter().map(|name| root.join("node").join(name).display().to_string()).collect();
    // Models that PyTorch exported, with its answers.
    paths.push(root.join("models").display().to_string());
    let checked = bench.json(&[&["check"], paths.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat());
    assert_eq!((&checked["passed"], &checked["skipped"]), (&10.into(), &0.into()), "{checked}");
    let model = root.join("light/light_squeezenet.onnx");
    let out = bench.path("squeezenet.mlir");
    assert_eq!(bench.json(&["hlo", arg(&model), "--out", arg(&out)])["verified"], true);
    let ran = bench.json(&["run", arg(&model), "-d", "cpu"]);
    assert_eq!(ran["results"][0]["shape"], "f32[1,1000,1,1]", "{ran}");
    let fit = bench.json(&["fit", arg(&model), "--slice", "v5e-1"]);
    assert_eq!(fit["verdict"]["fits"], true, "{fit}");
    let refused = bench.expect(2, &["hlo", arg(&root.join("node/test_loop11/model.onnx"))]);
    assert!(refused.stderr.contains("op `Loop` is refused") && refused.stderr.contains("hint:"), "{}", refused.stderr);
    let cut = bench.write("cut.onnx", &std::fs::read(&model).unwrap()[..5000]);
    let refused = bench.expect(2, &["fit", arg(&cut), "--slice", "v5e-1"]);
    assert!(refused.stderr.contains("not an ONNX model"), "{}", refused.stderr);
}
