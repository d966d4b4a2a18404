//! Slice names: any string is a slice or an error, and a slice's name parses back to it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &str| {
    if let Ok(slice) = name.parse::<chips::Slice>() {
        assert_eq!(slice.to_string().parse(), Ok(slice));
    }
});
