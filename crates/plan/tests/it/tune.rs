//! Changes of `tpu tune`: attention that became composites gives the same results.

use std::sync::Arc;

use chips::Generation;
use compile::Program;
use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use runtime::optimize::compare_programs;
use tensor::{Literal, encode_float};

/// Arrays of numbers up to a size, one for each argument.
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
            let bits = encode_float(dtype, size * real).unwrap();
            element.copy_from_slice(&bits.to_le_bytes()[..element.len()]);
        }
        Arc::new(literal)
    };
    program.module().entry().unwrap().inputs.iter().map(&mut array).collect()
}

#[test]
fn attention_as_composites_gives_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let plain = include_str!("../../../kernel/tests/data/recognise/plain.mlir");
    let wide = plain.replace("xbf16>", "xf32>").replace("tensor<bf16>", "tensor<f32>");
    let gqa = include_str!("../../../kernel/tests/data/recognise/gqa.mlir");
    // Large scores in bf16 hang on where a program rounds them: in f32 they are compared too.
    for (name, text, size, tolerance) in [
        ("gqa", gqa, 0.3, 0.03),
        ("plain", plain, 0.3, 0.03),
        ("f32", wide.as_str(), 0.3, 1e-4),
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

#[test]
fn chosen_experts_give_the_same_results() {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    let before = Program::read(include_bytes!("../../../kernel/tests/data/recognise/experts.mlir").to_vec()).unwrap();
    let found = kernel::recognise_experts(before.verified().clone(), Generation::V6e).unwrap();
    assert_eq!(found.found.len(), 1);
    let after = Program::from_module(found.module);
    let moved = compare_programs(&backend, &before, &after, &samples(&before, 0.3)).unwrap();
    assert!(moved.iter().all(|result| result.is_finite && result.deviation <= 0.03), "{moved:?}");
}
