//! Writes a mixture of experts over rows sorted by the expert they chose.

use std::collections::HashMap;

use hlo::{Func, OpId, Region, Value};
use tensor::{DType, Spec};

use super::super::ops::sorted;
use super::super::write::{Decompositions, Writer};
use super::choice::Choice;
use super::matrix::Matrix;
use super::text::{collect, combine, dispatch, products, take, weigh};
use super::walk::{Factor, Node, OfTokens, Operand, Reader, Replaced};
use crate::call::{static_spec, tensor_type};
use crate::composites::{GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT, GroupedAttributes};
use crate::error::Error;
use crate::kernels::grouped::Matrices;

/// A mixture of experts in a region.
pub(super) struct Mixture {
    pub(super) choice: Choice,
    /// Sizes of the axes of tokens.
    pub(super) tokens: Vec<usize>,
    pub(super) nodes: Vec<Node>,
    pub(super) specs: Vec<Spec>,
    pub(super) replaced: Vec<Replaced>,
}

/// Rows sorted by expert: the token of each, its index before, where each went, and how many each expert has.
struct Sorted {
    tokens: Value,
    order: Value,
    inverse: Value,
    sizes: Value,
}

struct MixtureWriter<'a, 'b> {
    writer: Writer<'a>,
    decompositions: &'b mut Decompositions,
    mixture: &'b Mixture,
    sorted: Sorted,
    /// Nodes that were written.
    values: Vec<Option<Value>>,
    taken: HashMap<OfTokens, Value>,
}

fn internal() -> Error {
    Error::Internal("axes of experts do not agree".into())
}

fn spec(func: &Func, value: Value) -> Result<Spec, Error> {
    static_spec(func.ty(value)).ok_or_else(internal)
}

impl Mixture {
    pub(super) fn describe(&self) -> String {
        let Choice { choices, experts, .. } = self.choice;
        let of_nodes = self.nodes.iter().filter(|node| matches!(node, Node::First { .. } | Node::Next { .. })).count();
        let is_backward = |one: &&Replaced| !matches!(one.reader, Reader::Combine { .. });
        let is_matmul = |one: &&Replaced| matches!(one.reader, Reader::OfTokens { .. } | Reader::OfMatrices { .. });
        let matmuls = of_nodes + self.replaced.iter().filter(is_matmul).count();
        let gradients = if self.replaced.iter().any(|one| is_backward(&one)) { " with gradients" } else { "" };
        let tokens: usize = self.tokens.iter().product();
        format!("{choices} of {experts} experts, {tokens} tokens, {matmuls} grouped matmuls{gradients}")
    }

    fn rows(&self) -> usize {
        self.tokens.iter().product::<usize>() * self.choice.choices
    }

    pub(super) fn write(
        &self,
        func: &mut Func,
        region: Region,
        decompositions: &mut Decompositions,
    ) -> Result<(), Error> {
        let Choice { chosen, choices, experts, .. } = self.choice;
        let rows = self.rows();
        let mut writer = Writer::new(&mut *func, region);
        let flat = writer.reshaped(chosen, vec![rows]);
        let flat = writer.converted(flat, DType::I32);
        let text = |name: &str| dispatch(name, rows, choices, experts);
        let results = writer.call(decompositions, &text, vec![flat])?;
        let [tokens, order, inverse, sizes] = results[..] else { return Err(internal()) };
        let sorted_rows = Sorted { tokens, order, inverse, sizes };
        let mut all = MixtureWriter {
            writer,
            decompositions,
            mixture: self,
            sorted: sorted_rows,
            values: vec![None; self.nodes.len()],
            taken: HashMap::new(),
        };
        let mut replaced = HashMap::new();
        for one in &self.replaced {
            replaced.insert(one.result, all.replaced(one)?);
        }
        let new: Vec<OpId> = all.writer.finish();
        for op in &mut func.ops {
            for operand in &mut op.operands {
                *operand = replaced.get(operand).copied().unwrap_or(*operand);
            }
        }
        let order =
            sorted(func, region, &new).ok_or_else(|| Error::Internal("experts read what comes later".into()))?;
        func.regions.get_mut(region.0 as usize).ok_or_else(internal)?.ops = order;
        Ok(())
    }
}

impl MixtureWriter<'_, '_> {
    fn call(&mut self, text: &dyn Fn(&str) -> String, operands: Vec<Value>) -> Result<Value, Error> {
        self.writer.call(self.decompositions, text, operands)?.first().copied().ok_or_else(internal)
    }

    /// Tokens in rows of `[tokens, features]`.
    fn flat(&mut self, of: &OfTokens) -> Value {
        let turned = self.writer.transposed(of.value, &of.order);
        let count = self.mixture.tokens.iter().product();
        self.writer.reshaped(turned, vec![count, of.width])
    }

    /// The rows of tokens that were chosen for.
    fn taken(&mut self, of: &OfTokens) -> Result<Value, Error> {
        if let Some(&taken) = self.taken.get(of) {
            return Ok(taken);
        }
        let flat = self.flat(of);
        let dtype = spec(self.writer.func, flat)?.dtype;
        let sizes = [self.mixture.tokens.iter().product(), self.mixture.rows(), of.width];
        let rows = self.call(&|name| take(name, sizes, dtype), vec![flat, self.sorted.tokens])?;
        self.taken.insert(of.clone(), rows);
        Ok(rows)
    }

