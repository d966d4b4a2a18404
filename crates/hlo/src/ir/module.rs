//! The program in memory: a module of functions, each owning its ops, regions and values by dense ids.

use std::sync::Arc;

use crate::ir::sdy::MeshAttr;
use crate::ir::{Attr, Attrs, Loc, OpKind, Type};

/// A value of a function: an argument or an op's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// An op of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// A region of a function. StableHLO regions have exactly one block, so a region is that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(pub u32);

/// What an op is: one of the language, or one of a dialect we carry without modelling it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpName {
    /// An op with a definition in [`crate::ops`].
    Known(OpKind),
    /// `dialect.op`, kept as written.
    Extern(Arc<str>),
}

impl OpName {
    /// The full name, as in `stablehlo.add`.
    pub fn as_str(&self) -> &str {
        match self {
            OpName::Known(kind) => kind.name(),
            OpName::Extern(name) => name,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What it is.
    pub name: OpName,
    /// Values it reads.
    pub operands: Vec<Value>,
    /// First of its results; results are consecutive values.
    pub first_result: Value,
    /// Number of results.
    pub num_results: u32,
    /// Attributes.
    pub attrs: Attrs,
    /// Regions, in definition order.
    pub regions: Vec<Region>,
    /// Where it came from.
    pub loc: Loc,
}

impl Op {
    /// Its results.
    pub fn results(&self) -> impl ExactSizeIterator<Item = Value> + use<> {
        let first = self.first_result.0;
        (0..self.num_results).map(move |i| Value(first + i))
    }

    /// The kind, if the op is of the language.
    pub fn kind(&self) -> Option<OpKind> {
        match self.name {
            OpName::Known(kind) => Some(kind),
            OpName::Extern(_) => None,
        }
    }

    /// The attribute of that name.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.get(name)
    }
}

/// An op that is not in a function yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOp {
    /// What it is.
    pub name: OpName,
    /// Values it reads.
    pub operands: Vec<Value>,
    /// Types of its results.
    pub results: Vec<Type>,
    /// Attributes.
    pub attrs: Attrs,
    /// Regions, in definition order.
    pub regions: Vec<Region>,
    /// Where it came from.
    pub loc: Loc,
}

impl NewOp {
    /// An op without operands, results, attributes or regions, to be filled in.
    pub fn new(name: OpName) -> NewOp {
        NewOp { name, operands: Vec::new(), results: Vec::new(), attrs: Attrs::new(), regions: Vec::new(), loc: None }
    }
}

/// The ops of a region and the values it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionData {
    /// Arguments.
    pub args: Vec<Value>,
    /// Ops in order; the last one is the terminator.
    pub ops: Vec<OpId>,
}

/// Where a value is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Argument `1` of region `0`.
    Argument(Region, u32),
    /// Result `1` of op `0`.
    Result(OpId, u32),
}

/// A value's type and definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Where it is defined.
    pub definition: Definition,
    /// Location of an argument; results use their op's.
    pub loc: Loc,
}

/// Who may call a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Not written: public.
    #[default]
    Default,
    /// `public`.
    Public,
    /// `private`.
    Private,
    /// `nested`.
    Nested,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Func {
    /// Name without the `@`.
    pub name: Arc<str>,
    /// Who may call it.
    pub visibility: Visibility,
    /// Argument types, also when there is no body.
    pub inputs: Vec<Type>,
    /// Attributes of each argument.
    pub input_attrs: Vec<Attrs>,
    /// Result types.
    pub outputs: Vec<Type>,
    /// Attributes of each result.
    pub output_attrs: Vec<Attrs>,
    /// Other attributes.
    pub attrs: Attrs,
    /// Where it came from.
    pub loc: Loc,
    /// The body; `None` for a declaration. When present it is region 0.
    pub body: Option<Region>,
    /// Values by id.
    pub values: Vec<ValueData>,
    /// Ops by id.
    pub ops: Vec<Op>,
    /// Regions by id.
    pub regions: Vec<RegionData>,
}

