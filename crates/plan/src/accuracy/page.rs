//! The page of predictions beside measurements, in Markdown.

use std::fmt::Write as _;

use super::{Comparison, MicroRow, MicroRows, Summary, Table};
use crate::op_time::Bound;

/// Writes the tables of all comparisons; the last line sums up the verified rows.
pub fn page(comparisons: &[Comparison], micro: &MicroRows) -> String {
    let MicroRows { known: micro, unknown } = micro;
    let of = |table: Table| comparisons.iter().filter(|c| c.record.table() == table).collect::<Vec<_>>();
    let (verified, rate_only) = (of(Table::Verified), of(Table::RateOnly));
    let mut page = String::from("## Training runs whose figures agree with each other\n\n");
    page += &table(&verified);
    if !rate_only.is_empty() {
        page += "\n## Training runs of which only a rate was published\n\n";
        page += &table(&rate_only);
    }
    if !micro.is_empty() {
        page +=
            "\n## Micro-benchmarks\n\n| row | what | measured, us | predicted, us | error |\n|---|---|---|---|---|\n";
        for row in micro {
            let (measured, predicted) = (row.measured_s * 1e6, row.predicted_s * 1e6);
            let _ = writeln!(
                page,
                "| {} | {} | {measured:.1} | {predicted:.1} | {:+.1} % |",
                row.id,
                row.what,
                row.error() * 100.0
            );
        }
        if let Some(summary) = Summary::of(micro.iter().map(MicroRow::error)) {
            let _ = writeln!(page, "\nMicro-benchmarks: {summary}");
        }
    }
    for (id, why) in unknown {
        let _ = writeln!(page, "\n{id} is left out: {why}.");
    }
    if let Some(summary) = summary(&rate_only) {
        let _ = writeln!(page, "\nRates only: {summary}");
    }
    match summary(&verified) {
        Some(summary) => {
            let _ = writeln!(page, "\n{summary}");
        }
        None => page += "\nno verified row could be predicted\n",
    }
    page
}

fn summary(comparisons: &[&Comparison]) -> Option<Summary> {
    Summary::of(comparisons.iter().filter_map(|comparison| comparison.error()))
}

fn table(comparisons: &[&Comparison]) -> String {
    let mut text = String::from(
        "| row | slice | measured, s | predicted, s | range | error | matrix | vector | HBM | ICI | DCN | host | HBM GiB of limit | compiled |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut differences: Vec<&str> = Vec::new();
    for comparison in comparisons {
        let record = &comparison.record;
        let measured = record.measured_step_s.map_or_else(|| "-".to_string(), |seconds| format!("{seconds:.3}"));
        match &comparison.prediction {
            Ok(prediction) => {
                let step = &prediction.estimate.step;
                let error =
                    comparison.error().map_or_else(|| "-".to_string(), |error| format!("{:+.1} %", error * 100.0));
                let share = |bound: Bound| {
                    let found = prediction.estimate.shares.iter().find(|share| share.bound == bound);
                    found.map_or_else(|| "-".to_string(), |share| format!("{:.0} %", share.share * 100.0))
                };
                let shares = [Bound::Matrix, Bound::Vector, Bound::Hbm, Bound::Ici, Bound::Dcn, Bound::Host].map(share);
                let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
                let mode = match prediction.mode {
                    compile::Mode::Quick => "quick",
                    compile::Mode::Full => "full",
                };
                let _ = writeln!(
                    text,
                    "| {} | {} | {measured} | {:.3} | {:.2} to {:.2} | {error} | {} | {:.1} of {:.1} | {mode}, {:.0} s |",
                    record.id,
                    record.slice,
                    step.seconds,
                    step.low_s,
                    step.high_s,
                    shares.join(" | "),
                    gib(prediction.hbm_bytes),
                    gib(prediction.hbm_limit_bytes),
                    prediction.compile_seconds,
                );
            }
            Err(why) => {
                let why = why.replace(['\n', '|'], " ");
                let _ = writeln!(
                    text,
                    "| {} | {} | {measured} | not predicted: {why} ||||||||||||",
                    record.id, record.slice
                );
            }
        }
        differences.extend(record.approximations.iter().map(String::as_str));
    }
    differences.sort_unstable();
    differences.dedup();
    if !differences.is_empty() {
        text += "\nHow programs differ from those that were measured, each for some of the rows:\n";
        for difference in differences {
            let _ = writeln!(text, "- {difference}");
        }
    }
    text
}
