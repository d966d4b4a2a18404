//! A compiled HLO module: computations and instructions under dense ids, validated once when read.

use crate::attributes::Attributes;
use crate::json::Json;
use crate::opcode::Opcode;
use crate::proto;
use crate::shape::Shape;
use std::collections::HashMap;

/// An instruction of an [`HloModule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(pub u32);

/// A computation of an [`HloModule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ComputationId(pub u32);

/// A compiled program.
///
/// Every id inside is valid, operands belong to the computation of their user, and no computation calls itself even
/// through others.
#[derive(Clone, Debug, PartialEq)]
pub struct HloModule {
    pub(crate) name: String,
    pub(crate) computations: Vec<Computation>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) entry: ComputationId,
    pub(crate) num_replicas: u64,
    pub(crate) num_partitions: u64,
    pub(crate) is_scheduled: bool,
    pub(crate) aliases: Vec<Alias>,
    pub(crate) frontend_attributes: Vec<(String, String)>,
    pub(crate) stack_frames: proto::StackFrameIndex,
    pub(crate) entry_layout: Option<(Vec<Shape>, Shape)>,
    pub(crate) by_name: HashMap<Box<str>, InstructionId>,
    pub(crate) by_proto_id: HashMap<i64, InstructionId>,
}

/// One computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    pub(crate) name: String,
    pub(crate) instructions: Vec<InstructionId>,
    pub(crate) schedule: Option<Vec<InstructionId>>,
    pub(crate) parameters: Vec<InstructionId>,
    pub(crate) root: InstructionId,
    pub(crate) is_fusion: bool,
    pub(crate) execution_thread: String,
    pub(crate) callers: Vec<InstructionId>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub(crate) name: Box<str>,
    pub(crate) opcode: Opcode,
    pub(crate) shape: Shape,
    pub(crate) computation: ComputationId,
    pub(crate) operands: Box<[InstructionId]>,
    pub(crate) control_predecessors: Box<[InstructionId]>,
    pub(crate) called: Box<[ComputationId]>,
    pub(crate) metadata: Option<Box<Metadata>>,
    /// Shared: many instructions may name one payload.
    pub(crate) backend_config: std::sync::Arc<[u8]>,
    pub(crate) attributes: Option<Box<Attributes>>,
}

/// Where an instruction comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Framework operation type.
    pub op_type: String,
    /// Path of the operation in the traced program.
    pub op_name: String,
    /// Source file, empty when only a stack frame is given.
    pub source_file: String,
    /// Source line; 0 when unknown.
    pub source_line: u32,
    /// Index of the stack frame, from 1; 0 when there is none.
    pub stack_frame_id: u32,
    /// Name shared by instructions that were merged.
    pub deduplicated_name: String,
    /// Name used by the scheduler.
    pub scheduling_name: String,
}

/// A source position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLocation<'a> {
    /// File name.
    pub file: &'a str,
    /// Function name, empty when unknown.
    pub function: &'a str,
    /// Line, from 1; 0 when unknown.
    pub line: u32,
}

/// An output that shares the buffer of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Which part of the result.
    pub output_index: Vec<i64>,
    /// Which parameter.
    pub parameter: i64,
    /// Which part of that parameter.
    pub parameter_index: Vec<i64>,
    /// Whether sharing is required rather than allowed.
    pub must_alias: bool,
}

impl HloModule {
    /// Name of the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Replicas the program was compiled for.
    pub fn num_replicas(&self) -> u64 {
        self.num_replicas
    }

    /// Partitions the program was compiled for.
    pub fn num_partitions(&self) -> u64 {
        self.num_partitions
    }

    /// Whether the instructions have an execution order.
    pub fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// The computation that runs.
    pub fn entry(&self) -> ComputationId {
        self.entry
    }

    /// A computation.
    pub fn computation(&self, id: ComputationId) -> &Computation {
        &self.computations[id.0 as usize]
    }

