//! Kernels against plain loops, their text, and what is refused.

mod arrays;
mod flash;
mod refused;
mod text;
