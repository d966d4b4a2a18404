//! Errors of the crate: kernels that are wrong, too large or misused, and our own contradictions.

use std::fmt;

use chips::Generation;

/// What can go wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An op of a kernel that breaks a rule; the caller's program.
    Body {
        /// The kernel.
        kernel: String,
        /// The line that wrote the op.
        at: String,
        /// What is wrong.
        message: String,
    },
    /// A window, grid or scratch buffer that cannot be; the caller's program.
    Window {
        /// The kernel.
        kernel: String,
        /// Name of the operand.
        operand: String,
        /// What is wrong.
        message: String,
    },
    /// A kernel that needs more VMEM than the generation has; the caller's block sizes.
    Vmem {
        /// The kernel.
        kernel: String,
        /// The generation.
        generation: Generation,
        /// Bytes needed.
        need_bytes: u64,
        /// Bytes there.
        have_bytes: u64,
        /// What is largest, with its bytes.
        largest: Vec<(String, u64)>,
    },
    /// A generation whose compiler does not take these kernels.
    Generation(Generation),
    /// A generation without SparseCores that kernels can use.
    NoSparseCores(Generation),
    /// Sizes that a kernel of this crate does not take; the caller's.
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A kernel that was wanted only where it is faster than the compiler's own ops.
    Slower {
        /// The kernel.
        kernel: &'static str,
        /// The generation.
        generation: Generation,
    },
    /// Arrays given to the interpreter that do not fit the kernel.
    Arguments(String),
    /// A kernel that reads or writes outside of its memory, found while interpreting.
    OutOfRange {
        /// The kernel.
        kernel: String,
        /// The step of the grid.
        step: Vec<usize>,
        /// What is wrong.
        message: String,
    },
    /// A program that the rewrite made cannot be; our bug.
    Rewrite(hlo::Error),
    /// The crate contradicts itself: our bug.
    Internal(String),
}

impl Error {
    /// What helps, where something does.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Error::Vmem { .. } => Some("use smaller blocks, or single buffers for windows that rarely change"),
            Error::Window { .. } => {
                Some("the last two sizes of a block are multiples of (8, 128) or those of the array")
            }
            Error::Generation(_) => Some("kernels are for v4 and later; the composite's decomposition runs elsewhere"),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Body { kernel, at, message } => write!(f, "kernel {kernel}, {at}: {message}"),
            Error::Window { kernel, operand, message } => write!(f, "kernel {kernel}, {operand}: {message}"),
            Error::Vmem { kernel, generation, need_bytes, have_bytes, largest } => {
                let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
                write!(
                    f,
                    "kernel {kernel} needs {:.1} MiB of VMEM, {generation} has {:.1} MiB; largest: ",
                    mib(need_bytes),
                    mib(have_bytes)
                )?;
                let parts: Vec<String> =
                    largest.iter().map(|(name, bytes)| format!("{name} {:.1} MiB", mib(bytes))).collect();
                f.write_str(&parts.join(", "))
            }
            Error::Generation(generation) => write!(f, "{generation} takes no kernels"),
            Error::NoSparseCores(generation) => write!(f, "{generation} has no SparseCores that kernels can use"),
            Error::Shape { kernel, message } => write!(f, "{kernel}: {message}"),
            Error::Slower { kernel, generation } => {
                write!(f, "{kernel}: the compiler's own ops are faster on {generation}")
            }
            Error::Arguments(message) => f.write_str(message),
            Error::OutOfRange { kernel, step, message } => write!(f, "kernel {kernel}, step {step:?}: {message}"),
            Error::Rewrite(_) => f.write_str("the program with kernels in it is not valid: a bug"),
            Error::Internal(message) => write!(f, "internal error: {message}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Rewrite(error) => Some(error),
            _ => None,
        }
    }
}
