//! Pools of a backend: arrays go out and come back, statistics tell it, and clearing gives the budget back.

use runtime::config::{Config, Fraction, Mode, Target};
use runtime::{Backend, ErrorClass, Surroundings};
use tensor::{DType, Spec};

/// Bytes of an array of the pools here.
const ARRAY: u64 = 64 * 4;
/// The budget: ten arrays.
const LIMIT: u64 = 10 * ARRAY;

fn backend() -> Backend {
    let client = pjrt::ClientOptions::default().option("memory_limit_bytes", i64::try_from(LIMIT).unwrap());
    let around = Surroundings { client, ..Surroundings::host() };
    let all = Fraction::new(1.0).unwrap();
    Backend::within(&around, &Config::new(Mode::Inference).device(Target::Cpu).memory_fraction(all)).unwrap()
}

fn spec() -> Spec {
    Spec::new(DType::F32, [64])
}

#[test]
fn arrays_go_out_and_come_back() {
    let backend = backend();
    let pool = backend.create_pool("batches", &spec(), 4).unwrap();
    let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
    let stats = pool.stats();
    assert_eq!((stats.size, stats.free, stats.utilization, stats.bytes), (4, 2, 0.5, 4 * ARRAY));
    pool.give_back(first).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.free, stats.utilization, stats.taken), (3, 0.25, 2));
    // The budget counts the pool's arrays whether they are in use or not.
    assert_eq!(backend.memory().used_bytes(), 4 * ARRAY);
    pool.give_back(second).unwrap();
    let taken: Vec<_> = (0..4).map(|_| pool.take().unwrap()).collect();
    assert_eq!(pool.take().unwrap_err().class(), ErrorClass::Pool);
    assert_eq!((pool.stats().taken, pool.stats().hit_rate, pool.stats().utilization), (6, 6.0 / 7.0, 1.0));
    for array in taken {
        pool.give_back(array).unwrap();
    }
    let owner = backend.memory().owner("data");
    let stranger = backend.uninitialized(&owner, &spec()).unwrap();
    assert!(pool.give_back(stranger).unwrap_err().to_string().contains("has all its 4 arrays"));
    let other = backend.uninitialized(&owner, &Spec::new(DType::F32, [8])).unwrap();
    assert!(pool.give_back(other).unwrap_err().to_string().contains("does not belong"));
}

#[test]
fn a_backend_lists_its_pools_and_no_others() {
    let (ours, theirs) = (backend(), backend());
    let batches = ours.create_pool("batches", &spec(), 4).unwrap();
    let caches = ours.create_pool("caches", &spec(), 2).unwrap();
    let _other = theirs.create_pool("other", &spec(), 1).unwrap();
    let _taken = caches.take().unwrap();
    let found: Vec<(String, f64)> =
        ours.pool_stats().into_iter().map(|stats| (stats.name, stats.utilization)).collect();
    assert_eq!(found, [("batches".to_string(), 0.0), ("caches".to_string(), 0.5)]);
    assert_eq!(ours.pools()[1].stats(), caches.stats());
    drop(batches);
    assert_eq!(ours.pool_stats().len(), 1);
    assert_eq!(ours.memory().used_bytes(), 2 * ARRAY, "a pool that nobody holds gave its memory back");
}

#[test]
fn clearing_gives_the_budget_back_at_once() {
    let backend = backend();
    let batches = backend.create_pool("batches", &spec(), 4).unwrap();
    let caches = backend.create_pool("caches", &spec(), 6).unwrap();
    let taken = caches.take().unwrap();
    let full = backend.create_pool("more", &spec(), 1).unwrap_err();
    assert_eq!(full.class(), ErrorClass::OutOfMemory);
    assert!(full.to_string().contains("pool caches: 1536 bytes in 6 arrays"), "{full}");

    assert_eq!(backend.clear_pools(), 9 * ARRAY);
    assert_eq!(backend.memory().used_bytes(), ARRAY, "one array is in use");
    assert!(backend.pools().is_empty());
    assert!(batches.take().unwrap_err().to_string().contains("was cleared"));
    assert_eq!((caches.stats().size, caches.stats().bytes), (1, ARRAY));
    caches.give_back(taken).unwrap();
    assert_eq!((backend.memory().used_bytes(), caches.stats().size), (0, 0));
    assert_eq!(backend.clear_pools(), 0);
    let again = backend.create_pool("more", &spec(), 10).unwrap();
    assert_eq!((again.stats().free, backend.memory().used_bytes()), (10, LIMIT));
}
