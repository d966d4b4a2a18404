//! Optimizer levels: what each rewrite makes of a program, that results stay near, and that the backend applies them.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use compile::CompileError;
use compile::Program;
use compile::optimize::{ComputePrecision, GradientCheckpointing, Level, ProgramOptimizer, TargetInfo};
use hlo::{OpKind, Value};
use runtime::config::{Config, Mode, Setting, Target as Device};
use runtime::optimize::{OptimizationTrial, optimize};
use runtime::{Backend, Bucketing, Buckets, Dimension, Error, ErrorClass, Extras, Parameters, Signature, Spec};
use tensor::{DType, Literal, encode_float};
use testkit::{Golden, Needed, golden_files, require};
use trace::{Donate, Tensor, scan, value_and_grad};

fn program(text: &str) -> Program {
    Program::read(text.as_bytes().to_vec()).unwrap()
}

fn v5e() -> TargetInfo {
    TargetInfo::tpu(chips::Generation::V5e)
}

fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Development).device(Device::Cpu)).unwrap()
}

fn printed(program: &Program) -> String {
    let mut module = program.module().clone();
    module.strip_locations();
    hlo::text::print(&module)
}

/// The optimizer that the first line of a file asks for.
fn asked_for(line: &str) -> ProgramOptimizer {
    let value = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let mut target = match value("target").unwrap() {
        "v5e" => v5e(),
        "v6e" => TargetInfo::tpu(chips::Generation::V6e),
        other => panic!("no target {other}"),
    };
    if let Some(loss) = value("ragged_loss") {
        target.ragged_loss = loss.parse().unwrap();
    }
    let level = Level::read(value("level").unwrap()).unwrap();
    let precision = ComputePrecision::read(value("precision").unwrap()).unwrap();
    let positions = |name: &str| -> Vec<usize> {
        value(name).map_or_else(Vec::new, |list| list.split(',').map(|n| n.parse().unwrap()).collect())
    };
    ProgramOptimizer::new(level, target, precision).donate(positions("donate")).parameters(positions("parameters"))
}

/// Numbers that look random and are the same in every run: small integers, booleans, and floats of a range.
fn sample(spec: &Spec, range: &Range<f64>, seed: &mut u64) -> Arc<Literal> {
    let mut next = || {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed >> 11
    };
    let mut element = |dtype: DType| {
        let n = next();
        let bits = match dtype {
            DType::Bool => n & 1,
            _ if dtype.is_float() => {
                encode_float(dtype, range.start + (n % 4001) as f64 / 4000.0 * (range.end - range.start)).unwrap()
            }
            _ => n % 3,
        };
        bits.to_le_bytes()[..dtype.size_bytes()].to_vec()
    };
    let bytes = (0..spec.num_elements()).flat_map(|_| match spec.dtype.complex_part() {
        Some(part) => [element(part), element(part)].concat(),
        None => element(spec.dtype),
    });
    Arc::new(Literal::new(spec.dtype, spec.dims.clone(), bytes.collect()).unwrap())
}

fn samples(program: &Program, range: Range<f64>, seed: u64) -> Vec<Arc<Literal>> {
    let mut seed = 0x9e37_79b9_7f4a_7c15 + seed;
    let arguments = Signature::read(program.module()).unwrap().arguments;
    arguments.iter().map(|port| sample(&port.spec, &range, &mut seed)).collect()
}

#[test]
fn each_rewrite_does_what_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/optimize");
    let backend = backend();
    for path in golden_files(&folder, ".mlir") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let program = program(&text);
        let optimizer = asked_for(text.lines().next().unwrap());
        let trial =
            OptimizationTrial { samples: &samples(&program, 0.0..0.1, 0), backend: Some(&backend), compiler: None };
        let optimized = optimize(&optimizer, &program, &trial).unwrap_or_else(|error| panic!("{name}: {error}"));
        let step = optimized.steps.iter().find(|step| step.rewrite == name);
        assert!(step.is_some_and(|step| step.changes > 0), "{name}: {:?}", optimized.steps);
        Golden::new(path.with_extension("after")).check(&printed(&optimized.program));
        // What is written is what was rewritten.
        let read = Program::read(optimized.program.bytes().to_vec()).unwrap();
        assert_eq!(printed(&read), printed(&optimized.program), "{name}");
    }
}

