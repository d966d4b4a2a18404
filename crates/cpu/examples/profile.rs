//! What each step of a compiled program takes: `cargo run --release -p tpubridge-cpu --example profile -- PROGRAM [THREADS]`.

use cpu::{Array, Compiled, Cpu, EngineOptions, PortType};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: profile PROGRAM [THREADS]")?;
    let threads = args.next().map(|n| n.parse()).transpose()?;
    let cpu = Cpu::new(threads);
    let started = std::time::Instant::now();
    let compiled = Compiled::compile(&cpu, &std::fs::read(path)?, &EngineOptions::default())?;
    eprintln!("compiled in {:?}; working memory {:?} bytes", started.elapsed(), compiled.temporary_bytes());
    if std::env::var_os("DUMP").is_some() {
        println!("{}", compiled.dump());
    }
    let mut arguments = Vec::new();
    for port in compiled.arguments() {
        let PortType::Array(dtype, dims) = port else { return Err("a token as argument".into()) };
        let dims: Vec<usize> = dims.iter().copied().collect::<Option<_>>().ok_or("sizes that are not known")?;
        // Small numbers of either sign; integers are valid indices.
        let count: usize = dims.iter().product();
        let word = |n: usize| ((n * 37 % 101) as f32 / 500.0 - 0.1).to_le_bytes();
        let bytes: Vec<u8> = match dtype {
            tensor::DType::F32 => (0..count).flat_map(word).collect(),
            _ => vec![0; count * dtype.size_bytes()],
        };
        arguments.push(Array::from_bytes(cpu.memory(), *dtype, dims, &bytes)?);
    }
    for _ in 0..3 {
        compiled.run(vec![arguments.clone()], &Default::default())?;
    }
    // The fastest of several: other work on the machine only adds.
    let mut times = compiled.profile(arguments.clone(), &Default::default())?;
    for _ in 0..9 {
        for (best, time) in times.iter_mut().zip(compiled.profile(arguments.clone(), &Default::default())?) {
            best.total = best.total.min(time.total);
        }
    }
    times.sort_by_key(|time| std::cmp::Reverse(time.total));
    let total: std::time::Duration = times.iter().map(|time| time.total).sum();
    println!("total {total:?} in {} steps", times.len());
    for time in times.iter().take(100) {
        println!("{:>12.1?} {:>5}x {}", time.total, time.count, time.name);
    }
    Ok(())
}
