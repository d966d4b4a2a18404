//! Bytes an instruction reads and writes per memory, counting slices of large operands by what they touch.

use crate::module::{HloModule, Instruction, InstructionId};
use crate::opcode::{Opcode, OpcodeClass};
use crate::shape::{MemorySpace, Shape};

/// Bytes by memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceBytes {
    /// Device main memory.
    pub hbm: f64,
    /// Vector memory.
    pub vmem: f64,
    /// Common memory of TPU v4.
    pub cmem: f64,
    /// Pinned host memory.
    pub host: f64,
    /// Scalar memory, flags and others.
    pub other: f64,
}

impl SpaceBytes {
    fn add(&mut self, space: MemorySpace, bytes: u64) {
        let bytes = bytes as f64;
        match space {
            MemorySpace::HBM => self.hbm += bytes,
            MemorySpace::VMEM => self.vmem += bytes,
            MemorySpace::CMEM => self.cmem += bytes,
            MemorySpace::HOST => self.host += bytes,
            _ => self.other += bytes,
        }
    }

    pub(crate) fn add_times(&mut self, other: SpaceBytes, times: f64) {
        self.hbm += other.hbm * times;
        self.vmem += other.vmem * times;
        self.cmem += other.cmem * times;
        self.host += other.host * times;
        self.other += other.other * times;
    }
}

/// Bytes moved by one execution of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes read.
    pub read: SpaceBytes,
    /// Bytes written.
    pub written: SpaceBytes,
}

/// Users of every instruction, computed once for [`Users::traffic`].
#[derive(Clone, Debug)]
pub struct Users {
    users: Vec<Vec<InstructionId>>,
}

const MAX_DEPTH: u32 = 16;
const FUEL: u32 = 10_000;

impl HloModule {
    /// Who uses which instruction.
    pub fn users(&self) -> Users {
        let mut users = vec![Vec::new(); self.instructions.len()];
        for (id, instruction) in self.instructions() {
            for operand in &instruction.operands {
                if users[operand.0 as usize].last() != Some(&id) {
                    users[operand.0 as usize].push(id);
                }
            }
        }
        Users { users }
    }
}