const MATMUL: &str = "func.func @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %0 : tensor<256x256xf32>
}";

#[test]
fn f32_stays_f32_at_every_level() {
    for level in Level::ALL {
        let optimized = optimize(
            &ProgramOptimizer::new(level, v5e(), ComputePrecision::F32),
            &program(MATMUL),
            &OptimizationTrial::default(),
        );
        let optimized = optimized.unwrap();
        assert!(!printed(&optimized.program).contains("bf16"), "{level:?}");
        // Nothing changed: the bytes are those that were given.
        assert_eq!(optimized.program.bytes(), MATMUL.as_bytes(), "{level:?}");
    }
}

#[test]
fn what_does_not_pay_is_left() {
    let changes = |target: TargetInfo, rewrite: &str| {
        let text = MATMUL.replace("256x256", "200x200");
        let optimizer = ProgramOptimizer::new(Level::Aggressive, target, ComputePrecision::Bf16);
        let optimized = optimize(&optimizer, &program(&text), &OptimizationTrial::default()).unwrap();
        optimized.steps.iter().find(|step| step.rewrite == rewrite).unwrap().changes
    };
    assert_eq!(changes(TargetInfo::UNKNOWN, "bf16_matmuls"), 0);
    assert_eq!(changes(v5e(), "bf16_matmuls"), 1);
    // Each element enters 200 matmuls, half of that for each operand that is converted.
    assert_eq!(changes(TargetInfo { bf16_min_reuse: Some(101.0), ..v5e() }, "bf16_matmuls"), 0);
    assert_eq!(changes(TargetInfo { bf16_min_reuse: Some(100.0), ..v5e() }, "bf16_matmuls"), 1);
    assert_eq!(changes(TargetInfo { gains_from_bf16_arithmetic: false, ..v5e() }, "bf16_arithmetic"), 0);
    // Both operands would be written once more to save a few hundredths of a short matmul.
    assert_eq!(changes(v5e(), "pad_matmuls"), 0);
    assert_eq!(changes(TargetInfo { ragged_loss: 0.9, memory_bytes_per_s: Some(1e15), ..v5e() }, "pad_matmuls"), 1);
}

#[test]
fn on_the_cpu_device_convolutions_and_arithmetic_stay_f32() {
    let text = "func.func @main(%x: tensor<1x32x32x64xf32>, %k: tensor<3x3x64x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x32x32x64xf32> {
      %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x32x32x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x32x32x64xf32>
      %1 = stablehlo.multiply %0, %0 : tensor<1x32x32x64xf32>
      %2 = stablehlo.dot_general %1, %w, contracting_dims = [3] x [0] : (tensor<1x32x32x64xf32>, tensor<64x64xf32>) -> tensor<1x32x32x64xf32>
      return %2 : tensor<1x32x32x64xf32>
    }";
    let changes = |target: TargetInfo| {
        let optimizer = ProgramOptimizer::new(Level::Aggressive, target, ComputePrecision::Bf16);
        let steps = optimize(&optimizer, &program(text), &OptimizationTrial::default()).unwrap().steps;
        ["bf16_matmuls", "bf16_arithmetic"].map(|name| steps.iter().find(|step| step.rewrite == name).unwrap().changes)
    };
    assert_eq!(changes(v5e()), [2, 1]);
    let gains = TargetInfo { bf16_min_reuse: Some(0.0), ..TargetInfo::cpu() };
    assert_eq!(changes(gains), [1, 0]);
}

