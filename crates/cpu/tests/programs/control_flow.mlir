// Meanings of loops, branches, calls and what passes values through.

func.func @a_loop_sums() {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n, %sum = stablehlo.while(%i = %zero, %s = %zero) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %more = stablehlo.add %s, %next : tensor<i32>
    stablehlo.return %next, %more : tensor<i32>, tensor<i32>
  }
  check.expect_eq_const %sum, dense<55> : tensor<i32>
  func.return
}

func.func @branches() {
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %a = stablehlo.constant dense<1> : tensor<i32>
  %b = stablehlo.constant dense<2> : tensor<i32>
  %taken = "stablehlo.if"(%yes) ({
    stablehlo.return %a : tensor<i32>
  }, {
    stablehlo.return %b : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>
  check.expect_eq_const %taken, dense<1> : tensor<i32>
  %wild = stablehlo.constant dense<-5> : tensor<i32>
  %last = "stablehlo.case"(%wild) ({
    stablehlo.return %a : tensor<i32>
  }, {
    stablehlo.return %b : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  check.expect_eq_const %last, dense<2> : tensor<i32>
  func.return
}

func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
  %b = stablehlo.add %a, %a : tensor<2xf32>
  func.return %b : tensor<2xf32>
}

func.func @calls_and_composites() {
  %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = stablehlo.composite "mine.twice" %b {decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %c, dense<[4.0, 8.0]> : tensor<2xf32>
  func.return
}

func.func @tuples_tokens_and_barriers() {
  %a = stablehlo.constant dense<1> : tensor<i32>
  %token = stablehlo.create_token : !stablehlo.token
  %after = stablehlo.after_all %token, %token : !stablehlo.token
  %pair = stablehlo.tuple %a, %after : tuple<tensor<i32>, !stablehlo.token>
  %b = stablehlo.get_tuple_element %pair[0] : (tuple<tensor<i32>, !stablehlo.token>) -> tensor<i32>
  %c = stablehlo.optimization_barrier %b : tensor<i32>
  %d = stablehlo.custom_call @Sharding(%c) : (tensor<i32>) -> tensor<i32>
  check.expect_eq_const %d, dense<1> : tensor<i32>
  func.return
}

func.func @map_applies_to_each() {
  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %b = "stablehlo.map"(%a, %a) ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %z = stablehlo.multiply %x, %y : tensor<i32>
    stablehlo.return %z : tensor<i32>
  }) {dimensions = array<i64: 0, 1>} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %b, dense<[[1, 4], [9, 16]]> : tensor<2x2xi32>
  func.return
}

func.func @probes_record_each_time() {
  %a = stablehlo.constant dense<1> : tensor<i32>
  %b = interpreter.probe %a, probe_id = "p" : tensor<i32>
  %c = stablehlo.add %b, %b : tensor<i32>
  %d = interpreter.probe %c, probe_id = "p" : tensor<i32>
  check.expect_serialized_eq %a, probe_id = "p", iter = 0 : tensor<i32>
  check.expect_serialized_eq %d, probe_id = "p", iter = 1 : tensor<i32>
  func.return
}

func.func private @larger(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %more = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  func.return %more : tensor<i1>
}

func.func @approximate_top_k_is_exact() {
  %a = stablehlo.constant dense<[[1.0, 5.0], [4.0, 2.0], [3.0, 6.0]]> : tensor<3x2xf32>
  %i = stablehlo.iota dim = 0 : tensor<3x2xi32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %values, %places = stablehlo.custom_call @ApproxTopK(%a, %i, %least, %none) {called_computations = [@larger], mhlo.backend_config = {aggregate_to_topk = true, recall_target = 0.9 : f32, reduction_dim = 0 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<3x2xf32>, tensor<3x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
  check.expect_eq_const %values, dense<[[4.0, 6.0], [3.0, 5.0]]> : tensor<2x2xf32>
  check.expect_eq_const %places, dense<[[1, 2], [2, 0]]> : tensor<2x2xi32>
  func.return
}
