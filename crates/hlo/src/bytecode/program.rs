//! Ops, regions and values of bytecode, built into functions.

use super::container::{self, Container, OpEntry};
use super::cursor::Cursor;
use super::tables::Tables;
use crate::error::Error;
use crate::ir::{Attr, Attrs, Func, Loc, NewOp, Region, Type, Value};

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
pub(super) struct Header<'a> {
    pub(super) op: &'a OpEntry<'a>,
    pub(super) loc: Loc,
    pub(super) attrs: Attrs,
    pub(super) properties: Option<Cursor<'a>>,
    pub(super) results: Vec<Type>,
    pub(super) operands: Vec<u64>,
    pub(super) num_regions: usize,
    pub(super) is_isolated: bool,
}

/// Values by number, as far as a region sees them.
#[derive(Default)]
pub(super) struct Scope {
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

pub(super) struct Reader<'a> {
    pub(super) container: &'a Container<'a>,
    pub(super) tables: Tables<'a>,
}

impl<'a> Reader<'a> {
    /// Where the regions of an op are read from: here, or a section of their own.
    pub(super) fn regions(&self, header: &Header<'a>, cursor: &mut Cursor<'a>) -> Result<Cursor<'a>, Error> {
        if self.has_own_section(header) { container::nested_ir(cursor) } else { Ok(*cursor) }
    }

    pub(super) fn has_own_section(&self, header: &Header<'_>) -> bool {
        header.num_regions > 0 && header.is_isolated && self.container.version >= LAZY_REGIONS
    }

    pub(super) fn header(&mut self, cursor: &mut Cursor<'a>) -> Result<Header<'a>, Error> {
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

    /// Reads a region; `false` if it has no block.
    pub(super) fn region(
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
        let id =
            func.add_op(region, NewOp { name, operands, results, attrs, regions: Vec::new(), loc: header.loc.clone() });
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
}

/// What surrounds an op.
#[derive(Clone, Copy)]
pub(super) struct Inside {
    /// The op is directly in a function.
    pub(super) is_function: bool,
    pub(super) depth: u32,
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
