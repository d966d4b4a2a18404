//! A bounded part of the campaign that `fuzz-programs` runs without end: hostile programs run right, or not at all.

use std::fs;

use fuzzing::{Bench, Campaign, FuzzVerdict, Tally, read_seeds};

use crate::differential::seeds;

/// Programs of a usual run.
const PROGRAMS: u64 = 2500;

#[test]
fn hostile_programs_stay_in_their_buffers() {
    let folder = testkit::repository().join("crates/cpu/tests/programs");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let written: Vec<_> = paths.iter().flat_map(|path| read_seeds(&fs::read_to_string(path).unwrap())).collect();
    assert!(written.len() > 100, "{} written programs", written.len());
    let (bench, campaign) = (Bench::new(), Campaign { written });
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for seed in seeds(PROGRAMS) {
        let subject = campaign.subject(seed);
        let verdict = bench.judge(&subject);
        tally.add(&verdict);
        if let FuzzVerdict::Wrong(what) = verdict {
            wrong.push(format!("TPUBRIDGE_SEED={seed}: {what}\n{}", subject.text));
        }
    }
    println!("{tally}");
    assert!(wrong.is_empty(), "{} programs:\n{}", wrong.len(), wrong.join("\n\n"));
    // Most of what is made or mutated is a program, and runs.
    assert!(tally.programs < 100 || 3 * tally.compiled > tally.programs, "{tally}");
}
