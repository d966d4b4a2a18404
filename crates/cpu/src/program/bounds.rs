//! The check that no step of a program leaves its arrays, done once when the program is compiled.
//!
//! Kernels say what they touch (see [`crate::footprint`]), from their own numbers; here that is compared with the memory each
//! slot has. Beside it: outputs overlap nothing that a kernel may not share, and what is read was written before, so that a
//! result never shows what other programs left in memory.

use std::collections::BTreeMap;

use super::{Case, Kernel, Place, Program, Selector, Slot, Step, While, Work};
use crate::error::Error;
use crate::footprint::Written;
use crate::memory::{ALIGN, device_bytes};

impl Program {
    /// Refuses a program with a step that does not fit its memory, by the name of the step.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut check = Check { program: self, written: vec![false; self.slots.len()], rounds: BTreeMap::new() };
        if self.slots.len() != self.slot_bytes.len() || self.owned.len() != self.argument_bytes.len() {
            return Err(check.refuse("program", "has places without sizes"));
        }
        for (n, place) in self.slots.iter().enumerate() {
            check.written[n] = matches!(place, Place::Argument(_) | Place::OwnedArgument(_) | Place::Constant(_));
        }
        check.steps(&self.steps)?;
        check.results()
    }
}

struct Check<'p> {
    program: &'p Program,
    /// Slots whose memory has been filled, at this point of the program.
    written: Vec<bool>,
    /// For slots that change places in the loops around this point, the number of the group that do so among themselves.
    rounds: BTreeMap<Slot, usize>,
}