#[test]
fn results_that_move_too_far_are_an_error() {
    // 1.001 is 1 in bf16, and the difference to 256 is all that is left of the sum. The inputs are integers: they do not move.
    let text = "func.func @main(%n: tensor<256x256xi32>) -> tensor<256x256xf32> {
      %c = stablehlo.constant dense<256.0> : tensor<256x256xf32>
      %w = stablehlo.constant dense<1.001> : tensor<256x256xf32>
      %x = stablehlo.convert %n : (tensor<256x256xi32>) -> tensor<256x256xf32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %1 = stablehlo.subtract %0, %c : tensor<256x256xf32>
      return %1 : tensor<256x256xf32>
    }";
    let bytes = (0..1 << 16).flat_map(|_| 1i32.to_le_bytes()).collect();
    let samples = [Arc::new(Literal::new(DType::I32, [256, 256], bytes).unwrap())];
    let backend = backend();
    let trial = OptimizationTrial { samples: &samples, backend: Some(&backend), compiler: None };
    let error =
        optimize(&ProgramOptimizer::new(Level::Balanced, v5e(), ComputePrecision::Bf16), &program(text), &trial)
            .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Optimization);
    assert!(error.to_string().contains("balanced may move it by"), "{error}");
    let exact = optimize(&ProgramOptimizer::new(Level::Balanced, v5e(), ComputePrecision::F32), &program(text), &trial)
        .unwrap();
    assert_eq!((exact.deviation, exact.sensitivity), (Some(0.0), None));
}

#[test]
fn what_hangs_on_the_last_bits_of_the_inputs_may_move_more() {
    // Signs of sums near zero: half of them change with the inputs, and nobody can do better in bf16.
    let text = "func.func @main(%x: tensor<64x256xf32>, %w: tensor<256x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
      %1 = stablehlo.sign %0 : tensor<64x64xf32>
      return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
    }";
    let program = program(text);
    let samples = samples(&program, -1.0..1.0, 0);
    let backend = backend();
    let trial = OptimizationTrial { samples: &samples, backend: Some(&backend), compiler: None };
    let optimized =
        optimize(&ProgramOptimizer::new(Level::Balanced, v5e(), ComputePrecision::Bf16), &program, &trial).unwrap();
    assert_eq!((optimized.deviation, optimized.sensitivity), (Some(2.0), Some(2.0)));
    assert!(Level::Balanced.tolerance_at(2.0) > 2.0 && Level::Conservative.tolerance_at(2.0) < 1e-4);
}

#[test]
fn wrong_samples_and_arguments_are_refused() {
    let backend = backend();
    let trial = OptimizationTrial { samples: &[], backend: Some(&backend), compiler: None };
    let optimizer = ProgramOptimizer::new(Level::Balanced, v5e(), ComputePrecision::Bf16);
    assert_eq!(optimize(&optimizer, &program(MATMUL), &trial).unwrap_err().class(), ErrorClass::Validation);
    let error = optimize(&optimizer.donate([2]), &program(MATMUL), &OptimizationTrial::default()).unwrap_err();
    let Error::Compilation(CompileError::Arguments(message)) = &error else { panic!("{error:?}") };
    assert!(message.contains("argument 2"), "{message}");
}

#[test]
fn presets_are_levels_with_a_purpose() {
    let changes = |optimizer: ProgramOptimizer, rewrite: &str| {
        let optimized = optimize(&optimizer, &program(MATMUL), &OptimizationTrial::default()).unwrap();
        optimized.steps.iter().find(|step| step.rewrite == rewrite).map(|step| step.changes)
    };
    assert_eq!(changes(ProgramOptimizer::for_inference(v5e()), "donate"), Some(0));
    assert_eq!(changes(ProgramOptimizer::for_inference(v5e()), "bf16_arithmetic"), Some(0));
    assert_eq!(changes(ProgramOptimizer::for_training(v5e(), [0]), "donate"), Some(1));
    assert_eq!(changes(ProgramOptimizer::for_training(v5e(), [0]), "bf16_arithmetic"), None);
    assert_eq!(changes(ProgramOptimizer::for_training(v5e(), [0]), "bf16_matmuls"), Some(1));
}

