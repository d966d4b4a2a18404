//! How often a `while` runs: the bound from its condition, the step from its body, the start from its operand.

use crate::json::Json;
use crate::literal::scalar_integer;
use crate::module::{ComputationId, HloModule, InstructionId};
use crate::opcode::Opcode;

/// Iterations of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TripCount {
    /// The body runs this often.
    Known(u64),
    /// Not decidable from the program.
    Unknown {
        /// What stands in the way.
        reason: String,
    },
}

/// A scalar: `constant`, or `element of the loop state + constant`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Scalar {
    element: Option<u32>,
    offset: i64,
}

const FUEL: u32 = 20_000;
const MAX_DEPTH: u32 = 200;

impl HloModule {
    /// Trip count of a `while` instruction.
    pub fn trip_count(&self, id: InstructionId) -> TripCount {
        let instruction = self.instruction(id);
        let &[body, condition] = &*instruction.called else {
            return TripCount::Unknown { reason: format!("{} is not a loop", instruction.name) };
        };
        if let Some(n) = self.annotated_trip_count(id) {
            return TripCount::Known(n);
        }
        match (Loop { module: self, while_: id, body, condition, fuel: FUEL }).trips() {
            Ok(n) => TripCount::Known(n),
            Err(reason) => TripCount::Unknown { reason },
        }
    }

    /// CPU and GPU compilers write the count down; the TPU compiler does not.
    fn annotated_trip_count(&self, id: InstructionId) -> Option<u64> {
        let config = self.instruction(id).backend_config_json()?;
        let n = config.get("known_trip_count")?.get("n").and_then(Json::as_i64)?;
        u64::try_from(n).ok()
    }
}

struct Loop<'m> {
    module: &'m HloModule,
    while_: InstructionId,
    body: ComputationId,
    condition: ComputationId,
    fuel: u32,
}

impl Loop<'_> {
    fn trips(&mut self) -> Result<u64, String> {
        let compare = self.compare()?;
        let instruction = self.module.instruction(compare);
        let &[lhs, rhs] = instruction.operands() else { return Err("comparison without two operands".into()) };
        let (lhs_start, lhs_step) = self.progression(lhs)?;
        let (rhs_start, rhs_step) = self.progression(rhs)?;
        let overflow = || "bounds overflow".to_owned();
        let start = lhs_start.checked_sub(rhs_start).ok_or_else(overflow)?;
        let step = lhs_step.checked_sub(rhs_step).ok_or_else(overflow)?;
        solve(&instruction.attributes().comparison_direction, start, step)
    }

    /// The comparison that decides whether to go on, looked up through fusions and copies.
    fn compare(&self) -> Result<InstructionId, String> {
        let mut at = self.module.computation(self.condition).root;
        for _ in 0..MAX_DEPTH {
            let instruction = self.module.instruction(at);
            at = match (&instruction.opcode, &*instruction.called, &*instruction.operands) {
                (Opcode::Compare, _, _) => return Ok(at),
                (Opcode::Fusion | Opcode::Call, [callee], _) => self.module.computation(*callee).root,
                (Opcode::Copy | Opcode::Bitcast | Opcode::Convert, _, [operand]) => *operand,
                (opcode, _, _) => return Err(format!("the condition ends in {opcode}, not in one comparison")),
            };
        }
        Err("the condition nests too deep".into())
    }

    /// Start and step of one side of the comparison.
    fn progression(&mut self, side: InstructionId) -> Result<(i64, i64), String> {
        let name = self.module.instruction(side).name.to_string();
        let parameter = self.parameter(self.condition)?;
        let value =
            self.scalar(side, None, Some(parameter), 0).ok_or(format!("{name} in the condition is not constant"))?;
        let Some(element) = value.element else { return Ok((value.offset, 0)) };
        let step = self.step(self.body, element)?;
        let operand = self.module.instruction(self.while_).operands[0];
        let init = self
            .scalar(operand, Some(element), None, 0)
            .ok_or(format!("the initial value of loop variable {element} is not constant"))?;
        let start = init.offset.checked_add(value.offset).ok_or("bounds overflow")?;
        Ok((start, step))
    }

    fn parameter(&self, computation: ComputationId) -> Result<InstructionId, String> {
        self.module
            .computation(computation)
            .parameters
            .first()
            .copied()
            .ok_or_else(|| "a loop without state".to_owned())
    }

    fn step(&mut self, body: ComputationId, element: u32) -> Result<i64, String> {
        let parameter = self.parameter(body)?;
        let root = self.module.computation(body).root;
        match self.scalar(root, Some(element), Some(parameter), 0) {
            Some(Scalar { element: Some(e), offset }) if e == element => Ok(offset),
            _ => Err(format!("the body does not change loop variable {element} by a constant")),
        }
    }

    /// Value of `at` (of its tuple element `part`), constant or relative to an element of `state`.
    fn scalar(
        &mut self,
        at: InstructionId,
        part: Option<u32>,
        state: Option<InstructionId>,
        depth: u32,
    ) -> Option<Scalar> {
        self.fuel = self.fuel.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let deeper = depth + 1;
        let instruction = self.module.instruction(at);
        let operand = |i: usize| instruction.operands.get(i).copied();
        match instruction.opcode {
            Opcode::Constant => {
                scalar_integer(instruction).map(|offset| Scalar { element: None, offset }).filter(|_| part.is_none())
            }
            Opcode::GetTupleElement if part.is_none() => {
                self.scalar(operand(0)?, instruction.attributes().tuple_index, state, deeper)
            }
            Opcode::Tuple => self.scalar(operand(part? as usize)?, None, state, deeper),
            Opcode::Parameter if state == Some(at) => part.map(|e| Scalar { element: Some(e), offset: 0 }),
            Opcode::Parameter => self.argument(at, part, state, deeper),
            Opcode::While => {
                self.passes_through(*instruction.called.first()?, part?, deeper)?;
                self.scalar(operand(0)?, part, state, deeper)
            }
            Opcode::Fusion | Opcode::Call => {
                let &[callee] = &*instruction.called else { return None };
                self.scalar(self.module.computation(callee).root, part, state, deeper)
            }
            Opcode::OptimizationBarrier | Opcode::Copy => self.scalar(operand(0)?, part, state, deeper),
            Opcode::Bitcast | Opcode::Reshape | Opcode::Convert | Opcode::CopyStart | Opcode::CopyDone => {
                self.scalar(operand(0)?, None, state, deeper)
            }
            Opcode::Negate => {
                let value = self.scalar(operand(0)?, None, state, deeper).filter(|v| v.element.is_none())?;
                Some(Scalar { element: None, offset: value.offset.checked_neg()? })
            }
            Opcode::Add | Opcode::Subtract | Opcode::Multiply | Opcode::Minimum | Opcode::Maximum => {
                let a = self.scalar(operand(0)?, None, state, deeper)?;
                let b = self.scalar(operand(1)?, None, state, deeper)?;
                combine(&instruction.opcode, a, b)
            }
            _ => None,
        }
    }

    /// A parameter's value, from the one place that calls its computation.
    fn argument(
        &mut self,
        at: InstructionId,
        part: Option<u32>,
        state: Option<InstructionId>,
        depth: u32,
    ) -> Option<Scalar> {
        let parameter = self.module.instruction(at);
        let &[caller] = &*self.module.computation(parameter.computation).callers else { return None };
        let call = self.module.instruction(caller);
        match call.opcode {
            Opcode::Fusion | Opcode::Call | Opcode::AsyncStart => {
                let number = parameter.attributes().parameter_number? as usize;
                self.scalar(*call.operands.get(number)?, part, state, depth)
            }
            Opcode::While => {
                self.passes_through(*call.called.first()?, part?, depth)?;
                self.scalar(*call.operands.first()?, part, state, depth)
            }
            _ => None,
        }
    }

    /// Whether a loop body returns element `part` of its state unchanged.
    fn passes_through(&mut self, body: ComputationId, part: u32, depth: u32) -> Option<()> {
        let body = self.module.computation(body);
        let parameter = *body.parameters.first()?;
        let value = self.scalar(body.root, Some(part), Some(parameter), depth)?;
        (value == Scalar { element: Some(part), offset: 0 }).then_some(())
    }
}

