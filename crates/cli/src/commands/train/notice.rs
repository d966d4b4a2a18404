//! A preemption notice, as a reason to save and stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use fleet::System;
use fleet::preemption::{self, Notice, Watch};

use crate::args::NoticeArg;
use crate::log;

/// Waits for a preemption notice while it lives.
pub(super) struct Notices {
    heard: Arc<OnceLock<Notice>>,
    _watch: Option<Watch>,
}

impl Notices {
    /// Sets `stop` when a preemption notice is given.
    pub(super) fn wait(when: NoticeArg, stop: &Arc<AtomicBool>) -> Notices {
        let system = System::host();
        let is_wanted = match when {
            NoticeArg::Auto => preemption::is_expected(&system),
            NoticeArg::On => true,
            NoticeArg::Off => false,
        };
        let heard = Arc::new(OnceLock::new());
        let (told, stop) = (heard.clone(), stop.clone());
        let tell = move |notice: Notice| {
            let _ = told.set(notice);
            stop.store(true, Ordering::Relaxed);
        };
        let started = is_wanted.then(|| Watch::start(&preemption::host(&system), tell));
        let watch = started.and_then(|started| {
            started.inspect_err(|error| log::say(&format!("warning: preemption notices are not watched: {error}"))).ok()
        });
        Notices { heard, _watch: watch }
    }

    /// The notice, if one was given.
    pub(super) fn heard(&self) -> Option<Notice> {
        self.heard.get().copied()
    }
}
