//! The report as one HTML page, made of the parts that `plan` makes its pages of.

use super::record::{MeasuredOp, ProfileReport, TimeGroup};
use plan::report::{
    Fact, Roof, Sheet, SheetBlock, SheetCell, SheetSection, SheetTable, SheetTile, bytes, percent, scaled, seconds,
    sheet_html,
};
use plan::{Bound, OpLine};

/// Ops drawn under the roofline.
const POINTS: usize = 200;

/// The page.
pub fn html(report: &ProfileReport) -> String {
    sheet_html(&sheet(report))
}

fn sheet(report: &ProfileReport) -> Sheet {
    let kinds: std::collections::BTreeSet<&str> =
        report.devices.iter().map(|device| device.device_type.as_str()).filter(|kind| !kind.is_empty()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let mut sections = vec![SheetSection { id: "time", title: "Where the time goes", blocks: time(report) }];
    let mut add = |id, title, blocks: Vec<SheetBlock>| {
        if !blocks.is_empty() {
            sections.push(SheetSection { id, title, blocks });
        }
    };
    add("operations", "Operations", vec![SheetBlock::Table(ops(&report.ops))]);
    add("roofline", "Roofline", roofline(report));
    add("programs", "Programs: measured and predicted", programs(report));
    add("sources", "By source line", groups(&report.sources, "Source", "source lines"));
    add("scopes", "By scope", groups(&report.scopes, "Scope", "scopes"));
    add("steps", "Steps", steps(report));
    add("collectives", "Collectives and transfers", transfers(report));
    add("host", "Host", host(report));
    add("devices", "Devices", vec![SheetBlock::Table(devices(report))]);
    add("memory", "Memory", memory(report));
    if !report.notes.is_empty() {
        add("notes", "Notes", vec![SheetBlock::Notes(report.notes.clone())]);
    }
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    Sheet {
        title: report.files.first().cloned().unwrap_or_else(|| "profile".into()),
        subject: if kinds.is_empty() { "devices".into() } else { kinds.join(", ") },
        facts: vec![fact("devices", report.devices.len().to_string()), fact("files", report.files.len().to_string())],
        tiles: tiles(report),
        sections,
    }
}

fn tiles(report: &ProfileReport) -> Vec<SheetTile> {
    let totals = &report.totals;
    let share = |part: f64| percent(part / totals.device_s.max(1e-30));
    let mut tiles = vec![SheetTile {
        name: "device time",
        value: seconds(totals.device_s),
        below: format!("{} idle", share(totals.idle_s)),
    }];
    if let Some(steps) = &report.steps {
        let below = format!("{} to {}", seconds(steps.min_s), seconds(steps.max_s));
        tiles.push(SheetTile { name: "a step", value: seconds(steps.mean_s), below });
    }
    if let Some(use_of) = totals.flops_share {
        let below = scaled(totals.flops, "FLOP");
        tiles.push(SheetTile { name: "of the matrix units' peak", value: percent(use_of), below });
    }
    if let Some(use_of) = totals.hbm_share {
        let below = bytes(totals.hbm_bytes as u64);
        tiles.push(SheetTile { name: "of the HBM's peak", value: percent(use_of), below });
    }
    let exposed = &report.collectives;
    tiles.push(SheetTile {
        name: "exposed collectives",
        value: percent(exposed.exposed_share),
        below: format!("{} of {}", seconds(exposed.exposed_s), seconds(exposed.total_s)),
    });
    tiles
}

fn time(report: &ProfileReport) -> Vec<SheetBlock> {
    let totals = &report.totals;
    let mut parts: Vec<(String, f64, String)> =
        report.categories.iter().map(|group| (group.name.clone(), group.self_s, percent(group.share))).collect();
    if totals.idle_s > 0.0 {
        parts.push(("idle".into(), totals.idle_s, percent(totals.idle_s / totals.device_s.max(1e-30))));
    }
    let mut blocks = vec![SheetBlock::Shares("Device time by category", parts)];
    blocks.extend(groups(&report.categories, "Category", "categories"));
    blocks
}

fn number(shown: String, value: f64) -> SheetCell {
    SheetCell::Number(shown, value)
}

fn time_cell(value: f64) -> SheetCell {
    number(seconds(value), value)
}

fn optional_time(value: Option<f64>) -> SheetCell {
    value.map_or_else(|| number("–".into(), -1.0), time_cell)
}

fn groups(groups: &[TimeGroup], head: &'static str, what: &'static str) -> Vec<SheetBlock> {
    if groups.is_empty() {
        return Vec::new();
    }
    let row = |group: &TimeGroup| {
        vec![
            SheetCell::Name(group.name.clone()),
            time_cell(group.self_s),
            number(percent(group.share), group.share),
            number(group.occurrences.to_string(), group.occurrences as f64),
            number(scaled(group.flops / group.self_s.max(1e-30), "FLOP/s"), group.flops / group.self_s.max(1e-30)),
        ]
    };
    let heads = vec![head, "#Self time", "#Of device time", "#Events", "#Rate"];
    vec![SheetBlock::Table(SheetTable { heads, rows: groups.iter().map(row).collect(), what })]
}

fn ops(ops: &[MeasuredOp]) -> SheetTable {
    let row = |op: &MeasuredOp| {
        let once = op.self_s / op.occurrences.max(1) as f64;
        let ratio = op.predicted_s.filter(|_| once > 0.0).map(|predicted| predicted / once);
        vec![
            SheetCell::Name(op.name.clone()),
            SheetCell::Words(op.category.clone()),
            time_cell(op.self_s),
            number(percent(op.share), op.share),
            number(op.occurrences.to_string(), op.occurrences as f64),
            time_cell(once),
            optional_time(op.predicted_s),
            ratio.map_or_else(|| number("–".into(), -1.0), |ratio| number(format!("{ratio:.2}"), ratio)),
            op.roofline.map_or_else(
                || number("–".into(), -1.0),
                |roof| number(format!("{} {}", percent(roof.share_of_roof), roof.bound), roof.share_of_roof),
            ),
            SheetCell::Name(op.scope.clone()),
            SheetCell::Name(op.source.clone()),
        ]
    };
    let heads = vec![
        "Op",
        "Category",
        "#Self time",
        "#Of device time",
        "#Runs",
        "#A run",
        "#Predicted",
        "#Ratio",
        "#Of roof",
        "Scope",
        "Source",
    ];
    SheetTable { heads, rows: ops.iter().map(row).collect(), what: "ops" }
}

fn roofline(report: &ProfileReport) -> Vec<SheetBlock> {
    let peaks = report.devices.iter().find_map(|d| d.peak_flops_per_s.zip(d.peak_hbm_bytes_per_s));
    let Some((flops, hbm)) = peaks else { return Vec::new() };
    let line = |op: &MeasuredOp| OpLine {
        name: op.name.clone(),
        opcode: op.category.clone(),
        shape: String::new(),
        source: op.scope.clone(),
        executions: op.occurrences as f64,
        seconds: op.self_s,
        bound: if op.roofline.is_some_and(|roof| roof.bound == "compute") { Bound::Matrix } else { Bound::Hbm },
        flops: op.flops,
        hbm_bytes: op.hbm_bytes,
    };
    let lines: Vec<OpLine> = report.ops.iter().filter(|op| op.roofline.is_some()).take(POINTS).map(line).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let roof = Roof { bf16_flops_per_s: flops, narrow: None, hbm_bytes_per_s: hbm };
    let words = "Peaks are those that the profile states for a device. Circles are ops, as large as the time they take; \
                 the diamond is everything together.";
    vec![SheetBlock::Words(words.into()), SheetBlock::Roofline(lines, report.totals.device_s, roof)]
}

fn programs(report: &ProfileReport) -> Vec<SheetBlock> {
    if report.programs.is_empty() {
        return Vec::new();
    }
    let rows = report
        .programs
        .iter()
        .map(|program| {
            vec![
                SheetCell::Name(program.name.clone()),
                number(program.executions.to_string(), program.executions as f64),
                time_cell(program.mean_s),
                time_cell(program.min_s),
                time_cell(program.max_s),
                optional_time(program.predicted_s),
                SheetCell::Words(program.predicted_for.clone().unwrap_or_default()),
                program.hbm_bytes.map_or_else(|| number("–".into(), -1.0), |size| number(bytes(size), size as f64)),
            ]
        })
        .collect();
    let heads = vec!["Program", "#Runs", "#Mean", "#Shortest", "#Longest", "#Predicted", "For", "#HBM"];
    vec![SheetBlock::Table(SheetTable { heads, rows, what: "programs" })]
}

fn steps(report: &ProfileReport) -> Vec<SheetBlock> {
    let Some(steps) = &report.steps else { return Vec::new() };
    let words = format!(
        "{} steps as the {} marks them: {} on average, standard deviation {}.",
        steps.count,
        steps.marked_by,
        seconds(steps.mean_s),
        seconds(steps.deviation_s)
    );
    let rows =
        steps.steps.iter().map(|step| vec![SheetCell::Words(step.name.clone()), time_cell(step.seconds)]).collect();
    let table = SheetTable { heads: vec!["Step", "#Time"], rows, what: "steps" };
    vec![SheetBlock::Words(words), SheetBlock::Table(table)]
}

fn transfers(report: &ProfileReport) -> Vec<SheetBlock> {
    let found = &report.collectives;
    let mut blocks = Vec::new();
    if found.occurrences > 0 {
        let rate = found
            .sent_bytes_per_s
            .map_or_else(String::new, |rate| format!(" Devices sent {} a second each way.", bytes(rate as u64)));
        blocks.push(SheetBlock::Words(format!(
            "{} collectives, {} under way, {} of it exposed.{rate}",
            found.occurrences,
            seconds(found.total_s),
            seconds(found.exposed_s)
        )));
    }
    if !report.transfers.is_empty() {
        let rows = report
            .transfers
            .iter()
            .map(|transfer| {
                let rate = transfer.bytes / transfer.total_s.max(1e-30);
                vec![
                    SheetCell::Name(transfer.name.clone()),
                    SheetCell::Words(if transfer.is_host { "host" } else { "device" }.into()),
                    number(transfer.occurrences.to_string(), transfer.occurrences as f64),
                    time_cell(transfer.total_s),
                    number(bytes(transfer.bytes as u64), transfer.bytes),
                    number(scaled(rate, "B/s"), rate),
                ]
            })
            .collect();
        let heads = vec!["Started by", "Memory", "#Runs", "#Under way", "#Bytes", "#Rate"];
        blocks.push(SheetBlock::Table(SheetTable { heads, rows, what: "transfers" }));
    }
    blocks.extend(groups(&report.device_waits, "Waited for", "waits"));
    blocks
}

fn host(report: &ProfileReport) -> Vec<SheetBlock> {
    if report.host.is_empty() {
        return Vec::new();
    }
    let parts = report.host_kinds.iter().map(|kind| (kind.name.clone(), kind.self_s, percent(kind.share))).collect();
    let rows = report
        .host
        .iter()
        .map(|event| {
            vec![
                SheetCell::Name(event.name.clone()),
                SheetCell::Words(event.kind.into()),
                number(event.occurrences.to_string(), event.occurrences as f64),
                time_cell(event.self_s),
                time_cell(event.total_s),
                time_cell(event.max_s),
            ]
        })
        .collect();
    let heads = vec!["Event", "Kind", "#Times", "#Self time", "#Time", "#Longest"];
    vec![
        SheetBlock::Words("Time of threads: those that wait count as those that work.".into()),
        SheetBlock::Shares("Host time by kind", parts),
        SheetBlock::Table(SheetTable { heads, rows, what: "events" }),
    ]
}

fn devices(report: &ProfileReport) -> SheetTable {
    let rows = report
        .devices
        .iter()
        .map(|device| {
            let idle = device.idle_s / device.span_s.max(1e-30);
            let peak = |value: Option<f64>, unit: &str| {
                value.map_or_else(|| number("–".into(), -1.0), |value| number(scaled(value, unit), value))
            };
            vec![
                SheetCell::Name(device.name.clone()),
                SheetCell::Words(device.device_type.clone()),
                time_cell(device.span_s),
                time_cell(device.busy_s),
                number(percent(idle), idle),
                peak(device.peak_flops_per_s, "FLOP/s"),
                peak(device.peak_hbm_bytes_per_s, "B/s"),
            ]
        })
        .collect();
    let heads = vec!["Device", "Kind", "#Time", "#Busy", "#Idle", "#Peak", "#HBM peak"];
    SheetTable { heads, rows, what: "devices" }
}

fn memory(report: &ProfileReport) -> Vec<SheetBlock> {
    if report.memory.is_empty() {
        return Vec::new();
    }
    let rows = report
        .memory
        .iter()
        .map(|memory| {
            let size = |value: u64| number(bytes(value), value as f64);
            vec![
                SheetCell::Name(memory.allocator.clone()),
                number(memory.allocations.to_string(), memory.allocations as f64),
                size(memory.peak_bytes),
                size(memory.free_at_peak_bytes),
                size(memory.lifetime_peak_bytes),
            ]
        })
        .collect();
    let heads = vec!["Allocator", "#Allocations", "#Peak", "#Free then", "#Peak of the process"];
    vec![SheetBlock::Table(SheetTable { heads, rows, what: "allocators" })]
}
