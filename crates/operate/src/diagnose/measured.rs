//! What is wrong by a profile of the run: collectives that nothing hides, devices without work, matrix units that rest, and ops that
//! take longer than predicted.

use super::report::{Issue, IssueKind};
use crate::profile::{MeasuredOp, ProfileReport, is_collective};

/// Exposed collectives below this share are not worth a word.
pub(super) const COLLECTIVE_SHARE: f64 = 0.1;
/// The same for a device that runs nothing.
const IDLE_SHARE: f64 = 0.25;
/// Steps in a profile from which the time between them says something.
const STEPS: u64 = 2;
/// Matrix units of a busy device below this share of their peak rest.
const MATRIX_SHARE: f64 = 0.3;
/// Memory above this share of its peak is what a busy device waits for.
const MEMORY_SHARE: f64 = 0.5;
/// A program that takes longer than this, against its prediction, is slower than predicted.
pub(super) const SLOWER: f64 = 1.2;
/// Ops that are named.
const NAMED_OPS: usize = 3;

/// Collectives that devices wait for.
pub(super) fn exposed_collectives(profile: &ProfileReport, step_seconds: Option<f64>) -> Option<Issue> {
    let found = &profile.collectives;
    if found.exposed_share < COLLECTIVE_SHARE {
        return None;
    }
    let worst = profile.ops.iter().find(|op| is_collective(&op.category) || is_collective(&op.name));
    let worst = worst.map_or(String::new(), |op| format!("; most for {}", described(op)));
    let what = format!(
        "a profile shows {} collectives, of which {:.0} % of the time is hidden by nothing{worst}",
        found.occurrences,
        100.0 * found.exposed_s / found.total_s.max(found.exposed_s)
    );
    let remedy = "use a larger batch on each device, or a mesh that moves less (`tpu explain`, `tpu plan`)";
    let issue = Issue::new(IssueKind::ExposedCollectives, what, remedy);
    Some(issue.costs(found.exposed_share, step_seconds))
}

/// Devices that run nothing between ops.
pub(super) fn idle(profile: &ProfileReport, step_seconds: Option<f64>) -> Option<Issue> {
    let share = profile.totals.idle_s / profile.totals.device_s;
    let is_long_enough = profile.steps.as_ref().is_some_and(|steps| steps.count >= STEPS);
    if !is_long_enough || share.is_nan() || share <= IDLE_SHARE {
        return None;
    }
    let host =
        profile.host_kinds.first().map_or(String::new(), |kind| format!("; the host spends most in {}", kind.name));
    let what = format!("a profile shows devices without an op to run for {:.0} % of the time{host}", share * 100.0);
    let remedy =
        "let the host do less between steps: more steps in flight (train.log_every), larger steps, data.workers";
    Some(Issue::new(IssueKind::DeviceIdle, what, remedy).costs(share, step_seconds))
}

/// Matrix units that rest while the device is busy.
pub(super) fn matrix_units(profile: &ProfileReport) -> Option<Issue> {
    let totals = &profile.totals;
    let busy_share = totals.busy_s / totals.device_s;
    let of_busy = |share: f64| if busy_share > 0.0 { share / busy_share } else { share };
    let matrix = totals.counted_matrix_percent.map(|percent| percent / 100.0).or(totals.flops_share.map(of_busy))?;
    if matrix.is_nan()
        || matrix >= MATRIX_SHARE
        || busy_share.is_nan()
        || busy_share <= 1.0 - IDLE_SHARE
        || profile.collectives.exposed_share > MATRIX_SHARE
    {
        return None;
    }
    let memory = totals.counted_hbm_percent.map(|percent| percent / 100.0).or(totals.hbm_share.map(of_busy));
    let most = profile.categories.first().map_or(String::new(), |group| {
        format!("; most of the time goes into {} ({:.0} %)", group.name, group.share * 100.0)
    });
    let what =
        format!("a profile shows matrix units at {:.0} % of their peak while the device is busy{most}", matrix * 100.0);
    let remedy = match memory {
        Some(share) if share > MEMORY_SHARE => {
            format!(
                "memory is at {:.0} % of its peak and limits: use a larger batch, or fuse what is written and read again",
                share * 100.0
            )
        }
        _ => "`tpu profile report` names the ops under their roof; larger or padded matmuls, bf16 and kernels help"
            .into(),
    };
    Some(Issue::new(IssueKind::MatrixUnitsIdle, what, remedy))
}

/// How long the program of most of the time took, and was predicted to take.
pub(super) fn program(profile: &ProfileReport) -> Option<(f64, f64)> {
    let program = profile.programs.iter().find(|program| program.executions > 0)?;
    Some((program.mean_s, program.predicted_s.filter(|seconds| *seconds > 0.0)?))
}

/// The ops that take longest beyond their prediction, the worst first; empty where nothing is predicted.
pub(super) fn where_lost(profile: &ProfileReport) -> String {
    let excess = |op: &MeasuredOp| Some(op.self_s - op.predicted_s? * op.occurrences as f64);
    let mut slow: Vec<(&MeasuredOp, f64)> = profile.ops.iter().filter_map(|op| Some((op, excess(op)?))).collect();
    slow.retain(|(op, excess)| *excess > 0.0 && op.occurrences > 0);
    slow.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let named = slow.iter().take(NAMED_OPS).map(|(op, _)| {
        let predicted = op.predicted_s.unwrap_or_default();
        format!("{} instead of {}", described(op), milliseconds(predicted))
    });
    named.collect::<Vec<_>>().join(", ")
}

/// An op with where it is from, and the time of one execution.
fn described(op: &MeasuredOp) -> String {
    let from = [&op.scope, &op.source].into_iter().find(|text| !text.is_empty());
    let from = from.map_or(String::new(), |from| format!(" ({from})"));
    format!("{}{from} {}", op.name, milliseconds(op.self_s / op.occurrences.max(1) as f64))
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}
