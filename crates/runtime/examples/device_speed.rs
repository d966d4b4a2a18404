//! Runs programs through a backend on command, so that another process can measure in turns with it.
//!
//! `cargo run --release -p tpubridge-runtime --example device_speed -- DEVICE NAME=PROGRAM,INPUTS.safetensors ...`, where DEVICE is `cpu`
//! or a plugin's path. Reads lines `HOW NAME COUNT` and answers each with seconds per call, separated by spaces:
//! - `single`: calls that are waited for, one by one;
//! - `burst`: calls that are all started before the last is waited for; one figure;
//! - `dispatch`: until a call returns, its results not yet computed; the device is idle before each;
//! - `bare`: as `dispatch`, without a backend: the plugin's entry point behind the safe client.
//!
//! `result NAME FILE` writes the results of a run. `benchmarks/device/run.py` is the other process.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use compile::Program;
use compile::optimize::Level;
use pjrt::{Argument, ClientOptions, ExecuteOptions};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, DeviceArray, LoadedProgram, Parameters, Surroundings};
use weights::SafeTensors;

type Failure = Box<dyn std::error::Error>;

struct Case {
    model: LoadedProgram,
    inputs: Vec<DeviceArray>,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().ok_or("give the device: cpu or a plugin's path")?;
    let target = if device == "cpu" { Target::Cpu } else { Target::Plugin(device.into()) };
    let mut around = Surroundings::host();
    if target != Target::Cpu {
        // Another process measures on the same device.
        around.client = ClientOptions::default().option("preallocate", false);
    }
    let config = Config::new(Mode::Inference).device(target).optimization(Level::None);
    let backend = Backend::within(&around, &config)?;
    let mut cases = BTreeMap::new();
    for argument in arguments {
        let (name, files) = argument.split_once('=').ok_or("programs are NAME=PROGRAM,INPUTS")?;
        let (program, inputs) = files.split_once(',').ok_or("programs are NAME=PROGRAM,INPUTS")?;
        cases.insert(name.to_string(), prepare(&backend, Path::new(program), Path::new(inputs))?);
    }
    println!("ready {}", backend.device().kind);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [how, name, last] = words.as_slice() else { return Err(format!("no command: {line}").into()) };
        let case = cases.get(*name).ok_or_else(|| format!("no program {name}"))?;
        if *how == "result" {
            write_results(case, Path::new(last))?;
            println!("written");
        } else {
            let seconds = measure(how, case, last.parse()?)?;
            println!("{}", seconds.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn prepare(backend: &Backend, program: &Path, inputs: &Path) -> Result<Case, Failure> {
    let program = Arc::new(Program::read(std::fs::read(program)?)?);
    let model = backend.prepare_program(&program, &Parameters::none())?;
    let file = SafeTensors::open(inputs)?;
    let inputs = (0..model.inputs().count()).map(|n| Ok(backend.send(&Arc::new(file.read(&n.to_string())?))?));
    Ok(Case { inputs: inputs.collect::<Result<Vec<_>, Failure>>()?, model })
}

fn measure(how: &str, case: &Case, count: usize) -> Result<Vec<f64>, Failure> {
    let Case { model, inputs } = case;
    let wait = |results: &[DeviceArray]| results.iter().try_for_each(DeviceArray::wait);
    wait(&model.run(inputs)?)?;
    let mut seconds = Vec::with_capacity(count);
    match how {
        "single" => {
            for _ in 0..count {
                let started = Instant::now();
                wait(&model.run(inputs)?)?;
                seconds.push(started.elapsed().as_secs_f64());
            }
        }
        "burst" => {
            let started = Instant::now();
            let mut last = Vec::new();
            for _ in 0..count {
                last = model.run(inputs)?;
            }
            wait(&last)?;
            seconds.push(started.elapsed().as_secs_f64() / count as f64);
        }
        "dispatch" => {
            for _ in 0..count {
                let started = Instant::now();
                let results = model.run(inputs)?;
                seconds.push(started.elapsed().as_secs_f64());
                wait(&results)?;
            }
        }
        "bare" => {
            let loaded = model.executable().loaded();
            for _ in 0..count {
                let started = Instant::now();
                let arguments = inputs.iter().map(|array| Argument::Keep(&array.buffers()[0])).collect();
                let launch = loaded.execute(&[arguments], &ExecuteOptions::default())?;
                seconds.push(started.elapsed().as_secs_f64());
                launch.wait()?;
            }
        }
        other => return Err(format!("no measurement {other}").into()),
    }
    Ok(seconds)
}

fn write_results(case: &Case, path: &Path) -> Result<(), Failure> {
    let results = case.model.run(&case.inputs)?;
    let named = results.iter().enumerate().map(|(n, array)| Ok((n.to_string(), array.to_host()?)));
    let named = named.collect::<Result<BTreeMap<_, _>, runtime::Error>>()?;
    Ok(weights::write(path, named.iter().map(|(name, literal)| (name.as_str(), literal)), &BTreeMap::new())?)
}
