//! The handle users compute with: a value of a traced function, or only its type and shape.

use std::fmt;
use std::rc::Rc;

use tensor::DType;

use crate::Spec;
use crate::graph::Ref;

/// A tensor of a function being traced; cheap to clone.
///
/// Outside of a traced function a tensor is only its type and shape, which is what [`crate::trace`] takes and gives back.
#[derive(Clone)]
pub struct Tensor {
    place: Option<(u64, Ref)>,
    spec: Rc<Spec>,
}

impl Tensor {
    /// A tensor known by its type and shape only.
    pub fn of(spec: Spec) -> Tensor {
        Tensor { place: None, spec: Rc::new(spec) }
    }

    pub(crate) fn traced(frame: u64, value: Ref, spec: Spec) -> Tensor {
        Tensor { place: Some((frame, value)), spec: Rc::new(spec) }
    }

    pub(crate) fn place(&self) -> Option<(u64, Ref)> {
        self.place
    }

    /// Type and shape.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Sizes, major to minor.
    pub fn dims(&self) -> &[usize] {
        &self.spec.dims
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.spec.dims.len()
    }

    /// Size of an axis; negative axes count from the end.
    #[track_caller]
    pub fn dim(&self, axis: isize) -> usize {
        self.spec.dims[self.axis(axis)]
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.spec.num_elements()
    }

    /// The axis as an index; negative axes count from the end.
    #[track_caller]
    pub(crate) fn axis(&self, axis: isize) -> usize {
        let rank = self.rank();
        let index = if axis < 0 { axis.checked_add_unsigned(rank) } else { Some(axis) };
        match index.and_then(|index| usize::try_from(index).ok()).filter(|&index| index < rank) {
            Some(index) => index,
            None => crate::error::misuse(
                std::panic::Location::caller(),
                format!("axis {axis} of {}, which has {rank} dimensions", self.spec),
            ),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.spec)
    }
}
