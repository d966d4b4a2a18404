//! Reads a program whatever its form.

use crate::error::Error;
use crate::ir::Module;
use crate::{bytecode, text};

/// Reads StableHLO text or MLIR bytecode; the first bytes tell which.
pub fn read(bytes: &[u8]) -> Result<Module, Error> {
    if bytecode::is_bytecode(bytes) { bytecode::read(bytes) } else { text::parse_bytes(bytes) }
}
