//! MLIR bytecode: portable artifacts (VHLO) read and written; plain StableHLO and what is mixed into it read.

mod assembly;
mod builtin;
mod constant;
mod container;
mod cursor;
mod legalize;
mod module;
mod op_attrs;
mod program;
mod sdy;
mod stablehlo;
mod tables;
mod vhlo;
mod write;

use crate::error::Error;
use crate::ir::{Attr, Module};

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Text the writing tool left, as in `StableHLO_v1.9.0` or `MLIR23.0.0`.
    pub producer: String,
    /// Version of the container.
    pub bytecode_version: u64,
    /// StableHLO version of a portable artifact, from its producer.
    pub stablehlo_version: Option<(u32, u32, u32)>,
}

/// Whether the bytes begin like MLIR bytecode.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    container::has_magic(bytes)
}

/// What the file says about itself, without reading the program.
pub fn artifact(bytes: &[u8]) -> Result<Artifact, Error> {
    let (bytecode_version, producer, _) = container::header(bytes)?;
    Ok(Artifact { producer: producer.to_owned(), bytecode_version, stablehlo_version: stablehlo_version(producer) })
}

/// Reads a program.
pub fn read(bytes: &[u8]) -> Result<Module, Error> {
    module::read(&container::Container::open(bytes)?)
}

/// Attributes of MLIR's builtin dialect in bytecode of any dialects, such as the body of a TPU kernel. What holds an attribute of a dialect
/// that is not known here is left out.
pub fn builtin_attributes(bytes: &[u8]) -> Result<Vec<Attr>, Error> {
    Ok(tables::Tables::new(&container::Container::open(bytes)?).builtin())
}

/// Writes a portable artifact that `deserialize_portable_artifact` of StableHLO reads: bytecode version 6, StableHLO 1.10.0
/// or the first version that has every op the program uses.
pub fn write(module: &Module) -> Result<Vec<u8>, Error> {
    write::write(module)
}

fn stablehlo_version(producer: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = producer.strip_prefix("StableHLO_v")?.splitn(3, '.').map(|n| n.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}
