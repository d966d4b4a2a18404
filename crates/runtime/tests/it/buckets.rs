//! Changing sizes: programs exported with symbolic ones, buckets, warm-up, and executables that a second process loads.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use compile::BundleTrust;
use compile::Program;
use compile::cache::{Cache, CacheConfig};
use runtime::config::{Config, Mode, Target};
use runtime::{
    Backend, BucketSource, Bucketing, Buckets, Dimension, Error, ErrorClass, Parameters, ValidationError, debug,
};
use tensor::{DType, Literal};

/// Each row is multiplied and shifted, whatever the others are.
const ROWS: &str = r#"module @rows {
  func.func @main(%w: tensor<3x2xf32>, %x: tensor<?x3xf32>) -> (tensor<?x2xf32>, tensor<3x2xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
    return %0, %w : tensor<?x2xf32>, tensor<3x2xf32>
  }
}"#;

/// The mean over the rows that are there: their number is an argument.
const MEAN: &str = r#"module @mean {
  func.func @main(%x: tensor<?x?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
    %rows = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %shape = stablehlo.reshape %rows : (tensor<i32>) -> tensor<1xi32>
    %f = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
    %d = stablehlo.dynamic_broadcast_in_dim %f, %shape, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
    %mean = stablehlo.divide %sum, %d : tensor<?xf32>
    return %mean : tensor<?xf32>
  }
}"#;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Training).device(Target::Cpu)).unwrap()
}

fn program(text: &str) -> Arc<Program> {
    Arc::new(Program::read(text.as_bytes().to_vec()).unwrap())
}

fn floats(dims: &[usize], value: impl Fn(usize) -> f32) -> Arc<Literal> {
    let count = dims.iter().product();
    Arc::new(Literal::new(DType::F32, dims, (0..count).flat_map(|n| value(n).to_le_bytes()).collect()).unwrap())
}

fn values(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn rows(buckets: Buckets) -> Bucketing {
    Bucketing::new([Dimension::new("batch", buckets).argument(1, 0)])
}

fn weights() -> Parameters {
    Parameters::leading(vec![floats(&[3, 2], |n| n as f32)])
}

/// What [`ROWS`] gives for `n` rows of ones.
fn expected_rows(n: usize) -> Vec<f32> {
    [6.0, 9.0].repeat(n)
}

// ---- programs with symbolic sizes ----

fn exported() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../hlo/tests/data/specialize")
}

/// Arguments for sizes of `b` and `t`, by the first line of a file, as in `// b=3: f32[2*b,4] i32[]`.
fn arguments(first: &str, sizes: &HashMap<&str, usize>) -> Vec<Arc<Literal>> {
    let (_, specs) = first.split_once(": ").unwrap();
    let factor = |text: &str| text.parse().unwrap_or_else(|_| sizes[text]);
    let argument = |(position, spec): (usize, &str)| {
        let (dtype, dims) = spec.trim_end_matches(']').split_once('[').unwrap();
        let dims = dims.split(',').filter(|dim| !dim.is_empty());
        let dims: Vec<usize> = dims.map(|dim| dim.split('*').map(factor).product()).collect();
        let count: usize = dims.iter().product();
        let bytes: Vec<u8> = match dtype {
            "f32" => (0..count).flat_map(|n| (((n * 7 + position) % 11) as f32 * 0.25 - 1.0).to_le_bytes()).collect(),
            _ => (0..count).flat_map(|n| ((n * 5 % 3) as i32).to_le_bytes()).collect(),
        };
        let dtype = if dtype == "f32" { DType::F32 } else { DType::I32 };
        Arc::new(Literal::new(dtype, dims, bytes).unwrap())
    };
    specs.split(' ').enumerate().map(argument).collect()
}

fn specialized(program: &Program, inputs: &[Arc<Literal>]) -> Arc<Program> {
    let ty = |literal: &Arc<Literal>| {
        let dims: Vec<i64> = literal.dims().iter().map(|&size| size as i64).collect();
        hlo::Type::tensor(dims, literal.dtype())
    };
    let types: Vec<hlo::Type> = inputs.iter().map(ty).collect();
    Arc::new(Program::from_module(hlo::passes::specialize(program.verified(), &types, None).unwrap()))
}

