//! Integration tests of the language.

mod bytecode;
mod verify;
