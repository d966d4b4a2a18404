//! The text form of programs: reading what MLIR prints, and printing what MLIR reads.

mod lexer;
mod print_loc;
mod print_module;
mod print_names;
mod print_op;
mod print_pieces;
mod print_special;
mod read_alias;
mod read_attr;
mod read_dense;
mod read_dialect;
mod read_func;
mod read_loc;
mod read_module;
mod read_op;
mod read_pieces;
mod read_sdy;
mod read_special;
mod read_type;

use std::fmt;

use crate::error::Error;
use crate::ir::{Attr, Module, Type};
use lexer::{Read, Reader};

pub use crate::print::{print_attr, print_type};

/// Whether printed ops carry where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locations {
    /// No locations.
    #[default]
    Omit,
    /// `loc(#loc1)` behind every op and argument, the locations themselves at the top.
    Aliases,
}

/// Which form ops are printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Each op's own short form.
    #[default]
    Pretty,
    /// `"name"(…) <{…}> : (…) -> …` for every op.
    Generic,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// Where ops came from.
    pub locations: Locations,
    /// The form of ops.
    pub form: Form,
}

/// Reads a module: `module { … }`, or functions without one around them.
pub fn parse(text: &str) -> Result<Module, Error> {
    parse_bytes(text.as_bytes())
}

/// As [`parse`], from the bytes of a file.
pub fn parse_bytes(text: &[u8]) -> Result<Module, Error> {
    read(text, Reader::module)
}

/// Reads one attribute, as in `#stablehlo.bounds<?, 4>` or `dense<0> : tensor<2xi64>`.
pub fn parse_attr(text: &str) -> Result<Attr, Error> {
    read(text.as_bytes(), Reader::attr)
}

/// Reads one type, as in `tensor<4x?xf32>`.
pub fn parse_type(text: &str) -> Result<Type, Error> {
    read(text.as_bytes(), Reader::ty)
}

/// Prints a module in its canonical form: short op forms, no locations.
pub fn print(module: &Module) -> String {
    print_with(module, PrintOptions::default())
}

/// Prints a module as the options say.
pub fn print_with(module: &Module, options: PrintOptions) -> String {
    print_module::module_text(module, options)
}

/// As [`print()`], into a writer.
pub fn print_to(module: &Module, out: &mut impl fmt::Write) -> fmt::Result {
    out.write_str(&print(module))
}

fn read<'a, T>(text: &'a [u8], rule: impl FnOnce(&mut Reader<'a>) -> Read<T>) -> Result<T, Error> {
    let mut reader = Reader::new(text);
    let result = rule(&mut reader).and_then(|value| {
        reader.skip();
        if reader.pos == text.len() { Ok(value) } else { reader.expected("the end of the text") }
    });
    result.map_err(|failure| reader.into_error(*failure))
}
