//! Runs a graph over traced tensors: values by name, storages that views share, writes that become new values.

use std::collections::BTreeMap;
use std::ops::Range;

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::graph::{Graph, Node, NodeArgument, SymInt, TensorMeta};
use crate::translate::call::{Call, Value, positive};
use crate::translate::mode::Context;
use crate::translate::ops::{self, Rule};
use crate::translate::types::{Scalar, cast};
use crate::translate::views::View;

/// What a name stands for.
#[derive(Clone, Debug)]
enum Bound {
    Tensor(Alias),
    Scalar(Scalar),
}

/// A view of a storage.
#[derive(Clone, Debug)]
struct Alias {
    storage: usize,
    views: Vec<View>,
    /// The value, and the version of the storage that it was read from.
    read: (u64, Tensor),
}

#[derive(Clone, Debug)]
struct Storage {
    value: Tensor,
    version: u64,
    /// Whether PyTorch has its elements row by row in memory.
    is_row_major: bool,
}

/// A graph at work.
#[derive(Clone)]
pub(crate) struct Translator<'g> {
    graph: &'g Graph,
    symbols: &'g BTreeMap<String, i64>,
    values: BTreeMap<&'g str, Bound>,
    storages: Vec<Storage>,
    pub(crate) context: Context<'g>,
}

impl<'g> Translator<'g> {
    pub(crate) fn new(graph: &'g Graph, symbols: &'g BTreeMap<String, i64>, context: Context<'g>) -> Translator<'g> {
        Translator { graph, symbols, values: BTreeMap::new(), storages: Vec::new(), context }
    }

    pub(crate) fn symbols(&self) -> &'g BTreeMap<String, i64> {
        self.symbols
    }

    /// Gives an input its value.
    pub(crate) fn bind(&mut self, name: &'g str, tensor: Tensor) {
        let alias = self.stored(name, tensor);
        self.values.insert(name, Bound::Tensor(alias));
    }

    /// Gives an input a number.
    pub(crate) fn bind_scalar(&mut self, name: &'g str, scalar: Scalar) {
        self.values.insert(name, Bound::Scalar(scalar));
    }

    fn stored(&mut self, name: &str, tensor: Tensor) -> Alias {
        let is_row_major = self.is_contiguous(name);
        self.storages.push(Storage { value: tensor.clone(), version: 0, is_row_major });
        Alias { storage: self.storages.len() - 1, views: Vec::new(), read: (0, tensor) }
    }

