//! Slice names: any string is a slice or an error, and a slice's name parses back to it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::targets::slice_name(data));
