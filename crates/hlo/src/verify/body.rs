//! The ops of a function: scope of values, terminators, arities, attributes and constraints.

use crate::ir::{Func, Op, OpId, OpKind, OpName, Region, Type};
use crate::ops::rules::{require, shapes, sharding, spelling};
use crate::ops::{Arity, OpView, Symbols, Violation};

use super::{Report, attributes, types};

/// Regions inside regions. Compilers recurse on nesting and overflow their stack a few thousand levels down.
pub(super) const MAX_NESTING: u32 = 512;

/// Depth of the function's own region.
const BODY: u32 = 1;

enum Step {
    Enter(Region, Scope),
    Ops { region: Region, next: usize, mark: usize, scope: Scope },
    Define(OpId, u32),
}

#[derive(Clone, Copy)]
struct Scope {
    /// Levels of nesting; the function's body is 1.
    depth: u32,
    /// Values of shallower regions are out of sight.
    floor: u32,
}

/// Checks the body of a function whose ids are sound.
pub(super) fn check(func: &Func, symbols: &Symbols<'_>, report: &mut Report) {
    let Some(body) = func.body else { return };
    let mut checker = Checker { func, symbols, report, depths: vec![0; func.values.len()], defined: Vec::new() };
    let mut steps = vec![Step::Enter(body, Scope { depth: BODY, floor: BODY })];
    while let Some(step) = steps.pop() {
        if checker.report.is_full() {
            return;
        }
        match step {
            Step::Enter(region, scope) => {
                let mark = checker.defined.len();
                for &arg in &func.region(region).args {
                    checker.define(arg.0, scope.depth);
                }
                steps.push(Step::Ops { region, next: 0, mark, scope });
            }
            Step::Ops { region, next, mark, scope } => match func.region(region).ops.get(next) {
                Some(&id) => {
                    steps.push(Step::Ops { region, next: next + 1, mark, scope });
                    steps.push(Step::Define(id, scope.depth));
                    let op = func.op(id);
                    checker.op(op, scope);
                    if op.regions.is_empty() {
                        continue;
                    }
                    let depth = scope.depth + 1;
                    if depth > MAX_NESTING {
                        checker.add(op, Violation::new("", format!("regions nest deeper than {MAX_NESTING}")));
                        continue;
                    }
                    let inner = Scope { depth, floor: if is_isolated(op) { depth } else { scope.floor } };
                    for &region in op.regions.iter().rev() {
                        checker.terminators(region, Some(op));
                        steps.push(Step::Enter(region, inner));
                    }
                }
                None => checker.leave(mark),
            },
            Step::Define(id, depth) => {
                let op = func.op(id);
                op.results().for_each(|value| checker.define(value.0, depth));
            }
        }
    }
    checker.terminators(body, None);
}

/// Ops whose regions see nothing from outside.
fn is_isolated(op: &Op) -> bool {
    matches!(
        op.kind(),
        Some(OpKind::SdyManualComputation | OpKind::SdyNamedComputation | OpKind::AsyncStart | OpKind::ChloScan)
    )
}

struct Checker<'a, 'r> {
    func: &'a Func,
    symbols: &'a Symbols<'a>,
    report: &'r mut Report,
    /// Depth of the region that defines a value; 0 while it is out of scope.
    depths: Vec<u32>,
    /// Values in scope, innermost region last.
    defined: Vec<u32>,
}

impl Checker<'_, '_> {
    fn define(&mut self, value: u32, depth: u32) {
        self.depths[value as usize] = depth;
        self.defined.push(value);
    }

    fn leave(&mut self, mark: usize) {
        for value in self.defined.drain(mark..) {
            self.depths[value as usize] = 0;
        }
    }

    fn add(&mut self, op: &Op, violation: Violation) {
        self.report.add(&self.func.name, op.name.as_str(), &op.loc, violation);
    }

    /// A region ends in the return of its dialect, and no return stands before the end.
    fn terminators(&mut self, region: Region, parent: Option<&Op>) {
        let expected: &[OpKind] = match parent.map(|op| &op.name) {
            None => &[OpKind::FuncReturn, OpKind::Return],
            Some(OpName::Known(OpKind::SdyManualComputation | OpKind::SdyNamedComputation)) => &[OpKind::SdyReturn],
            Some(OpName::Known(_)) => &[OpKind::Return],
            Some(OpName::Extern(_)) => return,
        };
        let ops = &self.func.region(region).ops;
        let last = ops.last().map(|&id| self.func.op(id));
        if !last.and_then(Op::kind).is_some_and(|kind| expected.contains(&kind)) {
            let message = format!("the region must end in {}", expected[0].name());
            match last.or(parent) {
                Some(op) => self.add(op, Violation::new("", message)),
                None => self.report.func(self.func, Violation::new("", message)),
            }
        }
        for &id in &ops[..ops.len().saturating_sub(1)] {
            let op = self.func.op(id);
            if op.kind().is_some_and(OpKind::is_terminator) {
                self.add(op, Violation::new("", "a return must be the last op of its region"));
            }
        }
    }

