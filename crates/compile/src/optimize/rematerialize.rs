//! Rematerialization (gradient checkpointing): what a loop over layers stacks for the backward loop is computed there once more, from
//! what is still stacked.

use std::collections::{HashMap, HashSet};

use hlo::passes::{self, DCE, INLINE, Options, Partitioned};
use hlo::{Attr, Attrs, Definition, Func, NewOp, Op, OpClass, OpId, OpKind, Region, Value, Verified};
use kernel::composites::{FLASH, FLASH_BACKWARD, GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT};

use super::optimizer::Context;
use super::stacks::{Read, Stack, Uses, bytes_of, defining, new, returned};
use super::step::RewriteStep;
use crate::error::CompileError;

const NAME: &str = "rematerialize";
/// Of a device's memory: activations that take less are not worth a second computation.
const WORTHWHILE: u64 = 8;

/// Which activations of loops over layers the backward pass computes again instead of reading what the forward pass saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GradientCheckpointing {
    /// Those that cost no matmul, from level `balanced` on, where they take an eighth of the device's memory.
    #[default]
    Auto,
    /// None: the program saves what it was written to save.
    None,
    /// Those that cost no matmul.
    Activations,
    /// All but what each layer takes.
    Layers,
}

impl GradientCheckpointing {
    /// Every choice.
    pub const ALL: [GradientCheckpointing; 4] = [
        GradientCheckpointing::Auto,
        GradientCheckpointing::None,
        GradientCheckpointing::Activations,
        GradientCheckpointing::Layers,
    ];

    /// The word for the choice.
    pub fn name(self) -> &'static str {
        match self {
            GradientCheckpointing::Auto => "auto",
            GradientCheckpointing::None => "none",
            GradientCheckpointing::Activations => "activations",
            GradientCheckpointing::Layers => "layers",
        }
    }

    /// Whether programs are rewritten at every level.
    pub fn is_asked_for(self) -> bool {
        matches!(self, GradientCheckpointing::Activations | GradientCheckpointing::Layers)
    }
}

/// How much is rematerialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RematExtent {
    /// What costs no matmul.
    Cheap,
    /// All but what the layers take.
    Everything,
    /// What is computed from scores: from matmuls whose results are larger than their factors.
    Scores,
    /// What is computed from those, or from the experts that tokens chose (a `top_k`).
    Experts,
    /// What is computed from deviations of norms (a square root) without a matmul.
    Norms,
}

/// A program that saves fewer activations.
#[derive(Clone, Debug)]
pub struct Rematerialized {
    /// The program.
    pub module: Verified,
    /// Stacks that it does not save any more.
    pub stacks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The rewrite of the optimizer.
pub(super) fn run(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    let extent = match context.gradient_checkpointing {
        GradientCheckpointing::None => return Ok((module, RewriteStep::new(NAME, 0, "not asked for"))),
        GradientCheckpointing::Auto | GradientCheckpointing::Activations => RematExtent::Cheap,
        GradientCheckpointing::Layers => RematExtent::Everything,
    };
    let Some(made) = rematerialize(&module, extent)? else {
        return Ok((module, RewriteStep::new(NAME, 0, "no loop saves activations for another")));
    };
    let mebibytes = made.bytes >> 20;
    let is_small = context.target.memory_bytes.is_none_or(|memory| made.bytes < memory / WORTHWHILE);
    if context.gradient_checkpointing == GradientCheckpointing::Auto && is_small {
        return Ok((module, RewriteStep::new(NAME, 0, format!("{mebibytes} MiB of activations are left saved"))));
    }
    let detail = format!("{} stacks of activations ({mebibytes} MiB) are not saved", made.stacks);
    Ok((made.module, RewriteStep::new(NAME, made.stacks, detail)))
}

/// The program without calls, all but what becomes a kernel: that costs what the kernel costs.
pub fn inlined_but_kernels(module: &Verified) -> Result<Verified, CompileError> {
    let kernels = [FLASH, FLASH_BACKWARD, GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT];
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &kernels, ..Options::default() };
    Ok(passes::apply(module.clone(), &[INLINE], &options)?.0)
}

