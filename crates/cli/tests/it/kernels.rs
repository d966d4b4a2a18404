//! Every kernel through the real TPU compiler for every generation that takes them, and against its decomposition.

use std::fmt::Write;

use chips::Generation;
use cpu::{Array, Compiled, Cpu, EngineOptions};
use hlo::{Func, Verified, Visibility};
use kernel::composites;
use kernel::kernels::cross_entropy::{self, FusedCrossEntropy};
use kernel::kernels::embedding::{self, SparseLookup};
use kernel::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, FlashMask, PassDirection, Segments};
use kernel::kernels::grouped::{self, Grouped, Matrices, MatrixScales, Tiles, Visits};
use kernel::kernels::norm::{self, FusedNorm, FusedNormKind};
use kernel::kernels::paged::{self, AttentionSinks, PagedAttention};
use kernel::kernels::quantized::{self, QuantizedMatmul};
use tensor::{DType, Literal};

use crate::harness::{Bench, arg};

/// A composite of ours: its name, attributes and decomposition.
struct Case {
    name: &'static str,
    attributes: String,
    plain: Func,
}

fn attention(segments: Segments) -> FlashAttention {
    FlashAttention {
        batch: 1,
        q_heads: 4,
        kv_heads: 2,
        q_len: 512,
        kv_len: 512,
        depth: 128,
        dtype: DType::BF16,
        scale: 0.125,
        soft_cap: None,
        causality: Causality::Causal,
        window: Some(300),
        segments,
        mask: None,
    }
}

/// Attention with a mask of its own, by the name of its decomposition.
fn masked(name: &str) -> Option<FlashAttention> {
    let mask = FlashMask { dtype: DType::I8, batch: 1, heads: 4, queries: 512, density: None };
    let mask = match name {
        "fwd_mask" | "bwd_mask" => mask,
        "fwd_bias" | "bwd_bias" => FlashMask { dtype: DType::BF16, heads: 1, ..mask },
        "fwd_key_bias" | "bwd_key_bias" => FlashMask { dtype: DType::F32, heads: 1, queries: 1, ..mask },
        _ => return None,
    };
    let segments = if mask.dtype == DType::BF16 { Segments::Packed } else { Segments::One };
    Some(FlashAttention { mask: Some(mask), ..attention(segments) })
}

/// Attention with a soft cap, by the name of its decomposition.
fn capped(name: &str) -> Option<FlashAttention> {
    let capped = FlashAttention { soft_cap: Some(1.5), ..attention(Segments::One) };
    matches!(name, "fwd_cap" | "bwd_cap").then_some(capped)
}

const GROUPED: Grouped = Grouped {
    rows: 512,
    inner: 256,
    columns: 256,
    groups: 4,
    layers: None,
    dtype: DType::BF16,
    lhs: DType::BF16,
    codes: DType::BF16,
    matrices: Matrices::AsIs,
    scales: MatrixScales::None,
    expected_rows: None,
};

const GROUPED_CASES: [&str; 10] = [
    "gmm_other",
    "gmm_layer",
    "gmm_i8",
    "gmm_i4",
    "gmm_f8",
    "gmm_scales",
    "gmm_i8_rows",
    "gmm_i4_by_i8",
    "gmm_f8_rows",
    "gmm_f8_layer",
];

/// Grouped matmuls by name: of codes, of rows that are codes too, with scales, and of a layer.
fn grouped_matmul(name: &str) -> Option<Grouped> {
    let of = |codes| Grouped { codes, ..GROUPED };
    let rows = |lhs, codes| Grouped { lhs, codes, scales: MatrixScales::Columns, ..GROUPED };
    Some(match name {
        "gmm" => GROUPED,
        "gmm_other" => Grouped { matrices: Matrices::Transposed, expected_rows: Some(100), ..GROUPED },
        "gmm_layer" => Grouped { layers: Some(2), ..GROUPED },
        "gmm_i8" => of(DType::I8),
        "gmm_i4" => of(DType::I4),
        "gmm_f8" => of(DType::F8E4M3FN),
        "gmm_scales" => Grouped { scales: MatrixScales::Columns, ..of(DType::I8) },
        "gmm_i8_rows" => rows(DType::I8, DType::I8),
        "gmm_i4_by_i8" => rows(DType::I8, DType::I4),
        "gmm_f8_rows" => rows(DType::F8E4M3FN, DType::F8E4M3FN),
        "gmm_f8_layer" => Grouped { layers: Some(2), ..rows(DType::F8E4M3FN, DType::F8E4M3FN) },
        _ => return None,
    })
}

