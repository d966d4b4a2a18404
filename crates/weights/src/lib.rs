//! Tensors in files: safetensors and NumPy's formats, read piece by piece and written whole, and checkpoints on top.

mod checkpoint;
mod error;
mod npy;
mod safetensors;

pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint};
pub use error::Error;
pub use npy::{NpyHeader, read_npy, read_npy_header, read_npz, write_npz};
pub use safetensors::{Entry, SafeTensors, write};
