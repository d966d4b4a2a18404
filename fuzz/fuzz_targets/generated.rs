//! Programs that the bytes choose from everything the generators and mutations make.
#![no_main]

use std::sync::LazyLock;

static BENCH: LazyLock<fuzzing::Bench> = LazyLock::new(fuzzing::Bench::new);

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::targets::generated(&BENCH, data));
