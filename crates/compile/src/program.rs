//! A program as the compiler takes it: its bytes, and what we know of it from reading it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use hlo::{Attr, Module, OpKind};
use sha2::{Digest, Sha256};

use crate::cache::ProgramParts;
use crate::error::CompileError;

/// A verified program and the bytes it came from.
#[derive(Clone, Debug)]
pub struct Program {
    bytes: Vec<u8>,
    module: hlo::Verified,
    digest: OnceLock<[u8; 32]>,
}

/// Which partitioner reads the program's annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// Shardy when the program has `sdy` annotations, GSPMD otherwise.
    #[default]
    Auto,
    /// Shardy.
    Shardy,
    /// GSPMD.
    Gspmd,
}

impl Program {
    /// Reads StableHLO text or bytecode and verifies it.
    pub fn read(bytes: Vec<u8>) -> Result<Program, CompileError> {
        let _span = tracing::debug_span!("trace", bytes = bytes.len()).entered();
        let module = hlo::read(&bytes)?;
        let module = hlo::verify(module)?;
        Ok(Program { bytes, module, digest: OnceLock::new() })
    }

    /// Reads a file of StableHLO text or bytecode and verifies it.
    pub fn open(path: impl AsRef<Path>) -> Result<Program, CompileError> {
        let path = path.as_ref();
        Program::read(std::fs::read(path).map_err(|error| CompileError::io("reading", path, error))?)
    }

    /// A program that was made here: written as a portable artifact, or as text where it holds what artifacts cannot. libtpu 0.0.51 takes
    /// ops of CHLO in text only.
    pub fn from_module(module: hlo::Verified) -> Program {
        let mut ops = module.funcs.iter().flat_map(|func| &func.ops);
        let artifact = match ops.any(|op| op.name.as_str().starts_with("chlo.")) {
            true => None,
            false => hlo::bytecode::write(&module).ok(),
        };
        let bytes = artifact.unwrap_or_else(|| hlo::text::print(&module).into_bytes());
        Program { bytes, module, digest: OnceLock::new() }
    }

    /// What the compiler is given.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The program.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The program, as verified.
    pub fn verified(&self) -> &hlo::Verified {
        &self.module
    }

    /// The module's name.
    pub fn name(&self) -> &str {
        self.module.name.as_deref().unwrap_or("module")
    }

    /// A digest of the bytes, computed once.
    pub fn digest(&self) -> [u8; 32] {
        *self.digest.get_or_init(|| Sha256::digest(&self.bytes).into())
    }

    /// Replicas the program was made for, if it says so.
    pub fn replicas(&self) -> Option<u32> {
        self.module_int("mhlo.num_replicas")
    }

    /// Partitions the program was made for: what it says, or the largest mesh it names.
    pub fn partitions(&self) -> Option<u32> {
        let mesh = self.module.meshes.iter().filter_map(|m| u32::try_from(m.mesh.device_count()?).ok()).max();
        match (self.module_int("mhlo.num_partitions"), mesh) {
            // Exporters leave 1 when they do not know; a mesh says more.
            (None | Some(1), Some(mesh)) => Some(mesh),
            (said, _) => said,
        }
    }

    fn module_int(&self, name: &str) -> Option<u32> {
        self.module.attrs.get(name).and_then(Attr::as_int).and_then(|n| u32::try_from(n).ok())
    }

    /// Whether the program carries Shardy annotations.
    pub fn uses_shardy(&self) -> bool {
        !self.module.meshes.is_empty()
            || self.module.funcs.iter().any(|f| {
                f.input_attrs.iter().chain(&f.output_attrs).any(|a| a.get("sdy.sharding").is_some())
                    || f.ops.iter().any(|op| {
                        matches!(op.kind(), Some(OpKind::SdyShardingConstraint | OpKind::SdyManualComputation))
                            || op.attr("sdy.sharding").is_some()
                    })
            })
    }

    /// For each argument and each result of the entry function, whether its sharding is left to the compiler.
    pub(crate) fn unsharded(&self) -> (Vec<bool>, Vec<bool>) {
        let free = |attrs: &[hlo::Attrs]| -> Vec<bool> {
            attrs.iter().map(|a| a.get("sdy.sharding").is_none() && a.get("mhlo.sharding").is_none()).collect()
        };
        self.module.entry().map_or_else(Default::default, |f| (free(&f.input_attrs), free(&f.output_attrs)))
    }

    /// The program's part of a cache key.
    pub fn parts(&self) -> ProgramParts {
        let mut module = self.module.clone().into_inner();
        module.strip_locations();
        let text = hlo::text::print(&module);
        let mut ops = BTreeMap::new();
        for op in module.funcs.iter().flat_map(|f| &f.ops) {
            *ops.entry(op.name.as_str().to_string()).or_default() += 1;
        }
        let types = |types: &[hlo::Type]| types.iter().map(ToString::to_string).collect();
        let entry = module.entry();
        ProgramParts {
            name: module.name.as_deref().unwrap_or("module").to_string(),
            digest: Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect(),
            arguments: entry.map_or_else(Vec::new, |f| types(&f.inputs)),
            results: entry.map_or_else(Vec::new, |f| types(&f.outputs)),
            ops,
        }
    }
}