    fn matmul(&mut self, rows: Value, matrix: &Matrix) -> Result<Value, Error> {
        let (matrices, lies) = match matrix.lies() {
            Some(lies) => (matrix.value, lies),
            None => (self.writer.transposed(matrix.value, &matrix.order), Matrices::AsIs),
        };
        let attributes = GroupedAttributes { transposed: lies == Matrices::Transposed, ..GroupedAttributes::default() };
        let operands = vec![rows, matrices, self.sorted.sizes];
        let results = self.writer.composite(self.decompositions, GROUPED_MATMUL, operands, &attributes.to_attrs())?;
        results.first().copied().ok_or_else(internal)
    }

    fn node(&mut self, n: usize) -> Result<Value, Error> {
        if let Some(value) = self.values.get(n).copied().flatten() {
            return Ok(value);
        }
        let mixture = self.mixture;
        let (node, like) = mixture.nodes.get(n).zip(mixture.specs.get(n)).ok_or_else(internal)?;
        let value = match node {
            Node::First { x, matrix } => {
                let rows = self.taken(x)?;
                self.matmul(rows, matrix)?
            }
            Node::Next { node, matrix } => {
                let rows = self.node(*node)?;
                self.matmul(rows, matrix)?
            }
            Node::Weighed { y } => {
                let rows = self.taken(y)?;
                let dtype = spec(self.writer.func, rows)?.dtype;
                let weights = self.writer.reshaped(mixture.choice.probabilities, vec![mixture.rows()]);
                let weight = spec(self.writer.func, weights)?.dtype;
                let sizes = [mixture.rows(), y.width];
                let types = [dtype, weight, like.dtype];
                self.call(&|name| weigh(name, sizes, types), vec![rows, weights, self.sorted.order])?
            }
            Node::Elementwise { op, operands } => {
                let mut all = Vec::with_capacity(operands.len());
                for operand in operands {
                    all.push(match operand {
                        Operand::Node(node) => self.node(*node)?,
                        Operand::Number(value) => {
                            let dtype = spec(self.writer.func, *value)?.dtype;
                            let like = Spec::new(dtype, like.dims.clone());
                            self.writer.repeated(*value, &like).ok_or_else(internal)?
                        }
                    });
                }
                let (kind, attrs) = {
                    let op = self.writer.func.op(*op);
                    (op.kind().ok_or_else(internal)?, op.attrs.clone())
                };
                let results = self.writer.op(kind, all, attrs, vec![tensor_type(like)]);
                results.first().copied().ok_or_else(internal)?
            }
        };
        if let Some(known) = self.values.get_mut(n) {
            *known = Some(value);
        }
        Ok(value)
    }

    /// What stands for a result.
    fn replaced(&mut self, one: &Replaced) -> Result<Value, Error> {
        let mixture = self.mixture;
        let Choice { chosen, probabilities, choices, experts } = mixture.choice;
        let (tokens, rows) = (mixture.tokens.iter().product::<usize>(), mixture.rows());
        let wanted = spec(self.writer.func, one.result)?;
        let (value, last) = match &one.reader {
            Reader::Combine { node } => {
                let like = mixture.specs.get(*node).ok_or_else(internal)?;
                let (value, width) = (self.node(*node)?, *like.dims.last().ok_or_else(internal)?);
                let weights = self.writer.reshaped(probabilities, vec![tokens, choices]);
                let types = [like.dtype, spec(self.writer.func, weights)?.dtype, wanted.dtype];
                let sizes = [tokens, choices, width];
                let operands = vec![value, self.sorted.inverse, weights];
                (self.call(&|name| combine(name, sizes, types), operands)?, width)
            }
            Reader::OfTokens { node, matrix } => {
                let rows = self.node(*node)?;
                let value = self.matmul(rows, matrix)?;
                let given = spec(self.writer.func, value)?;
                let width = *given.dims.last().ok_or_else(internal)?;
                let (sizes, types) = ([tokens, choices, width], [given.dtype, wanted.dtype]);
                (self.call(&|name| collect(name, sizes, types), vec![value, self.sorted.inverse])?, width)
            }
            Reader::OfMatrices { factors } => {
                let mut operands = Vec::with_capacity(3);
                for factor in factors {
                    operands.push(match factor {
                        Factor::Tokens(of) => self.taken(of)?,
                        Factor::Node(node) => self.node(*node)?,
                    });
                }
                operands.push(self.sorted.sizes);
                let attributes = GroupedAttributes::default().to_attrs();
                let decompositions = &mut *self.decompositions;
                let results = self.writer.composite(decompositions, GROUPED_MATMUL_GRADIENT, operands, &attributes)?;
                let value = *results.first().ok_or_else(internal)?;
                let turned = self.writer.transposed(value, &one.order);
                return Ok(self.writer.converted(turned, wanted.dtype));
            }
            Reader::OfWeights { y, node } => {
                let (of_tokens, value) = (self.taken(y)?, self.node(*node)?);
                let types = [of_tokens, value].map(|value| spec(self.writer.func, value).map(|spec| spec.dtype));
                let [of_tokens_type, value_type] = types;
                let types = [of_tokens_type?, value_type?, wanted.dtype];
                let flat = self.writer.reshaped(chosen, vec![tokens, choices]);
                let flat = self.writer.converted(flat, DType::I32);
                let sizes = [tokens, choices, experts, y.width];
                let operands = vec![of_tokens, value, self.sorted.inverse, flat];
                (self.call(&|name| products(name, sizes, types), operands)?, experts)
            }
        };
        debug_assert_eq!(rows, tokens * choices);
        let cut = self.writer.reshaped(value, [&mixture.tokens[..], &[last]].concat());
        Ok(self.writer.transposed(cut, &one.order))
    }
}