impl Check<'_> {
    fn refuse(&self, step: &str, what: &str) -> Error {
        Error::Unsupported { what: format!("a compiled step that does not fit its arrays: {step} {what}") }
    }

    /// Bytes of a slot, once it is known that its place has them.
    fn bytes(&self, slot: Slot, step: &str) -> Result<usize, Error> {
        let missing = || self.refuse(step, "uses an array that has no place");
        let (place, bytes) =
            self.program.slots.get(slot.index()).zip(self.program.slot_bytes.get(slot.index())).ok_or_else(missing)?;
        let program = self.program;
        let room = match *place {
            Place::Argument(n) if program.owned.get(n) == Some(&false) => program.argument_bytes.get(n).copied(),
            Place::OwnedArgument(n) if program.owned.get(n) == Some(&true) => program.argument_bytes.get(n).copied(),
            // The step that says where it lies was compared with the argument.
            Place::Part(n) if program.owned.get(n) == Some(&false) => {
                program.argument_bytes.get(n).map(|&room| room.min(*bytes))
            }
            Place::Argument(_) | Place::OwnedArgument(_) | Place::Part(_) => None,
            Place::Constant(n) => program.constants.get(n).map(|storage| storage.size()),
            Place::Arena(offset) => program
                .arena_bytes
                .checked_sub(offset)
                .filter(|_| offset.is_multiple_of(ALIGN))
                .map(|room| room.min(*bytes)),
            Place::Result(n) => match program.results.get(n) {
                Some(port) if port.argument.is_none() => device_bytes(port.dtype, &port.dims),
                _ => None,
            },
        };
        if room != Some(*bytes) {
            let room = room.map_or("no".into(), |room| room.to_string());
            return Err(self.refuse(step, &format!("uses an array of {bytes} bytes where there are {room} bytes")));
        }
        Ok(*bytes)
    }

    /// Adds the slots that a loop exchanges, by groups: within the loop a step may meet either where it meets one.
    fn exchange(&mut self, body: &While) -> Result<(), Error> {
        let program = self.program;
        let is_written = |slot: Slot| {
            let place = program.slots.get(slot.index());
            place.is_some_and(|place| !matches!(place, Place::Constant(_) | Place::Argument(_) | Place::Part(_)))
        };
        for &(slot, next, bytes) in &body.rotate {
            if [self.bytes(slot, "while")?, self.bytes(next, "while")?] != [bytes; 2] {
                return Err(self.refuse("while", "exchanges arrays of other sizes"));
            }
            if slot == next || self.overlap(slot, next) || !is_written(slot) || !is_written(next) {
                return Err(self.refuse("while", "exchanges arrays that share memory or are only read"));
            }
            let groups = [slot, next].map(|slot| self.rounds.get(&slot).copied());
            let fresh = self.rounds.values().max().map_or(0, |last| last + 1);
            let group = groups[0].or(groups[1]).unwrap_or(fresh);
            for other in groups.into_iter().flatten().filter(|&other| other != group) {
                self.rounds.values_mut().filter(|number| **number == other).for_each(|number| *number = group);
            }
            self.rounds.extend([(slot, group), (next, group)]);
        }
        Ok(())
    }

    /// Whether the planned places of two slots have a byte in common.
    fn overlap(&self, one: Slot, other: Slot) -> bool {
        let bytes = |slot: Slot| self.program.slot_bytes[slot.index()];
        let (first, second) = (bytes(one), bytes(other));
        if first == 0 || second == 0 {
            return false;
        }
        match (self.program.slots[one.index()], self.program.slots[other.index()]) {
            (Place::Arena(a), Place::Arena(b)) => a < b.saturating_add(second) && b < a.saturating_add(first),
            (
                Place::Argument(a) | Place::OwnedArgument(a) | Place::Part(a),
                Place::Argument(b) | Place::OwnedArgument(b) | Place::Part(b),
            ) => a == b,
            (a, b) => a == b,
        }
    }

    /// Whether two different slots can lie in the same memory at some time.
    fn can_meet(&self, one: Slot, other: Slot) -> bool {
        let (first, second) = (self.rounds.get(&one), self.rounds.get(&other));
        if first.is_none() && second.is_none() {
            return self.overlap(one, other);
        }
        if first == second {
            // They exchange places with each other, which do not overlap.
            return self.overlap(one, other);
        }
        let places = |slot: Slot, group: Option<&usize>| -> Vec<Slot> {
            match group {
                Some(group) => {
                    self.rounds.iter().filter(|(_, number)| *number == group).map(|(slot, _)| *slot).collect()
                }
                None => vec![slot],
            }
        };
        let others = places(other, second);
        places(one, first).iter().any(|&a| others.iter().any(|&b| self.overlap(a, b)))
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            match &step.work {
                Work::Kernel(kernel) => self.kernel(step, &**kernel)?,
                Work::While(body) => self.repeat(body)?,
                Work::Case(case) => self.choose(case)?,
            }
        }
        Ok(())
    }

    fn read(&self, slot: Slot, bytes: usize, step: &str) -> Result<(), Error> {
        let room = self.bytes(slot, step)?;
        if bytes > room {
            return Err(self.refuse(step, &format!("reads {bytes} bytes of an array of {room}")));
        }
        if bytes > 0 && !self.written[slot.index()] {
            return Err(self.refuse(step, "reads an array that is not written yet"));
        }
        Ok(())
    }

    fn kernel(&mut self, step: &Step, kernel: &dyn Kernel) -> Result<(), Error> {
        let name = kernel.name();
        let footprint = kernel.footprint().ok_or_else(|| self.refuse(&name, "has sizes or types that contradict"))?;
        if (footprint.reads.len(), footprint.writes.len()) != (step.inputs.len(), step.outputs.len()) {
            return Err(self.refuse(&name, "has another number of arrays"));
        }
        for (&slot, &bytes) in step.inputs.iter().zip(&footprint.reads) {
            self.read(slot, bytes, &name)?;
        }
        if kernel.is_part() {
            return self.part(step, &name, footprint.writes[0].bytes());
        }
        for (n, (&slot, &written)) in step.outputs.iter().zip(&footprint.writes).enumerate() {
            let (room, bytes) = (self.bytes(slot, &name)?, written.bytes());
            let fits = match written {
                Written::Whole(_) | Written::Packed(_) => bytes == room,
                Written::Within(_) => bytes <= room && (bytes == 0 || self.written[slot.index()]),
            };
            if !fits {
                return Err(self.refuse(&name, &format!("writes {bytes} bytes of an array of {room}")));
            }
            if matches!(self.program.slots[slot.index()], Place::Argument(_) | Place::Constant(_) | Place::Part(_)) {
                return Err(self.refuse(&name, "writes to an array that is only read"));
            }
            for (k, &input) in step.inputs.iter().enumerate() {
                let is_shared = if input == slot { !kernel.may_share(k, n) } else { self.can_meet(input, slot) };
                if is_shared && footprint.reads[k] > 0 && bytes > 0 {
                    return Err(self.refuse(&name, "writes where it reads"));
                }
            }
            for (m, &other) in step.outputs.iter().enumerate().take(n) {
                let is_shared =
                    if other == slot { !kernel.outputs_may_share(m, n) } else { self.can_meet(other, slot) };
                if is_shared && bytes > 0 && footprint.writes[m].bytes() > 0 {
                    return Err(self.refuse(&name, "writes two results to one place"));
                }
            }
        }
        for slot in &step.outputs {
            self.written[slot.index()] = true;
        }
        Ok(())
    }

    /// A part of an argument, as many bytes as its slot has: wherever it lies, the step reads no further than the argument.
    fn part(&mut self, step: &Step, name: &str, bytes: usize) -> Result<(), Error> {
        let place = |slot: Option<&Slot>| slot.and_then(|slot| self.program.slots.get(slot.index())).copied();
        let slot = match (&step.outputs[..], place(step.inputs.first()), place(step.outputs.first())) {
            (&[slot], Some(Place::Argument(whole)), Some(Place::Part(part))) if whole == part => slot,
            _ => return Err(self.refuse(name, "is no part of an array that is only read")),
        };
        if self.bytes(slot, name)? != bytes {
            return Err(self.refuse(name, "is a part of another size"));
        }
        self.written[slot.index()] = true;
        Ok(())
    }

    fn repeat(&mut self, body: &While) -> Result<(), Error> {
        let outside = self.rounds.clone();
        self.exchange(body)?;
        self.steps(&body.condition)?;
        self.read(body.answer, 1, "the condition of a while")?;
        // The body may not run at all: what it writes is not there after the loop.
        let before = self.written.clone();
        self.steps(&body.body)?;
        for &(slot, next, bytes) in &body.rotate {
            self.read(slot, bytes, "while")?;
            self.read(next, bytes, "while")?;
        }
        (self.written, self.rounds) = (before, outside);
        Ok(())
    }

    fn choose(&mut self, case: &Case) -> Result<(), Error> {
        let (name, bytes) = match case.selector {
            Selector::Boolean => ("if", size_of::<bool>()),
            Selector::Index => ("case", size_of::<i32>()),
        };
        self.read(case.index, bytes, name)?;
        let fits = match case.selector {
            Selector::Boolean => case.branches.len() == 2,
            Selector::Index => !case.branches.is_empty(),
        };
        if !fits {
            return Err(self.refuse(name, "has another number of branches"));
        }
        let before = self.written.clone();
        let mut after = vec![true; before.len()];
        for branch in &case.branches {
            self.written.clone_from(&before);
            self.steps(branch)?;
            // What only some branches write is not there after them.
            after.iter_mut().zip(&self.written).for_each(|(all, one)| *all &= one);
        }
        self.written = after;
        Ok(())
    }

    fn results(&self) -> Result<(), Error> {
        for (n, port) in self.program.results.iter().enumerate() {
            let bytes = device_bytes(port.dtype, &port.dims);
            let is_there = match port.argument {
                Some(argument) => {
                    self.program.owned.get(argument) == Some(&true)
                        && self.program.argument_bytes.get(argument).copied() == bytes
                }
                None => {
                    let mut slots = self.program.slots.iter().zip(&self.written);
                    bytes == Some(0) || slots.any(|(place, &written)| *place == Place::Result(n) && written)
                }
            };
            if !is_there || bytes.is_none() {
                return Err(self.refuse("return", &format!("has no memory for result {n}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernels::machine::Machine;
    use crate::lower::{self, Donation};
    use crate::memory::Arena;

    /// Lowers a program as it is written, valid or not.
    fn compile(text: &str) -> Result<Program, Error> {
        let module = Arc::new(hlo::text::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")));
        let count = module.entry().map_or(0, |func| func.inputs.len());
        lower::compile(module, "main", &vec![Donation::Kept; count], &Machine::detect(), &Arena::new())
    }

    /// No verifier stands before the check here: the program is refused, and the message names the step.
    fn check_refused(text: &str, step: &str, what: &str) {
        let error = compile(text).err().unwrap_or_else(|| panic!("accepted:\n{text}")).to_string();
        assert!(error.contains(&format!(": {step}")) && error.contains(what), "{error}");
    }

    #[test]
    fn steps_larger_than_their_arrays_are_refused() {
        check_refused(
            "func.func @main(%x: tensor<4xf32>) -> tensor<1024xf32> {
  %0 = \"stablehlo.add\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<1024xf32>
  return %0 : tensor<1024xf32>
}",
            "loop<add>",
            "bytes of an array of 16",
        );
        check_refused(
            "func.func @main(%x: tensor<64x4xf32>) -> (tensor<4xi8>, tensor<1xi32>) {
  %0:2 = \"chlo.top_k\"(%x) <{k = 4 : i64}> : (tensor<64x4xf32>) -> (tensor<4xi8>, tensor<1xi32>)
  return %0#0, %0#1 : tensor<4xi8>, tensor<1xi32>
}",
            "top_k",
            "writes 1024 bytes of an array of 4",
        );
        check_refused(
            "func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = \"stablehlo.dot_general\"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}",
            "dot f32",
            "writes 256 bytes of an array of 128",
        );
        check_refused(
            "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = \"stablehlo.slice\"(%x) <{start_indices = array<i64: 4>, limit_indices = array<i64: 12>, strides = array<i64: 1>}> : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}",
            "copy",
            "reads 48 bytes of an array of 32",
        );
    }

    #[test]
    fn types_that_a_loop_mixes_are_refused() {
        check_refused(
            "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf64>) -> tensor<4xf32> {
  %0 = \"stablehlo.add\"(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}",
            "loop<add>",
            "contradict",
        );
    }

    const PROGRAM: &str = "func.func @main(%x: tensor<6x6xf32>, %i: tensor<i32>) -> (tensor<6x6xf32>, tensor<6x6xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%a = %x, %k = %zero) : tensor<6x6xf32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %k, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    %e = stablehlo.tanh %d : tensor<6x6xf32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %e, %m : tensor<6x6xf32>, tensor<i32>
  }
  %s = \"stablehlo.case\"(%i) ({
    %p = stablehlo.negate %r#0 : tensor<6x6xf32>
    stablehlo.return %p : tensor<6x6xf32>
  }, {
    stablehlo.return %x : tensor<6x6xf32>
  }) : (tensor<i32>) -> tensor<6x6xf32>
  return %r#0, %s, %r#1 : tensor<6x6xf32>, tensor<6x6xf32>, tensor<i32>
}";

    fn named(steps: &[Step], into: &mut Vec<Slot>) {
        for step in steps {
            match &step.work {
                Work::Kernel(_) => into.extend(step.inputs.iter().chain(&step.outputs)),
                Work::While(body) => {
                    into.push(body.answer);
                    into.extend(body.rotate.iter().flat_map(|&(slot, next, _)| [slot, next]));
                    named(&body.condition, into);
                    named(&body.body, into);
                }
                Work::Case(case) => {
                    into.push(case.index);
                    case.branches.iter().for_each(|branch| named(branch, into));
                }
            }
        }
    }

    #[test]
    fn every_slot_counts() {
        let whole = compile(PROGRAM).unwrap();
        let mut slots = Vec::new();
        named(&whole.steps, &mut slots);
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() > 8, "{}", whole.dump());
        for slot in slots {
            let mut program = compile(PROGRAM).unwrap();
            program.slot_bytes[slot.index()] -= 1;
            assert!(program.check().is_err(), "a byte less for %{} in\n{}", slot.0, program.dump());
        }
        let mut program = compile(PROGRAM).unwrap();
        program.arena_bytes -= ALIGN;
        assert!(program.check().is_err());
        for n in 0..2 {
            let mut program = compile(PROGRAM).unwrap();
            program.argument_bytes[n] -= 1;
            assert!(program.check().is_err());
        }
        for n in 0..3 {
            let mut program = compile(PROGRAM).unwrap();
            program.results[n].dtype = tensor::DType::I8;
            assert!(program.check().is_err());
        }
    }

    #[test]
    fn what_was_not_written_is_not_shown() {
        let mut program = compile(PROGRAM).unwrap();
        let Some(Work::Case(case)) = program.steps.iter_mut().map(|step| &mut step.work).last() else {
            panic!("{}", program.dump());
        };
        case.branches[1].clear();
        let error = program.check().unwrap_err().to_string();
        assert!(error.contains("has no memory for result"), "{error}");
        // A loop whose body does not make the next value.
        let mut program = compile(PROGRAM).unwrap();
        for step in &mut program.steps {
            if let Work::While(body) = &mut step.work {
                body.body.clear();
            }
        }
        assert!(program.check().is_err());
    }

    #[test]
    fn outputs_do_not_lie_where_inputs_do() {
        let dot = |left: &str, right: &str| {
            let types = "(tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>";
            format!("stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0] : {types}")
        };
        let (a, b, c) = (dot("%x", "%x"), dot("%a", "%x"), dot("%b", "%a"));
        let text = format!(
            "func.func @main(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {{
  %a = {a}
  %b = {b}
  %c = {c}
  return %c : tensor<6x6xf32>
}}"
        );
        let mut program = compile(&text).unwrap();
        let arena: Vec<usize> =
            (0..program.slots.len()).filter(|&n| matches!(program.slots[n], Place::Arena(_))).collect();
        assert!(arena.len() == 2 && program.slots[arena[0]] != program.slots[arena[1]], "{}", program.dump());
        program.slots[arena[1]] = program.slots[arena[0]];
        let error = program.check().unwrap_err().to_string();
        assert!(error.contains("writes where it reads"), "{error}");
    }
}
