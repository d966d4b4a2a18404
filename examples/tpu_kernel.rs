//! A TPU kernel written in Rust: softmax over rows, interpreted here, and compiled for a slice where libtpu is.
//!
//! ```text
//! $ cargo run --example tpu_kernel
//! interpreted: rows sum to 1.000 and 1.000, the largest of row 1 is at 1
//! on v5litepod-1: fits, 2.5 µs a call
//! ```

use tpubridge::kernel::{self, KernelBuilder, Semantics, interpret};
use tpubridge::prelude::*;

const ROWS: usize = 256;
const SIZE: usize = 512;

fn main() -> Result<()> {
    // The compiler runs in a child process: this program, started again.
    compile_worker();

    // A grid of steps, each with a block of rows in VMEM; blocks come and go while others are computed.
    let array = Spec::new(DType::F32, [ROWS, SIZE]);
    let mut builder = KernelBuilder::new("softmax", Generation::V5e);
    let block = [64, SIZE];
    let steps = builder.grid(ROWS / block[0], Semantics::Parallel);
    let x = builder.input("x", array.clone(), block, |map| vec![map.program_id(steps), map.i32(0)]);
    let y = builder.output("y", array.clone(), block, |map| vec![map.program_id(steps), map.i32(0)]);
    let softmax = builder.body(|body| {
        let x = body.load(x);
        let weights = (x - x.maximum(1)).exp();
        body.store(y, weights / weights.sum(1));
    })?;

    // Anywhere: the interpreter runs the same kernel on host values.
    let values: Vec<f32> = (0..ROWS * SIZE).map(|n| if n % SIZE == n / SIZE { 3.0 } else { 0.0 }).collect();
    let result = interpret(&softmax, &[Literal::from_slice(&values, [ROWS, SIZE])?])?;
    let rows = result[0].to_vec::<f32>()?;
    let sum = |row: usize| rows[row * SIZE..][..SIZE].iter().sum::<f32>();
    let largest = (0..SIZE).max_by(|&a, &b| rows[SIZE + a].total_cmp(&rows[SIZE + b])).unwrap_or_default();
    println!("interpreted: rows sum to {:.3} and {:.3}, the largest of row 1 is at {largest}", sum(0), sum(1));

    // In a program: a call that the TPU compiler knows.
    let program = lower("rows", &Tensor::of(array), |x| {
        custom_call(kernel::TARGET, std::slice::from_ref(x), &softmax.results(), &softmax.backend_config()).remove(0)
    })?;
    match fit(&program, &FitRequest::new("v5e-1".parse()?)) {
        Err(error @ Error::NoCompiler(_)) => println!("{error}: {}", error.remedy().unwrap_or_default()),
        answer => {
            let answer = answer?;
            let seconds = answer.estimate.map_or(0.0, |estimate| estimate.step.seconds);
            let word = if answer.verdict.fits { "fits" } else { "does not fit" };
            println!("on {}: {word}, {:.1} µs a call", answer.slice, seconds * 1e6);
        }
    }
    Ok(())
}
