//! A program for all partitions rewritten as the program that each of them runs: every value becomes the part of it that its
//! propagated sharding gives a partition, and partitions exchange what an op needs of other parts.
//!
//! Ops are split along the factors of their rule (`plan`). An op without a rule is computed whole by every partition, from
//! operands that are gathered before (`exchange`), so every program has an answer; rules make it a good one. Sums stay
//! summands as long as only linear ops read them.

mod combine;
mod digits;
mod exchange;
mod flow;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use tensor::DType;

use self::digits::{Digit, Held, ordered};
pub(crate) use self::flow::{manual_axes, shardings};
use self::plan::Splits;
pub(crate) use self::plan::{fold_of, ints};
use crate::build::FuncBuilder;
use crate::ir::sdy::{MeshRef, SdyAttr, TensorSharding};
use crate::ir::{
    Attr, Attrs, Definition, DenseData, Func, Module, NewOp, Op, OpId, OpKind, OpName, Region, Type, Value,
};
use crate::ops::{OpClass, Violation};
use crate::passes::{self, Partitioned};
use crate::propagate::{PropagatedShardings, propagate_values};
use crate::verify::{Verified, verify};

/// Ops a program for one partition may have.
const MAX_OPS: usize = 400_000;
/// Regions inside each other.
const MAX_DEPTH: usize = 64;

/// Why a program is not rewritten: it has parts that say by other means what a partition does.
pub(crate) fn give_up(why: &str) -> Violation {
    Violation::new("", why.to_string())
}

/// Rewrites a program for one of `num_partitions` partitions; arguments and results are split as `edges` says, and where it
/// says nothing they are whole.
///
/// # Errors
/// What stands in the way: meshes whose devices are in another order, dynamic sizes, tuples, collectives outside of manual
/// computations.
pub fn partition(
    module: &Verified,
    entry: &str,
    edges: &PropagatedShardings,
    num_partitions: usize,
) -> Result<Verified, String> {
    let count = i64::try_from(num_partitions).map_err(|_| "too many partitions".to_string())?;
    let flat = flat(module, entry)?;
    let func = flat.func(entry).ok_or("there is no entry")?;
    let mut one = Partitioner::new(&flat, func, count).map_err(|violation| violation.message)?;
    let written = one.write(edges).map_err(|violation| violation.message)?;
    let mut out = flat.clone().into_inner();
    for func in &mut out.funcs {
        if *func.name == *entry {
            *func = written.clone();
        }
    }
    let out = verify(out).map_err(|error| error.to_string())?;
    let options = passes::Options { partitioned: Partitioned::No, ..passes::Options::default() };
    let cleaned = passes::apply(out, &[passes::INLINE, passes::CSE, passes::DCE], &options);
    cleaned.map(|(module, _)| module).map_err(|error| error.to_string())
}

/// Makes one exchange of sums over the same partitions that need not wait for each other, as compilers show them.
pub fn combine_all_reduces(module: Verified) -> Verified {
    let mut module = module.into_inner();
    module.funcs.iter_mut().filter(|func| func.body.is_some()).for_each(combine::run);
    Verified::by_construction(module)
}

/// The program with calls replaced by what they call; shardings of a function's arguments and results become constraints.
fn flat(module: &Verified, entry: &str) -> Result<Verified, String> {
    let mut flat = module.clone().into_inner();
    for func in flat.funcs.iter_mut().filter(|func| *func.name != *entry) {
        constrain(func);
    }
    let flat = verify(flat).map_err(|error| error.to_string())?;
    let options = passes::Options { partitioned: Partitioned::Yes, ..passes::Options::default() };
    let inlined = passes::apply(flat, &[passes::INLINE, passes::DCE], &options);
    inlined.map(|(module, _)| module).map_err(|error| error.to_string())
}