fn on_device(backend: &Backend, program: &Arc<Program>, inputs: &[Arc<Literal>]) -> Vec<Literal> {
    let model = backend.prepare_program(program, &Parameters::none()).unwrap();
    let sent: Vec<_> = inputs.iter().map(|input| backend.send(input).unwrap()).collect();
    model.run(&sent).unwrap().iter().map(|array| array.to_host().unwrap()).collect()
}

#[test]
fn a_static_program_says_what_the_dynamic_one_says() {
    let backend = backend();
    let mut checked = 0;
    for path in testkit::golden_files(&exported(), ".mlir") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "cumsum" {
            // The interpreter does not have its custom call; see the next test.
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (b, t) in [(4, 2), (6, 5), (8, 3)] {
            let inputs = arguments(text.lines().next().unwrap(), &HashMap::from([("b", b), ("t", t)]));
            let dynamic = program(&text);
            let fixed = specialized(&dynamic, &inputs);
            let want = debug::interpret(&dynamic, &inputs, |_| {}).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            // The same ops in the same order, by the same engine: the same bits.
            let same = debug::interpret(&fixed, &inputs, |_| {}).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            assert_eq!(same, want, "{name} for b = {b}, t = {t}");
            for (have, want) in on_device(&backend, &fixed, &inputs).iter().zip(&want) {
                assert_eq!((have.dtype(), have.dims()), (want.dtype(), want.dims()), "{name}");
                if have.dtype() == DType::F32 {
                    for (a, b) in values(have).iter().zip(values(want)) {
                        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{name}: {a} is not {b}");
                    }
                } else {
                    assert_eq!(have, want, "{name}");
                }
            }
            checked += 1;
        }
    }
    assert!(checked > 45, "{checked}");
}

#[test]
fn a_running_sum_of_any_length() {
    let backend = backend();
    let text = std::fs::read_to_string(exported().join("cumsum.mlir")).unwrap();
    for (b, t) in [(1, 1), (2, 7), (3, 4)] {
        let x = floats(&[b, t], |n| n as f32);
        let inputs = [Arc::clone(&x)];
        let sums = on_device(&backend, &specialized(&program(&text), &inputs), &inputs);
        let running = |row: &[f32]| {
            row.iter()
                .scan(0.0, |sum, x| {
                    *sum += x;
                    Some(*sum)
                })
                .collect::<Vec<f32>>()
        };
        let expected: Vec<f32> = values(&x).chunks(t).flat_map(running).collect();
        assert_eq!(values(&sums[0]), expected);
    }
}

// ---- buckets ----

#[test]
fn sizes_run_in_the_smallest_bucket_that_holds_them() {
    let backend = backend();
    let model = backend.prepare_bucketed(program(ROWS), &weights(), rows(Buckets::of([4, 8, 16]))).unwrap();
    for n in [1, 4, 5, 8, 3, 16] {
        let padded = model.start(&[floats(&[n, 3], |_| 1.0)]).unwrap();
        assert_eq!((padded.sizes[0], padded.bucket[0]), (n, n.next_power_of_two().max(4)));
        assert_eq!(padded.arrays[0].spec().dims, [padded.bucket[0], 2]);
        let results = padded.to_host().unwrap();
        assert_eq!((results[0].dims(), values(&results[0])), (&[n, 2][..], expected_rows(n)));
        // A result that does not vary is left alone.
        assert_eq!(results[1].dims(), [3, 2]);
    }
    let report = model.report();
    let seen: Vec<(usize, u64)> = report.buckets.iter().map(|bucket| (bucket.sizes[0], bucket.runs)).collect();
    assert_eq!(seen, [(4, 3), (8, 2), (16, 1)]);
    assert_eq!(report.buckets[0].because, "a call with batch = 1");
    // 1 + 4 + 3 of 12 rows, 5 + 8 of 16.
    assert!((report.buckets[0].waste_percent() - 100.0 * 4.0 / 12.0).abs() < 1e-9);
    assert!((report.buckets[1].waste_percent() - 100.0 * 3.0 / 16.0).abs() < 1e-9);
    assert_eq!(backend.compiler().stats().compilations, 3);
    assert!(report.to_string().contains("a call with batch = 5"), "{report}");
    // Parameters are on the device once.
    let owners = backend.memory_stats().arrays.owners;
    assert_eq!(owners.iter().find(|owner| owner.name == "parameters of rows").unwrap().bytes, 24);
}

