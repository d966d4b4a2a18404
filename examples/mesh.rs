//! Trains on a mesh of eight devices: the batch split over `data`, parameters over `fsdp`.
//!
//! ```text
//! $ cargo run --example mesh
//! 8 devices
//! … f32[16,32] is sharded …
//! step  1  loss …
//! step 11  loss …
//! step 21  loss …
//! one device and eight agree
//! ```
//!
//! The devices are virtual ones of the CPU; on a TPU slice leave `.device(…)` and `.cpu_devices(…)` out.

use tpubridge::prelude::*;
use tpubridge::train::{StateSharding, parameter_shapes};

fn model() -> Mlp {
    let sizes = MlpConfig { input: 16, hidden: vec![32, 32], output: 1, activation: Activation::Tanh };
    Mlp::init(&Key::from_seed(0), &sizes)
}

/// One step of gradient descent on `(x, y)`.
fn step((model, batch): &(Mlp, Vec<Tensor>)) -> (Mlp, Tensor) {
    let loss = |model: &Mlp| mean_squared_error(&model.apply(&batch[0]), &batch[1]);
    let (loss, gradient) = value_and_grad(loss, model);
    (model.zip(&gradient, |value, slope| value - &(slope * 0.1)), loss)
}

fn train(devices: usize) -> Result<Vec<f32>> {
    let config = Config::new(Mode::Development).device(Target::Cpu).cpu_devices(devices);
    let backend = Backend::auto(&config)?;
    let sharding = match devices {
        1 => None,
        _ => {
            let rules = ShardingRules::new(&"data=4,fsdp=2".parse()?, Strategy::Hybrid)?;
            let shapes = parameter_shapes(&shapes_of(&(), |()| model())?);
            Some(StateSharding::new(&backend, &rules, shapes, &[])?)
        }
    };
    let mut init = backend.jit(|(): &()| model()).on(sharding.as_ref().map(StateSharding::init));
    let mut step = backend.jit(step).donate_first().on(sharding.as_ref().map(StateSharding::step));

    let mut model = init.call(())?;
    if sharding.is_some() {
        println!("{} devices", backend.devices().len());
        let (path, array) = model.arrays()?.swap_remove(0);
        if let Some(named) = array.named_sharding() {
            println!("{path} {} is sharded {}", array.spec(), named.sharding);
        }
    }
    let x: Vec<f32> = (0..64 * 16).map(|n| (n as f32 * 0.37).sin()).collect();
    let y: Vec<f32> = x.chunks(16).map(|row| row.iter().sum::<f32>().sin()).collect();
    let batch = vec![Tensor::from(Literal::from_slice(&x, [64, 16])?), Tensor::from(Literal::from_slice(&y, [64, 1])?)];
    let mut losses = Vec::new();
    for _ in 0..30 {
        let (next, loss) = step.call((model, batch.clone()))?;
        model = next;
        losses.push(loss.item::<f32>()?);
    }
    Ok(losses)
}

fn main() -> Result<()> {
    let (eight, one) = (train(8)?, train(1)?);
    for (n, loss) in eight.iter().enumerate().step_by(10) {
        println!("step {:2}  loss {loss:.3}", n + 1);
    }
    let agree = eight.iter().zip(&one).all(|(a, b)| (a - b).abs() < 1e-4);
    println!("one device and eight {}", if agree { "agree" } else { "differ" });
    Ok(())
}