fn constrain(func: &mut Func) {
    let Some(body) = func.body else { return };
    let written = |attrs: Option<&Attrs>| match attrs.and_then(|attrs| attrs.get("sdy.sharding")) {
        Some(Attr::Sdy(attr)) if matches!(**attr, SdyAttr::Sharding(_)) => Some(Attr::Sdy(attr.clone())),
        _ => None,
    };
    let constraint = |func: &mut Func, value: Value, sharding: Attr| {
        let mut attrs = Attrs::new();
        attrs.set("sharding", sharding);
        let results = vec![func.ty(value).clone()];
        let name = OpName::Known(OpKind::SdyShardingConstraint);
        func.add_op(body, NewOp { name, operands: vec![value], results, attrs, regions: Vec::new(), loc: None })
    };
    let mut ops = std::mem::take(&mut func.regions[body.0 as usize].ops);
    let Some(end) = ops.pop() else { return };
    let mut renamed = HashMap::new();
    for (n, argument) in func.args().to_vec().into_iter().enumerate() {
        if let Some(sharding) = written(func.input_attrs.get(n)) {
            let id = constraint(func, argument, sharding);
            renamed.insert(argument, func.op(id).first_result);
        }
    }
    let first = func.regions[body.0 as usize].ops.len();
    for op in func.ops.iter_mut().rev().skip(first) {
        op.operands.iter_mut().for_each(|value| *value = renamed.get(value).copied().unwrap_or(*value));
    }
    func.regions[body.0 as usize].ops.append(&mut ops);
    for n in 0..func.op(end).operands.len() {
        if let Some(sharding) = written(func.output_attrs.get(n)) {
            let id = constraint(func, func.op(end).operands[n], sharding);
            let result = func.op(id).first_result;
            func.ops[end.0 as usize].operands[n] = result;
        }
    }
    func.regions[body.0 as usize].ops.push(end);
    for attrs in func.input_attrs.iter_mut().chain(&mut func.output_attrs) {
        attrs.remove("sdy.sharding");
        attrs.remove("mhlo.sharding");
        attrs.remove("mhlo.frontend_attributes");
    }
    func.renumber();
}

/// What stands for a value.
#[derive(Clone, Debug)]
enum Part {
    /// A value of the new program, and what it is of the old one.
    Written(Value, Held),
    /// A constant, written where and as it is read.
    Constant(OpId),
}

struct Partitioner<'m> {
    module: &'m Module,
    func: &'m Func,
    out: FuncBuilder,
    shardings: HashMap<Value, TensorSharding>,
    parts: HashMap<Value, Part>,
    /// Parts that were exchanged or written already, where they can be read.
    made: HashMap<(Value, Held), Value>,
    /// Keys of `made`, in the order they were added.
    order: Vec<(Value, Held)>,
    count: i64,
    channel: i64,
    /// The number of the partition.
    partition: Value,
    /// Manual computations around what is being written.
    manual: usize,
}

impl<'m> Partitioner<'m> {
    fn new(module: &'m Verified, func: &'m Func, count: i64) -> Result<Self, Violation> {
        let shardings = propagate_values(module, func).ok_or_else(|| give_up("a program that is too large"))?;
        let highest = |op: &Op| match op.attr("channel_handle") {
            Some(Attr::Channel(channel)) => channel.handle,
            _ => 0,
        };
        let channel = module.funcs.iter().flat_map(|func| &func.ops).map(highest).max().unwrap_or(0).max(0);
        Ok(Partitioner {
            module,
            func,
            out: FuncBuilder::new(func.name.clone()),
            shardings,
            parts: HashMap::new(),
            made: HashMap::new(),
            order: Vec::new(),
            count,
            channel,
            partition: Value(0),
            manual: 0,
        })
    }

