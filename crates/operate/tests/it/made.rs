//! Profiles made here in the forms of other producers: GPUs with streams, XLA's CPU device, SparseCores, several hosts.

use operate::profile::{self, CoreKind, ProfileReport};
use std::io::Cursor;
use xplane::{PlaneBuilder, ReadLimits, SpaceBuilder, XEvent, XSpace, XStatValue, names};

/// A part of a real profile: a few events of each line, and no large values.
pub(crate) fn excerpt(bytes: &[u8]) -> Vec<u8> {
    let mut space = xplane::XSpace::from_bytes(bytes).unwrap();
    for plane in &mut space.planes {
        plane.lines.truncate(6);
        plane.lines.iter_mut().for_each(|line| line.events.truncate(6));
        let used: std::collections::BTreeSet<i64> =
            plane.lines.iter().flat_map(|line| line.events.iter().map(|event| event.metadata_id)).collect();
        let is_metadata = plane.name == names::METADATA_PLANE;
        plane.event_metadata.retain(|id, _| used.contains(id) || is_metadata);
    }
    space.to_bytes()
}

fn read(space: XSpace) -> ProfileReport {
    profile::read_space(Cursor::new(space.to_bytes()), ReadLimits::default()).unwrap()
}

fn seconds(ps: i64) -> f64 {
    ps as f64 * 1e-12
}

#[track_caller]
fn is(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-15, "{found}, not {expected}");
}

fn rows(report: &ProfileReport) -> Vec<(&str, u64, f64)> {
    let mut rows: Vec<_> = report.ops.iter().map(|op| (op.name.as_str(), op.occurrences, op.self_s)).collect();
    rows.sort_by(|a, b| a.0.cmp(b.0));
    rows
}

fn event(plane: &mut PlaneBuilder, line: (i64, &str), name: &str, start: i64, length: i64) {
    let id = plane.event(name);
    plane.line(line.0, line.1, 0).events.push(XEvent::at(id, start, length));
}

/// A step of a TPU: a loop around a matmul, and a copy beside it.
fn tensor_core(plane: &mut PlaneBuilder) {
    plane.fact(names::stat::PEAK_TERAFLOPS, XStatValue::Double(1.0));
    plane.fact(names::stat::PEAK_HBM_GIGABYTES, XStatValue::Double(1.0));
    event(plane, (1, "Steps"), "7", 0, 2_000);
    event(plane, (2, "XLA Modules"), "jit_step(42)", 0, 1_500);
    for (name, start, length) in [
        ("while.1", 100, 1_000),
        ("dot.2", 200, 600),
        ("all-reduce-start.1", 1_100, 10),
        ("all-reduce-done.1", 1_300, 200),
    ] {
        event(plane, (3, "XLA Ops"), name, start, length);
    }
    event(plane, (4, "Async XLA Ops"), "all-reduce-start.1", 1_100, 400);
    // What others make of the lines above.
    event(plane, (5, "Framework Ops"), "dot", 200, 600);
    event(plane, (6, "XLA TraceMe"), "barrier-cores", 1_500, 100);
}

/// A profile of a step that waits for an all-reduce a tenth of the time.
pub(crate) fn with_exposed_all_reduce() -> Vec<u8> {
    let mut space = SpaceBuilder::new();
    tensor_core(space.plane("/device:TPU:0"));
    space.finish().to_bytes()
}

#[test]
fn a_tpu_with_loops_steps_and_collectives() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane("/device:TPU:0");
    tensor_core(plane);
    let dot = plane.event("dot.2");
    let flops = plane.stat(names::stat::FLOPS, XStatValue::Uint64(300));
    let bytes = plane.stat(names::stat::BYTES_ACCESSED, XStatValue::Int64(2));
    plane.metadata(dot).stats.extend([flops, bytes]);
    let report = read(space.finish());
    assert_eq!(
        rows(&report),
        [
            ("all-reduce-done.1", 1, seconds(200)),
            ("all-reduce-start.1", 1, seconds(10)),
            ("dot.2", 1, seconds(600)),
            ("while.1", 1, seconds(400)),
        ]
    );
    // The step is longer than its ops.
    is(report.totals.device_s, seconds(2_000));
    is(report.totals.busy_s, seconds(1_210));
    is(report.totals.idle_s, seconds(790));
    is(report.collectives.total_s, seconds(400));
    is(report.collectives.exposed_s, seconds(210));
    assert_eq!(report.collectives.occurrences, 1);
    let steps = report.steps.unwrap();
    assert_eq!((steps.marked_by, steps.count, steps.steps[0].name.as_str()), ("device", 1, "7"));
    is(steps.mean_s, seconds(2_000));
    assert_eq!(report.device_waits[0].name, "barrier-cores");
    // 300 FLOP in 600 ps is half of 1 TFLOP/s; 2 bytes are more than 1 GB/s.
    let dot = report.ops.iter().find(|op| op.name == "dot.2").unwrap();
    assert_eq!(dot.program, "jit_step(42)");
    let roof = dot.roofline.unwrap();
    is(roof.intensity, 150.0);
    assert!((roof.flops_per_s - 0.5e12).abs() < 1.0);
    assert_eq!(roof.bound, "HBM");
}

