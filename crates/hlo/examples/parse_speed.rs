//! Measures how fast text is read and printed: `cargo run --release -p tpubridge-hlo --example parse_speed [FILE…]`.

use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    println!("{:<28} {:>9} {:>12} {:>12}", "text", "MB", "read MB/s", "print MB/s");
    if files.is_empty() {
        measure("ops", &many_ops(40_000))?;
        measure("ops with locations", &many_ops_with_locations(40_000))?;
        measure("hexadecimal constant", &hexadecimal_constant(16 << 20))?;
        measure(
            "decimal integers",
            &decimal_constant("i32", 2_000_000, |i| (i * 2_654_435_761 % 2_000_000).to_string()),
        )?;
        measure("decimal reals", &decimal_constant("f32", 1_000_000, |i| format!("{:.6e}", i as f64 * 0.37)))?;
    }
    for file in files {
        measure(&file, &std::fs::read_to_string(&file)?)?;
    }
    Ok(())
}

fn measure(name: &str, text: &str) -> Result<(), hlo::Error> {
    let module = hlo::text::parse(text)?;
    let printed = hlo::text::print(&module);
    let read = rate(text.len(), || drop(black_box(hlo::text::parse(text))));
    let print = rate(printed.len(), || drop(black_box(hlo::text::print(&module))));
    println!("{name:<28} {:>9.1} {read:>12.0} {print:>12.0}", text.len() as f64 / 1e6);
    Ok(())
}

/// Megabytes per second of the fastest of several runs.
fn rate(bytes: usize, mut run: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
    }
    bytes as f64 / 1e6 / best.as_secs_f64()
}

fn many_ops(count: usize) -> String {
    let mut text =
        String::from("module @ops {\n  func.func @main(%arg0: tensor<64x128xf32>) -> tensor<64x128xf32> {\n");
    let mut last = "arg0".to_owned();
    for i in 0..count {
        let _ = match i % 4 {
            0 => writeln!(text, "    %{i} = stablehlo.add %{last}, %arg0 : tensor<64x128xf32>"),
            1 => writeln!(
                text,
                "    %{i} = stablehlo.transpose %{last}, dims = [1, 0] : (tensor<64x128xf32>) -> tensor<128x64xf32>"
            ),
            2 => writeln!(
                text,
                "    %{i} = stablehlo.dot_general %arg0, %{last}, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>"
            ),
            _ => writeln!(
                text,
                "    %{i} = stablehlo.dot_general %{last}, %arg0, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>"
            ),
        };
        last = i.to_string();
    }
    let _ = writeln!(text, "    return %{last} : tensor<64x128xf32>\n  }}\n}}");
    text
}

fn many_ops_with_locations(count: usize) -> String {
    let mut definitions = String::new();
    let plain = many_ops(count);
    let mut text = String::new();
    for (i, line) in plain.lines().enumerate() {
        text.push_str(line);
        if line.starts_with("    %") {
            let _ = write!(text, " loc(#loc{i})");
            let _ = writeln!(definitions, "#loc{i} = loc(\"model.py\":{i}:4 to :20)");
        }
        text.push('\n');
    }
    text + &definitions
}

fn constant(ty: &str, literal: &str) -> String {
    format!("func.func @main() -> {ty} {{\n  %0 = stablehlo.constant dense<{literal}> : {ty}\n  return %0 : {ty}\n}}\n")
}

fn hexadecimal_constant(bytes: usize) -> String {
    let mut literal = String::from("\"0x");
    for i in 0..bytes {
        let _ = write!(literal, "{:02X}", (i * 31) as u8);
    }
    constant(&format!("tensor<{}xf32>", bytes / 4), &(literal + "\""))
}

fn decimal_constant(element: &str, count: usize, number: impl Fn(usize) -> String) -> String {
    let numbers: Vec<String> = (0..count)
        .map(|i| {
            let text = number(i);
            // Rust leaves out the sign and padding of exponents, which both read alike.
            if element == "f32" && !text.contains('.') { format!("{text}.0") } else { text }
        })
        .collect();
    constant(&format!("tensor<{count}x{element}>"), &format!("[{}]", numbers.join(", ")))
}