fn combine(opcode: &Opcode, a: Scalar, b: Scalar) -> Option<Scalar> {
    let offset = match opcode {
        Opcode::Add if a.element.is_none() || b.element.is_none() => a.offset.checked_add(b.offset)?,
        Opcode::Subtract if b.element.is_none() => a.offset.checked_sub(b.offset)?,
        _ if a.element.is_some() || b.element.is_some() => return None,
        Opcode::Multiply => a.offset.checked_mul(b.offset)?,
        Opcode::Minimum => a.offset.min(b.offset),
        Opcode::Maximum => a.offset.max(b.offset),
        _ => return None,
    };
    Some(Scalar { element: a.element.or(b.element), offset })
}

/// Iterations while `start + k * step <direction> 0` holds.
fn solve(direction: &str, start: i64, step: i64) -> Result<u64, String> {
    let overflow = || "bounds overflow".to_owned();
    let (start, step) = match direction {
        "LT" => (start, step),
        "LE" => (start.checked_sub(1).ok_or_else(overflow)?, step),
        "GT" => (start.checked_neg().ok_or_else(overflow)?, step.checked_neg().ok_or_else(overflow)?),
        "GE" => {
            let below = start.checked_neg().and_then(|s| s.checked_sub(1)).ok_or_else(overflow)?;
            (below, step.checked_neg().ok_or_else(overflow)?)
        }
        "NE" if start == 0 => return Ok(0),
        "NE" if step != 0 && start.checked_rem(step) == Some(0) && (start < 0) == (step > 0) => {
            return Ok(start.unsigned_abs() / step.unsigned_abs());
        }
        "EQ" if start != 0 => return Ok(0),
        "EQ" if step != 0 => return Ok(1),
        other => return Err(format!("a loop on {other} from {start} by {step} has no bound")),
    };
    match (start, step) {
        (0.., _) => Ok(0),
        (_, 1..) => Ok(start.unsigned_abs().div_ceil(step.unsigned_abs())),
        _ => Err("the loop variable does not approach its bound".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        for (direction, start, step, trips) in [
            ("LT", -5, 1, 5),
            ("LT", -5, 2, 3),
            ("LT", 0, 1, 0),
            ("LE", -5, 2, 3),
            ("LE", 0, 1, 1),
            ("GT", 5, -2, 3),
            ("GE", 4, -2, 3),
            ("NE", -6, 3, 2),
            ("NE", 6, -2, 3),
            ("EQ", 0, 1, 1),
        ] {
            assert_eq!(solve(direction, start, step), Ok(trips), "{direction} {start} {step}");
        }
        for (direction, start, step) in [("LT", -1, 0), ("LT", -1, -1), ("NE", 5, -2), ("GT", i64::MIN, 1), ("", 0, 0)]
        {
            assert!(solve(direction, start, step).is_err(), "{direction} {start} {step}");
        }
    }
}