const PAGED: PagedAttention = PagedAttention {
    sequences: 2,
    kv_heads: 2,
    group: 4,
    queries: 32,
    depth: 128,
    rotary: None,
    layers: 2,
    pages: 5,
    page_size: 256,
    table: 2,
    dtype: DType::BF16,
    codes: DType::BF16,
    scale: 0.125,
    window: None,
    chunk: None,
    soft_cap: None,
    sinks: AttentionSinks::Absent,
};

/// Words that are no whole blocks.
const LOSS: FusedCrossEntropy = FusedCrossEntropy { rows: 256, depth: 256, vocab_size: 500, dtype: DType::BF16 };

/// Quantized matmuls by codes; rows that are no whole tile.
fn quantized_matmul(codes: DType) -> QuantizedMatmul {
    let group = if codes == DType::I4 { 64 } else { 128 };
    QuantizedMatmul { rows: 5, inner: 512, columns: 256, group, x: DType::BF16, codes }
}

/// Kernels that a composite becomes.
fn calls(name: &str, generation: Generation) -> usize {
    // Where two cores share a device, each gradient has a kernel.
    if name == composites::CROSS_ENTROPY_BACKWARD && generation.spec().is_megacore() { 2 } else { 1 }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, attributes: &str, plain: Result<Func, kernel::Error>| {
        cases.push(Case { name, attributes: attributes.into(), plain: plain.unwrap() });
    };
    let masked = "scale = 0.125 : f32, causal = true, window = 300 : i64";
    for (plain, gradient, segments) in [("fwd", "bwd", Segments::One), ("fwd_packed", "bwd_packed", Segments::Packed)] {
        let a = attention(segments);
        add(composites::FLASH, masked, flash::decomposition(&a, plain));
        add(composites::FLASH_BACKWARD, masked, flash::decomposition_of_gradient(&a, gradient));
    }
    for (plain, gradient) in [("fwd_mask", "bwd_mask"), ("fwd_bias", "bwd_bias"), ("fwd_key_bias", "bwd_key_bias")] {
        let a = self::masked(plain).unwrap();
        add(composites::FLASH, masked, flash::decomposition(&a, plain));
        add(composites::FLASH_BACKWARD, masked, flash::decomposition_of_gradient(&a, gradient));
    }
    let a = capped("fwd_cap").unwrap();
    let with_cap = format!("{masked}, soft_cap = 1.5 : f32");
    add(composites::FLASH, &with_cap, flash::decomposition(&a, "fwd_cap"));
    add(composites::FLASH_BACKWARD, &with_cap, flash::decomposition_of_gradient(&a, "bwd_cap"));
    let full = FlashAttention { causality: Causality::Full, window: None, depth: 64, ..attention(Segments::One) };
    add(composites::FLASH, "scale = 0.125 : f32", flash::decomposition(&full, "full"));
    let norm = FusedNorm::new(FusedNormKind::Rms, [256, 512], DType::BF16, DType::F32, 1e-6);
    add(composites::RMS_NORM, "", norm::decomposition(&norm, "norm"));
    add(composites::RMS_NORM_BACKWARD, "", norm::decomposition_of_gradient(&norm, "norm_bwd"));
    add(composites::CROSS_ENTROPY, "", cross_entropy::decomposition(&LOSS, "loss"));
    add(composites::CROSS_ENTROPY_BACKWARD, "", cross_entropy::decomposition_of_gradients(&LOSS, "loss_bwd"));
    add(composites::GROUPED_MATMUL, "", grouped::decomposition(&GROUPED, "gmm"));
    for name in GROUPED_CASES {
        let g = grouped_matmul(name).unwrap();
        let attributes = match (g.matrices, g.lhs == g.dtype) {
            (Matrices::Transposed, _) => "transposed = true, expected_rows = 100 : i64",
            (Matrices::AsIs, false) => "result = \"bf16\"",
            (Matrices::AsIs, true) => "",
        };
        add(composites::GROUPED_MATMUL, attributes, grouped::decomposition(&g, name));
    }
    add(composites::GROUPED_MATMUL_GRADIENT, "", grouped::decomposition_of_gradient(&GROUPED, "tgmm"));
    add(composites::PAGED_ATTENTION, "group = 4 : i64, scale = 0.125 : f32", paged::decomposition(&PAGED, "paged"));
    for (codes, name) in [(DType::I8, "paged_i8"), (DType::I4, "paged_i4"), (DType::F8E4M3FN, "paged_f8")] {
        let codes = PagedAttention { codes, queries: 16, ..PAGED };
        add(composites::PAGED_ATTENTION, "group = 4 : i64, scale = 0.125 : f32", paged::decomposition(&codes, name));
    }
    let sinks = PagedAttention { chunk: Some(200), sinks: AttentionSinks::Present, ..PAGED };
    let attributes = "group = 4 : i64, scale = 0.125 : f32, chunk = 200 : i64";
    add(composites::PAGED_ATTENTION, attributes, paged::decomposition(&sinks, "paged_sinks"));
    let odd = PagedAttention { group: 3, queries: 48, window: Some(100), chunk: None, ..sinks };
    let attributes = "group = 3 : i64, scale = 0.125 : f32, window = 100 : i64";
    add(composites::PAGED_ATTENTION, attributes, paged::decomposition(&odd, "paged_odd"));
    let latent = PagedAttention { kv_heads: 1, group: 16, queries: 16, depth: 512, rotary: Some(64), ..PAGED };
    let attributes = "group = 16 : i64, scale = 0.125 : f32";
    for (codes, name) in [(DType::BF16, "paged_latent"), (DType::I8, "paged_latent_i8")] {
        let latent = PagedAttention { codes, ..latent.clone() };
        add(composites::PAGED_ATTENTION, attributes, paged::decomposition(&latent, name));
    }
    for (codes, name) in [(DType::I4, "quantized_i4"), (DType::I8, "quantized_i8"), (DType::F8E4M3FN, "quantized_f8")] {
        add(composites::QUANTIZED_MATMUL, "", quantized::decomposition(&quantized_matmul(codes), name));
    }
    cases
}

