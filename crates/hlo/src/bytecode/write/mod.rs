//! Writer of portable artifacts: VHLO in the newest container, at the oldest StableHLO version that has every op used.

mod attrs;
mod emitter;
mod flatten;
mod program;
mod sdy;
mod tables;
mod types;

use super::container::{MAGIC, NEWEST_VERSION, section};
use crate::error::Error;
use crate::ir::Module;
use emitter::Emitter;
use tables::Tables;

/// The bytes of a portable artifact.
pub(super) fn write(module: &Module) -> Result<Vec<u8>, Error> {
    let mut tables = Tables::default();
    let ir = program::module(&mut tables, module)?;
    let (major, minor, patch) = tables.version();
    let mut out = Emitter::default();
    out.bytes(&MAGIC);
    out.varint(NEWEST_VERSION);
    out.bytes(format!("StableHLO_v{major}.{minor}.{patch}\0").as_bytes());
    tables.emit(&mut out);
    out.section(section::IR, &ir);
    Ok(out.finish())
}
