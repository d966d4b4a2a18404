//! Runs repeated many times: memory stays where it is.

use std::sync::Arc;

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions};
use pjrt::{
    Argument, BufferType, ClientOptions, CompileOptions as PluginOptions, EncodedProgram, ExecuteOptions, HostSource,
    Placement, Plugin,
};
use tensor::{DType, Literal};

/// Resident bytes may grow this much over a whole test: allocators keep pages, and other tests may run beside this one.
const SLACK_BYTES: usize = 64 << 20;

const STEP: &str = "func.func @main(%a: tensor<64x16xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<16x16xf32>) -> (tensor<64x16xf32>, tensor<f32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  %1 = stablehlo.tanh %0 : tensor<64x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x16xf32>, tensor<f32>) -> tensor<f32>
  %3 = stablehlo.add %1, %a : tensor<64x16xf32>
  func.return %3, %2 : tensor<64x16xf32>, tensor<f32>
}";

/// Adds a number to each of many elements, in place.
const IN_PLACE: &str = "func.func @main(%a: tensor<262144xf32> {tf.aliasing_output = 0 : i32}) -> tensor<262144xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<262144xf32>
  %0 = stablehlo.add %a, %one : tensor<262144xf32>
  func.return %0 : tensor<262144xf32>
}";

fn compile(cpu: &Arc<Cpu>, text: &str) -> Compiled {
    Compiled::compile(cpu, text.as_bytes(), &EngineOptions::default()).unwrap()
}

fn zeros(cpu: &Arc<Cpu>, dims: &[usize]) -> Array {
    Array::from_literal(cpu.memory(), &Literal::zeros(DType::F32, dims).unwrap()).unwrap()
}

/// Bytes of the process in memory; `None` where the system does not tell.
fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

/// Runs `once` often and says how much more memory the process has than after the first tenth.
fn check_steady(rounds: usize, mut once: impl FnMut()) {
    for _ in 0..rounds / 10 {
        once();
    }
    let before = resident_bytes();
    for _ in 0..rounds {
        once();
    }
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(grown < SLACK_BYTES, "{rounds} runs left {grown} bytes behind");
    }
}

#[test]
fn many_runs_of_the_engine_leave_nothing_behind() {
    let cpu = Cpu::new(Some(1));
    let compiled = compile(&cpu, STEP);
    let weights = zeros(&cpu, &[16, 16]);
    let mut state = Some(zeros(&cpu, &[64, 16]));
    let options = InterpreterOptions::default();
    check_steady(100_000, || {
        let mut results = compiled.run(vec![vec![state.take().unwrap(), weights.clone()]], &options).unwrap();
        state = Some(results[0].remove(0));
    });
}

#[test]
fn many_compilations_leave_nothing_behind() {
    let cpu = Cpu::new(Some(1));
    check_steady(500, || drop(compile(&cpu, STEP)));
}

#[test]
fn a_donated_argument_becomes_the_result() {
    let cpu = Cpu::new(Some(1));
    let compiled = compile(&cpu, IN_PLACE);
    let argument = zeros(&cpu, &[262_144]);
    let address = argument.bytes().as_ptr();
    let results = compiled.run(vec![vec![argument]], &InterpreterOptions::default()).unwrap();
    assert_eq!(results[0][0].bytes().as_ptr(), address);
    assert_eq!(results[0][0].bytes()[..4], 1f32.to_le_bytes());
    // One that the caller still holds stays as it is.
    let held = results[0][0].clone();
    let again = compiled.run(results, &InterpreterOptions::default()).unwrap();
    assert_ne!(again[0][0].bytes().as_ptr(), address);
    assert_eq!(held.bytes()[..4], 1f32.to_le_bytes());
    assert_eq!(again[0][0].bytes()[..4], 2f32.to_le_bytes());
}

#[test]
fn a_second_run_uses_the_memory_of_the_first() {
    let cpu = Cpu::new(Some(1));
    let text = IN_PLACE.replace(" {tf.aliasing_output = 0 : i32}", "");
    let compiled = compile(&cpu, &text);
    let argument = zeros(&cpu, &[262_144]);
    let address = || {
        let results = compiled.run(vec![vec![argument.clone()]], &InterpreterOptions::default()).unwrap();
        results[0][0].bytes().as_ptr()
    };
    assert_eq!(address(), address());
}

#[test]
fn many_runs_through_the_table_leave_nothing_behind() {
    let plugin = Plugin::load(&super::plugin::library()).unwrap();
    let client = plugin.client(&ClientOptions::default()).unwrap();
    let device = client.addressable_devices().unwrap().remove(0);
    let executable = client.compile(&EncodedProgram::mlir(STEP), &PluginOptions::default()).unwrap();
    let upload = |count: usize, dims: &[i64]| {
        let bytes = vec![0; 4 * count];
        let place = Placement::Device(&device);
        client.buffer_from_host(HostSource::Copied(&bytes), BufferType::F32, dims, None, place).unwrap().0
    };
    let weights = upload(256, &[16, 16]);
    check_steady(3000, || {
        let state = upload(1024, &[64, 16]);
        let arguments = [vec![Argument::Donate(&state), Argument::Keep(&weights)]];
        executable.execute(&arguments, &ExecuteOptions::default()).unwrap().wait().unwrap();
    });
}
