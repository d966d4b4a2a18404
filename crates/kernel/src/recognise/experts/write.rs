//! Writes a mixture of experts over rows sorted by the expert they chose.

use std::collections::HashSet;

use hlo::{Func, Region, Value};
use tensor::{DType, Spec};

use super::choice::Choice;
use super::sorted::{OfMatrices, OfTokens, Parts, RowAxes, Rows, SortedWriter, internal, place, spec};
use super::text::{collect, combine, products, weigh};
use super::walk::{Factor, Node, Operand, Reader, Replaced};
use crate::error::Error;
use crate::recognise::devices::Split;
use crate::recognise::layout::Label;
use crate::recognise::on_devices::passes;
use crate::recognise::write::{Decompositions, Writer};

/// A mixture of experts in a region.
pub(super) struct Mixture {
    pub(super) choice: Choice,
    /// Sizes of the axes of tokens.
    pub(super) tokens: Vec<usize>,
    pub(super) nodes: Vec<Node>,
    pub(super) specs: Vec<Spec>,
    pub(super) axes: RowAxes,
    pub(super) replaced: Vec<Replaced>,
    /// How it is split over devices.
    pub(super) split: Option<Split>,
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
        let devices = self.split.as_ref().map_or_else(String::new, Split::on_each_device);
        format!("{choices} of {experts} experts, {tokens} tokens, {matmuls} grouped matmuls{gradients}{devices}")
    }

    /// What says how it may be split.
    pub(super) fn parts(&self, func: &Func) -> Parts<'_> {
        let Choice { chosen, probabilities, choices, .. } = self.choice;
        let mut parts = Parts { choices, ..Parts::default() };
        let of_tokens = |parts: &mut Parts<'_>, of: &OfTokens| {
            parts.of_tokens.push((of.value, of.layout.clone()));
            parts.outer.extend(&of.features);
        };
        for node in &self.nodes {
            match node {
                Node::First { x, matrix } => {
                    of_tokens(&mut parts, x);
                    parts.matrices.push(matrix);
                }
                Node::Next { matrix, .. } => parts.matrices.push(matrix),
                Node::Weighed { y } => of_tokens(&mut parts, y),
                Node::Elementwise { .. } => {}
            }
        }
        for one in &self.replaced {
            let result = |parts: &mut Parts<'_>| parts.of_tokens.push((one.result, one.layout.clone()));
            match &one.reader {
                Reader::Combine { node } => {
                    parts.outer.extend(self.axes.features.get(*node).into_iter().flatten());
                    result(&mut parts);
                }
                Reader::OfTokens { matrix, .. } => {
                    parts.outer.extend(&matrix.labels[2]);
                    parts.matrices.push(matrix);
                    result(&mut parts);
                }
                Reader::OfWeights { y, .. } => of_tokens(&mut parts, y),
                Reader::OfMatrices { factors, columns } => {
                    for factor in factors {
                        if let Factor::Tokens(of) = factor {
                            of_tokens(&mut parts, of);
                        }
                    }
                    let dtype = spec(func, one.result).map_or(DType::F32, |spec| spec.dtype);
                    let features = factors.each_ref().map(|factor| self.features(factor));
                    parts.gradients.push(OfMatrices { features, columns: columns.clone(), dtype });
                }
            }
        }
        for value in [chosen, probabilities] {
            let dims = spec(func, value).map_or(Vec::new(), |spec| spec.dims);
            parts.of_tokens.push((value, self.axes.of_choices(&dims)));
        }
        parts
    }

    fn features(&self, factor: &Factor) -> Vec<Label> {
        match factor {
            Factor::Tokens(of) => of.features.clone(),
            Factor::Node(node) => self.axes.features.get(*node).cloned().unwrap_or_default(),
        }
    }

    /// Arrays that a result is computed from.
    fn needs(&self, reader: &Reader) -> Vec<Value> {
        let mut needs = vec![self.choice.chosen, self.choice.probabilities];
        let mut pending = match reader {
            Reader::Combine { node } => vec![*node],
            Reader::OfTokens { node, matrix } => {
                needs.push(matrix.value);
                vec![*node]
            }
            Reader::OfMatrices { factors, .. } => {
                let mut nodes = Vec::new();
                for factor in factors {
                    match factor {
                        Factor::Tokens(of) => needs.push(of.value),
                        Factor::Node(node) => nodes.push(*node),
                    }
                }
                nodes
            }
            Reader::OfWeights { y, node } => {
                needs.push(y.value);
                vec![*node]
            }
        };
        let mut seen = HashSet::new();
        while let Some(n) = pending.pop() {
            let Some(node) = self.nodes.get(n).filter(|_| seen.insert(n)) else { continue };
            match node {
                Node::First { x, matrix } => needs.extend([x.value, matrix.value]),
                Node::Next { node, matrix } => {
                    needs.push(matrix.value);
                    pending.push(*node);
                }
                Node::Weighed { y } => needs.push(y.value),
                Node::Elementwise { operands, .. } => {
                    for operand in operands {
                        match operand {
                            Operand::Node(node) => pending.push(*node),
                            Operand::Number(value) => needs.push(*value),
                        }
                    }
                }
            }
        }
        needs
    }

    /// Whether it could be written: there is an order for all that depends on it.
    pub(super) fn write(
        &self,
        func: &mut Func,
        region: Region,
        decompositions: &mut Decompositions,
    ) -> Result<bool, Error> {
        let items: Vec<_> = self.replaced.iter().map(|one| (vec![one.result], self.needs(&one.reader))).collect();
        let passes = passes(func, &items);
        let mut order: Vec<usize> = (0..self.replaced.len()).collect();
        order.sort_by_key(|&n| passes[n]);
        let writer = Writer::new(&mut *func, region);
        let mut rows =
            SortedWriter::new(writer, decompositions, (&self.axes, self.choice.choices), self.split.as_ref());
        let mut all = MixtureWriter { mixture: self, values: vec![None; self.nodes.len()] };
        rows.turn_to(0);
        let chosen = all.of_choices(&mut rows, self.choice.chosen)?;
        let keys = rows.writer.converted(chosen, DType::I32);
        rows.sort(keys)?;
        for n in order {
            rows.turn_to(passes[n]);
            all.replaced(&mut rows, &self.replaced[n])?;
        }
        let written = rows.finish()?;
        Ok(place(func, region, written).is_some())
    }
}

