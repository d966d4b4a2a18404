//! Errors of the crate: what is wrong with the input, where, and why.

use std::fmt;

/// A place in a text, both numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// What can go wrong. Every variant is the input's fault: the crate does no I/O and talks to no device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Text that is not the language.
    Syntax {
        /// Where.
        at: Position,
        /// What was expected or is wrong.
        message: String,
        /// The line and a caret under the column.
        excerpt: String,
    },
    /// Bytes that are not a readable portable artifact.
    Bytecode {
        /// Byte offset into the file.
        offset: usize,
        /// What is wrong.
        message: String,
    },
    /// A program with something that a portable artifact cannot hold.
    Unwritable {
        /// What it is.
        message: String,
    },
    /// A program that breaks the specification.
    Verify(Vec<Finding>),
    /// A program with symbolic sizes that cannot be had for the argument types asked for.
    Specialize(Vec<Finding>),
    /// A limit that protects against hostile input.
    Limit {
        /// Which limit, and its value.
        message: String,
    },
}

/// One thing the verifier found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Function it is in.
    pub func: String,
    /// Name of the op.
    pub op: String,
    /// Clause of the specification, as in `dot_general C7`; empty for structural rules.
    pub clause: String,
    /// What is wrong.
    pub message: String,
    /// Source position the op carries, as `file:line:column`.
    pub source: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}: {}: {}", self.func, self.op, self.message)?;
        if !self.clause.is_empty() {
            write!(f, " [{}]", self.clause)?;
        }
        if let Some(source) = &self.source {
            write!(f, " at {source}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax { at, message, excerpt } => {
                write!(f, "line {}, column {}: {message}\n{excerpt}", at.line, at.column)
            }
            Error::Bytecode { offset, message } => write!(f, "bytecode, offset {offset}: {message}"),
            Error::Unwritable { message } => write!(f, "cannot be written as a portable artifact: {message}"),
            Error::Verify(findings) => {
                write!(f, "the program breaks {} rule(s) of the specification", findings.len())?;
                list(f, findings)
            }
            Error::Specialize(findings) => {
                f.write_str("the program cannot be made static for these argument types")?;
                list(f, findings)
            }
            Error::Limit { message } => write!(f, "limit reached: {message}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, findings: &[Finding]) -> fmt::Result {
    for finding in findings.iter().take(20) {
        write!(f, "\n  {finding}")?;
    }
    if findings.len() > 20 {
        write!(f, "\n  … and {} more", findings.len() - 20)?;
    }
    Ok(())
}

impl std::error::Error for Error {}
