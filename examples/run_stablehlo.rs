//! Runs a StableHLO file: here one step of training, whose results are the inputs of the next.
//!
//! ```text
//! $ cargo run --example run_stablehlo
//! @fit_sine takes w1 f32[1,64], b1 f32[64], w2 f32[64,1], b2 f32[1], x f32[256,1]
//! step   1  loss 24.0…
//! step 101  loss 0.…
//! step 201  loss 0.…
//! ```
//!
//! `jax.jit(f).lower(x).as_text()` writes such a file, and so do `jax.export` and PyTorch's exporters.

use tpubridge::prelude::*;

fn main() -> Result<()> {
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu))?;
    let program = Program::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fit_sine.mlir"))?;
    let name = program.name().to_string();
    let step = backend.load(program)?;
    let inputs: Vec<String> = step.inputs().map(|input| format!("{} {}", input.name, input.spec)).collect();
    println!("@{name} takes {}", inputs.join(", "));

    // The parameters, and 256 points between -3 and 3.
    let spread = |count: usize, by: f32| (0..count).map(|n| (n as f32 * 0.618).fract() * by - by / 2.0).collect();
    let (w1, w2): (Vec<f32>, Vec<f32>) = (spread(64, 2.0), spread(64, 0.5));
    let x: Vec<f32> = (0..256).map(|n| n as f32 / 256.0 * 6.0 - 3.0).collect();
    let mut parameters = vec![
        Tensor::from(Literal::from(w1).reshape([1, 64])?),
        Tensor::from([0.0f32; 64]),
        Tensor::from(Literal::from(w2).reshape([64, 1])?),
        Tensor::from([0.0f32]),
    ];
    let x = Tensor::from(Literal::from(x).reshape([256, 1])?);
    for n in 0..201 {
        parameters.push(x.clone());
        let mut results = step.call(&parameters)?;
        let loss = results.pop().expect("the loss is the last result");
        if n % 100 == 0 {
            println!("step {:3}  loss {:.4}", n + 1, loss.item::<f32>()?);
        }
        parameters = results;
    }
    Ok(())
}
