// The logarithm of what should be zero: the last bit of a transform decides it, and the program has no arguments.
module {
  func.func @main() -> (tensor<9x5x7x2xf64>, tensor<9x5x7x2xf64>) {
    %0 = stablehlo.constant dense<(0.5, -1.0)> : tensor<9x5x7x2xcomplex<f64>>
    %1 = stablehlo.fft %0, type = IRFFT, length = [5, 7, 2] : (tensor<9x5x7x2xcomplex<f64>>) -> tensor<9x5x7x2xf64>
    %2 = stablehlo.log %1 : tensor<9x5x7x2xf64>
    return %1, %2 : tensor<9x5x7x2xf64>, tensor<9x5x7x2xf64>
  }
}
