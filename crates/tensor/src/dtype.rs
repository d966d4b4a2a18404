//! Element types of the StableHLO specification, their widths and spellings.

use std::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $bits:literal, $class:ident;)*) => {
        /// An element type. The spelling is MLIR's (`i32` is signed, `ui32` unsigned, `i1` a boolean).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types)]
        pub enum DType { $($(#[$doc])* $variant,)* }

        impl DType {
            /// Every element type, in declaration order.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The MLIR spelling, as in `tensor<4xf32>`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Width of one element in bits, before any padding to a byte.
            pub const fn bits(self) -> u32 {
                match self { $(DType::$variant => $bits,)* }
            }

            const fn class(self) -> Class {
                match self { $(DType::$variant => Class::$class,)* }
            }

            /// The element type an MLIR spelling names.
            pub fn from_name(name: &str) -> Option<DType> {
                Some(match name { $($name => DType::$variant,)* _ => return None })
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bool,
    Signed,
    Unsigned,
    Float,
    Complex,
}

dtypes! {
    /// Boolean.
    Bool, "i1", 1, Bool;
    /// Signed 2-bit integer.
    I2, "i2", 2, Signed;
    /// Signed 4-bit integer.
    I4, "i4", 4, Signed;
    /// Signed 8-bit integer.
    I8, "i8", 8, Signed;
    /// Signed 16-bit integer.
    I16, "i16", 16, Signed;
    /// Signed 32-bit integer.
    I32, "i32", 32, Signed;
    /// Signed 64-bit integer.
    I64, "i64", 64, Signed;
    /// Unsigned 2-bit integer.
    U2, "ui2", 2, Unsigned;
    /// Unsigned 4-bit integer.
    U4, "ui4", 4, Unsigned;
    /// Unsigned 8-bit integer.
    U8, "ui8", 8, Unsigned;
    /// Unsigned 16-bit integer.
    U16, "ui16", 16, Unsigned;
    /// Unsigned 32-bit integer.
    U32, "ui32", 32, Unsigned;
    /// Unsigned 64-bit integer.
    U64, "ui64", 64, Unsigned;
    /// 4-bit float, 2 exponent bits, finite only.
    F4E2M1FN, "f4E2M1FN", 4, Float;
    /// 6-bit float, 2 exponent bits, finite only.
    F6E2M3FN, "f6E2M3FN", 6, Float;
    /// 6-bit float, 3 exponent bits, finite only.
    F6E3M2FN, "f6E3M2FN", 6, Float;
    /// 8-bit float, 3 exponent bits, IEEE-style.
    F8E3M4, "f8E3M4", 8, Float;
    /// 8-bit float, 4 exponent bits, IEEE-style.
    F8E4M3, "f8E4M3", 8, Float;
    /// 8-bit float, 4 exponent bits, finite, no negative zero, bias 11.
    F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8, Float;
    /// 8-bit float, 4 exponent bits, finite.
    F8E4M3FN, "f8E4M3FN", 8, Float;
    /// 8-bit float, 4 exponent bits, finite, no negative zero.
    F8E4M3FNUZ, "f8E4M3FNUZ", 8, Float;
    /// 8-bit float, 5 exponent bits, IEEE-style.
    F8E5M2, "f8E5M2", 8, Float;
    /// 8-bit float, 5 exponent bits, finite, no negative zero.
    F8E5M2FNUZ, "f8E5M2FNUZ", 8, Float;
    /// 8-bit power-of-two scale: exponent only, unsigned.
    F8E8M0FNU, "f8E8M0FNU", 8, Float;
    /// Brain float: the upper half of an f32.
    BF16, "bf16", 16, Float;
    /// IEEE half precision.
    F16, "f16", 16, Float;
    /// IEEE single precision.
    F32, "f32", 32, Float;
    /// IEEE double precision.
    F64, "f64", 64, Float;
    /// Pair of f32: real, imaginary.
    C64, "complex<f32>", 64, Complex;
    /// Pair of f64: real, imaginary.
    C128, "complex<f64>", 128, Complex;
}

impl DType {
    /// Bytes of one element in host memory: sub-byte types take one byte each.
    pub const fn size_bytes(self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    /// Whether this is the boolean type.
    pub const fn is_bool(self) -> bool {
        matches!(self.class(), Class::Bool)
    }

    /// Whether this is a signed or unsigned integer (not boolean).
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// Whether this is a signed integer.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self.class(), Class::Signed)
    }

    /// Whether this is an unsigned integer.
    pub const fn is_unsigned_integer(self) -> bool {
        matches!(self.class(), Class::Unsigned)
    }

    /// Whether this is a real floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// Whether this is a complex type.
    pub const fn is_complex(self) -> bool {
        matches!(self.class(), Class::Complex)
    }

    /// The real type of a complex type's parts.
    pub const fn complex_part(self) -> Option<DType> {
        match self {
            DType::C64 => Some(DType::F32),
            DType::C128 => Some(DType::F64),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("i3"), None);
    }

    #[test]
    fn sub_byte_types_take_one_byte_on_the_host() {
        assert_eq!(DType::I4.size_bytes(), 1);
        assert_eq!(DType::Bool.size_bytes(), 1);
        assert_eq!(DType::C128.size_bytes(), 16);
    }
}