    fn op(&mut self, op: &Op, scope: Scope) {
        for (n, operand) in op.operands.iter().enumerate() {
            let depth = self.depths[operand.0 as usize];
            if depth == 0 {
                let message = format!("operand {n} is read before it is defined or outside its region");
                self.add(op, Violation::new("", message));
            } else if depth < scope.floor {
                self.add(op, Violation::new("", format!("operand {n} is defined outside an isolated region")));
            }
        }
        if let Err(violation) = self.rules(op, scope.depth) {
            self.add(op, violation);
        }
    }

    fn rules(&self, op: &Op, depth: u32) -> Result<(), Violation> {
        let results: Vec<Type> = op.results().map(|value| self.func.ty(value).clone()).collect();
        for (n, ty) in results.iter().enumerate() {
            types::value(ty).map_err(|violation| Violation {
                message: format!("result {n}: {}", violation.message),
                ..violation
            })?;
        }
        for &region in &op.regions {
            for &arg in &self.func.region(region).args {
                types::value(self.func.ty(arg))?;
            }
        }
        if let Some(attr) = op.attr("sdy.sharding") {
            sharding::annotation(Some(self.symbols), attr, &results)?;
        }
        let Some(kind) = op.kind() else { return self.cast(op, &results) };
        let def = kind.def();
        arity("operands", def.operands, op.operands.len())?;
        arity("results", def.results, results.len())?;
        arity("regions", def.regions, op.regions.len())?;
        attributes::check(def, &op.attrs)?;
        let operands: Vec<Type> = op.operands.iter().map(|&value| self.func.ty(value).clone()).collect();
        if matches!(kind, OpKind::FuncReturn | OpKind::Return) && depth == BODY {
            return self.returns(&operands);
        }
        if kind == OpKind::FuncReturn {
            return Err(Violation::new("", "func.return must end a function"));
        }
        let view = OpView { symbols: Some(self.symbols), ..OpView::of(self.func, op, &operands, &results) };
        constraints(kind, &view)
    }

    /// A cast of another dialect between tensors changes no type: readers take its result for its operand.
    fn cast(&self, op: &Op, results: &[Type]) -> Result<(), Violation> {
        if op.name.as_str() != "builtin.unrealized_conversion_cast" {
            return Ok(());
        }
        for (n, (&operand, result)) in op.operands.iter().zip(results).enumerate() {
            let operand = self.func.ty(operand);
            require!(
                operand.as_tensor().is_none() || result.as_tensor().is_none() || operand == result,
                "",
                "operand {n} is {}, result {n} is {}; a cast between tensors keeps the type",
                spelling::ty(operand),
                spelling::ty(result)
            );
        }
        Ok(())
    }

    fn returns(&self, operands: &[Type]) -> Result<(), Violation> {
        if operands == self.func.outputs {
            return Ok(());
        }
        let message = format!(
            "returns {}, the signature says {}",
            spelling::types(operands),
            spelling::types(&self.func.outputs)
        );
        Err(Violation::new("", message))
    }
}

/// The op's results are those inferred, and it keeps its other constraints.
pub(crate) fn constraints(kind: OpKind, view: &OpView<'_>) -> Result<(), Violation> {
    let def = kind.def();
    if let Some(infer) = &def.infer {
        let types = (infer.types)(view)?;
        require!(
            types.len() == view.results.len(),
            infer.clause,
            "{} results, {} expected",
            view.results.len(),
            types.len()
        );
        for (n, (want, have)) in types.iter().zip(view.results).enumerate() {
            require!(
                shapes::types_agree(want, have),
                infer.clause,
                "result {n} must be {}, is {}",
                spelling::ty(want),
                spelling::ty(have)
            );
        }
    }
    (def.check)(view)
}

fn arity(name: &str, arity: Arity, have: usize) -> Result<(), Violation> {
    if arity.allows(have) {
        return Ok(());
    }
    let want = match (arity.min, arity.max) {
        (min, max) if min == max => format!("{min}"),
        (min, u32::MAX) => format!("at least {min}"),
        (min, max) => format!("{min} to {max}"),
    };
    Err(Violation::new("", format!("{have} {name}, {want} expected")))
}
