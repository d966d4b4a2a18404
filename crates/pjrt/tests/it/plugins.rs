//! Finds and loads the real plugins of a test run, once per process.
#![allow(unsafe_code)]

use std::env;
use std::sync::{Once, OnceLock};
use std::thread;

use pjrt::Plugin;
use testkit::{Needed, require};

/// libtpu, or `None` with a note where there is none.
pub(crate) fn libtpu() -> Option<&'static Plugin> {
    static LOADED: OnceLock<Option<Plugin>> = OnceLock::new();
    load(&LOADED, Needed::Libtpu)
}

/// XLA's CPU plugin, or `None` with a note where there is none.
pub(crate) fn xla_cpu() -> Option<&'static Plugin> {
    static LOADED: OnceLock<Option<Plugin>> = OnceLock::new();
    load(&LOADED, Needed::XlaCpu)
}

fn load(loaded: &'static OnceLock<Option<Plugin>>, needed: Needed) -> Option<&'static Plugin> {
    prepare_environment();
    let test = thread::current().name().unwrap_or_default().to_string();
    let path = require(&test, needed)?;
    let load = || Some(Plugin::load(&path).unwrap_or_else(|error| panic!("{}: {error:?}", path.display())));
    loaded.get_or_init(load).as_ref()
}

/// Sets what libtpu reads, before any plugin of this process is loaded.
fn prepare_environment() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        for (name, value) in pjrt::libtpu_environment() {
            // SAFETY: every test loads plugins through `load`, so no foreign thread that could read the environment
            // exists yet; Rust's own readers are synchronized.
            unsafe { env::set_var(name, value) };
        }
    });
}
