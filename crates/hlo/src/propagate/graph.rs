//! A program as tensors and the rules between them: calls stand where they are called, loops and branches are edges.

use std::collections::HashMap;
use std::sync::Arc;

use super::axes::{Axis, push};
use super::rule::{self, Rule};
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{MeshAttr, MeshRef, SdyAttr, TensorSharding};
use crate::ir::{Attr, Attrs, Func, Module, Op, OpKind, OpName, Region, Type, Value};

/// Tensors a graph may have; a larger program is not propagated through.
const MAX_TENSORS: usize = 2_000_000;
/// Calls and regions inside each other.
const MAX_DEPTH: usize = 150;

/// How one dimension is split so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DimAxes {
    pub(super) axes: Vec<Axis>,
    pub(super) is_closed: bool,
    pub(super) priority: i64,
}

/// A tensor and how it is split so far.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) sizes: Vec<i64>,
    pub(super) mesh: Option<usize>,
    pub(super) dims: Vec<DimAxes>,
    pub(super) replicated: Vec<Axis>,
    pub(super) unreduced: Vec<Axis>,
    /// Axes of the manual computations around it.
    pub(super) manual: Arc<[Axis]>,
}

/// What ties tensors together.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Operands and then results of an op.
    Op(Rule, Vec<usize>),
    /// A tensor outside a manual computation and the same inside, split along the free axes only.
    Manual(usize, usize),
}

/// A program as tensors and nodes, in program order.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) meshes: Vec<MeshAttr>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) nodes: Vec<Node>,
    pub(super) arguments: Vec<Option<usize>>,
    pub(super) results: Vec<Option<usize>>,
    /// Of the function itself; what it calls has places of its own.
    pub(super) values: Places,
}

/// Where each value of a function is, at one place that calls it.
pub(super) type Places = HashMap<Value, Option<usize>>;

struct Build<'m> {
    module: &'m Module,
    graph: Graph,
    groups: HashMap<i64, usize>,
}

impl Graph {
    /// `None` for a program that is too large or too deep.
    pub(super) fn new(module: &Module, entry: &Func) -> Option<Graph> {
        let mut build = Build { module, graph: Graph::default(), groups: HashMap::new() };
        let manual: Arc<[Axis]> = Arc::default();
        let mut places = Places::new();
        for (n, &argument) in entry.args().iter().enumerate() {
            let place = build.tensor(entry.ty(argument), &manual)?;
            build.annotate(place, entry.input_attrs.get(n));
            places.insert(argument, place);
            build.graph.arguments.push(place);
        }
        let returned = build.region(entry, entry.body?, &mut places, &manual, 0)?;
        for (n, from) in returned.into_iter().enumerate() {
            let has_own = entry.output_attrs.get(n).is_some_and(|attrs| attrs.get("sdy.sharding").is_some());
            let place = match from {
                Some(from) if has_own => {
                    let to = build.like(from)?;
                    build.annotate(Some(to), entry.output_attrs.get(n));
                    build.identity(from, to);
                    Some(to)
                }
                from => from,
            };
            build.graph.results.push(place);
        }
        build.graph.values = places;
        Some(build.graph)
    }

    /// The number of a mesh; equal ones are one.
    fn mesh(&mut self, mesh: &MeshAttr) -> usize {
        if let Some(n) = self.meshes.iter().position(|have| have == mesh) {
            return n;
        }
        self.meshes.push(mesh.clone());
        self.meshes.len() - 1
    }
}

/// The axes that names name; what is not in the mesh is left out.
fn axes_of(mesh: &MeshAttr, names: &[AxisRef]) -> Vec<Axis> {
    let mut axes = Vec::new();
    for name in names {
        let Some(index) = mesh.axes.iter().position(|(have, _)| *have == name.name) else { continue };
        let (pre, size) = name.sub_axis.unwrap_or((1, mesh.axes[index].1));
        if size > 1 && pre > 0 {
            push(&mut axes, Axis { index, pre, size });
        }
    }
    axes
}

