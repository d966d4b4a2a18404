//! One error for programs that use several crates: every error of theirs converts into it.

use std::fmt;

macro_rules! errors {
    ($($(#[$doc:meta])* $variant:ident($error:ty) $remedy:expr;)*) => {
        /// What can go wrong. Each variant is the error of the crate that met it.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error { $($(#[$doc])* $variant(Box<$error>),)* }

        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::$variant(Box::new(error))
            }
        })*

        impl Error {
            /// What helps; `None` where only the message does.
            pub fn remedy(&self) -> Option<String> {
                match self { $(Error::$variant(error) => ($remedy)(&**error),)* }
            }

            fn inner(&self) -> &(dyn std::error::Error + 'static) {
                match self { $(Error::$variant(error) => &**error,)* }
            }
        }
    };
}

errors! {
    // ---- the caller's input ----
    /// A slice or a chip that does not exist.
    Chips(chips::Error) |_: &_| None;
    /// A host value that does not fit.
    Value(tensor::ValueError) |error: &tensor::ValueError| Some(error.remedy());
    /// A program that is not StableHLO.
    Hlo(hlo::Error) |_: &_| None;
    /// A function over tensors that is wrong at a line of the user's source.
    Trace(trace::Error) |error: &trace::Error| Some(error.remedy().to_string());
    /// A model or its files.
    Model(nn::Error) |error: &nn::Error| Some(error.remedy());
    /// A TPU kernel that cannot be.
    Kernel(kernel::Error) |error: &kernel::Error| error.remedy().map(str::to_string);
    /// Data of a training.
    Data(train::data::DataError) |error: &train::data::DataError| Some(error.remedy());

    // ---- the device or the machine ----
    /// A plugin or a device.
    Pjrt(pjrt::Error) |_: &_| None;
    /// A compilation for a slice.
    Compile(compile::CompileError) |error: &compile::CompileError| Some(error.remedy());
    /// What the compiler returned cannot be read.
    Xla(xla::Error) |_: &_| None;
    /// A file of weights or a checkpoint.
    Weights(weights::Error) |error: &weights::Error| Some(error.remedy());
    /// The backend.
    Runtime(runtime::Error) |error: &runtime::Error| Some(error.remedy());
    /// Text from a model.
    Infer(infer::Error) |error: &infer::Error| error.remedy();
    /// A question about a slice.
    Plan(plan::Error) |error: &plan::Error| Some(error.remedy());
    /// A training.
    Train(train::Error) |error: &train::Error| error.remedy();
    /// The machine: its setup or its health.
    Fleet(fleet::Error) |error: &fleet::Error| error.remedy();
    /// A file.
    Io(std::io::Error) |_: &_| None;
    /// The TPU compiler is not installed, or cannot be started.
    NoCompiler(NoCompiler) |error: &NoCompiler| Some(error.remedy().to_string());
}

/// What the functions of this crate give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the TPU compiler cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCompiler {
    /// libtpu is not there.
    NotInstalled,
    /// The program does not serve its own compiler processes.
    NotServed,
}

impl NoCompiler {
    fn remedy(&self) -> &'static str {
        match self {
            NoCompiler::NotInstalled => {
                "`tpu setup` gets it, as does `pip install libtpu`; TPU_LIBRARY_PATH may name it"
            }
            NoCompiler::NotServed => "call `tpubridge::compile_worker()` first in `main`",
        }
    }
}

impl fmt::Display for NoCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoCompiler::NotInstalled => "the TPU compiler (libtpu) is not installed",
            NoCompiler::NotServed => "the TPU compiler runs in this program started again, which does not serve it",
        })
    }
}

impl std::error::Error for NoCompiler {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.inner(), f)
    }
}

/// The error is what the crate said; its causes are the crate's own.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner().source()
    }
}
