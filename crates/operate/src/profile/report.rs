//! Makes the answer of what was collected: ops over all devices, groups of them, steps, collectives, transfers.

use super::collect::{Collector, Device, Step};
use super::ops::{OpFacts, OpId, Program, Sum, seconds, without_number};
use super::record::{
    CoreKind, HostEvent, MeasuredCollectives, MeasuredDevice, MeasuredOp, MeasuredProgram, MeasuredRoofline,
    MeasuredSteps, MeasuredTransfer, ProfileReport, ProfileStep, ProfileTotals, TimeGroup,
};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// Steps listed.
const STEPS: usize = 1000;
/// Host events listed.
const HOST_EVENTS: usize = 500;

pub(super) fn report(mut collector: Collector, files: Vec<PathBuf>) -> ProfileReport {
    choose_devices(&mut collector);
    complete(&mut collector);
    let mut devices: Vec<MeasuredDevice> = Vec::new();
    for device in &mut collector.devices {
        devices.push(measured(device));
    }
    let totals = totals(&collector, &devices);
    let ops = ops(&collector, &totals);
    let collectives = collectives(&mut collector, &totals);
    ProfileReport {
        files: files.iter().map(|path| path.display().to_string()).collect(),
        hosts: collector.hosts.iter().cloned().collect(),
        steps: steps(&collector),
        programs: programs(&collector),
        categories: grouped(&ops, |op| &op.category),
        sources: grouped(&ops, |op| &op.source),
        scopes: grouped(&ops, |op| op.scope.rsplit_once('/').map_or(op.scope.as_str(), |(stack, _)| stack)),
        collectives,
        transfers: transfers(&collector),
        device_waits: device_waits(&collector, &totals),
        host_kinds: host_kinds(&collector),
        host: host(&collector),
        memory: collector.memory.values().cloned().collect(),
        notes: notes(&mut collector, &devices),
        devices,
        totals,
        ops,
    }
}

/// Leaves out planes that ran no op, and the CPU where a device did the work: it only launched it.
fn choose_devices(collector: &mut Collector) {
    let is_accelerated = collector.devices.iter().any(|d| d.core != CoreKind::Cpu && !d.sums.is_empty());
    let mut left_out = Vec::new();
    collector.devices.retain(|device| {
        let is_kept = !(device.sums.is_empty() && device.runs.is_empty() && device.steps.is_empty())
            && (device.core != CoreKind::Cpu || !is_accelerated);
        if !is_kept && device.core != CoreKind::Cpu {
            left_out.push(device.name.clone());
        }
        is_kept
    });
    for name in left_out.iter().take(20) {
        collector.note(format!("plane {name} has no XLA ops and is not counted"));
    }
}

/// Fills in what the HLO and the runs know better than the events.
fn complete(collector: &mut Collector) {
    let mut names: HashMap<u64, String> =
        collector.programs.iter().map(|(id, facts)| (*id, facts.name.clone())).collect();
    for device in &collector.devices {
        names.extend(device.runs.keys().filter_map(|run| Some((run.id?, run.name.clone()))));
    }
    let programs = &collector.programs;
    for op in collector.ops.iter_mut() {
        let Some(id) = op.program.id else { continue };
        if let Some(name) = names.get(&id)
            && op.program.name.is_empty()
        {
            op.program.name.clone_from(name);
        }
        if let Some(hlo) = programs.get(&id).and_then(|program| program.ops.get(&op.name)) {
            for (mine, theirs) in
                [(&mut op.category, &hlo.category), (&mut op.scope, &hlo.scope), (&mut op.source, &hlo.source)]
            {
                if mine.is_empty() {
                    mine.clone_from(theirs);
                }
            }
        }
    }
    for op in collector.ops.iter_mut() {
        if op.category.is_empty() {
            op.category = without_number(&op.name).to_string();
        }
    }
}