/// The program with activations rematerialized; `None` where no loop saves any for another.
pub fn rematerialize(module: &Verified, extent: RematExtent) -> Result<Option<Rematerialized>, CompileError> {
    let mut module = inlined_but_kernels(module)?.into_inner();
    let name = module.entry().map(|func| func.name.clone());
    let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref()) else { return Ok(None) };
    let (stacks, bytes) = rewrite(func, extent);
    if stacks == 0 {
        return Ok(None);
    }
    // Stacks that nobody reads are still carried.
    let options = Options { partitioned: Partitioned::Yes, ..Options::default() };
    let module = passes::apply(hlo::verify(module)?, &[DCE], &options)?.0;
    Ok(Some(Rematerialized { module, stacks, bytes }))
}

/// Rewrites every pair of loops; how many stacks are gone, and their bytes.
fn rewrite(func: &mut Func, extent: RematExtent) -> (u64, u64) {
    let loops: Vec<OpId> = func.walk().into_iter().filter(|id| func.op(*id).kind() == Some(OpKind::While)).collect();
    let (mut stacks, mut bytes) = (0, 0u64);
    for forward in loops {
        if let Some(plan) = Plan::of(func, forward, extent) {
            let gone = plan.apply(func);
            stacks += gone.len() as u64;
            bytes = gone.iter().fold(bytes, |sum, &stack| sum.saturating_add(bytes_of(func, stack)));
        }
    }
    (stacks, bytes)
}

/// Which stacks of a loop are dropped, and which are read instead.
struct Plan {
    forward: OpId,
    body: Region,
    /// Carried values that no round changes.
    invariant: Vec<bool>,
    stacks: Vec<Stack>,
    /// For each stack whether it is dropped.
    dropped: Vec<bool>,
}

impl Plan {
    fn of(func: &Func, forward: OpId, extent: RematExtent) -> Option<Plan> {
        let uses = Uses::of(func);
        let &[_, body] = &func.op(forward).regions[..] else { return None };
        let returned = returned(func, body)?;
        let args = &func.region(body).args;
        let invariant: Vec<bool> = args.iter().zip(returned).map(|(arg, value)| arg == value).collect();
        let stacks: Vec<Stack> = (0..args.len()).filter_map(|n| Stack::of(func, &uses, forward, body, n)).collect();
        let mut plan = Plan { forward, body, invariant, dropped: vec![false; stacks.len()], stacks };
        for n in 0..plan.stacks.len() {
            let stack = &plan.stacks[n];
            let is_input = matches!(func.value(stack.source).definition, Definition::Argument(..));
            let is_wanted = extent != RematExtent::Cheap || !is_matmul(func, stack.source);
            plan.dropped[n] = stack.reads.is_some() && !is_input && is_wanted;
        }
        if matches!(extent, RematExtent::Scores | RematExtent::Experts | RematExtent::Norms) {
            plan.keep_all_but(func, extent);
        }
        // What cannot be computed from the others stays, which may let others be computed.
        loop {
            let kept = (0..plan.stacks.len()).find(|n| plan.dropped[*n] && plan.needed(func, *n, extent).is_none());
            match kept {
                Some(n) => plan.dropped[n] = false,
                None => break,
            }
        }
        plan.dropped.contains(&true).then_some(plan)
    }

    /// Of the stacks that may be dropped those stay that scores (experts, deviations) are not read for: the others are computed from these
    /// without another matmul. Dropped one by one, since one of them may be computed from another.
    fn keep_all_but(&mut self, func: &Func, extent: RematExtent) {
        let may = std::mem::replace(&mut self.dropped, vec![false; self.stacks.len()]);
        loop {
            let found = (0..may.len()).find(|&n| may[n] && !self.dropped[n] && self.is_computed_from(func, n, extent));
            match found {
                Some(n) => self.dropped[n] = true,
                None => break,
            }
        }
    }

    fn is_computed_from(&mut self, func: &Func, n: usize, extent: RematExtent) -> bool {
        self.dropped[n] = true;
        let needed = self.needed(func, n, extent);
        self.dropped[n] = false;
        let is_wanted = |op: &Op| match extent {
            RematExtent::Experts => is_of_experts(func, op),
            RematExtent::Norms => matches!(op.kind(), Some(OpKind::Rsqrt | OpKind::Sqrt)),
            _ => has_grown(func, op),
        };
        needed.is_some_and(|ops| ops.iter().any(|&id| is_wanted(func.op(id))))
    }

    /// The stack that holds a value and stays.
    fn kept(&self, value: Value) -> Option<&Stack> {
        self.stacks
            .iter()
            .zip(&self.dropped)
            .find(|(stack, dropped)| !**dropped && stack.source == value)
            .map(|(s, _)| s)
    }

