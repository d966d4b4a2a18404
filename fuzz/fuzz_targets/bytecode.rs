//! Bytecode: whatever reads can be printed, verified and written again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::targets::bytecode(data));
