//! Bytes of tensors put into another order or type.

pub(crate) use tensor::transpose_matrices as transposed;
use tensor::{DType, Literal};

/// Columns `from..from + count` of rows of `columns`.
pub(crate) fn columns_of(bytes: &[u8], columns: usize, from: usize, count: usize, width: usize) -> Vec<u8> {
    let row = (columns * width).max(1);
    let mut out = Vec::with_capacity(bytes.len() / row * count * width);
    for row in bytes.chunks_exact(row) {
        out.extend_from_slice(row.get(from * width..(from + count) * width).unwrap_or_default());
    }
    out
}

/// Elements as another type of floats; `None` where one is no float.
pub(crate) fn converted(bytes: Vec<u8>, from: DType, to: DType) -> Option<Vec<u8>> {
    if from == to {
        return Some(bytes);
    }
    if !from.is_float() || !to.is_float() {
        return None;
    }
    let count = bytes.len() / from.size_bytes().max(1);
    Some(Literal::new(from, [count], bytes)?.cast(to).ok()?.into_bytes())
}
