//! Bytes of tensors put into another order or type.

use tensor::{DType, decode_float, encode_float};

/// A matrix `[rows, columns]` with its axes exchanged; also of more matrices in a row.
pub(crate) fn transposed(bytes: &[u8], rows: usize, columns: usize, width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for matrix in bytes.chunks((rows * columns * width).max(1)) {
        for column in 0..columns {
            for row in 0..rows {
                let at = (row * columns + column) * width;
                out.extend_from_slice(matrix.get(at..at + width).unwrap_or_default());
            }
        }
    }
    out
}

/// Columns `from..from + count` of rows of `columns`.
pub(crate) fn columns_of(bytes: &[u8], columns: usize, from: usize, count: usize, width: usize) -> Vec<u8> {
    let rows = bytes.chunks_exact((columns * width).max(1));
    rows.flat_map(|row| row.get(from * width..(from + count) * width).unwrap_or_default()).copied().collect()
}

/// Elements as another type of floats; `None` where one is no float.
pub(crate) fn converted(bytes: Vec<u8>, from: DType, to: DType) -> Option<Vec<u8>> {
    if from == to {
        return Some(bytes);
    }
    if !from.is_float() || !to.is_float() {
        return None;
    }
    if from == DType::BF16 && to == DType::F32 {
        return Some(bytes.chunks_exact(2).flat_map(|half| [0, 0, half[0], half[1]]).collect());
    }
    let (old, new) = (from.size_bytes(), to.size_bytes());
    let mut out = Vec::with_capacity(bytes.len() / old.max(1) * new);
    for element in bytes.chunks_exact(old) {
        let mut bits = [0; 8];
        bits.get_mut(..old)?.copy_from_slice(element);
        let value = decode_float(from, u64::from_le_bytes(bits))?;
        out.extend_from_slice(encode_float(to, value)?.to_le_bytes().get(..new)?);
    }
    Some(out)
}
