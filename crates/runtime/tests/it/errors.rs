//! Every class of error, provoked: each says what happened, keeps its cause, and says what helps.

use std::sync::Arc;
use std::time::Duration;

use compile::Program;
use compile::optimize::{ComputePrecision, Level, ProgramOptimizer, TargetInfo as Device};
use runtime::config::{Config, Fraction, Mode, Seconds, Sources, Target};
use runtime::optimize::{OptimizationTrial, optimize};
use runtime::{Backend, DeviceArray, Error, ErrorClass, GlobalTopology, Input, Parameters, Spec, Surroundings};
use tensor::{DType, Literal};

const DOUBLE: &str = "module @double {
  func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
    %0 = stablehlo.add %x, %x : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}";

/// A call of something that is not there: it compiles, and fails when it is reached.
const CALLS_NOTHING: &str = "module @calls {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.custom_call @none(%x) : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}";

fn config() -> Config {
    Config::new(Mode::Training).device(Target::Cpu)
}

fn program(text: &str) -> Result<Arc<Program>, Error> {
    Ok(Arc::new(Program::read(text.as_bytes().to_vec())?))
}

fn numbers() -> Arc<Literal> {
    Arc::new(Literal::zeros(DType::F32, [64]).unwrap())
}

fn run(backend: &Backend, text: &str) -> Result<DeviceArray, Error> {
    let model = backend.prepare_program(&program(text)?, &Parameters::none())?;
    Ok(model.run(&[backend.send(&numbers())?])?.remove(0))
}

/// Does what must fail with this class. A new class does not compile until it is here.
fn provoke(class: ErrorClass) -> Result<(), Error> {
    let backend = Backend::auto(&config())?;
    match class {
        ErrorClass::Configuration => {
            let set = [("memory_fraction".to_string(), "2".to_string())];
            Sources { command_line: set.into(), ..Sources::default() }.resolve().map(drop)?;
        }
        ErrorClass::Validation => {
            let model = backend.prepare_program(&program(DOUBLE)?, &Parameters::none())?;
            model.run::<Input>(&[])?;
        }
        ErrorClass::Trace => {
            let matrix = trace::Tensor::of(Spec::new(DType::F32, [2, 3]));
            trace::trace("wrong", &matrix, trace::Donate::Nothing, |x| x.matmul(x))?;
        }
        ErrorClass::Optimization => {
            // 64 * (1 + 2^-9 + 2^-12) - 64 is 0.14; with a matmul of bf16 it is 0. The argument has no digits to lose.
            let text = "module @cancels {
              func.func @main(%n: tensor<64x64xi32>) -> tensor<64x64xf32> {
                %little = stablehlo.constant dense<0.002197265625> : tensor<64x64xf32>
                %all = stablehlo.constant dense<64.0> : tensor<64x64xf32>
                %x = stablehlo.convert %n : (tensor<64x64xi32>) -> tensor<64x64xf32>
                %0 = stablehlo.add %x, %little : tensor<64x64xf32>
                %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
                %2 = stablehlo.subtract %1, %all : tensor<64x64xf32>
                return %2 : tensor<64x64xf32>
              }
            }";
            let ones = Literal::new(DType::I32, [64, 64], 1i32.to_le_bytes().repeat(64 * 64)).unwrap();
            let samples = [Arc::new(ones)];
            let trial =
                OptimizationTrial { samples: &samples, backend: Some(&backend), ..OptimizationTrial::default() };
            let optimizer =
                ProgramOptimizer::new(Level::Balanced, Device::tpu(chips::Generation::V5e), ComputePrecision::Bf16);
            let program = program(text)?;
            optimize(&optimizer, &program, &trial)?;
        }
        ErrorClass::NotAvailable => drop(Backend::auto(&config().device(Target::Plugin("/none.so".into())))?),
        ErrorClass::Compilation => drop(program("func.func @main(")?),
        ErrorClass::CompilationTimeout => {
            let soon = config().compilation_timeout_seconds(Seconds::new(1e-9).unwrap());
            run(&Backend::auto(&soon)?, DOUBLE)?;
        }
        ErrorClass::Memory => {
            let model = backend.prepare_program(&program(DOUBLE)?, &Parameters::none())?;
            let x = backend.send(&numbers())?;
            model.run(&[Input::Donate(x.clone())])?;
            model.run(&[x])?;
        }
        ErrorClass::OutOfMemory => {
            let client = pjrt::ClientOptions::default().option("memory_limit_bytes", 300i64);
            let small = Surroundings { client, ..Surroundings::host() };
            let backend = Backend::within(&small, &config().memory_fraction(Fraction::new(1.0).unwrap()))?;
            let _kept = backend.send(&numbers())?;
            backend.send(&numbers())?;
        }
        ErrorClass::Pool => {
            let pool = backend.create_pool("one", &Spec::new(DType::F32, [64]), 1)?;
            let _taken = pool.take()?;
            pool.take()?;
        }
        ErrorClass::Device => drop(run(&backend, CALLS_NOTHING)?.to_host()?),
        ErrorClass::Synchronization => {
            let _failed = run(&backend, CALLS_NOTHING);
            backend.synchronize()?;
        }
        ErrorClass::Distributed => {
            let mut devices = backend.devices().to_vec();
            devices.push(runtime::DeviceInfo { id: 1, slice_index: Some(1), ..devices[0].clone() });
            devices.push(runtime::DeviceInfo { id: 2, slice_index: Some(1), ..devices[0].clone() });
            GlobalTopology::of(devices)?;
        }
        ErrorClass::Checkpoint => {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), [0xff; 64]).unwrap();
            backend.load_model(&program(DOUBLE)?, file.path())?;
        }
    }
    Ok(())
}

#[test]
fn every_class_is_provoked() {
    for class in ErrorClass::ALL {
        let error = provoke(class).expect_err(&format!("{class:?} was not provoked"));
        assert_eq!(error.class(), class, "{error:?}");
        assert!(!error.to_string().is_empty() && !error.remedy().is_empty(), "{error:?}");
    }
}

#[test]
fn nothing_is_left_of_what_failed() {
    let backend = Backend::auto(&config()).unwrap();
    let failed = run(&backend, CALLS_NOTHING).and_then(|array| array.to_host().map(drop));
    assert_eq!(failed.unwrap_err().class(), ErrorClass::Device);
    let _ = backend.synchronize();
    backend.clear_cache();
    assert_eq!(backend.memory_stats().arrays.used_bytes, 0);
    // The backend goes on.
    run(&backend, DOUBLE).unwrap().wait().unwrap();
    let monitor = backend.monitor(Duration::ZERO, Duration::from_millis(5)).unwrap();
    assert!(!monitor.wait().readings.is_empty());
}
