//! Compiled programs, and what they depend on.

use std::fmt;
use std::sync::Arc;

use compile::Program;
use pjrt::{CompileOptions, LoadedExecutable};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::signature::Signature;

/// What a compiled program depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn new(program: &Program, options: &CompileOptions) -> Key {
        let mut digest = Sha256::new();
        digest.update(program.digest());
        digest.update(options.to_bytes());
        Key(digest.finalize().into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A program compiled for the devices of a backend.
#[derive(Debug)]
pub struct BackendExecutable {
    loaded: LoadedExecutable,
    signature: Signature,
    program: Arc<Program>,
    compile_seconds: f64,
    num_devices: usize,
}

impl BackendExecutable {
    pub(super) fn new(
        loaded: LoadedExecutable,
        signature: Signature,
        program: &Arc<Program>,
        compile_seconds: f64,
    ) -> Result<BackendExecutable, Error> {
        let devices = loaded.addressable_devices().map_err(Error::device("asking for a program's devices"))?;
        Ok(BackendExecutable {
            loaded,
            signature,
            program: Arc::clone(program),
            compile_seconds,
            num_devices: devices.len(),
        })
    }

    /// The plugin's handle.
    pub fn loaded(&self) -> &LoadedExecutable {
        &self.loaded
    }

    /// What the program takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// How long the compiler took.
    pub fn compile_seconds(&self) -> f64 {
        self.compile_seconds
    }

    /// Devices of this process that run it together.
    pub fn num_devices(&self) -> usize {
        self.num_devices
    }
}
