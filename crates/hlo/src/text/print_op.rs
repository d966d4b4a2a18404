//! Printing of ops and regions. Nesting is kept on an explicit stack, so that no depth can exhaust the thread's own.

use crate::ir::{Func, Loc, Op, OpId, OpKind, OpName, Region, Type, Value};
use crate::ops::Text;
use crate::print::attr::{Dialect, write_dict};
use crate::print::name::write_string;
use crate::print::ty::{write_results, write_type, write_types};
use crate::text::print_loc::LocationTable;
use crate::text::print_names::Names;
use crate::text::{Form, PrintOptions};

/// What is still to be printed; the last entry comes first.
pub(super) enum Pending {
    /// The ops of a region from one on, at an indentation.
    Ops { region: Region, next: usize, indent: usize },
    /// Fixed text.
    Text(&'static str),
    /// Indentation.
    Blanks(usize),
    /// A line break, blanks, and fixed text.
    Line(usize, &'static str),
    /// A block label with its arguments, at an indentation.
    Label(Region, usize),
    /// The pieces of an op's form from one on.
    Pieces { id: OpId, from: usize, indent: usize },
    /// What follows the regions of a generic op.
    GenericTail(OpId),
    /// What follows the region of a computation with named arguments.
    TypedTail(OpId),
    /// The function type of an op, behind its region.
    FunctionTypeTail(OpId),
    /// The location of an op and the end of its line.
    End(OpId),
}

/// Prints the ops of one function.
pub(super) struct OpPrinter<'p, 'm> {
    pub(super) out: &'p mut String,
    pub(super) func: &'m Func,
    names: &'p Names,
    options: PrintOptions,
    locations: Option<&'p LocationTable<'m>>,
    pub(super) pending: Vec<Pending>,
}

impl<'p, 'm> OpPrinter<'p, 'm> {
    pub(super) fn new(
        out: &'p mut String,
        func: &'m Func,
        names: &'p Names,
        options: PrintOptions,
        locations: Option<&'p LocationTable<'m>>,
    ) -> Self {
        OpPrinter { out, func, names, options, locations, pending: Vec::new() }
    }

    /// Prints every op of a region and of the regions inside it.
    pub(super) fn region(&mut self, region: Region, indent: usize) {
        self.pending.push(Pending::Ops { region, next: 0, indent });
        while let Some(work) = self.pending.pop() {
            match work {
                Pending::Ops { region, next, indent } => {
                    let Some(&op) = self.func.region(region).ops.get(next) else { continue };
                    self.pending.push(Pending::Ops { region, next: next + 1, indent });
                    self.op(op, indent);
                }
                Pending::Text(text) => self.out.push_str(text),
                Pending::Blanks(count) => self.blanks(count),
                Pending::Line(indent, text) => {
                    self.out.push('\n');
                    self.blanks(indent);
                    self.out.push_str(text);
                }
                Pending::Label(region, indent) => self.label(region, indent),
                Pending::Pieces { id, from, indent } => {
                    let def = self.func.op(id).kind().map(OpKind::def);
                    if let Some(def) = def
                        && let Text::Pieces(pieces) = def.text
                    {
                        self.pieces_from(id, def, pieces, from, indent);
                    }
                }
                Pending::GenericTail(op) => self.generic_tail(op),
                Pending::TypedTail(op) => self.typed_tail(op),
                Pending::FunctionTypeTail(op) => {
                    self.out.push_str(" : ");
                    self.function_type(self.func.op(op));
                }
                Pending::End(op) => self.end(op),
            }
        }
    }

    fn op(&mut self, id: OpId, indent: usize) {
        let op = self.func.op(id);
        self.blanks(indent);
        if op.num_results > 0 {
            self.names.write_results(self.out, op);
            self.out.push_str(" = ");
        }
        self.pending.push(Pending::End(id));
        let pretty = match op.kind() {
            Some(kind) if self.options.form == Form::Pretty => self.pretty(id, op, kind, indent),
            _ => false,
        };
        if !pretty {
            self.generic(id, op, indent);
        }
    }

    /// Prints an op in its own form; writes nothing and says so if the op does not fit its form.
    fn pretty(&mut self, id: OpId, op: &'m Op, kind: OpKind, indent: usize) -> bool {
        let def = kind.def();
        let fits = def.operands.allows(op.operands.len())
            && def.results.allows(op.num_results as usize)
            && def.regions.allows(op.regions.len());
        if !fits {
            return false;
        }
        match def.text {
            Text::Generic => false,
            Text::Pieces(pieces) => self.pieces(id, def, pieces, indent),
            Text::Constant => self.constant(op, def.name),
            Text::Reduce => self.reduce(op, indent),
            Text::While => self.while_loop(op, indent),
            Text::Call => self.call(op, indent),
            Text::Return => self.return_op(op, indent),
            Text::ManualComputation => self.manual_computation(id, op, indent),
            Text::NamedComputation => self.named_computation(id, op, indent),
            Text::Scan => self.scan(id, op, indent),
        }
    }

    fn generic(&mut self, id: OpId, op: &Op, indent: usize) {
        write_string(self.out, op.name.as_str().as_bytes());
        self.out.push('(');
        self.operands(&op.operands);
        self.out.push(')');
        let inherent = |name: &str| is_inherent(&op.name, name);
        if op.attrs.iter().any(|(name, _)| inherent(name)) {
            self.out.push_str(" <");
            let dialect = Dialect::of_op(op.name.as_str());
            write_dict(self.out, op.attrs.iter().filter(|(name, _)| inherent(name)), dialect);
            self.out.push('>');
        }
        self.pending.push(Pending::GenericTail(id));
        if !op.regions.is_empty() {
            self.out.push_str(" (");
            self.push_regions(&op.regions, indent);
        }
    }

    /// Queues `{…}, {…})` for regions whose opening parenthesis is printed.
    pub(super) fn push_regions(&mut self, regions: &[Region], indent: usize) {
        self.pending.push(Pending::Text(")"));
        for (i, &region) in regions.iter().enumerate().rev() {
            self.push_block(region, indent);
            if i > 0 {
                self.pending.push(Pending::Text(", "));
            }
        }
    }

    /// Queues one region in braces, with a label if it has arguments.
    pub(super) fn push_block(&mut self, region: Region, indent: usize) {
        self.push_close(region, indent, "}");
        if !self.func.region(region).args.is_empty() {
            self.pending.push(Pending::Label(region, indent));
        }
        self.pending.push(Pending::Text("{\n"));
    }

    /// Queues `{`, the ops, and the closing text on a line of its own.
    pub(super) fn push_braces(&mut self, region: Region, indent: usize, close: &'static str) {
        self.push_close(region, indent, close);
        self.pending.push(Pending::Text("{\n"));
    }

    /// Queues the ops and the closing text on a line of its own.
    fn push_close(&mut self, region: Region, indent: usize, close: &'static str) {
        self.pending.push(Pending::Text(close));
        self.pending.push(Pending::Blanks(indent));
        // Indentation stops growing somewhere, or the text of a deep nest would be quadratic in its depth.
        self.pending.push(Pending::Ops { region, next: 0, indent: (indent + 2).min(MAX_INDENT) });
    }

    pub(super) fn options(&self) -> PrintOptions {
        self.options
    }

    fn label(&mut self, region: Region, indent: usize) {
        self.blanks(indent);
        self.out.push_str("^bb0(");
        self.arguments(&self.func.region(region).args);
        self.out.push_str("):\n");
    }

    /// `%a: type loc(…), …`.
    pub(super) fn arguments(&mut self, args: &[Value]) {
        for (i, &arg) in args.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.argument(arg);
        }
    }

    pub(super) fn argument(&mut self, arg: Value) {
        self.value(arg);
        self.out.push_str(": ");
        write_type(self.out, self.func.ty(arg));
        self.location(&self.func.value(arg).loc);
    }

    fn generic_tail(&mut self, id: OpId) {
        let op = self.func.op(id);
        let inherent = |name: &str| is_inherent(&op.name, name);
        if op.attrs.iter().any(|(name, _)| !inherent(name)) {
            self.out.push(' ');
            let dialect = Dialect::of_op(op.name.as_str());
            write_dict(self.out, op.attrs.iter().filter(|(name, _)| !inherent(name)), dialect);
        }
        self.out.push_str(" : ");
        self.function_type(op);
    }

    fn end(&mut self, id: OpId) {
        self.location(&self.func.op(id).loc);
        self.out.push('\n');
    }

    fn location(&mut self, loc: &Loc) {
        if let Some(table) = self.locations {
            table.write_use(self.out, loc);
        }
    }

    pub(super) fn blanks(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }

    pub(super) fn value(&mut self, value: Value) {
        self.out.push('%');
        self.out.push_str(self.names.of_value(value));
    }

    pub(super) fn operands(&mut self, values: &[Value]) {
        for (i, &value) in values.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.value(value);
        }
    }

    pub(super) fn operand_types(&self, op: &Op) -> impl ExactSizeIterator<Item = &'m Type> + use<'m> {
        let func = self.func;
        op.operands.clone().into_iter().map(move |value| func.ty(value))
    }

    pub(super) fn result_types(&self, op: &Op) -> impl ExactSizeIterator<Item = &'m Type> + use<'m> {
        let func = self.func;
        op.results().map(move |value| func.ty(value))
    }

    /// `(operand types) -> result types`.
    pub(super) fn function_type(&mut self, op: &Op) {
        self.out.push('(');
        let operands = self.operand_types(op);
        write_types(self.out, operands);
        self.out.push_str(") -> ");
        let results = self.result_types(op);
        write_results(self.out, results);
    }
}

/// Deeper nesting than this is no longer indented further.
const MAX_INDENT: usize = 200;

/// Whether an attribute is part of the op's definition rather than attached to it.
fn is_inherent(op: &OpName, attr: &str) -> bool {
    match op {
        OpName::Known(kind) => {
            kind.def().attr(attr).is_some() || matches!(attr, "operandSegmentSizes" | "resultSegmentSizes")
        }
        OpName::Extern(_) => false,
    }
}