#[test]
fn a_backend_prepares_models_as_configured() {
    let x = Arc::new(program(MATMUL));
    let prepared = |level: Level, precision: ComputePrecision| {
        let config = Config::new(Mode::Training).device(Device::Cpu).optimization(level).precision(precision);
        let backend = Backend::auto(&config).unwrap();
        let model = backend.prepare_program(&x, &Parameters::none()).unwrap();
        let expected = optimize(
            &ProgramOptimizer::new(level, backend.rewrite_target(), precision),
            &x,
            &OptimizationTrial::default(),
        )
        .unwrap();
        assert_eq!(model.executable().program().digest(), expected.program.digest());
        // Outside nothing changes.
        assert_eq!(model.executable().signature(), &Signature::read(x.module()).unwrap());
        backend.prepare_program(&x, &Parameters::none()).unwrap();
        assert_eq!(backend.compiler().stats().compilations, 1);
        printed(model.executable().program())
    };
    assert_eq!(prepared(Level::None, ComputePrecision::Bf16), printed(&x));
    assert!(!prepared(Level::Aggressive, ComputePrecision::F32).contains("bf16"));
    let pays = TargetInfo::cpu().bf16_min_reuse.is_some();
    for precision in [ComputePrecision::Bf16, ComputePrecision::Mixed] {
        assert_eq!(prepared(Level::Balanced, precision).contains("bf16"), pays);
        assert!(!prepared(Level::Conservative, precision).contains("bf16"));
    }
}

/// Weights and an input that the CPU device multiplies in bf16, if it can.
fn weights_and_input() -> (Parameters, Arc<Literal>) {
    let spec = Spec::new(DType::F32, [256, 256]);
    let mut seed = 7;
    let [x, w] = [0; 2].map(|_| sample(&spec, &(-1.0..1.0), &mut seed));
    (Parameters::named([("argument 1".to_string(), w)].into()), x)
}

#[test]
fn with_bf16_parameters_take_half_the_memory_and_with_mixed_they_stay() {
    let (parameters, x) = weights_and_input();
    let matmul = Arc::new(program(MATMUL));
    let file = tempfile::tempdir().unwrap();
    let prepared = |precision: ComputePrecision| {
        let config = Config::new(Mode::Training).device(Device::Cpu).optimization(Level::Balanced).precision(precision);
        let backend = Backend::auto(&config).unwrap();
        let model = backend.prepare_program(&matmul, &parameters).unwrap();
        let bytes = backend.memory_stats().arrays.used_bytes;
        let results = model.run(&[backend.send(&x).unwrap()]).unwrap();
        // What is read back and saved has the type that was exported.
        assert_eq!(model.read_parameters().unwrap()["argument 1"].dtype(), DType::F32);
        let path = file.path().join(format!("{}.safetensors", precision.name()));
        backend.save_model(&model, Extras::default(), &path).unwrap();
        let (loaded, _) = backend.load_model(&matmul, &path).unwrap();
        assert_eq!(loaded.read_parameters().unwrap(), model.read_parameters().unwrap());
        (bytes, results[0].to_host().unwrap(), model.read_parameters().unwrap())
    };
    let (narrow_bytes, narrow, rounded) = prepared(ComputePrecision::Bf16);
    let (wide_bytes, wide, kept) = prepared(ComputePrecision::Mixed);
    let pays = TargetInfo::cpu().bf16_min_reuse.is_some();
    assert_eq!((narrow_bytes, wide_bytes), (256 * 256 * if pays { 2 } else { 4 }, 256 * 256 * 4));
    // Rounded before or inside: the same matmuls.
    assert_eq!(narrow, wide);
    assert_eq!(rounded == kept, !pays);
    let deviation = runtime::optimize::deviation(&[kept["argument 1"].clone()], &[rounded["argument 1"].clone()]);
    assert!(deviation <= 1.0 / 512.0, "{deviation}");
}

