//! Programs, text or bytecode: whatever verifies compiles and runs on zeros without a panic, and fails with no error of ours.
#![no_main]

use std::sync::{Arc, OnceLock};

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, Error, PortType};
use libfuzzer_sys::fuzz_target;
use tensor::Literal;

/// Bytes that arguments and results of one program may have: inputs are small, the sizes they name need not be.
const MAX_BYTES: usize = 1 << 20;

fn device() -> &'static Arc<Cpu> {
    static CPU: OnceLock<Arc<Cpu>> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(Some(2)))
}

fuzz_target!(|data: &[u8]| {
    let Ok(module) = hlo::read(data).and_then(hlo::verify) else { return };
    let compiled = match Compiled::from_module(device(), module, &EngineOptions::default()) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(!matches!(error, Error::Internal(_)), "{error}");
            return;
        }
    };
    let small = |port: &PortType| port.bytes().is_some_and(|n| n <= MAX_BYTES);
    if !compiled.arguments().iter().chain(compiled.results()).all(small)
        || compiled.temporary_bytes().is_none_or(|n| n > 16 * MAX_BYTES)
    {
        return;
    }
    let array = |port: &PortType| {
        let PortType::Array(dtype, dims) = port else { return None };
        let dims: Vec<usize> = dims.iter().copied().collect::<Option<_>>()?;
        Array::from_literal(device().memory(), &Literal::zeros(*dtype, dims)?).ok()
    };
    let Some(arguments) = compiled.arguments().iter().map(array).collect::<Option<Vec<_>>>() else { return };
    let limits =
        InterpreterOptions { max_steps: Some(10_000), max_bytes: Some(64 << 20), ..InterpreterOptions::default() };
    if let Err(error) = compiled.run(vec![arguments], &limits) {
        assert!(!matches!(error, Error::Internal(_)), "{error}");
    }
});
