//! Type and shape of an array, without its contents.

use std::fmt;

use crate::DType;

/// Type and shape of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Element type.
    pub dtype: DType,
    /// Sizes, major to minor.
    pub dims: Vec<usize>,
}

impl Spec {
    /// Type and shape.
    pub fn new(dtype: DType, dims: impl Into<Vec<usize>>) -> Spec {
        Spec { dtype, dims: dims.into() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Bytes on the host.
    pub fn bytes(&self) -> u64 {
        self.num_elements() as u64 * self.dtype.size_bytes() as u64
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(usize::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(","))
    }
}