/// One program with all composites, each with arguments of its own.
fn program(cases: &[Case]) -> Verified {
    let (mut args, mut body, mut results, mut types) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    for case in cases {
        let inputs: Vec<String> = case.plain.inputs.iter().map(hlo::text::print_type).collect();
        let outputs: Vec<String> = case.plain.outputs.iter().map(hlo::text::print_type).collect();
        let operands: Vec<String> = inputs
            .iter()
            .map(|ty| {
                args.push(format!("%a{}: {ty}", args.len()));
                format!("%a{}", args.len() - 1)
            })
            .collect();
        let plain = &case.plain.name;
        writeln!(
            body,
            "  %{plain}:{} = stablehlo.composite \"{}\" {} {{composite_attributes = {{{}}}, decomposition = @{plain}}} : ({}) -> ({})",
            outputs.len(),
            case.name,
            operands.join(", "),
            case.attributes,
            inputs.join(", "),
            outputs.join(", ")
        )
        .unwrap();
        results.extend((0..outputs.len()).map(|n| format!("%{plain}#{n}")));
        types.extend(outputs);
    }
    let (args, types, results) = (args.join(", "), types.join(", "), results.join(", "));
    let text = format!("func.func @main({args}) -> ({types}) {{\n{body}  return {results} : {types}\n}}");
    let mut module = hlo::text::parse(&text).unwrap();
    module.funcs.extend(cases.iter().map(|case| case.plain.clone()));
    hlo::verify(module).unwrap()
}

