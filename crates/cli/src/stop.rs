//! Signals: Ctrl-C, SIGTERM or SIGHUP ask the running command to stop and clean up; a second Ctrl-C ends it at once.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// One request to stop often arrives several times: a terminal, systemd and `timeout` signal every process of a group, and
/// a parent passes its own on. What comes within this time is one request.
const ONE_REQUEST_MS: u64 = 500;

/// Exit code after a second Ctrl-C, as shells count it.
const INTERRUPTED: i32 = 130;

/// Signals that ask a command to stop. A SIGHUP that is ignored, as `nohup` has it, stays so.
pub(crate) fn signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// A flag that the first signal sets.
pub(crate) fn on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    // Apart from `stop`, which others may set: the first signal after that must not end the process.
    let first_ms = Arc::new(AtomicU64::new(0));
    let signals = signals();
    take_back(&signals);
    for signal in signals {
        let (stop, first_ms) = (stop.clone(), first_ms.clone());
        let hear = move || {
            let now_ms = monotonic_ms();
            match first_ms.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => stop.store(true, Ordering::Relaxed),
                Err(first_ms) if signal == SIGINT && now_ms.saturating_sub(first_ms) > ONE_REQUEST_MS => {
                    signal_hook::low_level::exit(INTERRUPTED)
                }
                // A save under way is not ended by impatience: SIGKILL is there for that.
                Err(_) => {}
            }
        };
        // SAFETY: `hear` uses atomics, clock_gettime and _exit alone, which are allowed in signal handlers, and cannot panic.
        let _ = unsafe { signal_hook::low_level::register(signal, hear) };
    }
    stop
}

/// Undoes handlers that a plugin installed when it was loaded, which may end the process: ours would run after them.
fn take_back(signals: &[i32]) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        for signal in signals {
            // SAFETY: SIG_DFL is always a valid disposition.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    });
}

/// Milliseconds of a clock that only goes forward, never 0.
fn monotonic_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000).max(1)
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut known: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is given, and `known` lives through the call.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut known) };
    asked == 0 && known.sa_sigaction == libc::SIG_IGN
}

/// A reader of standard output or error who closes the pipe early (`tpu chips | head`) ends the command quietly.
///
/// Any other pipe or connection whose other end is gone is an error for whoever writes to it, and never the end of the command:
/// SIGPIPE stays ignored, as Rust programs start.
pub(crate) fn die_quietly_without_readers() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // What `eprintln!` says when it cannot write.
        let text = info.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to std") && text.contains("Broken pipe") {
            die_of_closed_pipe();
        }
        usual(info);
    }));
}

/// Ends this process the way programs end whose reader is gone: by SIGPIPE, without a word.
pub(crate) fn die_of_closed_pipe() -> ! {
    // SAFETY: SIG_DFL is always a valid disposition, and `raise` takes any signal.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
    // The signal was blocked.
    std::process::exit(128 + libc::SIGPIPE)
}
