func.func @f(%a: tensor<f32>) {
  %0 = "stablehlo.custom_call"(%a) {call_target_name = "long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ", backend_config = oops, called_computations = [@f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, @f, ]} : (tensor<f32>) -> tensor<f32>
  return
}