#[test]
fn kernels_compile_for_every_generation() {
    let Some(bench) = Bench::with_libtpu("kernels_compile_for_every_generation") else { return };
    let cases = cases();
    for (generation, slice) in [
        (Generation::V4, "v4-8"),
        (Generation::V5e, "v5e-1"),
        (Generation::V5p, "v5p-8"),
        (Generation::V6e, "v6e-1"),
        (Generation::Tpu7x, "tpu7x-2"),
    ] {
        let lowered = kernel::lower(program(&cases), generation).unwrap();
        let expected: usize = cases.iter().map(|case| calls(case.name, generation)).sum();
        assert_eq!((lowered.called.len(), &lowered.kept[..]), (expected, &[][..]), "{generation}");
        let file = bench.write("kernels.mlir", hlo::text::print(&lowered.module));
        let hlo = bench.expect(0, &["compile", arg(&file), "--slice", slice, "--emit", "hlo"]).stdout;
        let calls = hlo.matches("custom_call_target=\"tpu_custom_call\"").count();
        assert_eq!(calls, expected, "{generation}");
    }
}

#[test]
fn look_ups_compile_where_there_are_sparse_cores() {
    let Some(bench) = Bench::with_libtpu("look_ups_compile_where_there_are_sparse_cores") else { return };
    // Two rounds of some subcores, rows in parts, and ids that are no whole tile.
    let shapes = [(5000, 768, 4104), (300, 8192, 64), (1000, 128, 23)];
    let case = |(n, (rows, size, ids)): (usize, (usize, usize, usize))| {
        let shapes = SparseLookup { rows, size, ids, dtype: DType::F32 };
        let plain = embedding::decomposition(&shapes, &format!("rows{n}")).unwrap();
        Case { name: composites::EMBEDDING_LOOKUP, attributes: String::new(), plain }
    };
    let cases: Vec<Case> = shapes.into_iter().enumerate().map(case).collect();
    for (generation, slice) in [
        (Generation::V5p, "v5p-8"),
        (Generation::V6e, "v6e-1"),
        (Generation::Tpu7x, "tpu7x-2"),
        (Generation::V5e, "v5e-1"),
    ] {
        let lowered = kernel::lower(program(&cases), generation).unwrap();
        let expected = if generation == Generation::V5e { 0 } else { cases.len() };
        assert_eq!((lowered.called.len(), lowered.kept.len()), (expected, cases.len() - expected), "{generation}");
        let file = bench.write("look_ups.mlir", hlo::text::print(&lowered.module));
        let hlo = bench.expect(0, &["compile", arg(&file), "--slice", slice, "--emit", "hlo"]).stdout;
        assert_eq!(hlo.matches("custom_call_target=\"tpu_custom_call\"").count(), expected, "{generation}");
        assert_eq!(hlo.contains("async_execution_thread=\"sparsecore\""), expected > 0, "{generation}");
    }
}

/// Runs a function of plain ops.
fn run(func: &Func, operands: &[Literal]) -> Vec<Literal> {
    let mut func = func.clone();
    func.visibility = Visibility::Public;
    let module = hlo::Module { funcs: vec![func.clone()], ..hlo::Module::default() };
    let module = hlo::verify(module).unwrap();
    let cpu = Cpu::new(Some(1));
    let options = EngineOptions { entry: Some(&func.name), ..EngineOptions::default() };
    let compiled = Compiled::from_module(&cpu, module, &options).unwrap();
    let operands = operands.iter().map(|literal| Array::from_literal(cpu.memory(), literal).unwrap()).collect();
    let results = compiled.run(vec![operands], &Default::default()).unwrap();
    results[0].iter().map(Array::to_literal).collect()
}

fn floats(literal: &Literal) -> Vec<f64> {
    let dtype = literal.dtype();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    literal.bytes().chunks_exact(dtype.size_bytes()).map(|b| tensor::decode_float(dtype, word(b)).unwrap()).collect()
}

/// Numbers that differ from place to place, of a size that keeps exponentials apart.
fn operand(ty: &hlo::Type, seed: usize, ints: &[i32]) -> Literal {
    let tensor = ty.as_tensor().unwrap();
    let dtype = tensor.element.plain().unwrap();
    let dims: Vec<usize> = tensor.dims.iter().map(|&d| d as usize).collect();
    let count: usize = dims.iter().product();
    let bytes = (0..count).flat_map(|i| match dtype {
        DType::I32 => ints[i * ints.len() / count].to_le_bytes().to_vec(),
        DType::I4 => vec![(i.wrapping_mul(2_654_435_761) >> 9) as u8 % 16],
        DType::I8 => vec![(i.wrapping_mul(2_654_435_761) >> 9) as u8],
        _ => {
            let mixed = (i + 7919 * seed).wrapping_mul(2_654_435_761) >> 7;
            let value = (mixed % 2001) as f64 / 1000.0 - 1.0;
            tensor::encode_float(dtype, value).unwrap().to_le_bytes()[..dtype.size_bytes()].to_vec()
        }
    });
    Literal::new(dtype, dims, bytes.collect()).unwrap()
}

