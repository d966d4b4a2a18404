//! The version of the C library this process runs on.
#![allow(unsafe_code)]

/// Version of glibc, such as `2.36`; `None` on another C library.
#[cfg(target_env = "gnu")]
pub(crate) fn version() -> Option<String> {
    // SAFETY: gnu_get_libc_version takes no arguments and gives a static NUL-terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    text.to_str().ok().map(str::to_owned)
}

/// Version of glibc, such as `2.36`; `None` on another C library.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn version() -> Option<String> {
    None
}
