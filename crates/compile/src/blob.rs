//! Names of the pieces a compilation leaves behind.

/// The serialized executable, as the plugin loads it.
pub const EXECUTABLE: &str = "executable";
/// The program it was compiled from, so that a bundle can be warmed up from without its programs at hand.
pub const PROGRAM: &str = "program";
/// Optimized HLO: `HloModuleProtoWithConfig`.
pub const HLO: &str = "hlo";
/// The same, compressed, from the quick mode.
pub const HLO_ZSTD: &str = "hlo.zst";
/// `BufferAssignmentProto`, compressed, from the quick mode.
pub const BUFFERS_ZSTD: &str = "buffers.zst";
