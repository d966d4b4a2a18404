//! Readers of an op's parts that turn what is missing into a violation.

use crate::ir::{Attr, Definition, Keyword, OpKind, TensorType, Type};
use crate::ops::def::{OpView, Violation};

/// Elements of a dense attribute that rules are willing to read.
pub(crate) const MAX_ELEMENTS: usize = 1 << 22;

/// Shape and elements of an integer constant.
type Integers<'a> = (&'a [i64], Vec<i64>);

impl<'a> OpView<'a> {
    /// Every operand as a tensor.
    pub(crate) fn tensors(&self) -> Result<Vec<&'a TensorType>, Violation> {
        (0..self.operands.len()).map(|n| self.tensor(n)).collect()
    }

    /// Result `n` as a tensor.
    pub(crate) fn result_tensor(&self, n: usize) -> Result<&'a TensorType, Violation> {
        self.results
            .get(n)
            .and_then(Type::as_tensor)
            .ok_or_else(|| Violation::new("", format!("result {n} must be a tensor")))
    }

    /// Whether a unit attribute is present or a boolean one is true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        matches!(self.attrs.get(name), Some(Attr::Unit | Attr::Bool(true)))
    }

    /// The word of an enumeration.
    pub(crate) fn keyword(&self, name: &'static str) -> Result<Keyword, Violation> {
        self.attr(name)?
            .as_keyword()
            .ok_or_else(|| Violation::new("", format!("attribute `{name}` must be a word of its enumeration")))
    }

    /// An `array<i64: …>`, or `count` times `fill` when it is absent.
    pub(crate) fn i64s_or(&self, name: &'static str, count: usize, fill: i64) -> Result<Vec<i64>, Violation> {
        match self.attrs.get(name) {
            None => Ok(vec![fill; count]),
            Some(Attr::DenseArray(_, values)) => Ok(values.to_vec()),
            Some(Attr::Dense(_)) => Ok(self.dense_i64s(name)?.map_or(Vec::new(), |(_, values)| values)),
            Some(_) => Err(Violation::new("", format!("attribute `{name}` must be an array of i64"))),
        }
    }

    /// The shape and integers of a dense attribute, if present.
    pub(crate) fn dense_i64s(&self, name: &'static str) -> Result<Option<Integers<'a>>, Violation> {
        match self.attrs.get(name) {
            None => Ok(None),
            Some(Attr::Dense(dense)) => match dense.to_i64s(MAX_ELEMENTS) {
                Some(values) => Ok(Some((&dense.ty.dims, values))),
                None => Err(Violation::new(
                    "",
                    format!("attribute `{name}` must hold integers, at most {MAX_ELEMENTS} of them"),
                )),
            },
            Some(_) => Err(Violation::new("", format!("attribute `{name}` must be a dense constant"))),
        }
    }

    /// Types of the arguments of region `n`.
    pub(crate) fn region_inputs(&self, n: usize) -> Result<Vec<&'a Type>, Violation> {
        Ok(self.region(n)?.args.iter().map(|&arg| self.func.ty(arg)).collect())
    }

    /// Types of what region `n` returns.
    pub(crate) fn region_outputs(&self, n: usize) -> Result<Vec<&'a Type>, Violation> {
        let region = self.region(n)?;
        let Some(&last) = region.ops.last() else {
            return Err(Violation::new("", format!("region {n} has no terminator")));
        };
        Ok(self.func.op(last).operands.iter().map(|&value| self.func.ty(value)).collect())
    }

    /// The integers of operand `n` when a constant defines it.
    pub(crate) fn constant(&self, n: usize) -> Option<Vec<i64>> {
        let &value = self.values.get(n)?;
        let Definition::Result(op, _) = self.func.values.get(value.0 as usize)?.definition else { return None };
        let op = self.func.ops.get(op.0 as usize)?;
        match (op.kind(), op.attr("value")) {
            // A constant whose elements are not those of its type is reported where it stands.
            (Some(OpKind::Constant), Some(Attr::Dense(dense))) => {
                let count = self.tensor(n).ok()?.num_elements()?;
                dense.to_i64s(4096).filter(|values| values.len() as u64 == count)
            }
            _ => None,
        }
    }
}