#[test]
fn the_clock_of_the_device_counts() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane("/device:TPU:3");
    let op = plane.event("add");
    let offset = plane.stat("device_offset_ps", XStatValue::Int64(5_000));
    let length = plane.stat("device_duration_ps", XStatValue::Int64(70));
    plane.line(3, "XLA Ops", 9).events.push(XEvent::at(op, 1, 100).with(offset).with(length));
    is(read(space.finish()).totals.device_s, seconds(70));
}

#[test]
fn sparse_cores_and_planes_of_networks_are_not_added_to_tensor_cores() {
    let mut space = SpaceBuilder::new();
    tensor_core(space.plane("/device:TPU:0"));
    tensor_core(space.plane("/device:TPU:1"));
    let plane = space.plane("/device:TPU:0 SparseCore 1");
    event(plane, (3, "Sparse Core Ops"), "gather.9", 0, 500);
    event(plane, (2, "Sparse Core Modules"), "offload(42)", 0, 500);
    event(space.plane("/device:CUSTOM:Megascale Trace"), (1, "device 0"), "all-reduce over DCN", 0, 9_000);
    let report = read(space.finish());
    is(report.totals.device_s, seconds(4_000));
    is(report.totals.self_s, seconds(2_420));
    let gather = report.ops.iter().find(|op| op.name == "gather.9").unwrap();
    assert_eq!((gather.core, gather.share), (CoreKind::SparseCore, 0.0));
    assert!(report.ops.iter().find(|op| op.name == "dot.2").is_some_and(|op| op.occurrences == 2 && op.devices == 2));
    assert!(report.notes.iter().any(|note| note.contains("Megascale")));
}

/// A kernel of a GPU, as XLA's profiler writes it: the op is a stat of the event.
fn kernel(plane: &mut PlaneBuilder, line: i64, op: &str, kernel: &str, start: i64, length: i64) {
    let hlo_op = plane.shared_text(names::stat::HLO_OP, op);
    let module = plane.shared_text(names::stat::HLO_MODULE, "jit_f");
    let program = plane.stat(names::stat::PROGRAM_ID, XStatValue::Int64(5));
    let correlation = plane.stat(names::stat::CORRELATION_ID, XStatValue::Int64(1));
    let id = plane.event(kernel);
    let event = XEvent::at(id, start, length).with(hlo_op).with(module).with(program).with(correlation);
    plane.line(line, &format!("Stream #{line}"), 0).events.push(event);
}

#[test]
fn a_gpu_with_streams_and_derived_lines() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane("/device:GPU:0");
    for (name, value) in
        [("core_count", 132), ("clock_rate", 1_980_000), ("compute_cap_major", 9), ("compute_cap_minor", 0)]
    {
        plane.fact(name, XStatValue::Uint64(value));
    }
    plane.fact("memory_bandwidth", XStatValue::Uint64(4_800_000_000_000));
    kernel(plane, 13, "loop_fusion", "loop_fusion", 0, 100);
    kernel(plane, 13, "gemm.1", "sm90_xmma_gemm", 100, 300);
    kernel(plane, 13, "gemm.1", "splitKreduce", 400, 50);
    kernel(plane, 20, "all-reduce.3", "ncclDevKernel_AllReduce", 350, 300);
    let copy = plane.event("MemcpyH2D");
    let details = plane.stat("memcpy_details", XStatValue::Str("kind_src:pageable size:4".into()));
    plane.line(14, "Stream #14(MemcpyH2D)", 0).events.push(XEvent::at(copy, 900, 100).with(details));
    // Derived lines, by their ids and by their names.
    event(plane, (0xdead_beef + 5, "XLA Ops"), "gemm.1", 100, 350);
    event(plane, (0xdead_beef + 4, "XLA Modules"), "jit_f", 0, 700);
    event(plane, (99, "Source code"), "model.py:3", 0, 700);
    let report = read(space.finish());
    assert_eq!(
        rows(&report),
        [
            ("MemcpyH2D", 1, seconds(100)),
            ("all-reduce.3", 1, seconds(300)),
            ("gemm.1", 2, seconds(350)),
            ("loop_fusion", 1, seconds(100)),
        ]
    );
    is(report.totals.device_s, seconds(1_000));
    is(report.totals.busy_s, seconds(750));
    is(report.collectives.total_s, seconds(300));
    // From 450 on nothing else ran.
    is(report.collectives.exposed_s, seconds(200));
    assert_eq!(report.devices[0].core, CoreKind::Gpu);
    assert!((report.devices[0].peak_flops_per_s.unwrap() / 1e12 - 1070.5).abs() < 1.0);
    assert_eq!(report.programs[0].name, "jit_f");
    assert!(report.programs.iter().all(|program| program.predicted_s.is_none()));
}