impl Func {
    /// A declaration: no body yet.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Func {
            name: name.into(),
            visibility: Visibility::Default,
            inputs: Vec::new(),
            input_attrs: Vec::new(),
            outputs: Vec::new(),
            output_attrs: Vec::new(),
            attrs: Attrs::new(),
            loc: None,
            body: None,
            values: Vec::new(),
            ops: Vec::new(),
            regions: Vec::new(),
        }
    }

    /// An op by id.
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize]
    }

    /// An op by id, to change.
    pub fn op_mut(&mut self, id: OpId) -> &mut Op {
        &mut self.ops[id.0 as usize]
    }

    /// A region by id.
    pub fn region(&self, region: Region) -> &RegionData {
        &self.regions[region.0 as usize]
    }

    /// A value by id.
    pub fn value(&self, value: Value) -> &ValueData {
        &self.values[value.0 as usize]
    }

    /// A value's type.
    pub fn ty(&self, value: Value) -> &Type {
        &self.value(value).ty
    }

    /// The body's arguments; empty for a declaration.
    pub fn args(&self) -> &[Value] {
        self.body.map_or(&[], |body| &self.region(body).args)
    }

    /// Ops in program order, outer before inner.
    pub fn walk(&self) -> Vec<OpId> {
        let mut order = Vec::with_capacity(self.ops.len());
        let mut pending: Vec<OpId> =
            self.body.map_or(Vec::new(), |b| self.region(b).ops.iter().rev().copied().collect());
        while let Some(id) = pending.pop() {
            order.push(id);
            for &region in self.op(id).regions.iter().rev() {
                pending.extend(self.region(region).ops.iter().rev());
            }
        }
        order
    }

    /// Adds an empty region.
    pub fn add_region(&mut self) -> Region {
        self.regions.push(RegionData::default());
        Region(self.regions.len() as u32 - 1)
    }

    /// Adds an argument to a region.
    pub fn add_argument(&mut self, region: Region, ty: Type, loc: Loc) -> Value {
        let value = Value(self.values.len() as u32);
        let index = self.region(region).args.len() as u32;
        self.values.push(ValueData { ty, definition: Definition::Argument(region, index), loc });
        self.regions[region.0 as usize].args.push(value);
        value
    }

    /// Appends an op to a region; its results are new values of the given types.
    pub fn add_op(&mut self, region: Region, op: NewOp) -> OpId {
        let id = OpId(self.ops.len() as u32);
        let first_result = Value(self.values.len() as u32);
        let num_results = op.results.len() as u32;
        for (index, ty) in op.results.into_iter().enumerate() {
            self.values.push(ValueData { ty, definition: Definition::Result(id, index as u32), loc: None });
        }
        let NewOp { name, operands, attrs, regions, loc, .. } = op;
        self.ops.push(Op { name, operands, first_result, num_results, attrs, regions, loc });
        self.regions[region.0 as usize].ops.push(id);
        id
    }

    /// Renumbers ops, regions and values in program order (an op's results before what its regions define), and drops
    /// what is no longer reachable. Two functions that say the same are equal afterwards.
    pub fn renumber(&mut self) {
        let Some(body) = self.body else { return };
        let mut values = vec![u32::MAX; self.values.len()];
        let mut ops = vec![u32::MAX; self.ops.len()];
        let mut regions = vec![u32::MAX; self.regions.len()];
        let (mut value_order, mut op_order, mut region_order) = (Vec::new(), Vec::new(), Vec::new());
        enum Visit {
            Region(Region),
            Op(OpId),
        }
        let mut pending = vec![Visit::Region(body)];
        while let Some(visit) = pending.pop() {
            match visit {
                Visit::Region(region) => {
                    regions[region.0 as usize] = region_order.len() as u32;
                    region_order.push(region);
                    for &arg in &self.region(region).args {
                        values[arg.0 as usize] = value_order.len() as u32;
                        value_order.push(arg);
                    }
                    pending.extend(self.region(region).ops.iter().rev().map(|&op| Visit::Op(op)));
                }
                Visit::Op(id) => {
                    ops[id.0 as usize] = op_order.len() as u32;
                    op_order.push(id);
                    for result in self.op(id).results() {
                        values[result.0 as usize] = value_order.len() as u32;
                        value_order.push(result);
                    }
                    pending.extend(self.op(id).regions.iter().rev().map(|&r| Visit::Region(r)));
                }
            }
        }
        let value = |v: Value| Value(values[v.0 as usize]);
        let mut old_ops: Vec<Option<Op>> = std::mem::take(&mut self.ops).into_iter().map(Some).collect();
        let mut old_regions: Vec<RegionData> = std::mem::take(&mut self.regions);
        let mut old_values: Vec<Option<ValueData>> = std::mem::take(&mut self.values).into_iter().map(Some).collect();
        self.regions = region_order
            .iter()
            .map(|r| {
                let mut data = std::mem::take(&mut old_regions[r.0 as usize]);
                data.args.iter_mut().for_each(|v| *v = value(*v));
                data.ops.iter_mut().for_each(|o| *o = OpId(ops[o.0 as usize]));
                data
            })
            .collect();
        let mut next_result = 0;
        self.ops = op_order
            .iter()
            .filter_map(|o| old_ops[o.0 as usize].take())
            .map(|mut op| {
                op.operands.iter_mut().for_each(|v| *v = value(*v));
                op.regions.iter_mut().for_each(|r| *r = Region(regions[r.0 as usize]));
                // An op without results points at the value that would come next, so that equality does not depend on history.
                op.first_result = if op.num_results == 0 { Value(next_result) } else { value(op.first_result) };
                next_result = op.first_result.0 + op.num_results;
                op
            })
            .collect();
        self.values = value_order
            .iter()
            .filter_map(|v| old_values[v.0 as usize].take())
            .map(|mut data| {
                data.definition = match data.definition {
                    Definition::Argument(r, i) => Definition::Argument(Region(regions[r.0 as usize]), i),
                    Definition::Result(o, i) => Definition::Result(OpId(ops[o.0 as usize]), i),
                };
                data
            })
            .collect();
        self.body = Some(Region(regions[body.0 as usize]));
    }
}

