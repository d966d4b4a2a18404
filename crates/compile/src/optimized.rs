//! What the compiler made of a program, decoded: instructions, schedule and buffers.

use xla::{BufferAssignment, HloModule};

use crate::blob;
use crate::cache::Blob;

/// What the compiler made of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizedProgram {
    /// The optimized HLO.
    pub module: HloModule,
    /// Where values are kept; the quick mode tells.
    pub buffers: Option<BufferAssignment>,
}

impl OptimizedProgram {
    /// Decodes what a compilation left behind; `None` where it left no HLO.
    pub(crate) fn decode(blobs: &[Blob]) -> Result<Option<OptimizedProgram>, xla::Error> {
        let Some(module) = decode_module(blobs)? else { return Ok(None) };
        Ok(Some(OptimizedProgram { module, buffers: decode_buffers(blobs)? }))
    }
}

/// The optimized HLO among what a compilation left behind.
pub(crate) fn decode_module(blobs: &[Blob]) -> Result<Option<HloModule>, xla::Error> {
    match (find(blobs, blob::HLO), find(blobs, blob::HLO_ZSTD)) {
        (Some(bytes), _) => HloModule::from_hlo_with_config(bytes).map(Some),
        (None, Some(bytes)) => HloModule::from_zstd(bytes).map(Some),
        (None, None) => Ok(None),
    }
}

/// The buffers among what a compilation left behind.
pub(crate) fn decode_buffers(blobs: &[Blob]) -> Result<Option<BufferAssignment>, xla::Error> {
    find(blobs, blob::BUFFERS_ZSTD).map(BufferAssignment::from_zstd).transpose()
}

pub(crate) fn find<'a>(blobs: &'a [Blob], name: &str) -> Option<&'a [u8]> {
    blobs.iter().find(|blob| blob.name == name).map(|blob| blob.bytes.as_slice())
}