    /// Ops of the loop's body that compute what stack `n` gets, in order; `None` where it cannot be computed elsewhere.
    fn needed(&self, func: &Func, n: usize, extent: RematExtent) -> Option<Vec<OpId>> {
        let mut pending = vec![self.stacks[n].update];
        let mut needed: HashSet<OpId> = HashSet::new();
        while let Some(value) = pending.pop() {
            if self.kept(value).is_some() {
                continue;
            }
            match func.value(value).definition {
                Definition::Argument(region, index) if region == self.body => {
                    let is_known = self.invariant[index as usize] || index as usize == self.stacks[n].counter;
                    if !is_known {
                        return None;
                    }
                }
                Definition::Argument(..) => {}
                Definition::Result(id, _) => {
                    if !func.region(self.body).ops.contains(&id) || !needed.insert(id) {
                        continue;
                    }
                    let op = func.op(id);
                    let is_too_costly = match extent {
                        RematExtent::Everything => false,
                        RematExtent::Cheap | RematExtent::Norms => is_costly(op),
                        RematExtent::Scores => is_costly(op) && !has_grown(func, op),
                        RematExtent::Experts => is_costly(op) && !is_of_experts(func, op) && !has_shrunk(func, op),
                    };
                    if !may_repeat(op) || is_too_costly {
                        return None;
                    }
                    pending.extend(inputs(func, op));
                }
            }
        }
        Some(func.region(self.body).ops.iter().copied().filter(|id| needed.contains(id)).collect())
    }

    /// Computes what is dropped where it is read; the stacks that nobody reads any more.
    fn apply(&self, func: &mut Func) -> Vec<Value> {
        // What was computed for a round in a loop serves all its reads of that round.
        let mut known: HashMap<(Region, Value), HashMap<Value, Value>> = HashMap::new();
        let mut gone = Vec::new();
        for (n, stack) in self.stacks.iter().enumerate().filter(|(n, _)| self.dropped[*n]) {
            let Some(ops) = self.needed(func, n, RematExtent::Everything) else { continue };
            let mut is_gone = false;
            for read in stack.reads.iter().flatten() {
                let map = known.entry((read.region, read.at)).or_default();
                let before = func.region(read.region).ops.len();
                let args = func.region(self.body).args.clone();
                let operands = func.op(self.forward).operands.clone();
                for (index, (arg, operand)) in args.iter().zip(operands).enumerate() {
                    if self.invariant[index] {
                        map.insert(*arg, operand);
                    } else if index == stack.counter {
                        map.insert(*arg, read.at);
                    }
                }
                for &id in &ops {
                    self.fetch(func, id, read, map);
                    let is_done = func.op(id).results().all(|result| map.contains_key(&result));
                    if !is_done {
                        copy_op(func, id, read.region, map);
                    }
                }
                // What was appended goes before the slice.
                let region = &mut func.regions[read.region.0 as usize].ops;
                let added = region.split_off(before);
                let place = region.iter().position(|id| *id == read.slice).unwrap_or(0);
                region.splice(place..place, added);
                let Some(&computed) = map.get(&stack.update) else { continue };
                let old = func.op(read.slice).first_result;
                for other in &mut func.ops {
                    other
                        .operands
                        .iter_mut()
                        .filter(|operand| **operand == old)
                        .for_each(|operand| *operand = computed);
                }
                is_gone = true;
            }
            gone.extend(is_gone.then_some(stack.result));
        }
        gone
    }

    /// Reads what an op needs of the stacks that stay.
    fn fetch(&self, func: &mut Func, id: OpId, read: &Read, map: &mut HashMap<Value, Value>) {
        for value in inputs(func, func.op(id)) {
            let Some(stack) = self.kept(value).filter(|_| !map.contains_key(&value)) else { continue };
            let ty = func.ty(stack.update).clone();
            let Some(tensor) = ty.as_tensor() else { continue };
            let sizes = tensor.dims.to_vec();
            let mut operands = vec![stack.result, read.at];
            operands.extend(std::iter::repeat_n(read.start.unwrap_or(read.at), sizes.len().saturating_sub(1)));
            let mut attrs = Attrs::new();
            attrs.set("slice_sizes", Attr::i64s(sizes));
            let slice = NewOp { operands, results: vec![ty], attrs, ..new(OpKind::DynamicSlice) };
            let slice = func.add_op(read.region, slice);
            let mut fetched = func.op(slice).first_result;
            if stack.source != stack.update {
                let results = vec![func.ty(stack.source).clone()];
                let reshape = NewOp { operands: vec![fetched], results, ..new(OpKind::Reshape) };
                let reshape = func.add_op(read.region, reshape);
                fetched = func.op(reshape).first_result;
            }
            map.insert(value, fetched);
        }
    }
}

