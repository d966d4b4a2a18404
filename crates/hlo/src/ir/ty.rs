//! Types of values: tensors, tokens, tuples, futures, and the element types inside them.

use std::fmt;
use std::sync::Arc;

use tensor::DType;

use crate::ir::Attr;

/// A dimension whose size is known only at run time, spelled `?`.
pub const DYNAMIC: i64 = i64::MIN;

/// A double compared and hashed by its bits, so that programs holding one are `Eq`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Real(u64);

impl Real {
    /// Wraps a value.
    pub fn new(value: f64) -> Self {
        Real(value.to_bits())
    }

    /// The value.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Debug for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

/// A quantized element: integers that stand for scaled reals (spec: "Quantized tensor types").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quantized {
    /// Integer type held in memory.
    pub storage: DType,
    /// Real type the integers stand for.
    pub expressed: DType,
    /// Smallest allowed stored value.
    pub storage_min: i64,
    /// Largest allowed stored value.
    pub storage_max: i64,
    /// Dimension the scales run along; `None` when one scale serves the whole tensor.
    pub axis: Option<i64>,
    /// One scale, or one for each index along `axis`.
    pub scales: Vec<Real>,
    /// Zero points, as many as scales.
    pub zero_points: Vec<i64>,
}

impl Quantized {
    /// Range of a storage type when none is written.
    pub(crate) fn storage_range(storage: DType) -> (i64, i64) {
        let bits = storage.bits().min(63);
        if storage.is_unsigned_integer() {
            (0, ((1i128 << bits) - 1) as i64)
        } else {
            let half = 1i128 << (storage.bits().min(64) - 1);
            ((-half) as i64, (half - 1) as i64)
        }
    }
}

/// The type of one tensor element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// A number or boolean.
    Plain(DType),
    /// Machine-sized index, seen in shapes and layouts.
    Index,
    /// TensorFloat-32, named only by dot algorithms.
    Tf32,
    /// Quantized.
    Quantized(Arc<Quantized>),
}

impl ElementType {
    /// The plain element type, if it is one.
    pub fn plain(&self) -> Option<DType> {
        match self {
            ElementType::Plain(dtype) => Some(*dtype),
            _ => None,
        }
    }
}

impl From<DType> for ElementType {
    fn from(dtype: DType) -> Self {
        ElementType::Plain(dtype)
    }
}

/// A ranked tensor type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Sizes; [`DYNAMIC`] where unknown.
    pub dims: Vec<i64>,
    /// Element type.
    pub element: ElementType,
    /// Encoding attribute: bounds of dynamic dimensions, or what another dialect put there.
    pub encoding: Option<Attr>,
}

impl TensorType {
    /// A tensor type without encoding.
    pub fn new(dims: impl Into<Vec<i64>>, element: impl Into<ElementType>) -> Self {
        TensorType { dims: dims.into(), element: element.into(), encoding: None }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Whether every dimension is known.
    pub fn is_static(&self) -> bool {
        self.dims.iter().all(|&d| d != DYNAMIC)
    }

    /// Number of elements, if every dimension is known and the product fits.
    pub fn num_elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?))
    }

    /// Upper bounds of dynamic dimensions, if the encoding states them.
    pub fn bounds(&self) -> Option<&[i64]> {
        match &self.encoding {
            Some(Attr::Bounds(bounds)) => Some(bounds),
            _ => None,
        }
    }
}

/// A function's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionType {
    /// Argument types.
    pub inputs: Vec<Type>,
    /// Result types.
    pub outputs: Vec<Type>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `tensor<…>`.
    Tensor(Arc<TensorType>),
    /// `memref<…>`: a buffer that an op writes into.
    Buffer(Arc<TensorType>),
    /// `!stablehlo.token`.
    Token,
    /// `tuple<…>`.
    Tuple(Arc<[Type]>),
    /// `!stablehlo.future<…>`.
    Future(Arc<[Type]>),
    /// A function type, in attributes.
    Function(Arc<FunctionType>),
    /// A bare element type such as `i32`, in attributes.
    Element(ElementType),
    /// `none`.
    None,
    /// A type of a dialect we do not model, kept as its text.
    Opaque(Arc<str>),
}

impl Type {
    /// A static or dynamic tensor type without encoding.
    pub fn tensor(dims: impl Into<Vec<i64>>, element: impl Into<ElementType>) -> Type {
        Type::Tensor(Arc::new(TensorType::new(dims, element)))
    }

    /// A rank-0 tensor type.
    pub fn scalar(element: impl Into<ElementType>) -> Type {
        Type::tensor(Vec::new(), element)
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<TensorType> for Type {
    fn from(tensor: TensorType) -> Self {
        Type::Tensor(Arc::new(tensor))
    }
}
