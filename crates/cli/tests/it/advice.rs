//! Every kind of advice, provoked by a small program that the real TPU compiler compiles.

use serde_json::Value;

use crate::harness::{Bench, arg};

/// What `tpu fit` advises for a program.
fn advice(bench: &Bench, text: &str, slice: &str) -> Vec<Value> {
    advice_with(bench, text, slice, &[])
}

fn advice_with(bench: &Bench, text: &str, slice: &str, options: &[&str]) -> Vec<Value> {
    let program = bench.write("program.mlir", text);
    let record = bench.json(&[&["fit", arg(&program), "--slice", slice][..], options].concat());
    record["advice"].as_array().unwrap().clone()
}

/// The advice of a kind. Every advice has a title, places and a remedy; `remedy` are words of it.
#[track_caller]
fn of_kind<'a>(advice: &'a [Value], kind: &str, remedy: &str) -> &'a Value {
    let found = advice.iter().find(|advice| advice["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {advice:#?}"));
    assert!(!found["title"].as_str().unwrap().is_empty(), "{found}");
    assert!(!found["places"].as_array().unwrap().is_empty(), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains(remedy), "{found}");
    found
}

#[track_caller]
fn assert_none(advice: &[Value], kind: &str) {
    assert!(advice.iter().all(|advice| advice["kind"] != kind), "{kind}: {advice:#?}");
}

#[track_caller]
fn gain_seconds(advice: &Value) -> f64 {
    let seconds = advice["gain_s"].as_f64().unwrap();
    assert!(seconds > 0.0, "{advice}");
    seconds
}

/// `x · w` of these sizes and type.
fn matmul(rows: u64, contracted: u64, columns: u64, dtype: &str) -> String {
    let (x, w) = (format!("tensor<{rows}x{contracted}x{dtype}>"), format!("tensor<{contracted}x{columns}x{dtype}>"));
    let y = format!("tensor<{rows}x{columns}x{dtype}>");
    format!(
        "func.func @main(%x: {x}, %w: {w}) -> {y} {{
           %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
           return %y : {y}
         }}"
    )
}

#[test]
fn state_that_is_not_donated() {
    let Some(bench) = Bench::with_libtpu("state_that_is_not_donated") else { return };
    let update = |donated: &str| {
        let t = "tensor<1024x1024xf32>";
        format!(
            "func.func @main(%w: {t} {{jax.arg_info = \"state['params']['w']\"{donated}}},
                 %g: {t} {{jax.arg_info = \"batch\"}}) -> {t} {{
               %0 = stablehlo.subtract %w, %g : {t}
               return %0 : {t}
             }}"
        )
    };
    let given = advice(&bench, &update(""), "v5e-1");
    assert_eq!(of_kind(&given, "donation", "donate")["gain_bytes"], 1024 * 1024 * 4);
    assert_none(&advice(&bench, &update(", tf.aliasing_output = 0 : i32"), "v5e-1"), "donation");
}

#[test]
fn matmuls_in_f32() {
    let Some(bench) = Bench::with_libtpu("matmuls_in_f32") else { return };
    // Only a full compilation says how long a matmul in f32 takes.
    let given = |dtype: &str| advice_with(&bench, &matmul(4096, 4096, 4096, dtype), "v5e-1", &["--full"]);
    gain_seconds(of_kind(&given("f32"), "bf16_matmuls", "bf16"));
    assert_none(&given("bf16"), "bf16_matmuls");
}

#[test]
fn sizes_that_leave_the_matrix_unit_idle() {
    let Some(bench) = Bench::with_libtpu("sizes_that_leave_the_matrix_unit_idle") else { return };
    let given = advice(&bench, &matmul(4096, 4096 - 96, 4096 - 96, "bf16"), "v6e-1");
    let tiles = of_kind(&given, "tiles", "multiples of 256");
    gain_seconds(tiles);
    assert!(tiles["title"].as_str().unwrap().contains("contracts 4000 into 4000 columns"), "{tiles}");
    assert_none(&advice(&bench, &matmul(4096, 4096, 4096, "bf16"), "v6e-1"), "tiles");
}

