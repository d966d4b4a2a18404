//! Where to train a model: slices, meshes and batches, compiled and ranked by what a token costs. No TPU is needed.
//!
//! ```text
//! $ cargo run --release --example plan_model
//! … candidates, … compiled
//! …
//! best: …
//! ```
//!
//! Without libtpu it says how to get it.

use tpubridge::prelude::*;

fn main() -> Result<()> {
    // The compiler runs in a child process: this program, started again.
    compile_worker();

    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/train/tiny-gpt.toml");
    let model = Planned::read(file.as_ref(), &PlannedStep::default())?;
    let slices = vec!["v5e-1".parse()?, "v6e-1".parse()?];
    let options = SearchOptions { batches: Some(vec![64]), compiles: 2, ..SearchOptions::new(slices) };
    let answer = match plan(&model.source()?, &options) {
        Err(error @ Error::NoCompiler(_)) => {
            println!("{error}: {}", error.remedy().unwrap_or_default());
            return Ok(());
        }
        answer => answer?,
    };
    println!("{} candidates, {} compiled", answer.considered, answer.compiled);
    for plan in &answer.plans {
        let step = plan.step.seconds * 1e3;
        println!("{}: a step of {step:.2} ms, MFU {:.1} %, batch {}", plan.slice, plan.mfu * 100.0, plan.batch);
    }
    if let Some(best) = answer.best() {
        println!("best: {}", best.slice);
    }
    Ok(())
}
