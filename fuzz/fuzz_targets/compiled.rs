//! Programs, text or bytecode: whatever verifies compiles, runs in fenced memory, and gives what the interpreter gives.
#![no_main]

use std::sync::LazyLock;

use fuzzing::{Bench, Numbers, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

static BENCH: LazyLock<Bench> = LazyLock::new(Bench::new);

fuzz_target!(|data: &[u8]| fuzzing::targets::compiled(&BENCH, data));

// Every second mutation knows what a program is.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(2)
        && let Ok(module) = hlo::read(&data[..size])
    {
        let text = mutate(&module, &mut Numbers::new(seed.into()));
        if text.len() <= max_size.min(data.len()) {
            data[..text.len()].copy_from_slice(text.as_bytes());
            return text.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
});
