//! Parts of the page beside training rows: families left out, profiles op by op, inference.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{HeldOutRow, Results, Summary, family};

/// What leaving families out says; empty where that was not asked for.
pub(super) fn held_out(results: &Results) -> String {
    let Some(held_out) = &results.held_out else { return String::new() };
    let Some(summary) = held_out.summary() else { return String::new() };
    let mut text = format!(
        "## Families that the constants were not fitted on\n\n\
         **Left out: {summary}.**\nEach family of models was left out in turn: the fitted constants were chosen by the rows of the \
         others alone,\nand its rows predicted with those.\nThe range (p10 to p90 of the others' errors) holds the measurement of {:.0} % of \
         the rows. `tpu accuracy FILE --leave-one-out` computes this.\n\n\
         | family | rows | median error | worst error | row |\n|---|---|---|---|---|\n",
        held_out.coverage() * 100.0
    );
    let mut families: BTreeMap<&str, Vec<&HeldOutRow>> = BTreeMap::new();
    for row in &held_out.rows {
        families.entry(family(&row.id)).or_default().push(row);
    }
    for (name, rows) in families {
        let Some(summary) = Summary::of(rows.iter().map(|row| row.error())) else { continue };
        let Some(worst) = rows.iter().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs())) else { continue };
        let (median, error) = (summary.median * 100.0, worst.error() * 100.0);
        let _ = writeln!(text, "| {name} | {} | {median:.1} % | {error:+.1} % | {} |", rows.len(), worst.id);
    }
    text + "\n"
}

/// Profiles op by op.
pub(super) fn profiles(results: &Results) -> String {
    if results.profiles.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## Measured profiles, op by op\n\n\
         Each op is priced by its HLO alone and compared with its measured time: `tpu accuracy --profile FILE`. Errors are medians over ops of \
         20 us and more.\nOf a collective the shortest execution counts; the others wait for late devices.\n\
         Matmuls of a CSV were timed from the host. What a call takes drifts by 20 us, so it is told by the rows timed before and after one, \
         short ones most.\n\n\
         | profile | slice | class | ops | median error | p90 | measured, ms | predicted, ms |\n|---|---|---|---|---|---|---|---|\n",
    );
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_string(), |share| format!("{:.1} %", share * 100.0));
    for profile in &results.profiles {
        for class in &profile.classes {
            let name = class.class.map_or("all", |class| class.name());
            let (median, p90) = (percent(class.median), percent(class.p90));
            let (measured, predicted) = (class.measured_s * 1e3, class.predicted_s * 1e3);
            let _ = writeln!(
                text,
                "| {} | {} | {name} | {} | {median} | {p90} | {measured:.2} | {predicted:.2} |",
                profile.file, profile.slice, class.ops
            );
        }
    }
    text
}

/// Steps of inference.
pub(super) fn inference(results: &Results) -> String {
    if results.inference.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## Inference\n\n\
         `tpu accuracy FILE` writes the steps of rows of inference as `tpu plan config.json --step decode` and `--step prefill` do, in bf16 beside what is \
         named, and keeps the fastest of four\ncandidates. Every sequence has as long a KV cache as named. `model` splits experts where there are some.\n\
         Published rates of vLLM are whole runs. A row says a request in the middle of its output, and beside it a run of both steps: prompts are read \
         by themselves, as few at once\nas the devices can share, then their tokens are written, those of all sequences at once.\n\
         An engine's own gaps are in no prediction. What each row leaves out (the scheme of the weights) is in `benchmarks/accuracy/serving.json`.\n\n\
         | row | runs | slice | mesh | sequences | HBM GiB of limit | decode step, ms | range | tokens/s | prefill of a prompt, ms \
         | with prefill, tokens/s | published | predicted over published |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for row in &results.inference {
        let whole = row.whole_run_tokens_per_s();
        let ratio = row.published_tokens_per_s.map(|rate| format!("{:.2}", whole.unwrap_or(row.tokens_per_s) / rate));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.1} of {:.1} | {:.2} | {:.2} to {:.2} | {:.0} | {} | {} | {} | {} |",
            row.id,
            row.what,
            row.slice,
            row.mesh,
            row.sequences,
            gib(row.hbm_bytes),
            gib(row.hbm_limit_bytes),
            row.step_s * 1e3,
            row.low_s * 1e3,
            row.high_s * 1e3,
            row.tokens_per_s,
            or_none(row.prefill.map(|prefill| format!("{:.1}", prefill.seconds * 1e3))),
            or_none(whole.map(|rate| format!("{rate:.0}"))),
            or_none(row.published_tokens_per_s.map(|rate| format!("{rate:.0}"))),
            or_none(ratio)
        );
    }
    text
}

/// Bytes in GiB.
pub(super) fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