#[test]
fn sizes_past_the_largest_bucket_are_refused() {
    let backend = backend();
    let model = backend.prepare_bucketed(program(ROWS), &weights(), rows(Buckets::of([4, 8]))).unwrap();
    let error = model.run(&[floats(&[9, 3], |_| 1.0)]).unwrap_err();
    let Error::Validation(ValidationError::BeyondBuckets { dimension, size: 9, largest: 8 }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(dimension, "batch");
    assert!(error.remedy().contains("a bucket of at least 9"));
    assert_eq!((model.report().refused, backend.compiler().stats().compilations), (1, 0));
}

#[test]
fn two_dimensions_a_length_and_a_fill() {
    let backend = backend();
    let bucketing = || {
        Bucketing::new([
            Dimension::new("batch", Buckets::of([2, 4])).argument(0, 0),
            Dimension::new("length", Buckets::powers_of_two(4..=16)).argument(0, 1).length_argument(1),
        ])
    };
    let model = backend.prepare_bucketed(program(MEAN), &Parameters::none(), bucketing()).unwrap();
    for (b, t) in [(1, 3), (3, 5), (2, 4), (4, 16)] {
        let means = model.run(&[floats(&[b, t], |n| (n / t) as f32)]).unwrap();
        assert_eq!(means[0].dims(), [b]);
        assert_eq!(values(&means[0]), (0..b).map(|row| row as f32).collect::<Vec<_>>());
    }
    assert_eq!(backend.compiler().stats().compilations, 3);
    // Padded with ones instead of zeros, the sum is too large by what was added: the fill is really used.
    let model = backend.prepare_bucketed(program(MEAN), &Parameters::none(), bucketing().pad_with(0, 1.0)).unwrap();
    assert_eq!(values(&model.run(&[floats(&[2, 3], |_| 0.0)]).unwrap()[0]), [1.0 / 3.0; 2]);
}

#[test]
fn programs_can_be_made_for_sizes() {
    let backend = backend();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let source = BucketSource::made_by(move |sizes| {
        counter.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "module @made {{ func.func @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{
                %0 = stablehlo.add %x, %x : tensor<{n}xf32> return %0 : tensor<{n}xf32> }} }}",
            n = sizes[0]
        );
        Ok(Arc::new(Program::read(text.into_bytes())?))
    });
    let bucketing = Bucketing::new([Dimension::new("n", Buckets::of([8, 16])).argument(0, 0)]);
    let model = backend.prepare_bucketed(source, &Parameters::none(), bucketing).unwrap();
    let before = asked.load(Ordering::Relaxed);
    for n in [3, 8, 5, 12] {
        assert_eq!(values(&model.run(&[floats(&[n], |_| 2.0)]).unwrap()[0]), vec![4.0; n]);
    }
    assert_eq!(asked.load(Ordering::Relaxed) - before, 2);
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Validation, "{error:?}");
    error.to_string()
}

#[test]
fn dimensions_must_fit_the_program() {
    let backend = backend();
    let four = || Buckets::of([4]);
    let prepare = |text: &str, bucketing| backend.prepare_bucketed(program(text), &Parameters::none(), bucketing);
    let dimension = |index, dim| Dimension::new("n", four()).argument(index, dim);
    for (bucketing, message) in [
        (Bucketing::new([]), "dimension 0 of argument 1 is symbolic, and no dimension names it"),
        (rows(Buckets::of([])), "`batch` has no buckets"),
        (Bucketing::new([Dimension::new("n", four())]), "`n` is the size of no argument"),
        (Bucketing::new([dimension(1, 2)]), "argument 1 has no dimension 2"),
        (Bucketing::new([dimension(7, 0)]), "argument 7 has no dimension 0"),
        (Bucketing::new([dimension(1, 0), dimension(1, 0)]), "is both `n` and `n`"),
        (Bucketing::new([dimension(1, 0).length_argument(0)]), "is not i32[]"),
        (Bucketing::new([dimension(1, 0).result(5, 0)]), "there is no dimension 0 of result 5"),
        (rows(four()).pad_with(9, 1.0), "there is no argument 9 to pad"),
    ] {
        let refused = refusal(prepare(ROWS, bucketing));
        assert!(refused.contains(message), "{refused}");
    }
    let parameters = Parameters::leading(vec![floats(&[3, 2], |_| 0.0), floats(&[4, 3], |_| 0.0)]);
    let refused = refusal(backend.prepare_bucketed(program(ROWS), &parameters, rows(four())));
    assert!(refused.contains("is a parameter"), "{refused}");
    // Twice the rows: which of them are padding cannot be known.
    let twice = "module @twice { func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        return %0 : tensor<?xf32> } }";
    let pairs = || Bucketing::new([Dimension::new("n", Buckets::of([2, 4])).argument(0, 0)]);
    let refused = refusal(prepare(twice, pairs()));
    assert!(refused.contains("dimension 0 of result 0 is 4 where `n` is 2 and 8 where it is 4"), "{refused}");
    let model = prepare(twice, pairs().leave_padded(0)).unwrap();
    assert_eq!(values(&model.run(&[floats(&[1], |_| 5.0)]).unwrap()[0]), [5.0, 0.0, 5.0, 0.0]);
}