    fn write(&mut self, edges: &PropagatedShardings) -> Result<Func, Violation> {
        let body = self.func.body.ok_or_else(|| give_up("a function without a body"))?;
        let attrs = |list: &[Attrs], n: usize| {
            let mut attrs = list.get(n).cloned().unwrap_or_default();
            for sharding in ["sdy.sharding", "mhlo.sharding"] {
                attrs.remove(sharding);
            }
            attrs
        };
        self.out.visibility(self.func.visibility);
        for (n, &argument) in self.func.args().iter().enumerate() {
            let ty = self.func.ty(argument);
            let held = self.edge(edges.arguments.get(n), ty)?;
            let part = held.part(ty).ok_or_else(|| give_up("an argument that does not split evenly"))?;
            let value = self.out.arg_with_attrs(part, attrs(&self.func.input_attrs, n));
            self.parts.insert(argument, Part::Written(value, held));
        }
        self.partition = self.out.op(OpKind::PartitionId, &[], Attrs::new())?;
        let returned = self.region(body, 0)?;
        let mut outputs = Vec::with_capacity(returned.len());
        for (n, value) in returned.into_iter().enumerate() {
            let held = self.edge(edges.results.get(n), self.func.ty(value))?;
            outputs.push(self.read(value, &held)?);
        }
        let attrs = (0..outputs.len()).map(|n| attrs(&self.func.output_attrs, n)).collect();
        let out = std::mem::replace(&mut self.out, FuncBuilder::new(""));
        Ok(out.finish_with_attrs(&outputs, attrs))
    }

    fn edge(&self, sharding: Option<&Option<TensorSharding>>, ty: &Type) -> Result<Held, Violation> {
        match (sharding.and_then(Option::as_ref), ty.as_tensor()) {
            (Some(sharding), Some(tensor)) => self.held(sharding, &tensor.dims),
            _ => Ok(Held::whole(rank(ty))),
        }
    }

    /// What a sharding gives one partition.
    fn held(&self, sharding: &TensorSharding, sizes: &[i64]) -> Result<Held, Violation> {
        let mesh = match &sharding.mesh {
            MeshRef::Symbol(name) => self.module.mesh(name),
            MeshRef::Inline(mesh) => Some(mesh),
        };
        let held = mesh.and_then(|mesh| Held::of(sharding, mesh, sizes, self.count));
        held.ok_or_else(|| give_up("a mesh of other devices than the partitions in their order"))
    }

    /// What was propagated to a value; all of it where nothing was.
    fn wanted(&self, value: Value) -> Result<Held, Violation> {
        let ty = self.func.ty(value);
        match (self.shardings.get(&value), ty.as_tensor()) {
            (Some(sharding), Some(tensor)) => self.held(sharding, &tensor.dims),
            _ => Ok(Held::whole(rank(ty))),
        }
    }

    /// Whether something was propagated to a value.
    fn is_wanted(&self, value: Value) -> bool {
        self.shardings.contains_key(&value)
    }

    /// What is held of a value; `None` for a constant, of which anything can be had.
    fn have(&self, value: Value) -> Result<Option<Held>, Violation> {
        match self.parts.get(&value) {
            Some(Part::Written(_, held)) => Ok(Some(held.clone())),
            Some(Part::Constant(_)) => Ok(None),
            None => Err(give_up("a value that nothing computes")),
        }
    }

    /// A value in the part that is asked for.
    fn read(&mut self, value: Value, held: &Held) -> Result<Value, Violation> {
        let key = (value, held.clone());
        if let Some(&made) = self.made.get(&key) {
            return Ok(made);
        }
        let made = match self.parts.get(&value).cloned() {
            Some(Part::Written(written, have)) if have == *held => return Ok(written),
            Some(Part::Written(written, have)) => self.exchange(written, &have, held)?,
            Some(Part::Constant(id)) => self.constant(id, held)?,
            None => return Err(give_up("a value that nothing computes")),
        };
        self.made.insert(key.clone(), made);
        self.order.push(key);
        Ok(made)
    }

    fn whole(&mut self, value: Value) -> Result<Value, Violation> {
        let held = Held::whole(rank(self.func.ty(value)));
        self.read(value, &held)
    }

