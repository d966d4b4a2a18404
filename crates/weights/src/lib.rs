//! Tensors in files: safetensors and NumPy's formats, read piece by piece and written whole, and checkpoints on top.
//!
//! Two things are called checkpoint, for two jobs. A [`CheckpointManager`] is what a training run saves with and resumes from: many steps,
//! on a disk or in a bucket, in the background, in pieces, safe at any moment. A [`Checkpoint`] is one model as one file
//! that any tool reads: what is handed on when training is over.
//!
//! ```
//! use tensor::Literal;
//! use weights::TensorRegion;
//!
//! let whole = Literal::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! let second_row = TensorRegion { start: vec![1, 0], size: vec![1, 2] };
//! assert_eq!(second_row.cut(&whole), Some(Literal::from([[3.0f32, 4.0]])));
//! ```

mod checkpoint;
mod error;
mod folder;
mod manager;
mod npy;
mod pages;
pub mod quant;
mod region;
mod safetensors;
mod store;
mod unfinished;

pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint};
pub use error::{Cause, Error, StoreFailure};
pub use folder::SafeTensorsFolder;
pub use manager::{
    AsyncSaver, CheckpointManager, Found, IntegrityCheck, Keep, MANIFEST_VERSION, Protection, SaveGroup, SaveReport,
    Saved, SavedTensor, Saver, Snapshot, SnapshotPiece, Types, WhenBusy,
};
pub use npy::{NpyHeader, read_npy, read_npy_header, read_npy_header_from, read_npz, write_npz};
pub use pages::zeroed_bytes;
pub use region::TensorRegion;
pub use safetensors::{Entry, SafeTensors, write};
pub use store::{
    Access, ObjectReader, ObjectVersion, ObjectWriter, RangeSink, RecordVersion, RemoteObject, Store, StoredObject,
    Swap, choose_cryptography,
};
pub use unfinished::unfinished_file;