#[test]
fn inputs_must_fit_the_model() {
    let backend = backend();
    let bucketing = Bucketing::new([Dimension::new("n", Buckets::of([4])).argument(0, 0).argument(1, 0)]);
    let text = "func.func @main(%a: tensor<?x2xf32>, %b: tensor<?x2xf32>) -> tensor<?x2xf32> {
        %0 = stablehlo.add %a, %b : tensor<?x2xf32> return %0 : tensor<?x2xf32> }";
    let model = backend.prepare_bucketed(program(text), &Parameters::none(), bucketing).unwrap();
    let of = |dims: &[usize]| floats(dims, |_| 1.0);
    assert!(model.run(&[of(&[3, 2]), of(&[3, 2])]).is_ok());
    assert!(refusal(model.run(&[of(&[3, 2])])).contains("takes 2 inputs"));
    assert!(refusal(model.run(&[of(&[3, 2]), of(&[2, 2])])).contains("is f32[2,2]; the program takes f32[3,2]"));
    assert!(refusal(model.run(&[of(&[3, 3]), of(&[3, 3])])).contains("f32[3,3]"));
    assert!(refusal(model.run(&[of(&[3]), of(&[3])])).contains("f32[3]"));
    assert!(model.run(&[of(&[0, 2]), of(&[0, 2])]).unwrap()[0].bytes().is_empty());
}

#[test]
fn strict_mode_looks_at_inputs_and_not_at_padding() {
    let config = Config::new(Mode::Training).device(Target::Cpu).strict_validation(true);
    let backend = Backend::auto(&config).unwrap();
    let bucketing = rows(Buckets::of([4])).pad_with(1, f64::NEG_INFINITY);
    let model = backend.prepare_bucketed(program(ROWS), &weights(), bucketing).unwrap();
    assert!(model.run(&[floats(&[2, 3], |_| 1.0)]).is_ok());
    let refused = model.run(&[floats(&[2, 3], |n| if n == 4 { f32::NAN } else { 1.0 })]);
    assert!(matches!(refused, Err(Error::Validation(ValidationError::NotFinite { index: 4, .. }))), "{refused:?}");
}

// ---- many executions ----

#[test]
fn changing_sizes_compile_once_for_each_bucket_and_leave_nothing_behind() {
    let backend = backend();
    let model = backend.prepare_bucketed(program(ROWS), &weights(), rows(Buckets::powers_of_two(1..=64))).unwrap();
    let once = |n: usize| {
        let results = model.run(&[floats(&[n, 3], |_| 1.0)]).unwrap();
        assert_eq!(values(&results[0]), expected_rows(n));
    };
    (1..=64).for_each(once);
    let before = backend.memory_stats();
    for n in 0..1000 {
        once(n * 37 % 64 + 1);
    }
    let after = backend.memory_stats();
    assert_eq!(after.compiler.compilations, 7);
    assert_eq!(model.report().buckets.len(), 7);
    assert_eq!(model.report().runs(), 1064);
    assert_eq!(after.arrays.used_bytes, before.arrays.used_bytes);
    assert_eq!(after.arrays.used_bytes, 24, "only the parameters");
}

