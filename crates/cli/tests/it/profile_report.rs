//! `tpu profile report`: tables, JSON, page and trace of a profile, and what it says of damaged ones.

use xplane::{SpaceBuilder, XEvent, XStatValue, names};

use crate::harness::{Bench, arg};

/// Two steps of a device: a matmul in a loop, named by a hostile producer.
fn profile() -> Vec<u8> {
    let mut space = SpaceBuilder::new();
    space.hostname("worker-0");
    let plane = space.plane("/device:TPU:0");
    plane.fact(names::stat::DEVICE_TYPE, XStatValue::Str("TPU v6 Lite".into()));
    plane.fact(names::stat::PEAK_TERAFLOPS, XStatValue::Double(918.0));
    plane.fact(names::stat::PEAK_HBM_GIGABYTES, XStatValue::Double(1638.0));
    let ids = ["while.1", "dot.2", "<script>\u{1b}[2J"].map(|name| plane.event(name));
    let category = plane.shared_text(names::stat::HLO_CATEGORY, "convolution");
    let flops = plane.stat(names::stat::FLOPS, XStatValue::Uint64(300_000_000));
    let bytes = plane.stat(names::stat::BYTES_ACCESSED, XStatValue::Uint64(100_000));
    plane.metadata(ids[1]).stats.extend([category, flops, bytes]);
    for step in 0..2 {
        let marker = plane.event(&step.to_string());
        let start = step * 3_000_000;
        plane.line(1, names::STEPS_LINE, 0).events.push(XEvent::at(marker, start, 2_500_000));
        let line = plane.line(3, names::OPS_LINE, 0);
        line.events.push(XEvent::at(ids[0], start, 2_000_000));
        line.events.push(XEvent::at(ids[1], start + 100, 1_000_000));
        line.events.push(XEvent::at(ids[2], start + 2_000_000, 10_000));
    }
    space.finish().to_bytes()
}

#[test]
fn a_profile_is_shown_in_every_form() {
    let bench = Bench::bare();
    let file = bench.write("a.xplane.pb", profile());
    let given = ["profile", "report", arg(&file), "--html", "page.html", "--trace", "out.trace.json"];
    let ran = bench.expect(0, &given);
    for expected in [
        "1 device (TPU v6 Lite)",
        "steps         2 marked by the device: 2.50 µs on average",
        "by category",
        "convolution",
        "dot.2",
    ] {
        assert!(ran.stdout.contains(expected), "{expected} is not in\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "a name must not command the terminal");
    assert!(ran.stderr.contains("page written to") && ran.stderr.contains("trace written to"), "{}", ran.stderr);
    let page = std::fs::read_to_string(bench.path("page.html")).unwrap();
    assert!(page.contains("dot.2") && page.contains("&lt;script&gt;") && page.matches("<script>").count() == 1);
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(bench.path("out.trace.json")).unwrap()).unwrap();
    let complete = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(complete, 8);

    let record = bench.json(&["profile", "report", arg(&file)]);
    assert_eq!((record["version"].as_u64(), record["hosts"][0].as_str()), (Some(1), Some("worker-0")));
    let dot = record["ops"].as_array().unwrap().iter().find(|op| op["name"] == "dot.2").unwrap();
    assert_eq!((dot["occurrences"].as_u64(), dot["flops"].as_f64()), (Some(2), Some(6e8)));
    // The trace says the same.
    let again = bench.json(&["profile", "report", "out.trace.json"]);
    assert_eq!(again["totals"]["self_s"], record["totals"]["self_s"]);
}

#[test]
fn what_is_no_profile_is_refused_with_the_remedy() {
    let bench = Bench::bare();
    let whole = profile();
    let cut = bench.write("cut.xplane.pb", &whole[..whole.len() / 2]);
    let refused = bench.expect(2, &["profile", "report", arg(&cut), "--trace", "half.json"]);
    assert!(refused.stderr.contains("is not a readable profile"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("cut or damaged at byte") && refused.stderr.contains("hint: "),
        "{}",
        refused.stderr
    );
    assert!(refused.stdout.is_empty() && !bench.path("half.json").exists());
    let empty = bench.expect(2, &["profile", "report", "."]);
    // The folder holds the damaged file, which is found and refused.
    assert!(empty.stderr.contains("cut.xplane.pb is not a readable profile"), "{}", empty.stderr);
    std::fs::create_dir(bench.path("nothing")).unwrap();
    let none = bench.expect(2, &["profile", "report", "nothing"]);
    assert!(none.stderr.contains("holds no profile"), "{}", none.stderr);
}