    /// Writes an op of one result.
    fn one(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        attrs: Attrs,
        regions: &[Region],
        ty: Type,
    ) -> Result<Value, Violation> {
        let results = self.out.op_with_types(kind, operands, attrs, regions, vec![ty])?;
        results.first().copied().ok_or_else(|| give_up("an op without a result"))
    }

    /// The part of a constant or of an `iota`.
    fn constant(&mut self, id: OpId, held: &Held) -> Result<Value, Violation> {
        let op = self.func.op(id);
        let ty = self.func.ty(op.first_result);
        let all = Held::whole(held.dims.len());
        let split = Held { unreduced: Vec::new(), ..held.clone() };
        let part = split.part(ty).ok_or_else(|| give_up("a constant that does not split evenly"))?;
        let tensor = part.as_tensor().cloned().ok_or_else(|| give_up("a constant that is no tensor"))?;
        let written = match (op.kind(), op.attr("value")) {
            (Some(OpKind::Iota), _) => self.iota(op, &split, part)?,
            (_, Some(Attr::Dense(dense))) => match &dense.data {
                DenseData::Splat(element) => self.out.splat(tensor, element)?,
                _ => {
                    let whole = self.out.constant((**dense).clone());
                    self.exchange(whole, &all, &split)?
                }
            },
            _ => return Err(give_up("a constant without a value")),
        };
        match held.unreduced.is_empty() || plan::is_zero(self.func, op.first_result) {
            true => Ok(written),
            false => self.exchange(written, &split, held),
        }
    }

    fn iota(&mut self, op: &Op, held: &Held, part: Type) -> Result<Value, Violation> {
        let mut attrs = op.attrs.clone();
        attrs.remove("sdy.sharding");
        attrs.remove("mhlo.sharding");
        let along = op.attr("iota_dimension").and_then(Attr::as_int).and_then(|dim| usize::try_from(dim).ok());
        let numbers = self.one(OpKind::Iota, &[], attrs, &[], part.clone())?;
        let Some((digits, tensor)) = along.and_then(|dim| held.dims.get(dim)).zip(part.as_tensor()) else {
            return Err(give_up("an iota along no dimension"));
        };
        if digits.is_empty() {
            return Ok(numbers);
        }
        let size = along.map_or(0, |dim| tensor.dims[dim]);
        let digits: Vec<Digit> = digits.clone();
        let start = self.own_number(|partition| exchange::place(&digits, partition) * size)?;
        let scalar = Type::scalar(tensor.element.clone());
        let start = match tensor.element.plain() {
            Some(DType::I64) => start,
            _ => self.one(OpKind::Convert, &[start], Attrs::new(), &[], scalar)?,
        };
        let mut attrs = Attrs::new();
        attrs.set("broadcast_dimensions", Attr::i64s([]));
        let start = self.one(OpKind::BroadcastInDim, &[start], attrs, &[], part)?;
        self.out.op(OpKind::Add, &[numbers, start], Attrs::new())
    }

    /// Writes the ops of a region; the old values it returns.
    fn region(&mut self, region: Region, depth: usize) -> Result<Vec<Value>, Violation> {
        if depth > MAX_DEPTH {
            return Err(give_up("regions that are too deep"));
        }
        let func = self.func;
        let Some((&last, ops)) = func.region(region).ops.split_last() else {
            return Err(give_up("a region that is empty"));
        };
        for &id in ops {
            self.op(id, depth)?;
            if self.out.as_func().ops.len() > MAX_OPS {
                return Err(give_up("a program that becomes too large"));
            }
        }
        Ok(func.op(last).operands.clone())
    }