fn measured(device: &mut Device) -> MeasuredDevice {
    let span_ps = device.span.map_or(0, |(first, last)| (last - first).unsigned_abs());
    let busy_ps = device.busy.total_ps().min(span_ps);
    MeasuredDevice {
        name: device.name.clone(),
        file: device.file,
        core: device.core,
        device_type: device.device_type.clone(),
        peak_flops_per_s: device.peak_flops,
        peak_hbm_bytes_per_s: device.peak_hbm,
        span_s: seconds(span_ps),
        busy_s: seconds(busy_ps),
        idle_s: seconds(span_ps - busy_ps),
        events: device.events,
    }
}

/// SparseCores work beside the TensorCore of the same time; they have their own rows and no part in the sums.
fn counts(core: CoreKind) -> bool {
    core != CoreKind::SparseCore
}

fn totals(collector: &Collector, devices: &[MeasuredDevice]) -> ProfileTotals {
    let mut totals = ProfileTotals {
        counted_matrix_percent: collector.matrix_percent,
        counted_hbm_percent: collector.hbm_percent,
        ..ProfileTotals::default()
    };
    let (mut possible_flops, mut possible_bytes) = (0.0, 0.0);
    for (device, sums) in devices.iter().zip(&collector.devices).filter(|(device, _)| counts(device.core)) {
        totals.device_s += device.span_s;
        totals.busy_s += device.busy_s;
        totals.idle_s += device.idle_s;
        possible_flops += device.peak_flops_per_s.unwrap_or(0.0) * device.span_s;
        possible_bytes += device.peak_hbm_bytes_per_s.unwrap_or(0.0) * device.span_s;
        for (op, sum) in &sums.sums {
            let facts = collector.ops.get(*op);
            totals.self_s += seconds(sum.self_ps);
            totals.flops += sum.flops;
            if !facts.is_start_or_done() {
                totals.hbm_bytes += sum.hbm_bytes;
            }
            match without_number(&facts.category) {
                "infeed" => totals.infeed_s += seconds(sum.self_ps),
                "outfeed" => totals.outfeed_s += seconds(sum.self_ps),
                _ => {}
            }
        }
    }
    totals.flops_share = (possible_flops > 0.0).then(|| totals.flops / possible_flops);
    totals.hbm_share = (possible_bytes > 0.0).then(|| totals.hbm_bytes / possible_bytes);
    totals
}

/// An op over all devices: its time, how many ran it, and the peak rates of one of them.
type OverDevices = (Sum, u64, Option<(f64, f64)>);

fn ops(collector: &Collector, totals: &ProfileTotals) -> Vec<MeasuredOp> {
    let mut sums: BTreeMap<OpId, OverDevices> = BTreeMap::new();
    for device in &collector.devices {
        let peaks = device.peak_flops.zip(device.peak_hbm);
        for (op, sum) in &device.sums {
            let entry = sums.entry(*op).or_default();
            entry.0.merge(sum);
            entry.1 += 1;
            entry.2 = entry.2.or(peaks);
        }
    }
    let mut ops: Vec<MeasuredOp> = sums
        .into_iter()
        .map(|(id, (sum, devices, peaks))| {
            let facts = collector.ops.get(id);
            let hlo = facts.program.id.and_then(|id| collector.programs.get(&id)?.ops.get(&facts.name));
            let predicted = hlo.and_then(|hlo| hlo.predicted);
            let self_s = seconds(sum.self_ps);
            MeasuredOp {
                program: facts.program.shown(),
                name: facts.name.clone(),
                category: facts.category.clone(),
                core: facts.core,
                expression: facts.expression.clone(),
                scope: facts.scope.clone(),
                source: facts.source.clone(),
                occurrences: sum.count,
                devices,
                total_s: seconds(sum.total_ps),
                self_s,
                min_s: seconds(sum.min_ps.into()),
                max_s: seconds(sum.max_ps.into()),
                share: if counts(facts.core) { ratio(self_s, totals.device_s) } else { 0.0 },
                flops: sum.flops,
                hbm_bytes: sum.hbm_bytes,
                roofline: roofline(facts, &sum, peaks),
                predicted_s: predicted.map(|(seconds, _)| seconds),
                predicted_bound: predicted.map(|(_, bound)| bound.name()),
                work: hlo.and_then(|hlo| hlo.work.clone()),
            }
        })
        .collect();
    ops.sort_by(|a, b| b.self_s.total_cmp(&a.self_s).then_with(|| (&a.program, &a.name).cmp(&(&b.program, &b.name))));
    ops
}

