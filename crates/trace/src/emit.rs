//! Writes a traced graph as StableHLO.

mod memory;
mod sharding;

use std::collections::HashMap;
use std::panic::Location as Caller;
use std::sync::Arc;

use hlo::memory_kind::row_major;
use hlo::ops::Violation;
use hlo::{Attr, Attrs, Func, FuncBuilder, Keyword, Loc, Location, OpKind, Type, Value, Visibility};
use tensor::DType;

use crate::Spec;
use crate::graph::{Composite, Cond, Direction, Graph, MemoryKind, Node, Prim, Scan, While};
use crate::ops::collective::is_collective;
use crate::ops::{attrs, i64s};
use crate::region::{self, comparison, type_of};

pub(crate) use sharding::ShardingAttributes;

/// Writes graphs.
pub(crate) struct Emitter {
    /// File names of locations, each kept once.
    files: HashMap<&'static str, Arc<str>>,
    /// Present for a program of several devices.
    written: Option<ShardingAttributes>,
    /// Functions of composites, each of which has one of its own.
    pub(crate) funcs: Vec<Func>,
}

type Values = Result<Vec<Value>, Violation>;

impl Emitter {
    pub(crate) fn new(written: Option<ShardingAttributes>) -> Emitter {
        Emitter { files: HashMap::new(), written, funcs: Vec::new() }
    }

    /// Where a node comes from: its scopes and op as a name, the user's line inside.
    fn location(&mut self, node: &Node) -> Loc {
        let name = match &node.prim {
            Prim::Op { kind, .. } => kind.name().split_once('.').map_or(kind.name(), |(_, name)| name),
            Prim::Scan(_) => "scan",
            Prim::While(_) => "while",
            Prim::Cond(_) => "cond",
            Prim::Remat(_) => "checkpoint",
            Prim::Custom(_) => "custom",
            Prim::Stop => "stop_gradient",
            Prim::Named(name) => name,
            Prim::Composite(composite) => &composite.name,
            Prim::Moved(MemoryKind::Host) => "to_host",
            Prim::Moved(MemoryKind::Device) => "to_device",
            Prim::Ordered => "in_order",
            Prim::Shard(_) => "with_sharding",
            Prim::Manual(_) => "shard_map",
        };
        let full = if node.scope.is_empty() { name.into() } else { format!("{}/{name}", node.scope).into() };
        let file = self.position(node.at);
        Some(Arc::new(Location::Name(full, file)))
    }

    fn position(&mut self, at: &'static Caller<'static>) -> Loc {
        let file = self.files.entry(at.file()).or_insert_with(|| at.file().into()).clone();
        Some(Arc::new(Location::File { file, line: at.line(), column: at.column(), end: None }))
    }

    /// Writes a graph's nodes; gives its outputs.
    pub(crate) fn graph(&mut self, f: &mut FuncBuilder, graph: &Graph, inputs: &[Value]) -> Values {
        let mut values: Vec<Option<Value>> = vec![None; graph.specs.len()];
        for (input, &value) in graph.inputs.iter().zip(inputs) {
            values[input.0 as usize] = Some(value);
        }
        let missing = || Violation::new("", "a node reads a value that is not there");
        for node in &graph.nodes {
            let operands: Vec<Value> = node
                .inputs
                .iter()
                .map(|input| values[input.0 as usize].ok_or_else(missing))
                .collect::<Result<_, _>>()?;
            let loc = self.location(node);
            f.at(loc.clone());
            let results = self.node(f, graph, node, &operands)?;
            for (result, value) in node.results().zip(results) {
                values[result.0 as usize] = Some(value);
            }
        }
        graph.outputs.iter().map(|output| values[output.0 as usize].ok_or_else(missing)).collect()
    }

