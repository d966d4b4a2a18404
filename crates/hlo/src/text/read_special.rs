//! Reading of the op forms that have rules of their own: constants, reductions, loops, calls and manual regions.

use std::sync::Arc;

use tensor::DType;

use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, NewOp, OpKind, OpName, TensorType, Type, Value};
use crate::text::lexer::{Read, Reader};
use crate::text::read_op::{Argument, Body, OuterNames, Parts};

/// Ops a reduction may name in `applies`: commutative, two operands, one result.
pub(super) fn may_be_applied(kind: OpKind) -> bool {
    use OpKind::{Add, And, Maximum, Minimum, Multiply, Or, Xor};
    matches!(kind, Add | And | Maximum | Minimum | Multiply | Or | Xor)
}

impl<'a> Reader<'a> {
    /// `{attrs} dense<…> : type`, or the generic form when the result's type is not the value's.
    pub(super) fn constant(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        if self.eat(b'(') {
            self.expect(b')')?;
            self.generic_tail(body, Some(kind), &mut parts)?;
            return Ok(parts);
        }
        self.optional_attr_dict(&mut parts.attrs, Some(kind.def()))?;
        self.skip();
        let at = self.pos;
        let value = self.attr()?;
        let ty = match &value {
            Attr::Dense(dense) => Type::Tensor(Arc::new(dense.ty.clone())),
            Attr::Opaque(text) => match text.rsplit_once(" : ").map(|(_, ty)| super::parse_type(ty)) {
                Some(Ok(ty)) => ty,
                _ => return self.fail_at(at, "expected constant data with its type"),
            },
            _ => return self.fail_at(at, "expected constant data"),
        };
        parts.attrs.set("value", value);
        parts.results = vec![ty];
        Ok(parts)
    }

    /// `(%a init: %b), … applies op across dimensions = […] : type`, or with a `reducer` region.
    pub(super) fn reduce(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        let mut inits = Vec::new();
        while self.peek() == b'(' {
            self.pos += 1;
            parts.operands.push(self.operand(body)?);
            self.expect_word("init")?;
            self.expect(b':')?;
            inits.push(self.operand(body)?);
            self.expect(b')')?;
            if !self.eat(b',') {
                break;
            }
        }
        parts.operands.append(&mut inits);
        let mut applied = None;
        if self.eat_word("applies") {
            self.skip();
            let at = self.pos;
            let name = self.word("an op")?;
            match OpKind::from_name(name).filter(|&k| may_be_applied(k)) {
                Some(inner) => applied = Some(inner),
                None => return self.fail_at(at, format!("`{name}` is not a commutative op of two operands")),
            }
        }
        self.expect_word("across")?;
        self.expect_word("dimensions")?;
        self.expect(b'=')?;
        let dimensions = self.integers()?;
        self.optional_attr_dict(&mut parts.attrs, Some(kind.def()))?;
        self.expect(b':')?;
        self.skip();
        let type_at = self.pos;
        let ty = self.function_type()?;
        self.check_types(body, &parts.operands, &ty.inputs, type_at)?;
        parts.attrs.set("dimensions", Attr::i64s(dimensions));
        parts.results = ty.outputs;
        match applied {
            Some(inner) => self.applied_region(body, inner, &ty.inputs, type_at, &mut parts)?,
            None => self.reducer(body, &mut parts)?,
        }
        Ok(parts)
    }