/// A named mesh of the module (`sdy.mesh`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshOp {
    /// Name without the `@`.
    pub name: Arc<str>,
    /// Axes and devices.
    pub mesh: MeshAttr,
    /// Other attributes.
    pub attrs: Attrs,
    /// Where it came from.
    pub loc: Loc,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Name without the `@`, if it has one.
    pub name: Option<Arc<str>>,
    /// Attributes of the module.
    pub attrs: Attrs,
    /// Meshes, in order.
    pub meshes: Vec<MeshOp>,
    /// Functions, in order.
    pub funcs: Vec<Func>,
    /// Where it came from.
    pub loc: Loc,
}

impl Module {
    /// The function of that name.
    pub fn func(&self, name: &str) -> Option<&Func> {
        self.funcs.iter().find(|f| &*f.name == name)
    }

    /// The entry function: `main`, or the only function there is.
    pub fn entry(&self) -> Option<&Func> {
        match self.funcs.as_slice() {
            [only] => Some(only),
            _ => self.func("main"),
        }
    }

    /// The mesh of that name.
    pub fn mesh(&self, name: &str) -> Option<&MeshAttr> {
        self.meshes.iter().find(|m| &*m.name == name).map(|m| &m.mesh)
    }

    /// Forgets where everything came from, so that programs from different files can be compared.
    pub fn strip_locations(&mut self) {
        self.loc = None;
        self.meshes.iter_mut().for_each(|m| m.loc = None);
        for func in &mut self.funcs {
            func.loc = None;
            func.ops.iter_mut().for_each(|op| op.loc = None);
            func.values.iter_mut().for_each(|value| value.loc = None);
        }
    }
}
