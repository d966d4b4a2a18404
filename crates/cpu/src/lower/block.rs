//! The steps of a region: ops in an order that respects who needs what, values in slots.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hlo::{Attr, Definition, DenseData, Func, Module, Op, OpId, OpKind, Region, Value};
use tensor::DType;

use super::constant;
use super::dots::Chain;
use super::fuse::{self, Fusion, Group};
use super::group::{self, LoopKernel};
use super::ops;
use super::ops::contraction::{self, PendingDot};
use super::ops::grouped::GroupedDots;
use super::view::{View, array_type, is_transparent, through};
use crate::error::Error;
use crate::kernels::loops::Ready;
use crate::kernels::loops::ir::{Access, Inst, Loop, Mode, Reg, Write};
use crate::kernels::machine::Machine;
use crate::memory::{Arena, Packing};
use crate::program::{Kernel, Slot, Step, Work};

/// What a slot is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Argument(usize),
    Constant(usize),
    /// Part of an argument that is only read; a step says which.
    Part(usize),
    /// Written by a step.
    Step,
}

/// A slot that the planner has yet to place.
#[derive(Clone, Debug)]
pub(crate) struct SlotData {
    pub(crate) bytes: usize,
    pub(crate) origin: Origin,
}

/// A program while it is lowered.
pub(crate) struct Lowering<'m> {
    pub(crate) func: &'m Func,
    pub(crate) machine: &'m Machine,
    /// Arguments that the caller keeps, so that they are only read.
    pub(crate) kept: Vec<bool>,
    pub(crate) slots: Vec<SlotData>,
    /// Bytes of each constant.
    pub(crate) constants: Vec<Vec<u8>>,
    known_constants: HashMap<Vec<u8>, Slot>,
    /// Values that have a place.
    pub(super) views: HashMap<Value, View>,
    /// Views that were written out.
    written: HashMap<View, Slot>,
    /// Slots that a value is to be written to.
    wanted: HashMap<Value, Slot>,
    /// Steps of the region being lowered.
    pub(crate) steps: Vec<Step>,
    /// Ops that the steps being made compute.
    pub(crate) computing: Vec<OpId>,
    /// Results of a loop in a wider type than their own.
    narrowed: Vec<(Value, Slot, DType)>,
    /// Dots of which only the transpose is needed, and that transpose.
    pub(super) transposed: HashMap<OpId, Value>,
    /// Dots that the loop reading them finishes.
    pub(super) finished_by: HashMap<Value, u32>,
    pub(super) deferred: HashMap<Value, PendingDot>,
    /// Loops over whole rows of a dot whose result only another dot reads, by that result.
    pub(super) chained: HashMap<u32, Value>,
    /// Such dots and loops, until the second dot comes.
    pub(super) chains: Vec<Chain>,
    /// Reductions of the region being lowered that are part of a dot.
    pub(crate) grouped: GroupedDots,
    /// Loops that read nothing, by the one array they fill.
    pub(super) generated: HashMap<Slot, Loop>,
    /// Where one run stands for all partitions: what starts those of a manual computation.
    pub(crate) partitions: Option<PartitionPrograms<'m>>,
}

/// What programs for single partitions are made of.
pub(crate) struct PartitionPrograms<'m> {
    pub(crate) count: usize,
    pub(crate) module: &'m Module,
    pub(crate) memory: &'m Arc<Arena>,
}

/// A part of a region that becomes steps together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    Op(OpId),
    Group(u32),
}