    /// Builds the region that `applies op` stands for: two scalars in, the op, its result out.
    fn applied_region(
        &mut self,
        body: &mut Body<'a>,
        inner: OpKind,
        inputs: &[Type],
        at: usize,
        parts: &mut Parts,
    ) -> Read<()> {
        let loc = self.optional_location()?.flatten();
        let Some(first) = inputs.first().and_then(Type::as_tensor) else {
            return self.fail_at(at, "expected a tensor to reduce");
        };
        let scalar: Type = TensorType::new([], first.element.clone()).into();
        let func = &mut body.func;
        let region = func.add_region();
        let lhs = func.add_argument(region, scalar.clone(), loc.clone());
        let rhs = func.add_argument(region, scalar.clone(), loc.clone());
        let op = func.add_op(
            region,
            NewOp {
                operands: vec![lhs, rhs],
                results: vec![scalar],
                loc: loc.clone(),
                ..NewOp::new(OpName::Known(inner))
            },
        );
        let result = func.op(op).first_result;
        func.add_op(
            region,
            NewOp { operands: vec![result], loc: loc.clone(), ..NewOp::new(OpName::Known(OpKind::Return)) },
        );
        parts.regions = vec![region];
        parts.loc = Some(loc);
        Ok(())
    }

    /// `reducer(%a: t, %b: t) (…) { … }`: pairs of an element and an accumulator.
    fn reducer(&mut self, body: &mut Body<'a>, parts: &mut Parts) -> Read<()> {
        self.expect_word("reducer")?;
        let (mut elements, mut accumulators) = (Vec::new(), Vec::new());
        while self.eat(b'(') {
            elements.push(self.argument()?);
            self.expect(b',')?;
            accumulators.push(self.argument()?);
            self.expect(b')')?;
        }
        elements.append(&mut accumulators);
        parts.regions = vec![self.region(body, Some(&elements), OuterNames::Visible)?];
        Ok(())
    }

    /// `(%i = %a, …) : types attributes {…} cond {…} do {…}`.
    pub(super) fn while_loop(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        let mut names = Vec::new();
        self.list(b'(', b')', |r| {
            names.push(r.value_name()?);
            r.expect(b'=')?;
            parts.operands.push(r.operand(body)?);
            Ok(())
        })?;
        if !parts.operands.is_empty() {
            self.expect(b':')?;
            self.skip();
            let at = self.pos;
            parts.results = self.type_list()?;
            self.check_types(body, &parts.operands, &parts.results, at)?;
        }
        if self.eat_word("attributes") {
            self.attr_dict(&mut parts.attrs, Some(kind.def()))?;
        }
        let args: Vec<Argument<'a>> = names
            .iter()
            .zip(&parts.results)
            .map(|(&(name, at), ty)| Argument { name, at, ty: ty.clone(), loc: None })
            .collect();
        self.expect_word("cond")?;
        let condition = self.region(body, Some(&args), OuterNames::Visible)?;
        self.expect_word("do")?;
        let step = self.region(body, Some(&args), OuterNames::Visible)?;
        parts.regions = vec![condition, step];
        Ok(parts)
    }

    /// `@f(%a) {…} : (…) -> …`.
    pub(super) fn call(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        let callee = self.symbol()?;
        parts.attrs.set("callee", Attr::Symbol(callee));
        parts.operands = self.operands_in_parens(body)?;
        self.optional_attr_dict(&mut parts.attrs, Some(kind.def()))?;
        self.typed_tail(body, &mut parts)?;
        Ok(parts)
    }

    /// `{…} %a, %b : types`.
    pub(super) fn return_op(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        self.optional_attr_dict(&mut parts.attrs, Some(kind.def()))?;
        parts.operands = self.operands(body)?;
        if !parts.operands.is_empty() {
            self.expect(b':')?;
            self.skip();
            let at = self.pos;
            let types = self.type_list()?;
            self.check_types(body, &parts.operands, &types, at)?;
        }
        Ok(parts)
    }

    /// `(%a) in_shardings=[…] out_shardings=[…] manual_axes={…} (%b: t) {…} {…} : (…) -> …`.
    pub(super) fn manual_computation(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        parts.operands = self.operands_in_parens(body)?;
        self.expect_word("in_shardings")?;
        self.value_shardings("in_shardings", &mut parts)?;
        self.expect_word("out_shardings")?;
        self.value_shardings("out_shardings", &mut parts)?;
        self.expect_word("manual_axes")?;
        self.expect(b'=')?;
        let axes = self.manual_axes()?;
        parts.attrs.set("manual_axes", axes);
        self.region_with_arguments(body, kind, &mut parts)?;
        Ok(parts)
    }