    /// Runs every node; equal layers as one loop where the context says so.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        let mut at = 0;
        for layers in self.context.loops {
            self.run_nodes(at..layers.nodes().start)?;
            self.run_layers(layers)?;
            at = layers.nodes().end;
        }
        self.run_nodes(at..self.graph.nodes.len())
    }

    /// Runs some nodes.
    pub(crate) fn run_nodes(&mut self, nodes: Range<usize>) -> Result<(), Error> {
        let nodes =
            self.graph.nodes.get(nodes).ok_or_else(|| Error::damaged("a layer has nodes that are not there"))?;
        nodes.iter().try_for_each(|node| self.node(node).map_err(|error| error.at(place(node))))
    }

    /// A result of the graph.
    pub(crate) fn output(&mut self, argument: &NodeArgument) -> Result<Option<Tensor>, Error> {
        match argument {
            NodeArgument::Tensor(name) => self.tensor(name).map(Some),
            NodeArgument::None => Ok(None),
            other => Ok(self.scalar(other)?.map(|scalar| scalar.tensor(scalar.dtype()))),
        }
    }

    /// An input that was written to, as it is now.
    pub(crate) fn written(&mut self, name: &str) -> Result<Option<Tensor>, Error> {
        match self.values.get(name) {
            Some(Bound::Tensor(alias)) if self.storages[alias.storage].version > 0 => self.tensor(name).map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn tensor(&mut self, name: &str) -> Result<Tensor, Error> {
        match self.values.get(name).cloned() {
            Some(Bound::Tensor(alias)) => {
                let (alias, tensor) = self.read(alias)?;
                if let Some(bound) = self.values.get_mut(name) {
                    *bound = Bound::Tensor(alias);
                }
                Ok(tensor)
            }
            Some(Bound::Scalar(scalar)) => Ok(scalar.tensor(scalar.dtype())),
            _ => Err(Error::damaged(format!("`{name}` has no value"))),
        }
    }

    fn read(&self, mut alias: Alias) -> Result<(Alias, Tensor), Error> {
        let storage = &self.storages[alias.storage];
        if alias.read.0 != storage.version {
            let value = alias.views.iter().try_fold(storage.value.clone(), |base, view| view.read(&base))?;
            alias.read = (storage.version, value);
        }
        let tensor = alias.read.1.clone();
        Ok((alias, tensor))
    }

    /// Writes to what a name stands for, and to everything that shares its storage.
    pub(crate) fn write(&mut self, name: &str, new: &Tensor) -> Result<(), Error> {
        let Some(Bound::Tensor(alias)) = self.values.get(name).cloned() else {
            return Err(Error::damaged(format!("`{name}` has no value that can be written to")));
        };
        let mut bases = vec![self.storages[alias.storage].value.clone()];
        for view in &alias.views {
            let next = view.read(&bases[bases.len() - 1])?;
            bases.push(next);
        }
        let now = &bases[bases.len() - 1];
        let mut value = cast(new, now.dtype()).broadcast_to(now.dims());
        for (view, base) in alias.views.iter().zip(&bases).rev() {
            value = view.written(base, &value)?;
        }
        let storage = &mut self.storages[alias.storage];
        storage.value = value;
        storage.version += 1;
        Ok(())
    }

    pub(crate) fn sym_int(&self, value: &SymInt) -> Result<i64, Error> {
        match value {
            SymInt::Value(value) => Ok(*value),
            SymInt::Name(name) => match self.values.get(name.as_str()) {
                Some(Bound::Scalar(Scalar::Int(value))) => Ok(*value),
                Some(Bound::Scalar(Scalar::Bool(value))) => Ok(i64::from(*value)),
                _ => Err(Error::damaged(format!("size `{name}` has no value"))),
            },
        }
    }

    /// The number that an argument is; none where it is something else.
    pub(crate) fn scalar(&self, argument: &NodeArgument) -> Result<Option<Scalar>, Error> {
        Ok(Some(match argument {
            NodeArgument::Int(value) => Scalar::Int(self.sym_int(value)?),
            NodeArgument::Float(value) => Scalar::Float(*value),
            NodeArgument::Bool(value) => Scalar::Bool(*value),
            NodeArgument::Named(name) => match self.values.get(name.as_str()) {
                Some(Bound::Scalar(scalar)) => *scalar,
                _ => return Err(Error::damaged(format!("`{name}` has no value"))),
            },
            _ => return Ok(None),
        }))
    }

    /// The recorded type, shape and strides of a tensor.
    fn meta(&self, name: &str) -> Option<&'g TensorMeta> {
        self.graph.tensors.get(name)
    }

    fn first_result(&self, node: &Node) -> Result<&'g TensorMeta, Error> {
        let name = match node.outputs.first() {
            Some(NodeArgument::Tensor(name)) => Some(name),
            Some(NodeArgument::Tensors(names)) => names.first().and_then(Option::as_ref),
            _ => None,
        };
        let meta = name.and_then(|name| self.meta(name));
        meta.ok_or_else(|| Error::damaged("its result has no recorded type"))
    }

    /// The recorded type and shape of a tensor by name.
    pub(crate) fn recorded(&self, name: &str) -> Result<(DType, Vec<usize>), Error> {
        let meta = self.meta(name).ok_or_else(|| Error::damaged(format!("`{name}` has no recorded type")))?;
        Ok((meta.dtype, self.dims(meta)?))
    }

    pub(crate) fn recorded_type(&self, node: &Node) -> Result<DType, Error> {
        self.first_result(node).map(|meta| meta.dtype)
    }

    pub(crate) fn recorded_dims(&self, node: &Node) -> Result<Vec<usize>, Error> {
        self.dims(self.first_result(node)?)
    }

    /// The recorded types and shapes of all results.
    pub(crate) fn recorded_results(&self, node: &Node) -> Result<Vec<(DType, Vec<usize>)>, Error> {
        let names = node.outputs.iter().flat_map(|output| match output {
            NodeArgument::Tensor(name) => vec![name],
            NodeArgument::Tensors(names) => names.iter().flatten().collect(),
            _ => Vec::new(),
        });
        names
            .map(|name| {
                let meta = self.meta(name).ok_or_else(|| Error::damaged(format!("`{name}` has no recorded type")))?;
                Ok((meta.dtype, self.dims(meta)?))
            })
            .collect()
    }

    fn dims(&self, meta: &TensorMeta) -> Result<Vec<usize>, Error> {
        meta.sizes.iter().map(|size| positive(size.value(self.symbols)?)).collect()
    }

    /// The recorded sizes and strides of a tensor, where they are known.
    pub(crate) fn layout(&self, name: &str) -> Option<(Vec<i64>, Vec<i64>)> {
        let meta = self.meta(name)?;
        let numbers = |list: &[crate::graph::SymExpr]| -> Option<Vec<i64>> {
            list.iter().map(|size| size.value(self.symbols).ok()).collect()
        };
        Some((numbers(&meta.sizes)?, numbers(&meta.strides)?))
    }

    /// Whether a tensor lies row by row in memory, so that reshapes of it are views.
    pub(crate) fn is_contiguous(&self, name: &str) -> bool {
        let Some((sizes, strides)) = self.layout(name) else { return true };
        let mut expected = 1i64;
        sizes.iter().zip(&strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || *stride == expected;
            expected = expected.saturating_mul(*size);
            fits
        })
    }

    /// The shape of the storage that a tensor is a view of, where it lies row by row; and whether the tensor is all of it.
    pub(crate) fn storage_of(&self, name: &str) -> Option<(Vec<usize>, bool)> {
        let Some(Bound::Tensor(alias)) = self.values.get(name) else { return None };
        let storage = &self.storages[alias.storage];
        storage.is_row_major.then(|| (storage.value.dims().to_vec(), alias.views.is_empty()))
    }

    fn node(&mut self, node: &'g Node) -> Result<(), Error> {
        let op = ops::Name::of(&node.target);
        if op.library == "aten" && self.view(node, &op)? {
            return Ok(());
        }
        let Some((rule, is_in_place)) = ops::find(&op) else {
            return if self.is_unread(node) { Ok(()) } else { Err(ops::missing(self.graph, &node.target)) };
        };
        let value = match trace::scope(&op.base, || rule(&mut Call { translator: self, node })) {
            Ok(value) => value,
            // What nobody reads does not matter, such as the number that decides whether a layer is dropped in training.
            Err(_) if !is_in_place && self.is_unread(node) => return Ok(()),
            Err(error) => return Err(error),
        };
        if is_in_place {
            return self.finish_in_place(node, value);
        }
        self.results(node, value)?;
        self.write_outs(node)
    }

    /// Results that are written to a tensor of the caller's (`out=`).
    fn write_outs(&mut self, node: &'g Node) -> Result<(), Error> {
        let overload = node.target.rsplit('.').next().unwrap_or_default();
        let names: &[&str] = match overload {
            overload if overload.ends_with("out") => &["out", "out0", "out1", "out2"],
            "dim_max" => &["max", "max_values"],
            "dim_min" => &["min", "min_indices"],
            "values" | "values_stable" | "dim_values" => &["values", "indices"],
            _ => return Ok(()),
        };
        let outs = node.inputs.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let outs = outs.filter_map(|(_, argument)| match argument {
            NodeArgument::Tensor(name) => Some(name),
            _ => None,
        });
        for (out, result) in outs.zip(&node.outputs) {
            let NodeArgument::Tensor(result) = result else { continue };
            let value = self.tensor(result)?;
            self.write(out, &value)?;
            if let Some(alias) = self.values.get(out.as_str()).cloned() {
                self.values.insert(result, alias);
            }
        }
        Ok(())
    }

    /// Names that ops or results of the graph read.
    fn read_names(&self) -> Vec<&'g str> {
        let mut read = Vec::new();
        let readers = self.graph.nodes.iter().flat_map(|node| node.inputs.iter().map(|(_, argument)| argument));
        readers.chain(&self.graph.outputs).for_each(|argument| names(argument, &mut read));
        read
    }

    /// Whether an op gives tensors only, writes to none, and none of its results is read.
    fn is_unread(&self, node: &Node) -> bool {
        let op = ops::Name::of(&node.target);
        if op.library != "aten" || op.base.ends_with('_') || node.target.ends_with("out") {
            return false;
        }
        let mut own = Vec::new();
        node.outputs.iter().for_each(|output| names(output, &mut own));
        let is_tensors = |output| matches!(output, &NodeArgument::Tensor(_) | &NodeArgument::Tensors(_));
        let read = self.read_names();
        node.outputs.iter().all(is_tensors) && !own.is_empty() && own.iter().all(|name| !read.contains(name))
    }

    fn finish_in_place(&mut self, node: &'g Node, value: Value) -> Result<(), Error> {
        let Some((_, NodeArgument::Tensor(subject))) = node.inputs.first() else {
            return Err(Error::damaged("it writes to what is no tensor"));
        };
        if let Value::Tensor(tensor) = &value {
            self.write(subject, tensor)?;
        }
        let alias = self.values.get(subject.as_str()).cloned();
        if let (Some(NodeArgument::Tensor(name)), Some(alias)) = (node.outputs.first(), alias) {
            self.values.insert(name, alias);
        }
        Ok(())
    }

    fn results(&mut self, node: &'g Node, value: Value) -> Result<(), Error> {
        let values = match (value, node.outputs.as_slice()) {
            (Value::Several(values), [NodeArgument::Tensors(_)]) => vec![Value::Several(values)],
            (Value::Several(values), _) => values,
            (value, _) => vec![value],
        };
        // Results that nobody reads may be left out.
        for (output, value) in node.outputs.iter().zip(values) {
            match (output, value) {
                (NodeArgument::Tensor(name), Value::Tensor(tensor)) => {
                    self.check(name, &tensor)?;
                    let alias = self.stored(name, tensor);
                    self.values.insert(name, Bound::Tensor(alias));
                }
                (NodeArgument::Tensor(name), Value::Scalar(scalar)) => {
                    let alias = self.stored(name, scalar.tensor(scalar.dtype()));
                    self.values.insert(name, Bound::Tensor(alias));
                }
                (NodeArgument::Tensors(names), Value::Several(values)) => {
                    for (name, value) in names.iter().zip(values) {
                        if let (Some(name), Value::Tensor(tensor)) = (name, value) {
                            self.check(name, &tensor)?;
                            let alias = self.stored(name, tensor);
                            self.values.insert(name, Bound::Tensor(alias));
                        }
                    }
                }
                (NodeArgument::Int(SymInt::Name(name)) | NodeArgument::Named(name), Value::Scalar(scalar)) => {
                    self.values.insert(name, Bound::Scalar(scalar));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A rule that gives another type or shape than PyTorch recorded is wrong.
    fn check(&self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        let Some(meta) = self.meta(name) else { return Ok(()) };
        let dims = self.dims(meta)?;
        if (meta.dtype, dims.as_slice()) == (tensor.dtype(), tensor.dims()) {
            return Ok(());
        }
        // PyTorch records other shapes than it gives of some results, such as the last states of an LSTM.
        if !self.read_names().contains(&name) {
            return Ok(());
        }
        Err(Error::new(
            format!("its result is {} here, and {} {dims:?} in PyTorch", tensor.spec(), meta.dtype),
            "this is a fault of the translator, or of the file: report it with the archive",
        ))
    }

    /// Ops whose result shares the storage of their first argument; whether this is one.
    fn view(&mut self, node: &'g Node, op: &ops::Name) -> Result<bool, Error> {
        let Some((_, NodeArgument::Tensor(subject))) = node.inputs.first() else { return Ok(false) };
        let Some(Bound::Tensor(alias)) = self.values.get(subject.as_str()).cloned() else { return Ok(false) };
        let base = self.tensor(subject)?;
        let views = ops::views(&mut Call { translator: self, node }, op, &base)?;
        let Some(views) = views else { return Ok(false) };
        match (views, node.outputs.as_slice()) {
            (ops::Viewed::One(steps), [NodeArgument::Tensor(name), ..]) => {
                let alias = self.extended(&alias, steps)?;
                self.check(name, &alias.read.1)?;
                self.values.insert(name, Bound::Tensor(alias));
            }
            (ops::Viewed::OfStorage(step), [NodeArgument::Tensor(name)]) => {
                let storage = &self.storages[alias.storage];
                let whole =
                    Alias { storage: alias.storage, views: Vec::new(), read: (storage.version, storage.value.clone()) };
                let alias = self.extended(&whole, vec![step])?;
                self.check(name, &alias.read.1)?;
                self.values.insert(name, Bound::Tensor(alias));
            }
            (ops::Viewed::Several(all), [NodeArgument::Tensors(names)]) => {
                for (steps, name) in all.into_iter().zip(names) {
                    let Some(name) = name else { continue };
                    let alias = self.extended(&alias, steps)?;
                    self.check(name, &alias.read.1)?;
                    self.values.insert(name, Bound::Tensor(alias));
                }
            }
            (ops::Viewed::Several(all), outputs) => {
                for (steps, output) in all.into_iter().zip(outputs) {
                    if let NodeArgument::Tensor(name) = output {
                        let alias = self.extended(&alias, steps)?;
                        self.check(name, &alias.read.1)?;
                        self.values.insert(name, Bound::Tensor(alias));
                    }
                }
            }
            _ => return Err(Error::damaged("its results are no tensors")),
        }
        Ok(true)
    }

    fn extended(&self, alias: &Alias, steps: Vec<View>) -> Result<Alias, Error> {
        let (alias, mut value) = self.read(alias.clone())?;
        let mut views = alias.views;
        for step in steps {
            if let Some(narrow) = self.narrowed(alias.storage, &views, &step)? {
                value = narrow.0;
                views.pop();
                views.push(narrow.1);
                continue;
            }
            value = step.read(&value)?;
            views.push(step);
        }
        Ok(Alias { storage: alias.storage, views, read: (alias.read.0, value) })
    }

    /// One position of an axis that was expanded: all are the same, and what is left may be written to.
    fn narrowed(&self, storage: usize, views: &[View], step: &View) -> Result<Option<(Tensor, View)>, Error> {
        let (Some((View::Expand(dims), before)), View::Slice { axis, start, end, .. }) = (views.split_last(), step)
        else {
            return Ok(None);
        };
        let base = before.iter().try_fold(self.storages[storage].value.clone(), |base, view| view.read(&base))?;
        let own = (*axis + base.rank()).checked_sub(dims.len()).and_then(|axis| base.dims().get(axis));
        if end.checked_sub(*start) != Some(1)
            || *end > dims.get(*axis).copied().unwrap_or(0)
            || own.is_some_and(|size| *size != 1)
        {
            return Ok(None);
        }
        let mut dims = dims.clone();
        dims[*axis] = 1;
        let view = View::Expand(dims);
        Ok(Some((view.read(&base)?, view)))
    }
}

/// The names in an argument.
fn names<'a>(argument: &'a NodeArgument, all: &mut Vec<&'a str>) {
    match argument {
        NodeArgument::Tensor(name) | NodeArgument::Named(name) | NodeArgument::Int(SymInt::Name(name)) => {
            all.push(name)
        }
        NodeArgument::Tensors(list) => all.extend(list.iter().flatten().map(String::as_str)),
        NodeArgument::Ints(list) => all.extend(list.iter().filter_map(|value| match value {
            SymInt::Name(name) => Some(name.as_str()),
            SymInt::Value(_) => None,
        })),
        _ => {}
    }
}

/// A node and its line, for errors.
pub(crate) fn place(node: &Node) -> String {
    match node.line.is_empty() {
        true => node.target.clone(),
        false => format!("{} ({})", node.target, node.line),
    }
}

/// What a rule is called with, to find rules by name.
pub(crate) type Rules = &'static [(&'static str, Rule)];