impl<'m> Lowering<'m> {
    pub(crate) fn new(func: &'m Func, machine: &'m Machine, kept: Vec<bool>) -> Lowering<'m> {
        Lowering {
            func,
            machine,
            kept,
            slots: Vec::new(),
            constants: Vec::new(),
            known_constants: HashMap::new(),
            views: HashMap::new(),
            written: HashMap::new(),
            wanted: HashMap::new(),
            steps: Vec::new(),
            computing: Vec::new(),
            narrowed: Vec::new(),
            transposed: HashMap::new(),
            finished_by: HashMap::new(),
            deferred: HashMap::new(),
            chained: HashMap::new(),
            chains: Vec::new(),
            grouped: GroupedDots::default(),
            generated: HashMap::new(),
            partitions: None,
        }
    }

    pub(crate) fn slot(&mut self, bytes: usize, origin: Origin) -> Slot {
        self.slots.push(SlotData { bytes, origin });
        Slot(self.slots.len() as u32 - 1)
    }

    /// Memory for an array that a step writes.
    pub(crate) fn temporary(&mut self, dtype: DType, dims: &[usize]) -> Result<Slot, Error> {
        let bytes = crate::memory::byte_count(dtype, dims)
            .ok_or_else(|| Error::Exhausted(format!("an array of {dtype} {dims:?} is too large")))?;
        Ok(self.slot(bytes, Origin::Step))
    }

    pub(crate) fn array_type(&self, value: Value) -> Result<(DType, Vec<usize>), Error> {
        match self.func.ty(value) {
            hlo::Type::Token => Ok((DType::Bool, vec![0])),
            ty => array_type(ty).ok_or_else(|| Error::Unsupported { what: format!("a compiled value of type {ty}") }),
        }
    }

    /// Says that a slot holds a value, dense.
    pub(crate) fn define(&mut self, value: Value, slot: Slot) {
        if let Ok((dtype, dims)) = self.array_type(value) {
            self.views.insert(value, View::dense(slot, dtype, dims));
        }
    }

    /// A new slot that holds a value once the step being made has run.
    pub(crate) fn result_slot(&mut self, value: Value) -> Result<Slot, Error> {
        let (dtype, dims) = self.array_type(value)?;
        let slot = match self.wanted.remove(&value) {
            Some(slot) => slot,
            None => self.temporary(dtype, &dims)?,
        };
        self.define(value, slot);
        Ok(slot)
    }

    /// Asks that a value be written to this slot when it is computed.
    pub(crate) fn want(&mut self, value: Value, slot: Slot) {
        self.wanted.insert(value, slot);
    }

    pub(crate) fn constant_slot(&mut self, bytes: &[u8]) -> Slot {
        if let Some(&slot) = self.known_constants.get(bytes) {
            return slot;
        }
        self.constants.push(bytes.to_vec());
        let slot = self.slot(bytes.len(), Origin::Constant(self.constants.len() - 1));
        self.known_constants.insert(bytes.to_vec(), slot);
        slot
    }

    /// Where a value lies.
    pub(crate) fn view(&mut self, value: Value) -> Result<View, Error> {
        if let Some(view) = self.views.get(&value) {
            return Ok(view.clone());
        }
        // Sources first, so that a long chain of views is no deep recursion.
        let mut sources = Vec::new();
        let mut at = value;
        while let Some(source) = self.unknown_source(at) {
            sources.push(source);
            at = source;
        }
        for &source in sources.iter().rev() {
            self.view_of(source)?;
        }
        self.view_of(value)
    }

    /// What a view is of, if that has no place yet.
    fn unknown_source(&self, value: Value) -> Option<Value> {
        let Definition::Result(id, _) = self.func.value(value).definition else { return None };
        let op = self.func.op(id);
        let n = if op.num_results > 1 { (value.0 - op.first_result.0) as usize } else { 0 };
        let source = *op.operands.get(n).filter(|_| is_transparent(self.func, op))?;
        (!self.views.contains_key(&source)).then_some(source)
    }

    /// Where a value lies whose source is known.
    fn view_of(&mut self, value: Value) -> Result<View, Error> {
        if let Some(view) = self.views.get(&value) {
            return Ok(view.clone());
        }
        let func = self.func;
        let Definition::Result(id, _) = func.value(value).definition else {
            return Err(Error::Internal(format!("argument {} has no place", value.0)));
        };
        let op = func.op(id);
        let view = if let Some(Attr::Dense(dense)) = op.attr("value").filter(|_| is_constant(op)) {
            let (dtype, dims) = self.array_type(value)?;
            match (&dense.data, constant::splat(op)) {
                (_, Some(element)) => {
                    let slot = self.constant_slot(element);
                    let strides = vec![0; dims.len()];
                    View { slot, dtype, packing: Packing::Bytes, dims, offset: 0, strides }
                }
                (DenseData::Elements(bytes), _) => {
                    let slot = self.constant_slot(bytes);
                    View::dense(slot, dtype, dims)
                }
                _ => return Err(Error::Unsupported { what: "string constants".into() }),
            }
        } else if is_transparent(func, op) {
            let n = if op.num_results > 1 { (value.0 - op.first_result.0) as usize } else { 0 };
            if func.ty(value) == &hlo::Type::Token {
                self.view(op.operands[n])?
            } else {
                let operand = self.view(op.operands[n])?;
                match through(func, op, value, &operand) {
                    Some(view) => view,
                    None => {
                        let slot = self.dense(&operand)?;
                        let whole = View::dense(slot, operand.dtype, operand.dims);
                        through(func, op, value, &whole)
                            .ok_or_else(|| Error::Internal(format!("{} is no view", op.name.as_str())))?
                    }
                }
            }
        } else {
            return Err(Error::Internal(format!("{} is needed before it is computed", op.name.as_str())));
        };
        self.views.insert(value, view.clone());
        Ok(view)
    }

    /// A slot that holds a view's elements one after another.
    pub(crate) fn dense(&mut self, view: &View) -> Result<Slot, Error> {
        in_bytes(view)?;
        if view.is_dense() {
            return Ok(view.slot);
        }
        if let Some(&slot) = self.written.get(view) {
            return Ok(slot);
        }
        let slot = self.write_out(view)?;
        self.written.insert(view.clone(), slot);
        Ok(slot)
    }

    /// A slot that holds a value, dense.
    pub(crate) fn dense_value(&mut self, value: Value) -> Result<Slot, Error> {
        let view = self.view(value)?;
        self.dense(&view)
    }

    /// A fresh slot with a copy of a view.
    pub(crate) fn write_out(&mut self, view: &View) -> Result<Slot, Error> {
        let slot = self.temporary(view.dtype, &view.dims)?;
        self.copy_into(view, slot);
        Ok(slot)
    }

    /// A step that copies a view into a slot.
    pub(crate) fn copy_into(&mut self, view: &View, slot: Slot) {
        let kernel = ops::copy::Copy::new(view);
        self.step(vec![view.slot], vec![slot], kernel);
    }

    pub(crate) fn step(&mut self, inputs: Vec<Slot>, outputs: Vec<Slot>, kernel: impl Kernel + 'static) {
        let ops = self.computing.clone();
        self.steps.push(Step::new(inputs, outputs, Work::Kernel(Box::new(kernel)), ops));
    }

    /// A fresh array filled with a scalar of the program, in another type.
    pub(crate) fn fill(&mut self, scalar: Value, dtype: DType, dims: &[usize]) -> Result<Slot, Error> {
        let view = self.view(scalar)?;
        let source = if view.dtype == dtype { view } else { self.converted(&view, dtype)? };
        let spread = View { dims: dims.to_vec(), strides: vec![0; dims.len()], ..source };
        self.write_out(&spread)
    }

    /// A view's elements in another type.
    pub(crate) fn converted(&mut self, view: &View, dtype: DType) -> Result<View, Error> {
        in_bytes(view)?;
        let dims = if view.dims.is_empty() { vec![1] } else { view.dims.clone() };
        let strides = if view.dims.is_empty() { vec![0] } else { view.strides.clone() };
        let to = View::dense(Slot(0), dtype, dims.clone()).strides;
        let slot = self.temporary(dtype, &view.dims)?;
        if view.num_elements() > 0 {
            let code = Loop {
                reads: vec![Access { dtype: view.dtype, offset: view.offset, strides }],
                insts: vec![Inst::Load(0), Inst::Convert { value: Reg(0), source: view.dtype, target: dtype }],
                writes: vec![Write {
                    access: Access { dtype, offset: 0, strides: to },
                    value: Reg(1),
                    mode: Mode::Store,
                }],
                dims,
            };
            let kernel = LoopKernel { ready: Ready::new(code, self.machine), label: "loop<convert>".into() };
            self.step(vec![view.slot], vec![slot], kernel);
        }
        Ok(View::dense(slot, dtype, view.dims.clone()))
    }

    /// After the loop being made, results that it has in a wider type get their own.
    pub(crate) fn narrow_after(&mut self, results: Vec<(Value, Slot, DType)>) {
        self.narrowed.extend(results);
    }

    /// Lowers a region and does `last` with what it returns, still inside.
    pub(crate) fn region_then(
        &mut self,
        region: Region,
        last: impl FnOnce(&mut Self, &[Value]) -> Result<(), Error>,
    ) -> Result<Vec<Step>, Error> {
        let outer = std::mem::take(&mut self.steps);
        let (views, written) = (self.views.clone(), self.written.clone());
        let returned = self.ops(region)?;
        last(self, &returned)?;
        let steps = std::mem::replace(&mut self.steps, outer);
        (self.views, self.written) = (views, written);
        Ok(steps)
    }

    /// The ops of a region as steps.
    pub(crate) fn ops(&mut self, region: Region) -> Result<Vec<Value>, Error> {
        let func = self.func;
        let uses = uses(func, region);
        let grouped = GroupedDots::of(func, region, &uses);
        let fusion = fuse::fuse(func, region, &uses, &|id| grouped.has(id));
        let grouped = std::mem::replace(&mut self.grouped, grouped);
        self.find_transposed(region, &uses);
        let outer = (std::mem::take(&mut self.finished_by), std::mem::take(&mut self.chained));
        self.find_finished(region, &uses, &fusion);
        self.find_chained(region, &uses, &fusion);
        let dots: HashMap<u32, Value> = self.finished_by.iter().map(|(&value, &number)| (number, value)).collect();
        let around = std::mem::take(&mut self.computing);
        let mut returned = Vec::new();
        for node in self.order(region, &fusion)? {
            match node {
                Node::Group(n) => {
                    let group = &fusion.groups[n as usize];
                    self.computing = group.members.keys().copied().collect();
                    self.group(n, group, dots.get(&n).copied())?;
                }
                Node::Op(id) => {
                    let op = func.op(id);
                    self.computing = vec![id];
                    if is_terminator(op) {
                        returned = op.operands.clone();
                    } else {
                        ops::lower(self, id)?;
                    }
                }
            }
        }
        self.computing = around;
        self.grouped = grouped;
        (self.finished_by, self.chained) = outer;
        Ok(returned)
    }

    /// A loop, and the dot that it finishes.
    fn group(&mut self, number: u32, group: &Group, dot: Option<Value>) -> Result<(), Error> {
        let finished = dot.map_or_else(Vec::new, |value| self.dot_ops(value));
        let dot = dot.and_then(|value| Some((self.views.get(&value)?.slot, self.deferred.remove(&value)?)));
        let start = self.steps.len();
        let lowered = group::lower(self, group)?;
        if dot.is_some() {
            self.computing.extend(finished);
        }
        match dot {
            // The loop needs the dot in another order first: a step of its own, before those that bring it there.
            Some((own, dot)) if self.steps[start..].iter().any(|step| step.inputs.contains(&own)) => {
                let rest = self.steps.split_off(start);
                contraction::push(self, dot, own);
                self.steps.extend(rest);
                let kernel = LoopKernel { ready: Ready::new(lowered.code, self.machine), label: lowered.label };
                self.step(lowered.inputs, lowered.outputs, kernel);
            }
            Some((own, dot)) if self.chained.contains_key(&number) => {
                self.chains.push(Chain { own, dot, lowered, ops: self.computing.clone() });
            }
            Some((own, dot)) => self.finish(own, dot, lowered),
            None => {
                if let ([], &[output]) = (&lowered.inputs[..], &lowered.outputs[..]) {
                    self.generated.insert(output, lowered.code.clone());
                }
                let kernel = LoopKernel { ready: Ready::new(lowered.code, self.machine), label: lowered.label };
                self.step(lowered.inputs, lowered.outputs, kernel);
            }
        }
        self.finish_narrowed()
    }

    /// Brings results of the last loop into their own type.
    pub(crate) fn finish_narrowed(&mut self) -> Result<(), Error> {
        for (value, slot, wide) in std::mem::take(&mut self.narrowed) {
            let (dtype, dims) = self.array_type(value)?;
            let view = self.converted(&View::dense(slot, wide, dims), dtype)?;
            self.define(value, view.slot);
        }
        Ok(())
    }

    /// Nodes in an order in which everything is computed before it is needed, as near to the program's as that allows.
    fn order(&self, region: Region, fusion: &Fusion) -> Result<Vec<Node>, Error> {
        let func = self.func;
        let ops = &func.region(region).ops;
        let mut node_of: HashMap<OpId, Vec<Node>> = HashMap::new();
        let mut rank: BTreeMap<Node, usize> = BTreeMap::new();
        for (position, &id) in ops.iter().enumerate() {
            let op = func.op(id);
            if is_transparent(func, op) || is_constant(op) || self.grouped.has_inside(id) {
                continue;
            }
            let nodes: Vec<Node> = match fusion.homes.get(&id) {
                Some(homes) => homes.iter().map(|home| Node::Group(home.0)).collect(),
                None if fuse::is_fusible(func, op) && !self.grouped.has(id) => Vec::new(),
                None => vec![Node::Op(id)],
            };
            for &node in &nodes {
                rank.insert(node, position);
            }
            node_of.insert(id, nodes);
        }
        // What a node waits for, through ops that have no node of their own.
        let mut waits: BTreeMap<Node, BTreeSet<Node>> = rank.keys().map(|&node| (node, BTreeSet::new())).collect();
        let mut producers: HashMap<Value, Vec<Node>> = HashMap::new();
        for &id in ops {
            let op = func.op(id);
            let from: BTreeSet<Node> =
                operands_and_captures(func, op).iter().filter_map(|v| producers.get(v)).flatten().copied().collect();
            if is_transparent(func, op) {
                for (n, result) in op.results().enumerate() {
                    let source = if op.num_results > 1 { op.operands.get(n) } else { op.operands.first() };
                    let nodes = source.and_then(|v| producers.get(v)).cloned().unwrap_or_default();
                    producers.insert(result, nodes);
                }
                continue;
            }
            if self.grouped.has_inside(id) {
                producers.insert(op.first_result, from.into_iter().collect());
                continue;
            }
            let Some(nodes) = node_of.get(&id) else { continue };
            for node in nodes {
                if let Some(set) = waits.get_mut(node) {
                    set.extend(from.iter().filter(|other| *other != node));
                }
            }
            for result in op.results() {
                // Where a value is computed in several groups, only the one that writes it serves others.
                let writers = nodes.iter().copied().filter(|node| match node {
                    Node::Group(n) => fusion.groups[*n as usize].outputs.contains(&result),
                    Node::Op(_) => true,
                });
                producers.insert(result, writers.collect());
            }
        }
        self.sort(&rank, waits, region)
    }

    fn sort(
        &self,
        rank: &BTreeMap<Node, usize>,
        waits: BTreeMap<Node, BTreeSet<Node>>,
        region: Region,
    ) -> Result<Vec<Node>, Error> {
        let func = self.func;
        let mut dependents: HashMap<Node, Vec<Node>> = HashMap::new();
        let mut missing: HashMap<Node, usize> = HashMap::new();
        for (&node, set) in &waits {
            missing.insert(node, set.len());
            for &other in set {
                dependents.entry(other).or_default().push(node);
            }
        }
        let mut ready: BTreeSet<(usize, Node)> =
            missing.iter().filter(|(_, n)| **n == 0).map(|(&node, _)| (rank[&node], node)).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some((_, node)) = ready.pop_first() {
            order.push(node);
            for &next in dependents.get(&node).map_or(&[][..], |list| list) {
                if let Some(count) = missing.get_mut(&next) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert((rank[&next], next));
                    }
                }
            }
        }
        if order.len() != waits.len() {
            return Err(Error::Internal("fused ops wait for each other".into()));
        }
        // Effects keep the program's order: the terminator is last.
        if let Some(&last) = func.region(region).ops.last()
            && let Some(at) = order.iter().position(|&node| node == Node::Op(last))
        {
            let node = order.remove(at);
            order.push(node);
        }
        Ok(order)
    }
}