#[test]
fn buckets_are_rewritten_as_models_are() {
    let text = MATMUL.replace("%x: tensor<256x256xf32>", "%x: tensor<?x256xf32>");
    let text = text.replace(
        "(tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>",
        "(tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>",
    );
    let text =
        text.replace("tensor<256x256xf32>) -> tensor<256x256xf32> {", "tensor<256x256xf32>) -> tensor<?x256xf32> {");
    let text = text.replace("return %0 : tensor<256x256xf32>", "return %0 : tensor<?x256xf32>");
    let (parameters, x) = weights_and_input();
    let run = |level: Level, precision: ComputePrecision, smallest: usize| {
        let config = Config::new(Mode::Training).device(Device::Cpu).optimization(level).precision(precision);
        let backend = Backend::auto(&config).unwrap();
        let buckets = Buckets::of([smallest, 256, 512]);
        let bucketing = Bucketing::new([Dimension::new("rows", buckets).argument(0, 0)]);
        let model = backend.prepare_bucketed(Arc::new(program(&text)), &parameters, bucketing).unwrap();
        let bytes = backend.memory_stats().arrays.used_bytes;
        let results = model.run(std::slice::from_ref(&x)).unwrap();
        model.warm_up(std::num::NonZeroUsize::MIN, &|_| {}).unwrap();
        assert_eq!(backend.compiler().stats().compilations, 3, "a warm-up compiles what a call does");
        (bytes, results)
    };
    let (bytes, as_written) = run(Level::None, ComputePrecision::Bf16, 128);
    assert_eq!(bytes, 256 * 256 * 4);
    let pays = TargetInfo::cpu().bf16_min_reuse.is_some();
    for (precision, smallest, is_half) in
        [(ComputePrecision::Bf16, 128, true), (ComputePrecision::Bf16, 8, false), (ComputePrecision::Mixed, 128, false)]
    {
        let (bytes, rewritten) = run(Level::Balanced, precision, smallest);
        assert_eq!(bytes, 256 * 256 * if is_half && pays { 2 } else { 4 }, "{precision:?} {smallest}");
        let moved = runtime::optimize::deviation(&as_written, &rewritten);
        assert_eq!(moved > 0.0, pays, "{precision:?} {smallest}: {moved}");
        assert!(moved <= Level::Balanced.tolerance(), "{moved}");
    }
}

/// Programs whose results are numbers of a model; each has matmuls.
const MODELS: &[&str] = &[
    "model_attention",
    "model_attention_gradient",
    "model_attention_grouped",
    "model_chunked_attention",
    "model_decode_step",
    "model_gru",
    "model_lstm",
    "model_lstm_gradient",
    "model_mlp_adam",
    "model_moe_dense",
    "model_resnet_block",
    "model_resnet_gradient",
    "model_transformer_cpu",
    "model_transformer_export",
    "model_transformer_loss",
    "model_transformer_train",
    "model_vae",
    "model_vit_block",
];

/// Samples of every model. In the training steps second moments are among the arguments, which are never below zero.
const RANGES: [Range<f64>; 3] = [0.0..0.1, 0.0..1.0, -1.0..1.0];

#[test]
fn exported_models_stay_within_their_tolerance() {
    let Some(folder) = require("exported_models_stay_within_their_tolerance", Needed::Corpus) else { return };
    let backend = backend();
    let (mut narrowed, mut beyond) = (0, 0);
    for name in MODELS {
        let program = Program::read(fs::read(folder.join(format!("{name}.mlir.bc"))).unwrap()).unwrap();
        // On the CPU device nothing that only the highest level does pays.
        let on_cpu = |level: Level| {
            let target = TargetInfo { bf16_min_reuse: Some(0.0), ..TargetInfo::cpu() };
            let optimized = optimize(
                &ProgramOptimizer::new(level, target, ComputePrecision::Bf16),
                &program,
                &OptimizationTrial::default(),
            );
            optimized.unwrap().program.digest()
        };
        assert_eq!(on_cpu(Level::Balanced), on_cpu(Level::Aggressive), "{name}");
        for (range, seed) in RANGES.iter().cloned().zip(0..) {
            let samples = samples(&program, range.clone(), seed);
            let mut last = None;
            for level in Level::ALL {
                let trial = OptimizationTrial { samples: &samples, backend: Some(&backend), compiler: None };
                let optimized =
                    optimize(&ProgramOptimizer::new(level, v5e(), ComputePrecision::Bf16), &program, &trial);
                let optimized = optimized.unwrap_or_else(|error| panic!("{name}, {range:?}: {error}"));
                let deviation = optimized.deviation.unwrap();
                if level <= Level::Conservative {
                    assert!(optimized.after.ops <= optimized.before.ops, "{name}: {:?}", optimized.steps);
                }
                if let Some(below) = last {
                    assert!(optimized.after.flops <= below, "{name} at {level:?}: {:?}", optimized.steps);
                }
                last = Some(optimized.after.flops);
                narrowed += usize::from(level == Level::Balanced && deviation > 0.0);
                beyond += usize::from(deviation > level.tolerance());
            }
        }
    }
    assert!(narrowed > RANGES.len() * MODELS.len() / 2, "most models have matmuls: {narrowed}");
    assert!(beyond > 0, "some model depends on the last bits of its inputs");
}

