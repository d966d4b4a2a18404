#map = affine_map<(d0) -> (d0)>
#shared = {inner = [1, 2.5, "text", @sym], ty = tensor<4xf32>}
!alias = tensor<2x?xf32, #stablehlo.bounds<?, 8>>

func.func @main(%arg0: !alias, %arg1: tensor<3x4xf32, #stablehlo.type_extensions<bounds = [?, ?]>>) attributes {
  a.bool = true, b.int = 5 : i8, c.neg = -3 : i32, d.hex = 0xFF : ui8, e.float = 1.0 : f32, f.double = 0.1, g.nan = 0x7FC00000 : f32,
  h.string = "quote \22 tab \t back \\ bytes \FF", i.symbol = @"not a word"::@nested, j.array = array<i64: 1, -2>, k.empty = array<i32>,
  l.bools = array<i1: true, false>, m.floats = array<f32: 1.0, 0.333333343>, n.unit, o.map = #map, p.shared = #shared,
  q.type = (tensor<f32>, index) -> (), r.loc = loc("file.py":3:4), s.foreign = #gpu.address_space<workgroup>, t.odd = 3 : i3,
  "u with space" = 1, v.dense = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, w.empty = {}, x.none = [], y.index = 1 : index
} {
  return
}
func.func @ops(%arg0: tensor<4x5xf32>, %arg1: tensor<2x1xi32>, %arg2: tensor<1x8x8x3xf32>, %arg3: tensor<3x3x3x16xf32>) {
  %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>, indices_are_sorted = false}> : (tensor<4x5xf32>, tensor<2x1xi32>) -> tensor<2x5xf32>
  %1 = stablehlo.convolution(%arg2, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [0, 2]], lhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x4x4x16xf32>
  %2 = stablehlo.slice %arg0 [0:4:2, 1:3] : (tensor<4x5xf32>) -> tensor<2x2xf32>
  %3 = stablehlo.custom_call @"target-name"(%arg0) {api_version = 4 : i32, backend_config = {n = 1 : i64}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %4 = stablehlo.exponential %arg0 {result_accuracy = #stablehlo.result_accuracy<atol = 1.0e-5, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4x5xf32>
  %5 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %9 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %6 = stablehlo.dot_general %arg0, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4xf32>
  %s = stablehlo.constant dense<0> : tensor<2xui64>
  %state, %bits = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  %7 = stablehlo.reduce_precision %arg0, format = e5m2 : tensor<4x5xf32>
  %8:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<4x5xf32>, tensor<2x1xi32>
  return
}
