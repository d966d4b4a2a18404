//! Programs as plugins take and give them: bytes with a format.

use std::fmt;
use std::marker::PhantomData;

use pjrt_sys::PJRT_Program;

use crate::api::chars;

/// How the bytes of an [`EncodedProgram`] are to be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// An MLIR module, as text or bytecode.
    Mlir,
    /// A serialized `HloModuleProto`.
    Hlo,
    /// A serialized `HloModuleProtoWithConfig`.
    HloWithConfig,
    /// A format this crate does not know.
    Other(String),
}

impl Format {
    /// The name plugins use.
    pub fn name(&self) -> &str {
        match self {
            Self::Mlir => "mlir",
            Self::Hlo => "hlo",
            Self::HloWithConfig => "hlo_with_config",
            Self::Other(name) => name,
        }
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "mlir" => Self::Mlir,
            "hlo" => Self::Hlo,
            "hlo_with_config" => Self::HloWithConfig,
            other => Self::Other(other.into()),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A program for a compiler, or what a compiler made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedProgram {
    /// How to read the bytes.
    pub format: Format,
    /// The program.
    pub bytes: Vec<u8>,
}

impl EncodedProgram {
    /// A StableHLO module, as text or bytecode.
    pub fn mlir(bytes: impl Into<Vec<u8>>) -> Self {
        Self { format: Format::Mlir, bytes: bytes.into() }
    }

    /// A serialized `HloModuleProto`.
    pub fn hlo(bytes: impl Into<Vec<u8>>) -> Self {
        Self { format: Format::Hlo, bytes: bytes.into() }
    }

    pub(crate) fn raw(&self) -> RawProgram<'_> {
        let mut raw = PJRT_Program::new();
        // Plugins only read a program given to them, though the C struct is not const.
        raw.code = chars(&self.bytes).cast_mut();
        raw.code_size = self.bytes.len();
        raw.format = chars(self.format.name().as_bytes());
        raw.format_size = self.format.name().len();
        RawProgram { raw, program: PhantomData }
    }
}

/// A program in C form, borrowed from an [`EncodedProgram`].
pub(crate) struct RawProgram<'a> {
    pub(crate) raw: PJRT_Program,
    program: PhantomData<&'a EncodedProgram>,
}