    fn op(&mut self, id: OpId, depth: usize) -> Result<(), Violation> {
        let func = self.func;
        let op = func.op(id);
        self.out.at(op.loc.clone());
        let Some(kind) = op.kind() else { return Err(give_up("an op of another dialect")) };
        let is_known = |value: Value| {
            matches!(func.ty(value), Type::Token) || func.ty(value).as_tensor().is_some_and(|ty| ty.is_static())
        };
        if !op.operands.iter().copied().chain(op.results()).all(is_known) {
            return Err(give_up("values other than tensors of known sizes"));
        }
        match kind {
            OpKind::Constant | OpKind::SdyConstant | OpKind::Iota => {
                self.parts.insert(op.first_result, Part::Constant(id));
                Ok(())
            }
            OpKind::SdyShardingGroup => Ok(()),
            OpKind::SdyShardingConstraint
            | OpKind::SdyReshard
            | OpKind::SdyPropagationBarrier
            | OpKind::SdyDataFlowEdge => {
                let held = self.wanted(op.first_result)?;
                let value = self.read(op.operands[0], &held)?;
                self.parts.insert(op.first_result, Part::Written(value, held));
                Ok(())
            }
            OpKind::OptimizationBarrier => self.barrier(op),
            OpKind::SdyNamedComputation => self.named(op, depth),
            OpKind::SdyManualComputation => self.manual_computation(op, depth),
            OpKind::While => self.repeat(op, depth),
            OpKind::Case | OpKind::If => self.choose(op, depth),
            OpKind::PartitionId if self.manual == 0 => Err(give_up("the number of a partition")),
            OpKind::CustomCall if is_sharding_call(op) => Err(give_up("a sharding as a custom call")),
            OpKind::Rng => Err(give_up("random numbers that no state determines")),
            OpKind::CustomCall if self.manual == 0 && has_effect(op) => {
                Err(give_up("a call that does more than compute"))
            }
            _ if kind.class() == OpClass::Transfer => Err(give_up("an exchange with the host")),
            _ if kind.is_collective() && self.manual == 0 => Err(give_up("a collective of all partitions")),
            _ => {
                if let Some(splits) = Splits::of(func, op)
                    && self.in_parts(op, kind, &splits)?
                {
                    return Ok(());
                }
                self.as_whole(op, kind)
            }
        }
    }

