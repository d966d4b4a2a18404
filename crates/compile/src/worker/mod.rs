//! The compiler's own process: what is asked of it, how it answers, and the watch kept over it.
//!
//! libtpu ends the process on some programs, hangs on others and prints as it likes. So it only ever runs in a child:
//! the program that links this crate, started again with [`WorkerCommand::args`], which must call [`serve`].

mod frame;
mod message;
mod serve;
mod watch;

pub use message::{PluginProbe, ProbedDevice};
pub use serve::serve;
pub use watch::{Chatter, Reaped, WorkerCommand, WorkerLimits};

pub(crate) use message::{Answer, Compile, Compiled, Failure, Request};
pub(crate) use serve::failure;
pub(crate) use watch::run;
