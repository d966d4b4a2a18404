//! Kernels against plain loops, their text, the rewrite of programs, and what is refused.

mod arrays;
mod cuda;
mod embedding;
mod flash;
mod grouped;
mod loss;
mod lower;
mod meshes;
mod norm;
mod norms;
mod paged;
mod quantized;
mod recognise;
mod refused;
mod sharded;
mod text;
