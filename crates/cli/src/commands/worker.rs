//! `tpu compile-worker`: the process the compiler runs in; not for people.

use crate::failure::{Answer, Failure};

pub(crate) fn run() -> Result<Answer, Failure> {
    if compile::worker::serve() == std::process::ExitCode::SUCCESS { Ok(Answer::Yes) } else { Ok(Answer::No) }
}
