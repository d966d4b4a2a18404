//! Compiled HLO and buffer assignments: whatever reads can be summed up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::targets::compiled_hlo(data));