impl Build<'_> {
    fn tensor(&mut self, ty: &Type, manual: &Arc<[Axis]>) -> Option<Option<usize>> {
        let Type::Tensor(ty) = ty else { return Some(None) };
        if self.graph.tensors.len() >= MAX_TENSORS {
            return None;
        }
        self.graph.tensors.push(Tensor {
            sizes: ty.dims.clone(),
            mesh: None,
            dims: vec![DimAxes::default(); ty.dims.len()],
            replicated: Vec::new(),
            unreduced: Vec::new(),
            manual: manual.clone(),
        });
        Some(Some(self.graph.tensors.len() - 1))
    }

    /// Another tensor of the same shape, split in no way.
    fn like(&mut self, tensor: usize) -> Option<usize> {
        let Tensor { sizes, manual, .. } = self.graph.tensors[tensor].clone();
        if self.graph.tensors.len() >= MAX_TENSORS {
            return None;
        }
        let dims = vec![DimAxes::default(); sizes.len()];
        let (replicated, unreduced) = (Vec::new(), Vec::new());
        self.graph.tensors.push(Tensor { sizes, mesh: None, dims, replicated, unreduced, manual });
        Some(self.graph.tensors.len() - 1)
    }

    fn identity(&mut self, from: usize, to: usize) {
        if self.graph.tensors[from].sizes == self.graph.tensors[to].sizes && from != to {
            let rule = Rule::identity(&self.graph.tensors[from].sizes);
            self.graph.nodes.push(Node::Op(rule, vec![from, to]));
        }
    }

    fn resolve(&self, mesh: &MeshRef) -> Option<MeshAttr> {
        match mesh {
            MeshRef::Symbol(name) => self.module.mesh(name).cloned(),
            MeshRef::Inline(mesh) => Some(mesh.clone()),
        }
    }

    /// Gives a tensor the sharding that is written.
    fn set(&mut self, place: Option<usize>, sharding: &TensorSharding) {
        let (Some(place), Some(mesh)) = (place, self.resolve(&sharding.mesh)) else { return };
        let tensor = &mut self.graph.tensors[place];
        if mesh.axes.is_empty() {
            // On one device, or on no mesh at all: nothing is split, and what is closed stays so.
            for (n, dim) in tensor.dims.iter_mut().enumerate() {
                dim.is_closed = sharding.dims.get(n).is_none_or(|written| written.is_closed);
            }
            return;
        }
        if sharding.dims.len() != tensor.dims.len() {
            return;
        }
        for (dim, written) in tensor.dims.iter_mut().zip(&sharding.dims) {
            dim.axes = axes_of(&mesh, &written.axes);
            dim.is_closed = written.is_closed;
            dim.priority = written.priority.unwrap_or(0);
        }
        tensor.replicated = axes_of(&mesh, &sharding.replicated);
        tensor.unreduced = axes_of(&mesh, &sharding.unreduced);
        let number = self.graph.mesh(&mesh);
        self.graph.tensors[place].mesh = Some(number);
    }

    fn annotate(&mut self, place: Option<usize>, attrs: Option<&Attrs>) {
        if let Some(Attr::Sdy(attr)) = attrs.and_then(|attrs| attrs.get("sdy.sharding"))
            && let SdyAttr::Sharding(sharding) = &**attr
        {
            self.set(place, sharding);
        }
    }

    /// Goes through a region; what it returns.
    fn region(
        &mut self,
        func: &Func,
        region: Region,
        places: &mut Places,
        manual: &Arc<[Axis]>,
        depth: usize,
    ) -> Option<Vec<Option<usize>>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (&last, ops) = func.region(region).ops.split_last()?;
        for &id in ops {
            self.op(func, func.op(id), places, manual, depth)?;
        }
        Some(func.op(last).operands.iter().map(|value| places.get(value).copied().flatten()).collect())
    }

    fn op(&mut self, func: &Func, op: &Op, places: &mut Places, manual: &Arc<[Axis]>, depth: usize) -> Option<()> {
        let operands: Vec<Option<usize>> =
            op.operands.iter().map(|value| places.get(value).copied().flatten()).collect();
        match op.kind() {
            // Each reader has its own copy of a constant: nothing flows from one reader to another.
            Some(OpKind::Constant | OpKind::Iota | OpKind::SdyConstant) if op.attr("sdy.sharding").is_none() => {
                return Some(());
            }
            Some(OpKind::FuncCall | OpKind::Composite) => {
                if let Some(returned) = self.call(op, &operands, manual, depth)? {
                    for (result, place) in op.results().zip(returned) {
                        places.insert(result, place);
                    }
                    self.annotate_results(op, places);
                    return Some(());
                }
            }
            None if matches!(&op.name, OpName::Extern(name) if &**name == "builtin.unrealized_conversion_cast") => {
                places.extend(op.results().zip(operands));
                return Some(());
            }
            _ => {}
        }
        for result in op.results() {
            let place = self.tensor(func.ty(result), manual)?;
            places.insert(result, place);
        }
        self.annotate_results(op, places);
        let results: Vec<Option<usize>> = op.results().map(|value| places[&value]).collect();
        let link = |build: &mut Self, from: &[Option<usize>]| {
            for (from, to) in from.iter().zip(&results) {
                if let (Some(from), Some(to)) = (from, to) {
                    build.identity(*from, *to);
                }
            }
        };
        match op.kind() {
            Some(OpKind::While) => {
                link(self, &operands);
                for &region in &op.regions {
                    let args = func.region(region).args.iter().copied();
                    places.extend(args.zip(results.iter().copied()));
                }
                self.region(func, *op.regions.first()?, places, manual, depth + 1)?;
                let returned = self.region(func, *op.regions.get(1)?, places, manual, depth + 1)?;
                link(self, &returned);
            }
            Some(OpKind::Case | OpKind::If) => {
                for &region in &op.regions {
                    let returned = self.region(func, region, places, manual, depth + 1)?;
                    link(self, &returned);
                }
            }
            Some(OpKind::OptimizationBarrier | OpKind::SdyDataFlowEdge) => link(self, &operands),
            Some(OpKind::SdyNamedComputation) => {
                let region = *op.regions.first()?;
                places.extend(func.region(region).args.iter().copied().zip(operands));
                let returned = self.region(func, region, places, manual, depth + 1)?;
                link(self, &returned);
            }
            Some(OpKind::SdyManualComputation) => self.manual(func, op, places, manual, depth)?,
            Some(OpKind::SdyShardingGroup) => {
                let group = op.attr("group_id").and_then(Attr::as_int);
                if let (Some(group), Some(Some(member))) = (group, operands.first()) {
                    let first = *self.groups.entry(group).or_insert(*member);
                    self.identity(first, *member);
                }
            }
            Some(OpKind::SdyShardingConstraint | OpKind::SdyReshard) => {
                if let Some(Attr::Sdy(attr)) = op.attr("sharding")
                    && let SdyAttr::Sharding(sharding) = &**attr
                {
                    self.set(results[0], sharding);
                }
                link(self, &operands);
            }
            _ => self.rule(func, op, operands, results)?,
        }
        Some(())
    }

    /// The node of an op with a rule. An operand without a tensor is a constant, which takes no part.
    fn rule(&mut self, func: &Func, op: &Op, operands: Vec<Option<usize>>, results: Vec<Option<usize>>) -> Option<()> {
        let Some(mut rule) = rule::of(func, op) else { return Some(()) };
        let all: Vec<Option<usize>> = operands.into_iter().chain(results).collect();
        if all.len() != rule.tensors.len() {
            return Some(());
        }
        let mut kept = Vec::with_capacity(all.len());
        let mut tensors = Vec::with_capacity(all.len());
        for (place, dims) in all.into_iter().zip(rule.tensors) {
            if let Some(place) = place {
                kept.push(place);
                tensors.push(dims);
            }
        }
        rule.tensors = tensors;
        if kept.len() > 1 && !rule.factors.is_empty() {
            self.graph.nodes.push(Node::Op(rule, kept));
        }
        Some(())
    }

    fn annotate_results(&mut self, op: &Op, places: &Places) {
        let Some(Attr::Sdy(attr)) = op.attr("sdy.sharding") else { return };
        let written: &[TensorSharding] = match &**attr {
            SdyAttr::ShardingPerValue(list) => list,
            SdyAttr::Sharding(one) => std::slice::from_ref(one),
            _ => return,
        };
        for (result, sharding) in op.results().zip(written) {
            let place = places.get(&result).copied().flatten();
            // What a call returns is a tensor of its own, which may be split already.
            if place.is_some_and(|place| self.graph.tensors[place].mesh.is_none()) {
                self.set(place, sharding);
            }
        }
    }

    /// What a call returns: the callee's body stands in its place. `Some(None)` where there is no body.
    #[allow(clippy::type_complexity)]
    fn call(
        &mut self,
        op: &Op,
        operands: &[Option<usize>],
        manual: &Arc<[Axis]>,
        depth: usize,
    ) -> Option<Option<Vec<Option<usize>>>> {
        let name = op.attr("callee").or_else(|| op.attr("decomposition"));
        let Some(Attr::Symbol(name)) = name else { return Some(None) };
        let Some((callee, body)) = self.module.func(name).and_then(|func| func.body.map(|body| (func, body))) else {
            return Some(None);
        };
        let mut places = Places::new();
        for (n, (&argument, &operand)) in callee.args().iter().zip(operands).enumerate() {
            let attrs = callee.input_attrs.get(n);
            let has_own = attrs.is_some_and(|attrs| attrs.get("sdy.sharding").is_some());
            let place = match operand {
                Some(operand) if has_own => {
                    let own = self.like(operand)?;
                    self.annotate(Some(own), attrs);
                    self.identity(operand, own);
                    Some(own)
                }
                operand => operand,
            };
            places.insert(argument, place);
        }
        let returned = self.region(callee, body, &mut places, manual, depth + 1)?;
        let mut out = Vec::with_capacity(returned.len());
        for (n, from) in returned.into_iter().enumerate() {
            let attrs = callee.output_attrs.get(n);
            let has_own = attrs.is_some_and(|attrs| attrs.get("sdy.sharding").is_some());
            out.push(match from {
                Some(from) if has_own => {
                    let own = self.like(from)?;
                    self.annotate(Some(own), attrs);
                    self.identity(from, own);
                    Some(own)
                }
                from => from,
            });
        }
        Some(Some(out))
    }

    /// A body that sees the parts along the manual axes, and may still be split along the others.
    fn manual(&mut self, func: &Func, op: &Op, places: &mut Places, around: &Arc<[Axis]>, depth: usize) -> Option<()> {
        let list = |name: &str| match op.attr(name) {
            Some(Attr::Sdy(attr)) => match &**attr {
                SdyAttr::ShardingPerValue(list) => list.clone(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let (before, after) = (list("in_shardings"), list("out_shardings"));
        let mut axes = around.to_vec();
        if let Some(Attr::Sdy(attr)) = op.attr("manual_axes")
            && let SdyAttr::ManualAxes(names) = &**attr
            && let Some(mesh) = before.iter().chain(&after).find_map(|sharding| self.resolve(&sharding.mesh))
        {
            let names: Vec<AxisRef> = names.iter().map(|name| AxisRef { name: name.clone(), sub_axis: None }).collect();
            axes.extend(axes_of(&mesh, &names));
        }
        let manual: Arc<[Axis]> = axes.into();
        let region = *op.regions.first()?;
        for (n, (&argument, operand)) in func.region(region).args.iter().zip(&op.operands).enumerate() {
            let inside = self.tensor(func.ty(argument), &manual)?;
            places.insert(argument, inside);
            let outside = self.tensor(func.ty(*operand), around)?;
            let (Some(inside), Some(outside), Some(sharding)) = (inside, outside, before.get(n)) else { continue };
            self.set(Some(outside), sharding);
            if let Some(from) = places.get(operand).copied().flatten() {
                self.identity(from, outside);
            }
            self.graph.nodes.push(Node::Manual(outside, inside));
        }
        let returned = self.region(func, region, places, &manual, depth + 1)?;
        for (n, (from, result)) in returned.into_iter().zip(op.results()).enumerate() {
            let (Some(from), Some(to), Some(sharding)) = (from, places[&result], after.get(n)) else { continue };
            self.set(Some(to), sharding);
            self.graph.nodes.push(Node::Manual(to, from));
        }
        Some(())
    }
}
