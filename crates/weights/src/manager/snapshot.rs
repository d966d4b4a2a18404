//! What is to be saved: tensors, whole or in pieces, there already or fetched when their turn comes.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tensor::{DType, Literal};

use crate::error::{Cause, Error};
use crate::region::TensorRegion;

/// The state of a training run at one step.
#[derive(Debug)]
pub struct Snapshot {
    /// The step.
    pub step: u64,
    /// Every tensor, whole or as pieces that tile it.
    pub pieces: Vec<SnapshotPiece>,
    /// Anything that belongs to the state: the place in the data, random state, configuration. Numbers come back to
    /// the last bit; what JSON has no number for (NaN, infinities) does not, so keep such values as text or bits.
    pub metadata: Value,
}

impl Snapshot {
    /// A snapshot that could not be taken. Saved by one of several processes, it tells the others why there is no checkpoint.
    pub fn failed(step: u64, cause: Cause) -> Snapshot {
        let piece = SnapshotPiece::fetched("state", DType::U8, &[1], move || Err(cause));
        Snapshot { step, pieces: vec![piece], metadata: Value::Null }
    }
}

/// A tensor or a slice of one.
pub struct SnapshotPiece {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    pub(super) region: TensorRegion,
    source: Source,
}

type Fetch = Box<dyn FnOnce() -> Result<Literal, Cause> + Send>;

enum Source {
    Ready(Arc<Literal>),
    Later(Fetch),
}

impl SnapshotPiece {
    /// A tensor.
    pub fn whole(name: impl Into<String>, value: Arc<Literal>) -> SnapshotPiece {
        let (dtype, dims) = (value.dtype(), value.dims().to_vec());
        let region = TensorRegion::whole(&dims);
        SnapshotPiece { name: name.into(), dtype, dims, region, source: Source::Ready(value) }
    }

    /// The part of a tensor of shape `dims` that begins at `start`.
    pub fn slice(name: impl Into<String>, dims: &[usize], start: &[usize], value: Arc<Literal>) -> SnapshotPiece {
        let region = TensorRegion { start: start.to_vec(), size: value.dims().to_vec() };
        SnapshotPiece {
            name: name.into(),
            dtype: value.dtype(),
            dims: dims.to_vec(),
            region,
            source: Source::Ready(value),
        }
    }

    /// A tensor that is fetched when it is written, on the thread that saves. Only as many are in memory at once as are
    /// being written.
    pub fn fetched(
        name: impl Into<String>,
        dtype: DType,
        dims: &[usize],
        fetch: impl FnOnce() -> Result<Literal, Cause> + Send + 'static,
    ) -> SnapshotPiece {
        SnapshotPiece::fetched_slice(name, dtype, dims, TensorRegion::whole(dims), fetch)
    }

    /// A part of a tensor of shape `dims` that is fetched when it is written.
    pub fn fetched_slice(
        name: impl Into<String>,
        dtype: DType,
        dims: &[usize],
        region: TensorRegion,
        fetch: impl FnOnce() -> Result<Literal, Cause> + Send + 'static,
    ) -> SnapshotPiece {
        SnapshotPiece { name: name.into(), dtype, dims: dims.to_vec(), region, source: Source::Later(Box::new(fetch)) }
    }

    /// Bytes of the piece; `None` if that overflows.
    pub(super) fn size_bytes(&self) -> Option<usize> {
        self.region.size_bytes(self.dtype.size_bytes())
    }

    /// The values, of the type and shape that were announced.
    pub(super) fn produce(self) -> Result<Arc<Literal>, Error> {
        let SnapshotPiece { name, dtype, region, source, .. } = self;
        let value = match source {
            Source::Ready(value) => value,
            Source::Later(fetch) => {
                // A panic of the caller's function must not end the saving thread without a word.
                let fetched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(fetch));
                let fetched = fetched.unwrap_or_else(|_| Err("the function that fetches it panicked".into()));
                Arc::new(fetched.map_err(|source| Error::NotProduced { name: name.clone(), source })?)
            }
        };
        if value.dtype() != dtype || value.dims() != region.size {
            let announced = format!("{dtype} {:?} was announced", region.size);
            let message = format!("{announced}, {} {:?} came", value.dtype(), value.dims());
            return Err(Error::NotProduced { name, source: message.into() });
        }
        Ok(value)
    }
}

impl fmt::Debug for SnapshotPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} {} {:?} of {:?})", self.name, self.dtype, self.region, self.dims)
    }
}
