//! What the small things of a backend cost: making one, finding a prepared model, pooled arrays, waiting when idle.
//!
//! `cargo run --release -p tpubridge-runtime --example backend_speed` prints the table of `benchmarks/results/backend.md`; exit code 1 when a
//! figure misses its goal.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use compile::Program;
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Parameters, Spec};
use tensor::{DType, Literal};

const LINEAR: &str = "module @linear {
  func.func @main(%w: tensor<256x256xf32>, %x: tensor<8x256xf32>) -> tensor<8x256xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
    return %0 : tensor<8x256xf32>
  }
}";

/// Measured calls of each kind, in groups; the median group counts.
const GROUPS: usize = 101;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let config = Config::new(Mode::Inference).device(Target::Cpu);
    let backend = Backend::auto(&config)?;
    let client = backend.client().clone();
    let program = Arc::new(Program::read(LINEAR.as_bytes().to_vec())?);
    let weights = Literal::zeros(DType::F32, [256, 256]).ok_or("size")?;
    let parameters = Parameters::leading(vec![Arc::new(weights)]);
    let model = backend.prepare_program(&program, &parameters)?;
    let x = backend.send(&Arc::new(Literal::zeros(DType::F32, [8, 256]).ok_or("size")?))?;
    let pool = backend.create_pool("batch", &Spec::new(DType::F32, [8, 256]), 4)?;
    let mut all_met = true;
    println!("| call | goal, us | median, us | fastest, us |");
    println!("|---|---|---|---|");
    let mut row =
        |name: &str, goal_us: Option<f64>, each: usize, call: &mut dyn FnMut() -> Result<(), runtime::Error>| {
            let mut groups = Vec::with_capacity(GROUPS);
            for _ in 0..GROUPS {
                let started = Instant::now();
                for _ in 0..each {
                    call()?;
                }
                groups.push(started.elapsed().as_secs_f64() * 1e6 / each as f64);
            }
            groups.sort_by(f64::total_cmp);
            let median = groups[GROUPS / 2];
            all_met &= goal_us.is_none_or(|goal| median <= goal);
            let goal = goal_us.map_or("-".to_string(), |goal| format!("{goal}"));
            println!("| {name} | {goal} | {median:.3} | {:.3} |", groups[0]);
            Ok::<(), runtime::Error>(())
        };
    row("make a backend, device loaded", Some(130.0), 10, &mut || Backend::on(&client, &config).map(drop))?;
    row("prepare a model that was prepared before", Some(1.0), 1000, &mut || {
        backend.prepare_program(&program, &parameters).map(drop)
    })?;
    row("take an array from a pool and give it back", Some(1.0), 1000, &mut || pool.give_back(pool.take()?))?;
    row("wait when nothing runs", Some(10.0), 1000, &mut || backend.synchronize())?;
    row("allocate and free an array of 8 kB", None, 1000, &mut || {
        backend.uninitialized(&backend.memory().owner("data"), pool.spec()).map(drop)
    })?;
    row("run a matmul of 8x256 and 256x256 and wait", None, 100, &mut || {
        model.run(std::slice::from_ref(&x))?.iter().try_for_each(|array| array.wait())
    })?;
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
