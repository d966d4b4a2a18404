//! Signals: Ctrl-C asks the running command to stop and clean up; a second one ends it at once.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that Ctrl-C or SIGTERM sets.
pub(crate) fn on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    // Apart from `stop`, which others may set: the first signal after that must not end the process.
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Registered first, so that it sees the flag as the previous signal left it: the second signal ends the process.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&signalled));
        let _ = signal_hook::flag::register(signal, Arc::clone(&signalled));
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// Turns SIGPIPE off again: a connection to a process that is gone must be an error, not the end of this one.
pub(crate) fn survive_closed_connections() {
    // SAFETY: SIG_IGN is always a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Restores the default action of SIGPIPE, which Rust programs start without.
pub(crate) fn die_quietly_on_closed_pipe() {
    // SAFETY: called first in `main`, before any thread exists; SIG_DFL is always a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
