//! Kernels for NVIDIA GPUs: what they are, read by the library that their compiler reads them with.

use std::io::Write;
use std::process::{Command, Stdio};

use hlo::Attr;
use kernel::{KernelTarget, lower};
use testkit::Needed;

/// Reads programs of Triton, one after the other, and checks them.
const READ: &str = "
import sys
from jaxlib.mlir import ir
from jaxlib.triton import dialect
with ir.Context() as context:
    dialect.register_dialect(context)
    for config in sys.stdin.read().split('\\0'):
        config = ir.Attribute.parse(config)
        module = ir.Module.parse(ir.StringAttr(config['ir']).value)
        module.operation.verify()
        print(ir.StringAttr(config['name']).value, ir.IntegerAttr(config['grid_z']).value)
";

/// Attention of queries `[sequences, kv heads, rows, head]` to pages.
struct Case {
    element: &'static str,
    queries: [usize; 4],
    page: usize,
    /// Pages of each sequence.
    table: usize,
    attributes: &'static str,
    has_sinks: bool,
}

impl Case {
    fn program(&self) -> hlo::Verified {
        let Case { element, queries: [sequences, heads, rows, head], page, table, attributes, has_sinks } = self;
        let query = format!("tensor<{sequences}x{heads}x{rows}x{head}x{element}>");
        let cache = format!("tensor<2x40x{heads}x{page}x{head}x{element}>");
        let per_sequence = format!("tensor<{sequences}xi32>");
        let mut types = vec![
            "tensor<1xi32>".to_owned(),
            format!("tensor<{}xi32>", sequences * table),
            per_sequence.clone(),
            per_sequence,
            query.clone(),
            cache.clone(),
            cache,
        ];
        types.extend(has_sinks.then(|| format!("tensor<{heads}x4xf32>")));
        let named: Vec<String> = types.iter().enumerate().map(|(n, ty)| format!("%a{n}: {ty}")).collect();
        let names: Vec<String> = (0..types.len()).map(|n| format!("%a{n}")).collect();
        let (named, names, types) = (named.join(", "), names.join(", "), types.join(", "));
        let text = format!(
            "func.func @main({named}) -> {query} {{
  %y = stablehlo.composite \"tpubridge.paged_attention\" {names} {{composite_attributes = {{group = 4 : i64, scale = 0.125 : f32{attributes}}}, decomposition = @plain}} : ({types}) -> {query}
  return %y : {query}
}}
func.func private @plain({named}) -> {query} {{ return %a4 : {query} }}"
        );
        hlo::verify(hlo::text::parse(&text).unwrap()).unwrap()
    }

    /// What is called, as the compiler is told.
    fn calls(&self) -> Vec<String> {
        configs(self.program())
    }
}

/// What the compiler is told of the calls in a program.
fn configs(program: hlo::Verified) -> Vec<String> {
    let lowered = lower(program, KernelTarget::Cuda).unwrap();
    assert!(lowered.kept.is_empty(), "{:?}", lowered.kept);
    let ops = lowered.module.funcs.iter().flat_map(|func| &func.ops);
    let configs = ops.filter_map(|op| op.attr("backend_config").and_then(Attr::as_str));
    configs.map(str::to_owned).collect()
}

const DECODE: Case =
    Case { element: "bf16", queries: [16, 8, 4, 128], page: 64, table: 8, attributes: "", has_sinks: false };

