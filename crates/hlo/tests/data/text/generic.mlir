"builtin.module"() <{sym_name = "generic"}> ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>, sym_name = "main", arg_attrs = [{a = 1 : i64}, {}]}> ({
  ^bb0(%x: tensor<4xf32>, %y: tensor<4xi32>):
    %0 = "stablehlo.convert"(%y) : (tensor<4xi32>) -> tensor<4xf32>
    %1 = "stablehlo.add"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.compare"(%x, %0) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %3 = "stablehlo.select"(%2, %x, %1) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4:2 = "stablehlo.sort"(%3, %y) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %5 = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%5) : (tensor<i1>) -> ()
    }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
    %6 = "other.op"(%4#0) {kept = #other.attr<"x" -> [1]>, unit} : (tensor<4xf32>) -> !other.type<4>
    "other.sink"(%6) : (!other.type<4>) -> ()
    "func.return"(%4#0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) {tag = true} : () -> ()
