//! A backend on the built-in CPU device: programs, data, memory, files and every error they can provoke.

use std::collections::BTreeMap;
use std::sync::Arc;

use compile::{CacheUse, Program};
use runtime::config::{Config, Fraction, Mode, Seconds, Target};
use runtime::memory::MemoryError;
use runtime::{
    Backend, Error, ErrorClass, Extras, Input, Nested, Parameters, Platform, Spec, Surroundings, ValidationError,
};
use tensor::{DType, Literal};

const LINEAR: &str = r#"module @linear {
  func.func @main(%w: tensor<3x2xf32> {tpubridge.name = "w"}, %b: tensor<2xf32> {tpubridge.name = "b"}, %x: tensor<4x3xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
    %2 = stablehlo.add %0, %1 : tensor<4x2xf32>
    return %2 : tensor<4x2xf32>
  }
}"#;

const DOUBLE: &str = r#"module @double {
  func.func @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
    %0 = stablehlo.add %x, %x : tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }
}"#;

fn config() -> Config {
    Config::new(Mode::Training).device(Target::Cpu)
}

fn backend() -> Backend {
    Backend::auto(&config()).unwrap()
}

/// This machine, with a CPU device of so much memory.
fn limited(bytes: i64) -> Surroundings {
    let client = pjrt::ClientOptions::default().option("memory_limit_bytes", bytes);
    Surroundings { client, ..Surroundings::host() }
}

fn program(text: &str) -> Arc<Program> {
    Arc::new(Program::read(text.as_bytes().to_vec()).unwrap())
}

fn floats(dims: &[usize], values: &[f32]) -> Arc<Literal> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, dims, bytes).unwrap())
}

