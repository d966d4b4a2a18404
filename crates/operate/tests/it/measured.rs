//! Real profiles of TPUs: our sums are those of XProf, and damaged ones are refused.

use operate::profile::{self, MeasuredOp, ProfileReport, TraceWriter};
use serde_json::Value;
use std::io::Cursor;
use std::path::PathBuf;
use testkit::{Mutator, Needed, require};
use xplane::ReadLimits;

const V6E: &str = "v6e-8-host-offload.xplane.pb";
const TPU7X: &str = "tpu7x-qwen3-32b-fp4-tp2-prefill1024.trace.json.gz";

fn file(test: &str, name: &str) -> Option<PathBuf> {
    Some(require(test, Needed::Profiles)?.join(name))
}

fn golden(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[track_caller]
fn close(ours: f64, theirs: f64, what: &str) {
    let error = (ours - theirs).abs() / theirs.abs().max(1e-12);
    assert!(error < 0.01, "{what}: {ours} here, {theirs} by XProf");
}

fn op<'a>(report: &'a ProfileReport, name: &str) -> &'a MeasuredOp {
    report.ops.iter().find(|op| op.name == name).unwrap_or_else(|| panic!("no op {name}"))
}

#[test]
fn sums_of_a_v6e_are_those_of_xprof() {
    let Some(path) = file("sums_of_a_v6e_are_those_of_xprof", V6E) else { return };
    let xprof = golden(include_str!("../data/v6e-8-host-offload.xprof.json"));
    let report = profile::read(&path, ReadLimits::default(), None).unwrap();
    let seconds = |value: &Value| value.as_f64().unwrap() * 1e-12;
    close(report.totals.device_s, seconds(&xprof["device_ps"]), "device time");
    close(report.totals.idle_s, seconds(&xprof["idle_ps"]), "idle time");
    close(report.totals.flops, xprof["flops"].as_f64().unwrap(), "FLOPs");
    let theirs = xprof["ops"].as_array().unwrap();
    assert_eq!(report.ops.len(), theirs.len());
    for row in theirs {
        let name = row["name"].as_str().unwrap();
        let ours = op(&report, name);
        assert!(ours.program.contains(row["program_id"].as_str().unwrap()), "{name} of {}", ours.program);
        assert_eq!(ours.category, row["category"].as_str().unwrap(), "{name}");
        assert_eq!(ours.occurrences, row["occurrences"].as_u64().unwrap(), "{name}");
        close(ours.total_s, seconds(&row["total_ps"]), name);
        close(ours.self_s, seconds(&row["self_ps"]), name);
    }
    let categories: f64 = report.categories.iter().map(|group| group.self_s).sum();
    let sources: f64 = report.sources.iter().map(|group| group.self_s).sum();
    close(categories, report.totals.self_s, "sum of categories");
    close(sources, report.totals.self_s, "sum of source lines");
}

#[test]
fn a_v6e_says_what_is_published_of_it() {
    let Some(path) = file("a_v6e_says_what_is_published_of_it", V6E) else { return };
    let report = profile::read(&path, ReadLimits::default(), None).unwrap();
    assert_eq!(report.devices.len(), 4);
    assert!(report.devices.iter().all(|device| device.device_type == "TPU v6 Lite"));
    assert_eq!(report.devices[0].peak_flops_per_s, Some(918e12));
    let once = |name: &str| op(&report, name).self_s / op(&report, name).occurrences as f64;
    close(once("all-reduce"), 0.12170, "all-reduce");
    close(once("broadcast.2"), 0.004444, "fill");
    for name in ["broadcast_add_fusion", "broadcast_add_fusion.1", "broadcast_add_fusion.2"] {
        assert!((0.00791..0.00817).contains(&once(name)), "{name} {}", once(name));
        let roof = op(&report, name).roofline.unwrap();
        assert_eq!(roof.bound, "HBM");
        assert!((0.7..0.9).contains(&roof.share_of_roof), "{name} {roof:?}");
    }
    // Pairs send 5.37 GB each way.
    close(report.collectives.sent_bytes_per_s.unwrap(), 5.3687e9 / 0.1217, "chip links");
    close(report.collectives.exposed_s, op(&report, "all-reduce").self_s, "nothing ran beside the collectives");
    let copies: Vec<_> = report.transfers.iter().filter(|transfer| transfer.is_host).collect();
    assert_eq!(copies.len(), report.transfers.len());
    // Only the first device's copies were recorded from start to done.
    assert_eq!(
        copies.iter().map(|copy| (copy.occurrences, copy.bytes)).collect::<Vec<_>>(),
        [(100, 100.0 * 5368709120.0); 6]
    );
    assert!(copies.iter().any(|copy| copy.name == "copy-start.4"));
    assert_eq!(report.memory[0].allocator, "device 0");
    assert!(report.sources.iter().any(|group| group.name.ends_with("host_offload_stress_test.py:38")));
    assert!(report.scopes.iter().any(|group| group.name == "jit(_psum)/jit(main)"));
    assert!(report.device_waits.iter().any(|wait| wait.name == "barrier-cores"));
    assert!(report.host_kinds.iter().any(|kind| kind.name == "host to device"));
    assert!(report.steps.is_none());
}

