//! Programs exported from JAX: what the search reads in them, and what it writes.

use std::path::Path;
use std::process::Command;

use plan::search::{
    ArgumentRole, BatchName, Candidate, FlagSet, MeshShape, OneProgram, PrecisionChoice, ProgramSource, ShardingChoice,
    StepKind, WindowedEinsum,
};
use testkit::{Needed, repository, require};

/// A step of a tiny Llama, exported with these options.
fn exported(python: &Path, options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("step.bc");
    let script = repository().join("crates/testkit/python/export_step.py");
    let output = Command::new(python).arg(script).arg(&file).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(file).unwrap()
}

fn candidate(slice: &str, mesh: MeshShape, batch: u64) -> Candidate {
    Candidate {
        variant: None,
        slice: slice.parse().unwrap(),
        sharding: ShardingChoice::ByRule(mesh),
        batch,
        precision: PrecisionChoice::AsWritten,
        flags: FlagSet::Default,
        windowed_einsum: WindowedEinsum::Default,
    }
}

/// Sizes of the tiny model: width, layers, heads, heads of keys, head, inner, vocabulary, tokens.
const SIZES: [f64; 8] = [256.0, 2.0, 4.0, 2.0, 64.0, 512.0, 1024.0, 256.0];

/// Weights of the tiny model that matmuls read.
fn matmul_weights() -> f64 {
    let [width, layers, heads, kv_heads, head, inner, vocabulary, _] = SIZES;
    layers * (width * head * (2.0 * heads + 2.0 * kv_heads) + 3.0 * width * inner) + width * vocabulary
}

#[test]
fn a_training_step_is_understood() {
    let Some(python) = require("a_training_step_is_understood", Needed::Python) else { return };
    let [width, layers, heads, _, head, _, vocabulary, tokens] = SIZES;
    for options in [&["--remat", "full"][..], &["--batch", "16"], &["--remat", "dots"]] {
        let source = OneProgram::read(exported(&python, options), None).unwrap();
        let (facts, roles) = (source.facts(), source.roles());
        assert_eq!(facts.kind, StepKind::Training, "{options:?}");
        assert_eq!(facts.batch, options.contains(&"--batch").then_some(16), "{options:?}");
        assert_eq!(facts.tokens_per_sample, 256);
        assert!(facts.is_donated);
        let count = |wanted: fn(&ArgumentRole) -> bool| roles.arguments.iter().filter(|role| wanted(role)).count();
        // Nine weights of matmuls and the embedding; three norms, and two moments of all twelve.
        assert_eq!(count(|role| *role == ArgumentRole::Parameter), 9, "{roles:?}");
        assert_eq!(count(|role| *role == ArgumentRole::State), 3 + 24, "{roles:?}");
        assert_eq!(count(|role| matches!(role, ArgumentRole::Batch { dim: 0 })), 2, "{roles:?}");
        assert_eq!(facts.parameters as f64, matmul_weights() + width * vocabulary);
        let norms = (2.0 * layers + 1.0) * width;
        assert_eq!(facts.state_bytes as f64, 12.0 * (facts.parameters as f64 + norms));
        // Six for each weight and token, and attention to every token, forward and twice that backward.
        let attention = 3.0 * layers * 4.0 * tokens * tokens * heads * head;
        let expected = 6.0 * matmul_weights() * tokens + attention;
        let off = facts.model_flops_per_sample / expected - 1.0;
        assert!(off.abs() < 1e-3, "{options:?}: {} against {expected}", facts.model_flops_per_sample);
        assert!(facts.flops_per_sample > 1.1 * expected, "{options:?}: {} again", facts.flops_per_sample);
    }
}

#[test]
fn a_decode_step_is_understood() {
    let Some(python) = require("a_decode_step_is_understood", Needed::Python) else { return };
    let source = OneProgram::read(exported(&python, &["--step", "decode", "--sequence", "128"]), None).unwrap();
    let facts = source.facts();
    assert_eq!((facts.kind, facts.tokens_per_sample), (StepKind::Inference, 1));
    let caches = source.roles().arguments.iter().filter(|role| matches!(role, ArgumentRole::Cache { dim: 1 })).count();
    assert_eq!(caches, 2);
    // Keys and values of two layers, 128 tokens, two heads of 64, in bf16.
    assert_eq!(facts.cache_bytes_per_sample, 2 * 2 * 128 * 2 * 64 * 2);
}

