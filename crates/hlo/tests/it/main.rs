//! Integration tests of the language.

mod bytecode;
mod passes;
mod specialize;
mod text;
mod verify;
