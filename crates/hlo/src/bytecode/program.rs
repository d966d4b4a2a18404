//! Ops, regions and values of bytecode, built into a module.

use super::container::{self, Container, OpEntry};
use super::cursor::Cursor;
use super::legalize::legalize;
use super::tables::Tables;
use crate::attr::{Attr, AttrName, Attrs};
use crate::error::Error;
use crate::loc::Loc;
use crate::module::{Func, Mesh, Module, OpName, Region, Value, Visibility};
use crate::ops::{OpKind, Presence};
use crate::sdy::SdyAttr;
use crate::ty::Type;

/// How deep regions may nest.
pub(super) const MAX_REGION_DEPTH: u32 = 100;

/// Version from which regions that see nothing around them are in a section of their own.
const LAZY_REGIONS: u64 = 2;
/// Version from which the order of a value's uses may be stated.
const USE_LIST_ORDERS: u64 = 3;
/// Version from which an argument's location is omitted when unknown.
const OPTIONAL_ARGUMENT_LOCATION: u64 = 4;

/// Bits that say which parts of an op follow.
pub(super) mod part {
    pub(in crate::bytecode) const ATTRS: u8 = 0x01;
    pub(in crate::bytecode) const RESULTS: u8 = 0x02;
    pub(in crate::bytecode) const OPERANDS: u8 = 0x04;
    pub(in crate::bytecode) const SUCCESSORS: u8 = 0x08;
    pub(in crate::bytecode) const REGIONS: u8 = 0x10;
    pub(in crate::bytecode) const USE_LIST_ORDERS: u8 = 0x20;
    pub(in crate::bytecode) const PROPERTIES: u8 = 0x40;
    pub(in crate::bytecode) const ALL: u8 = 0x7f;
}

/// An op up to its regions.
struct Header<'a> {
    op: &'a OpEntry<'a>,
    loc: Loc,
    attrs: Attrs,
    properties: Option<Cursor<'a>>,
    results: Vec<Type>,
    operands: Vec<u64>,
    num_regions: usize,
    is_isolated: bool,
}

/// Values by number, as far as a region sees them.
#[derive(Default)]
struct Scope {
    values: Vec<Option<Value>>,
    /// Next number of each open region.
    next: Vec<usize>,
}

impl Scope {
    fn define(&mut self, cursor: &Cursor<'_>, value: Value) -> Result<(), Error> {
        let next = self.next.last_mut().ok_or_else(|| cursor.error("a value outside any region"))?;
        let slot = self.values.get_mut(*next).ok_or_else(|| cursor.error("more values than the region announced"))?;
        *slot = Some(value);
        *next += 1;
        Ok(())
    }

    fn get(&self, cursor: &Cursor<'_>, index: u64) -> Result<Value, Error> {
        let value = usize::try_from(index).ok().and_then(|i| self.values.get(i).copied().flatten());
        value.ok_or_else(|| cursor.error(format!("value {index} is used before it is defined")))
    }
}

/// Reads the program of a container.
pub(super) fn read(container: &Container<'_>) -> Result<Module, Error> {
    Reader { container, tables: Tables::new(container) }.module()
}

struct Reader<'a> {
    container: &'a Container<'a>,
    tables: Tables<'a>,
}

impl<'a> Reader<'a> {
    fn module(&mut self) -> Result<Module, Error> {
        let mut cursor = self.container.ir;
        if cursor.flagged()? != (1, false) {
            return Err(cursor.error("the file must hold exactly one module"));
        }
        let mut header = self.header(&mut cursor)?;
        if (header.op.dialect, header.op.name) != ("builtin", "module") {
            let name = format!("{}.{}", header.op.dialect, header.op.name);
            return Err(cursor.error(format!("the outermost op is `{name}`, not a module")));
        }
        self.own_attrs(&mut header, &[("sym_name", Need::Optional), ("sym_visibility", Need::Optional)])?;
        let mut module = Module { loc: header.loc.clone(), ..Module::default() };
        module.name = match header.attrs.remove("sym_name") {
            Some(name) => Some(symbol_text(&cursor, &name)?.into()),
            None => None,
        };
        module.attrs = std::mem::take(&mut header.attrs);
        let mut body = self.regions(&header, &mut cursor)?;
        if header.num_regions != 1 || body.varint()? != 1 {
            return Err(body.error("a module must have one region of one block"));
        }
        body.varint()?;
        let (num_ops, has_args) = body.flagged()?;
        if has_args {
            return Err(body.error("a module's block takes no arguments"));
        }
        for _ in 0..body.bound(num_ops)? {
            self.top_level(&mut body, &mut module)?;
        }
        Ok(module)
    }

