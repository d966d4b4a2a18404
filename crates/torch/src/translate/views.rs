//! Views of tensors: how a view is read from its base, and how a write to it changes the base.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;

/// One step from a tensor to a view of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The same elements in another shape.
    Reshape(Vec<usize>),
    /// Axes in another order.
    Transpose(Vec<usize>),
    /// Every `step`-th position of an axis, from `start` to before `end`.
    Slice { axis: usize, start: usize, end: usize, step: usize },
    /// Elements repeated: reads only.
    Expand(Vec<usize>),
}

impl View {
    pub(crate) fn read(&self, base: &Tensor) -> Result<Tensor, Error> {
        Ok(match self {
            View::Reshape(dims) => {
                let count: Option<usize> = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
                if count != Some(base.num_elements()) {
                    return Err(Error::damaged(format!("{} cannot have the shape {dims:?}", base.spec())));
                }
                base.reshape(dims)
            }
            View::Transpose(order) => base.transpose(order),
            View::Slice { axis, start, end, step } => {
                let size = base.dims().get(*axis).copied().unwrap_or(0);
                if *end > size || start > end || *step == 0 {
                    return Err(Error::damaged(format!("positions {start} to {end} of {}", base.spec())));
                }
                base.slice_by(*axis as isize, *start..*end, *step)
            }
            View::Expand(dims) => base.broadcast_to(dims),
        })
    }

    /// The base after the view became `new`.
    pub(crate) fn written(&self, base: &Tensor, new: &Tensor) -> Result<Tensor, Error> {
        Ok(match self {
            View::Reshape(_) => new.reshape(base.dims()),
            View::Transpose(order) => {
                let mut back = vec![0; order.len()];
                for (to, from) in order.iter().enumerate() {
                    if let Some(place) = back.get_mut(*from) {
                        *place = to;
                    }
                }
                new.transpose(&back)
            }
            View::Slice { axis, start, end, step: 1 } => {
                let (at, size) = (*axis as isize, base.dim(*axis as isize));
                let before = (*start > 0).then(|| base.slice(at, 0..*start));
                let after = (*end < size).then(|| base.slice(at, *end..size));
                let parts: Vec<Tensor> = before.into_iter().chain([new.clone()]).chain(after).collect();
                Tensor::concat(&parts, at)
            }
            View::Slice { axis, start, step, .. } => {
                let size = base.dim(*axis as isize);
                let mut low = vec![0i64; base.rank()];
                let (mut high, mut between) = (low.clone(), low.clone());
                let count = new.dim(*axis as isize);
                let last = start + count.saturating_sub(1) * step;
                low[*axis] = *start as i64;
                between[*axis] = *step as i64 - 1;
                high[*axis] = size as i64 - 1 - last as i64;
                let spread = new.pad_all(&Tensor::scalar(new.dtype(), 0.0), &low, &high, &between);
                let ones = Tensor::ones(DType::I32, new.dims());
                let taken = ones.pad_all(&Tensor::scalar(DType::I32, 0.0), &low, &high, &between);
                taken.differs(&Tensor::scalar(DType::I32, 0.0)).select(&spread, base)
            }
            View::Expand(_) => {
                return Err(Error::new(
                    "it writes to an expanded tensor, whose elements lie on each other",
                    "clone the tensor before it is written to",
                ));
            }
        })
    }
}
