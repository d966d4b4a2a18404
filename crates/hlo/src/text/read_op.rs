//! Reading of ops, regions and the names of values.

use std::collections::HashMap;

use crate::ir::{Attrs, Func, Loc, NewOp, OpKind, OpName, Region, Type, Value};
use crate::ops::{OpDef, Text};
use crate::print::print_type;
use crate::text::lexer::{Read, Reader, text};

/// A function being read: what it holds so far and what its names mean here.
pub(super) struct Body<'a> {
    pub(super) func: Func,
    /// First value and number of values of each visible name.
    names: HashMap<&'a [u8], (Value, u32)>,
    /// Names in order of definition, to forget those of a region at its end.
    order: Vec<&'a [u8]>,
}

impl<'a> Body<'a> {
    pub(super) fn new(func: Func) -> Self {
        Body { func, names: HashMap::new(), order: Vec::new() }
    }
}

/// An argument of a region: its name with the offset of the name, its type and location.
pub(super) struct Argument<'a> {
    pub(super) name: &'a [u8],
    pub(super) at: usize,
    pub(super) ty: Type,
    pub(super) loc: Loc,
}

/// What an op's form says, before it becomes an op.
pub(super) struct Parts {
    pub(super) operands: Vec<Value>,
    pub(super) results: Vec<Type>,
    pub(super) attrs: Attrs,
    pub(super) regions: Vec<Region>,
    /// Set when the form has taken the trailing location itself.
    pub(super) loc: Option<Loc>,
}

impl Parts {
    pub(super) fn new() -> Self {
        Parts { operands: Vec::new(), results: Vec::new(), attrs: Attrs::new(), regions: Vec::new(), loc: None }
    }
}

/// Whether names outside an op's regions are hidden inside them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OuterNames {
    Visible,
    Hidden,
}

/// How the regions of an op see the names around it.
fn outer_names(kind: Option<OpKind>) -> OuterNames {
    match kind {
        Some(OpKind::SdyManualComputation | OpKind::SdyNamedComputation) => OuterNames::Hidden,
        _ => OuterNames::Visible,
    }
}