#[test]
fn attention_to_pages_is_a_program_of_triton() {
    let Some(python) = testkit::require("attention_to_pages_is_a_program_of_triton", Needed::Python) else { return };
    let cases = [
        (DECODE, "paged_attention 16\n"),
        // One sequence with many pages: several programs share it.
        (Case { queries: [1, 8, 4, 128], table: 64, ..DECODE }, "paged_attention 8\npaged_attention_join 1\n"),
        (
            Case { element: "f32", queries: [2, 2, 512, 80], attributes: ", window = 100 : i64", ..DECODE },
            "paged_attention 4\npaged_attention_join 2\n",
        ),
        (
            Case { attributes: ", soft_cap = 30.0 : f32, chunk = 64 : i64", has_sinks: true, ..DECODE },
            "paged_attention 16\n",
        ),
        (
            Case { queries: [1, 1, 4, 256], page: 16, table: 256, has_sinks: true, ..DECODE },
            "paged_attention 32\npaged_attention_join 1\n",
        ),
    ];
    let (mut configs, mut expected) = (Vec::new(), String::new());
    for (case, read) in cases {
        configs.extend(case.calls());
        expected += read;
    }
    assert_eq!(read(&python, &configs), expected);
}

/// Names and grids of programs of Triton, as its library reads them.
fn read(python: &std::path::Path, configs: &[String]) -> String {
    let mut reading = Command::new(python)
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    reading.stdin.take().expect("piped").write_all(configs.join("\0").as_bytes()).expect("it reads");
    let out = reading.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Both passes of a loss.
fn loss(rows: usize, vocab_size: usize) -> hlo::Verified {
    let (x, weight) = (format!("tensor<{rows}x64xbf16>"), format!("tensor<{vocab_size}x64xbf16>"));
    let (row, label) = (format!("tensor<1x{rows}xf32>"), format!("tensor<1x{rows}xi32>"));
    let text = format!(
        "func.func @main(%x: {x}, %w: {weight}, %l: {label}, %g: {row}) -> ({row}, {x}, {weight}) {{
  %loss:2 = stablehlo.composite \"tpubridge.cross_entropy\" %x, %w, %l {{composite_attributes = {{}}, decomposition = @plain}} : ({x}, {weight}, {label}) -> ({row}, {row})
  %of:2 = stablehlo.composite \"tpubridge.cross_entropy_backward\" %x, %w, %l, %loss#1, %g, %g {{composite_attributes = {{}}, decomposition = @back}} : ({x}, {weight}, {label}, {row}, {row}, {row}) -> ({x}, {weight})
  return %loss#0, %of#0, %of#1 : {row}, {x}, {weight}
}}
func.func private @plain(%x: {x}, %w: {weight}, %l: {label}) -> ({row}, {row}) {{
  %zero = stablehlo.constant dense<0.0> : {row}
  return %zero, %zero : {row}, {row}
}}
func.func private @back(%x: {x}, %w: {weight}, %l: {label}, %t: {row}, %s: {row}, %k: {row}) -> ({x}, {weight}) {{ return %x, %w : {x}, {weight} }}"
    );
    hlo::verify(hlo::text::parse(&text).unwrap()).unwrap()
}

#[test]
fn large_logits_are_read_and_overwritten_by_programs_of_triton() {
    let Some(python) = testkit::require("large_logits_are_read_and_overwritten_by_programs_of_triton", Needed::Python)
    else {
        return;
    };
    let large = loss(2048, 50_257);
    let calls = configs(large.clone());
    assert_eq!(read(&python, &calls), "cross_entropy_rows 1\ncross_entropy_gradient 1\n");
    let lowered = lower(large, KernelTarget::Cuda).unwrap();
    let ops = lowered.module.funcs.iter().flat_map(|func| &func.ops);
    let in_place = ops.filter(|op| op.attr("output_operand_aliases").is_some());
    assert_eq!(in_place.count(), 1);
    assert!(configs(loss(64, 50_257)).is_empty(), "small logits are left to the compiler");
}

#[test]
fn other_sizes_are_left_to_the_compiler() {
    for case in
        [Case { page: 8, ..DECODE }, Case { queries: [1, 1, 4, 512], ..DECODE }, Case { element: "f64", ..DECODE }]
    {
        let lowered = lower(case.program(), KernelTarget::Cuda).unwrap();
        assert_eq!((lowered.replaced.len(), lowered.kept.len()), (0, 1));
    }
}
