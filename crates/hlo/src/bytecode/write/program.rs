//! Ops, regions and values of a module, written as bytecode.

use super::attrs::unwritable;
use super::emitter::{Emitter, Flag};
use super::flatten;
use super::tables::Tables;
use super::types::Types;
use crate::bytecode::container::section;
use crate::bytecode::op_attrs::LATE_ATTRS;
use crate::bytecode::program::{MAX_REGION_DEPTH, part};
use crate::error::Error;
use crate::ir::{Attr, Attrs, Func, FunctionType, Loc, MeshOp, Module, Op, OpKind, OpName, Region, Type, Visibility};
use crate::ops::Presence;

/// An op with everything numbered but its operands, whose numbers depend on where the op stands.
struct Lowered {
    name: u64,
    loc: u64,
    attrs: Option<u64>,
    properties: Option<u64>,
    results: Vec<(Slot, u64)>,
    operands: Vec<Slot>,
    regions: Vec<Block>,
}

/// The one block of a region; `is_empty` regions have none.
#[derive(Default)]
struct Block {
    args: Vec<(Slot, u64, Option<u64>)>,
    ops: Vec<Lowered>,
    is_absent: bool,
}

/// A value of the written program: a value of the function in VHLO's types, or cast to the builtin ones.
type Slot = usize;

/// Writes the module op into the section of ops.
pub(super) fn module(tables: &mut Tables, module: &Module) -> Result<Vec<u8>, Error> {
    let mut body = Emitter::default();
    body.varint(1);
    body.varint(0);
    body.flagged((module.meshes.len() + module.funcs.len()) as u64, Flag::Clear);
    for mesh in &module.meshes {
        write_mesh(tables, &mut body, mesh)?;
    }
    for func in &module.funcs {
        write_func(tables, &mut body, func)?;
    }
    let mut out = Emitter::default();
    out.flagged(1, Flag::Clear);
    let name = tables.op("builtin", "module", true);
    let mut properties = Emitter::default();
    let sym_name = module.name.as_ref().map(|name| tables.builtin_string(name.as_bytes()));
    properties.optional(sym_name);
    properties.optional(None);
    let loc = tables.loc(&module.loc)?;
    let has_attrs = !module.attrs.is_empty();
    out.varint(name);
    out.byte(part::REGIONS | part::PROPERTIES | if has_attrs { part::ATTRS } else { 0 });
    out.varint(loc);
    if has_attrs {
        let attrs = tables.dict(module.attrs.iter(), Tables::builtin_attr)?;
        out.varint(attrs);
    }
    out.varint(tables.properties(properties.finish()));
    out.flagged(1, Flag::Set);
    out.section(section::IR, &body.finish());
    Ok(out.finish())
}

fn write_mesh(tables: &mut Tables, out: &mut Emitter, mesh: &MeshOp) -> Result<(), Error> {
    let mut properties = Emitter::default();
    let axes = tables.sdy_mesh(&mesh.mesh);
    properties.varint(axes);
    properties.varint(tables.builtin_string(mesh.name.as_bytes()));
    out.varint(tables.op("sdy", "mesh", true));
    out.byte(part::PROPERTIES | if mesh.attrs.is_empty() { 0 } else { part::ATTRS });
    out.varint(tables.loc(&mesh.loc)?);
    if !mesh.attrs.is_empty() {
        let attrs = tables.dict(mesh.attrs.iter(), Tables::builtin_attr)?;
        out.varint(attrs);
    }
    out.varint(tables.properties(properties.finish()));
    Ok(())
}

fn write_func(tables: &mut Tables, out: &mut Emitter, func: &Func) -> Result<(), Error> {
    let per_value = |tables: &mut Tables, all: &[Attrs]| -> Result<u64, Error> {
        if all.iter().all(Attrs::is_empty) {
            return Ok(tables.vhlo_array(&[]));
        }
        let dicts = all.iter().map(|attrs| tables.vhlo_dict(attrs)).collect::<Result<Vec<_>, _>>()?;
        Ok(tables.vhlo_array(&dicts))
    };
    let ty = FunctionType { inputs: func.inputs.clone(), outputs: func.outputs.clone() };
    let visibility = match func.visibility {
        Visibility::Default => "",
        Visibility::Public => "public",
        Visibility::Private => "private",
        Visibility::Nested => "nested",
    };
    let stored = [
        per_value(tables, &func.input_attrs)?,
        tables.vhlo_attr(&Attr::Type(Type::Function(ty.into())))?,
        per_value(tables, &func.output_attrs)?,
        tables.vhlo_string(func.name.as_bytes()),
        tables.vhlo_string(visibility),
    ];
    let mut properties = Emitter::default();
    stored.iter().for_each(|&attr| properties.varint(attr));
    out.varint(tables.op("vhlo", "func_v1", true));
    out.byte(part::REGIONS | part::PROPERTIES | if func.attrs.is_empty() { 0 } else { part::ATTRS });
    out.varint(tables.loc(&func.loc)?);
    if !func.attrs.is_empty() {
        let attrs = tables.dict(func.attrs.iter(), Tables::vhlo_attr)?;
        out.varint(attrs);
    }
    out.varint(tables.properties(properties.finish()));
    out.flagged(1, Flag::Set);
    let mut lowering = Lowering { tables, func, next_slot: func.values.len() };
    let block = match func.body {
        Some(body) => lowering.region(body, Types::Vhlo, 0)?,
        None => Block { is_absent: true, ..Block::default() },
    };
    let mut body = Emitter::default();
    let mut numbers = vec![u64::MAX; lowering.next_slot];
    emit_block(&mut body, &block, &mut numbers, 0);
    out.section(section::IR, &body.finish());
    Ok(())
}

