//! Names, symbols and strings: what needs quotes, and what is escaped in them.

use std::fmt::Write;

/// Whether a bare name may begin with this byte.
pub(crate) fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Whether a bare name may go on with this byte.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

/// Whether a name can be written without quotes.
pub(crate) fn is_bare(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|&b| is_word_start(b)) && bytes.iter().all(|&b| is_word(b))
}

/// Appends a string literal.
pub(crate) fn write_string(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'"' => out.push_str("\\22"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out.push('"');
}

/// Appends `@name`.
pub(crate) fn write_symbol(out: &mut String, name: &str) {
    out.push('@');
    if is_bare(name) { out.push_str(name) } else { write_string(out, name.as_bytes()) }
}
