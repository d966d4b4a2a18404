func.func @f(%a: tensor<4xfloat>) {
  return
}
