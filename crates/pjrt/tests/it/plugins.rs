//! Finds and loads the real plugins of a test run, once per process.
#![allow(unsafe_code)]

use std::env;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

use pjrt::Plugin;

/// libtpu, or `None` with a note where there is none.
pub(crate) fn libtpu() -> Option<&'static Plugin> {
    static LOADED: OnceLock<Option<Plugin>> = OnceLock::new();
    LOADED.get_or_init(|| load("TPUBRIDGE_LIBTPU")).as_ref()
}

/// XLA's CPU plugin, or `None` with a note where there is none.
pub(crate) fn xla_cpu() -> Option<&'static Plugin> {
    static LOADED: OnceLock<Option<Plugin>> = OnceLock::new();
    LOADED.get_or_init(|| load("TPUBRIDGE_XLA_CPU")).as_ref()
}

fn load(variable: &str) -> Option<Plugin> {
    prepare_environment();
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        let required = env::var_os("CI").is_some() || env::var_os("TPUBRIDGE_REQUIRE_ALL").is_some();
        assert!(!required, "{variable} is not set, and this run may not skip tests");
        eprintln!("SKIPPED: {variable} is not set");
        return None;
    };
    Some(Plugin::load(&path).unwrap_or_else(|error| panic!("{variable}: {error}: {:?}", error)))
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
