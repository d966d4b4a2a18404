//! Indices held in arrays of any integer type, and the places they name once clamped.
#![allow(unsafe_code)]

use tensor::DType;

use super::dense_strides;

/// The representation of an index in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl IndexType {
    /// How an integer (or boolean) type is held; `None` for other types.
    pub(crate) fn of(dtype: DType) -> Option<IndexType> {
        Some(match dtype {
            DType::I2 | DType::I4 | DType::I8 => IndexType::I8,
            DType::I16 => IndexType::I16,
            DType::I32 => IndexType::I32,
            DType::I64 => IndexType::I64,
            DType::Bool | DType::U2 | DType::U4 | DType::U8 => IndexType::U8,
            DType::U16 => IndexType::U16,
            DType::U32 => IndexType::U32,
            DType::U64 => IndexType::U64,
            _ => return None,
        })
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            IndexType::I8 | IndexType::U8 => 1,
            IndexType::I16 | IndexType::U16 => 2,
            IndexType::I32 | IndexType::U32 => 4,
            IndexType::I64 | IndexType::U64 => 8,
        }
    }

    /// The index at an address. What `i64` cannot hold becomes its largest value, which is out of every bound.
    ///
    /// # Safety
    /// `at` is readable for one element.
    #[inline(always)]
    pub(crate) unsafe fn read(self, at: *const u8) -> i64 {
        // SAFETY: the caller's promise; unaligned reads ask for no more.
        unsafe {
            match self {
                IndexType::I8 => i64::from(at.cast::<i8>().read()),
                IndexType::I16 => i64::from(at.cast::<i16>().read_unaligned()),
                IndexType::I32 => i64::from(at.cast::<i32>().read_unaligned()),
                IndexType::I64 => at.cast::<i64>().read_unaligned(),
                IndexType::U8 => i64::from(at.read()),
                IndexType::U16 => i64::from(at.cast::<u16>().read_unaligned()),
                IndexType::U32 => i64::from(at.cast::<u32>().read_unaligned()),
                IndexType::U64 => i64::try_from(at.cast::<u64>().read_unaligned()).unwrap_or(i64::MAX),
            }
        }
    }
}

/// Where a slice of fixed size starts in a dense array, from one index scalar per dimension.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    index: IndexType,
    /// Last valid start and stride in elements, per dimension.
    dims: Vec<(i64, isize)>,
}

impl Start {
    /// `None` when a slice is larger than the array, or the index is not an integer.
    pub(crate) fn new(operand: &[usize], slice: &[usize], index: DType) -> Option<Start> {
        if operand.len() != slice.len() {
            return None;
        }
        let strides = dense_strides(operand);
        let last = |d: usize| operand[d].checked_sub(slice[d]).and_then(|last| i64::try_from(last).ok());
        let dims = (0..operand.len()).map(|d| Some((last(d)?, strides[d]))).collect::<Option<Vec<_>>>()?;
        Some(Start { index: IndexType::of(index)?, dims })
    }

    /// The last element at which a slice may start: every start is clamped to it.
    pub(crate) fn last_element(&self) -> Option<isize> {
        self.dims
            .iter()
            .try_fold(0isize, |at, &(last, stride)| at.checked_add(isize::try_from(last).ok()?.checked_mul(stride)?))
    }

    /// Bytes of each index scalar, one for each dimension.
    pub(crate) fn index_bytes(&self) -> impl Iterator<Item = usize> {
        std::iter::repeat_n(self.index.bytes(), self.dims.len())
    }

    /// The element at which the slice starts.
    ///
    /// # Safety
    /// There is one readable scalar per dimension.
    pub(crate) unsafe fn element(&self, indices: &[*const u8]) -> isize {
        debug_assert_eq!(indices.len(), self.dims.len());
        let mut element = 0isize;
        for (&(last, stride), &index) in self.dims.iter().zip(indices) {
            // SAFETY: the caller's promise.
            let start = unsafe { self.index.read(index) }.clamp(0, last);
            element = element.wrapping_add((start as isize).wrapping_mul(stride));
        }
        element
    }
}