#[test]
fn any_batch_becomes_a_sharded_program() {
    let Some(python) = require("any_batch_becomes_a_sharded_program", Needed::Python) else { return };
    let source = OneProgram::read(exported(&python, &[]), None).unwrap();
    let mesh = MeshShape { data: 2, fsdp: 4, model: 2, ..MeshShape::ONE };
    let wide = candidate("v5e-16", mesh, 24);
    let program = source.program(&wide).unwrap();
    let func = program.module().entry().unwrap();
    let text = hlo::text::print(program.module());
    assert!(func.inputs.iter().any(|ty| ty.to_string() == "tensor<24x256xi32>"), "{text}");
    assert_eq!(program.partitions(), Some(16));
    assert!(program.uses_shardy() && text.contains("sdy.sharding_constraint"));
    // The gradient of the embedding is summed whole before it is split.
    let dims = |ty: &hlo::Type| ty.as_tensor().map(|tensor| tensor.dims.clone());
    let is_of_a_weight = |op: &&hlo::Op| func.inputs.iter().any(|ty| dims(ty) == dims(func.ty(op.first_result)));
    let scatters = func.ops.iter().filter(|op| op.kind() == Some(hlo::OpKind::Scatter)).filter(is_of_a_weight);
    let scatters: Vec<_> = scatters.collect();
    assert_eq!(scatters.len(), 1, "{text}");
    let readers: Vec<_> = func.ops.iter().filter(|op| op.operands.contains(&scatters[0].first_result)).collect();
    assert_eq!(readers.iter().map(|op| op.kind()).collect::<Vec<_>>(), [Some(hlo::OpKind::SdyShardingConstraint)]);
    // Every argument says how it is split, and so does every result that takes the place of one.
    assert!(func.input_attrs.iter().all(|attrs| attrs.get("sdy.sharding").is_some()));
    for (n, result) in source.roles().results.iter().enumerate() {
        if let Some(result) = result {
            let sharding = |attrs: &hlo::Attrs| attrs.get("sdy.sharding").cloned();
            assert_eq!(sharding(&func.input_attrs[n]), sharding(&func.output_attrs[*result]), "{n}");
        }
    }
    // Splitting takes bytes from each device.
    let whole = candidate("v5e-16", MeshShape { data: 16, ..MeshShape::ONE }, 16);
    assert!(source.argument_bytes(&wide) < 0.5 * source.argument_bytes(&whole));
}

#[test]
fn programs_without_an_entry_or_a_batch_are_refused() {
    let refused = |text: &str| OneProgram::read(text.as_bytes().to_vec(), None).unwrap_err();
    let two = "func.func @a(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
               func.func @b(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
    assert!(matches!(refused(two), plan::Error::NoEntry { .. }));
    let error = refused("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }");
    assert!(matches!(error, plan::Error::NoBatch) && error.remedy().contains("--batch"), "{error}");
    assert!(matches!(refused("not a program"), plan::Error::Program(_)));
    assert!(matches!(refused("func.func private @main(tensor<2xf32>)"), plan::Error::NoEntry { .. }));
}

/// Matrices of groups are weights, and every row is counted once, however many groups there are.
#[test]
fn grouped_matmuls_count_as_matmuls() {
    let text = r#"
module {
  func.func public @main(%w: tensor<4x128x256xf32>, %x: tensor<64x128xf32>, %sizes: tensor<4xi32>) -> tensor<64x256xf32> {
    %0 = stablehlo.composite "tpubridge.gmm" %x, %w, %sizes {decomposition = @plain} : (tensor<64x128xf32>, tensor<4x128x256xf32>, tensor<4xi32>) -> tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
  func.func private @plain(%x: tensor<64x128xf32>, %w: tensor<4x128x256xf32>, %sizes: tensor<4xi32>) -> tensor<64x256xf32> {
    %0 = stablehlo.slice %w [0:1, 0:128, 0:256] : (tensor<4x128x256xf32>) -> tensor<1x128x256xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128x256xf32>) -> tensor<128x256xf32>
    %2 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    return %2 : tensor<64x256xf32>
  }
}"#;
    let program = OneProgram::read(text.as_bytes().to_vec(), Some(&BatchName::Dimension(1, 0))).unwrap();
    let facts = program.facts();
    assert_eq!((facts.parameters, facts.flops_per_sample), (4 * 128 * 256, 2.0 * 128.0 * 256.0));
}
