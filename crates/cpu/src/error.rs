//! Errors of the device: the program's, the machine's, or ours.

use std::any::Any;
use std::fmt;
use std::panic::resume_unwind;

/// What can go wrong while running a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The program does something the specification leaves undefined or forbids at run time.
    Program {
        /// The op.
        op: String,
        /// What is wrong.
        message: String,
    },
    /// The program needs something this device does not have: a custom call, a host callback.
    Unsupported {
        /// What it needs.
        what: String,
    },
    /// A self-checking program's check failed.
    Check {
        /// What was expected and what came.
        message: String,
    },
    /// The arguments do not fit the program.
    Arguments(String),
    /// A limit on memory, steps or time was reached.
    Exhausted(String),
    /// The caller asked to stop.
    Interrupted,
    /// The engine contradicts itself: our fault.
    Internal(String),
}

impl Error {
    /// Ends a kernel that cannot return, on any thread of the pool; whoever runs the program gets the error by
    /// [`Error::raised`]. Not a panic: no hook is called.
    pub(crate) fn raise(self) -> ! {
        resume_unwind(Box::new(self))
    }

    /// The error that was raised; a panic goes on.
    pub(crate) fn raised(payload: Box<dyn Any + Send>) -> Error {
        match payload.downcast::<Error>() {
            Ok(error) => *error,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Program { op, message } => write!(f, "{op}: {message}"),
            Error::Unsupported { what } => write!(f, "not supported on this device: {what}"),
            Error::Check { message } => write!(f, "check failed: {message}"),
            Error::Arguments(message) | Error::Exhausted(message) => f.write_str(message),
            Error::Interrupted => f.write_str("interrupted"),
            Error::Internal(message) => write!(f, "internal error: {message}"),
        }
    }
}

impl std::error::Error for Error {}
