//! Elements of constants: from the bytes MLIR stores to [`Dense`] and back.

use tensor::DType;

use super::cursor::Cursor;
use crate::error::Error;
use crate::ir::{Attr, Dense, DenseData, ElementType, TensorType, Type, element_bytes};

/// A dense attribute from its stored bytes: all elements, or one that fills the tensor.
pub(super) fn dense(cursor: &Cursor<'_>, ty: &Type, blob: &[u8]) -> Result<Attr, Error> {
    let Type::Tensor(tensor) = ty else {
        return Err(cursor.error("a constant's type must be a tensor"));
    };
    let tensor = TensorType::clone(tensor);
    let width = element_bytes(&tensor).ok_or_else(|| cursor.error("constants of this element type do not exist"))?;
    let count = tensor.num_elements().and_then(|n| usize::try_from(n).ok());
    let count = count.ok_or_else(|| cursor.error("a constant's shape must be static and of possible size"))?;
    let bad_size = || cursor.error(format!("{} bytes do not fill {count} elements of {width} bytes", blob.len()));
    let storage = storage(&tensor.element);
    let mut bytes = match storage {
        Some(DType::Bool) => unpack_booleans(blob, count),
        _ => blob.to_vec(),
    };
    for byte in &mut bytes {
        *byte = widen(storage, *byte);
    }
    let dense = if count.checked_mul(width) == Some(bytes.len()) {
        Dense::from_elements(tensor, bytes)
    } else if bytes.len() == width {
        Dense::splat(tensor, &bytes)
    } else {
        None
    };
    dense.map(|dense| Attr::Dense(dense.into())).ok_or_else(bad_size)
}

/// The bytes MLIR stores for a constant; booleans packed eight to a byte.
pub(super) fn stored_bytes(dense: &Dense) -> Option<Vec<u8>> {
    let storage = storage(&dense.ty.element);
    let count = usize::try_from(dense.ty.num_elements()?).ok()?;
    let narrow = |bytes: &[u8]| bytes.iter().map(|&b| narrow(storage, b)).collect::<Vec<u8>>();
    Some(match (&dense.data, storage) {
        (DenseData::Splat(element), Some(DType::Bool)) => {
            let is_true = element.first().is_some_and(|&b| b != 0);
            // Eight or fewer elements could be read as packed; all ones is the only pattern that means the same both ways.
            vec![if !is_true {
                0
            } else if count == 1 {
                1
            } else {
                0xff
            }]
        }
        (DenseData::Elements(bytes), Some(DType::Bool)) => {
            let mut packed = vec![0u8; bytes.len().div_ceil(8)];
            for (i, _) in bytes.iter().enumerate().filter(|(_, b)| **b != 0) {
                packed[i / 8] |= 1 << (i % 8);
            }
            packed
        }
        (DenseData::Splat(bytes) | DenseData::Elements(bytes), _) => narrow(bytes),
        (DenseData::Strings(_), _) => return None,
    })
}

fn storage(element: &ElementType) -> Option<DType> {
    match element {
        ElementType::Plain(dtype) => Some(*dtype),
        ElementType::Quantized(quantized) => Some(quantized.storage),
        _ => None,
    }
}

fn unpack_booleans(blob: &[u8], count: usize) -> Vec<u8> {
    match blob {
        [0xff] => vec![1],
        _ if blob.len() == count.div_ceil(8) && blob.len() != count => {
            (0..count).map(|i| blob[i / 8] >> (i % 8) & 1).collect()
        }
        _ => blob.iter().map(|&b| u8::from(b != 0)).collect(),
    }
}

/// A stored sub-byte integer as the byte [`Dense`] holds: signed ones extended by their sign.
fn widen(storage: Option<DType>, byte: u8) -> u8 {
    match storage {
        Some(DType::I2) => ((byte << 6) as i8 >> 6) as u8,
        Some(DType::I4) => ((byte << 4) as i8 >> 4) as u8,
        Some(DType::U2) => byte & 3,
        Some(DType::U4) => byte & 15,
        _ => byte,
    }
}

fn narrow(storage: Option<DType>, byte: u8) -> u8 {
    match storage {
        Some(DType::I2) => byte & 3,
        Some(DType::I4) => byte & 15,
        _ => byte,
    }
}
