//! What the generator knows about a value: its type, how large it can be, and how far two right answers may lie apart.

use tensor::DType;

/// A value of a generated program.
///
/// Errors are absolute bounds that follow the ops. A float that is a multiple of `2^-grid` and small enough to be exact
/// has no error in any order of summation, so most results are compared exactly; ops that jump (compare, floor, convert
/// to integers) only get values without error.
#[derive(Clone, Debug)]
pub(super) struct V {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    /// Largest finite magnitude.
    pub(super) size: f64,
    /// Two right answers lie at most this far apart.
    pub(super) error: f64,
    /// All finite elements are multiples of `2^-grid`.
    pub(super) grid: Option<i32>,
    /// All elements are positive and at least a half.
    pub(super) is_positive: bool,
    /// There may be infinities and NaNs.
    pub(super) has_special: bool,
    /// Signs of zeros and bits of NaNs are certain: no arithmetic was done.
    pub(super) is_untouched: bool,
}

impl V {
    /// What an argument or a constant is: small, exact, and as it came.
    pub(super) fn argument(name: String, dtype: DType, dims: Vec<usize>) -> V {
        V {
            name,
            dtype,
            dims,
            size: 2.0,
            error: 0.0,
            grid: Some(2),
            is_positive: false,
            has_special: false,
            is_untouched: true,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.dims.iter().product()
    }

    pub(super) fn ty(&self) -> String {
        ty(self.dtype, &self.dims)
    }

    pub(super) fn is_float(&self) -> bool {
        self.dtype.is_float()
    }

    pub(super) fn is_exact(&self) -> bool {
        self.error == 0.0
    }

    /// Smallest magnitude that is not zero, where one is known.
    pub(super) fn least(&self) -> Option<f64> {
        if self.is_positive { Some(0.5) } else { self.grid.map(|g| f64::from(-g).exp2()) }
    }

    /// The value after arithmetic that gives this size, error before rounding, and grid.
    pub(super) fn computed(mut self, size: f64, error: f64, grid: Option<i32>) -> V {
        self.is_untouched = false;
        self.is_positive = false;
        if !self.is_float() {
            return self;
        }
        let (bits, finest) = precision(self.dtype);
        self.size = size;
        let is_exact = |g: &i32| error == 0.0 && *g <= finest && size * f64::from(*g).exp2() <= f64::from(bits).exp2();
        self.grid = grid.filter(is_exact);
        self.error = if self.grid.is_some() { 0.0 } else { error + epsilon(self.dtype) * size.max(1e-3) };
        self
    }

    /// The sum of `count` products of `size` each. Narrow floats are summed in `f32` and rounded once, so that what is exact
    /// there is the same for all.
    pub(super) fn product(self, count: usize, size: f64, error: f64, grid: Option<i32>) -> V {
        if !self.is_float() {
            return self.computed(size, error, grid);
        }
        let n = count as f64;
        let dtype = self.dtype;
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let sum = V { dtype: wide, ..self }.computed(n * size, n * error, grid);
        let is_exact = sum.is_exact();
        let rounded = V { dtype, ..sum }.computed(n * size, n * error, grid);
        let error = if is_exact { 0.0 } else { rounded.error + n * n * epsilon(wide) * size };
        V { error, ..rounded }
    }

    /// Whether arithmetic on it stays within the type and means something.
    pub(super) fn is_calm(&self) -> bool {
        !self.is_float() || self.size <= limit(self.dtype) && self.error <= 0.02 * self.size.max(1.0)
    }
}

/// The text of a tensor type.
pub(super) fn ty(dtype: DType, dims: &[usize]) -> String {
    let mut text = String::from("tensor<");
    for d in dims {
        text += &format!("{d}x");
    }
    text + dtype.name() + ">"
}

/// Bits of the significand, and the finest grid without denormals.
fn precision(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F64 => (53, 40),
        DType::F32 => (24, 30),
        DType::BF16 => (8, 30),
        DType::F16 => (11, 12),
        DType::F8E4M3FN => (4, 5),
        _ => (3, 12),
    }
}

/// Distance between 1 and the next number, as a part.
pub(super) fn epsilon(dtype: DType) -> f64 {
    f64::from(1 - precision(dtype).0).exp2()
}

/// Magnitude up to which arithmetic is done.
pub(super) fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::F32 => 1e6,
        DType::BF16 => 1e4,
        DType::F16 => 2e3,
        DType::F8E4M3FN => 50.0,
        _ => 500.0,
    }
}