    /// `<"name">(%a) in_shardings=[…] out_shardings=[…] (%b: t) {…} {…} : (…) -> …`.
    pub(super) fn named_computation(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        self.expect(b'<')?;
        let name = self.string()?;
        parts.attrs.set("name", Attr::string(name));
        self.expect(b'>')?;
        parts.operands = self.operands_in_parens(body)?;
        for name in ["in_shardings", "out_shardings"] {
            if self.eat_word(name) {
                self.value_shardings(name, &mut parts)?;
            }
        }
        self.region_with_arguments(body, kind, &mut parts)?;
        Ok(parts)
    }

    /// `(%a) inits (%b) dimension=0 attributes {…} {…} : (…) -> …`.
    pub(super) fn scan(&mut self, body: &mut Body<'a>, kind: OpKind) -> Read<Parts> {
        let mut parts = Parts::new();
        let inputs = self.operands_in_parens(body)?;
        self.expect_word("inits")?;
        let inits = self.operands_in_parens(body)?;
        let (num_inputs, num_carries) = (inputs.len() as i64, inits.len() as i64);
        parts.operands = [inputs, inits].concat();
        self.expect_word("dimension")?;
        self.expect(b'=')?;
        let dimension = self.integer()?;
        if self.eat_word("attributes") {
            self.attr_dict(&mut parts.attrs, Some(kind.def()))?;
        }
        parts.regions = vec![self.region(body, None, OuterNames::Visible)?];
        self.skip();
        let type_at = self.pos;
        self.typed_tail(body, &mut parts)?;
        let num_outputs = parts.results.len() as i64 - num_carries;
        if num_outputs < 0 {
            return self.fail_at(type_at, "fewer results than initial values");
        }
        let sizes = |a, b| Attr::DenseArray(DType::I32, [a, b].into());
        parts.attrs.set("dimension", Attr::i64(dimension));
        parts.attrs.set("operandSegmentSizes", sizes(num_inputs, num_carries));
        parts.attrs.set("resultSegmentSizes", sizes(num_outputs, num_carries));
        Ok(parts)
    }

    fn value_shardings(&mut self, name: &'static str, parts: &mut Parts) -> Read<()> {
        self.expect(b'=')?;
        let at = self.pos;
        match self.shardings()? {
            Some(shardings) => parts.attrs.set(name, Attr::Sdy(Arc::new(SdyAttr::ShardingPerValue(shardings)))),
            None => return self.fail_at(at, "this sharding names a reduction that is not supported"),
        };
        Ok(())
    }

    fn region_with_arguments(&mut self, body: &mut Body<'a>, kind: OpKind, parts: &mut Parts) -> Read<()> {
        let mut args = Vec::new();
        self.list(b'(', b')', |r| {
            args.push(r.argument()?);
            Ok(())
        })?;
        parts.regions = vec![self.region(body, Some(&args), OuterNames::Hidden)?];
        self.optional_attr_dict(&mut parts.attrs, Some(kind.def()))?;
        self.typed_tail(body, parts)
    }

    fn operands_in_parens(&mut self, body: &Body<'a>) -> Read<Vec<Value>> {
        self.expect(b'(')?;
        let operands = self.operands(body)?;
        self.expect(b')')?;
        Ok(operands)
    }

    /// `: (operand types) -> result types`.
    fn typed_tail(&mut self, body: &Body<'a>, parts: &mut Parts) -> Read<()> {
        self.expect(b':')?;
        self.skip();
        let at = self.pos;
        let ty = self.function_type()?;
        self.check_types(body, &parts.operands, &ty.inputs, at)?;
        parts.results = ty.outputs;
        Ok(())
    }
}
