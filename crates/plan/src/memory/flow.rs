//! Who reads a value of a compiled program, through tuples, loops and calls.

use std::collections::HashSet;

use xla::{HloModule, InstructionId, Opcode, Users};

/// Follows values of one program.
pub(super) struct Flow<'a> {
    module: &'a HloModule,
    users: Users,
}

/// A part of an instruction's result.
type Place = (InstructionId, Vec<i64>);

/// Places followed for one value.
const MAX_PLACES: usize = 4000;

impl<'a> Flow<'a> {
    pub(super) fn of(module: &'a HloModule) -> Flow<'a> {
        Flow { module, users: module.users() }
    }

    /// The instructions that read a value, each at least once. What only passes it on is not among them.
    pub(super) fn readers(&self, definition: InstructionId, index: &[i64]) -> Vec<InstructionId> {
        let mut seen: HashSet<Place> = HashSet::new();
        let mut readers = Vec::new();
        let mut pending: Vec<Place> = vec![(definition, index.to_vec())];
        while let Some(place) = pending.pop() {
            if seen.len() >= MAX_PLACES || !seen.insert(place.clone()) {
                continue;
            }
            let (id, index) = place;
            self.leaves_computation(id, &index, &mut pending);
            for &user in self.users.of(id) {
                self.enters(user, id, &index, &mut pending, &mut readers);
            }
        }
        readers
    }

    fn enters(
        &self,
        user: InstructionId,
        operand: InstructionId,
        index: &[i64],
        pending: &mut Vec<Place>,
        readers: &mut Vec<InstructionId>,
    ) {
        let instruction = self.module.instruction(user);
        let positions =
            || instruction.operands().iter().enumerate().filter(|(_, found)| **found == operand).map(|(n, _)| n);
        let parameter = |computation, number: usize| {
            let parameters = self.module.computation(computation).parameters();
            parameters.get(number).map(|&parameter| (parameter, index.to_vec()))
        };
        match instruction.opcode() {
            Opcode::GetTupleElement => {
                let wanted = instruction.attributes().tuple_index.map(i64::from);
                if let [first, rest @ ..] = index
                    && wanted == Some(*first)
                {
                    pending.push((user, rest.to_vec()));
                }
            }
            Opcode::Tuple => pending.extend(positions().map(|n| {
                let mut inner = vec![n as i64];
                inner.extend_from_slice(index);
                (user, inner)
            })),
            Opcode::While => {
                pending.push((user, index.to_vec()));
                pending.extend(instruction.called_computations().iter().filter_map(|&called| parameter(called, 0)));
            }
            Opcode::Call => {
                for &called in instruction.called_computations() {
                    pending.extend(positions().filter_map(|n| parameter(called, n)));
                }
            }
            Opcode::Conditional => {
                for n in positions().filter(|&n| n > 0) {
                    let branch = instruction.called_computations().get(n - 1);
                    pending.extend(branch.and_then(|&branch| parameter(branch, 0)));
                }
            }
            Opcode::Bitcast | Opcode::OptimizationBarrier | Opcode::AddDependency | Opcode::Domain => {
                pending.push((user, index.to_vec()));
            }
            _ => readers.push(user),
        }
    }

    /// The result of a loop's body is its next input and, in the end, the result of the loop.
    fn leaves_computation(&self, id: InstructionId, index: &[i64], pending: &mut Vec<Place>) {
        let home = self.module.instruction(id).computation();
        let computation = self.module.computation(home);
        if computation.root() != id || computation.is_fusion() {
            return;
        }
        for &caller in computation.callers() {
            let instruction = self.module.instruction(caller);
            match instruction.opcode() {
                Opcode::While if instruction.called_computations().first() == Some(&home) => {
                    pending.push((caller, index.to_vec()));
                    pending.extend(computation.parameters().first().map(|&parameter| (parameter, index.to_vec())));
                }
                Opcode::Call | Opcode::Conditional => pending.push((caller, index.to_vec())),
                _ => {}
            }
        }
    }
}