/// Refuses an array of packed bits where a step reads elements of whole bytes.
pub(crate) fn in_bytes(view: &View) -> Result<(), Error> {
    match view.packing {
        Packing::Bytes => Ok(()),
        Packing::Bits => Err(Error::Unsupported { what: format!("packed {} outside of a dot", view.dtype) }),
    }
}

pub(crate) fn is_constant(op: &Op) -> bool {
    matches!(op.kind(), Some(OpKind::Constant | OpKind::SdyConstant | OpKind::ChloConstant))
}

pub(crate) fn is_terminator(op: &Op) -> bool {
    op.kind().is_some_and(OpKind::is_terminator)
}

/// Values an op reads: its operands, and what its regions take from outside.
pub(crate) fn operands_and_captures(func: &Func, op: &Op) -> Vec<Value> {
    let mut values = op.operands.clone();
    values.extend(captures(func, op));
    values
}

/// Values that an op's regions take from outside, each once.
pub(crate) fn captures(func: &Func, op: &Op) -> Vec<Value> {
    let mut inner: BTreeSet<Value> = BTreeSet::new();
    let mut used: BTreeSet<Value> = BTreeSet::new();
    let mut pending = op.regions.clone();
    while let Some(region) = pending.pop() {
        let data = func.region(region);
        inner.extend(&data.args);
        for &id in &data.ops {
            let op = func.op(id);
            inner.extend(op.results());
            used.extend(&op.operands);
            pending.extend(&op.regions);
        }
    }
    used.difference(&inner).copied().collect()
}

/// Who uses each value of a region; what nested regions use counts as their op's.
fn uses(func: &Func, region: Region) -> HashMap<Value, Vec<(OpId, usize)>> {
    let mut uses: HashMap<Value, Vec<(OpId, usize)>> = HashMap::new();
    for &id in &func.region(region).ops {
        let op = func.op(id);
        for (n, &value) in op.operands.iter().enumerate() {
            uses.entry(value).or_default().push((id, n));
        }
        for value in captures(func, op) {
            uses.entry(value).or_default().push((id, usize::MAX));
        }
    }
    uses
}
