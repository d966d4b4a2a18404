//! Runs a program so many times on one thread: `cargo run --release -p tpubridge-cpu --example repeat -- PROGRAM RUNS [TIER]`.
//!
//! For tools that count from outside: what two numbers of runs differ by is what the runs between them take.

use cpu::{Array, Compiled, Cpu, CpuIsa, EngineOptions, PortType};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: repeat PROGRAM RUNS [TIER]";
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or(usage)?;
    let runs: usize = args.next().ok_or(usage)?.parse()?;
    let isa = args.next().map(|name| name.parse::<CpuIsa>()).transpose()?;
    let cpu = Cpu::with_isa(Some(1), isa)?;
    let compiled = Compiled::compile(&cpu, &std::fs::read(path)?, &EngineOptions::default())?;
    let mut arguments = Vec::new();
    for port in compiled.arguments() {
        let PortType::Array(dtype, dims) = port else { return Err("a token as argument".into()) };
        let dims: Vec<usize> = dims.iter().copied().collect::<Option<_>>().ok_or("sizes that are not known")?;
        let count: usize = dims.iter().product();
        let word = |n: usize| ((n * 37 % 101) as f32 / 25.0 - 2.0).to_le_bytes();
        let bytes: Vec<u8> = match dtype {
            tensor::DType::F32 => (0..count).flat_map(word).collect(),
            _ => (0..count * dtype.size_bytes()).map(|n| (n * 37 % 101) as u8).collect(),
        };
        arguments.push(Array::from_bytes(cpu.memory(), *dtype, dims, &bytes)?);
    }
    for _ in 0..runs {
        compiled.run(vec![arguments.clone()], &Default::default())?;
    }
    Ok(())
}
