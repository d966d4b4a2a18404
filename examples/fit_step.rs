//! Asks the real TPU compiler whether a training step fits a slice, and how long it takes. No TPU is needed.
//!
//! ```text
//! $ cargo run --release --example fit_step
//! GPT-2 of 124439808 parameters, batch 8, on v5litepod-1
//! fits: 14.50 GiB of 15.75 GiB HBM
//! a step of 199.5 ms, 41066 tokens/s
//! ```
//!
//! Without libtpu it says how to get it.

use tpubridge::prelude::*;

fn main() -> Result<()> {
    // The compiler runs in a child process: this program, started again.
    compile_worker();

    let (batch, length) = (8, 1024);
    let config = Gpt2Config::default();
    let optimizer = Adam::with_weight_decay(Schedule::constant(3e-4), 0.1);
    let options = StepOptions::default();
    let run = RunOptions::default();
    let (_, state) = trace_init(&optimizer, &options, |key| Gpt2::init(key, &config, &run))?;
    let shape = TokenBatch::shape(batch, length);
    let loss = |model: &Gpt2, batch: &TokenBatch, key: &Key| model.loss(batch, &CrossEntropy::default(), Some(key));
    let step = trace_train_step(&state, &shape, &optimizer, &options, loss)?;

    let mut request = FitRequest::new("v5e-1".parse()?);
    request.workload.tokens_per_step = Some((batch * length) as f64);
    let answer = match fit(&Program::from_module(step.module), &request) {
        Err(error @ Error::NoCompiler(_)) => {
            println!("{error}: {}", error.remedy().unwrap_or_default());
            return Ok(());
        }
        answer => answer?,
    };
    println!("GPT-2 of {} parameters, batch {batch}, on {}", state.params.num_parameters(), answer.slice);
    let gib = |bytes: Option<u64>| bytes.unwrap_or_default() as f64 / f64::from(1 << 30);
    let verdict = &answer.verdict;
    let word = if verdict.fits { "fits" } else { "does not fit" };
    println!("{word}: {:.2} GiB of {:.2} GiB HBM", gib(verdict.needed_bytes), gib(verdict.limit_bytes));
    if let Some(estimate) = &answer.estimate {
        let tokens = estimate.tokens_per_s.unwrap_or_default();
        println!("a step of {:.1} ms, {tokens:.0} tokens/s", estimate.step.seconds * 1e3);
    }
    Ok(())
}
