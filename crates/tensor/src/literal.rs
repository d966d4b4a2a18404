//! Host tensors: an element type, a shape and bytes.

use crate::DType;

/// A tensor on the host: row-major, little-endian, sub-byte elements one byte each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    dtype: DType,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

impl Literal {
    /// A literal from its bytes; `None` if their number does not fit type and shape.
    pub fn new(dtype: DType, dims: impl Into<Vec<usize>>, bytes: Vec<u8>) -> Option<Literal> {
        let dims = dims.into();
        let expected = byte_count(dtype, &dims)?;
        (bytes.len() == expected).then_some(Literal { dtype, dims, bytes })
    }

    /// A literal of zeros; `None` if its size does not fit into memory addresses.
    pub fn zeros(dtype: DType, dims: impl Into<Vec<usize>>) -> Option<Literal> {
        let dims = dims.into();
        let bytes = vec![0; byte_count(dtype, &dims)?];
        Some(Literal { dtype, dims, bytes })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, major to minor.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The elements.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The elements, taken out.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.dims.iter().product()
    }
}

fn byte_count(dtype: DType, dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(dtype.size_bytes(), |n, &d| n.checked_mul(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_fit_the_shape() {
        assert!(Literal::new(DType::F32, [2, 3], vec![0; 24]).is_some());
        assert!(Literal::new(DType::F32, [2, 3], vec![0; 23]).is_none());
        assert!(Literal::zeros(DType::F64, [usize::MAX, 2]).is_none());
        assert_eq!(Literal::zeros(DType::I4, [3]).unwrap().bytes().len(), 3);
    }
}