fn values(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn linear_parameters() -> Parameters {
    let parameters = [("w", floats(&[3, 2], &[1., 2., 3., 4., 5., 6.])), ("b", floats(&[2], &[10., 20.]))];
    Parameters::named(parameters.map(|(name, literal)| (name.to_string(), literal)).into())
}

fn class<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorClass {
    let error = result.unwrap_err();
    assert!(!error.remedy().is_empty());
    error.class()
}

#[test]
fn a_model_runs_with_parameters_by_name() {
    let backend = backend();
    assert_eq!(backend.platform(), &Platform::Cpu);
    assert_eq!((backend.world_size(), backend.rank(), backend.is_distributed()), (1, 0, false));
    let program = program(LINEAR);
    let model = backend.prepare_program(&program, &linear_parameters()).unwrap();
    assert_eq!(model.inputs().map(|port| port.spec.to_string()).collect::<Vec<_>>(), ["f32[4,3]"]);
    let x = backend.send(&floats(&[4, 3], &[1., 0., 0., 0., 1., 0., 0., 0., 1., 1., 1., 1.])).unwrap();
    let outputs = model.run(&[x]).unwrap();
    backend.synchronize().unwrap();
    assert_eq!(values(&outputs[0].to_host().unwrap()), [11., 22., 13., 24., 15., 26., 19., 32.]);
}

#[test]
fn the_same_model_is_prepared_once() {
    let backend = backend();
    let (one, parameters) = (program(LINEAR), linear_parameters());
    backend.prepare_program(&one, &parameters).unwrap();
    // Equal contents in other memory.
    backend.prepare_program(&program(LINEAR), &linear_parameters()).unwrap();
    let stats = backend.memory_stats();
    assert_eq!((stats.compiler.compilations, stats.models), (1, 1));
    assert_eq!(stats.arrays.owners[0].name, "parameters of linear");
    assert_eq!(stats.arrays.used_bytes, 32);
    backend.clear_cache();
    assert_eq!(backend.memory_stats().arrays.used_bytes, 0);
    backend.prepare_program(&one, &parameters).unwrap();
    assert_eq!(backend.compiler().stats().compilations, 2);
}

#[test]
fn caching_can_be_off() {
    let backend = Backend::auto(&config().enable_cache(false)).unwrap();
    for _ in 0..2 {
        backend.prepare_program(&program(LINEAR), &linear_parameters()).unwrap();
    }
    assert_eq!(backend.compiler().stats().compilations, 2);
    assert_eq!(backend.compiler().stats().kept, 0);
}

#[test]
fn the_cache_is_bounded() {
    let backend = Backend::auto(&config().cache_max_size(2)).unwrap();
    let sized = |n: usize| program(&DOUBLE.replace("1024", &n.to_string()));
    for n in [8, 16, 8, 24, 16] {
        backend.compiler().compile(&sized(n), &[], CacheUse::ReadWrite).unwrap();
    }
    let stats = backend.compiler().stats();
    assert_eq!((stats.compilations, stats.hits, stats.evictions, stats.kept), (4, 1, 2, 2));
    assert_eq!(stats.hit_rate(), 0.2);
    assert!(stats.recompilations[0].reason.contains("tensor<8xf32>"), "{:?}", stats.recompilations);
}

#[test]
fn donated_inputs_are_taken() {
    let backend = backend();
    let model = backend.prepare_program(&program(DOUBLE), &Parameters::none()).unwrap();
    let mut x = backend.send(&floats(&[1024], &[1.0; 1024])).unwrap();
    for _ in 0..10 {
        let taken = x.clone();
        x = model.run(&[Input::Donate(x)]).unwrap().remove(0);
        assert!(taken.is_deleted().unwrap());
    }
    assert_eq!(values(&x.to_host().unwrap())[7], 1024.0);
}

#[test]
fn results_in_donated_memory_need_none_of_their_own() {
    let backend = Backend::within(&limited(3 << 12), &config().memory_fraction(Fraction::new(0.5).unwrap())).unwrap();
    // Room for one array and a half.
    assert_eq!(backend.memory().limit_bytes(), Some(3 << 11));
    let model = backend.prepare_program(&program(DOUBLE), &Parameters::none()).unwrap();
    let mut x = backend.send(&floats(&[1024], &[1.0; 1024])).unwrap();
    for _ in 0..3 {
        x = model.run(&[Input::Donate(x)]).unwrap().remove(0);
        assert_eq!(backend.memory().used_bytes(), 1 << 12);
    }
    assert_eq!(values(&x.to_host().unwrap())[7], 8.0);
    assert_eq!(class(model.run(&[x])), ErrorClass::OutOfMemory);
}

#[test]
fn a_million_arrays_leave_nothing_behind() {
    let backend = backend();
    let owner = backend.memory().owner("scratch");
    let before = backend.memory_stats();
    for n in 0..1_000_000u64 {
        let spec = Spec::new(DType::F32, [(n % 7 + 1) as usize * 16]);
        drop(backend.uninitialized(&owner, &spec).unwrap());
    }
    let after = backend.memory_stats();
    assert_eq!((after.arrays.used_bytes, after.device_used_bytes), (0, before.device_used_bytes));
    assert_eq!(after.arrays.peak_bytes, 7 * 64);
    // The history of two million events is bounded.
    assert!(backend.memory().history().len() <= 1 << 16);
}

#[test]
fn the_topology_has_every_device() {
    let around = Surroundings {
        client: pjrt::ClientOptions::default().option("cpu_device_count", 4i64),
        ..Surroundings::host()
    };
    let backend = Backend::within(&around, &config()).unwrap();
    let topology = backend.topology();
    assert_eq!((topology.num_devices(), topology.slices.len(), topology.processes.as_slice()), (4, 1, &[0][..]));
    assert_eq!(topology.devices().map(|device| device.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(backend.is_distributed());
}

#[test]
fn models_that_were_not_used_for_long_leave_first() {
    let backend = Backend::auto(&config().cache_max_size(2)).unwrap();
    let sized = |n: usize| program(&DOUBLE.replace("1024", &n.to_string()));
    let prepare = |n: usize| backend.prepare_program(&sized(n), &Parameters::none()).unwrap();
    let (first, _) = (prepare(8), prepare(16));
    assert!(Arc::ptr_eq(first.executable(), prepare(8).executable()));
    prepare(24);
    assert_eq!((backend.memory_stats().models, backend.compiler().stats().compilations), (2, 3));
    assert!(Arc::ptr_eq(first.executable(), prepare(8).executable()));
}

#[test]
fn data_keeps_its_structure() {
    let backend = backend();
    let leaf = |value: f32| Nested::Leaf(floats(&[1], &[value]));
    let labels = Nested::List(vec![leaf(2.), leaf(3.)]);
    let data = Nested::Map(BTreeMap::from([("image".to_string(), leaf(1.)), ("labels".to_string(), labels)]));
    let sent = backend.prepare_data(&data).unwrap();
    let read =
        sent.try_map(&mut |path, array| Ok::<_, Error>((path.to_string(), values(&array.to_host()?)[0]))).unwrap();
    let expected = [("image", 1.), ("labels.0", 2.), ("labels.1", 3.)];
    assert_eq!(
        read.leaves().into_iter().cloned().collect::<Vec<_>>(),
        expected.map(|(path, value)| (path.to_string(), value))
    );
}

#[test]
fn a_feed_sends_ahead_in_order_and_stops_when_dropped() {
    let backend = backend();
    let item = |n: usize| Nested::Leaf(floats(&[1], &[n as f32]));
    let fed: Vec<f32> = backend
        .feed((0..20).map(item), 2)
        .unwrap()
        .map(|item| values(&item.unwrap().leaves()[0].to_host().unwrap())[0])
        .collect();
    assert_eq!(fed, (0..20).map(|n| n as f32).collect::<Vec<_>>());
    let mut endless = backend.feed((0..).map(item), 2).unwrap();
    assert!(endless.next().unwrap().is_ok());
    drop(endless);
    assert_eq!(backend.memory_stats().arrays.used_bytes, 0);
}

#[test]
fn models_are_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let backend = backend();
    let program = program(LINEAR);
    let model = backend.prepare_program(&program, &linear_parameters()).unwrap();
    let extras = Extras {
        optimizer: BTreeMap::from([("m.w".to_string(), (*floats(&[1], &[0.5])).clone())]),
        notes: BTreeMap::from([("step".to_string(), "3".to_string())]),
    };
    backend.save_model(&model, extras.clone(), &path).unwrap();
    let (loaded, found) = backend.load_model(&program, &path).unwrap();
    assert_eq!(found, extras);
    for ((name, one), (_, other)) in model.parameters().zip(loaded.parameters()) {
        assert_eq!(one.to_host().unwrap(), other.to_host().unwrap(), "{name}");
    }
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(class(backend.load_model(&program, &path)), ErrorClass::Checkpoint);
}

#[test]
fn wrong_inputs_are_named() {
    let backend = backend();
    let program = program(LINEAR);
    let model = backend.prepare_program(&program, &linear_parameters()).unwrap();
    let x = backend.send(&floats(&[2, 3], &[0.0; 6])).unwrap();
    let Err(Error::Validation(ValidationError::Input { expected, given, .. })) = model.run(std::slice::from_ref(&x))
    else {
        panic!("another shape")
    };
    assert_eq!((expected.as_str(), given.as_str()), ("f32[4,3]", "f32[2,3]"));
    assert_eq!(class(model.run::<Input>(&[])), ErrorClass::Validation);
    let unknown = Parameters::named(BTreeMap::from([("ww".to_string(), floats(&[1], &[0.0]))]));
    let Err(Error::Validation(ValidationError::MissingParameter { similar, .. })) =
        backend.prepare_program(&program, &unknown)
    else {
        panic!("no such parameter")
    };
    assert!(similar.contains(&"w".to_string()));
    let samples = [Spec::new(DType::F32, [3, 2])];
    assert_eq!(class(backend.compiler().compile(&program, &samples, CacheUse::Off)), ErrorClass::Validation);
    // An array of another backend.
    let other = crate::backend::backend();
    let foreign = other.send(&floats(&[4, 3], &[0.0; 12])).unwrap();
    assert!(matches!(model.run(&[foreign]), Err(Error::Validation(ValidationError::ForeignArray))));
}

#[test]
fn strict_mode_refuses_what_is_not_finite() {
    let data = Nested::List(vec![Nested::Leaf(floats(&[3], &[0.0, f32::NAN, 1.0]))]);
    assert!(backend().prepare_data(&data).is_ok());
    let strict = Backend::auto(&config().strict_validation(true)).unwrap();
    let Err(Error::Validation(ValidationError::NotFinite { name, index })) = strict.prepare_data(&data) else {
        panic!("NaN in strict mode")
    };
    assert_eq!((name.as_str(), index), ("0", 1));
}

#[test]
fn the_budget_holds_before_the_device_fails() {
    let fraction = Fraction::new(0.5).unwrap();
    let backend = Backend::within(&limited(1 << 20), &config().memory_fraction(fraction)).unwrap();
    assert_eq!(backend.memory().limit_bytes(), Some(1 << 19));
    let quarter = floats(&[1 << 16], &[0.0; 1 << 16]);
    let kept = backend.send(&quarter).unwrap();
    let second = backend.send(&quarter).unwrap();
    let Err(Error::Memory(MemoryError::OutOfMemory(error))) = backend.send(&quarter) else { panic!("past the budget") };
    assert_eq!((error.used_bytes, error.limit_bytes, error.requested_bytes), (1 << 19, 1 << 19, 1 << 18));
    assert_eq!(error.largest[0].name, "data");
    drop((kept, second));
    backend.send(&quarter).unwrap();
}

#[test]
fn a_compilation_that_takes_too_long_is_given_up() {
    let backend = Backend::auto(&config().compilation_timeout_seconds(Seconds::new(1e-9).unwrap())).unwrap();
    assert_eq!(class(backend.prepare_program(&program(LINEAR), &linear_parameters())), ErrorClass::CompilationTimeout);
}

#[test]
fn programs_that_do_not_compile_say_why() {
    assert_eq!(class(Program::read(b"func.func @main(".to_vec()).map_err(Error::from)), ErrorClass::Compilation);
    let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %0 = stablehlo.custom_call @none(%x) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }";
    // A call of something outside the program compiles and fails when it is reached.
    let backend = backend();
    let model = backend.prepare_program(&program(text), &Parameters::none()).unwrap();
    let x = backend.send(&floats(&[], &[1.0])).unwrap();
    let read = model.run(&[x]).and_then(|outputs| outputs[0].to_host());
    assert_eq!(class(read), ErrorClass::Device);
    assert_eq!(class(backend.synchronize()), ErrorClass::Synchronization);
    let none = config().device(Target::Plugin("/none.so".into()));
    assert_eq!(class(Backend::auto(&none)), ErrorClass::NotAvailable);
}