/// Where an op stands; not for those that only start or end what runs beside others.
fn roofline(facts: &OpFacts, sum: &Sum, peaks: Option<(f64, f64)>) -> Option<MeasuredRoofline> {
    let (peak_flops, peak_hbm) = peaks?;
    let self_s = seconds(sum.self_ps);
    if self_s <= 0.0 || (sum.flops <= 0.0 && sum.hbm_bytes <= 0.0) || facts.is_start_or_done() {
        return None;
    }
    let (flops_per_s, hbm_bytes_per_s) = (sum.flops / self_s, sum.hbm_bytes / self_s);
    let (of_compute, of_hbm) = (flops_per_s / peak_flops, hbm_bytes_per_s / peak_hbm);
    Some(MeasuredRoofline {
        intensity: ratio(sum.flops, sum.hbm_bytes),
        flops_per_s,
        hbm_bytes_per_s,
        share_of_roof: of_compute.max(of_hbm),
        bound: if of_compute > of_hbm { "compute" } else { "HBM" },
    })
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn grouped<'a>(ops: &'a [MeasuredOp], name: impl Fn(&'a MeasuredOp) -> &'a str) -> Vec<TimeGroup> {
    let mut groups: BTreeMap<&str, TimeGroup> = BTreeMap::new();
    for op in ops.iter().filter(|op| counts(op.core)) {
        let name = name(op);
        let group = groups.entry(name).or_insert_with(|| TimeGroup {
            name: if name.is_empty() { "(unknown)" } else { name }.into(),
            ..TimeGroup::default()
        });
        group.occurrences += op.occurrences;
        group.self_s += op.self_s;
        group.share += op.share;
        group.flops += op.flops;
        group.hbm_bytes += op.hbm_bytes;
    }
    sorted(groups.into_values().collect())
}

fn sorted(mut groups: Vec<TimeGroup>) -> Vec<TimeGroup> {
    groups.sort_by(|a, b| b.self_s.total_cmp(&a.self_s).then_with(|| a.name.cmp(&b.name)));
    groups
}

/// Steps of devices where they are marked, else of the host. A step is as long as on the device that took longest.
fn steps(collector: &Collector) -> Option<MeasuredSteps> {
    let on_devices: Vec<&Step> = collector.devices.iter().flat_map(|device| &device.steps).collect();
    let (marked_by, marks) =
        if on_devices.is_empty() { ("host", collector.host_steps.iter().collect()) } else { ("device", on_devices) };
    let mut by_name: HashMap<&str, (i128, u64)> = HashMap::new();
    for mark in marks {
        let entry = by_name.entry(&mark.name).or_insert((mark.start, 0));
        entry.0 = entry.0.min(mark.start);
        entry.1 = entry.1.max(mark.length_ps);
    }
    let mut all: Vec<(i128, &str, f64)> =
        by_name.into_iter().map(|(name, (start, length))| (start, name, seconds(length.into()))).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let count = all.len();
    let lengths = || all.iter().map(|(.., seconds)| *seconds);
    let mean_s = lengths().sum::<f64>() / count.max(1) as f64;
    (count > 0).then(|| MeasuredSteps {
        marked_by,
        count: count as u64,
        mean_s,
        min_s: lengths().fold(f64::INFINITY, f64::min),
        max_s: lengths().fold(0.0, f64::max),
        deviation_s: (lengths().map(|s| (s - mean_s).powi(2)).sum::<f64>() / count as f64).sqrt(),
        steps: all
            .iter()
            .take(STEPS)
            .map(|(_, name, seconds)| ProfileStep { name: name.to_string(), seconds: *seconds })
            .collect(),
    })
}

fn programs(collector: &Collector) -> Vec<MeasuredProgram> {
    let mut runs: BTreeMap<&Program, Sum> = BTreeMap::new();
    for device in collector.devices.iter().filter(|device| counts(device.core)) {
        for (program, sum) in &device.runs {
            runs.entry(program).or_default().merge(sum);
        }
    }
    let unseen = Sum::default();
    let mut known: Vec<(Program, &Sum)> = runs.iter().map(|(program, sum)| ((*program).clone(), sum)).collect();
    for (id, facts) in &collector.programs {
        if !known.iter().any(|(program, _)| program.id == Some(*id)) {
            known.push((Program { id: Some(*id), name: facts.name.clone() }, &unseen));
        }
    }
    let mut programs: Vec<MeasuredProgram> = known
        .into_iter()
        .map(|(program, sum)| {
            let facts = program.id.and_then(|id| collector.programs.get(&id));
            let predicted = facts.and_then(|facts| facts.predicted.clone());
            MeasuredProgram {
                name: program.name,
                id: program.id,
                executions: sum.count,
                mean_s: seconds(sum.total_ps) / sum.count.max(1) as f64,
                min_s: seconds(sum.min_ps.into()),
                max_s: seconds(sum.max_ps.into()),
                has_hlo: facts.is_some(),
                predicted_s: predicted.as_ref().map(|(seconds, _)| *seconds),
                predicted_for: predicted.map(|(_, slice)| slice),
                hbm_bytes: facts.and_then(|facts| facts.hbm_bytes),
            }
        })
        .collect();
    let total = |program: &MeasuredProgram| program.mean_s * program.executions as f64;
    programs.sort_by(|a, b| total(b).total_cmp(&total(a)).then_with(|| (&a.name, a.id).cmp(&(&b.name, b.id))));
    programs
}

/// On a TPU the core's line shows what is waited for: a collective, or the end of one that ran beside other ops. On
/// devices with several streams a collective is exposed while no other stream works.
fn collectives(collector: &mut Collector, totals: &ProfileTotals) -> MeasuredCollectives {
    let mut found = MeasuredCollectives::default();
    let mut sent_bytes = 0.0;
    let Collector { devices, ops, programs, .. } = collector;
    for device in devices.iter_mut().filter(|device| counts(device.core)) {
        let is_streams = matches!(device.core, CoreKind::Gpu | CoreKind::Cpu);
        let is_asynchronous = device.transfers.keys().any(|op| ops.get(*op).is_collective());
        for (op, sum) in &device.sums {
            let facts = ops.get(*op);
            if !facts.is_collective() {
                continue;
            }
            let is_part = facts.is_start_or_done();
            let is_done = without_number(&facts.name).ends_with("-done");
            found.occurrences += if is_done { 0 } else { sum.count };
            if !is_streams {
                found.exposed_s += seconds(sum.self_ps);
            }
            if !is_part || !is_asynchronous {
                found.total_s += seconds(if is_streams { sum.total_ps } else { sum.self_ps });
            }
            let hlo = facts.program.id.and_then(|id| programs.get(&id)?.ops.get(&facts.name));
            sent_bytes += hlo.map_or(0.0, |hlo| hlo.sent_bytes * sum.count as f64);
        }
        for (op, sum) in &device.transfers {
            if ops.get(*op).is_collective() {
                found.total_s += seconds(sum.total_ps);
            }
        }
        if is_streams {
            let total = device.collectives.total_ps();
            found.exposed_s += seconds(total - device.collectives.common_ps(&mut device.others).min(total));
        }
    }
    found.exposed_share = ratio(found.exposed_s, totals.device_s);
    found.sent_bytes = (sent_bytes > 0.0).then_some(sent_bytes);
    found.sent_bytes_per_s = found.sent_bytes.filter(|_| found.total_s > 0.0).map(|bytes| bytes / found.total_s);
    found
}

fn transfers(collector: &Collector) -> Vec<MeasuredTransfer> {
    let mut sums: BTreeMap<OpId, Sum> = BTreeMap::new();
    for device in &collector.devices {
        for (op, sum) in &device.transfers {
            sums.entry(*op).or_default().merge(sum);
        }
    }
    let mut transfers: Vec<MeasuredTransfer> = sums
        .into_iter()
        .map(|(op, sum)| {
            let facts = collector.ops.get(op);
            // Memory space 5 is the host's.
            let is_host = facts.expression.contains("S(5)");
            MeasuredTransfer {
                name: facts.name.clone(),
                program: facts.program.shown(),
                category: facts.category.clone(),
                is_host,
                occurrences: sum.count,
                total_s: seconds(sum.total_ps),
                bytes: facts.bytes * sum.count as f64,
            }
        })
        .collect();
    transfers.sort_by(|a, b| b.total_s.total_cmp(&a.total_s).then_with(|| a.name.cmp(&b.name)));
    transfers
}

fn device_waits(collector: &Collector, totals: &ProfileTotals) -> Vec<TimeGroup> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for device in &collector.devices {
        for (name, sum) in &device.waits {
            sums.entry(name).or_default().merge(sum);
        }
    }
    let group = |(name, sum): (&str, Sum)| TimeGroup {
        name: name.to_string(),
        occurrences: sum.count,
        self_s: seconds(sum.self_ps),
        share: ratio(seconds(sum.self_ps), totals.device_s),
        ..TimeGroup::default()
    };
    sorted(sums.into_iter().map(group).collect())
}