/// Values an op reads, in its regions too.
fn inputs(func: &Func, op: &Op) -> Vec<Value> {
    let mut inputs = op.operands.clone();
    let mut pending = op.regions.clone();
    while let Some(region) = pending.pop() {
        for &id in &func.region(region).ops {
            inputs.extend(&func.op(id).operands);
            pending.extend(&func.op(id).regions);
        }
    }
    inputs
}

/// Whether an op gives the same when it runs again.
fn may_repeat(op: &Op) -> bool {
    let has_effect = op.attr("has_side_effect") == Some(&Attr::Bool(true));
    let talks = op.kind().is_some_and(|kind| kind.class() == OpClass::Transfer || kind == OpKind::Rng);
    !has_effect && !talks
}

/// Whether an op costs more than vector work.
fn is_costly(op: &Op) -> bool {
    use OpKind as K;
    let Some(kind) = op.kind() else { return true };
    let is_light = kind.is_movement() || matches!(kind, K::DynamicSlice | K::Iota | K::Constant | K::Reduce);
    !(is_light || hlo::cost::fuses_elementwise(kind))
}

/// Whether a batch of matmuls gives more numbers than it reads, as scores of queries and keys do.
fn has_grown(func: &Func, op: &Op) -> bool {
    let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return false };
    let elements = |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).unwrap_or(u64::MAX);
    let read = op.operands.iter().fold(0u64, |sum, &value| sum.saturating_add(elements(value)));
    !dot.lhs_batching.is_empty() && elements(op.first_result) > read
}

/// Whether an op chooses experts or numbers the tokens of each (a running count), or is a matmul that may be one of them all: tokens,
/// experts and features are axes of its result.
fn is_of_experts(func: &Func, op: &Op) -> bool {
    let rank = func.ty(op.first_result).as_tensor().map_or(0, |ty| ty.dims.len());
    let chooses = matches!(op.kind(), Some(OpKind::ChloTopK | OpKind::ReduceWindow));
    chooses || op.kind() == Some(OpKind::DotGeneral) && rank >= 4
}

/// Whether a matmul gives so few numbers that it costs little, as the router of experts does.
fn has_shrunk(func: &Func, op: &Op) -> bool {
    let elements = |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).unwrap_or(u64::MAX);
    let most = op.operands.iter().map(|&value| elements(value)).max().unwrap_or(0);
    op.kind() == Some(OpKind::DotGeneral) && elements(op.first_result) <= most / 16
}

/// Whether a value is the result of something costly, as it is or moved.
fn is_matmul(func: &Func, value: Value) -> bool {
    let mut value = value;
    loop {
        let Some(op) = defining(func, value) else { return false };
        match (op.kind(), op.operands.first()) {
            (Some(OpKind::Reshape | OpKind::Transpose | OpKind::Convert | OpKind::BroadcastInDim), Some(from)) => {
                value = *from;
            }
            _ => return is_costly(op),
        }
    }
}

/// Appends a copy of an op to a region, with other values in place of those it reads.
fn copy_op(func: &mut Func, id: OpId, into: Region, map: &mut HashMap<Value, Value>) {
    let op = func.op(id).clone();
    let read = |map: &HashMap<Value, Value>, value: &Value| map.get(value).copied().unwrap_or(*value);
    let mut regions = Vec::with_capacity(op.regions.len());
    for &region in &op.regions {
        let data = func.region(region).clone();
        let copy = func.add_region();
        for arg in &data.args {
            let ty = func.ty(*arg).clone();
            let new = func.add_argument(copy, ty, None);
            map.insert(*arg, new);
        }
        for &inner in &data.ops {
            copy_op(func, inner, copy, map);
        }
        regions.push(copy);
    }
    let results = op.results().map(|result| func.ty(result).clone()).collect();
    let operands = op.operands.iter().map(|value| read(map, value)).collect();
    let new = NewOp { name: op.name.clone(), operands, results, attrs: op.attrs.clone(), regions, loc: op.loc.clone() };
    let copy = func.add_op(into, new);
    let first = func.op(copy).first_result;
    map.extend(op.results().enumerate().map(|(n, result)| (result, Value(first.0 + n as u32))));
}
