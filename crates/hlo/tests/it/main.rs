//! Integration tests of the language.

mod bytecode;
mod passes;
mod text;
mod verify;