    /// Writes an op on parts; whether that could be done.
    fn in_parts(&mut self, op: &Op, kind: OpKind, splits: &Splits) -> Result<bool, Violation> {
        let func = self.func;
        let have = op.operands.iter().map(|&value| self.have(value)).collect::<Result<Vec<_>, _>>()?;
        let want = op.results().map(|value| self.wanted(value)).collect::<Result<Vec<_>, _>>()?;
        let summands = self.summands(op, &have, &want);
        let elements =
            |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).map_or(0.0, |n| n as f64);
        let sizes: Vec<f64> = op.operands.iter().map(|&value| elements(value)).collect();
        let stripped: Vec<Option<Held>> =
            have.iter().map(|held| held.clone().map(|held| Held { unreduced: Vec::new(), ..held })).collect();
        let carried = summands.as_ref().map_or(Vec::new(), |(digits, _)| digits.clone());
        let plan = splits.plan(&sizes, &stripped, &want, &carried);
        if carried.is_empty() && plan.held.iter().all(Held::is_whole) {
            return Ok(false);
        }
        let values: Vec<Value> = op.operands.iter().copied().chain(op.results()).collect();
        let whole: Vec<Type> = values.iter().map(|&value| func.ty(value).clone()).collect();
        let parts = whole.iter().zip(&plan.held).map(|(ty, held)| held.part(ty)).collect::<Option<Vec<Type>>>();
        let Some(part) = parts else { return Ok(false) };
        let mut operands = Vec::with_capacity(op.operands.len());
        for (n, &value) in op.operands.iter().enumerate() {
            let mut held = plan.held[n].clone();
            if let Some((digits, carriers)) = &summands
                && carriers.contains(&n)
            {
                held.unreduced = digits.clone();
            }
            operands.push(self.read(value, &held)?);
        }
        let regions = self.copied_regions(op)?;
        let attrs = plan::attributes(op, &whole, &part);
        let types = part[op.operands.len()..].to_vec();
        let Ok(results) = self.out.op_with_types(kind, &operands, attrs, &regions, types) else { return Ok(false) };
        // What is not a sum is combined at once.
        let fold = if kind == OpKind::Reduce { plan::combines(func, op) } else { Some(OpKind::Add) };
        for (n, (result, value)) in op.results().zip(results).enumerate() {
            let mut held = plan.held[op.operands.len() + n].clone();
            let mut value = value;
            held.unreduced.clone_from(&carried);
            if !plan.reduced.is_empty() {
                match fold {
                    Some(OpKind::Add) => held.unreduced = ordered([&*carried, &plan.reduced].concat()),
                    Some(fold) => {
                        let element = self.tensor(value)?.element;
                        let region = self.fold(fold, &element)?;
                        value = self.all_reduce(value, &ordered(plan.reduced.clone()), region)?;
                    }
                    None => return Err(give_up("a reduction that cannot be split")),
                }
            }
            self.parts.insert(result, Part::Written(value, held));
        }
        Ok(true)
    }

    /// Digits along which operands are summands and the results can be, and the operands that are.
    fn summands(&self, op: &Op, have: &[Option<Held>], want: &[Held]) -> Option<(Vec<Digit>, Vec<usize>)> {
        let func = self.func;
        let carries = |n: &usize| have[*n].as_ref().is_some_and(|held| !held.unreduced.is_empty());
        let partial: Vec<usize> = (0..have.len()).filter(carries).collect();
        let digits = have[*partial.first()?].as_ref()?.unreduced.clone();
        if partial.iter().any(|&n| have[n].as_ref().is_some_and(|held| held.unreduced != digits)) {
            return None;
        }
        let linear = match op.kind() {
            // A product is linear in each of its operands.
            Some(OpKind::Multiply | OpKind::DotGeneral | OpKind::Convolution) if partial.len() == 1 => partial.clone(),
            _ => plan::linear_operands(func, op),
        };
        // A constant of zeros is a summand as good as any.
        let fits = |n: &usize| partial.contains(n) || plan::is_zero(func, op.operands[*n]);
        if linear.is_empty() || !linear.iter().all(fits) || !partial.iter().all(|n| linear.contains(n)) {
            return None;
        }
        // What grows is summed up before.
        let elements = |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).unwrap_or(0);
        let grows =
            op.results().map(elements).sum::<u64>() > partial.iter().map(|&n| elements(op.operands[n])).sum::<u64>();
        let is_asked = want.iter().any(|held| !held.unreduced.is_empty());
        let keeps =
            is_asked || !grows || have[partial[0]].as_ref().is_some_and(|_| self.is_asked(op.operands[partial[0]]));
        keeps.then_some((digits, linear))
    }

    /// Whether the program itself says that a value is a summand.
    fn is_asked(&self, value: Value) -> bool {
        self.wanted(value).is_ok_and(|held| !held.unreduced.is_empty())
    }

    /// Writes an op as it is, for all partitions to compute.
    fn as_whole(&mut self, op: &Op, kind: OpKind) -> Result<(), Violation> {
        let func = self.func;
        let operands = op.operands.iter().map(|&value| self.whole(value)).collect::<Result<Vec<_>, _>>()?;
        let regions = self.copied_regions(op)?;
        let types: Vec<Type> = op.results().map(|value| func.ty(value).clone()).collect();
        let mut attrs = op.attrs.clone();
        for name in ["sdy.sharding", "mhlo.sharding"] {
            attrs.remove(name);
        }
        let results = self.out.op_with_types(kind, &operands, attrs, &regions, types)?;
        for (result, value) in op.results().zip(results) {
            let held = Held::whole(rank(func.ty(result)));
            self.parts.insert(result, Part::Written(value, held));
        }
        Ok(())
    }

    /// The regions of an op as they are.
    fn copied_regions(&mut self, op: &Op) -> Result<Vec<Region>, Violation> {
        let func = self.func;
        let mut known = HashMap::new();
        for value in self.captured(op) {
            known.insert(value, self.whole(value)?);
        }
        op.regions.iter().map(|&region| copy_region(&mut self.out, func, region, &mut known, 0)).collect()
    }

    /// Values of the function around an op that its regions read, each once.
    fn captured(&self, op: &Op) -> Vec<Value> {
        let func = self.func;
        let mut inside: HashSet<Region> = HashSet::new();
        let mut pending = op.regions.clone();
        let mut ops = Vec::new();
        while let Some(region) = pending.pop() {
            inside.insert(region);
            for &id in &func.region(region).ops {
                pending.extend(&func.op(id).regions);
                ops.push(id);
            }
        }
        let within: HashSet<OpId> = ops.iter().copied().collect();
        let is_outside = |value: &Value| match func.value(*value).definition {
            Definition::Argument(region, _) => !inside.contains(&region),
            Definition::Result(id, _) => !within.contains(&id),
        };
        let mut seen = HashSet::new();
        let read = ops.iter().flat_map(|&id| func.op(id).operands.iter().copied());
        read.filter(is_outside).filter(|value| seen.insert(*value)).collect()
    }

    /// Forgets parts that were made since: they are inside a region that is over.
    fn forget(&mut self, since: usize) {
        for key in self.order.drain(since..) {
            self.made.remove(&key);
        }
    }
}

