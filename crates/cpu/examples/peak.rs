//! Matmuls against what this machine's multiply-add units can do: `cargo run --release -p tpubridge-cpu --example peak [THREADS]`.
#![allow(unsafe_code)]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use cpu::{Array, Compiled, Cpu, EngineOptions};
use tensor::DType;

/// How long each figure is looked for; the fastest part of it counts.
const PATIENCE: Duration = Duration::from_secs(2);
/// Multiply-adds in a row on each of the chains.
const ROUNDS: usize = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads: usize = std::env::args().nth(1).map_or(Ok(1), |n| n.parse())?;
    println!("{threads} threads; 10^9 operations per second");
    let mut limit = fma_limit(threads)?;
    println!("  multiply-adds on registers        {:8.1}", limit / 1e9);
    for size in [256, 512, 1024, 2048] {
        let rate = matmul(threads, size)?;
        // The clock moves: the limit is the best that was seen on either side.
        limit = limit.max(fma_limit(threads)?);
        println!("  f32 matmul of {size:>4} x {size:>4}         {:8.1}  {:4.2} of the limit", rate / 1e9, rate / limit);
    }
    Ok(())
}

/// f32 operations a second of all threads together on independent chains of multiply-adds.
fn fma_limit(threads: usize) -> Result<f64, String> {
    let barrier = Barrier::new(threads);
    let chains = chains().ok_or("this machine has no instructions that the example knows")?;
    let mut best = 0.0f64;
    let started = Instant::now();
    while started.elapsed() < PATIENCE / 4 {
        let slowest = std::thread::scope(|scope| {
            let one = || {
                barrier.wait();
                let started = Instant::now();
                let operations = chains(ROUNDS);
                (operations, started.elapsed())
            };
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            running.into_iter().filter_map(|thread| thread.join().ok()).max_by_key(|(_, time)| *time)
        });
        if let Some((operations, time)) = slowest {
            best = best.max((operations * threads) as f64 / time.as_secs_f64());
        }
    }
    Ok(best)
}

/// Runs chains of multiply-adds and says how many operations that was.
type Chains = fn(usize) -> usize;

#[cfg(target_arch = "x86_64")]
fn chains() -> Option<Chains> {
    use std::arch::x86_64::*;

    /// Enough chains that none waits for its own last result on two units.
    const CHAINS: usize = 16;

    #[target_feature(enable = "avx512f")]
    fn wide(rounds: usize) -> f32 {
        let (mut sums, factor) = ([_mm512_set1_ps(1.0); CHAINS], _mm512_set1_ps(std::hint::black_box(0.999)));
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, factor);
            }
        }
        sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    fn narrow(rounds: usize) -> f32 {
        let (mut sums, factor) = ([_mm256_set1_ps(1.0); CHAINS - 4], _mm256_set1_ps(std::hint::black_box(0.999)));
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        sums.into_iter().map(|sum| _mm256_cvtss_f32(sum)).sum()
    }

    if is_x86_feature_detected!("avx512f") {
        return Some(|rounds| {
            // SAFETY: the machine has the instructions.
            std::hint::black_box(unsafe { wide(rounds) });
            rounds * CHAINS * 16 * 2
        });
    }
    (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(|rounds| {
        // SAFETY: the machine has the instructions.
        std::hint::black_box(unsafe { narrow(rounds) });
        rounds * (CHAINS - 4) * 8 * 2
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn chains() -> Option<Chains> {
    None
}

/// f32 operations a second of a compiled matmul of square matrices.
fn matmul(threads: usize, size: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let ty = format!("tensor<{size}x{size}xf32>");
    let program = format!(
        "func.func @main(%a: {ty}, %b: {ty}) -> {ty} {{
           %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}
           return %0 : {ty}
         }}"
    );
    let cpu = Cpu::new(Some(threads));
    let compiled = Compiled::compile(&cpu, program.as_bytes(), &EngineOptions::default())?;
    let word = |n: usize| ((n * 37 % 101) as f32 / 500.0 - 0.1).to_le_bytes();
    let bytes: Vec<u8> = (0..size * size).flat_map(word).collect();
    let matrix = || Array::from_bytes(cpu.memory(), DType::F32, vec![size, size], &bytes);
    let arguments = vec![matrix()?, matrix()?];
    let mut best = Duration::MAX;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let before = Instant::now();
        compiled.run(vec![arguments.clone()], &Default::default())?;
        best = best.min(before.elapsed());
    }
    Ok(2.0 * (size as f64).powi(3) / best.as_secs_f64())
}