#[test]
fn ops_and_steps_on_the_host() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane(names::HOST_PLANE);
    for step in 0..3i64 {
        let marker = plane.event("train");
        let number = plane.stat(names::stat::STEP_NUM, XStatValue::Int64(step));
        plane.line(1, "python", 0).events.push(XEvent::at(marker, step * 10_000, 8_000).with(number));
        // Written when they end: the body before the loop.
        for (op, start, length) in [("dot.1", 100, 2_000), ("while.3", 0, 6_000)] {
            let hlo_op = plane.shared_text(names::stat::HLO_OP, op);
            let program = plane.stat(names::stat::PROGRAM_ID, XStatValue::Int64(8));
            let id = plane.event(op);
            let event = XEvent::at(id, step * 10_000 + start, length).with(hlo_op).with(program);
            plane.line(2, "tf_XLAEigen", 0).events.push(event);
        }
        event(plane, (1, "python"), "data_wait", step * 10_000 + 8_500, 1_000);
    }
    let allocation = plane.event("MemoryAllocation");
    let stats = [
        plane.stat("allocator_name", XStatValue::Str("GPU_0_bfc".into())),
        plane.stat("bytes_allocated", XStatValue::Int64(1 << 20)),
        plane.stat("peak_bytes_in_use", XStatValue::Int64(1 << 21)),
    ];
    let event = stats.into_iter().fold(XEvent::at(allocation, 0, 0), XEvent::with);
    plane.line(3, "allocator", 0).events.push(event);
    let report = read(space.finish());
    assert_eq!(rows(&report), [("dot.1", 3, seconds(6_000)), ("while.3", 3, seconds(12_000))]);
    assert_eq!(report.devices[0].core, CoreKind::Cpu);
    let steps = report.steps.unwrap();
    assert_eq!((steps.marked_by, steps.count), ("host", 3));
    is(steps.mean_s, seconds(8_000));
    assert_eq!(report.host_kinds.iter().find(|kind| kind.name == "data").unwrap().occurrences, 3);
    assert_eq!((report.memory[0].peak_bytes, report.memory[0].lifetime_peak_bytes), (1 << 20, 1 << 21));
}

#[test]
fn hosts_of_a_folder_are_read_together() {
    let folder = tempfile::tempdir().unwrap();
    for host in ["a", "b"] {
        let mut space = SpaceBuilder::new();
        space.hostname(host);
        tensor_core(space.plane("/device:TPU:0"));
        std::fs::write(folder.path().join(format!("{host}.xplane.pb")), space.finish().to_bytes()).unwrap();
    }
    let report = profile::read(folder.path(), ReadLimits::default(), None).unwrap();
    assert_eq!((report.hosts.as_slice(), report.devices.len()), (&["a".to_string(), "b".to_string()][..], 2));
    is(report.totals.device_s, seconds(4_000));
    assert_eq!(report.steps.unwrap().count, 1, "a step of the whole job is one step");
}

#[test]
fn hostile_numbers_and_empty_profiles() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane("/device:TPU:0");
    for (start, length) in [(i64::MAX, i64::MAX), (i64::MIN, i64::MAX), (0, -5), (-7, i64::MIN), (1, 1)] {
        event(plane, (3, "XLA Ops"), "op", start, length);
        event(plane, (4, "Async XLA Ops"), "op", start, length);
        event(plane, (1, "Steps"), "step", start, length);
        event(plane, (2, "XLA Modules"), "m(x)", start, length);
    }
    plane.line(3, "XLA Ops", 0).timestamp_ns = i64::MAX;
    plane.line(3, "XLA Ops", 0).events.push(XEvent::at(i64::MIN, 0, 1));
    assert_eq!(read(space.finish()).ops.len(), 2);
    let empty = read(host_only().finish());
    assert!(empty.ops.is_empty() && empty.notes.iter().any(|note| note.contains("no device ran")));
    assert!(profile::html(&empty).contains("Where the time goes"));
}

fn host_only() -> SpaceBuilder {
    let mut space = SpaceBuilder::new();
    space.plane(names::HOST_PLANE);
    space
}

#[test]
fn a_chrome_trace_that_is_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.trace.json");
    let refused = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        profile::read(&path, ReadLimits::default(), None).unwrap_err().to_string()
    };
    for text in [&b"{}"[..], b"{\"traceEvents\":[{\"ph\":\"X\"", b"[[[[", b"\x1f\x8b\x08\x00broken", b""] {
        assert!(refused(text).ends_with("x.trace.json is not a readable Chrome trace"));
    }
    std::fs::write(&path, b"[{\"ph\":\"X\",\"ts\":-1e300,\"dur\":1e300,\"name\":\"a\"},{}]").unwrap();
    assert!(profile::read(&path, ReadLimits::default(), None).is_ok());
}
