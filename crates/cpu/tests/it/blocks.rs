//! Composites of matrices in blocks, on every tier and in fenced memory: whatever the bytes are, nothing beside them is touched.
#![cfg(unix)]

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions};
use tensor::{BlockFormat, DType, Literal};

use crate::corpus::lower_tiers;
use crate::guarded;

/// Both composites of `[n, k]` in blocks. What they stand for here is zeros, which the kernels do not give.
fn program(format: BlockFormat, [m, n, k]: [usize; 3], row_bytes: usize, x: &str) -> String {
    let (x, blocks) = (format!("tensor<{m}x{k}x{x}>"), format!("tensor<{n}x{row_bytes}xui8>"));
    let (product, floats) = (format!("tensor<{m}x{n}xf32>"), format!("tensor<{n}x{k}xf32>"));
    let (matmul, decode) = (BlockFormat::MATMUL, BlockFormat::DECODE);
    let attributes = format!("composite_attributes = {{{} = \"{}\"}}", BlockFormat::ATTRIBUTE, format.name());
    format!(
        "func.func private @product(%x: {x}, %blocks: {blocks}) -> {product} {{
  %zeros = stablehlo.constant dense<0.0> : {product}
  return %zeros : {product}
}}
func.func private @floats(%blocks: {blocks}) -> {floats} {{
  %zeros = stablehlo.constant dense<0.0> : {floats}
  return %zeros : {floats}
}}
func.func @main(%x: {x}, %blocks: {blocks}) -> ({product}, {floats}) {{
  %product = stablehlo.composite \"{matmul}\" %x, %blocks {{{attributes}, decomposition = @product}} : ({x}, {blocks}) -> {product}
  %floats = stablehlo.composite \"{decode}\" %blocks {{{attributes}, decomposition = @floats}} : ({blocks}) -> {floats}
  return %product, %floats : {product}, {floats}
}}"
    )
}

fn floats(array: &Array) -> Vec<f32> {
    array.to_literal().bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn any_bytes_are_blocks() {
    let mut tiers = lower_tiers();
    tiers.push(Cpu::new(Some(2)));
    let mut state = 7u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let limits = InterpreterOptions::default();
    for format in BlockFormat::ALL {
        // Whole steps of the kernels, and blocks left over.
        for (m, n, k) in [(1, 5, 256), (7, 33, 512), (3, 17, 3 * format.elements()), (40, 3, 256)] {
            let row_bytes = format.row_bytes(k).unwrap();
            let blocks: Vec<u8> = (0..n * row_bytes).map(|_| byte()).collect();
            let mut weights = vec![0.0; n * k];
            format.decode(&blocks, &mut weights);
            let ones: Vec<u8> = (0..m * k).flat_map(|_| [0x80, 0x3f]).collect();
            let literals = [
                Literal::new(DType::BF16, [m, k], ones).unwrap(),
                Literal::new(DType::U8, [n, row_bytes], blocks).unwrap(),
            ];
            let text = program(format, [m, n, k], row_bytes, "bf16");
            for cpu in &tiers {
                let name = format!("{} [{m}, {n}, {k}] with {}", format.name(), cpu.isa());
                let compiled = Compiled::compile(cpu, text.as_bytes(), &EngineOptions::default()).unwrap();
                assert_eq!(compiled.why_interpreted(), None, "{name}");
                let arrays = || literals.iter().map(|one| Array::from_literal(cpu.memory(), one).unwrap()).collect();
                let results = compiled.run(vec![arrays()], &limits).unwrap().remove(0);
                guarded::check(&compiled, arrays(), &results, &limits)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                let is_same = |a: &f32, b: &f32| a == b || a.is_nan() && b.is_nan();
                assert!(floats(&results[1]).iter().zip(&weights).all(|(a, b)| is_same(a, b)), "{name}");
                for (at, sum) in floats(&results[0]).iter().enumerate() {
                    let row = &weights[at % n * k..][..k];
                    let expected: f64 = row.iter().map(|weight| f64::from(*weight)).sum();
                    let most = 2e-3 * row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>();
                    let is_right = (f64::from(*sum) - expected).abs() <= most;
                    assert!(is_right || !expected.is_finite() && !sum.is_finite(), "{name}: {sum} is not {expected}");
                }
            }
        }
    }
}

#[test]
fn blocks_of_another_size_are_what_they_stand_for() {
    // Bytes that are no whole blocks, or not as many as the inputs need: the decomposition's zeros.
    for (format, k, row_bytes) in
        [(BlockFormat::Q8_0, 64, 67), (BlockFormat::Q4K, 512, 144), (BlockFormat::Q6K, 16, 210)]
    {
        let text = program(format, [2, 3, k], row_bytes, "f32");
        let cpu = Cpu::new(Some(1));
        let compiled = Compiled::compile(&cpu, text.as_bytes(), &EngineOptions::default()).unwrap();
        let literals = [
            Literal::new(DType::F32, [2, k], vec![0x3f; 8 * k]).unwrap(),
            Literal::new(DType::U8, [3, row_bytes], vec![0x21; 3 * row_bytes]).unwrap(),
        ];
        let arrays = literals.iter().map(|one| Array::from_literal(cpu.memory(), one).unwrap()).collect();
        let results = compiled.run(vec![arrays], &InterpreterOptions::default()).unwrap().remove(0);
        assert!(results.iter().flat_map(floats).all(|number| number == 0.0), "{}", format.name());
    }
}
