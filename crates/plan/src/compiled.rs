//! A program through the real compiler: what it made of it, or that it does not fit.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use compile::{
    Compilation, CompileError, CompileMode, CompileRequest, OptimizedProgram, Origin, OutOfMemory, Program, Report,
    SliceCompiler,
};
use xla::{BufferAssignment, HloModule};

use crate::error::Error;

/// What the compiler made of a program.
pub(crate) struct Compiled {
    pub(crate) optimized: Arc<OptimizedProgram>,
    /// What a quick compilation made of it, for its buffers, where this one does not give them.
    pub(crate) beside: Option<Arc<OptimizedProgram>>,
    pub(crate) report: Report,
    pub(crate) is_cached: bool,
    pub(crate) warnings: Vec<String>,
}

impl Compiled {
    /// The optimized HLO.
    pub(crate) fn module(&self) -> &HloModule {
        &self.optimized.module
    }

    /// Where values are kept, where the compiler tells.
    pub(crate) fn buffers(&self) -> Option<&BufferAssignment> {
        let beside = || self.beside.as_ref().and_then(|beside| beside.buffers.as_ref());
        self.optimized.buffers.as_ref().or_else(beside)
    }
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
    pub(crate) fn compile(&mut self, program: &Program, request: &CompileRequest) -> Result<Outcome, Error> {
        let mut compiled = match self.once(program, request)? {
            Outcome::Fits(compiled) => compiled,
            too_large => return Ok(too_large),
        };
        if compiled.buffers().is_none() {
            let quick = CompileRequest { mode: CompileMode::Quick, ..request.clone() };
            if let Outcome::Fits(quick) = self.once(program, &quick)? {
                compiled.beside = Some(quick.optimized);
            }
        }
        Ok(Outcome::Fits(compiled))
    }

    /// Compiles a program that is read already.
    pub(crate) fn once(&mut self, program: &Program, request: &CompileRequest) -> Result<Outcome, Error> {
        let compilation = self.compiler.compile_program(program, request, self.stop, self.progress);
        self.outcome(compilation)
    }

    /// Compiles a program that need not be read where its result is cached.
    pub(crate) fn once_unread(&mut self, program: &[u8], request: &CompileRequest) -> Result<Outcome, Error> {
        let compilation = self.compiler.compile(program, request, self.stop, self.progress);
        self.outcome(compilation)
    }

    fn outcome(&mut self, compilation: Result<Compilation, CompileError>) -> Result<Outcome, Error> {
        let compilation = match compilation {
            Ok(compilation) => compilation,
            Err(CompileError::OutOfMemory(oom)) => return Ok(Outcome::TooLarge(oom)),
            Err(error) => return Err(error.into()),
        };
        (self.progress)("reading the compiled program");
        Ok(Outcome::Fits(Box::new(Compiled {
            optimized: compilation.optimized()?.ok_or(Error::Missing("optimized program"))?,
            beside: None,
            report: compilation.entry.report.clone(),
            is_cached: compilation.origin == Origin::Cached,
            warnings: compilation.warnings,
        })))
    }
}
