//! Rows of a batch: every process prepares its own, and what is learned is the same.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use compile::optimize::ComputePrecision;
use nn::{ShardingRules, Strategy};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, TreeArrays};
use tensor::{Literal, Spec};
use train::data::{Batching, DataError, Dataset, MarkovOptions, MarkovTokens, ShapeImages, ShapeOptions, Shard};
use train::trainer::{TrainEvent, TrainOptions, Trainer};
use train::{ParameterShapes, StateSharding};

use crate::processes::{free_address, together};
use crate::trainer::{Lines, Regression};

/// Lines whose whole batch may not be asked for, and which remember the rows that were.
struct Watched {
    lines: Lines,
    asked: Arc<Mutex<BTreeSet<(usize, usize)>>>,
}

impl Dataset for Watched {
    fn specs(&self) -> Vec<Spec> {
        self.lines.specs()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, _: u64) -> Result<Vec<Literal>, DataError> {
        Err(DataError::Panicked { doing: "reading rows of other processes" })
    }

    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        self.asked.lock().unwrap().insert((shard.index, shard.count));
        self.lines.rows(step, shard)
    }

    fn describe(&self) -> String {
        self.lines.describe()
    }
}

/// Trains on a mesh over four devices; the losses and the weights at the end.
fn train(backend: &Backend, mesh: &str, strategy: Strategy, data: Arc<dyn Dataset>) -> (Vec<f64>, Vec<u8>) {
    let rules = ShardingRules::new(&mesh.parse().unwrap(), strategy).unwrap();
    let shapes = ParameterShapes::from([("weights".into(), vec![3]), ("momentum".into(), vec![3])]);
    let sharding = StateSharding::new(backend, &rules, shapes, &data.specs()).unwrap();
    let options = TrainOptions { log_every: 1, eval_every: Some(4), eval_batches: 2, ..TrainOptions::new(6) };
    let trainer = Trainer::new(backend, Regression { rate: 0.1 }, options).on(Some(sharding));
    let mut losses = Vec::new();
    let mut hear = |event: &TrainEvent| match event {
        TrainEvent::Step(measured) | TrainEvent::Evaluated(measured) => losses.extend(measured.loss()),
        _ => {}
    };
    let trained = trainer.train(data.clone(), Some(data), &AtomicBool::new(false), &mut hear).unwrap();
    let weights = backend.gather(&trained.state.unwrap().arrays().unwrap()[0].1).unwrap();
    (losses, weights.bytes().to_vec())
}

fn config(devices: usize) -> Config {
    Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32).cpu_devices(devices)
}

#[test]
fn a_process_reads_the_rows_of_its_devices_and_no_others() {
    let lines = || Lines { seed: 3, broken_at: None };
    let cases = [
        ("data=4", Strategy::Data, 4, 4),
        ("data=4", Strategy::Data, 2, 2),
        // Two processes have the same rows.
        ("data=2,model=2", Strategy::Megatron, 4, 2),
    ];
    for (mesh, strategy, processes, rows) in cases {
        let alone = train(&Backend::auto(&config(4)).unwrap(), mesh, strategy, Arc::new(lines()));
        assert_eq!(alone.0.len(), 8, "six steps and two evaluations");
        let each = together(processes, &free_address(), |_, session| {
            let backend = Backend::in_session(&session, &config(4 / processes)).unwrap();
            let asked = Arc::new(Mutex::default());
            let data = Arc::new(Watched { lines: lines(), asked: asked.clone() });
            let trained = train(&backend, mesh, strategy, data);
            session.finish().unwrap();
            let asked: Vec<_> = asked.lock().unwrap().iter().copied().collect();
            (trained, asked)
        });
        let mut seen = BTreeSet::new();
        for (trained, asked) in each {
            assert_eq!(trained, alone, "{mesh} in {processes} processes");
            let [(index, count)] = asked[..] else { panic!("{mesh}: {asked:?}") };
            assert_eq!(count, rows, "{mesh} in {processes} processes");
            seen.insert(index);
        }
        assert!(seen.into_iter().eq(0..rows), "{mesh}");
    }
}

#[test]
fn rows_of_datasets_are_those_of_the_whole_batch() {
    let batching = Batching::new(8, 5);
    let tokens = MarkovOptions { vocab_size: 16, sequence_length: 3, chain_seed: 1, batching };
    let shapes = ShapeOptions { height: 8, width: 8, channels: 1, classes: 4, batching };
    let made: [Box<dyn Dataset>; 2] =
        [Box::new(MarkovTokens::new(tokens).unwrap()), Box::new(ShapeImages::new(shapes).unwrap())];
    for data in made {
        let whole = data.batch(7).unwrap();
        for count in [1, 2, 4, 8] {
            let parts: Vec<_> = (0..count).map(|index| data.rows(7, Shard { index, count }).unwrap()).collect();
            for (n, array) in whole.iter().enumerate() {
                let joined: Vec<u8> = parts.iter().flat_map(|part| part[n].bytes().to_vec()).collect();
                assert_eq!(joined, array.bytes(), "{} in {count}", data.describe());
                assert_eq!(parts[0][n].dims()[0], 8 / count);
            }
        }
        for (index, count) in [(0, 3), (4, 4), (0, 0)] {
            assert!(data.rows(7, Shard { index, count }).is_err(), "{index} of {count}");
        }
    }
    // The same by cutting, where a dataset does not say more.
    let lines = Lines { seed: 3, broken_at: None };
    let whole = lines.batch(7).unwrap();
    assert_eq!(lines.rows(7, Shard { index: 3, count: 4 }).unwrap()[0].bytes(), &whole[0].bytes()[36..]);
    assert!(
        lines.rows(7, Shard { index: 0, count: 3 }).is_err() && lines.rows(7, Shard { index: 0, count: 0 }).is_err()
    );
}
