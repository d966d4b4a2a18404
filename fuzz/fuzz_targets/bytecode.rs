//! Bytecode: whatever reads can be printed, verified and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(module) = hlo::bytecode::read(data) else { return };
    let _ = hlo::text::print(&module);
    let _ = hlo::bytecode::write(&module);
    let _ = hlo::verify(module);
});
