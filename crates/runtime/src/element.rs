//! Element types of the host and of devices: the same types under two tables.

use pjrt::BufferType;
use tensor::DType;

/// How a device names a type of ours.
pub fn element_type(dtype: DType) -> BufferType {
    match dtype {
        DType::Bool => BufferType::Pred,
        DType::I2 => BufferType::S2,
        DType::I4 => BufferType::S4,
        DType::I8 => BufferType::S8,
        DType::I16 => BufferType::S16,
        DType::I32 => BufferType::S32,
        DType::I64 => BufferType::S64,
        DType::U2 => BufferType::U2,
        DType::U4 => BufferType::U4,
        DType::U8 => BufferType::U8,
        DType::U16 => BufferType::U16,
        DType::U32 => BufferType::U32,
        DType::U64 => BufferType::U64,
        DType::F4E2M1FN => BufferType::F4E2M1FN,
        DType::F6E2M3FN => BufferType::F6E2M3FN,
        DType::F6E3M2FN => BufferType::F6E3M2FN,
        DType::F8E3M4 => BufferType::F8E3M4,
        DType::F8E4M3 => BufferType::F8E4M3,
        DType::F8E4M3B11FNUZ => BufferType::F8E4M3B11FNUZ,
        DType::F8E4M3FN => BufferType::F8E4M3FN,
        DType::F8E4M3FNUZ => BufferType::F8E4M3FNUZ,
        DType::F8E5M2 => BufferType::F8E5M2,
        DType::F8E5M2FNUZ => BufferType::F8E5M2FNUZ,
        DType::F8E8M0FNU => BufferType::F8E8M0FNU,
        DType::BF16 => BufferType::Bf16,
        DType::F16 => BufferType::F16,
        DType::F32 => BufferType::F32,
        DType::F64 => BufferType::F64,
        DType::C64 => BufferType::C64,
        DType::C128 => BufferType::C128,
    }
}

/// Our name for a device's type; `None` for tokens and types we do not have.
pub fn dtype(element: BufferType) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| element_type(*dtype) == element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_lead_back() {
        for &ours in DType::ALL {
            assert_eq!(dtype(element_type(ours)), Some(ours));
        }
        assert_eq!(dtype(BufferType::Token), None);
    }
}
