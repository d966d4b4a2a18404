//! Batches tried on the CPU device: refused by the budget of memory, by a stop, by data; the device stays usable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use compile::CompileError;
use compile::optimize::ComputePrecision;
use plan::batch_size::{BatchSearch, BatchSizes, SearchEnd, TrialOutcome};
use runtime::config::{Config, Fraction, Mode, Target};
use runtime::{Backend, Surroundings, ValidationError};
use tensor::{DType, Literal, Spec};
use trace::Tensor;
use train::Error;
use train::batch_size::{MeasuredStep, Samples, measure_batch_sizes};
use train::trainer::{Measures, Task};

/// A vector that follows the mean of its batch.
struct Mean;

const WIDTH: usize = 1024;

impl Task for Mean {
    type State = Tensor;

    fn init(&self) -> Tensor {
        Tensor::zeros(DType::F32, &[WIDTH])
    }

    fn step(&self, state: &Tensor, batch: &[Tensor]) -> (Tensor, Measures) {
        let rows = batch[0].exp();
        let next = state + &rows.mean(&[0]);
        (next.clone(), BTreeMap::from([("loss".to_string(), next.mean_all())]))
    }

    fn evaluate(&self, _: &Tensor, _: &[Tensor]) -> Measures {
        Measures::new()
    }
}

fn specs(batch: u64) -> Result<Vec<Spec>, Error> {
    Ok(vec![Spec::new(DType::F32, [usize::try_from(batch).unwrap(), WIDTH])])
}

fn arrays(batch: u64) -> Result<Vec<Literal>, Error> {
    let rows = usize::try_from(batch).unwrap();
    Ok(vec![Literal::new(DType::F32, [rows, WIDTH], vec![0; rows * WIDTH * 4]).unwrap()])
}

/// A CPU device of so many bytes, all of which may be used.
fn backend(bytes: i64) -> Backend {
    let config = Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32);
    let config = config.memory_fraction(Fraction::new(1.0).unwrap());
    let client = pjrt::ClientOptions::default().option("memory_limit_bytes", bytes);
    Backend::within(&Surroundings { client, ..Surroundings::host() }, &config).unwrap()
}

fn find(backend: &Backend, stop: &AtomicBool) -> Result<BatchSizes, Error> {
    let how = MeasuredStep { warm_up: 0, timed: 1 };
    let samples = Samples { specs: &specs, arrays: &arrays };
    measure_batch_sizes(backend, Arc::new(Mean), how, &BatchSearch::from_batch(4), &samples, stop)
}

#[test]
fn memory_bounds_the_batch_and_the_device_stays_usable() {
    // An example is 4 KiB: a MiB holds less than 256.
    let backend = backend(1 << 20);
    let found = find(&backend, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.ended, SearchEnd::Memory);
    let largest = found.largest.unwrap();
    assert!((64..256).contains(&largest), "{found:?}");
    for trial in &found.trials {
        assert_eq!(trial.fits(), trial.batch <= largest, "{trial:?}");
        assert_eq!(trial.step_seconds.is_some(), trial.fits(), "{trial:?}");
        if let (Some(needed), Some(limit)) = (trial.needed_bytes, trial.limit_bytes) {
            assert_eq!(needed <= limit, trial.fits(), "{trial:?}");
        }
        assert!(
            trial.fits() || matches!(&trial.outcome, TrialOutcome::TooLarge(why) if why.contains("bytes")),
            "{trial:?}"
        );
    }
    assert!(found.trials.iter().any(|trial| Some(trial.batch) == found.fastest && trial.fits()));
    // Nothing is left behind.
    assert_eq!(backend.memory().used_bytes(), 0);
    assert_eq!(find(&backend, &AtomicBool::new(false)).unwrap().largest, Some(largest));
}

#[test]
fn nothing_fits_a_device_that_is_too_small() {
    let found = find(&backend(6 << 10), &AtomicBool::new(false)).unwrap();
    assert_eq!((found.largest, found.fastest, found.ended), (None, None, SearchEnd::Memory));
}

#[test]
fn a_stop_and_bad_data_end_the_search() {
    let backend = backend(1 << 20);
    let stopped = find(&backend, &AtomicBool::new(true));
    assert!(
        matches!(stopped, Err(Error::Runtime(runtime::Error::Compilation(CompileError::Interrupted)))),
        "{stopped:?}"
    );
    let how = MeasuredStep::default();
    let samples = Samples { specs: &specs, arrays: &|_| Err(ValidationError::Other("no data".into()).into()) };
    let search = BatchSearch::from_batch(4);
    let failed = measure_batch_sizes(&backend, Arc::new(Mean), how, &search, &samples, &AtomicBool::new(false));
    assert!(failed.is_err_and(|error| error.to_string() == "no data"));
}
