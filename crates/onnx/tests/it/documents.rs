//! The page about ONNX names the ops that there are.

use std::collections::BTreeSet;

#[test]
fn the_page_lists_every_op() {
    let page = std::fs::read_to_string(testkit::repository().join("docs/reference/onnx.md")).unwrap();
    let list = page.split("## Ops\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let known: BTreeSet<&str> = onnx::op_names().into_iter().collect();
    assert_eq!(listed, known);
}