/// Layers in a loop, and the gradient of their weights: matmuls and what is computed from them are saved for the backward loop.
fn training_step() -> Program {
    let inputs = (Tensor::of(Spec::new(DType::F32, [4, 8, 8])), Tensor::of(Spec::new(DType::F32, [2, 8])));
    let traced = trace::trace("step", &inputs, Donate::Nothing, |(weights, x)| {
        let loss = |weights: &Tensor| {
            let layer = |x: &Tensor, weight: &Tensor| {
                let inner = x.matmul(weight);
                let gated = &inner.tanh() * &inner;
                (x + &gated.matmul(weight), ())
            };
            scan(x, weights, None, layer).0.square().mean_all()
        };
        value_and_grad(loss, weights)
    });
    Program::from_module(traced.unwrap().0.module)
}

/// Elements that loops carry.
fn carried(program: &Program) -> u64 {
    let func = program.module().entry().unwrap();
    let loops = func.ops.iter().filter(|op| op.kind() == Some(OpKind::While));
    let size = |value: &Value| func.ty(*value).as_tensor().and_then(|ty| ty.num_elements()).unwrap_or(0);
    loops.flat_map(|op| op.operands.iter().map(size).collect::<Vec<_>>()).sum()
}

#[test]
fn activations_that_are_computed_again_are_the_same() {
    let plain = Arc::new(training_step());
    let inputs = samples(&plain, -0.5..0.5, 7);
    let results = |choice: &str| {
        let choice = GradientCheckpointing::read(choice).unwrap();
        let config = Config::new(Mode::Development).device(Device::Cpu).gradient_checkpointing(choice);
        let backend = Backend::auto(&config).unwrap();
        let model = backend.prepare_program(&plain, &Parameters::none()).unwrap();
        let sent: Vec<_> = inputs.iter().map(|input| backend.send(input).unwrap()).collect();
        let results = model.run(&sent).unwrap();
        results.iter().flat_map(|array| array.to_host().unwrap().to_vec::<f32>().unwrap()).collect::<Vec<f32>>()
    };
    let optimizer =
        |choice| ProgramOptimizer::new(Level::None, v5e(), ComputePrecision::F32).gradient_checkpointing(choice);
    let expected = results("none");
    let mut before = carried(&plain);
    for choice in [GradientCheckpointing::Activations, GradientCheckpointing::Layers] {
        let (again, steps) = optimizer(choice).rewrite(&plain).unwrap();
        assert!(carried(&again) < before, "{choice:?}: {steps:?}");
        before = carried(&again);
        for (actual, expected) in results(choice.name()).iter().zip(&expected) {
            assert!((actual - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{actual} instead of {expected}");
        }
    }
}

#[test]
fn activations_are_computed_again_by_themselves_where_they_fill_the_memory() {
    let plain = training_step();
    let of = |level, memory_bytes| {
        let target = TargetInfo { memory_bytes, ..v5e() };
        carried(&ProgramOptimizer::new(level, target, ComputePrecision::F32).rewrite(&plain).unwrap().0)
    };
    let kept = of(Level::Balanced, v5e().memory_bytes);
    assert!(of(Level::Balanced, Some(1024)) < kept);
    assert_eq!(of(Level::Conservative, Some(1024)), kept);
    assert_eq!(of(Level::Balanced, None), kept);
}