    fn node(&mut self, f: &mut FuncBuilder, graph: &Graph, node: &Node, operands: &[Value]) -> Values {
        match &node.prim {
            Prim::Op { kind: OpKind::Constant, attrs, .. } => match attrs.get("value") {
                Some(Attr::Dense(dense)) => Ok(vec![f.constant((**dense).clone())]),
                _ => Err(Violation::new("", "a constant without a value")),
            },
            Prim::Op { kind, attrs, combine } => {
                let results: Vec<Spec> = node.results().map(|result| graph.spec(result).clone()).collect();
                let mut attrs = attrs.clone();
                if let Some(written) = self.written.as_ref().filter(|_| is_collective(*kind)) {
                    attrs.set("channel_handle", written.channel());
                }
                region::write(f, (*kind, attrs, *combine), operands, Some(&results))
            }
            Prim::Scan(scan) => self.scan(f, scan, operands),
            Prim::While(looped) => self.looped(f, looped, operands),
            Prim::Cond(cond) => self.cond(f, cond, operands),
            Prim::Remat(remat) => self.graph(f, &remat.body, operands),
            Prim::Custom(custom) => self.graph(f, &custom.body, operands),
            Prim::Stop | Prim::Named(_) => Ok(operands.to_vec()),
            Prim::Moved(_) | Prim::Ordered => {
                let results: Vec<Spec> = node.results().map(|result| graph.spec(result).clone()).collect();
                let rank = results.first().map_or(0, |spec| spec.dims.len());
                let calls =
                    if let Prim::Moved(memory) = node.prim { memory.calls(rank) } else { vec![row_major(rank)] };
                let mut values = operands.to_vec();
                for attrs in calls {
                    values = region::write(f, (OpKind::CustomCall, attrs, None), &values, Some(&results))?;
                }
                Ok(values)
            }
            Prim::Composite(composite) => self.composite(f, composite, operands),
            Prim::Shard(sharding) => match &self.written {
                Some(written) => operands.iter().map(|&value| written.constraint(f, value, sharding)).collect(),
                None => Ok(operands.to_vec()),
            },
            Prim::Manual(manual) => {
                let Some(written) = self.written.clone() else {
                    return Err(Violation::new("", "shard_map without a mesh"));
                };
                written.manual(f, manual, operands, |f, args| self.graph(f, &manual.body, args))
            }
        }
    }

    /// A call of a function of its own, by the composite's name.
    fn composite(&mut self, f: &mut FuncBuilder, composite: &Composite, operands: &[Value]) -> Values {
        let decomposition = format!("{}.{}", composite.name, self.funcs.len());
        let mut inner = FuncBuilder::new(decomposition.as_str());
        inner.visibility(Visibility::Private);
        let arguments: Vec<Value> =
            composite.body.inputs.iter().map(|&input| inner.arg(type_of(composite.body.spec(input)))).collect();
        let results = self.graph(&mut inner, &composite.body, &arguments)?;
        let types = results.iter().map(|&value| inner.ty(value).clone()).collect();
        self.funcs.push(inner.finish(&results));
        let attrs = attrs([
            ("name", Attr::string(&*composite.name)),
            ("composite_attributes", Attr::Dict(Arc::new(composite.attributes.clone()))),
            ("decomposition", Attr::Symbol(decomposition.as_str().into())),
        ]);
        f.op_with_types(OpKind::Composite, operands, attrs, &[], types)
    }

    /// A loop that carries a counter, the constants, what is carried, the tensors it slices and those it fills.
    fn scan(&mut self, f: &mut FuncBuilder, scan: &Scan, operands: &[Value]) -> Values {
        let outputs = scan.body.output_specs();
        let results = scan.results();
        let mut carried = vec![f.i32(0)];
        carried.extend(operands);
        for stack in &results[scan.carries..] {
            carried.push(zeros(f, stack)?);
        }
        let types: Vec<Type> = carried.iter().map(|&value| f.ty(value).clone()).collect();
        let length = i32::try_from(scan.length).map_err(|_| Violation::new("", "a scan of more than 2^31 slices"))?;
        let condition = f.region(&types, |f, args| {
            let length = f.i32(length);
            Ok(vec![f.op(OpKind::Compare, &[args[0], length], comparison(Keyword::Lt, DType::I32))?])
        })?;
        let num_inputs = scan.body.inputs.len();
        let fixed = scan.consts + scan.carries;
        let body = f.region(&types, |f, args| {
            let round = args[0];
            let place = match scan.direction {
                Direction::Forward => round,
                Direction::Backward => {
                    let last = f.i32(length - 1);
                    f.op(OpKind::Subtract, &[last, round], Attrs::new())?
                }
            };
            let mut inputs: Vec<Value> = args[1..1 + fixed].to_vec();
            for n in fixed..num_inputs {
                inputs.push(slice(f, args[1 + n], place, scan.body.spec(scan.body.inputs[n]))?);
            }
            let made = self.graph(f, &scan.body, &inputs)?;
            let one = f.i32(1);
            let mut next = vec![f.op(OpKind::Add, &[round, one], Attrs::new())?];
            next.extend(&args[1..1 + scan.consts]);
            next.extend(&made[..scan.carries]);
            next.extend(&args[1 + fixed..1 + num_inputs]);
            for (n, &value) in made[scan.carries..].iter().enumerate() {
                next.push(put(f, args[1 + num_inputs + n], place, value, &outputs[scan.carries + n])?);
            }
            Ok(next)
        })?;
        let done = f.op_with_types(OpKind::While, &carried, Attrs::new(), &[condition, body], types)?;
        let mut kept = done[1 + scan.consts..1 + fixed].to_vec();
        kept.extend(&done[1 + num_inputs..]);
        Ok(kept)
    }

