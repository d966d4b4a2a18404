//! Dense constant data: the elements of a tensor, or one element that fills it.

use std::sync::Arc;

use crate::ir::{ByteString, ElementType, TensorType};

/// The payload of a dense attribute, little-endian, one element after another, sub-byte types one byte each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DenseData {
    /// One element's bytes that stand for every element.
    Splat(Arc<[u8]>),
    /// Every element's bytes in row-major order.
    Elements(Arc<[u8]>),
    /// Text elements, which only attributes of other dialects use.
    Strings(Arc<[ByteString]>),
}

/// A constant tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dense {
    /// Type of the tensor; its dimensions are static.
    pub ty: TensorType,
    /// The elements.
    pub data: DenseData,
}

/// Bytes one element takes in [`Dense`] data.
pub fn element_bytes(ty: &TensorType) -> Option<usize> {
    match &ty.element {
        ElementType::Plain(dtype) => Some(dtype.size_bytes()),
        ElementType::Index => Some(8),
        ElementType::Quantized(quantized) => Some(quantized.storage.size_bytes()),
        ElementType::Tf32 => None,
    }
}

/// Gives the unused high bits of elements narrower than a byte one form: the sign for signed integers, zero otherwise.
fn fill_unused_bits(ty: &TensorType, bytes: &mut [u8]) {
    let dtype = match &ty.element {
        ElementType::Plain(dtype) => *dtype,
        ElementType::Quantized(quantized) => quantized.storage,
        ElementType::Index | ElementType::Tf32 => return,
    };
    if dtype.bits() >= 8 {
        return;
    }
    let unused = 8 - dtype.bits();
    for byte in bytes {
        *byte = if dtype.is_bool() {
            u8::from(*byte != 0)
        } else if dtype.is_signed_integer() {
            (((*byte << unused) as i8) >> unused) as u8
        } else {
            (*byte << unused) >> unused
        };
    }
}

impl Dense {
    /// A constant from all its elements; equal elements become a splat so that equal constants compare equal.
    ///
    /// Returns `None` if the number of bytes does not match the type.
    pub fn from_elements(ty: TensorType, mut bytes: Vec<u8>) -> Option<Dense> {
        let width = element_bytes(&ty)?;
        let count = usize::try_from(ty.num_elements()?).ok()?;
        if count.checked_mul(width)? != bytes.len() {
            return None;
        }
        fill_unused_bits(&ty, &mut bytes);
        let data = match bytes.chunks_exact(width).next() {
            Some(first) if bytes[width..] == bytes[..bytes.len() - width] => DenseData::Splat(first.into()),
            _ => DenseData::Elements(bytes.into()),
        };
        Some(Dense { ty, data })
    }

    /// A constant filled with one element.
    pub fn splat(ty: TensorType, element: &[u8]) -> Option<Dense> {
        if element_bytes(&ty)? != element.len() {
            return None;
        }
        if ty.num_elements() == Some(0) {
            return Some(Dense { ty, data: DenseData::Elements(Arc::from([])) });
        }
        let mut element = element.to_vec();
        fill_unused_bits(&ty, &mut element);
        Some(Dense { ty, data: DenseData::Splat(element.into()) })
    }

    /// The integers of an integer constant, splats expanded, if there are at most `limit`.
    pub fn to_i64s(&self, limit: usize) -> Option<Vec<i64>> {
        let width = element_bytes(&self.ty)?;
        let signed = match &self.ty.element {
            ElementType::Plain(d) if d.is_integer() || d.is_bool() => d.is_signed_integer(),
            ElementType::Index => true,
            _ => return None,
        };
        let count = usize::try_from(self.ty.num_elements()?).ok().filter(|&n| n <= limit)?;
        if matches!(&self.data, DenseData::Splat(element) if element.len() != width) {
            return None;
        }
        let read = |bytes: &[u8]| {
            let mut word = [0u8; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let value = i64::from_le_bytes(word);
            let unused = 64 - 8 * bytes.len() as u32;
            if signed { (value << unused) >> unused } else { value }
        };
        match &self.data {
            DenseData::Splat(element) => Some(vec![read(element); count]),
            DenseData::Elements(bytes) => Some(bytes.chunks_exact(width).map(read).collect()),
            DenseData::Strings(_) => None,
        }
    }
}
