//! Parts of GSPMD programs that are written for one device, as manual computations of Shardy.
//!
//! Such a part begins where values are cut ([`FULL_TO_SHARD`]) and ends where they are joined ([`SHARD_TO_FULL`]); nothing else says what
//! belongs to it. An op is in stage `n` where `n` joins are behind what it reads. What is local in one stage of a region is one computation:
//! it reads what was computed before, and is read by later stages.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::shardy::{SHARD_TO_FULL, convert, is_cut, is_joined, target};
use crate::error::Error;
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, MeshRef, SdyAttr, TensorSharding};
use crate::ir::{Attr, Attrs, Definition, Func, Module, NewOp, OpId, OpKind, OpName, Region, TensorType, Type, Value};
use crate::verify::{Verified, verify};

/// Whether a program has parts that are written for one device.
pub fn has_local_parts(module: &Module) -> bool {
    module.funcs.iter().flat_map(|func| &func.ops).any(is_cut)
}

/// The program in the words of Shardy, with manual computations.
///
/// # Errors
/// Shardings of another kind, or of several meshes; a local part whose shardings are not written.
pub fn with_manual_computations(module: &Module, devices: u64) -> Result<Verified, String> {
    let (mut module, mesh) = convert(module, devices)?;
    let axes: Vec<String> =
        module.mesh(&mesh).map_or_else(Vec::new, |mesh| mesh.axes.iter().map(|(name, _)| name.clone()).collect());
    let devices = i64::try_from(devices).map_err(|_| "there are too many devices")?;
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            let region = Region(n as u32);
            if func.region(region).ops.iter().any(|&id| is_cut(func.op(id))) {
                Outline { func, mesh: &mesh, axes: &axes, devices }.run(region)?;
            }
        }
        func.renumber();
    }
    verify(module).map_err(|error: Error| error.to_string())
}

struct Outline<'a> {
    func: &'a mut Func,
    mesh: &'a str,
    axes: &'a [String],
    devices: i64,
}

/// What is local in one stage.
#[derive(Default)]
struct Stage {
    /// Ops around it, before it.
    outside: Vec<OpId>,
    cuts: Vec<OpId>,
    inside: Vec<OpId>,
    joins: Vec<OpId>,
}

