//! Element types of the host and of devices: the same types under two tables.

use pjrt::ElementType;
use tensor::DType;

/// How a device names a type of ours.
pub fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Pred,
        DType::I2 => ElementType::S2,
        DType::I4 => ElementType::S4,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::U2 => ElementType::U2,
        DType::U4 => ElementType::U4,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F4E2M1FN => ElementType::F4E2M1FN,
        DType::F6E2M3FN => ElementType::F6E2M3FN,
        DType::F6E3M2FN => ElementType::F6E3M2FN,
        DType::F8E3M4 => ElementType::F8E3M4,
        DType::F8E4M3 => ElementType::F8E4M3,
        DType::F8E4M3B11FNUZ => ElementType::F8E4M3B11FNUZ,
        DType::F8E4M3FN => ElementType::F8E4M3FN,
        DType::F8E4M3FNUZ => ElementType::F8E4M3FNUZ,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::F8E5M2FNUZ => ElementType::F8E5M2FNUZ,
        DType::F8E8M0FNU => ElementType::F8E8M0FNU,
        DType::BF16 => ElementType::Bf16,
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
    }
}

/// Our name for a device's type; `None` for tokens and types we do not have.
pub fn dtype(element: ElementType) -> Option<DType> {
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
        assert_eq!(dtype(ElementType::Token), None);
    }
}
