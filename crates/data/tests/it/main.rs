//! Integration tests of `data`: files that are elsewhere, and pictures as models want them.

mod hostile;
mod image_inputs;
mod remote;
