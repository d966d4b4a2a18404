//! The handle users compute with: a value of a traced function, one on the host or on a device, or only a type and shape.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use tensor::{DType, Literal};

use crate::Spec;

/// A value of a traced function, as its graph counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ref(pub(crate) u32);

/// A tensor; cheap to clone.
///
/// Inside a traced function it is a value of that function. Outside it is a value on the host or on a device, which is what
/// a jitted function is called with and gives back, or only a type and shape, which is all that [`crate::trace()`] needs.
///
/// ```
/// use trace::Tensor;
///
/// let weights = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(weights.dims(), [2, 2]);
/// ```
///
/// A tensor on the host that a traced function uses without taking it as an input is a constant of the program.
#[derive(Clone)]
pub struct Tensor {
    held: Held,
    spec: Rc<Spec>,
}

/// Where the value of a tensor is.
#[derive(Clone)]
enum Held {
    /// Nowhere: only type and shape are known.
    Shape,
    /// In a frame of the stack of functions being traced.
    Traced(u64, Ref),
    Host(Arc<Literal>),
    /// An array that only the crate of the devices knows.
    Device(Rc<dyn Any>),
}

impl Tensor {
    /// A tensor known by its type and shape only.
    pub fn of(spec: Spec) -> Tensor {
        Tensor { held: Held::Shape, spec: Rc::new(spec) }
    }

    /// A value on the host.
    pub fn on_host(literal: Arc<Literal>) -> Tensor {
        Tensor { spec: Rc::new(literal.spec()), held: Held::Host(literal) }
    }

    /// A value on a device: an array of that type and shape, which [`Tensor::device_value`] gives back.
    pub fn on_device(spec: Spec, array: impl Any) -> Tensor {
        Tensor { held: Held::Device(Rc::new(array)), spec: Rc::new(spec) }
    }

    /// The value, if it is on the host.
    pub fn host_value(&self) -> Option<&Arc<Literal>> {
        match &self.held {
            Held::Host(literal) => Some(literal),
            _ => None,
        }
    }

    /// The array, if the value is one of that kind on a device.
    pub fn device_value<A: Any>(&self) -> Option<&A> {
        match &self.held {
            Held::Device(array) => array.downcast_ref(),
            _ => None,
        }
    }

    /// Why the tensor is no value of a traced function, and what to do.
    pub(crate) fn not_traced(&self) -> String {
        match &self.held {
            Held::Device(_) => format!(
                "{} is on a device: pass it to the jitted function as an input, or copy it to the host first",
                self.spec
            ),
            _ => format!(
                "a tensor known by its shape only ({}) was computed with: pass it to trace as an input",
                self.spec
            ),
        }
    }

    pub(crate) fn traced(frame: u64, value: Ref, spec: Spec) -> Tensor {
        Tensor { held: Held::Traced(frame, value), spec: Rc::new(spec) }
    }

    /// The frame and the value there, if it is of a traced function.
    pub(crate) fn place(&self) -> Option<(u64, Ref)> {
        match self.held {
            Held::Traced(frame, value) => Some((frame, value)),
            _ => None,
        }
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

/// A value on the host, from whatever a literal is made of: scalars, slices, vectors, nested arrays.
impl<T: Into<Literal>> From<T> for Tensor {
    fn from(value: T) -> Tensor {
        Tensor::on_host(Arc::new(value.into()))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.spec)
    }
}
