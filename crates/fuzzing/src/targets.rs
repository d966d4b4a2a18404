//! What the targets in `fuzz/` do with a fuzzer's bytes: a panic is a finding.

use crate::campaign::Campaign;
use crate::numbers::Numbers;
use crate::oracle::{Bench, FuzzVerdict, Subject};

/// What a target does with its input.
pub type FuzzTarget = fn(&Bench, &[u8]);

/// Every target by its name, which is that of its folder in `fuzz/corpus` too.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("text", |_, data| text(data)),
    ("bytecode", |_, data| bytecode(data)),
    ("compiled_hlo", |_, data| compiled_hlo(data)),
    ("slice_name", |_, data| slice_name(data)),
    ("compiled", compiled),
    ("generated", generated),
];

/// StableHLO text: whatever parses prints to a fixed point and verifies without a panic.
pub fn text(data: &[u8]) {
    let Ok(module) = hlo::text::parse_bytes(data) else { return };
    let once = hlo::text::print(&module);
    let again = hlo::text::parse(&once).expect("what we print parses");
    assert_eq!(hlo::text::print(&again), once);
    let _ = hlo::verify(module);
}

/// Bytecode: whatever reads can be printed, verified and written again.
pub fn bytecode(data: &[u8]) {
    let _ = hlo::bytecode::builtin_attributes(data);
    let Ok(module) = hlo::bytecode::read(data) else { return };
    let _ = hlo::text::print(&module);
    let _ = hlo::bytecode::write(&module);
    let _ = hlo::verify(module);
}

/// Compiled HLO and buffer assignments: whatever reads can be summed up.
pub fn compiled_hlo(data: &[u8]) {
    if let Ok(module) = xla::HloModule::from_hlo_with_config(data) {
        let executions = module.executions();
        let _ = module.cost(&executions);
        let _ = module.collective_totals(&executions);
        let _ = module.to_string();
    }
    let _ = xla::BufferAssignment::from_zstd(data);
    let _ = xla::BufferAssignment::from_bytes(data);
}

/// Slice names: any string is a slice or an error, and a slice's name parses back to it.
pub fn slice_name(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else { return };
    if let Ok(slice) = name.parse::<chips::Slice>() {
        assert_eq!(slice.to_string().parse(), Ok(slice));
    }
}

/// Programs, text or bytecode: whatever verifies compiles, runs in fenced memory, and gives what the interpreter gives.
pub fn compiled(bench: &Bench, data: &[u8]) {
    let text = match std::str::from_utf8(data) {
        Ok(text) => text.to_string(),
        Err(_) => match hlo::bytecode::read(data) {
            Ok(module) => hlo::text::print(&module),
            Err(_) => return,
        },
    };
    accept(bench, &Subject::of(text));
}

/// Programs that the bytes choose from everything the generators and mutations make.
pub fn generated(bench: &Bench, data: &[u8]) {
    accept(bench, &Campaign::default().choose(Numbers::from_bytes(data)));
}

fn accept(bench: &Bench, subject: &Subject) {
    if let FuzzVerdict::Wrong(what) = bench.judge(subject) {
        panic!("{what}\n{}", subject.text);
    }
}