fn host(collector: &Collector) -> Vec<HostEvent> {
    let mut events: Vec<HostEvent> = collector
        .host
        .iter()
        .map(|(name, kind, sum)| HostEvent {
            name: name.to_string(),
            kind: kind.name(),
            occurrences: sum.count,
            total_s: seconds(sum.total_ps),
            self_s: seconds(sum.self_ps),
            max_s: seconds(sum.max_ps.into()),
        })
        .collect();
    events.sort_by(|a, b| b.self_s.total_cmp(&a.self_s).then_with(|| a.name.cmp(&b.name)));
    events.truncate(HOST_EVENTS);
    events
}

fn host_kinds(collector: &Collector) -> Vec<TimeGroup> {
    let mut kinds: BTreeMap<_, Sum> = BTreeMap::new();
    for (_, kind, sum) in collector.host.iter() {
        kinds.entry(kind).or_default().merge(sum);
    }
    let all: f64 = kinds.values().map(|sum| seconds(sum.self_ps)).sum();
    let group = |(kind, sum): (super::host::HostKind, Sum)| TimeGroup {
        name: kind.name().into(),
        occurrences: sum.count,
        self_s: seconds(sum.self_ps),
        share: ratio(seconds(sum.self_ps), all),
        ..TimeGroup::default()
    };
    sorted(kinds.into_iter().map(group).collect())
}

fn notes(collector: &mut Collector, devices: &[MeasuredDevice]) -> Vec<String> {
    if devices.is_empty() {
        collector.note("no device ran an op while this was recorded".into());
    } else if collector.devices.iter().all(|device| device.steps.is_empty()) && collector.host_steps.is_empty() {
        collector.note("no step was marked: mark them, or record for longer than a step".into());
    }
    if collector.is_cut() {
        collector.note("there are more ops than are kept apart: the rest is counted together".into());
    }
    let gap = |device: &Device| device.busy.closed_gap_ps.max(device.others.closed_gap_ps);
    if let Some(gap) = collector.devices.iter().map(gap).max().filter(|gap| *gap > 0) {
        collector.note(format!("gaps of up to {} ns between ops are counted as busy", gap / 1000));
    }
    collector.take_notes()
}
