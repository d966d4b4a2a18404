//! What is wrong, one function each: from evidence to an issue, or nothing.

use telemetry::TrainPhase;

use super::evidence::{Evidence, Process, Said};
use super::report::{Issue, IssueKind};
use super::{chips, measured};

/// Waiting for data below this share is not worth a word.
const DATA_SHARE: f64 = 0.1;
/// The same for checkpoints.
const SAVE_SHARE: f64 = 0.05;
/// The same for restarts.
const RESTART_SHARE: f64 = 0.05;
/// A process that ends its steps later than this share of a step is slow.
const LATE_SHARE: f64 = 0.25;
/// Device memory above this share is nearly full.
pub(super) const HBM_SHARE: f64 = 0.95;
/// Compilations of one name that are no accident.
const RECOMPILATIONS: f64 = 3.0;
/// Steps in the window from which it, and not the whole attempt, is judged.
const WINDOW_STEPS: u64 = 3;
/// Rows of a matmul on a device of which nothing is known that keep it busy.
const FEW_ROWS: f64 = 16.0;
/// A restart costs little in a run that is younger.
const YOUNG_SECONDS: f64 = 600.0;

pub(super) fn all(evidence: &Evidence) -> Vec<Issue> {
    let mut issues = Vec::new();
    issues.extend(loss(evidence));
    issues.extend(evidence.processes.iter().filter_map(silent));
    issues.extend(data_bound(evidence));
    issues.extend(recompiling(evidence));
    issues.extend(checkpoint_stalls(evidence));
    issues.extend(straggler(evidence));
    issues.extend(small_batch(evidence));
    issues.extend(precision(evidence));
    issues.extend(exposed_collectives(evidence));
    issues.extend(evidence.processes.iter().filter_map(hbm));
    if let Some(profile) = &evidence.profile {
        // Waiting for data and saves is idle time that has a name.
        let is_named = issues.iter().any(|i| matches!(i.kind, IssueKind::DataBound | IssueKind::CheckpointStalls));
        issues.extend(measured::idle(profile, evidence.step_seconds).filter(|_| !is_named));
        issues.extend(measured::matrix_units(profile));
    }
    let is_alone = evidence.processes.iter().all(|process| process.last.is_none());
    issues.extend(evidence.hosts.iter().flat_map(|host| chips::all(host, is_alone)));
    issues.extend(slower_than_predicted(evidence));
    issues.extend(restarts(evidence));
    issues
}

impl Issue {
    pub(super) fn new(kind: IssueKind, what: impl Into<String>, remedy: impl Into<String>) -> Issue {
        Issue { kind, share: None, seconds_per_step: None, what: what.into(), remedy: remedy.into() }
    }

    /// Which costs this share of the time, and so much of a step of this length.
    pub(super) fn costs(self, share: f64, step_seconds: Option<f64>) -> Issue {
        let share = share.clamp(0.0, 1.0);
        Issue { share: Some(share), seconds_per_step: step_seconds.map(|seconds| seconds * share), ..self }
    }
}

/// The phases that a training goes through again and again.
const LOOP: [TrainPhase; 5] =
    [TrainPhase::Data, TrainPhase::Step, TrainPhase::Save, TrainPhase::Evaluate, TrainPhase::Other];

/// Seconds of a phase, and of the whole loop.
struct Spent {
    seconds: f64,
    of: f64,
}

impl Spent {
    fn share(&self) -> f64 {
        if self.of > 0.0 { self.seconds / self.of } else { 0.0 }
    }
}

/// What a process spent in a phase since it began.
fn spent_in_all(said: &Said, phase: TrainPhase) -> Spent {
    Spent { seconds: said.phase_seconds(phase), of: LOOP.iter().map(|phase| said.phase_seconds(*phase)).sum() }
}

/// What a process spent in a phase of late: between its two answers, if steps ended there, else since it began.
fn spent_lately(process: &Process, phase: TrainPhase) -> Option<Spent> {
    let last = process.last.as_ref()?;
    if let Some(first) = &process.first
        && last.status.step >= first.status.step + WINDOW_STEPS
    {
        let since = |phase: TrainPhase| (last.phase_seconds(phase) - first.phase_seconds(phase)).max(0.0);
        return Some(Spent { seconds: since(phase), of: LOOP.iter().map(|phase| since(*phase)).sum() });
    }
    Some(spent_in_all(last, phase))
}