/// A matrix with zeros below, as many rows as that.
fn with_rows(matrix: &Literal, rows: usize) -> Literal {
    let columns = matrix.dims()[1];
    let mut bytes = matrix.bytes().to_vec();
    bytes.resize(rows * columns * matrix.dtype().size_bytes(), 0);
    Literal::new(matrix.dtype(), [rows, columns], bytes).unwrap()
}

/// Kernels and decompositions round weights and gradients to `bf16` at the same places, but sum in another order.
const TOLERANCE: f64 = 0.01;

#[test]
fn kernels_give_what_their_decompositions_give() {
    let sizes = [130, 0, 200, 100];
    for case in cases() {
        let ints: &[i32] = match case.name {
            composites::GROUPED_MATMUL | composites::GROUPED_MATMUL_GRADIENT => &sizes,
            _ => &[3, 3, 5, 7, 7, 7, 1, 2],
        };
        let mut operands: Vec<Literal> =
            case.plain.inputs.iter().enumerate().map(|(n, ty)| operand(ty, n, ints)).collect();
        // Results of the forward pass are operands of the backward pass: random ones would be no attention.
        let forward = match case.name {
            composites::FLASH_BACKWARD => {
                let segments = if operands.len() > 6 { Segments::Packed } else { Segments::One };
                let name = &case.plain.name;
                let attention = masked(name).or_else(|| capped(name)).unwrap_or_else(|| attention(segments));
                let plain = flash::decomposition(&attention, "forward").unwrap();
                let given = [&operands[..3], &operands[6..]].concat();
                Some((3, run(&plain, &given)))
            }
            composites::CROSS_ENTROPY_BACKWARD => {
                let plain = cross_entropy::decomposition(&LOSS, "forward").unwrap();
                Some((3, run(&plain, &operands[..3])[1..].to_vec()))
            }
            _ => None,
        };
        if let Some((at, results)) = forward {
            operands.splice(at..at + results.len(), results);
        }
        let whole = |numbers: &[i32]| {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            Literal::new(DType::I32, [numbers.len()], bytes).unwrap()
        };
        if case.name == composites::PAGED_ATTENTION {
            // All queries are of tokens.
            let given = [&[1][..], &[4, 0, 3, 1], &[300, 190], &[16, 16]].map(whole);
            operands.splice(..given.len(), given);
        }
        if case.name == composites::GROUPED_MATMUL && operands[0].dtype() == DType::I32 {
            operands[0] = whole(&[1]);
        }
        let expected = run(&case.plain, &operands);
        let lowered = kernel::lower(program(std::slice::from_ref(&case)), Generation::V5e).unwrap();
        let [(_, kernel)] = &lowered.called[..] else { panic!("{}: {:?}", case.name, lowered.kept) };
        let visits = match case.name {
            composites::GROUPED_MATMUL => Some(Visits::EveryTile),
            composites::GROUPED_MATMUL_GRADIENT => Some(Visits::EveryGroup),
            _ => None,
        };
        if let Some(visits) = visits {
            let shapes = grouped_matmul(&case.plain.name).unwrap_or(GROUPED);
            let tiles = Tiles::preferred(&shapes, visits, Generation::V5e).unwrap();
            let tables = grouped::visits(&shapes, &tiles, visits, "visits").unwrap();
            let sizes = operands.pop().unwrap();
            operands.splice(0..0, run(&tables, &[sizes]));
        }
        if let Some(attention) = masked(&case.plain.name) {
            let pass = match case.name {
                composites::FLASH => PassDirection::Forward,
                _ => PassDirection::Backward,
            };
            let blocks = FlashBlockSizes::preferred(&attention, Generation::V5e, pass).unwrap();
            let made = flash::mask_for(&attention, &blocks, pass, "mask").unwrap();
            let mask = operands.pop().unwrap();
            operands.splice(0..0, run(&made, &[mask]));
        }
        if case.name == composites::QUANTIZED_MATMUL {
            let codes = operands[1].dtype();
            let prepared = quantized::prepared(&quantized_matmul(codes), "prepared").unwrap();
            operands[0] = run(&prepared, &operands[..1]).remove(0);
        }
        if [composites::CROSS_ENTROPY, composites::CROSS_ENTROPY_BACKWARD].contains(&case.name) {
            operands[1] = with_rows(&operands[1], kernel.operands()[1].dims[0]);
        }
        let results = kernel::interpret(kernel, &operands).unwrap();
        for (n, (got, expected)) in results.iter().zip(&expected).enumerate() {
            let (mut got, expected) = (floats(got), floats(expected));
            // Rows of the weight beyond its vocabulary.
            got.truncate(expected.len());
            let largest = expected.iter().fold(1e-6f64, |most, v| most.max(v.abs()));
            let apart = got.iter().zip(&expected).map(|(g, e)| (g - e).abs() / largest);
            let worst = apart.fold(0.0, |most: f64, v| if v.is_nan() { f64::INFINITY } else { most.max(v) });
            assert!(worst <= TOLERANCE, "{} ({}) result {n}: {worst:.2e} of the largest", case.name, case.plain.name);
        }
    }
}

