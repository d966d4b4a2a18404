//! One node's inputs and attributes, read with defaults and checked.

use std::sync::Arc;

use tensor::{DType, Literal};
use trace::Tensor;

use crate::data;
use crate::error::Error;
use crate::model::OnnxModel;
use crate::proto::{AttributeProto, GraphProto};

/// Attributes of a node.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'m> {
    pub(crate) list: &'m [AttributeProto],
    pub(crate) model: &'m OnnxModel,
}

impl<'m> Attributes<'m> {
    fn find(self, name: &str) -> Option<&'m AttributeProto> {
        self.list.iter().find(|attribute| attribute.name == name)
    }

    pub(crate) fn has(self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(crate) fn int(self, name: &str, default: i64) -> i64 {
        self.find(name).map_or(default, |attribute| attribute.i)
    }

    pub(crate) fn float(self, name: &str, default: f64) -> f64 {
        self.find(name).map_or(default, |attribute| f64::from(attribute.f))
    }

    pub(crate) fn ints(self, name: &str) -> Option<&'m [i64]> {
        self.find(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(crate) fn floats(self, name: &str) -> Option<&'m [f32]> {
        self.find(name).map(|attribute| attribute.floats.as_slice())
    }

    pub(crate) fn text(self, name: &str, default: &'static str) -> String {
        self.find(name).map_or(default.to_string(), |attribute| String::from_utf8_lossy(&attribute.s).into_owned())
    }

    pub(crate) fn texts(self, name: &str) -> Vec<String> {
        let all = self.find(name).map(|attribute| attribute.strings.as_slice()).unwrap_or_default();
        all.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }

    pub(crate) fn literal(self, name: &str) -> Result<Option<Literal>, Error> {
        let tensor = self.find(name).and_then(|attribute| attribute.t.as_ref());
        tensor.map(|tensor| self.model.literal(tensor)).transpose()
    }

    pub(crate) fn graph(self, name: &str) -> Result<&'m GraphProto, Error> {
        let graph = self.find(name).and_then(|attribute| attribute.g.as_deref());
        graph.ok_or_else(|| Error::damaged(format!("attribute `{name}` is no graph")))
    }
}

/// A node at work.
pub(crate) struct Call<'m> {
    pub(crate) op: &'m str,
    pub(crate) inputs: Vec<Option<Tensor>>,
    pub(crate) attributes: Attributes<'m>,
    pub(crate) opset: i64,
    pub(crate) num_outputs: usize,
}

impl Call<'_> {
    /// An input that must be there.
    pub(crate) fn input(&self, at: usize) -> Result<&Tensor, Error> {
        self.optional(at).ok_or_else(|| Error::damaged(format!("input {at} is missing")))
    }

    pub(crate) fn optional(&self, at: usize) -> Option<&Tensor> {
        self.inputs.get(at).and_then(Option::as_ref)
    }

    /// All inputs, of which none may be left out.
    pub(crate) fn all(&self) -> Result<Vec<&Tensor>, Error> {
        let all: Option<Vec<&Tensor>> = self.inputs.iter().map(Option::as_ref).collect();
        all.filter(|all| !all.is_empty()).ok_or_else(|| Error::damaged("an input is missing"))
    }

    /// The values of an input that must be known while the model is translated.
    fn known(&self, at: usize) -> Result<Option<&Arc<Literal>>, Error> {
        let Some(tensor) = self.optional(at) else { return Ok(None) };
        tensor.host_value().map(Some).ok_or_else(|| {
            Error::unknown(format!("input {at} is computed from the data, and must be known: sizes are fixed on a TPU"))
        })
    }

    /// Whole numbers of an input.
    pub(crate) fn ints(&self, at: usize) -> Result<Option<Vec<i64>>, Error> {
        let Some(literal) = self.known(at)? else { return Ok(None) };
        data::integers(literal).map(Some).ok_or_else(|| Error::damaged(format!("input {at} has no whole numbers")))
    }

    /// Numbers of an input.
    pub(crate) fn numbers(&self, at: usize) -> Result<Option<Vec<f64>>, Error> {
        let Some(literal) = self.known(at)? else { return Ok(None) };
        data::numbers(literal).map(Some).ok_or_else(|| Error::damaged(format!("input {at} has no numbers")))
    }

    /// Whole numbers of an input, or of the attribute that older opsets have in its place.
    pub(crate) fn ints_or(&self, at: usize, attribute: &str) -> Result<Option<Vec<i64>>, Error> {
        match self.ints(at)? {
            Some(values) => Ok(Some(values)),
            None => Ok(self.attributes.ints(attribute).map(<[i64]>::to_vec)),
        }
    }

    /// An axis among so many.
    pub(crate) fn axis(&self, default: i64, rank: usize) -> Result<usize, Error> {
        in_rank(self.attributes.int("axis", default), rank)
    }

    /// Sizes of spatial axes by an attribute.
    pub(crate) fn spatial(&self, name: &str, count: usize, default: usize) -> Result<Vec<usize>, Error> {
        match self.attributes.ints(name) {
            None => Ok(vec![default; count]),
            Some(values) if values.len() == count => values.iter().map(|value| size(*value)).collect(),
            Some(values) => Err(Error::damaged(format!("{name} has {} numbers for {count} axes", values.len()))),
        }
    }
}

/// An axis, counted from the end where it is negative.
pub(crate) fn in_rank(axis: i64, rank: usize) -> Result<usize, Error> {
    let count = rank as i64;
    let at = if axis < 0 { axis.checked_add(count) } else { Some(axis) };
    let at = at.filter(|at| (0..count).contains(at));
    at.map(|at| at as usize).ok_or_else(|| Error::damaged(format!("axis {axis} of a tensor with {rank} axes")))
}

/// Different axes in order.
pub(crate) fn all_in_rank(axes: &[i64], rank: usize) -> Result<Vec<usize>, Error> {
    let mut all = axes.iter().map(|axis| in_rank(*axis, rank)).collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    if all.len() == count { Ok(all) } else { Err(Error::damaged(format!("an axis is named twice in {axes:?}"))) }
}

/// A size that must not be negative.
pub(crate) fn size(value: i64) -> Result<usize, Error> {
    usize::try_from(value).map_err(|_| Error::damaged(format!("a size is {value}")))
}

/// A tensor in another type: to booleans it is whether it differs from 0.
pub(crate) fn cast(tensor: &Tensor, dtype: DType) -> Tensor {
    match dtype {
        _ if tensor.dtype() == dtype => tensor.clone(),
        DType::Bool => tensor.differs(&Tensor::scalar(tensor.dtype(), 0.0)),
        _ => tensor.cast(dtype),
    }
}

/// The type that sums of a type are computed in.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() < 32 { DType::F32 } else { dtype }
}

/// A known tensor of whole numbers.
pub(crate) fn whole(values: &[i64], dims: &[usize]) -> Result<Tensor, Error> {
    Ok(Tensor::on_host(Arc::new(Literal::from_slice(values, dims)?)))
}