fn loss(evidence: &Evidence) -> Option<Issue> {
    let loss = evidence.loss.filter(|loss| !loss.is_finite())?;
    let remedy = "lower the learning rate, set train.max_grad_norm, or use run.precision = \"f32\"";
    Some(Issue::new(IssueKind::LossNotFinite, format!("the loss is {loss}; what is computed from it is lost"), remedy))
}

fn silent(process: &Process) -> Option<Issue> {
    let error = process.failure.as_ref()?;
    // A process that was started without an endpoint is not silent.
    process.target.address.as_ref()?;
    let what = format!("{}: {error}", process.target.name());
    Some(Issue::new(IssueKind::ProcessSilent, what, "`tpu hang RUN` says whether it is gone, stopped or cut off"))
}

fn data_bound(evidence: &Evidence) -> Option<Issue> {
    let lately = |process: &Process| {
        let spent = spent_lately(process, TrainPhase::Data)?;
        Some((process.target.name(), spent.share()))
    };
    let live = evidence.processes.iter().filter_map(lately).max_by(|(_, one), (_, other)| one.total_cmp(other));
    let kept = || {
        let goodput = evidence.goodput.as_ref()?;
        let of = goodput.productive_seconds + goodput.badput.data_seconds + goodput.badput.save_seconds;
        (of > 0.0).then(|| ("the run".to_string(), goodput.badput.data_seconds / of))
    };
    let (who, share) = live.or_else(kept).filter(|(_, share)| *share > DATA_SHARE)?;
    let workers = evidence.record.data_workers.max(1);
    let remedy = format!(
        "set data.workers = {} (now {workers}), move the data nearer, or prepare it before: tokens instead of text or images",
        workers * 4
    );
    let what = format!("steps of {who} wait for their batch");
    Some(Issue::new(IssueKind::DataBound, what, remedy).costs(share, evidence.step_seconds))
}

fn recompiling(evidence: &Evidence) -> Option<Issue> {
    let of = |process: &Process| {
        let said = process.last.as_ref()?;
        let count = said.value("tpubridge_training_recompilations_total", None)?;
        let seconds = said.value("tpubridge_training_compile_seconds_total", None).unwrap_or(0.0);
        // The first compilation of each program is none of those that could be avoided.
        let avoidable = seconds * count / (count + 1.0);
        let lasts =
            LOOP.iter().map(|phase| said.phase_seconds(*phase)).sum::<f64>() + said.phase_seconds(TrainPhase::Compile);
        let share = if lasts > 0.0 { avoidable / lasts } else { 0.0 };
        (count >= RECOMPILATIONS).then(|| (count, share, said.status.recompiled.last().cloned().unwrap_or_default()))
    };
    let worst = evidence.processes.iter().filter_map(of).max_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    let (count, share, last) = worst?;
    let what = format!("programs were compiled again {count} times; the last one: {last}");
    let remedy = "give batches one shape: pad or bucket them to a few lengths (docs: buckets), and keep settings that are \
                  part of the program constant";
    Some(Issue::new(IssueKind::Recompiling, what, remedy).costs(share, evidence.step_seconds))
}

fn checkpoint_stalls(evidence: &Evidence) -> Option<Issue> {
    let live = evidence
        .processes
        .iter()
        .filter_map(|process| Some(spent_in_all(process.last.as_ref()?, TrainPhase::Save).share()));
    let kept = || {
        let goodput = evidence.goodput.as_ref()?;
        let of = goodput.productive_seconds + goodput.badput.data_seconds + goodput.badput.save_seconds;
        (of > 0.0).then(|| goodput.badput.save_seconds / of)
    };
    let share = live.max_by(f64::total_cmp).or_else(kept).filter(|share| *share > SAVE_SHARE)?;
    let every = evidence.record.save_every.map_or(String::new(), |every| format!(" (now {every})"));
    let what = "steps wait until a checkpoint is copied, or until the one before is written";
    let remedy = format!("raise train.save_every{every}, or save to a faster or nearer place (train.folder)");
    Some(Issue::new(IssueKind::CheckpointStalls, what, remedy).costs(share, evidence.step_seconds))
}

