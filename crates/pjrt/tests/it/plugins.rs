//! Finds and loads the real plugins of a test run, once per process.
#![allow(unsafe_code)]

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::thread;

use pjrt::Plugin;

/// libtpu, or `None` with a note where there is none.
pub(crate) fn libtpu() -> Option<&'static Plugin> {
    static LOADED: OnceLock<Option<Plugin>> = OnceLock::new();
    load(&LOADED, "TPUBRIDGE_LIBTPU")
}

/// XLA's CPU plugin, or `None` with a note where there is none.
pub(crate) fn xla_cpu() -> Option<&'static Plugin> {
    static LOADED: OnceLock<Option<Plugin>> = OnceLock::new();
    load(&LOADED, "TPUBRIDGE_XLA_CPU")
}

fn load(loaded: &'static OnceLock<Option<Plugin>>, variable: &str) -> Option<&'static Plugin> {
    prepare_environment();
    let plugin = loaded.get_or_init(|| {
        let path = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)?;
        Some(Plugin::load(&path).unwrap_or_else(|error| panic!("{variable}: {error}: {error:?}")))
    });
    if plugin.is_none() {
        let required = env::var_os("CI").is_some() || env::var_os("TPUBRIDGE_REQUIRE_ALL").is_some();
        assert!(!required, "{variable} is not set, and this run may not skip tests");
        // Not `eprintln!`, which the harness hides for tests that pass.
        let test = thread::current().name().unwrap_or_default().to_string();
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {variable} is not set");
    }
    plugin.as_ref()
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
