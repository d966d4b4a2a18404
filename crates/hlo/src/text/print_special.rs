//! Printing of the op forms that have rules of their own.

use std::fmt::Write;

use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, Op, OpId, OpKind, OpName, Region, TensorType, Type};
use crate::print::attr::NumberType;
use crate::print::attr::{Dialect, write_attr_as, write_dict, write_integers};
use crate::print::dialect::write_short_sdy;
use crate::print::name::{write_string, write_symbol};
use crate::print::ty::write_types;
use crate::text::print_op::{OpPrinter, Pending};
use crate::text::read_special::may_be_applied;

/// Indentation of the ops directly in a function's body, where `return` and `call` need no dialect name.
const BODY_INDENT: usize = 4;

impl<'m> OpPrinter<'_, 'm> {
    pub(super) fn constant(&mut self, op: &'m Op, name: &str) -> bool {
        let Some(value @ Attr::Dense(dense)) = op.attr("value") else { return false };
        if self.func.ty(op.first_result).as_tensor() != Some(&dense.ty) {
            return false;
        }
        self.out.push_str(name);
        self.dict_without(op, &["value"]);
        self.out.push(' ');
        write_attr_as(self.out, value, Dialect::Stablehlo, NumberType::Shown);
        true
    }

    pub(super) fn reduce(&mut self, op: &'m Op, indent: usize) -> bool {
        let Some(Attr::DenseArray(tensor::DType::I64, dimensions)) = op.attr("dimensions") else { return false };
        let (pairs, [region]) = (op.operands.len() / 2, op.regions.as_slice()) else { return false };
        let body = self.func.region(*region);
        if !op.operands.len().is_multiple_of(2) || pairs == 0 || body.args.len() != op.operands.len() {
            return false;
        }
        self.out.push_str("stablehlo.reduce");
        for i in 0..pairs {
            self.out.push_str(if i > 0 { ", (" } else { "(" });
            self.value(op.operands[i]);
            self.out.push_str(" init: ");
            self.value(op.operands[pairs + i]);
            self.out.push(')');
        }
        let applied = self.applied_op(op, *region);
        if let Some(kind) = applied {
            self.out.push_str(" applies ");
            self.out.push_str(kind.name());
        }
        self.out.push_str(" across dimensions = ");
        write_integers(self.out, dimensions);
        self.dict_without(op, &["dimensions"]);
        self.out.push_str(" : ");
        self.function_type(op);
        if applied.is_some() {
            return true;
        }
        self.out.push('\n');
        self.blanks(indent);
        self.out.push_str(" reducer");
        for i in 0..pairs {
            self.out.push('(');
            self.arguments(&[body.args[i], body.args[pairs + i]]);
            self.out.push_str(") ");
        }
        self.out.push(' ');
        self.push_braces(*region, indent, "}");
        true
    }

    /// The op a reduction applies, when its region is nothing but that op on the two arguments.
    fn applied_op(&self, reduce: &Op, region: Region) -> Option<OpKind> {
        let body = self.func.region(region);
        let &[inner, last] = body.ops.as_slice() else { return None };
        let (inner, last) = (self.func.op(inner), self.func.op(last));
        let kind = inner.kind().filter(|&kind| may_be_applied(kind))?;
        let first = self.func.ty(*reduce.operands.first()?).as_tensor()?;
        let scalar: Type = TensorType::new([], first.element.clone()).into();
        let is_plain = inner.operands == body.args
            && body.args.len() == 2
            && inner.num_results == 1
            && inner.attrs.is_empty()
            && last.attrs.is_empty()
            && last.name == OpName::Known(OpKind::Return)
            && last.operands == [inner.first_result]
            && inner.operands.iter().chain(&last.operands).all(|&v| *self.func.ty(v) == scalar);
        // The short form states one location: the reduction's.
        let locations_agree = !self.shows_locations()
            || [&inner.loc, &last.loc]
                .into_iter()
                .chain(body.args.iter().map(|&a| &self.func.value(a).loc))
                .all(|l| *l == reduce.loc);
        (is_plain && locations_agree).then_some(kind)
    }

    pub(super) fn while_loop(&mut self, op: &'m Op, indent: usize) -> bool {
        let &[condition, step] = op.regions.as_slice() else { return false };
        let func = self.func;
        let types_of = |region: Region| func.region(region).args.iter().map(|&a| func.ty(a));
        let operands = || op.operands.iter().map(|&v| func.ty(v));
        let agree = operands().eq(op.results().map(|v| func.ty(v)))
            && operands().eq(types_of(condition))
            && operands().eq(types_of(step));
        // The short form has no place for the arguments' locations.
        let no_locations =
            [condition, step].iter().all(|&r| func.region(r).args.iter().all(|&a| func.value(a).loc.is_none()));
        if !agree || (self.shows_locations() && !no_locations) {
            return false;
        }
        self.out.push_str("stablehlo.while(");
        for (i, (&arg, &operand)) in func.region(step).args.iter().zip(&op.operands).enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.value(arg);
            self.out.push_str(" = ");
            self.value(operand);
        }
        self.out.push(')');
        if !op.operands.is_empty() {
            self.out.push_str(" : ");
            let types = self.operand_types(op);
            write_types(self.out, types);
        }
        if !op.attrs.is_empty() {
            self.out.push_str(" attributes");
            self.dict_without(op, &[]);
        }
        self.push_braces(step, indent, "}");
        self.pending.push(Pending::Text(" do "));
        self.push_braces(condition, indent, "}");
        self.pending.push(Pending::Line(indent, "cond "));
        true
    }

    pub(super) fn call(&mut self, op: &'m Op, indent: usize) -> bool {
        let Some(Attr::Symbol(callee)) = op.attr("callee") else { return false };
        self.out.push_str(if indent == BODY_INDENT { "call " } else { "func.call " });
        write_symbol(self.out, callee);
        self.out.push('(');
        self.operands(&op.operands);
        self.out.push(')');
        self.dict_without(op, &["callee"]);
        self.out.push_str(" : ");
        self.function_type(op);
        true
    }

    pub(super) fn return_op(&mut self, op: &'m Op, indent: usize) -> bool {
        self.out.push_str(if indent == BODY_INDENT { "return" } else { "func.return" });
        self.dict_without(op, &[]);
        if !op.operands.is_empty() {
            self.out.push(' ');
            self.operands(&op.operands);
            self.out.push_str(" : ");
            let types = self.operand_types(op);
            write_types(self.out, types);
        }
        true
    }

    pub(super) fn manual_computation(&mut self, id: OpId, op: &'m Op, indent: usize) -> bool {
        let (Some(inputs), Some(outputs)) = (shardings(op, "in_shardings"), shardings(op, "out_shardings")) else {
            return false;
        };
        let axes = match op.attr("manual_axes") {
            Some(Attr::Sdy(attr)) if matches!(**attr, SdyAttr::ManualAxes(_)) => attr,
            _ => return false,
        };
        self.out.push_str("sdy.manual_computation(");
        self.operands(&op.operands);
        self.out.push_str(") in_shardings=");
        write_short_sdy(self.out, inputs);
        self.out.push_str(" out_shardings=");
        write_short_sdy(self.out, outputs);
        self.out.push_str(" manual_axes=");
        write_short_sdy(self.out, axes);
        self.region_with_arguments(id, op, indent);
        true
    }

    pub(super) fn named_computation(&mut self, id: OpId, op: &'m Op, indent: usize) -> bool {
        let Some(Attr::Str(name)) = op.attr("name") else { return false };
        let both = [("in_shardings", shardings(op, "in_shardings")), ("out_shardings", shardings(op, "out_shardings"))];
        if both.iter().any(|(name, attr)| attr.is_none() && op.attr(name).is_some()) {
            return false;
        }
        self.out.push_str("sdy.named_computation<");
        write_string(self.out, name.as_bytes());
        self.out.push_str(">(");
        self.operands(&op.operands);
        self.out.push(')');
        for (name, attr) in both {
            if let Some(attr) = attr {
                self.out.push(' ');
                self.out.push_str(name);
                self.out.push('=');
                write_short_sdy(self.out, attr);
            }
        }
        self.region_with_arguments(id, op, indent);
        true
    }

    pub(super) fn scan(&mut self, id: OpId, op: &'m Op, indent: usize) -> bool {
        let sizes = |name| match op.attr(name) {
            Some(Attr::DenseArray(_, sizes)) => <[i64; 2]>::try_from(&**sizes).ok(),
            _ => None,
        };
        let (Some([inputs, inits]), Some([outputs, carries])) =
            (sizes("operandSegmentSizes"), sizes("resultSegmentSizes"))
        else {
            return false;
        };
        let (Some(dimension), &[region]) = (op.attr("dimension").and_then(Attr::as_int), op.regions.as_slice()) else {
            return false;
        };
        let adds_up = inputs.checked_add(inits) == i64::try_from(op.operands.len()).ok()
            && outputs.checked_add(carries) == Some(i64::from(op.num_results))
            && inits == carries;
        let Some((inputs, inits)) = usize::try_from(inputs).ok().and_then(|n| op.operands.split_at_checked(n)) else {
            return false;
        };
        if !adds_up {
            return false;
        }
        self.out.push_str("chlo.scan(");
        self.operands(inputs);
        self.out.push_str(") inits (");
        self.operands(inits);
        let _ = write!(self.out, ") dimension={dimension}");
        let mut others = String::new();
        std::mem::swap(self.out, &mut others);
        self.dict_without(op, &["dimension", "operandSegmentSizes", "resultSegmentSizes"]);
        std::mem::swap(self.out, &mut others);
        if !others.is_empty() {
            self.out.push_str(" attributes");
            self.out.push_str(&others);
        }
        self.out.push(' ');
        self.pending.push(Pending::FunctionTypeTail(id));
        self.push_block(region, indent);
        true
    }

    fn region_with_arguments(&mut self, id: OpId, op: &Op, indent: usize) {
        let Some(&region) = op.regions.first() else { return };
        self.out.push_str(" (");
        self.arguments(&self.func.region(region).args);
        self.out.push_str(") ");
        self.pending.push(Pending::TypedTail(id));
        self.push_braces(region, indent, "}");
    }

    pub(super) fn typed_tail(&mut self, id: OpId) {
        let op = self.func.op(id);
        self.dict_without(op, &["in_shardings", "out_shardings", "manual_axes", "name"]);
        self.out.push_str(" : ");
        self.function_type(op);
    }

    /// Appends ` {…}` with the attributes the form does not show, if there are any.
    pub(super) fn dict_without(&mut self, op: &Op, shown: &[&str]) {
        let hidden = |name: &str| shown.contains(&name);
        if op.attrs.iter().any(|(name, _)| !hidden(name)) {
            self.out.push(' ');
            let dialect = Dialect::of_op(op.name.as_str());
            write_dict(self.out, op.attrs.iter().filter(|(name, _)| !hidden(name)), dialect);
        }
    }
}

fn shardings<'m>(op: &'m Op, name: &str) -> Option<&'m SdyAttr> {
    match op.attr(name) {
        Some(Attr::Sdy(attr)) if matches!(**attr, SdyAttr::ShardingPerValue(_)) => Some(attr),
        _ => None,
    }
}