#[test]
fn weights_that_few_rows_wait_for() {
    let Some(bench) = Bench::with_libtpu("weights_that_few_rows_wait_for") else { return };
    let given = advice(&bench, &matmul(8, 8192, 28672, "bf16"), "v6e-1");
    let seconds = gain_seconds(of_kind(&given, "few_bits", "--weights dense,w8a16,w4a16"));
    // Half of the time that 448 MiB take.
    assert!((100e-6..200e-6).contains(&seconds), "{seconds}");
    assert_none(&advice(&bench, &matmul(8, 8192, 28672, "i8"), "v6e-1"), "few_bits");
    assert_none(&advice(&bench, &matmul(4096, 4096, 4096, "bf16"), "v6e-1"), "few_bits");
}

#[test]
fn copies_that_only_change_a_layout() {
    let Some(bench) = Bench::with_libtpu("copies_that_only_change_a_layout") else { return };
    let text = "func.func @main(%x: tensor<64x2048x1024xf32>) -> tensor<1024x64x2048xf32> {
        %0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<64x2048x1024xf32>) -> tensor<1024x64x2048xf32>
        return %0 : tensor<1024x64x2048xf32>
    }";
    let given = advice(&bench, text, "v5e-1");
    gain_seconds(of_kind(&given, "layouts", "stored transposed"));
}

#[test]
fn collectives_that_the_core_waits_for() {
    let Some(bench) = Bench::with_libtpu("collectives_that_the_core_waits_for") else { return };
    let text = "module @reduced attributes {mhlo.num_partitions = 4 : i32} {
      sdy.mesh @mesh = <[\"model\"=4]>
      func.func public @main(
          %x: tensor<2048x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"model\"}]>},
          %w: tensor<4096x2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{\"model\"}, {}]>})
          -> (tensor<2048x2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
        %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<2048x4096xbf16>, tensor<4096x2048xbf16>) -> tensor<2048x2048xbf16>
        return %y : tensor<2048x2048xbf16>
      }
    }";
    let given = advice(&bench, text, "v5e-4");
    let collectives = of_kind(&given, "collectives", "shard over fewer chips");
    gain_seconds(collectives);
    assert!(collectives["places"][0].as_str().unwrap().contains("over groups of 4, 8 MiB"), "{collectives}");
}

#[test]
fn copies_from_the_host_that_the_core_waits_for() {
    let Some(bench) = Bench::with_libtpu("copies_from_the_host_that_the_core_waits_for") else { return };
    let text = "func.func @main(%x: tensor<8192x8192xf32> {mhlo.memory_kind = \"pinned_host\"}) -> tensor<8192x8192xf32> {
        %0 = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true,
          mhlo.frontend_attributes = {_xla_buffer_placement = \"device\"}} : (tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
        %1 = stablehlo.tanh %0 : tensor<8192x8192xf32>
        return %1 : tensor<8192x8192xf32>
    }";
    let given = advice(&bench, text, "v5e-1");
    gain_seconds(of_kind(&given, "host_transfers", "offload less"));
}

#[test]
fn elementwise_operations_that_are_kept_apart() {
    let Some(bench) = Bench::with_libtpu("elementwise_operations_that_are_kept_apart") else { return };
    let text = "func.func @main(%x: tensor<16384x16384xf32>) -> tensor<16384x16384xf32> {
        %0 = stablehlo.tanh %x : tensor<16384x16384xf32>
        %1 = stablehlo.optimization_barrier %0 : tensor<16384x16384xf32>
        %2 = stablehlo.multiply %1, %1 : tensor<16384x16384xf32>
        return %2 : tensor<16384x16384xf32>
    }";
    let given = advice(&bench, text, "v5e-1");
    gain_seconds(of_kind(&given, "fusion", "optimization barrier"));
}

#[test]
fn sizes_that_are_known_at_run_time_only() {
    let Some(bench) = Bench::with_libtpu("sizes_that_are_known_at_run_time_only") else { return };
    let (bounded, fixed) = ("tensor<?x128xf32, #stablehlo.bounds<1024, ?>>", "tensor<1024x128xf32>");
    let text = format!(
        "func.func @main(%x: {fixed}, %n: tensor<i32>) -> {bounded} {{
           %0 = \"stablehlo.set_dimension_size\"(%x, %n) {{dimension = 0 : i64}} : ({fixed}, tensor<i32>) -> {bounded}
           %1 = stablehlo.tanh %0 : {bounded}
           return %1 : {bounded}
         }}"
    );
    let given = advice(&bench, &text, "v5e-1");
    // What it costs depends on the sizes that come, so no seconds are claimed.
    assert_eq!(of_kind(&given, "dynamic_shapes", "buckets")["gain_s"], 0.0);
}
