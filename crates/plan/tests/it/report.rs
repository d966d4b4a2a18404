//! The report: what it says of a compiled program, that nothing in a program can harm it, and that a browser shows it.

use std::process::Command;

use plan::report::{
    AdviceLine, Alive, CostLine, Fact, FixLine, MemoryClass, MemoryPart, Pictures, Proof, ReportInput, ReportVerdict,
    Roof, StepPart, html,
};
use plan::{Estimate, Workload};
use testkit::{Needed, repository, require};
use xla::{BufferAssignment, HloModule};

const SECTIONS: [&str; 8] = ["memory", "peak", "fixes", "step", "roofline", "operations", "cost", "advice"];

fn data(name: &str) -> Vec<u8> {
    std::fs::read(repository().join("crates/xla/tests/data/compiled").join(name)).unwrap()
}

/// A training step with a scan over layers on four chips, as the compiler left it.
struct Compiled {
    module: HloModule,
    buffers: BufferAssignment,
    slice: chips::Slice,
}

fn compiled() -> Compiled {
    Compiled {
        module: HloModule::from_any(&data("scan_grad_big.opt_hlo.zst")).unwrap(),
        buffers: BufferAssignment::from_zstd(&data("scan_grad_big.buffer_assignment.zst")).unwrap(),
        slice: "v5e-4".parse().unwrap(),
    }
}

/// A report with every part, of a real program; classes, cost and advice as a command would fill them.
fn report() -> ReportInput {
    let Compiled { module, buffers, slice } = compiled();
    let workload = Workload { tokens_per_step: Some(4096.0), model_flops_per_step: Some(1e12), ..Workload::default() };
    let estimate = Estimate::of(&module, &slice, &[], &workload);
    let pictures = Pictures::of(&module, Some(&buffers), &slice, &[]);
    let summary = buffers.summary(xla::MemorySpace::HBM);
    let class = |name: &str, bytes| MemoryClass { name: name.into(), bytes, padding_bytes: 0, buffers: 1 };
    let cost = |terms: &str, usd: f64| CostLine {
        terms: terms.into(),
        region: "us-west4".into(),
        date: "2026-08".into(),
        usd_per_chip_hour: usd,
        usd_per_hour: 4.0 * usd,
        usd_per_step: Some(4.0 * usd / 3600.0 * estimate.step.seconds),
        usd_per_million_tokens: None,
        usd_per_run: None,
    };
    ReportInput {
        title: module.name().to_string(),
        slice: slice.to_string(),
        facts: vec![Fact { name: "devices".into(), value: "4".into() }],
        verdict: Some(ReportVerdict::Fits),
        memory: Some(MemoryPart {
            limit_bytes: slice.usable_hbm_bytes_per_device(),
            total_bytes: summary.total_bytes(),
            classes: vec![class("parameters", summary.argument_bytes), class("temporaries", summary.temporary_bytes)],
            live: pictures.live,
            alive: Alive::at_peak(&module, &buffers),
        }),
        cost: vec![cost("on demand", 1.2), cost("spot", 0.31)],
        fixes: vec![FixLine {
            title: "donate the state".into(),
            detail: "results take the memory of what they replace".into(),
            verdict: ReportVerdict::Fits,
            needed_bytes: Some(1 << 30),
            step_s: Some(0.1),
            command: "--donate".into(),
        }],
        advice: vec![AdviceLine {
            title: "chip links are waited for".into(),
            remedy: "shard another axis".into(),
            gain_s: estimate.step.seconds / 10.0,
            gain_bytes: 0,
            proof: Proof::Predicted,
            places: vec!["all-gather.1".into()],
        }],
        notes: vec!["a note".into()],
        step: Some(StepPart { estimate, timeline: pictures.timeline, roof: Roof::of(&slice) }),
    }
}

#[test]
fn every_part_has_its_section_and_an_absent_part_has_none() {
    let page = html(&report());
    let places: Vec<usize> = SECTIONS.iter().map(|id| page.find(&format!("<section id=\"{id}\">")).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("✓ fits") && page.contains("limit 15.7 GiB"), "{}", &page[..4000]);
    let bare = html(&ReportInput { title: "p".into(), slice: "v5e-4".into(), ..ReportInput::default() });
    assert!(!bare.contains("<section") && bare.contains("<h1"));
}

#[test]
fn the_timeline_is_the_step() {
    let Compiled { module, buffers, slice } = compiled();
    let timeline = Pictures::of(&module, Some(&buffers), &slice, &[]).timeline.unwrap();
    let step = Estimate::of(&module, &slice, &[], &Workload::default()).step.seconds;
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * step;
    assert!(close(timeline.seconds, step), "{} {step}", timeline.seconds);
    let spans: f64 = timeline.spans.iter().map(|span| span.end_s - span.begin_s).sum();
    assert!(close(spans, step));
    assert!(timeline.spans.windows(2).all(|pair| close(pair[0].end_s, pair[1].begin_s)));
    // Forward and backward pass are loops over the layers.
    let executions = module.executions();
    assert!(executions.loops().len() >= 2 && timeline.loops.len() == executions.loops().len());
    assert!(timeline.loops.iter().all(|span| span.trips.is_some() && span.end_s <= step * 1.000001));
    // Gradients are reduced over the chips.
    assert!(!timeline.windows.is_empty());
    assert!(timeline.windows.iter().all(|window| window.begin_s < window.end_s && window.end_s <= step * 1.000001));
}

