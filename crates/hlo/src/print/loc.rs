//! Printing of source locations in full.

use std::fmt::Write;

use crate::ir::{Loc, Location};
use crate::print::name::write_string;

/// Appends `loc(…)` in full.
pub(super) fn write_inline_location(out: &mut String, loc: &Loc) {
    out.push_str("loc(");
    write_nested(out, loc);
    out.push(')');
}

fn write_nested(out: &mut String, loc: &Loc) {
    match loc {
        None => out.push_str("unknown"),
        Some(location) => write_body(out, location, &mut write_nested),
    }
}

/// Appends what stands inside `loc(…)`; locations inside it are written by `child`.
pub(crate) fn write_body(out: &mut String, location: &Location, child: &mut dyn FnMut(&mut String, &Loc)) {
    match location {
        Location::File { file, line, column, end } => {
            write_string(out, file.as_bytes());
            let _ = write!(out, ":{line}:{column}");
            match end {
                Some((end_line, end_column)) if end_line == line => {
                    let _ = write!(out, " to :{end_column}");
                }
                Some((end_line, end_column)) => {
                    let _ = write!(out, " to {end_line}:{end_column}");
                }
                None => {}
            }
        }
        Location::Name(name, inner) => {
            write_string(out, name.as_bytes());
            if inner.is_some() {
                out.push('(');
                child(out, inner);
                out.push(')');
            }
        }
        Location::CallSite { callee, caller } => {
            out.push_str("callsite(");
            child(out, callee);
            out.push_str(" at ");
            child(out, caller);
            out.push(')');
        }
        Location::Fused(parts, metadata) => {
            out.push_str("fused");
            if let Some(metadata) = metadata {
                let _ = write!(out, "<{metadata}>");
            }
            out.push('[');
            for (i, part) in parts.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                child(out, part);
            }
            out.push(']');
        }
    }
}
