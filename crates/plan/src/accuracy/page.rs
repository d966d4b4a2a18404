//! The page of predictions beside measurements, in Markdown, all of it from the record of results.

use std::fmt::Write as _;

use super::results::LIMITS;
use super::{MicroRow, ResultRow, Results, Summary, Table, is_fitted, sections};

/// Writes the page; its last line sums up the verified rows.
pub fn page(results: &Results) -> String {
    let of = |table: Table| results.rows.iter().filter(|row| row.table == table).collect::<Vec<_>>();
    let (verified, rate_only) = (of(Table::Verified), of(Table::RateOnly));
    let mut page = heading(&results.front_end);
    page += &sections::held_out(results);
    for note in &results.notes {
        let _ = writeln!(page, "{note}\n");
    }
    page += "## Training runs whose figures agree with each other\n\n";
    page += &table(&verified);
    if !rate_only.is_empty() {
        page += "\n## Training runs of which only a rate was published\n\n";
        page += &table(&rate_only);
    }
    page += &differences(&results.differences);
    page += &sections::inference(results);
    page += &sections::profiles(results);
    page += &micro_table(results);
    page += "\n## In short\n";
    if let Some(summary) = summary(&rate_only, |_| true) {
        let _ = writeln!(page, "\nRates only: {summary}");
    }
    for (name, fitted) in [("Verified, constants fitted on them", true), ("Verified, not fitted on", false)] {
        if let Some(summary) = summary(&verified, |row| row.fitted == fitted) {
            let _ = writeln!(page, "\n{name}: {summary}");
        }
    }
    match summary(&verified, |_| true) {
        Some(summary) => {
            let _ = writeln!(page, "\n{summary}");
        }
        None => page += "\nno verified row could be predicted\n",
    }
    page
}

fn heading(front_end: &str) -> String {
    let (option, by) = match front_end {
        "rust" => (" --front-end rust", "our own front end"),
        _ => ("", "JAX"),
    };
    format!(
        "# Predictions and measurements: programs of {by}

Written by `tpu accuracy FILE{option} --results RESULTS --out PAGE`. Steps are predicted from what libtpu makes of the
program on a machine without a TPU. `docs/explain/estimate.md` says how.

Some constants of the estimate were fitted on rows of this page: the reach of matrix units inside a model, of grouped
matmuls, of the host link, and the time of an indexed row. They were last changed on 15 November 2026. Rows marked
*fitted* were on the first page with these constants, which may have been chosen with them in sight: their error says how
well the constants fit. The other rows were predicted later with the same constants: their error says how well the
estimate predicts. Each constant holds for a generation or for all of them, none for a single row.

"
    )
}

fn summary(rows: &[&ResultRow], which: impl Fn(&ResultRow) -> bool) -> Option<Summary> {
    Summary::of(rows.iter().filter(|row| which(row)).filter_map(|row| row.error()))
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_string(), |share| format!("{:.0} %", share * 100.0))
}

fn table(rows: &[&ResultRow]) -> String {
    let mut text = String::from(
        "| row | slice | fitted | measured, s | predicted, s | range | error | matrix | vector | HBM | ICI | DCN | host | HBM GiB of limit | compiled |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let measured = row.measured_s.map_or_else(|| "-".to_string(), |seconds| format!("{seconds:.3}"));
        let _ = write!(text, "| {} | {} | {} | {measured} | ", row.id, row.slice, yes(row.fitted));
        let Some(predicted) = &row.predicted else {
            let why = row.failure.as_deref().unwrap_or("no reason was kept").replace(['\n', '|'], " ");
            let _ = writeln!(text, "not predicted: {why} |||||||||||");
            continue;
        };
        let error = row.error().map_or_else(|| "-".to_string(), |error| format!("{:+.1} %", error * 100.0));
        let _ = write!(text, "{:.3} | ", predicted.step_s);
        let Some(details) = &predicted.details else {
            let _ = writeln!(text, "- | {error} | - | - | - | - | - | - | - | - |");
            continue;
        };
        let shares = LIMITS.map(|(_, name)| percent(details.shares.get(name).copied()));
        let _ = writeln!(
            text,
            "{:.2} to {:.2} | {error} | {} | {:.1} of {:.1} | {}, {:.0} s |",
            details.low_s,
            details.high_s,
            shares.join(" | "),
            sections::gib(details.hbm_bytes),
            sections::gib(details.hbm_limit_bytes),
            details.mode,
            details.compile_seconds,
        );
    }
    text
}

fn differences(differences: &[String]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let list: String = differences.iter().map(|difference| format!("- {difference}\n")).collect();
    format!("\nHow programs differ from those that were measured, each for some of the rows:\n\n{list}")
}

fn micro_table(results: &Results) -> String {
    let mut text = String::new();
    if !results.micro.is_empty() {
        text += "\n## Micro-benchmarks\n\n\
                 | row | what | fitted | measured, us | predicted, us | error |\n|---|---|---|---|---|---|\n";
        for row in &results.micro {
            let (measured, predicted) = (row.measured_s * 1e6, row.predicted_s * 1e6);
            let (fitted, error) = (yes(is_fitted(&row.id)), row.error() * 100.0);
            let _ = writeln!(
                text,
                "| {} | {} | {fitted} | {measured:.1} | {predicted:.1} | {error:+.1} % |",
                row.id, row.what
            );
        }
        if let Some(summary) = Summary::of(results.micro.iter().map(MicroRow::error)) {
            let _ = writeln!(text, "\nMicro-benchmarks: {summary}");
        }
        if let Some(summary) = Summary::of(results.micro.iter().filter(|row| !is_fitted(&row.id)).map(MicroRow::error))
        {
            let _ = writeln!(text, "\nOf these not fitted on: {summary}");
        }
    }
    for (id, why) in &results.left_out {
        let _ = writeln!(text, "\n{id} is left out: {why}.");
    }
    text
}
