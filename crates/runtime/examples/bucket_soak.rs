//! Runs a model many times with changing sizes and prints what was compiled and how memory behaved.
//!
//! `cargo run --release -p tpubridge-runtime --example bucket_soak -- 100000`

use std::sync::Arc;

use compile::Program;
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Bucketing, Buckets, Dimension, Parameters};
use tensor::{DType, Literal};

const WIDTH: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let text = format!(
        "module @soak {{
            func.func @main(%w: tensor<{WIDTH}x{WIDTH}xf32>, %x: tensor<?x{WIDTH}xf32>) -> tensor<?x{WIDTH}xf32> {{
                %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x{WIDTH}xf32>, tensor<{WIDTH}x{WIDTH}xf32>) -> tensor<?x{WIDTH}xf32>
                %1 = stablehlo.tanh %0 : tensor<?x{WIDTH}xf32>
                return %1 : tensor<?x{WIDTH}xf32>
            }}
        }}"
    );
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu))?;
    let zeros = |dims: [usize; 2]| Literal::zeros(DType::F32, dims).map(Arc::new).ok_or("sizes");
    let weights = Parameters::leading(vec![zeros([WIDTH, WIDTH])?]);
    let buckets = Buckets::powers_of_two(1..=256);
    let expected = buckets.sizes().len() as u64;
    let bucketing = Bucketing::new([Dimension::new("batch", buckets).argument(1, 0)]);
    let model = backend.prepare_bucketed(Arc::new(Program::read(text.into_bytes())?), &weights, bucketing)?;
    let started = std::time::Instant::now();
    let mut settled_bytes = 0;
    for n in 0..runs {
        let size = n * 97 % 256 + 1;
        let results = model.run(&[zeros([size, WIDTH])?])?;
        if results[0].dims() != [size, WIDTH] {
            return Err(format!("{size} rows became {:?}", results[0].dims()).into());
        }
        if n == runs / 10 {
            settled_bytes = resident_bytes();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", model.report());
    let (compiled, resident) = (backend.compiler().stats().compilations, resident_bytes());
    println!("{runs} runs in {seconds:.1} s ({:.1} µs each), {compiled} compilations", 1e6 * seconds / runs as f64);
    println!("resident: {settled_bytes} bytes after a tenth, {resident} at the end");
    if compiled != expected {
        return Err(format!("{compiled} compilations for {expected} buckets").into());
    }
    if resident > settled_bytes + (16 << 20) {
        return Err("memory grew".into());
    }
    Ok(())
}

/// Memory of this process that is in use; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