#[test]
fn threads_share_one_compilation() {
    let backend = backend();
    let model = backend.prepare_bucketed(program(ROWS), &weights(), rows(Buckets::of([8, 16]))).unwrap();
    std::thread::scope(|scope| {
        for n in 1..=8 {
            let model = model.clone();
            scope.spawn(move || {
                for round in 0..20 {
                    let size = (n + round) % 16 + 1;
                    let results = model.run(&[floats(&[size, 3], |_| 1.0)]).unwrap();
                    assert_eq!(values(&results[0]), expected_rows(size));
                }
            });
        }
    });
    assert_eq!((backend.compiler().stats().compilations, model.report().runs()), (2, 160));
}

// ---- warm-up ----

#[test]
fn a_warm_up_compiles_everything_ahead_and_goes_on_past_failures() {
    let backend = backend();
    let model = backend.prepare_bucketed(program(ROWS), &weights(), rows(Buckets::of([4, 8, 16]))).unwrap();
    let steps = AtomicUsize::new(0);
    let two = NonZeroUsize::new(2).unwrap();
    let done = model.warm_up(two, &|step| _ = steps.fetch_add(step.total, Ordering::Relaxed)).unwrap();
    assert_eq!((done.compiled, done.loaded, done.failed.len(), steps.into_inner()), (3, 0, 0, 9));
    assert_eq!(model.report().buckets[2].because, "a warm-up");
    model.run(&[floats(&[5, 3], |_| 1.0)]).unwrap();
    assert_eq!(backend.compiler().stats().compilations, 3);
    assert_eq!(model.warm_up(ONE, &|_| {}).unwrap().ready, 3);

    // Symbolic sizes are no program for a device.
    let bad = program(ROWS);
    let good = program("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }");
    let done = backend.compiler().warm_up(&[bad, good], ONE, &|_| {});
    assert_eq!(done.failed.len(), 1, "{done:?}");
    assert_eq!((done.compiled, done.failed.len(), done.failed[0].0), (1, 1, 0));
}

#[test]
fn a_second_backend_loads_what_the_first_compiled() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache =
        |folder: &Path| Cache::open(&CacheConfig { folder: Some(folder.into()), ..CacheConfig::default() }).unwrap();
    let bundle = other.path().join("warm.bundle");
    let key = trust::SecretKey::generate().unwrap();
    let bucketing = || rows(Buckets::of([4, 8]));

    let first = backend();
    assert!(
        matches!(first.compiler().export_bundle(&bundle, None), Err(Error::Compilation(_))),
        "there is no cache yet"
    );
    first.keep_executables(cache(folder.path())).unwrap();
    let model = first.prepare_bucketed(program(ROWS), &weights(), bucketing()).unwrap();
    assert_eq!(model.warm_up(ONE, &|_| {}).unwrap().compiled, 2);
    assert_eq!(first.compiler().export_bundle(&bundle, Some(&key)).unwrap().entries, 2);

    // The same folder: loaded, not compiled.
    let second = backend();
    second.keep_executables(cache(folder.path())).unwrap();
    let model = second.prepare_bucketed(program(ROWS), &weights(), bucketing()).unwrap();
    let results = model.run(&[floats(&[3, 3], |_| 1.0)]).unwrap();
    assert_eq!(values(&results[0]), expected_rows(3));
    let stats = second.compiler().stats();
    assert_eq!((stats.compilations, stats.loaded), (0, 1));

    // Another folder, filled from the bundle, with the programs out of it.
    let third = backend();
    third.keep_executables(cache(&other.path().join("cache"))).unwrap();
    let programs = third.compiler().import_bundle(&bundle, BundleTrust::SignedBy(&[key.public("")])).unwrap();
    let done = third.compiler().warm_up(&programs, ONE, &|_| {});
    assert_eq!((programs.len(), done.compiled, done.loaded), (2, 0, 2));
    let model = third.prepare_bucketed(program(ROWS), &weights(), bucketing()).unwrap();
    model.run(&[floats(&[7, 3], |_| 1.0)]).unwrap();
    assert_eq!(third.compiler().stats().compilations, 0);

    // Other options: another executable.
    let config = Config::new(Mode::Development).device(Target::Cpu);
    let fourth = Backend::auto(&config).unwrap();
    fourth.keep_executables(cache(folder.path())).unwrap();
    let model = fourth.prepare_bucketed(program(ROWS), &weights(), bucketing()).unwrap();
    model.run(&[floats(&[3, 3], |_| 1.0)]).unwrap();
    assert_eq!((fourth.compiler().stats().compilations, fourth.compiler().stats().loaded), (1, 0));
}