struct MixtureWriter<'b> {
    mixture: &'b Mixture,
    /// Nodes that were written.
    values: Vec<Option<Rows>>,
}

impl MixtureWriter<'_> {
    /// Numbers of choices in a list of all rows, in the order of tokens.
    fn of_choices(&self, rows: &mut SortedWriter<'_, '_>, value: Value) -> Result<Value, Error> {
        let layout = self.mixture.axes.of_choices(&spec(rows.writer.func, value)?.dims);
        let own = rows.devices.enter(&mut rows.writer, value, &layout)?;
        let count = rows.rows();
        Ok(rows.writer.reshaped(own, vec![count]))
    }

    fn node(&mut self, rows: &mut SortedWriter<'_, '_>, n: usize) -> Result<Rows, Error> {
        if let Some(value) = self.values.get(n).cloned().flatten() {
            return rows.brought(&value);
        }
        let mixture = self.mixture;
        let (node, spec) = mixture.nodes.get(n).zip(mixture.specs.get(n)).ok_or_else(internal)?;
        let features = mixture.axes.features.get(n).ok_or_else(internal)?;
        let like = Spec::new(spec.dtype, [rows.rows(), rows.size(features)]);
        let value = match node {
            Node::First { x, matrix } => {
                let taken = rows.taken(x)?;
                let taken = rows.whole(taken);
                rows.matmul(taken, matrix)?
            }
            Node::Next { node, matrix } => {
                let of = self.node(rows, *node)?;
                rows.matmul(of, matrix)?
            }
            Node::Weighed { y } => {
                let taken = rows.taken(y)?;
                let weights = self.of_choices(rows, mixture.choice.probabilities)?;
                let types = [rows.dtype(taken)?, rows.dtype(weights)?, like.dtype];
                let (sizes, order) = ([like.dims[0], like.dims[1]], rows.order()?);
                let weighed = rows.call(&|name| weigh(name, sizes, types), vec![taken, weights, order])?;
                rows.whole(weighed)
            }
            Node::Elementwise { op, operands } => {
                rows.elementwise(*op, operands, &like, &mut |rows, n| self.node(rows, n))?
            }
        };
        if let Some(known) = self.values.get_mut(n) {
            *known = Some(value.clone());
        }
        Ok(value)
    }

    /// Has something stand for a result.
    fn replaced(&mut self, rows: &mut SortedWriter<'_, '_>, one: &Replaced) -> Result<(), Error> {
        let mixture = self.mixture;
        let Choice { chosen, probabilities, choices, experts } = mixture.choice;
        let axes = &mixture.axes;
        let tokens = rows.tokens();
        let wanted = rows.dtype(one.result)?;
        let all_tokens = rows.all_tokens();
        let leaves = |labels: &[Label]| axes.labels.leaves(labels);
        let (value, order, summed) = match &one.reader {
            Reader::Combine { node } => {
                let of = self.node(rows, *node)?;
                let (value, summed) = rows.of_device(of)?;
                let features = axes.features.get(*node).ok_or_else(internal)?;
                let weights = self.of_choices(rows, probabilities)?;
                let weights = rows.writer.reshaped(weights, vec![tokens, choices]);
                let types = [rows.dtype(value)?, rows.dtype(weights)?, wanted];
                let (sizes, inverse) = ([tokens, choices, rows.size(features)], rows.inverse()?);
                let value = rows.call(&|name| combine(name, sizes, types), vec![value, inverse, weights])?;
                (value, vec![all_tokens, leaves(features)], summed)
            }
            Reader::OfTokens { node, matrix } => {
                let of = self.node(rows, *node)?;
                let of = rows.matmul(of, matrix)?;
                let (value, summed) = rows.of_device(of)?;
                let sizes = [tokens, choices, rows.size(&matrix.labels[2])];
                let (types, inverse) = ([rows.dtype(value)?, wanted], rows.inverse()?);
                let value = rows.call(&|name| collect(name, sizes, types), vec![value, inverse])?;
                (value, vec![all_tokens, leaves(&matrix.labels[2])], summed)
            }
            Reader::OfMatrices { factors, columns } => {
                let mut of = |factor: &Factor| match factor {
                    Factor::Tokens(of) => {
                        let taken = rows.taken(of)?;
                        Ok(rows.whole(taken))
                    }
                    Factor::Node(node) => self.node(rows, *node),
                };
                let both = [of(&factors[0])?, of(&factors[1])?];
                let (value, summed) = rows.gradient(both)?;
                (value, vec![leaves(&axes.expert), leaves(&columns[0]), leaves(&columns[1])], summed)
            }
            Reader::OfWeights { y, node } => {
                let of_tokens = rows.taken(y)?;
                let of = self.node(rows, *node)?;
                let (value, summed) = rows.of_device(of)?;
                let types = [rows.dtype(of_tokens)?, rows.dtype(value)?, wanted];
                let flat = self.of_choices(rows, chosen)?;
                let flat = rows.writer.reshaped(flat, vec![tokens, choices]);
                let flat = rows.writer.converted(flat, DType::I32);
                let sizes = [tokens, choices, experts, rows.size(&y.features)];
                let operands = vec![of_tokens, value, rows.inverse()?, flat];
                let value = rows.call(&|name| products(name, sizes, types), operands)?;
                (value, vec![all_tokens, leaves(&axes.all_experts)], summed)
            }
        };
        rows.give((one.result, &one.layout), (value, &order), &summed)
    }
}