impl Users {
    /// The instructions that have `id` as an operand, each once.
    pub fn of(&self, id: InstructionId) -> &[InstructionId] {
        self.users.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Bytes one execution reads and writes. Nothing for instructions that only name values or run others (`tuple`,
    /// `bitcast`, `while`, ...): what they call is counted where it runs.
    pub fn traffic(&self, module: &HloModule, id: InstructionId) -> Traffic {
        let instruction = module.instruction(id);
        let mut traffic = Traffic::default();
        let mut fuel = FUEL;
        let shape_of = |i: usize| instruction.operands.get(i).map(|&o| module.instruction(o).shape());
        match instruction.opcode {
            Opcode::Parameter
            | Opcode::Constant
            | Opcode::Tuple
            | Opcode::GetTupleElement
            | Opcode::Bitcast
            | Opcode::While
            | Opcode::Call
            | Opcode::Conditional
            | Opcode::AsyncStart
            | Opcode::AsyncUpdate
            | Opcode::AfterAll
            | Opcode::AddDependency
            | Opcode::OptimizationBarrier
            | Opcode::PartitionId
            | Opcode::ReplicaId => {}
            ref opcode if opcode.is_done() => {}
            Opcode::CustomCall if instruction.is_free_custom_call() => {}
            Opcode::CopyStart => {
                // The result is (destination, source, context).
                if let Some(source) = shape_of(0) {
                    read_all(&mut traffic.read, source);
                }
                if let Some(destination) = instruction.shape.tuple_shapes().first() {
                    read_all(&mut traffic.written, destination);
                }
            }
            Opcode::DynamicSlice | Opcode::Slice | Opcode::Gather => {
                let space = shape_of(0).map_or(MemorySpace::HBM, |s| s.memory_space());
                traffic.read.add(space, instruction.shape.padded_byte_size());
                (1..instruction.operands.len()).filter_map(shape_of).for_each(|s| read_all(&mut traffic.read, s));
                read_all(&mut traffic.written, &instruction.shape);
            }
            Opcode::DynamicUpdateSlice => {
                let update = shape_of(1).map_or(0, Shape::padded_byte_size);
                (1..instruction.operands.len()).filter_map(shape_of).for_each(|s| read_all(&mut traffic.read, s));
                traffic.written.add(instruction.shape.memory_space(), update);
            }
            // A scatter updates its operand in place: where the old value is needed later, the compiler copies it beforehand. What it
            // updates is read, combined and written back.
            Opcode::Scatter => {
                let arrays = scattered_arrays(instruction);
                (arrays..instruction.operands.len()).filter_map(shape_of).for_each(|s| read_all(&mut traffic.read, s));
                for array in 0..arrays {
                    let windows = updated_bytes(module, instruction, array);
                    let space = shape_of(array).map_or(MemorySpace::HBM, |s| s.memory_space());
                    traffic.read.add(space, windows);
                    traffic.written.add(space, windows);
                }
            }
            Opcode::Fusion => {
                let fused = module.computation(instruction.called[0]);
                for (&operand, &parameter) in instruction.operands.iter().zip(&fused.parameters) {
                    let shape = module.instruction(operand).shape();
                    if shape.is_tuple() {
                        read_all(&mut traffic.read, shape);
                    } else {
                        let touched = self.touched(module, parameter, &mut fuel);
                        traffic.read.add(shape.memory_space(), touched.min(shape.padded_byte_size()));
                    }
                }
                self.fusion_writes(module, id, &mut traffic.written);
            }
            _ => {
                (0..instruction.operands.len()).filter_map(shape_of).for_each(|s| read_all(&mut traffic.read, s));
                read_all(&mut traffic.written, &instruction.shape);
            }
        }
        traffic
    }

    /// Bytes of a fusion's parameter that the fusion looks at.
    fn touched(&self, module: &HloModule, parameter: InstructionId, fuel: &mut u32) -> u64 {
        let whole = module.instruction(parameter).shape.padded_byte_size();
        (self.needed(module, parameter, 1.0, 0, fuel) * whole as f64) as u64
    }

    /// Share of the elements of `value` that are computed or read inside a fusion, of whose result a share is needed. A fusion
    /// computes elements on demand: what stands between a value and a slice of it touches no more than the slice.
    fn needed(&self, module: &HloModule, value: InstructionId, of_result: f64, depth: u32, fuel: &mut u32) -> f64 {
        let instruction = module.instruction(value);
        let mut sum = if module.computation(instruction.computation).root == value { of_result } else { 0.0 };
        if depth > MAX_DEPTH {
            return 1.0;
        }
        for &user in self.of(value) {
            if *fuel == 0 || sum >= 1.0 {
                return 1.0;
            }
            *fuel -= 1;
            let by = module.instruction(user);
            let is_first_operand_only =
                by.operands.first() == Some(&value) && !by.operands.iter().skip(1).any(|&o| o == value);
            let mut through = || self.needed(module, user, of_result, depth + 1, fuel);
            sum += match by.opcode {
                Opcode::DynamicSlice | Opcode::Slice | Opcode::Gather if is_first_operand_only => {
                    let share = by.shape.element_count() as f64 / instruction.shape.element_count().max(1) as f64;
                    share * through()
                }
                Opcode::DynamicUpdateSlice if is_first_operand_only => 0.0,
                // What a fusion passes on it does not look at, nor at what a transfer beside it moves.
                Opcode::Tuple if instruction.opcode == Opcode::Parameter => 0.0,
                _ if module.is_carried(user) => 0.0,
                Opcode::Scatter if is_scattered_only(by, value) && self.is_result(module, user) => {
                    let array = by.operands.iter().position(|&o| o == value).unwrap_or(0);
                    updated_bytes(module, by, array) as f64 / instruction.shape.padded_byte_size().max(1) as f64
                }
                Opcode::Fusion => {
                    let of_fusion = through();
                    let fused = module.computation(by.called[0]);
                    let inner = by.operands.iter().zip(&fused.parameters).filter(|(o, _)| **o == value);
                    inner.map(|(_, &p)| self.needed(module, p, of_fusion, depth + 1, fuel)).sum()
                }
                ref opcode if keeps_elements(opcode) => through(),
                _ => 1.0,
            };
        }
        sum.min(1.0)
    }

    /// Whether a value of a fused computation leaves it as it is: it is the root, or a part of it, and nothing else uses it.
    fn is_result(&self, module: &HloModule, mut value: InstructionId) -> bool {
        for _ in 0..MAX_DEPTH {
            if module.computation(module.instruction(value).computation).root == value {
                return true;
            }
            let &[user] = self.of(value) else { return false };
            let passes_on =
                matches!(module.instruction(user).opcode, Opcode::Bitcast | Opcode::Tuple | Opcode::GetTupleElement);
            if !passes_on {
                return false;
            }
            value = user;
        }
        false
    }

    fn fusion_writes(&self, module: &HloModule, id: InstructionId, written: &mut SpaceBytes) {
        let instruction = module.instruction(id);
        let root = module.computation(instruction.called[0]).root;
        if !instruction.shape.is_tuple() {
            let bytes = produced(module, root).min(instruction.shape.padded_byte_size());
            return written.add(instruction.shape.memory_space(), bytes);
        }
        let result = module.instruction(root);
        if module.is_carried(root) {
            return;
        }
        if result.opcode == Opcode::Scatter && is_in_place(module, root, &[]) {
            for (array, part) in instruction.shape.tuple_shapes().iter().enumerate() {
                written.add(part.memory_space(), updated_bytes(module, result, array).min(part.padded_byte_size()));
            }
            return;
        }
        let parts = &module.instruction(root).operands;
        for (i, part) in instruction.shape.tuple_shapes().iter().enumerate() {
            match parts.get(i) {
                Some(&part_root) if module.instruction(root).opcode == Opcode::Tuple && !part.is_tuple() => {
                    written.add(part.memory_space(), produced(module, part_root).min(part.padded_byte_size()));
                }
                _ => read_all(written, part),
            }
        }
    }
}

/// Whether each element of the result needs one element of each operand, or is one of them, as far as the estimate of
/// traffic follows: what stands behind other functions of an element counts as read whole.
fn keeps_elements(opcode: &Opcode) -> bool {
    use Opcode::*;
    let is_followed = match opcode.class() {
        OpcodeClass::Transcendental => *opcode == Divide,
        OpcodeClass::Arithmetic => !matches!(
            opcode,
            Ceil | Clamp
                | Clz
                | Complex
                | Floor
                | Imag
                | IsFinite
                | Mulhi
                | PopulationCount
                | Real
                | RoundNearestAfz
                | RoundNearestEven
                | ShiftLeft
                | ShiftRightArithmetic
                | ShiftRightLogical
                | Sign
                | StochasticConvert
                | Xor
        ),
        _ => false,
    };
    // Of what is padded as much is needed as of the padded: loops over shards join two of them by padding each.
    is_followed || matches!(opcode, Bitcast | Broadcast | Copy | Pad | Reshape | Transpose)
}

/// Bytes a fusion root really writes: only the update where it updates a buffer in place, nothing where it passes a
/// parameter on.
fn produced(module: &HloModule, mut at: InstructionId) -> u64 {
    // Operands of the fusions that were entered, innermost last.
    let mut entered: Vec<&[InstructionId]> = Vec::new();
    for _ in 0..MAX_DEPTH {
        let instruction = module.instruction(at);
        at = match (&instruction.opcode, &*instruction.operands) {
            (Opcode::DynamicUpdateSlice, [_, update, ..]) => {
                return module.instruction(*update).shape.padded_byte_size();
            }
            (Opcode::Scatter, _) if !instruction.shape.is_tuple() && is_in_place(module, at, &entered) => {
                return updated_bytes(module, instruction, 0);
            }
            (Opcode::Parameter, _) => {
                // A parameter of an inner fusion is a value of the outer one.
                let number = instruction.attributes().parameter_number.unwrap_or(0) as usize;
                match entered.pop().and_then(|operands| operands.get(number)) {
                    Some(outer) => *outer,
                    None => return 0,
                }
            }
            _ if module.is_carried(at) => return 0,
            (Opcode::Bitcast, [operand]) => *operand,
            (Opcode::Copy, [operand]) if !entered.is_empty() => *operand,
            (Opcode::Fusion, operands) => {
                entered.push(operands);
                module.computation(instruction.called[0]).root
            }
            _ => break,
        };
    }
    module.instruction(at).shape.padded_byte_size()
}

/// Arrays that a scatter updates: as many operands come before its indices as after them.
fn scattered_arrays(scatter: &Instruction) -> usize {
    scatter.operands.len().saturating_sub(1) / 2
}

/// Bytes of the windows that a scatter updates in one of its arrays.
fn updated_bytes(module: &HloModule, scatter: &Instruction, array: usize) -> u64 {
    let size = |operand: usize| scatter.operands.get(operand).map(|&o| module.instruction(o).shape.padded_byte_size());
    let whole = size(array).unwrap_or(0);
    size(scattered_arrays(scatter) + 1 + array).map_or(whole, |updates| updates.min(whole))
}

/// Whether a scatter has a value as an array that it updates, and as nothing else.
fn is_scattered_only(scatter: &Instruction, value: InstructionId) -> bool {
    let is_value = |operand: &&InstructionId| **operand == value;
    let arrays = scattered_arrays(scatter);
    scatter.operands.iter().take(arrays).filter(is_value).count() == 1
        && !scatter.operands.iter().skip(arrays).any(|&o| o == value)
}

/// Whether the arrays of a fused scatter come into the fusion from outside: what the fusion makes itself is written whole.
fn is_in_place(module: &HloModule, scatter: InstructionId, entered: &[&[InstructionId]]) -> bool {
    let instruction = module.instruction(scatter);
    let arrays = instruction.operands.iter().take(scattered_arrays(instruction));
    arrays.copied().all(|array| {
        let (mut at, mut entered) = (array, entered.to_vec());
        for _ in 0..MAX_DEPTH {
            let value = module.instruction(at);
            at = match (&value.opcode, &*value.operands) {
                (Opcode::Bitcast | Opcode::GetTupleElement, [operand]) => *operand,
                (Opcode::Parameter, _) => {
                    let number = value.attributes().parameter_number.unwrap_or(0) as usize;
                    match entered.pop().and_then(|operands| operands.get(number)) {
                        Some(outer) => *outer,
                        None => return true,
                    }
                }
                _ => return false,
            };
        }
        false
    })
}

fn read_all(bytes: &mut SpaceBytes, shape: &Shape) {
    for leaf in shape.leaves() {
        bytes.add(leaf.memory_space(), leaf.padded_byte_size());
    }
}
