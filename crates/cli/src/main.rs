//! The `tpu` command.
fn main() {}