#[test]
fn the_prediction_stands_beside_the_measurement() {
    let Some(path) = file("the_prediction_stands_beside_the_measurement", V6E) else { return };
    let report = profile::read(&path, ReadLimits::default(), None).unwrap();
    let program = report.programs.iter().find(|program| program.name == "jit__psum").unwrap();
    assert!(program.has_hlo && program.hbm_bytes.is_some());
    assert_eq!(program.predicted_for.as_deref(), Some("v6e-8"));
    for name in ["broadcast_add_fusion", "all-reduce", "broadcast.2"] {
        let op = op(&report, name);
        let (measured, predicted) = (op.self_s / op.occurrences as f64, op.predicted_s.unwrap());
        assert!((0.4..2.5).contains(&(predicted / measured)), "{name}: {measured} measured, {predicted} predicted");
        assert!(op.predicted_bound.is_some());
    }
}

#[test]
fn a_trace_of_a_tpu7x_adds_up() {
    let Some(path) = file("a_trace_of_a_tpu7x_adds_up", TPU7X) else { return };
    let totals = golden(include_str!("../data/tpu7x-prefill.totals.json"));
    let report = profile::read(&path, ReadLimits::default(), None).unwrap();
    let seconds = |value: &Value| value.as_f64().unwrap() * 1e-12;
    close(report.totals.device_s, seconds(&totals["device_ps"]), "device time");
    close(report.totals.self_s, seconds(&totals["self_ps"]), "self time");
    for row in totals["ops"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        // The golden file knows no programs.
        let ours: Vec<&MeasuredOp> = report.ops.iter().filter(|op| op.name == name).collect();
        let count: u64 = ours.iter().map(|op| op.occurrences).sum();
        assert_eq!(count, row["occurrences"].as_u64().unwrap(), "{name}");
        close(ours.iter().map(|op| op.total_s).sum(), seconds(&row["total_ps"]), name);
        close(ours.iter().map(|op| op.self_s).sum(), seconds(&row["self_ps"]), name);
    }
    let step = report.programs.iter().find(|program| program.name == "jit_step_fun").unwrap();
    close(step.mean_s, (0.063485505 + 0.063782541) / 2.0, "step");
    assert!(report.ops.iter().filter(|op| op.program.starts_with("jit_step_fun(")).count() > 3000);
}

#[test]
fn a_trace_written_from_a_profile_says_the_same() {
    let Some(path) = file("a_trace_written_from_a_profile_says_the_same", V6E) else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("v6e.trace.json");
    let mut writer = TraceWriter::create(&trace).unwrap();
    let report = profile::read(&path, ReadLimits::default(), Some(&mut writer)).unwrap();
    writer.finish().unwrap();
    let again = profile::read(&trace, ReadLimits::default(), None).unwrap();
    assert_eq!(again.ops.len(), report.ops.len());
    for ours in &report.ops {
        close(op(&again, &ours.name).self_s, ours.self_s, &ours.name);
    }
    let page = profile::html(&report);
    assert!(page.contains("broadcast_add_fusion") && page.contains("Roofline") && page.contains("v6e-8"));
}

#[test]
fn damaged_profiles_are_refused_or_read() {
    let Some(path) = file("damaged_profiles_are_refused_or_read", V6E) else { return };
    let bytes = std::fs::read(&path).unwrap();
    let limits = ReadLimits { metadata_bytes: 8 << 20, event_bytes: 1 << 16, far_value_bytes: 1 << 20 };
    for part in 1..20 {
        let cut = &bytes[..bytes.len() * part / 20];
        let error = profile::read_space(Cursor::new(cut), limits).unwrap_err().to_string();
        assert!(error.contains("cut or damaged at byte"), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("a.xplane.pb");
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    let error = profile::read(&damaged, limits, None).unwrap_err();
    assert!(error.to_string().ends_with("a.xplane.pb is not a readable profile"), "{error}");
    assert!(error.remedy().contains("copy it again"));
    // What the damaged copy of this file that was published looks like: bytes written as if they were Latin text.
    let latin: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    assert!(profile::read_space(Cursor::new(latin.as_bytes()), limits).is_err());

    let mut mutator = Mutator::new(7, vec![super::made::excerpt(&bytes)]);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..10_000 {
        match profile::read_space(Cursor::new(mutator.next_input()), limits) {
            Ok(report) => {
                assert!(report.totals.device_s >= 0.0 && report.totals.idle_s >= 0.0);
                accepted += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} read, {refused} refused");
}
