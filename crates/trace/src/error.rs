//! What can go wrong while a function is traced, with the line of the user's source it went wrong at.

use std::fmt;
use std::panic::Location;

use crate::line;

/// A position in the user's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Source file as the compiler names it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl At {
    pub(crate) fn of(location: &'static Location<'static>) -> At {
        At { file: location.file(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a function could not be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The traced function broke a rule of the operation at that line: shapes, element types, axes.
    Misuse {
        /// Where.
        at: At,
        /// What is wrong, with the figures.
        message: String,
    },
    /// Something in it has no derivative.
    NotDifferentiable {
        /// Where the operation stands.
        at: At,
        /// Which operation, and what to use instead.
        message: String,
    },
    /// A mesh or a sharding that cannot be.
    Mesh(String),
    /// The program that was traced breaks the StableHLO specification. That is our bug.
    Broken(hlo::Error),
}

impl Error {
    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::Broken(_) => "please report it with the function that was traced",
            Error::Mesh(_) => {
                "choose a mesh whose axes divide the model and the batch and that the devices have, or another strategy"
            }
            _ => "change the function at that line",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Misuse { at, message } | Error::NotDifferentiable { at, message } => write!(f, "{at}: {message}"),
            Error::Mesh(message) => f.write_str(message),
            Error::Broken(_) => write!(f, "the traced program is not valid StableHLO; this is a bug of tpubridge"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Broken(error) => Some(error),
            _ => None,
        }
    }
}

/// Leaves the function being traced; [`caught`] takes the error up again.
///
/// Operators on tensors cannot return a `Result`, and a wrong shape must stop the traced function where it stands. The
/// unwinding starts without the panic hook, so nothing is printed.
pub(crate) fn leave(error: Error) -> ! {
    if cfg!(panic = "abort") {
        panic!("{error}");
    }
    std::panic::resume_unwind(Box::new(error))
}

/// Stops the traced function: its caller did something wrong at that line.
pub(crate) fn misuse(at: &'static Location<'static>, message: impl Into<String>) -> ! {
    let at = line::current().unwrap_or(at);
    leave(Error::Misuse { at: At::of(at), message: message.into() })
}

/// Stops the traced function with an error of its own at the caller's line: for what a layer cannot do.
#[track_caller]
pub fn refuse(message: impl Into<String>) -> ! {
    misuse(Location::caller(), message)
}

/// Runs a function that may [`leave`]; panics of other origin go on.
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, Error> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(value) => Ok(value),
        Err(payload) => match payload.downcast::<Error>() {
            Ok(error) => Err(*error),
            Err(payload) => std::panic::resume_unwind(payload),
        },
    }
}