    /// An instruction.
    pub fn instruction(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id.0 as usize]
    }

    /// All computations.
    pub fn computations(&self) -> impl ExactSizeIterator<Item = (ComputationId, &Computation)> {
        self.computations.iter().enumerate().map(|(i, c)| (ComputationId(i as u32), c))
    }

    /// All instructions of all computations.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = (InstructionId, &Instruction)> {
        self.instructions.iter().enumerate().map(|(i, instruction)| (InstructionId(i as u32), instruction))
    }

    /// Outputs that share the buffer of a parameter.
    pub fn input_output_aliases(&self) -> &[Alias] {
        &self.aliases
    }

    /// Attributes attached by the framework, by name.
    pub fn frontend_attributes(&self) -> &[(String, String)] {
        &self.frontend_attributes
    }

    /// The instruction of that name, without `%`.
    pub fn find(&self, name: &str) -> Option<InstructionId> {
        self.by_name.get(name).copied()
    }

    /// The instruction with that number in the protobuf, as a buffer assignment names it.
    pub(crate) fn find_proto_id(&self, id: i64) -> Option<InstructionId> {
        self.by_proto_id.get(&id).copied()
    }

    /// Instructions of a computation in execution order, or in dependency order where there is no schedule.
    pub fn order(&self, id: ComputationId) -> &[InstructionId] {
        let computation = self.computation(id);
        computation.schedule.as_deref().unwrap_or(&computation.instructions)
    }

    /// Source position of an instruction, innermost frame.
    pub fn source(&self, id: InstructionId) -> Option<SourceLocation<'_>> {
        let metadata = self.instruction(id).metadata()?;
        if !metadata.source_file.is_empty() {
            return Some(SourceLocation { file: &metadata.source_file, function: "", line: metadata.source_line });
        }
        self.stack(id).next()
    }

    /// The call stack recorded for an instruction, innermost frame first.
    pub fn stack(&self, id: InstructionId) -> impl Iterator<Item = SourceLocation<'_>> {
        let frames = &self.stack_frames;
        let mut next = self.instruction(id).metadata().map_or(0, |m| m.stack_frame_id as usize);
        // A chain longer than the table has a cycle.
        let mut left = frames.stack_frames.len();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let frame = frames.stack_frames.get(next.checked_sub(1)?)?;
            let location = one_based(&frames.file_locations, frame.file_location_id)?;
            next = usize::try_from(frame.parent_frame_id).unwrap_or(0);
            Some(SourceLocation {
                file: one_based(&frames.file_names, location.file_name_id)?,
                function: one_based(&frames.function_names, location.function_name_id).map_or("", |s| s.as_str()),
                line: u32::try_from(location.line).unwrap_or(0),
            })
        })
    }
}

fn one_based<T>(items: &[T], position: i32) -> Option<&T> {
    items.get(usize::try_from(position).ok()?.checked_sub(1)?)
}

impl Computation {
    /// Name, without `%`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Instructions, operands before users.
    pub fn instructions(&self) -> &[InstructionId] {
        &self.instructions
    }

    /// Parameters by number.
    pub fn parameters(&self) -> &[InstructionId] {
        &self.parameters
    }

    /// The instruction whose value is the result.
    pub fn root(&self) -> InstructionId {
        self.root
    }

    /// Whether this is the inside of a fusion.
    pub fn is_fusion(&self) -> bool {
        self.is_fusion
    }

    /// Thread it runs on; `main` or empty for the main one.
    pub fn execution_thread(&self) -> &str {
        &self.execution_thread
    }

    /// Instructions that call it, each once per mention.
    pub fn callers(&self) -> &[InstructionId] {
        &self.callers
    }
}

static NO_ATTRIBUTES: std::sync::LazyLock<Attributes> = std::sync::LazyLock::new(Attributes::default);

impl Instruction {
    /// Name, without `%`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Operation.
    pub fn opcode(&self) -> &Opcode {
        &self.opcode
    }

    /// Shape of the result.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The computation it belongs to.
    pub fn computation(&self) -> ComputationId {
        self.computation
    }

    /// Operands, all of the same computation.
    pub fn operands(&self) -> &[InstructionId] {
        &self.operands
    }

    /// Instructions that must run before it without giving it data.
    pub fn control_predecessors(&self) -> &[InstructionId] {
        &self.control_predecessors
    }

    /// Computations it calls. A `while` calls its body, then its condition.
    pub fn called_computations(&self) -> &[ComputationId] {
        &self.called
    }

    /// Where it comes from.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_deref()
    }

    /// Compiler annotations as received; JSON for TPU programs.
    pub fn backend_config(&self) -> &[u8] {
        &self.backend_config
    }

    /// Everything else.
    pub fn attributes(&self) -> &Attributes {
        self.attributes.as_deref().unwrap_or(&NO_ATTRIBUTES)
    }

    /// `backend_config` as JSON; `None` when empty or not JSON.
    pub fn backend_config_json(&self) -> Option<Json> {
        if self.backend_config.is_empty() { None } else { Json::parse(&self.backend_config) }
    }

    /// Cycles the compiler expects one execution to take, from `window_config`, or for custom kernels from
    /// `bundle_analysis_data`. Present only after code generation.
    pub fn estimated_cycles(&self) -> Option<u64> {
        let config = self.backend_config_json()?;
        let cycles = |section: &str| config.get(section)?.get("estimated_cycles")?.as_i64();
        let cycles = cycles("window_config").or_else(|| cycles("bundle_analysis_data"))?;
        // The compiler writes the largest integer where it has no estimate.
        u64::try_from(cycles).ok().filter(|&n| n < i64::MAX as u64)
    }

    /// How the compiler decided to run a collective.
    pub fn collective_algorithm(&self) -> Option<CollectiveAlgorithm> {
        let config = self.backend_config_json()?;
        let section = config.get("collective_algorithm_config")?;
        let text = |key: &str| section.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Some(CollectiveAlgorithm { emitter: text("emitter"), strategy: text("strategy"), debug: text("debug") })
    }
}

/// `collective_algorithm_config` of a collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveAlgorithm {
    /// Code emitter, such as `RotatedPincerEmitter`.
    pub emitter: String,
    /// Strategy, such as `UniDirection1DRingStrategy`; may be empty.
    pub strategy: String,
    /// Free text with group and shard sizes.
    pub debug: String,
}
