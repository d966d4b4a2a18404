//! A program through the real compiler: what it made of it, or that it does not fit.

use std::sync::atomic::AtomicBool;

use compile::{CompileError, CompileRequest, Mode, Origin, OutOfMemory, Report, SliceCompiler, blob};
use xla::{BufferAssignment, Module};

use crate::error::Error;

/// What the compiler made of a program.
pub(crate) struct Compiled {
    pub(crate) module: Module,
    pub(crate) buffers: Option<BufferAssignment>,
    pub(crate) report: Report,
    pub(crate) is_cached: bool,
    pub(crate) warnings: Vec<String>,
}

/// The compiler's verdict.
pub(crate) enum Outcome {
    Fits(Box<Compiled>),
    TooLarge(OutOfMemory),
}

/// The compiler, and whom it tells what it does.
pub(crate) struct Driver<'a> {
    pub(crate) compiler: &'a SliceCompiler,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn FnMut(&str),
}

impl Driver<'_> {
    /// Compiles, and reads what came out. After a full compilation the buffers come from a quick one beside it: the
    /// full one does not give them.
    pub(crate) fn compile(&mut self, program: &[u8], request: &CompileRequest) -> Result<Outcome, Error> {
        let mut compiled = match self.once(program, request)? {
            Outcome::Fits(compiled) => compiled,
            too_large => return Ok(too_large),
        };
        if compiled.buffers.is_none() && request.slice.num_slices() == 1 {
            let quick = CompileRequest { mode: Mode::Quick, ..request.clone() };
            if let Outcome::Fits(quick) = self.once(program, &quick)? {
                compiled.buffers = quick.buffers;
            }
        }
        Ok(Outcome::Fits(compiled))
    }

    pub(crate) fn once(&mut self, program: &[u8], request: &CompileRequest) -> Result<Outcome, Error> {
        let compilation = match self.compiler.compile(program, request, self.stop, self.progress) {
            Ok(compilation) => compilation,
            Err(CompileError::OutOfMemory(oom)) => return Ok(Outcome::TooLarge(oom)),
            Err(error) => return Err(error.into()),
        };
        (self.progress)("reading the compiled program");
        let entry = &compilation.entry;
        let module = match (entry.blob(blob::HLO), entry.blob(blob::HLO_ZSTD)) {
            (Some(bytes), _) => Module::from_hlo_with_config(bytes)?,
            (None, Some(bytes)) => Module::from_zstd(bytes)?,
            (None, None) => return Err(Error::Missing("optimized program")),
        };
        let buffers = entry.blob(blob::BUFFERS_ZSTD).map(BufferAssignment::from_zstd).transpose()?;
        Ok(Outcome::Fits(Box::new(Compiled {
            module,
            buffers,
            report: entry.report.clone(),
            is_cached: compilation.origin == Origin::Cached,
            warnings: compilation.warnings,
        })))
    }
}