struct Lowering<'a> {
    tables: &'a mut Tables,
    func: &'a Func,
    /// Slots below the function's number of values are those values; casts get the next ones.
    next_slot: usize,
}

impl Lowering<'_> {
    fn region(&mut self, region: Region, types: Types, depth: u32) -> Result<Block, Error> {
        if depth > MAX_REGION_DEPTH {
            return Err(Error::Limit { message: format!("regions nest deeper than {MAX_REGION_DEPTH}") });
        }
        let data = self.func.region(region);
        let mut block = Block { is_absent: data.ops.is_empty() && data.args.is_empty(), ..Block::default() };
        for &arg in &data.args {
            let value = self.func.value(arg);
            let ty = self.tables.ty(types, &value.ty)?;
            let loc = value.loc.as_ref().map(|_| self.tables.loc(&value.loc)).transpose()?;
            match types {
                Types::Vhlo => block.args.push((arg.0 as Slot, ty, loc)),
                Types::Builtin => {
                    let slot = self.new_slot();
                    block.args.push((slot, ty, loc));
                    let cast = self.cast(slot, arg.0 as Slot, Types::Vhlo, &value.ty, &value.loc)?;
                    block.ops.push(cast);
                }
            }
        }
        for &id in &data.ops {
            let op = self.func.op(id);
            match &op.name {
                OpName::Known(kind) if !kind.def().vhlo.is_empty() => {
                    let lowered = self.vhlo_op(op, *kind, depth)?;
                    block.ops.push(lowered);
                }
                _ => self.foreign_op(op, depth, &mut block.ops)?,
            }
        }
        Ok(block)
    }

    fn new_slot(&mut self) -> Slot {
        self.next_slot += 1;
        self.next_slot - 1
    }

    fn vhlo_op(&mut self, op: &Op, kind: OpKind, depth: u32) -> Result<Lowered, Error> {
        let def = kind.def();
        let form = flatten::choose_form(self.tables, def, op);
        let form = form.ok_or_else(|| unwritable(format!("`{}` has no VHLO form", def.name)))?;
        let mut properties = Emitter::default();
        for name in form.attrs {
            properties.varint(flatten::stored(self.tables, def, op, name)?);
        }
        let properties = (!form.attrs.is_empty()).then(|| self.tables.properties(properties.finish()));
        let discardable = || op.attrs.iter().filter(|(name, _)| def.attr(name).is_none());
        let attrs = match discardable().next() {
            Some(_) => Some(self.tables.dict(discardable(), Tables::vhlo_attr)?),
            None => None,
        };
        let mut results = Vec::with_capacity(op.num_results as usize);
        for result in op.results() {
            results.push((result.0 as Slot, self.tables.ty(Types::Vhlo, self.func.ty(result))?));
        }
        let regions = op.regions.iter().map(|&region| self.region(region, Types::Vhlo, depth + 1));
        let regions = regions.collect::<Result<Vec<_>, _>>()?;
        Ok(Lowered {
            name: self.tables.op("vhlo", form.name, true),
            loc: self.tables.loc(&op.loc)?,
            attrs,
            properties,
            results,
            operands: op.operands.iter().map(|value| value.0 as Slot).collect(),
            regions,
        })
    }

    /// An op of another dialect: it works on builtin types, so its operands and results are cast.
    fn foreign_op(&mut self, op: &Op, depth: u32, ops: &mut Vec<Lowered>) -> Result<(), Error> {
        let (dialect, name) = op.name.as_str().split_once('.').unwrap_or(("builtin", op.name.as_str()));
        let value: fn(&mut Tables, &Attr) -> Result<u64, Error> =
            if dialect == "chlo" { Tables::chlo_attr } else { Tables::builtin_attr };
        let mut operands = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            let slot = self.new_slot();
            let ty = self.func.ty(operand).clone();
            ops.push(self.cast(operand.0 as Slot, slot, Types::Builtin, &ty, &op.loc)?);
            operands.push(slot);
        }
        let mut results = Vec::with_capacity(op.num_results as usize);
        let mut casts = Vec::new();
        for result in op.results() {
            let slot = self.new_slot();
            results.push((slot, self.tables.ty(Types::Builtin, self.func.ty(result))?));
            casts.push((slot, result));
        }
        // Dialects of StableHLO's own tests are not known to readers, who then expect a dictionary of attributes.
        let is_registered = op.kind().is_some() && !matches!(dialect, "check" | "interpreter");
        let mut defined: Vec<_> = match op.kind() {
            Some(kind) if is_registered => kind.def().attrs.iter().collect(),
            _ => Vec::new(),
        };
        defined.sort_by_key(|attr| attr.name);
        let mut properties = Emitter::default();
        for attr in &defined {
            let index = op.attr(attr.name).map(|attr| value(self.tables, attr)).transpose()?;
            match (attr.presence, index) {
                (Presence::Required, Some(index)) => properties.varint(index),
                (Presence::Required, None) => {
                    return Err(unwritable(format!("`{}` without `{}`", op.name.as_str(), attr.name)));
                }
                // Readers from before the attribute existed expect nothing here.
                (_, None) if LATE_ATTRS.contains(&attr.name) => {}
                (_, index) => properties.optional(index),
            }
        }
        let properties = (!defined.is_empty()).then(|| self.tables.properties(properties.finish()));
        let discardable = || op.attrs.iter().filter(|(name, _)| defined.iter().all(|attr| attr.name != *name));
        let attrs = match discardable().next() {
            Some(_) => Some(self.tables.dict(discardable(), value)?),
            None => None,
        };
        let regions = op.regions.iter().map(|&region| self.region(region, Types::Builtin, depth + 1));
        let regions = regions.collect::<Result<Vec<_>, _>>()?;
        ops.push(Lowered {
            name: self.tables.op(dialect, name, is_registered),
            loc: self.tables.loc(&op.loc)?,
            attrs,
            properties,
            results,
            operands,
            regions,
        });
        for (slot, result) in casts {
            let ty = self.func.ty(result).clone();
            ops.push(self.cast(slot, result.0 as Slot, Types::Vhlo, &ty, &op.loc)?);
        }
        Ok(())
    }

    fn cast(&mut self, from: Slot, to: Slot, types: Types, ty: &Type, loc: &Loc) -> Result<Lowered, Error> {
        Ok(Lowered {
            name: self.tables.op("builtin", "unrealized_conversion_cast", true),
            loc: self.tables.loc(loc)?,
            attrs: None,
            properties: None,
            results: vec![(to, self.tables.ty(types, ty)?)],
            operands: vec![from],
            regions: Vec::new(),
        })
    }
}

