!t = tensor<?x4xf32>
func.func @main(%arg0: !t, %arg1: tensor<2x!quant.uniform<i8:f32, 2.0:15>>, %arg2: tensor<2x!quant.uniform<u8<1:254>:f32:0, {0.1:5, 0.2}>>,
    %arg3: !stablehlo.token, %arg4: tuple<tensor<f32>, tuple<>>, %arg5: !stablehlo.future<tensor<f32>>, %arg6: memref<2xi32>,
    %arg7: tensor<4xindex>, %arg8: tensor<*xf32>, %arg9: vector<4xf32>, %arg10: tensor<2xcomplex<f64>>, %arg11: tensor<4xi3>,
    %arg12: !other.type<[1, "a>b"]>, %arg13: tensor<0x0xf4E2M1FN>) -> (tensor<f32>, tuple<tensor<f32>, tuple<>>) {
  %0 = stablehlo.get_tuple_element %arg4[0] : (tuple<tensor<f32>, tuple<>>) -> tensor<f32>
  %1 = stablehlo.get_tuple_element %arg4[1] : (tuple<tensor<f32>, tuple<>>) -> tuple<>
  %2 = stablehlo.tuple %0, %1 : tuple<tensor<f32>, tuple<>>
  %3 = stablehlo.after_all %arg3, %arg3 : !stablehlo.token
  %4 = stablehlo.create_token : !stablehlo.token
  %5 = stablehlo.complex %0, %0 : tensor<complex<f32>>
  return %0, %2 : tensor<f32>, tuple<tensor<f32>, tuple<>>
}