fn rank(ty: &Type) -> usize {
    ty.as_tensor().map_or(0, |tensor| tensor.dims.len())
}

/// Annotations of GSPMD as custom calls.
fn is_sharding_call(op: &Op) -> bool {
    let name = op.attr("call_target_name").and_then(Attr::as_str).unwrap_or_default();
    name == "Sharding" || name.starts_with("SPMD") || name.starts_with("xla.sdy.")
}

/// Whether a custom call does more than to compute its results.
fn has_effect(op: &Op) -> bool {
    op.attr("has_side_effect").and_then(Attr::as_bool) == Some(true)
}

pub(crate) fn copy_region(
    out: &mut FuncBuilder,
    func: &Func,
    region: Region,
    known: &mut HashMap<Value, Value>,
    depth: usize,
) -> Result<Region, Violation> {
    if depth > MAX_DEPTH {
        return Err(give_up("regions that are too deep"));
    }
    let data = func.region(region);
    let Some((&last, ops)) = data.ops.split_last() else { return Err(give_up("a region that is empty")) };
    let types: Vec<Type> = data.args.iter().map(|&value| func.ty(value).clone()).collect();
    let end = func.op(last).kind().ok_or_else(|| give_up("an op of another dialect"))?;
    out.region_ended_by(end, &types, |out, args| {
        known.extend(data.args.iter().copied().zip(args.iter().copied()));
        let get = |known: &HashMap<Value, Value>, list: &[Value]| {
            let values = list.iter().map(|value| known.get(value).copied()).collect::<Option<Vec<_>>>();
            values.ok_or_else(|| give_up("a value that nothing computes"))
        };
        for &id in ops {
            let op = func.op(id);
            let kind = op.kind().ok_or_else(|| give_up("an op of another dialect"))?;
            let operands = get(known, &op.operands)?;
            let inner = op.regions.iter().map(|&region| copy_region(out, func, region, known, depth + 1));
            let inner = inner.collect::<Result<Vec<_>, _>>()?;
            let types = op.results().map(|value| func.ty(value).clone()).collect();
            let results = out.op_with_types(kind, &operands, op.attrs.clone(), &inner, types)?;
            known.extend(op.results().zip(results));
        }
        get(known, &func.op(last).operands)
    })
}
