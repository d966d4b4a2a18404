//! StableHLO text: whatever parses prints to a fixed point and verifies without a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::targets::text(data));
