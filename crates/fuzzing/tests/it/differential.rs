//! Random programs run compiled and by the reference interpreter, and give the same.
//!
//! Integers and booleans agree exactly, NaNs are at the same places, and floats differ at most by the bound that the
//! generator derives for each result: most are exact. The compiled engine flushes denormals, so the generator keeps away
//! from them.
//!
//! `TPUBRIDGE_FUZZ_PROGRAMS` says how many programs, `TPUBRIDGE_FUZZ_START` the first seed, and `TPUBRIDGE_SEED` runs the
//! one of that seed.

use std::ops::Range;

use fuzzing::{Bench, FuzzVerdict, Numbers, bounded};

/// Programs of a usual run.
const PROGRAMS: u64 = 1500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The seeds of a run.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    match number("TPUBRIDGE_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("TPUBRIDGE_FUZZ_START").unwrap_or(0);
            first..first + number("TPUBRIDGE_FUZZ_PROGRAMS").unwrap_or(usual)
        }
    }
}

#[test]
fn compiled_programs_give_what_the_interpreter_gives() {
    let bench = Bench::new();
    let seeds = seeds(PROGRAMS);
    let count = seeds.end - seeds.start;
    let wrong: Vec<String> = seeds
        .filter_map(|seed| {
            let subject = bounded(Numbers::new(seed));
            let what = match bench.judge(&subject) {
                FuzzVerdict::Agreed(agreed) if agreed.is_compiled => return None,
                FuzzVerdict::Wrong(what) => what,
                other => format!("{other:?}"),
            };
            Some(format!("TPUBRIDGE_SEED={seed}: {what}\n{}", subject.text))
        })
        .collect();
    let first = wrong.first().cloned().unwrap_or_default();
    let names: Vec<&str> = wrong.iter().filter_map(|text| text.lines().next()).collect();
    assert!(wrong.is_empty(), "{} of {count} programs differ:\n{}\n\n{first}", wrong.len(), names.join("\n"));
}
