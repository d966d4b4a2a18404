//! Tables that are short, long, broken or from another time.

use std::io::Write;

use pjrt::{AttributeValue, ClientOptions, Code, Error, ErrorFamily, Plugin, slot};
use pjrt_sys::PJRT_Api;

use crate::fake;

#[test]
fn the_shortest_table_loads_and_everything_else_is_unsupported() {
    let mut api = fake::table();
    api.struct_size = fake::AFTER_INITIALIZE;
    api.pjrt_api_version.minor_version = 7;
    let plugin = fake::load(api).unwrap();
    assert_eq!(plugin.api_version().to_string(), "0.7");
    assert!(!plugin.has(slot::PJRT_Client_Create));
    let error = plugin.client(&ClientOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { call: "PJRT_Client_Create", .. }));
    assert_eq!(error.to_string(), "the plugin (PJRT API 0.7) has no PJRT_Client_Create");
    let error = plugin.topology("v5e:2x2", &[] as &[(&str, AttributeValue)]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { call: "PJRT_TopologyDescription_Create", .. }));
}

#[test]
fn a_table_that_is_too_short_is_refused() {
    let mut api = fake::table();
    api.struct_size = fake::AFTER_INITIALIZE - 1;
    let error = fake::load(api).unwrap_err();
    assert!(error.to_string().contains("the plugin is too old"), "{error}");
    assert_eq!(error.family(), ErrorFamily::Machine);
}

#[test]
fn garbage_is_not_a_table() {
    let mut api = fake::table();
    api.struct_size = usize::MAX;
    assert!(matches!(fake::load(api), Err(Error::Table { .. })));
    assert!(matches!(fake::load_null(), Err(Error::Table { .. })));
}

#[test]
fn another_major_version_is_refused() {
    let mut api = fake::table();
    api.pjrt_api_version.major_version = 1;
    let error = fake::load(api).unwrap_err();
    assert!(error.to_string().contains("PJRT API 1.114"), "{error}");
}

#[test]
fn a_hole_is_a_missing_call() {
    let mut api = fake::table();
    api.PJRT_Client_Create = None;
    let plugin = fake::load(api).unwrap();
    assert!(plugin.missing_calls().contains(&"PJRT_Client_Create"));
    assert!(matches!(plugin.client(&ClientOptions::default()), Err(Error::Unsupported { .. })));
}

#[test]
fn initialization_is_required_and_its_failure_is_kept() {
    let mut api = fake::table();
    api.PJRT_Plugin_Initialize = None;
    assert!(matches!(fake::load(api), Err(Error::Unsupported { call: "PJRT_Plugin_Initialize", .. })));
    let mut api = fake::table();
    api.PJRT_Plugin_Initialize = Some(fake::failing_initialize);
    let error = fake::load(api).unwrap_err();
    assert_eq!(error.code(), Some(Code::Aborted));
    assert!(error.to_string().contains("another process holds the device"));
}

#[test]
fn a_newer_plugin_works() {
    let plugin = fake::load_newer().unwrap();
    assert!(plugin.has(slot::PJRT_Client_Create));
    assert_eq!(plugin.api_version().minor, pjrt_sys::PJRT_API_MINOR + 50);
}

#[test]
fn errors_keep_code_message_and_payloads() {
    let plugin = fake::load(fake::table()).unwrap();
    let Err(Error::Pjrt { call, code, message, payloads }) = plugin.attributes() else { panic!() };
    assert_eq!((call, code, message.as_str()), ("PJRT_Plugin_Attributes", Code::Unavailable, "not now"));
    assert_eq!(payloads[0].key, "type.googleapis.com/x");
    assert_eq!(payloads[0].value, [0, 159, 146]);
    assert_eq!(payloads[1].value, []);
}

#[test]
fn errors_of_plugins_without_payloads_are_read_too() {
    let mut api = fake::table();
    api.struct_size = std::mem::offset_of!(PJRT_Api, PJRT_Error_ForEachPayload);
    let plugin = fake::load(api).unwrap();
    let Err(Error::Pjrt { code, payloads, .. }) = plugin.attributes() else { panic!() };
    assert_eq!(code, Code::Unavailable);
    assert!(payloads.is_empty());
}

#[test]
fn a_looping_chain_of_extensions_ends() {
    let mut api = fake::table();
    api.extension_start = fake::looping_extensions();
    let plugin = fake::load(api).unwrap();
    let extensions = plugin.extensions();
    assert_eq!(extensions[0].name(), Some("PhaseCompile"));
    assert_eq!(extensions[1].to_string(), "extension 1000");
    // The record is shorter than its functions: asking for them is an error, not a crash.
    let error = plugin.phase_compile().unwrap().phases().unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert!(plugin.layouts().is_none());
}

#[test]
fn files_that_are_no_plugins() {
    let missing = Plugin::load("/nonexistent/plugin.so".as_ref()).unwrap_err();
    assert!(matches!(missing, Error::Open { .. }));
    assert!(std::error::Error::source(&missing).unwrap().to_string().contains("No such file"));

    let mut text = tempfile::NamedTempFile::new().unwrap();
    text.write_all(b"not a library").unwrap();
    let error = Plugin::load(text.path()).unwrap_err();
    assert!(error.to_string().contains("as a shared library"), "{error}");

    // A library without the symbol: the C library itself.
    let error = Plugin::load("libc.so.6".as_ref()).unwrap_err();
    assert!(matches!(error, Error::NotAPlugin { .. }), "{error:?}");
}
