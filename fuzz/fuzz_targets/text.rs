//! StableHLO text: whatever parses prints to a fixed point and verifies without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(module) = hlo::text::parse_bytes(data) else { return };
    let once = hlo::text::print(&module);
    let again = hlo::text::parse(&once).expect("what we print parses");
    assert_eq!(hlo::text::print(&again), once);
    let _ = hlo::verify(module);
});
