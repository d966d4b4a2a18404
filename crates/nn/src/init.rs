//! Initialisers: how parameters are drawn before training.

use tensor::DType;
use trace::{Contraction, Key, Precision, Tensor};

/// How a weight is drawn. Fans are those of a matrix `[in, out]`; leading axes of a kernel count into both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// Normal, of this deviation.
    Normal(f64),
    /// Normal, of this deviation, cut at two deviations.
    TruncatedNormal(f64),
    /// Uniform in `±sqrt(6 / (in + out))`.
    XavierUniform,
    /// Normal of deviation `sqrt(2 / (in + out))`.
    XavierNormal,
    /// Uniform in `±sqrt(6 / in)`, for rectified units.
    KaimingUniform,
    /// Normal of deviation `sqrt(2 / in)`, for rectified units.
    KaimingNormal,
    /// Uniform in `±1 / sqrt(in)`.
    FanIn,
    /// Orthogonal rows or columns, whichever are fewer, times this gain; matrices only, others as [`Init::XavierNormal`].
    Orthogonal(f64),
}

/// Fans of a weight: `[kernel…, in, out]`.
fn fans(dims: &[usize]) -> (f64, f64) {
    match dims {
        [] => (1.0, 1.0),
        [only] => (*only as f64, *only as f64),
        [kernel @ .., input, output] => {
            let window: usize = kernel.iter().product();
            ((window * input) as f64, (window * output) as f64)
        }
    }
}

impl Init {
    /// Draws a weight of a type and shape.
    #[track_caller]
    pub fn draw(self, key: &Key, dtype: DType, dims: &[usize]) -> Tensor {
        let (fan_in, fan_out) = fans(dims);
        let normal = |deviation: f64| (&key.normal(DType::F32, dims) * deviation).cast(dtype);
        let uniform = |bound: f64| key.uniform(DType::F32, dims, -bound, bound).cast(dtype);
        match self {
            Init::Zeros => Tensor::zeros(dtype, dims),
            Init::Ones => Tensor::ones(dtype, dims),
            Init::Normal(deviation) => normal(deviation),
            Init::TruncatedNormal(deviation) => {
                (&key.truncated_normal(DType::F32, dims, -2.0, 2.0) * deviation).cast(dtype)
            }
            Init::XavierUniform => uniform((6.0 / (fan_in + fan_out)).sqrt()),
            Init::XavierNormal => normal((2.0 / (fan_in + fan_out)).sqrt()),
            Init::KaimingUniform => uniform((6.0 / fan_in).sqrt()),
            Init::KaimingNormal => normal((2.0 / fan_in).sqrt()),
            Init::FanIn => uniform(fan_in.sqrt().recip()),
            Init::Orthogonal(gain) => match dims {
                [rows, columns] => (&orthogonal(key, *rows, *columns) * gain).cast(dtype),
                _ => Init::XavierNormal.draw(key, dtype, dims),
            },
        }
    }
}

/// The orthogonal factor of a normal matrix: what Newton's iteration for the matrix sign converges to.
fn orthogonal(key: &Key, rows: usize, columns: usize) -> Tensor {
    /// Rounds of an iteration that squares its error once it is near; the smallest singular values need the most.
    const ROUNDS: usize = 40;
    let drawn = key.normal(DType::F32, &[rows, columns]);
    let start = &drawn / &drawn.square().sum_all().sqrt();
    let is_wide = rows < columns;
    let start = if is_wide { start.swap_axes(0, 1) } else { start };
    let exact = |a: &Tensor, b: &Tensor, a_sum: usize, b_sum: usize| {
        let contraction = Contraction { lhs_sum: vec![a_sum], rhs_sum: vec![b_sum], ..Contraction::default() };
        a.dot_general(b, &contraction, DType::F32, Precision::Highest)
    };
    let (found, ()) = trace::scan(&start, &(), Some(ROUNDS), |x, ()| {
        let gram = exact(x, x, 0, 0);
        (&(x * 1.5) - &(&exact(x, &gram, 1, 0) * 0.5), ())
    });
    if is_wide { found.swap_axes(0, 1) } else { found }
}