fn straggler(evidence: &Evidence) -> Option<Issue> {
    let step_seconds = evidence.step_seconds.filter(|seconds| *seconds > 0.0)?;
    let mut late: Vec<(&Process, f64)> =
        evidence.processes.iter().filter_map(|process| Some((process, process.late_seconds?))).collect();
    late.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let [(process, seconds), rest @ ..] = &late[..] else { return None };
    let (_, next) = rest.first()?;
    // Where all are late in turn, nobody is.
    let (share, ahead) = (seconds / step_seconds, (seconds - next) / step_seconds);
    if share.min(ahead) < LATE_SHARE {
        return None;
    }
    let host = process.last.as_ref().map_or(String::new(), |said| format!(" on {}", said.status.host));
    let what = format!(
        "{}{host} ends its steps {:.1} ms after the first one, the next late {:.1} ms; the others wait for it",
        process.target.name(),
        seconds * 1e3,
        next * 1e3
    );
    let remedy = "look at that machine: load of others, throttling, memory, disk; take it out if it stays slow";
    Some(Issue::new(IssueKind::Straggler, what, remedy).costs(ahead, Some(step_seconds)))
}

fn small_batch(evidence: &Evidence) -> Option<Issue> {
    let record = &evidence.record;
    let rows = record.tokens_per_step? as f64 / record.devices.max(1) as f64;
    // Below as many rows as a device can multiply while it reads a weight of two bytes, it waits for its memory.
    let rates = record.peak_flops.zip(record.memory_bytes_per_second).filter(|(_, bytes)| *bytes > 0.0);
    let needed = rates.map_or(FEW_ROWS, |(flops, bytes)| flops / bytes);
    if rows >= needed {
        return None;
    }
    let what = format!(
        "a step has {rows:.0} tokens on each device, which reads its weights for {needed:.0} in the same time (batch_size {})",
        record.batch_size
    );
    let factor = (needed / rows.max(1.0)).ceil();
    let remedy = format!(
        "raise train.batch_size {factor:.0} times or more, up to what fits (`tpu train --find-batch`); else use fewer devices"
    );
    Some(Issue::new(IssueKind::SmallBatch, what, remedy).costs(1.0 - rows / needed, evidence.step_seconds))
}

fn precision(evidence: &Evidence) -> Option<Issue> {
    let record = &evidence.record;
    if record.precision != "f32" || record.is_bf16_faster != Some(true) {
        return None;
    }
    let what = format!("the model computes in f32 on {}, which multiplies bf16 several times faster", record.device);
    let remedy = "set run.precision = \"mixed\": parameters stay f32, matmuls are bf16";
    Some(Issue::new(IssueKind::Precision, what, remedy))
}

fn exposed_collectives(evidence: &Evidence) -> Option<Issue> {
    // What was measured is better than what was predicted.
    if let Some(profile) = &evidence.profile {
        return measured::exposed_collectives(profile, evidence.step_seconds);
    }
    let estimate = evidence.prediction.as_ref()?.get("estimate")?;
    let seconds = estimate.pointer("/step/seconds")?.as_f64().filter(|seconds| *seconds > 0.0)?;
    let transfers = estimate.get("transfers")?.as_array()?;
    let exposed: f64 = transfers.iter().filter_map(|transfer| transfer.get("exposed_s")?.as_f64()).sum();
    let share = exposed / seconds;
    if share < measured::COLLECTIVE_SHARE {
        return None;
    }
    let what = "the prediction says that devices wait for collectives and transfers that computing does not hide";
    let remedy = "use a larger batch on each device, or a mesh that moves less (`tpu explain`, `tpu plan`)";
    Some(Issue::new(IssueKind::ExposedCollectives, what, remedy).costs(share, evidence.step_seconds))
}

fn hbm(process: &Process) -> Option<Issue> {
    let said = process.last.as_ref()?;
    let family = |name: &str| said.families.iter().find(|family| family.name == name);
    let used = family("tpubridge_device_hbm_used_bytes")?;
    let worst = used.samples.iter().filter_map(|sample| {
        let device = &sample.labels.iter().find(|(label, _)| label == "device")?.1;
        let used = said.value("tpubridge_device_hbm_used_bytes", Some(("device", device)))?;
        let limit = said.value("tpubridge_device_hbm_limit_bytes", Some(("device", device)))?;
        (limit > 0.0).then(|| (device, used / limit))
    });
    let (device, share) = worst.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    if share < HBM_SHARE {
        return None;
    }
    Some(hbm_nearly_full(&format!("device {device} of {}", process.target.name()), share))
}

pub(super) fn hbm_nearly_full(device: &str, share: f64) -> Issue {
    let what = format!("{device} uses {:.1} % of its memory", share * 100.0);
    let remedy = "use a smaller batch, run.remat, or more devices: the next allocation may fail (`tpu explain`)";
    Issue::new(IssueKind::HbmNearlyFull, what, remedy)
}