    fn looped(&mut self, f: &mut FuncBuilder, looped: &While, operands: &[Value]) -> Values {
        let types: Vec<Type> = operands.iter().map(|&value| f.ty(value).clone()).collect();
        let consts = looped.condition_consts + looped.body_consts;
        let condition = f.region(&types, |f, args| {
            let inputs: Vec<Value> = args[..looped.condition_consts].iter().chain(&args[consts..]).copied().collect();
            self.graph(f, &looped.condition, &inputs)
        })?;
        let body = f.region(&types, |f, args| {
            let made = self.graph(f, &looped.body, &args[looped.condition_consts..])?;
            Ok(args[..consts].iter().copied().chain(made).collect())
        })?;
        let done = f.op_with_types(OpKind::While, operands, Attrs::new(), &[condition, body], types)?;
        Ok(done[consts..].to_vec())
    }

    fn cond(&mut self, f: &mut FuncBuilder, cond: &Cond, operands: &[Value]) -> Values {
        let results: Vec<Type> =
            cond.branches.first().map(Graph::output_specs).unwrap_or_default().iter().map(type_of).collect();
        let mut regions = Vec::new();
        for branch in &cond.branches {
            regions.push(f.region(&[], |f, _| self.graph(f, branch, &operands[1..]))?);
        }
        f.op_with_types(OpKind::Case, &operands[..1], Attrs::new(), &regions, results)
    }
}

fn zeros(f: &mut FuncBuilder, spec: &Spec) -> Result<Value, Violation> {
    let scalar = f.splat(hlo::TensorType::new(Vec::new(), spec.dtype), &vec![0; spec.dtype.size_bytes()])?;
    let attrs = attrs([("broadcast_dimensions", i64s(&[]))]);
    only(f.op_with_types(OpKind::BroadcastInDim, &[scalar], attrs, &[], vec![type_of(spec)])?)
}

/// The slice of a tensor at a place along its first axis.
fn slice(f: &mut FuncBuilder, whole: Value, place: Value, spec: &Spec) -> Result<Value, Violation> {
    let zero = f.i32(0);
    let mut operands = vec![whole, place];
    operands.resize(spec.rank() + 2, zero);
    let mut sizes = vec![1];
    sizes.extend(&spec.dims);
    let cut = f.op(OpKind::DynamicSlice, &operands, attrs([("slice_sizes", i64s(&sizes))]))?;
    only(f.op_with_types(OpKind::Reshape, &[cut], Attrs::new(), &[], vec![type_of(spec)])?)
}

/// A tensor with a slice put at a place along its first axis.
fn put(f: &mut FuncBuilder, whole: Value, place: Value, part: Value, spec: &Spec) -> Result<Value, Violation> {
    let zero = f.i32(0);
    let mut dims = vec![1];
    dims.extend(&spec.dims);
    let part = only(f.op_with_types(
        OpKind::Reshape,
        &[part],
        Attrs::new(),
        &[],
        vec![type_of(&Spec::new(spec.dtype, dims))],
    )?)?;
    let mut operands = vec![whole, part, place];
    operands.resize(spec.rank() + 3, zero);
    f.op(OpKind::DynamicUpdateSlice, &operands, Attrs::new())
}

fn only(results: Vec<Value>) -> Result<Value, Violation> {
    match results[..] {
        [only] => Ok(only),
        _ => Err(Violation::new("", "an op of one result was expected")),
    }
}