    fn top_level(&mut self, cursor: &mut Cursor<'a>, module: &mut Module) -> Result<(), Error> {
        let header = self.header(cursor)?;
        match (header.op.dialect, header.op.name) {
            ("vhlo", "func_v1") => {
                const STORED: &[(&str, Need)] = &[
                    ("arg_attrs", Need::Required),
                    ("function_type", Need::Required),
                    ("res_attrs", Need::Required),
                    ("sym_name", Need::Required),
                    ("sym_visibility", Need::Required),
                ];
                module.funcs.push(self.func(cursor, header, STORED)?);
            }
            ("func", "func") => {
                const STORED: &[(&str, Need)] = &[
                    ("arg_attrs", Need::Optional),
                    ("function_type", Need::Required),
                    ("no_inline", Need::Optional),
                    ("res_attrs", Need::Optional),
                    ("sym_name", Need::Required),
                    ("sym_visibility", Need::Optional),
                ];
                module.funcs.push(self.func(cursor, header, STORED)?);
            }
            ("sdy", "mesh") => module.meshes.push(self.mesh(cursor, header)?),
            (dialect, name) => {
                return Err(cursor.error(format!("`{dialect}.{name}` in a module is not supported")));
            }
        }
        Ok(())
    }

    fn mesh(&mut self, cursor: &Cursor<'_>, mut header: Header<'a>) -> Result<Mesh, Error> {
        self.own_attrs(&mut header, &[("mesh", Need::Required), ("sym_name", Need::Required)])?;
        let name = header.attrs.remove("sym_name").ok_or_else(|| cursor.error("a mesh without a name"))?;
        let mesh = match header.attrs.remove("mesh") {
            Some(Attr::Sdy(sdy)) => match &*sdy {
                SdyAttr::Mesh(mesh) => Some(mesh.clone()),
                _ => None,
            },
            _ => None,
        };
        let mesh = mesh.ok_or_else(|| cursor.error("a mesh without its axes"))?;
        Ok(Mesh { name: symbol_text(cursor, &name)?.into(), mesh, attrs: header.attrs, loc: header.loc })
    }