fn slower_than_predicted(evidence: &Evidence) -> Option<Issue> {
    let of_run = evidence.step_seconds.zip(evidence.predicted_step_seconds());
    let of_profile = || evidence.profile.as_ref().and_then(measured::program);
    let is_slower = |(measured, predicted): &(f64, f64)| *measured >= predicted * measured::SLOWER;
    let (measured, predicted) = of_run.or_else(of_profile).filter(is_slower)?;
    let process = evidence.processes.iter().find(|process| process.last.is_some());
    let part = |phase: TrainPhase| process.and_then(|process| spent_lately(process, phase)).map(|spent| spent.share());
    let data = part(TrainPhase::Data).map(|share| share * measured);
    let ops = evidence.profile.as_ref().map(measured::where_lost).unwrap_or_default();
    let mut what = format!(
        "a step takes {:.1} ms, {:.1} times the {:.1} ms that were predicted",
        measured * 1e3,
        measured / predicted,
        predicted * 1e3
    );
    let is_data = data.is_some_and(|data| data > 0.5 * (measured - predicted));
    match data {
        Some(data) if is_data => what.push_str(&format!("; {:.1} ms of it wait for data", data * 1e3)),
        _ if !ops.is_empty() => what.push_str(&format!("; a profile shows where: {ops}")),
        _ => what.push_str("; the time is spent in the step itself: on the device, or in launching it"),
    }
    let remedy = match ops.is_empty() || is_data {
        true => "take a profile of a few steps and compare it op by op (`tpu profile report`)",
        false => "look at these ops first; `tpu profile report` has all of them beside their predictions",
    };
    let issue = Issue::new(IssueKind::SlowerThanPredicted, what, remedy);
    Some(issue.costs(1.0 - predicted / measured, Some(measured)))
}

