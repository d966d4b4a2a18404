//! One buffer that fills memory, and what the source calls it.

use serde::Serialize;
use xla::{BufferAssignment, BufferId, HloModule, InstructionId, Opcode};

use super::arguments::ProgramArgument;
use super::class::BufferClass;
use super::flow::Flow;

/// A buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The argument's name, or the instruction that defines it.
    pub name: String,
    /// What it is.
    pub class: BufferClass,
    /// Which argument it is, if it is one.
    pub argument: Option<u64>,
    /// Shape on one device, with its layout.
    pub shape: String,
    /// Bytes with padding.
    pub bytes: u64,
    /// Bytes of the elements.
    pub logical_bytes: u64,
    /// Name the source gave the operation.
    pub source: String,
    /// File and line of the source, where the program carries them.
    pub location: Option<String>,
}

impl Held {
    /// An argument of the program, or a part of one.
    pub(super) fn argument(
        module: &HloModule,
        number: i64,
        index: &[i64],
        bytes: u64,
        arguments: &[ProgramArgument],
    ) -> Held {
        let position = usize::try_from(number).unwrap_or(usize::MAX);
        let told = arguments.get(position);
        let parameter = module.computation(module.entry()).parameters().get(position).copied();
        let shape = parameter.and_then(|id| module.instruction(id).shape().subshape(index));
        let source = parameter.map_or_else(String::new, |id| source(module, id));
        let name = match told {
            Some(argument) if !argument.name.is_empty() => argument.name.clone(),
            _ if !source.is_empty() => source.clone(),
            _ => format!("argument {number}"),
        };
        Held {
            name,
            class: told.map_or(BufferClass::Inputs, |argument| argument.class),
            argument: u64::try_from(number).ok(),
            shape: shape.map_or_else(String::new, ToString::to_string),
            bytes,
            logical_bytes: shape.map_or(bytes, |shape| shape.byte_size()).min(bytes),
            source,
            location: parameter.and_then(|id| location(module, id)),
        }
    }

    /// A value of the program.
    pub(super) fn value(
        module: &HloModule,
        assignment: &BufferAssignment,
        buffer: BufferId,
        class: BufferClass,
    ) -> Held {
        let logical = assignment.buffer(buffer);
        let id = assignment.defining_instruction(module, buffer);
        let shape = id.and_then(|id| module.instruction(id).shape().subshape(&logical.shape_index));
        Held {
            name: assignment.describe(module, buffer),
            class,
            argument: None,
            shape: shape.map_or_else(String::new, ToString::to_string),
            bytes: logical.size_bytes,
            logical_bytes: shape.map_or(logical.size_bytes, |shape| shape.byte_size()).min(logical.size_bytes),
            source: id.map_or_else(String::new, |id| source(module, id)),
            location: id.and_then(|id| location(module, id)),
        }
    }
}

/// The name the source gave an instruction; of a fusion or loop without one, that of what it computes.
pub(super) fn source(module: &HloModule, id: InstructionId) -> String {
    let name = |id| module.instruction(id).metadata().map_or("", |metadata| metadata.op_name.as_str());
    let own = name(id);
    if !own.is_empty() {
        return own.replace("\\'", "'");
    }
    let called = module.instruction(id).called_computations().first();
    called.map_or_else(String::new, |&called| name(module.computation(called).root()).replace("\\'", "'"))
}

/// File and line of an instruction.
pub(super) fn location(module: &HloModule, id: InstructionId) -> Option<String> {
    let location = module.source(id)?;
    Some(if location.line > 0 { format!("{}:{}", location.file, location.line) } else { location.file.to_string() })
}

/// Whether the program's names say that an instruction belongs to the backward pass.
fn is_backward(module: &HloModule, id: InstructionId) -> bool {
    source(module, id).contains("transpose(")
}

/// A value that collectives define is theirs; one that the forward pass defines and the backward pass reads is kept for it.
pub(super) fn class_of_temporary(
    module: &HloModule,
    assignment: &BufferAssignment,
    buffer: BufferId,
    flow: &Flow<'_>,
) -> BufferClass {
    let Some(id) = assignment.defining_instruction(module, buffer) else { return BufferClass::Temporaries };
    if is_collective(module, id) {
        return BufferClass::Collectives;
    }
    if is_backward(module, id) || is_copy_of_argument(module, id) {
        return BufferClass::Temporaries;
    }
    let readers = flow.readers(id, &assignment.buffer(buffer).shape_index);
    let backward = readers.iter().any(|&reader| is_backward(module, reader));
    // Memory that is filled later, such as the empty stack of a loop, belongs to whoever writes into it.
    let forward = !is_empty_at_first(module, id)
        || readers.iter().any(|&reader| !is_backward(module, reader) && is_path(&source(module, reader)));
    if backward && forward { BufferClass::Activations } else { BufferClass::Temporaries }
}

/// Whether a name is that of an operation in a traced program, not one the compiler made up.
fn is_path(source: &str) -> bool {
    source.contains('/')
}

/// Whether an instruction computes nothing.
fn is_empty_at_first(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    match instruction.opcode() {
        Opcode::Broadcast | Opcode::Constant | Opcode::Iota => true,
        Opcode::CustomCall => instruction.attributes().custom_call_target == "AllocateBuffer",
        _ => !is_path(&source(module, id)),
    }
}

/// Whether a value is an argument in another type or layout: a weight converted to bf16 is no activation.
fn is_copy_of_argument(module: &HloModule, mut id: InstructionId) -> bool {
    for _ in 0..MAX_COPIES {
        let instruction = module.instruction(id);
        let is_whole = instruction.computation() == module.entry();
        match (instruction.opcode(), instruction.operands()) {
            (Opcode::Parameter, _) => return is_whole,
            (
                Opcode::Convert
                | Opcode::Bitcast
                | Opcode::Copy
                | Opcode::CopyStart
                | Opcode::CopyDone
                | Opcode::Fusion,
                &[operand],
            ) => id = operand,
            _ => return false,
        }
    }
    false
}

/// Copies of copies that are followed.
const MAX_COPIES: u32 = 8;

fn is_collective(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    match instruction.opcode() {
        Opcode::CollectiveReduce => false,
        opcode if opcode.is_collective() => true,
        Opcode::Send | Opcode::Recv => true,
        Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone | Opcode::Fusion => {
            let called = instruction.called_computations().first();
            called.is_some_and(|&called| {
                let inner = module.computation(called).instructions();
                inner.iter().any(|&inner| {
                    let opcode = module.instruction(inner).opcode();
                    opcode.is_collective() && !is_never_inside(opcode)
                })
            })
        }
        _ => false,
    }
}

/// Collectives that are not looked for inside others: beginnings and ends of some, and those that run by themselves.
fn is_never_inside(opcode: &Opcode) -> bool {
    use Opcode::*;
    let begins = matches!(opcode, AllGatherStart | AllReduceStart | CollectivePermuteStart);
    begins || opcode.is_done() || matches!(opcode, CollectiveBroadcast | CollectiveReduce | RaggedAllToAll)
}