#[test]
fn the_fullest_moment_is_the_compilers() {
    let Compiled { module, buffers, .. } = compiled();
    let live = plan::report::LiveMemory::of(&module, &buffers).unwrap();
    let summary = buffers.summary(xla::MemorySpace::HBM);
    assert_eq!(live.held_bytes + live.reserved_bytes, summary.total_bytes());
    let most = live.points.iter().map(|point| point.bytes).max().unwrap();
    assert_eq!(live.points[live.peak].bytes, most);
    assert!(most <= live.reserved_bytes && most * 10 > live.reserved_bytes * 9, "{most} {}", live.reserved_bytes);
    assert!(module.find(&live.points[live.peak].instruction).is_some());
}

const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>'\"&</title></style></script></svg>\u{202e}";

/// Every string of a report from an enemy, every number extreme, every list long.
fn hostile() -> ReportInput {
    let mut input = report();
    let bad = || HOSTILE.to_string();
    input.title = bad();
    input.slice = bad();
    input.facts = vec![Fact { name: bad(), value: bad() }; 5000];
    input.verdict = Some(ReportVerdict::TooLarge { space: bad(), message: bad().repeat(5000) });
    let memory = input.memory.as_mut().unwrap();
    memory.total_bytes = u64::MAX;
    memory.classes = vec![MemoryClass { name: bad(), bytes: u64::MAX, padding_bytes: u64::MAX, buffers: 1 }; 5000];
    memory.alive[0].name = bad();
    memory.alive[0].source = bad();
    memory.alive[0].shape = bad();
    memory.alive = vec![memory.alive[0].clone(); 5000];
    for point in &mut memory.live.as_mut().unwrap().points {
        (point.instruction, point.source) = (bad(), bad());
    }
    let step = input.step.as_mut().unwrap();
    let extremes = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300];
    for (at, op) in step.estimate.ops.iter_mut().enumerate() {
        (op.name, op.source, op.shape) = (bad(), bad(), bad());
        op.flops = extremes[at % 6];
        op.hbm_bytes = extremes[at / 6 % 6];
        op.seconds = extremes[at / 36 % 6];
    }
    step.estimate.ops = step.estimate.ops.iter().cycle().take(5000).cloned().collect();
    step.estimate.sources = vec![(bad(), f64::NAN); 5000];
    step.estimate.step.high_s = f64::INFINITY;
    step.estimate.notes = (0..5000).map(|n| format!("{n}{HOSTILE}")).collect();
    let timeline = step.timeline.as_mut().unwrap();
    timeline.seconds = f64::NAN;
    for span in &mut timeline.spans {
        span.name = bad();
    }
    for window in &mut timeline.windows {
        window.name = bad();
    }
    input.cost[0].usd_per_hour = f64::NAN;
    (input.cost[0].terms, input.cost[0].region, input.cost[0].date) = (bad(), bad(), bad());
    (input.fixes[0].title, input.fixes[0].detail, input.fixes[0].command) = (bad(), bad(), bad());
    input.fixes = vec![input.fixes[0].clone(); 5000];
    (input.advice[0].title, input.advice[0].remedy) = (bad(), bad());
    input.advice[0].places = vec![bad(); 5000];
    input.advice = vec![input.advice[0].clone(); 5000];
    input
}

#[test]
fn a_hostile_program_has_no_say() {
    let page = html(&hostile());
    assert!(!page.contains("<img") && !page.contains("onerror=\""));
    assert_eq!((page.matches("<script>").count(), page.matches("</script>").count()), (1, 1));
    assert!(!page.contains('\u{202e}'));
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
    assert!(page.contains("… and 4960 more"), "cut lists say so");
    let visible = page.split("<script>").next().unwrap();
    for wrong in ["NaN", ">inf", "\"inf", "-inf"] {
        assert!(!visible.contains(wrong), "{wrong}");
    }
}

#[test]
fn the_page_refers_to_nothing() {
    for page in [html(&report()), html(&hostile())] {
        let body = page.replace("&lt;img src=x", "");
        for reference in [" src=", " href=", "@import", "http://", "https://", "<link", "<iframe"] {
            assert!(!body.contains(reference), "{reference}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}

/// What a browser makes of a page: the document after scripts ran, and what it logged.
fn browse(chromium: &std::path::Path, page: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=2000"])
        .args(["--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .env("HOME", folder.path())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_browser_shows_it() {
    let Some(chromium) = require("a_browser_shows_it", Needed::Chromium) else { return };
    let (document, log) = browse(&chromium, &html(&report()));
    for id in SECTIONS {
        assert!(document.contains(&format!("<section id=\"{id}\">")), "{id}\n{log}");
    }
    // The console tells of errors, of refused connections, and of whatever a script wants to say.
    assert!(!log.contains("CONSOLE"), "{log}");
    // The script ran: details moved from titles to the marks, and heads of tables became buttons.
    assert!(document.contains("data-tip=") && !document.contains("<title>the whole step"));
    assert!(document.contains("data-sorts="));
}

#[test]
fn a_browser_is_not_owned_by_a_hostile_program() {
    let Some(chromium) = require("a_browser_is_not_owned_by_a_hostile_program", Needed::Chromium) else { return };
    let (document, log) = browse(&chromium, &html(&hostile()));
    assert!(!log.contains("CONSOLE"), "{log}");
    assert!(!document.contains("<title>owned") && !document.contains("<img"));
    assert!(document.contains("data-sorts="));
    // All that follows the hostile texts is still where it belongs.
    assert!(document.contains("<section id=\"notes\">"));
}
