//! Runs programs through a backend on command, so that another process can measure in turns with it.
//!
//! `cargo run --release -p tpubridge-runtime --example device_speed -- DEVICE NAME=PROGRAM,INPUTS.safetensors[,MORE] ...`, where DEVICE is
//! `cpu` or a plugin's path. Inputs are the arrays `0`, `1`, … of each file in turn; a file that several programs name is sent once, and
//! codes of 4 bits are read from `I8`. Reads lines `HOW NAME COUNT` and answers each with seconds per call, separated by spaces:
//! - `single`: calls that are waited for, one by one;
//! - `burst`: calls that are all started before the last is waited for; one figure;
//! - `dispatch`: until a call returns, its results not yet computed; the device is idle before each;
//! - `bare`: as `dispatch`, without a backend: the plugin's entry point behind the safe client.
//!
//! `result NAME FILE` writes the results of a run. A program that the device refuses is answered with `refused` and the reason.
//! `benchmarks/device/run.py` and `benchmarks/quant/h200.py` are the other process.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use compile::Program;
use compile::optimize::Level;
use pjrt::{Argument, ClientOptions, ExecuteOptions};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, DeviceArray, LoadedProgram, Parameters, Surroundings};
use tensor::{DType, Literal};
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
    let mut sent = BTreeMap::new();
    for argument in arguments {
        let (name, files) = argument.split_once('=').ok_or("programs are NAME=PROGRAM,INPUTS")?;
        let (program, inputs) = files.split_once(',').ok_or("programs are NAME=PROGRAM,INPUTS")?;
        let files: Vec<&Path> = inputs.split(',').map(Path::new).collect();
        cases.insert(name.to_string(), prepare(&backend, &mut sent, Path::new(program), &files));
    }
    println!("ready {}", backend.device().kind);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [how, name, last] = words.as_slice() else { return Err(format!("no command: {line}").into()) };
        let case = cases.get(*name).ok_or_else(|| format!("no program {name}"))?;
        let answer = match case {
            Ok(case) => answer(how, case, last),
            Err(why) => Err(why.to_string().into()),
        };
        println!("{}", answer.unwrap_or_else(|why| format!("refused {}", why.to_string().replace('\n', " "))));
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Arrays on the device, by file and place.
type Sent = BTreeMap<(PathBuf, usize), DeviceArray>;

fn prepare(backend: &Backend, sent: &mut Sent, program: &Path, files: &[&Path]) -> Result<Case, Failure> {
    let program = Arc::new(Program::read(std::fs::read(program)?)?);
    let model = backend.prepare_program(&program, &Parameters::none())?;
    let mut inputs = Vec::new();
    for path in files {
        let file = SafeTensors::open(path)?;
        for (place, port) in (0..file.entries().len()).zip(model.inputs().skip(inputs.len())) {
            let key = (path.to_path_buf(), place);
            if !sent.contains_key(&key) {
                let read = as_input(file.read(&place.to_string())?, port.spec.dtype)?;
                sent.insert(key.clone(), backend.send(&Arc::new(read))?);
            }
            inputs.push(sent[&key].clone());
        }
    }
    Ok(Case { inputs, model })
}

/// An array in the type of an input: files have no codes of 4 bits.
fn as_input(read: Literal, dtype: DType) -> Result<Literal, Failure> {
    if dtype != DType::I4 || read.dtype() != DType::I8 {
        return Ok(read);
    }
    let dims = read.dims().to_vec();
    Ok(Literal::new(dtype, dims, read.into_bytes()).ok_or("codes do not fill their shape")?)
}

fn answer(how: &str, case: &Case, last: &str) -> Result<String, Failure> {
    if how == "result" {
        write_results(case, Path::new(last))?;
        return Ok("written".to_string());
    }
    let seconds = measure(how, case, last.parse()?)?;
    Ok(seconds.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
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