    fn func(
        &mut self,
        cursor: &mut Cursor<'a>,
        mut header: Header<'a>,
        stored: &'static [(&'static str, Need)],
    ) -> Result<Func, Error> {
        self.own_attrs(&mut header, stored)?;
        let attrs = &mut header.attrs;
        let name = attrs.remove("sym_name").ok_or_else(|| cursor.error("a function without a name"))?;
        let mut func = Func::new(symbol_text(cursor, &name)?);
        func.visibility = match attrs.remove("sym_visibility") {
            None => Visibility::Default,
            Some(word) => match word.as_str() {
                Some("") => Visibility::Default,
                Some("public") => Visibility::Public,
                Some("private") => Visibility::Private,
                Some("nested") => Visibility::Nested,
                _ => return Err(cursor.error(format!("{word:?} is no visibility"))),
            },
        };
        match attrs.remove("function_type") {
            Some(Attr::Type(Type::Function(ty))) => {
                func.inputs = ty.inputs.clone();
                func.outputs = ty.outputs.clone();
            }
            _ => return Err(cursor.error(format!("function `{}` has no function type", func.name))),
        }
        func.input_attrs = per_value(cursor, attrs.remove("arg_attrs"), func.inputs.len())?;
        func.output_attrs = per_value(cursor, attrs.remove("res_attrs"), func.outputs.len())?;
        func.attrs = std::mem::take(attrs);
        func.loc = header.loc.clone();
        if header.num_regions > 1 {
            return Err(cursor.error(format!("function `{}` has several regions", func.name)));
        }
        let mut body = self.regions(&header, cursor)?;
        if header.num_regions == 1 {
            let region = func.add_region();
            let inside = Inside { is_function: true, depth: 0 };
            if self.region(&mut body, &mut func, region, &mut Scope::default(), inside)? {
                func.body = Some(region);
            } else {
                func.regions.clear();
            }
        }
        if !self.has_own_section(&header) {
            *cursor = body;
        }
        if func.body.is_some() && func.args().len() != func.inputs.len() {
            return Err(cursor.error(format!("function `{}` has a body with other arguments", func.name)));
        }
        func.renumber();
        Ok(func)
    }

    /// Where the regions of an op are read from: here, or a section of their own.
    fn regions(&self, header: &Header<'a>, cursor: &mut Cursor<'a>) -> Result<Cursor<'a>, Error> {
        if self.has_own_section(header) { container::nested_ir(cursor) } else { Ok(*cursor) }
    }

    fn has_own_section(&self, header: &Header<'_>) -> bool {
        header.num_regions > 0 && header.is_isolated && self.container.version >= LAZY_REGIONS
    }

    fn header(&mut self, cursor: &mut Cursor<'a>) -> Result<Header<'a>, Error> {
        let index = cursor.varint()?;
        let op = usize::try_from(index).ok().and_then(|i| self.container.ops.get(i));
        let op = op.ok_or_else(|| cursor.error(format!("op name {index} does not exist")))?;
        let parts = cursor.byte()?;
        if parts & !part::ALL != 0 {
            return Err(cursor.error("an op with parts that are not known"));
        }
        let loc = self.tables.loc(cursor)?;
        let mut attrs = Attrs::new();
        if parts & part::ATTRS != 0 {
            match self.tables.attr(cursor)? {
                Attr::Dict(dict) => attrs = Attrs::clone(&dict),
                _ => return Err(cursor.error("an op's attributes are not a dictionary")),
            }
        }
        let mut properties = None;
        if parts & part::PROPERTIES != 0 {
            let index = cursor.varint()?;
            let found = usize::try_from(index).ok().and_then(|i| self.container.properties.get(i).copied());
            properties = Some(found.ok_or_else(|| cursor.error(format!("properties {index} do not exist")))?);
        }
        let results = if parts & part::RESULTS != 0 { self.tables.types(cursor)? } else { Vec::new() };
        let mut operands = Vec::new();
        if parts & part::OPERANDS != 0 {
            let count = cursor.count()?;
            operands = (0..count).map(|_| cursor.varint()).collect::<Result<_, _>>()?;
        }
        if parts & part::SUCCESSORS != 0 {
            return Err(cursor.error("ops with successor blocks are not part of the language"));
        }
        if parts & part::USE_LIST_ORDERS != 0 {
            skip_use_list_orders(cursor, results.len())?;
        }
        let (mut num_regions, mut is_isolated) = (0, false);
        if parts & part::REGIONS != 0 {
            let (count, isolated) = cursor.flagged()?;
            (num_regions, is_isolated) = (cursor.bound(count)?, isolated);
        }
        Ok(Header { op, loc, attrs, properties, results, operands, num_regions, is_isolated })
    }

    /// Adds the attributes an op keeps apart from the dictionary, in stored order.
    fn own_attrs(&mut self, header: &mut Header<'a>, stored: &[(&'static str, Need)]) -> Result<(), Error> {
        let Some(mut cursor) = header.properties else { return Ok(()) };
        if !header.op.registered {
            if let Attr::Dict(dict) = self.tables.attr(&mut cursor)? {
                for (name, value) in dict.iter() {
                    header.attrs.set(AttrName::Owned(name.to_owned()), value.clone());
                }
            }
            return Ok(());
        }
        for &(name, need) in stored {
            let value = match need {
                Need::Required => Some(self.tables.attr(&mut cursor)?),
                Need::Optional => self.tables.optional_attr(&mut cursor)?,
            };
            if let Some(value) = value {
                header.attrs.set(name, value);
            }
        }
        match cursor.is_empty() {
            true => Ok(()),
            false => Err(cursor.error(format!(
                "`{}.{}` stores attributes this reader does not know",
                header.op.dialect, header.op.name
            ))),
        }
    }

    /// Reads a region; `false` if it has no block.
    fn region(
        &mut self,
        cursor: &mut Cursor<'a>,
        func: &mut Func,
        region: Region,
        scope: &mut Scope,
        inside: Inside,
    ) -> Result<bool, Error> {
        if inside.depth > MAX_REGION_DEPTH {
            return Err(Error::Limit { message: format!("regions nest deeper than {MAX_REGION_DEPTH}") });
        }
        match cursor.varint()? {
            0 => return Ok(false),
            1 => {}
            blocks => return Err(cursor.error(format!("a region has {blocks} blocks, the language allows one"))),
        }
        let num_values = cursor.count()?;
        let first = scope.values.len();
        scope.next.push(first);
        scope.values.resize(first + num_values, None);
        let (num_ops, has_args) = cursor.flagged()?;
        if has_args {
            self.arguments(cursor, func, region, scope)?;
        }
        for _ in 0..cursor.bound(num_ops)? {
            self.op(cursor, func, region, scope, inside)?;
        }
        scope.values.truncate(first);
        scope.next.pop();
        Ok(true)
    }

    fn arguments(
        &mut self,
        cursor: &mut Cursor<'a>,
        func: &mut Func,
        region: Region,
        scope: &mut Scope,
    ) -> Result<(), Error> {
        let count = cursor.count()?;
        for _ in 0..count {
            let (ty, loc) = if self.container.version >= OPTIONAL_ARGUMENT_LOCATION {
                let (ty, has_loc) = cursor.flagged()?;
                let ty = self.tables.type_at(cursor, ty)?;
                (ty, if has_loc { self.tables.loc(cursor)? } else { None })
            } else {
                (self.tables.ty(cursor)?, self.tables.loc(cursor)?)
            };
            let value = func.add_argument(region, ty, loc);
            scope.define(cursor, value)?;
        }
        if self.container.version >= USE_LIST_ORDERS && cursor.byte()? != 0 {
            skip_use_list_orders(cursor, count)?;
        }
        Ok(())
    }

    fn op(
        &mut self,
        cursor: &mut Cursor<'a>,
        func: &mut Func,
        region: Region,
        scope: &mut Scope,
        inside: Inside,
    ) -> Result<(), Error> {
        let mut header = self.header(cursor)?;
        let operands = std::mem::take(&mut header.operands);
        let operands = operands.into_iter().map(|index| scope.get(cursor, index)).collect::<Result<Vec<_>, _>>()?;
        // Casts between VHLO's types and the builtin ones: both are the same type here.
        if (header.op.dialect, header.op.name) == ("builtin", "unrealized_conversion_cast")
            && operands.len() == header.results.len()
            && operands.iter().zip(&header.results).all(|(&value, ty)| func.ty(value) == ty)
        {
            return operands.into_iter().try_for_each(|value| scope.define(cursor, value));
        }
        let (name, attrs) = self.named(cursor, &mut header, inside)?;
        let results = std::mem::take(&mut header.results);
        let id = func.add_op(region, name, operands, results, attrs, Vec::new(), header.loc.clone());
        let results = func.op(id).results();
        results.into_iter().try_for_each(|value| scope.define(cursor, value))?;
        if header.num_regions == 0 {
            return Ok(());
        }
        let mut body = self.regions(&header, cursor)?;
        let inside = Inside { is_function: false, depth: inside.depth + 1 };
        let mut own_scope = Scope::default();
        for _ in 0..header.num_regions {
            let nested = func.add_region();
            let scope = if header.is_isolated { &mut own_scope } else { &mut *scope };
            self.region(&mut body, func, nested, scope, inside)?;
            func.op_mut(id).regions.push(nested);
        }
        if !self.has_own_section(&header) {
            *cursor = body;
        }
        Ok(())
    }

    /// What the op is in our language, with its attributes.
    fn named(
        &mut self,
        cursor: &Cursor<'_>,
        header: &mut Header<'a>,
        inside: Inside,
    ) -> Result<(OpName, Attrs), Error> {
        let full_name = format!("{}.{}", header.op.dialect, header.op.name);
        if header.op.dialect == "vhlo" {
            let (kind, form) = OpKind::from_vhlo(header.op.name).ok_or_else(|| {
                cursor.error(format!("`{full_name}` is not known: the artifact is newer than this reader"))
            })?;
            let kind = match (header.op.name, inside.is_function) {
                ("return_v1", true) => OpKind::from_name("func.return").unwrap_or(kind),
                ("return_v1", false) => OpKind::from_name("stablehlo.return").unwrap_or(kind),
                _ => kind,
            };
            let stored: Vec<(&'static str, Need)> = form.attrs.iter().map(|&name| (name, Need::Required)).collect();
            self.own_attrs(header, &stored)?;
            let attrs = legalize(kind.def(), form, std::mem::take(&mut header.attrs))
                .map_err(|message| cursor.error(format!("`{full_name}`: {message}")))?;
            return Ok((OpName::Known(kind), attrs));
        }
        let Some(kind) = OpKind::from_name(&full_name) else {
            if header.op.registered && header.properties.is_some_and(|properties| !properties.is_empty()) {
                return Err(cursor.error(format!("`{full_name}` stores attributes in a way this reader does not know")));
            }
            self.own_attrs(header, &[])?;
            return Ok((OpName::Extern(full_name.into()), std::mem::take(&mut header.attrs)));
        };
        let def = kind.def();
        let mut stored: Vec<(&'static str, Need)> = def
            .attrs
            .iter()
            .map(|attr| match attr.presence {
                Presence::Required => (attr.name, Need::Required),
                _ => (attr.name, Need::Optional),
            })
            .collect();
        if full_name == "func.call" {
            stored.extend(["arg_attrs", "no_inline", "res_attrs"].map(|name| (name, Need::Optional)));
        }
        stored.sort_by_key(|(name, _)| *name);
        if let Some(properties) = header.properties {
            drop_late_attrs(&mut stored, count_integers(properties)?);
        }
        self.own_attrs(header, &stored)?;
        let mut attrs = std::mem::take(&mut header.attrs);
        def.drop_defaults(&mut attrs);
        Ok((OpName::Known(kind), attrs))
    }
}

/// Whether a stored attribute may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// Attributes that ops got after tools had begun to write plain StableHLO bytecode, which states no version.
const LATE_ATTRS: &[&str] =
    &["algorithm", "has_dynamic_root", "is_stable", "no_inline", "result_accuracy", "result_tilings", "source_target_pairs"];

/// Leaves out late attributes while more attributes are expected than stored.
fn drop_late_attrs(stored: &mut Vec<(&'static str, Need)>, num_stored: usize) {
    for name in LATE_ATTRS {
        if stored.len() > num_stored {
            stored.retain(|entry| *entry != (*name, Need::Optional));
        }
    }
}

fn count_integers(mut cursor: Cursor<'_>) -> Result<usize, Error> {
    let mut count = 0;
    while !cursor.is_empty() {
        cursor.varint()?;
        count += 1;
    }
    Ok(count)
}

/// What surrounds an op.
#[derive(Clone, Copy)]
struct Inside {
    /// The op is directly in a function.
    is_function: bool,
    depth: u32,
}

fn symbol_text<'s>(cursor: &Cursor<'_>, name: &'s Attr) -> Result<&'s str, Error> {
    match name {
        Attr::Symbol(name) => Ok(name),
        _ => name.as_str().ok_or_else(|| cursor.error("a name that is not text")),
    }
}

/// Attributes of arguments or results: one dictionary for each, or nothing at all.
fn per_value(cursor: &Cursor<'_>, attr: Option<Attr>, count: usize) -> Result<Vec<Attrs>, Error> {
    let dicts = match attr {
        None => return Ok(vec![Attrs::new(); count]),
        Some(Attr::Array(dicts)) if dicts.is_empty() => return Ok(vec![Attrs::new(); count]),
        Some(Attr::Array(dicts)) if dicts.len() == count => dicts,
        Some(_) => return Err(cursor.error("attributes of arguments or results that do not match their number")),
    };
    let attrs = |dict: &Attr| match dict {
        Attr::Dict(attrs) => Ok(Attrs::clone(attrs)),
        _ => Err(cursor.error("attributes of an argument or result are not a dictionary")),
    };
    dicts.iter().map(attrs).collect()
}

/// The order in which a value's uses are listed in memory, which means nothing to the program.
fn skip_use_list_orders(cursor: &mut Cursor<'_>, num_values: usize) -> Result<(), Error> {
    let orders = if num_values > 1 { cursor.count()? } else { 1 };
    for _ in 0..orders {
        if num_values > 1 {
            cursor.varint()?;
        }
        let (count, _is_pairs) = cursor.flagged()?;
        for _ in 0..cursor.bound(count)? {
            cursor.varint()?;
        }
    }
    Ok(())
}
