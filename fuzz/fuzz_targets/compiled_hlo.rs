//! Compiled HLO and buffer assignments: whatever reads can be summed up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(module) = xla::HloModule::from_hlo_with_config(data) {
        let executions = module.executions();
        let _ = module.cost(&executions);
        let _ = module.collective_totals(&executions);
        let _ = module.to_string();
    }
    let _ = xla::BufferAssignment::from_zstd(data);
    let _ = xla::BufferAssignment::from_bytes(data);
});
