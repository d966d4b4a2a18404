//! One op's arguments, read by name, with defaults where they are absent.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::graph::{Node, NodeArgument, SymInt};
use crate::translate::run::Translator;
use crate::translate::types::{Operand, Scalar};

/// What an op gives.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// No value.
    Nothing,
    /// One tensor.
    Tensor(Tensor),
    /// Several results, or a list.
    Several(Vec<Value>),
    /// A number.
    Scalar(Scalar),
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}

impl From<Vec<Tensor>> for Value {
    fn from(tensors: Vec<Tensor>) -> Value {
        Value::Several(tensors.into_iter().map(Value::Tensor).collect())
    }
}

/// An op at work.
pub(crate) struct Call<'c, 'g> {
    pub(crate) translator: &'c mut Translator<'g>,
    pub(crate) node: &'g Node,
}

impl<'g> Call<'_, 'g> {
    fn wrong(&self, name: &str, wanted: &str) -> Error {
        Error::damaged(format!("argument `{name}` is not {wanted}"))
    }

    /// An argument; none where it is absent or `None`.
    pub(crate) fn argument(&self, name: &str) -> Option<&'g NodeArgument> {
        let found = self.node.inputs.iter().find(|(own, _)| own == name).map(|(_, value)| value);
        found.filter(|value| !matches!(value, NodeArgument::None))
    }

    /// An argument by place, as higher-order ops have them.
    pub(crate) fn nth(&self, n: usize) -> Result<&'g NodeArgument, Error> {
        let found = self.node.inputs.get(n).map(|(_, value)| value);
        found.ok_or_else(|| Error::damaged(format!("argument {n} is missing")))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.argument(name).is_some()
    }

    pub(crate) fn optional_tensor(&mut self, name: &str) -> Result<Option<Tensor>, Error> {
        match self.argument(name) {
            None => Ok(None),
            Some(NodeArgument::Tensor(tensor)) => self.translator.tensor(tensor).map(Some),
            Some(argument) => match self.translator.scalar(argument)? {
                Some(scalar) => Ok(Some(scalar.tensor(scalar.dtype()))),
                None => Err(self.wrong(name, "a tensor")),
            },
        }
    }

    pub(crate) fn tensor(&mut self, name: &str) -> Result<Tensor, Error> {
        let found = self.optional_tensor(name)?;
        found.ok_or_else(|| Error::damaged(format!("argument `{name}` is missing")))
    }

    /// The first argument, which ops call `self`, `input` or `x`.
    pub(crate) fn subject(&mut self) -> Result<Tensor, Error> {
        match self.nth(0)? {
            NodeArgument::Tensor(name) => self.translator.tensor(name),
            _ => Err(self.wrong("self", "a tensor")),
        }
    }

    pub(crate) fn tensors(&mut self, name: &str) -> Result<Vec<Option<Tensor>>, Error> {
        match self.argument(name) {
            Some(NodeArgument::Tensors(names)) => {
                names.iter().map(|name| name.as_ref().map(|name| self.translator.tensor(name)).transpose()).collect()
            }
            None => Ok(Vec::new()),
            _ => Err(self.wrong(name, "a list of tensors")),
        }
    }

    pub(crate) fn all_tensors(&mut self, name: &str) -> Result<Vec<Tensor>, Error> {
        let all: Option<Vec<Tensor>> = self.tensors(name)?.into_iter().collect();
        all.ok_or_else(|| self.wrong(name, "a list of tensors"))
    }

    /// A tensor or a number.
    pub(crate) fn operand(&mut self, name: &str) -> Result<Operand, Error> {
        match self.argument(name) {
            Some(NodeArgument::Tensor(tensor)) => self.translator.tensor(tensor).map(Operand::Tensor),
            Some(argument) => match self.translator.scalar(argument)? {
                Some(scalar) => Ok(Operand::Scalar(scalar)),
                None => Err(self.wrong(name, "a tensor or number")),
            },
            None => Err(Error::damaged(format!("argument `{name}` is missing"))),
        }
    }

    pub(crate) fn scalar(&mut self, name: &str) -> Result<Option<Scalar>, Error> {
        match self.argument(name) {
            None => Ok(None),
            Some(argument) => match self.translator.scalar(argument)? {
                Some(scalar) => Ok(Some(scalar)),
                None => Err(self.wrong(name, "a number")),
            },
        }
    }

    pub(crate) fn float(&mut self, name: &str, default: f64) -> Result<f64, Error> {
        Ok(self.scalar(name)?.map_or(default, Scalar::as_f64))
    }

    pub(crate) fn int(&mut self, name: &str, default: i64) -> Result<i64, Error> {
        match self.scalar(name)? {
            None => Ok(default),
            Some(Scalar::Int(value)) => Ok(value),
            Some(Scalar::Bool(value)) => Ok(i64::from(value)),
            Some(Scalar::Float(_)) => Err(self.wrong(name, "an integer")),
        }
    }

    pub(crate) fn bool(&mut self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.scalar(name)?.map_or(default, |scalar| scalar.as_f64() != 0.0))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'g str> {
        match self.argument(name) {
            Some(NodeArgument::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn optional_ints(&mut self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        match self.argument(name) {
            None => Ok(None),
            Some(NodeArgument::Ints(values)) => {
                values.iter().map(|value| self.sym_int(value)).collect::<Result<_, _>>().map(Some)
            }
            Some(NodeArgument::Int(value)) => Ok(Some(vec![self.sym_int(value)?])),
            Some(NodeArgument::Tensors(names)) if names.is_empty() => Ok(Some(Vec::new())),
            Some(_) => Err(self.wrong(name, "a list of integers")),
        }
    }

    fn sym_int(&mut self, value: &SymInt) -> Result<i64, Error> {
        self.translator.sym_int(value)
    }

    pub(crate) fn ints(&mut self, name: &str) -> Result<Vec<i64>, Error> {
        Ok(self.optional_ints(name)?.unwrap_or_default())
    }

    /// Sizes of spatial axes; one number, or none, stands for all of them.
    pub(crate) fn spatial(&mut self, name: &str, count: usize, default: i64) -> Result<Vec<i64>, Error> {
        let values = self.ints(name)?;
        match values.as_slice() {
            [] => Ok(vec![default; count]),
            [one] => Ok(vec![*one; count]),
            all if all.len() == count => Ok(values),
            _ => Err(self.wrong(name, &format!("{count} integers"))),
        }
    }

    pub(crate) fn floats(&self, name: &str) -> Option<Vec<f64>> {
        match self.argument(name) {
            Some(NodeArgument::Floats(values)) => Some(values.clone()),
            Some(NodeArgument::Ints(values)) => values
                .iter()
                .map(|value| match value {
                    SymInt::Value(value) => Some(*value as f64),
                    SymInt::Name(_) => None,
                })
                .collect(),
            _ => None,
        }
    }

    /// An axis, counted from the end where it is negative.
    pub(crate) fn axis(&mut self, name: &str, default: i64, rank: usize) -> Result<usize, Error> {
        let axis = self.int(name, default)?;
        in_rank(axis, rank)
    }

    /// Axes of a reduction; none means all.
    pub(crate) fn axes(&mut self, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
        let mut axes: Vec<usize> =
            self.ints(name)?.into_iter().map(|axis| in_rank(axis, rank)).collect::<Result<_, _>>()?;
        if axes.is_empty() {
            return Ok((0..rank).collect());
        }
        axes.sort_unstable();
        axes.dedup();
        // A tensor without axes is reduced along one of size 1.
        axes.retain(|axis| *axis < rank);
        Ok(axes)
    }

    /// The recorded type of the first result.
    pub(crate) fn result_type(&self) -> Result<DType, Error> {
        self.translator.recorded_type(self.node)
    }

    /// The recorded shape of the first result.
    pub(crate) fn result_dims(&self) -> Result<Vec<usize>, Error> {
        self.translator.recorded_dims(self.node)
    }

    /// Something that cannot be translated, with what to do.
    pub(crate) fn unsupported(&self, what: impl std::fmt::Display) -> Error {
        Error::new(
            format!("{what} is not translated"),
            "replace it in the model, or export with `run_decompositions()`",
        )
    }
}

/// An axis of a shape; a tensor without axes has one.
pub(crate) fn in_rank(axis: i64, rank: usize) -> Result<usize, Error> {
    let count = rank.max(1) as i64;
    let at = if axis < 0 { axis.checked_add(count) } else { Some(axis) };
    let at = at.filter(|at| (0..count).contains(at));
    at.map(|at| at as usize).ok_or_else(|| Error::damaged(format!("axis {axis} of a tensor with {rank} axes")))
}

/// A size that must not be negative.
pub(crate) fn positive(value: i64) -> Result<usize, Error> {
    usize::try_from(value).map_err(|_| Error::damaged(format!("a size is {value}")))
}
