//! Element types of arrays on devices.

use std::fmt;

macro_rules! buffer_types {
    ($($value:literal $variant:ident $name:literal $bits:literal,)*) => {
        /// Element type of an array, as plugins number them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum BufferType {
            $($variant,)*
            /// A type this crate does not know.
            Other(u32),
        }

        impl BufferType {
            /// Every type with a number known here.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The type a plugin numbers like this.
            pub fn from_number(number: u32) -> Self {
                match number {
                    $($value => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The number plugins give the type.
            pub fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $value,)*
                    Self::Other(number) => number,
                }
            }

            /// The name in HLO, such as `bf16`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(_) => "other",
                }
            }

            /// The type of a name in HLO.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Bits of one element. `None` for tokens and unknown types.
            pub fn bits(self) -> Option<u32> {
                match self {
                    $(Self::$variant if $bits > 0 => Some($bits),)*
                    _ => None,
                }
            }
        }
    };
}

buffer_types! {
    1 Pred "pred" 8,
    2 S8 "s8" 8,
    3 S16 "s16" 16,
    4 S32 "s32" 32,
    5 S64 "s64" 64,
    6 U8 "u8" 8,
    7 U16 "u16" 16,
    8 U32 "u32" 32,
    9 U64 "u64" 64,
    10 F16 "f16" 16,
    11 F32 "f32" 32,
    12 F64 "f64" 64,
    13 Bf16 "bf16" 16,
    14 C64 "c64" 64,
    15 C128 "c128" 128,
    16 F8E5M2 "f8e5m2" 8,
    17 F8E4M3FN "f8e4m3fn" 8,
    18 F8E4M3B11FNUZ "f8e4m3b11fnuz" 8,
    19 F8E5M2FNUZ "f8e5m2fnuz" 8,
    20 F8E4M3FNUZ "f8e4m3fnuz" 8,
    21 S4 "s4" 4,
    22 U4 "u4" 4,
    23 Token "token" 0,
    24 S2 "s2" 2,
    25 U2 "u2" 2,
    26 F8E4M3 "f8e4m3" 8,
    27 F8E3M4 "f8e3m4" 8,
    28 F8E8M0FNU "f8e8m0fnu" 8,
    29 F4E2M1FN "f4e2m1fn" 4,
    30 S1 "s1" 1,
    31 U1 "u1" 1,
    32 F6E2M3FN "f6e2m3fn" 6,
    33 F6E3M2FN "f6e3m2fn" 6,
}

impl BufferType {
    /// Bytes one element takes in host memory, where elements smaller than a byte take a whole one.
    pub fn host_bytes(self) -> Option<usize> {
        self.bits().map(|bits| bits.div_ceil(8) as usize)
    }
}

impl fmt::Display for BufferType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "type {number}"),
            known => f.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        for element in BufferType::ALL {
            assert_eq!(BufferType::from_number(element.number()), *element);
            assert_eq!(BufferType::from_name(element.name()), Some(*element));
        }
        assert_eq!(BufferType::from_number(pjrt_sys::PJRT_Buffer_Type_BF16), BufferType::Bf16);
        assert_eq!(BufferType::from_number(pjrt_sys::PJRT_Buffer_Type_F6E3M2FN), BufferType::F6E3M2FN);
        assert_eq!(BufferType::ALL.len() as u32, pjrt_sys::PJRT_Buffer_Type_F6E3M2FN);
    }

    #[test]
    fn sizes() {
        assert_eq!(BufferType::S4.host_bytes(), Some(1));
        assert_eq!(BufferType::C128.host_bytes(), Some(16));
        assert_eq!(BufferType::Token.host_bytes(), None);
        assert_eq!(BufferType::Other(99).bits(), None);
    }
}
