//! Element types as the table numbers them.

use pjrt_sys::*;
use tensor::DType;

use super::call::Failure;

const TYPES: [(PJRT_Buffer_Type, DType); 31] = [
    (PJRT_Buffer_Type_PRED, DType::Bool),
    (PJRT_Buffer_Type_S8, DType::I8),
    (PJRT_Buffer_Type_S16, DType::I16),
    (PJRT_Buffer_Type_S32, DType::I32),
    (PJRT_Buffer_Type_S64, DType::I64),
    (PJRT_Buffer_Type_U8, DType::U8),
    (PJRT_Buffer_Type_U16, DType::U16),
    (PJRT_Buffer_Type_U32, DType::U32),
    (PJRT_Buffer_Type_U64, DType::U64),
    (PJRT_Buffer_Type_F16, DType::F16),
    (PJRT_Buffer_Type_F32, DType::F32),
    (PJRT_Buffer_Type_F64, DType::F64),
    (PJRT_Buffer_Type_BF16, DType::BF16),
    (PJRT_Buffer_Type_C64, DType::C64),
    (PJRT_Buffer_Type_C128, DType::C128),
    (PJRT_Buffer_Type_F8E5M2, DType::F8E5M2),
    (PJRT_Buffer_Type_F8E4M3FN, DType::F8E4M3FN),
    (PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::F8E4M3B11FNUZ),
    (PJRT_Buffer_Type_F8E5M2FNUZ, DType::F8E5M2FNUZ),
    (PJRT_Buffer_Type_F8E4M3FNUZ, DType::F8E4M3FNUZ),
    (PJRT_Buffer_Type_S4, DType::I4),
    (PJRT_Buffer_Type_U4, DType::U4),
    (PJRT_Buffer_Type_S2, DType::I2),
    (PJRT_Buffer_Type_U2, DType::U2),
    (PJRT_Buffer_Type_F8E4M3, DType::F8E4M3),
    (PJRT_Buffer_Type_F8E3M4, DType::F8E3M4),
    (PJRT_Buffer_Type_F8E8M0FNU, DType::F8E8M0FNU),
    (PJRT_Buffer_Type_F4E2M1FN, DType::F4E2M1FN),
    (PJRT_Buffer_Type_F6E2M3FN, DType::F6E2M3FN),
    (PJRT_Buffer_Type_F6E3M2FN, DType::F6E3M2FN),
    // Tokens have no data: they cross the edge as an array of no booleans.
    (PJRT_Buffer_Type_TOKEN, DType::Bool),
];

/// The element type of a number.
pub(super) fn from_number(number: PJRT_Buffer_Type) -> Result<DType, Failure> {
    let found = TYPES.iter().find(|(n, _)| *n == number).map(|(_, dtype)| *dtype);
    found.ok_or_else(|| Failure::unimplemented(format!("element type {number}")))
}

/// The number of an element type.
pub(super) fn number(dtype: DType) -> PJRT_Buffer_Type {
    TYPES.iter().find(|(_, d)| *d == dtype).map_or(PJRT_Buffer_Type_INVALID, |(n, _)| *n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_has_a_number() {
        for &dtype in DType::ALL {
            assert_eq!(from_number(number(dtype)), Ok(dtype));
        }
        assert!(from_number(0).is_err());
    }
}
