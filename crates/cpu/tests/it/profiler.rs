//! The profiler of the plugin: what a session records of real launches, and what it refuses.

use std::collections::BTreeSet;

use pjrt::{Code, Plugin};
use prost::Message;
use xplane::{XEvent, XEventData, XPlane, XSpace};

use crate::plugin::{compile_and_run, library};

/// A loop around a matmul, and loops over elements, with scopes and lines.
const LOOP: &str = r#"module @looped {
  func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %0:2 = stablehlo.while(%n = %zero, %x = %a) : tensor<i32>, tensor<64x64xf32>
      cond {
        %c = stablehlo.compare LT, %n, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %y = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0]
           : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("layer/dot_general"("model.py":7:1))
        %z = stablehlo.tanh %y : tensor<64x64xf32> loc("layer/tanh"("model.py":8:1))
        %m = stablehlo.add %n, %one : tensor<i32>
        stablehlo.return %m, %z : tensor<i32>, tensor<64x64xf32>
      }
    return %0#1 : tensor<64x64xf32>
  }
}"#;

fn names<'p>(plane: &'p XPlane, line: &str) -> Vec<(&'p str, i64, i64)> {
    let one = |event: &XEvent| {
        let Some(XEventData::OffsetPs(start)) = event.data else { panic!("{event:?}") };
        let metadata = &plane.event_metadata[&event.metadata_id];
        let name = if metadata.display_name.is_empty() { &metadata.name } else { &metadata.display_name };
        (name.as_str(), start, start + event.duration_ps)
    };
    plane.lines.iter().filter(|found| found.name == line).flat_map(|line| line.events.iter().map(one)).collect()
}

#[test]
fn launches_and_steps_are_recorded_with_scopes_and_lines() {
    let profiler = Plugin::load(&library()).unwrap().profiler().unwrap();
    let mut session = profiler.session(&[]).unwrap();
    session.start().unwrap();
    // One at a time, and only what was stopped is collected.
    let mut other = profiler.session(&[]).unwrap();
    assert_eq!(other.start().unwrap_err().code(), Some(Code::FailedPrecondition));
    assert_eq!(session.start().unwrap_err().code(), Some(Code::FailedPrecondition));
    assert_eq!(session.collect().unwrap_err().code(), Some(Code::FailedPrecondition));
    compile_and_run(LOOP, &[64, 64], 3);
    session.stop().unwrap();
    assert_eq!(session.stop().unwrap_err().code(), Some(Code::FailedPrecondition));
    let bytes = session.collect().unwrap();
    assert_eq!(session.collect().unwrap(), bytes);
    // What runs now is nobody's.
    compile_and_run(LOOP, &[64, 64], 1);
    let space = XSpace::decode(bytes.as_slice()).unwrap();
    assert!(space.warnings.is_empty() && space.errors.is_empty(), "{:?}", space.warnings);
    let plane = space.planes.iter().find(|plane| plane.name == "/device:TPU:0").unwrap();
    // Other tests of this process may have launched something too.
    let own = |(name, ..): &(&str, i64, i64)| name.starts_with("looped(");
    let launches: Vec<_> = names(plane, "XLA Modules").into_iter().filter(own).collect();
    assert_eq!(launches.len(), 3, "{launches:?}");
    let is_within = |inner: &(&str, i64, i64), outer: &(&str, i64, i64)| outer.1 <= inner.1 && inner.2 <= outer.2;
    let steps: Vec<_> = names(plane, "XLA Ops")
        .into_iter()
        .filter(|step| launches.iter().any(|launch| is_within(step, launch)))
        .collect();
    let loops: Vec<_> = steps.iter().filter(|step| step.0.starts_with("while.")).collect();
    assert_eq!(loops.len(), 3, "{steps:?}");
    // Fifteen matmuls, each finished by its loop over elements, each within its loop, which is within its launch.
    let matmuls: Vec<_> = steps.iter().filter(|step| step.0.starts_with("fusion.")).collect();
    assert_eq!(matmuls.len(), 15, "{steps:?}");
    assert!(matmuls.iter().all(|step| loops.iter().any(|whole| is_within(step, whole))));
    // Starts are in order, as readers expect them.
    assert!(steps.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    let described = plane.event_metadata.values().find(|metadata| metadata.display_name == matmuls[0].0).unwrap();
    let text: BTreeSet<String> = described
        .stats
        .iter()
        .map(|stat| {
            let name = &plane.stat_metadata[&stat.metadata_id].name;
            format!("{name} {:?}", stat.value)
        })
        .collect();
    let text = text.into_iter().collect::<Vec<_>>().join("\n");
    for expected in
        ["source Some(Str(\"model.py:7\"))", "tf_op Some(Str(\"layer/dot_general:\"))", "flops Some(Uint64(5"]
    {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(described.name.contains("dot.") && described.name.contains("tanh."), "{}", described.name);
}

#[test]
fn a_session_that_is_dropped_makes_room() {
    let profiler = Plugin::load(&library()).unwrap().profiler().unwrap();
    for _ in 0..3 {
        let mut session = profiler.session(b"options of another kind").unwrap();
        session.start().unwrap();
        drop(session);
    }
    let mut session = profiler.session(&[]).unwrap();
    assert_eq!(session.stop().unwrap_err().code(), Some(Code::FailedPrecondition));
    session.start().unwrap();
    session.stop().unwrap();
    assert!(XSpace::decode(session.collect().unwrap().as_slice()).unwrap().planes.is_empty());
}