const MIXTURE: &str = r#"
[model]
model_type = "mixtral"
vocab_size = 256
hidden_size = 256
intermediate_size = 512
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 4
max_position_embeddings = 256
rms_norm_eps = 1e-5
rope_theta = 10000.0
hidden_act = "silu"
num_local_experts = 4
num_experts_per_tok = 2

[run]
precision = "mixed"
remat = "full"

[data]
kind = "synthetic"
sequence_length = 128

[optimizer]
name = "adamw"
learning_rate = 1e-3

[train]
steps = 1
batch_size = 8
"#;

/// Experts are grouped matmuls without being asked to, on one chip and on a mesh, and cost what the chosen experts cost.
#[test]
fn experts_are_kernels_on_tpus() {
    let Some(bench) = Bench::with_libtpu("experts_are_kernels_on_tpus") else { return };
    bench.write("mixture.toml", MIXTURE);
    // Eight sequences of 128 positions, two choices each; 256 by 512 numbers in a matrix.
    let matmul_flops = |chips: f64| 2.0 * (8.0 * 128.0 * 2.0 / chips) * 256.0 * 512.0;
    for (mesh, slice, chips) in
        [(None, "v5e-1", 1.0), (Some("fsdp=2,expert=2"), "v5e-4", 4.0), (Some("fsdp=4"), "v5e-4", 4.0)]
    {
        let placed: Vec<&str> = mesh.into_iter().flat_map(|mesh| ["--mesh", mesh]).collect();
        let file = bench.path("step.mlir");
        bench.expect(0, &[&["train", "mixture.toml", "--export", arg(&file)][..], &placed].concat());
        let fit = bench.expect(0, &["fit", arg(&file), "--slice", slice, "--json"]).stdout;
        let fit: serde_json::Value = serde_json::from_str(&fit).unwrap();
        let ops: Vec<(String, f64)> = fit["estimate"]["ops"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|op| op["opcode"] == "custom-call")
            .map(|op| {
                (
                    op["name"].as_str().unwrap().to_owned(),
                    op["flops"].as_f64().unwrap() / op["executions"].as_f64().unwrap(),
                )
            })
            .collect();
        let of =
            |name: &str| ops.iter().filter(|(op, _)| op.starts_with(name)).map(|(_, flops)| *flops).collect::<Vec<_>>();
        // Three matmuls, two of them again in the backward pass, and three for the gradients of rows; three for those of matrices.
        assert_eq!((of("gmm").len(), of("tgmm").len()), (8, 3), "{slice} {mesh:?}: {ops:?}");
        for flops in of("gmm").iter().chain(&of("tgmm")) {
            assert_eq!(*flops, matmul_flops(chips), "{slice} {mesh:?}");
        }
    }
}