/// Writes a region; its values get the numbers from `first`, those of regions inside it follow.
fn emit_block(out: &mut Emitter, block: &Block, numbers: &mut [u64], first: u64) {
    if block.is_absent {
        out.varint(0);
        return;
    }
    let mut next = first;
    let args = block.args.iter().map(|(slot, ..)| *slot);
    let results = block.ops.iter().flat_map(|op| op.results.iter().map(|(slot, _)| *slot));
    for slot in args.chain(results) {
        numbers[slot] = next;
        next += 1;
    }
    out.varint(1);
    out.varint(next - first);
    out.flagged(block.ops.len() as u64, Flag::from(!block.args.is_empty()));
    if !block.args.is_empty() {
        out.varint(block.args.len() as u64);
        for (_, ty, loc) in &block.args {
            out.flagged(*ty, Flag::from(loc.is_some()));
            loc.iter().for_each(|&loc| out.varint(loc));
        }
        // No custom order of uses.
        out.byte(0);
    }
    for op in &block.ops {
        emit_op(out, op, numbers, next);
    }
}

fn emit_op(out: &mut Emitter, op: &Lowered, numbers: &mut [u64], first_inner: u64) {
    let mut parts = 0;
    for (is_present, bit) in [
        (op.attrs.is_some(), part::ATTRS),
        (op.properties.is_some(), part::PROPERTIES),
        (!op.results.is_empty(), part::RESULTS),
        (!op.operands.is_empty(), part::OPERANDS),
        (!op.regions.is_empty(), part::REGIONS),
    ] {
        parts |= if is_present { bit } else { 0 };
    }
    out.varint(op.name);
    out.byte(parts);
    out.varint(op.loc);
    op.attrs.iter().for_each(|&attrs| out.varint(attrs));
    op.properties.iter().for_each(|&properties| out.varint(properties));
    if !op.results.is_empty() {
        out.varint(op.results.len() as u64);
        op.results.iter().for_each(|&(_, ty)| out.varint(ty));
    }
    if !op.operands.is_empty() {
        out.varint(op.operands.len() as u64);
        op.operands.iter().for_each(|&slot| out.varint(numbers[slot]));
    }
    if !op.regions.is_empty() {
        out.flagged(op.regions.len() as u64, Flag::Clear);
        op.regions.iter().for_each(|block| emit_block(out, block, numbers, first_inner));
    }
}
