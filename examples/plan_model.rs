//! Where to train a model: slices, meshes and batches, compiled and ranked by what a token costs. No TPU is needed.
//!
//! ```text
//! $ cargo run --release --example plan_model
//! … candidates, … compiled
//! best: …, a step of … ms, MFU … %, batch 64
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
    if let Some(best) = answer.best() {
        let (slice, step, mfu) = (&best.slice, best.step.seconds * 1e3, best.mfu * 100.0);
        println!("best: {slice}, a step of {step:.2} ms, MFU {mfu:.1} %, batch {}", best.batch);
    }
    Ok(())
}
