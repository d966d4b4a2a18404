//! Integration tests of the language.

mod bytecode;
mod text;
mod verify;