impl<'a> Reader<'a> {
    /// One op of a region, with the names of its results.
    pub(super) fn op(&mut self, body: &mut Body<'a>, region: Region) -> Read<()> {
        let mut names: Vec<(&'a [u8], usize, u32)> = Vec::new();
        if self.peek() == b'%' {
            loop {
                let (name, at) = self.value_name()?;
                let mut count = 1;
                if self.eat(b':') {
                    let count_at = self.pos;
                    count = match u32::try_from(self.integer()?) {
                        Ok(count) if count > 0 => count,
                        _ => return self.fail_at(count_at, "expected the number of results"),
                    };
                }
                names.push((name, at, count));
                if !self.eat(b',') {
                    break;
                }
            }
            self.expect(b'=')?;
        }
        self.skip();
        let op_at = self.pos;
        let (name, parts) = if self.here() == b'"' { self.generic_op(body)? } else { self.pretty_op(body)? };
        let loc = match parts.loc {
            Some(loc) => loc,
            None => self.optional_location()?.flatten(),
        };
        let mut attrs = parts.attrs;
        if let OpName::Known(kind) = name {
            kind.def().drop_defaults(&mut attrs);
        }
        let named: u64 = names.iter().map(|&(_, _, count)| u64::from(count)).sum();
        let have = parts.results.len();
        if named != have as u64 && !(names.is_empty()) {
            let at = names[0].1;
            return self.fail_at(at, format!("{named} results are named, the op has {have}"));
        }
        if parts.results.len() + body.func.values.len() > u32::MAX as usize {
            return self.fail_at(op_at, "too many values");
        }
        let id = body.func.add_op(
            region,
            NewOp { name, operands: parts.operands, results: parts.results, attrs, regions: parts.regions, loc },
        );
        let mut value = body.func.op(id).first_result;
        for (name, at, count) in names {
            self.define(body, name, at, value, count)?;
            value = Value(value.0 + count);
        }
        Ok(())
    }

    /// `%name`, without its sigil, and its offset.
    pub(super) fn value_name(&mut self) -> Read<(&'a [u8], usize)> {
        if self.peek() != b'%' {
            return self.expected("a value such as `%0`");
        }
        let at = self.pos;
        self.pos += 1;
        Ok((self.suffix("a name after `%`")?, at))
    }

    pub(super) fn define(
        &mut self,
        body: &mut Body<'a>,
        name: &'a [u8],
        at: usize,
        value: Value,
        count: u32,
    ) -> Read<()> {
        if body.names.insert(name, (value, count)).is_some() {
            return self.fail_at(at, format!("`%{}` is defined twice", text(name)));
        }
        body.order.push(name);
        Ok(())
    }

    /// A use of a value: `%name` or `%name#1`.
    #[inline]
    pub(super) fn operand(&mut self, body: &Body<'a>) -> Read<Value> {
        let (name, at) = self.value_name()?;
        let Some(&(first, count)) = body.names.get(name) else {
            return self.fail_at(at, format!("`%{}` is used before it is defined", text(name)));
        };
        let mut index = 0;
        if self.here() == b'#' {
            self.pos += 1;
            index = self.integer()?;
        }
        match u32::try_from(index) {
            Ok(index) if index < count => Ok(Value(first.0 + index)),
            _ => self.fail_at(at, format!("`%{}` has {count} result(s), there is no #{index}", text(name))),
        }
    }

    /// `%a, %b`, none or more.
    pub(super) fn operands(&mut self, body: &Body<'a>) -> Read<Vec<Value>> {
        let mut values = Vec::new();
        if self.peek() == b'%' {
            loop {
                values.push(self.operand(body)?);
                if !self.eat(b',') {
                    break;
                }
            }
        }
        Ok(values)
    }

    /// Operands must have the types written for them, in the order of the last type list.
    pub(super) fn check_types(&self, body: &Body<'a>, operands: &[Value], types: &[Type], at: usize) -> Read<()> {
        if operands.len() != types.len() {
            let (have, want) = (operands.len(), types.len());
            return self.fail_at(at, format!("{have} operands, but {want} operand types"));
        }
        for (i, (&operand, ty)) in operands.iter().zip(types).enumerate() {
            let have = body.func.ty(operand);
            if have != ty {
                let at = self.type_starts.get(i).copied().unwrap_or(at);
                let (have, want) = (print_type(have), print_type(ty));
                return self.fail_at(at, format!("operand {i} has type {have}, not {want}"));
            }
        }
        Ok(())
    }

    fn generic_op(&mut self, body: &mut Body<'a>) -> Read<(OpName, Parts)> {
        let name_at = self.pos;
        let name = self.utf8_string()?;
        let name = match OpKind::from_name(&name) {
            Some(kind) => OpName::Known(kind),
            None if name.contains('.') => OpName::Extern(name.into()),
            None => return self.fail_at(name_at, format!("`{name}` names no dialect")),
        };
        let kind = if let OpName::Known(kind) = name { Some(kind) } else { None };
        self.expect(b'(')?;
        let mut parts = Parts::new();
        parts.operands = self.operands(body)?;
        self.expect(b')')?;
        self.generic_tail(body, kind, &mut parts)?;
        Ok((name, parts))
    }

    /// `<{…}> ({…}) {…} : (…) -> …`.
    pub(super) fn generic_tail(&mut self, body: &mut Body<'a>, kind: Option<OpKind>, parts: &mut Parts) -> Read<()> {
        let def: Option<&'static OpDef> = kind.map(OpKind::def);
        if self.eat(b'<') {
            self.attr_dict(&mut parts.attrs, def)?;
            self.expect(b'>')?;
        }
        if self.peek() == b'(' {
            let outer = outer_names(kind);
            let mut regions = Vec::new();
            self.list(b'(', b')', |r| {
                regions.push(r.region(body, None, outer)?);
                Ok(())
            })?;
            parts.regions = regions;
        }
        self.optional_attr_dict(&mut parts.attrs, def)?;
        self.expect(b':')?;
        self.skip();
        let at = self.pos;
        let ty = self.function_type()?;
        self.check_types(body, &parts.operands, &ty.inputs, at)?;
        parts.results = ty.outputs;
        Ok(())
    }

    fn pretty_op(&mut self, body: &mut Body<'a>) -> Read<(OpName, Parts)> {
        let at = self.pos;
        let word = self.word("an op")?;
        let kind = match word {
            "return" => OpKind::FuncReturn,
            "call" => OpKind::FuncCall,
            _ => match OpKind::from_name(word) {
                Some(kind) => kind,
                None => {
                    return self.fail_at(at, format!("`{word}` is not an op of the language; other ops are read only in their generic form, `\"{word}\"(…)`"));
                }
            },
        };
        let def = kind.def();
        let parts = match def.text {
            Text::Pieces(pieces) => self.pieces(body, def, pieces)?,
            Text::Generic => {
                return self.fail_at(at, format!("`{word}` has only a generic form, `\"{word}\"(…)`"));
            }
            Text::Constant => self.constant(body, kind)?,
            Text::Reduce => self.reduce(body, kind)?,
            Text::While => self.while_loop(body, kind)?,
            Text::Call => self.call(body, kind)?,
            Text::Return => self.return_op(body, kind)?,
            Text::ManualComputation => self.manual_computation(body, kind)?,
            Text::NamedComputation => self.named_computation(body, kind)?,
            Text::Scan => self.scan(body, kind)?,
        };
        Ok((OpName::Known(kind), parts))
    }

    /// `{ ops }`, with the arguments given by the op's form or by a block label.
    pub(super) fn region(
        &mut self,
        body: &mut Body<'a>,
        args: Option<&[Argument<'a>]>,
        outer: OuterNames,
    ) -> Read<Region> {
        self.enter()?;
        let region = body.func.add_region();
        let outer =
            (outer == OuterNames::Hidden).then(|| (std::mem::take(&mut body.names), std::mem::take(&mut body.order)));
        let mark = body.order.len();
        self.expect(b'{')?;
        for arg in args.unwrap_or_default() {
            let value = body.func.add_argument(region, arg.ty.clone(), arg.loc.clone());
            self.define(body, arg.name, arg.at, value, 1)?;
        }
        if args.is_none() && self.peek() == b'^' {
            self.label(body, region)?;
        }
        self.region_ops(body, region)?;
        match outer {
            Some((names, order)) => (body.names, body.order) = (names, order),
            None => {
                for name in body.order.drain(mark..) {
                    body.names.remove(name);
                }
            }
        }
        self.depth -= 1;
        Ok(region)
    }

    /// `^bb0(%a: type, …):`.
    fn label(&mut self, body: &mut Body<'a>, region: Region) -> Read<()> {
        self.expect(b'^')?;
        self.suffix("a block name after `^`")?;
        if self.peek() == b'(' {
            self.list(b'(', b')', |r| {
                let arg = r.argument()?;
                let value = body.func.add_argument(region, arg.ty, arg.loc);
                r.define(body, arg.name, arg.at, value, 1)
            })?;
        }
        self.expect(b':')
    }

    fn region_ops(&mut self, body: &mut Body<'a>, region: Region) -> Read<()> {
        loop {
            match self.peek() {
                b'}' => {
                    self.pos += 1;
                    return Ok(());
                }
                b'^' => return self.fail("a region of this language has one block"),
                0 if self.pos >= self.src.len() => return self.expected("`}`"),
                _ => self.op(body, region)?,
            }
        }
    }

    /// `%name: type loc(…)`.
    pub(super) fn argument(&mut self) -> Read<Argument<'a>> {
        let (name, at) = self.value_name()?;
        self.expect(b':')?;
        let ty = self.ty()?;
        let loc = self.optional_location()?.flatten();
        Ok(Argument { name, at, ty, loc })
    }
}