fn restarts(evidence: &Evidence) -> Option<Issue> {
    let goodput = evidence.goodput.as_ref().filter(|goodput| goodput.attempts > 1)?;
    let lost = goodput.restart_seconds + goodput.lost_seconds;
    let share = lost / goodput.elapsed_seconds;
    if goodput.elapsed_seconds < YOUNG_SECONDS || share.is_nan() || share <= RESTART_SHARE {
        return None;
    }
    let what = format!(
        "{} attempts: {:.0} s between them, and {:.0} s of steps that were done again",
        goodput.attempts, goodput.restart_seconds, goodput.lost_seconds
    );
    let remedy = "lower train.save_every, so that less is done again; see audit.jsonl for why attempts ended";
    Some(Issue::new(IssueKind::Restarts, what, remedy).costs(share, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::AskError;
    use crate::processes::ProcessTarget;
    use crate::processes::tests::status;
    use crate::profile::{
        MeasuredCollectives, MeasuredDevice, MeasuredOp, MeasuredProgram, MeasuredSteps, ProfileReport, ProfileTotals,
        TimeGroup,
    };
    use std::time::Duration;
    use telemetry::{Registry, TrainingRecord};

    /// A process that spent these seconds in phases, at a step.
    fn said(process: usize, step: u64, phases: &[(&str, f64)]) -> Said {
        let registry = Registry::new();
        for (phase, seconds) in phases {
            registry.counter("tpubridge_training_phase_seconds_total", "P.", &[("phase", phase)]).add(*seconds);
        }
        registry.gauge("tpubridge_device_hbm_used_bytes", "U.", &[("device", "0")]).set(50.0);
        registry.gauge("tpubridge_device_hbm_limit_bytes", "L.", &[("device", "0")]).set(100.0);
        Said { families: registry.gather(), status: status(process, step, 0.0) }
    }

    fn healthy() -> Evidence {
        let process = |n: usize| Process {
            target: ProcessTarget { process: Some(n), ..ProcessTarget::at("h:1") },
            first: Some(said(n, 100, &[("data", 0.1), ("step", 10.0), ("save", 0.1)])),
            last: Some(said(n, 200, &[("data", 0.2), ("step", 20.0), ("save", 0.2)])),
            failure: None,
            late_seconds: Some(0.005),
        };
        Evidence {
            run: "run".into(),
            processes: vec![process(0), process(1)],
            record: TrainingRecord {
                version: 1,
                device: "TPU v6e".into(),
                devices: 8,
                precision: "bf16".into(),
                is_bf16_faster: Some(true),
                peak_flops: Some(918e12),
                memory_bytes_per_second: Some(1.6e12),
                tokens_per_step: Some(8 * 8192),
                batch_size: 64,
                predicted_step_seconds: Some(0.095),
                ..TrainingRecord::default()
            },
            step: Some(200),
            step_seconds: Some(0.1),
            loss: Some(3.0),
            ..Evidence::default()
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Evidence), kinds: &[IssueKind], part: &str) {
        let mut evidence = healthy();
        change(&mut evidence);
        let issues = all(&evidence);
        assert_eq!(issues.iter().map(|issue| issue.kind).collect::<Vec<_>>(), kinds, "{issues:?}");
        assert!(issues.iter().any(|issue| format!("{} {}", issue.what, issue.remedy).contains(part)), "{issues:?}");
    }

    #[test]
    fn nothing_is_found_in_a_healthy_run() {
        assert_eq!(all(&healthy()), []);
    }

    #[test]
    fn each_cause_is_named() {
        check(|e| e.loss = Some(f64::NAN), &[IssueKind::LossNotFinite], "NaN");
        check(
            |e| {
                e.processes[1].last = None;
                e.processes[1].failure = Some(AskError::Silent(Duration::from_secs(1)));
            },
            &[IssueKind::ProcessSilent],
            "process 1",
        );
        check(
            |e| e.processes[1].last = Some(said(1, 200, &[("data", 5.1), ("step", 15.0)])),
            &[IssueKind::DataBound],
            "data.workers = 4 (now 1)",
        );
        check(
            |e| e.processes[0].last = Some(said(0, 200, &[("step", 20.0), ("save", 4.0)])),
            &[IssueKind::CheckpointStalls],
            "train.save_every",
        );
        check(|e| e.processes[1].late_seconds = Some(0.06), &[IssueKind::Straggler], "process 1");
        check(|e| e.record.tokens_per_step = Some(8 * 64), &[IssueKind::SmallBatch], "64 tokens on each device");
        check(|e| e.record.precision = "f32".into(), &[IssueKind::Precision], "run.precision = \"mixed\"");
        check(|e| e.step_seconds = Some(0.2), &[IssueKind::SlowerThanPredicted], "2.1 times");
        let fit =
            r#"{"estimate":{"step":{"seconds":0.1},"transfers":[{"lane":"ici","seconds":0.05,"exposed_s":0.03}]}}"#;
        check(|e| e.prediction = serde_json::from_str(fit).ok(), &[IssueKind::ExposedCollectives], "collectives");
        check(
            |e| {
                let registry = Registry::new();
                registry.counter("tpubridge_training_recompilations_total", "R.", &[]).add(12.0);
                registry.counter("tpubridge_training_compile_seconds_total", "C.", &[]).add(13.0);
                let said = e.processes[0].last.as_mut().unwrap();
                said.families.extend(registry.gather());
                said.status.recompiled = vec!["train_step: argument 3 was a and is b".into()];
            },
            &[IssueKind::Recompiling],
            "argument 3 was a and is b",
        );
        check(
            |e| {
                let registry = Registry::new();
                registry.gauge("tpubridge_device_hbm_used_bytes", "U.", &[("device", "0")]).set(98.0);
                registry.gauge("tpubridge_device_hbm_limit_bytes", "L.", &[("device", "0")]).set(100.0);
                e.processes[0].last.as_mut().unwrap().families = registry.gather();
            },
            &[IssueKind::HbmNearlyFull],
            "98.0 %",
        );
        check(
            |e| {
                let goodput = telemetry::Goodput {
                    elapsed_seconds: 1000.0,
                    productive_seconds: 700.0,
                    lost_seconds: 100.0,
                    restart_seconds: 200.0,
                    attempts: 3,
                    ..telemetry::Goodput::default()
                };
                e.goodput = Some(goodput);
            },
            &[IssueKind::Restarts],
            "3 attempts",
        );
    }

    /// A profile of two steps: a matmul, an all-reduce that nothing hides, and what is idle, as shares of ten seconds.
    fn profiled(all_reduce: f64, idle: f64, matrix_share: f64) -> ProfileReport {
        let op = |name: &str, self_s: f64, predicted_s: Option<f64>| MeasuredOp {
            name: name.into(),
            category: name.split('.').next().unwrap().into(),
            scope: "layer_0/attention".into(),
            occurrences: 20,
            self_s,
            predicted_s,
            ..MeasuredOp::default()
        };
        ProfileReport {
            totals: ProfileTotals {
                device_s: 10.0,
                busy_s: 10.0 * (1.0 - idle),
                idle_s: 10.0 * idle,
                flops_share: Some(matrix_share * (1.0 - idle)),
                hbm_share: Some(0.7),
                ..ProfileTotals::default()
            },
            devices: vec![MeasuredDevice::default()],
            steps: Some(MeasuredSteps { count: 2, ..MeasuredSteps::default() }),
            programs: vec![MeasuredProgram { executions: 20, mean_s: 0.5, ..MeasuredProgram::default() }],
            ops: vec![op("dot.1", 6.0, Some(0.1)), op("all-reduce.2", 10.0 * all_reduce, Some(0.001))],
            categories: vec![TimeGroup { name: "loop fusion".into(), share: 0.6, ..TimeGroup::default() }],
            host_kinds: vec![TimeGroup { name: "compilation".into(), ..TimeGroup::default() }],
            collectives: MeasuredCollectives {
                occurrences: 20,
                total_s: 10.0 * all_reduce,
                exposed_s: 10.0 * all_reduce,
                exposed_share: all_reduce,
                ..MeasuredCollectives::default()
            },
            ..ProfileReport::default()
        }
    }

    #[test]
    fn a_profile_says_more() {
        let mut well = healthy();
        well.profile = Some(profiled(0.02, 0.05, 0.5));
        assert_eq!(all(&well), []);
        check(
            |e| e.profile = Some(profiled(0.3, 0.0, 0.5)),
            &[IssueKind::ExposedCollectives],
            "most for all-reduce.2 (layer_0/attention) 150.000 ms",
        );
        // Measured, so that what was predicted of them does not count.
        let fit =
            r#"{"estimate":{"step":{"seconds":0.1},"transfers":[{"lane":"ici","seconds":0.05,"exposed_s":0.03}]}}"#;
        well.prediction = serde_json::from_str(fit).ok();
        assert_eq!(all(&well), []);
        check(
            |e| e.profile = Some(profiled(0.0, 0.4, 0.5)),
            &[IssueKind::DeviceIdle],
            "40 % of the time; the host spends most in compilation",
        );
        check(|e| e.profile = Some(profiled(0.0, 0.0, 0.1)), &[IssueKind::MatrixUnitsIdle], "memory is at 70 %");
        let slower = |e: &mut Evidence| {
            (e.profile, e.step_seconds) = (Some(profiled(0.05, 0.0, 0.5)), Some(0.2));
        };
        let ops =
            "dot.1 (layer_0/attention) 300.000 ms instead of 100.000 ms, all-reduce.2 (layer_0/attention) 25.000 ms";
        check(slower, &[IssueKind::SlowerThanPredicted], ops);
        // The prediction that is in the profile counts where the run has none.
        check(
            |e| {
                e.record.predicted_step_seconds = None;
                let mut profile = profiled(0.05, 0.0, 0.5);
                profile.programs[0].predicted_s = Some(0.25);
                e.profile = Some(profile);
            },
            &[IssueKind::SlowerThanPredicted],
            "a step takes 500.0 ms, 2.0 times the 250.0 ms",
        );
        // Idle time that has a name is told once.
        check(
            |e| {
                e.processes[1].last = Some(said(1, 200, &[("data", 5.1), ("step", 15.0)]));
                e.profile = Some(profiled(0.0, 0.4, 0.5));
            },
            &[IssueKind::DataBound],
            "wait for their batch",
        );
    }

    #[test]
    fn where_all_are_late_in_turn_nobody_is() {
        let mut evidence = healthy();
        evidence.processes.iter_mut().for_each(|process| process.late_seconds = Some(0.08));
        assert_eq!(all(&evidence), []);
    }

    #[test]
    fn a_run_that_has_ended_is_judged_by_what_it_kept() {
        let mut evidence = healthy();
        evidence.processes.clear();
        let badput = telemetry::Spent { data_seconds: 300.0, ..telemetry::Spent::default() };
        evidence.goodput = Some(telemetry::Goodput {
            elapsed_seconds: 1000.0,
            productive_seconds: 700.0,
            badput,
            attempts: 1,
            ..telemetry::Goodput::default()
        });
        let issues = all(&evidence);
        assert_eq!((issues.len(), issues[0].kind, issues[0].share), (1, IssueKind::DataBound, Some(0.3)));
    }
}