impl Outline<'_> {
    fn run(&mut self, region: Region) -> Result<(), String> {
        let order = self.func.region(region).ops.clone();
        let (mut stages, mut local): (Vec<Stage>, HashMap<Value, usize>) = (Vec::new(), HashMap::new());
        let mut stage_of: HashMap<Value, usize> = HashMap::new();
        for &id in &order {
            let reads = reads(self.func, id);
            let mut stage = reads.iter().filter_map(|value| stage_of.get(value)).copied().max().unwrap_or(0);
            let op = self.func.op(id);
            let is_local = reads.iter().any(|value| local.contains_key(value));
            // What ends a region is behind everything.
            if op.kind().is_some_and(OpKind::is_terminator) {
                if is_local {
                    return Err("a region returns what one device has".into());
                }
                stage = stages.len();
            }
            if stages.len() <= stage {
                stages.resize_with(stage + 1, Stage::default);
            }
            let results: Vec<Value> = op.results().collect();
            let list = match () {
                () if is_joined(op) => {
                    stage_of.extend(results.iter().map(|&value| (value, stage + 1)));
                    stages[stage].joins.push(id);
                    continue;
                }
                () if is_cut(op) => &mut stages[stage].cuts,
                () if is_local => &mut stages[stage].inside,
                () => &mut stages[stage].outside,
            };
            list.push(id);
            if is_local || is_cut(op) {
                local.extend(results.iter().map(|&value| (value, stage)));
            }
            stage_of.extend(results.iter().map(|&value| (value, stage)));
        }
        let mut ops = Vec::with_capacity(order.len());
        let mut joined: HashMap<Value, Value> = HashMap::new();
        let mut handed: HashMap<Value, Value> = HashMap::new();
        for n in 0..stages.len() {
            let stage = std::mem::take(&mut stages[n]);
            ops.extend(&stage.outside);
            if stage.cuts.is_empty() && stage.inside.is_empty() && stage.joins.is_empty() {
                continue;
            }
            // Values of this stage that later ones read.
            let own: HashSet<Value> =
                stage.cuts.iter().chain(&stage.inside).flat_map(|&id| self.func.op(id).results()).collect();
            let later = stages[n + 1..].iter().flat_map(|stage| [&stage.inside, &stage.joins]).flatten();
            let mut given_on: Vec<Value> =
                later.flat_map(|&id| reads(self.func, id)).filter(|v| own.contains(v)).collect();
            given_on.sort_unstable();
            given_on.dedup();
            ops.push(self.computation(&stage, &given_on, &mut joined, &mut handed)?);
        }
        self.func.regions[region.0 as usize].ops = ops;
        for op in &mut self.func.ops {
            for operand in &mut op.operands {
                *operand = joined.get(operand).copied().unwrap_or(*operand);
            }
        }
        Ok(())
    }

    /// Writes one computation. What it hands on to later ones has a dimension in front along which devices have their own.
    fn computation(
        &mut self,
        stage: &Stage,
        given_on: &[Value],
        joined: &mut HashMap<Value, Value>,
        handed: &mut HashMap<Value, Value>,
    ) -> Result<OpId, String> {
        let body = self.func.add_region();
        let mut renamed: HashMap<Value, Value> = HashMap::new();
        let (mut operands, mut before) = (Vec::new(), Vec::new());
        for &id in &stage.cuts {
            let (operand, result) = (self.func.op(id).operands[0], self.func.op(id).first_result);
            let sharding = self.written(operand).ok_or("a value that is cut has no sharding")?;
            let ty = self.func.ty(result).clone();
            let argument = self.func.add_argument(body, ty, None);
            renamed.insert(result, argument);
            operands.push(operand);
            before.push(sharding);
        }
        let local: HashSet<Value> = stage.inside.iter().flat_map(|&id| self.func.op(id).results()).collect();
        let nested: HashSet<Value> = stage.inside.iter().flat_map(|&id| defined_inside(self.func, id)).collect();
        let mut first = Vec::new();
        let all: Vec<OpId> = stage.inside.iter().chain(&stage.joins).copied().collect();
        for value in all.iter().flat_map(|&id| reads(self.func, id)).collect::<Vec<_>>() {
            if local.contains(&value) || nested.contains(&value) || renamed.contains_key(&value) {
                continue;
            }
            let whole = handed.get(&value).copied();
            let outside = whole.unwrap_or(value);
            let ty = self.func.ty(outside).clone();
            let Some(tensor) = ty.as_tensor().cloned() else { return Err("a value that is no tensor".into()) };
            operands.push(outside);
            if whole.is_none() {
                before.push(self.sharding(tensor.rank(), &[]));
                let argument = self.func.add_argument(body, ty, None);
                renamed.insert(value, argument);
                continue;
            }
            before.push(self.sharding(tensor.rank(), self.axes));
            let part = TensorType { dims: [&[1][..], &tensor.dims[1..]].concat(), ..tensor };
            let argument = self.func.add_argument(body, part.into(), None);
            let own = self.func.ty(value).clone();
            let (id, own) = self.reshape(body, argument, own);
            first.push(id);
            renamed.insert(value, own);
        }
        // A mark that a value is local is that value.
        for &id in stage.inside.iter().filter(|&&id| target(self.func.op(id)) == Some("Sharding")) {
            let op = self.func.op(id);
            let from = op.operands[0];
            renamed.insert(op.first_result, renamed.get(&from).copied().unwrap_or(from));
        }
        let marks = |func: &Func, id: &OpId| target(func.op(*id)) == Some("Sharding");
        let kept: Vec<OpId> = stage.inside.iter().copied().filter(|id| !marks(self.func, id)).collect();
        for &id in &kept {
            rename(self.func, id, &renamed);
        }
        let new = |value: Value| renamed.get(&value).copied().unwrap_or(value);
        let (mut returned, mut after, mut wholes, mut places) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &id in &stage.joins {
            let op = self.func.op(id);
            let sharding = match op.attr("sdy.sharding") {
                Some(Attr::Sdy(attr)) => match &**attr {
                    SdyAttr::Sharding(sharding) => sharding.clone(),
                    _ => return Err(format!("@{SHARD_TO_FULL} has a sharding of another kind")),
                },
                _ => return Err(format!("@{SHARD_TO_FULL} has no sharding")),
            };
            returned.push(new(op.operands[0]));
            after.push(sharding);
            wholes.push(self.func.ty(op.first_result).clone());
            places.push((op.first_result, true));
        }
        let mut last = Vec::new();
        for &value in given_on {
            let Some(tensor) = self.func.ty(value).as_tensor().cloned() else {
                return Err("a value that is no tensor".into());
            };
            let of = |size: i64| TensorType { dims: [&[size][..], &tensor.dims[..]].concat(), ..tensor.clone() };
            let (id, one) = self.reshape(body, new(value), of(1).into());
            last.push(id);
            returned.push(one);
            after.push(self.sharding(tensor.rank() + 1, self.axes));
            wholes.push(of(self.devices).into());
            places.push((value, false));
        }
        let end = NewOp { operands: returned, ..NewOp::new(OpName::Known(OpKind::SdyReturn)) };
        let end = self.func.add_op(body, end);
        self.func.regions[body.0 as usize].ops = [first, kept, last, vec![end]].concat();
        let mut op = NewOp::new(OpName::Known(OpKind::SdyManualComputation));
        op.attrs.set("in_shardings", Attr::Sdy(Arc::new(SdyAttr::ShardingPerValue(before))));
        op.attrs.set("out_shardings", Attr::Sdy(Arc::new(SdyAttr::ShardingPerValue(after))));
        op.attrs.set("manual_axes", Attr::Sdy(Arc::new(SdyAttr::ManualAxes(self.axes.to_vec()))));
        // The op goes where its region is put together.
        let op = NewOp { operands, results: wholes, regions: vec![body], ..op };
        let id = self.func.add_op(body, op);
        self.func.regions[body.0 as usize].ops.pop();
        for ((value, is_whole), result) in places.into_iter().zip(self.func.op(id).results().collect::<Vec<_>>()) {
            if is_whole {
                joined.insert(value, result)
            } else {
                handed.insert(value, result)
            };
        }
        Ok(id)
    }

    /// The sharding that is written where a value is computed.
    fn written(&self, value: Value) -> Option<TensorSharding> {
        let Definition::Result(id, _) = self.func.value(value).definition else { return None };
        match self.func.op(id).attr("sharding")? {
            Attr::Sdy(attr) => match &**attr {
                SdyAttr::Sharding(sharding) => Some(sharding.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// An array whose first dimension is split along some axes.
    fn sharding(&self, rank: usize, first: &[String]) -> TensorSharding {
        let names = |n: usize| if n == 0 { first } else { &[] };
        let axis = |name: &String| AxisRef { name: name.clone(), sub_axis: None };
        let dim =
            |n: usize| DimensionSharding { axes: names(n).iter().map(axis).collect(), is_closed: true, priority: None };
        TensorSharding {
            mesh: MeshRef::Symbol(self.mesh.to_owned()),
            dims: (0..rank).map(dim).collect(),
            replicated: Vec::new(),
            unreduced: Vec::new(),
        }
    }

    fn reshape(&mut self, region: Region, value: Value, ty: Type) -> (OpId, Value) {
        let op = NewOp {
            operands: vec![value],
            results: vec![ty],
            attrs: Attrs::new(),
            ..NewOp::new(OpName::Known(OpKind::Reshape))
        };
        let id = self.func.add_op(region, op);
        self.func.regions[region.0 as usize].ops.pop();
        (id, self.func.op(id).first_result)
    }
}

/// What an op reads, in its regions too.
fn reads(func: &Func, id: OpId) -> Vec<Value> {
    let op = func.op(id);
    let mut all = op.operands.clone();
    for &inner in op.regions.iter().flat_map(|&region| &func.region(region).ops) {
        all.extend(reads(func, inner));
    }
    all
}

/// Values that regions of an op define.
fn defined_inside(func: &Func, id: OpId) -> Vec<Value> {
    let mut all = Vec::new();
    for &region in &func.op(id).regions {
        all.extend(&func.region(region).args);
        for &inner in &func.region(region).ops {
            all.extend(func.op(inner).results());
            all.extend(defined_inside(func, inner));
        }
    }
    all
}

fn rename(func: &mut Func, id: OpId, renamed: &HashMap<Value, Value>) {
    for operand in &mut func.op_mut(id).operands {
        *operand = renamed.get(operand).copied().unwrap_or(*operand);
    }
    let inner: Vec<OpId> = func.op(id).regions.iter().flat_map(|&region| func.region(region).ops.clone()).collect();
    for id in inner {
        rename(func, id, renamed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::FULL_TO_SHARD;
    use super::*;

    const SPLIT: &str = "{devices=[8,1]<=[8]}";

    fn call(target: &str, operand: &str, sharding: &str, types: [&str; 2]) -> String {
        let [from, to] = types;
        format!(
            "stablehlo.custom_call @{target}({operand}) {{backend_config = \"\", mhlo.sharding = \"{sharding}\"}} : ({from}) -> {to}"
        )
    }

    #[test]
    fn each_stage_is_a_computation_and_hands_on_what_is_local() {
        let (whole, part) = ("tensor<8x4xf32>", "tensor<1x4xf32>");
        let mark = |operand: &str| call("Sharding", operand, SPLIT, [whole, whole]);
        let cut = |operand: &str| call(FULL_TO_SHARD, operand, "{manual}", [whole, part]);
        let local = |operand: &str| call("Sharding", operand, "{manual}", [part, part]);
        let join = |operand: &str| call(SHARD_TO_FULL, operand, SPLIT, [part, whole]);
        let text = format!(
            "module attributes {{mhlo.num_partitions = 8 : i32}} {{
               func.func @main(%x: {whole} {{mhlo.sharding = \"{SPLIT}\"}}) -> {whole} {{
                 %0 = {}
                 %1 = {}
                 %2 = stablehlo.negate %1 : {part}
                 %3 = {}
                 %4 = {}
                 %5 = stablehlo.tanh %4 : {whole}
                 %6 = {}
                 %7 = {}
                 %one = stablehlo.constant dense<1.0> : {part}
                 %8 = stablehlo.add %7, %2 : {part}
                 %9 = stablehlo.add %8, %one : {part}
                 %10 = {}
                 %11 = {}
                 return %11 : {whole} }} }}",
            mark("%x"),
            cut("%0"),
            local("%2"),
            join("%3"),
            mark("%5"),
            cut("%6"),
            local("%9"),
            join("%10"),
        );
        let module = verify(crate::read(text.as_bytes()).unwrap()).unwrap();
        assert!(has_local_parts(&module));
        let found = with_manual_computations(&module, 8).unwrap();
        assert!(!has_local_parts(&found));
        let printed = crate::text::print(&found);
        assert_eq!(printed.matches("sdy.manual_computation").count(), 2, "{printed}");
        // The negated part of each device is handed on, and comes back as it was.
        assert!(printed.contains(": (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x1x4xf32>)"), "{printed}");
        assert!(printed.contains("stablehlo.reshape %") && !printed.contains("custom_call"), "{printed}");
        let unknown = text.replacen(SPLIT, "{devices=[8,1]7,6,5,4,3,2,1,0}", 1);
        let module = verify(crate::read(unknown.as_bytes()).unwrap()).unwrap();
        assert!(with_manual_computations(&module, 8).is_err());
    }
}
