//! Turns the protobuf messages into a validated [`HloModule`].

use crate::attributes::{Attributes, OperandAliasing};
use crate::module::{Alias, Computation, ComputationId, HloModule, Instruction, InstructionId, Metadata};
use crate::opcode::Opcode;
use crate::replica_groups::ReplicaGroups;
use crate::shape::Shape;
use crate::zstd::{Limits, decompress, is_zstd};
use crate::{Error, proto};
use prost::Message as _;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl HloModule {
    /// Reads a `HloModuleProtoWithConfig`, the form in which a plugin returns an optimized program.
    pub fn from_hlo_with_config(bytes: &[u8]) -> Result<HloModule, Error> {
        let message = proto::ModuleWithConfig::decode(bytes).map_err(Error::wire("HloModuleProtoWithConfig"))?;
        let module = message.hlo_module.ok_or_else(|| Error::malformed("message", "no module inside"))?;
        read_module(module, message.config)
    }

    /// Reads a bare `HloModuleProto`. Replicas and partitions come from its device assignment, else are 1.
    pub fn from_hlo_module(bytes: &[u8]) -> Result<HloModule, Error> {
        read_module(proto::Module::decode(bytes).map_err(Error::wire("HloModuleProto"))?, None)
    }

    /// Reads a `HloProto`, the form of compiler dumps: a module wrapped in one more message.
    pub fn from_hlo_proto(bytes: &[u8]) -> Result<HloModule, Error> {
        let message = proto::Hlo::decode(bytes).map_err(Error::wire("HloProto"))?;
        read_module(message.hlo_module.ok_or_else(|| Error::malformed("message", "no module inside"))?, None)
    }

    /// Reads the `opt_hlo` output of the compiler's first phase: a zstd-compressed `HloModuleProtoWithConfig`.
    pub fn from_zstd(bytes: &[u8]) -> Result<HloModule, Error> {
        HloModule::from_zstd_within(bytes, Limits::default())
    }

    /// As [`HloModule::from_zstd`] with limits on the size after decompression.
    pub fn from_zstd_within(bytes: &[u8], limits: Limits) -> Result<HloModule, Error> {
        HloModule::from_hlo_with_config(&decompress(bytes, limits)?)
    }

    /// Reads any of the above forms, told apart by their first bytes.
    pub fn from_any(bytes: &[u8]) -> Result<HloModule, Error> {
        let unpacked;
        let bytes = if is_zstd(bytes) {
            unpacked = decompress(bytes, Limits::default())?;
            &unpacked[..]
        } else {
            bytes
        };
        // Field 1 is the module in both wrappers and the name, which is text, in a bare module.
        match proto::ModuleWithConfig::decode(bytes) {
            Ok(m) if m.hlo_module.as_ref().is_some_and(|m| !m.computations.is_empty()) => {
                HloModule::from_hlo_with_config(bytes)
            }
            _ => HloModule::from_hlo_module(bytes),
        }
    }
}

/// Instruction numbers are `computation << 32 | local` in newer compilers and module-wide in older ones; the low half
/// is unique within a computation in both.
fn local(id: i64) -> u32 {
    id as u32
}

fn read_module(proto: proto::Module, config: Option<proto::ModuleConfig>) -> Result<HloModule, Error> {
    let too_many = || Error::malformed("module", "too many instructions");
    let decoded = (proto.computations.iter())
        .map(|bytes| proto::Computation::decode(&bytes[..]).map_err(Error::wire("HloComputationProto")))
        .collect::<Result<Vec<_>, _>>()?;
    let mut computation_ids = HashMap::with_capacity(decoded.len());
    for (i, computation) in decoded.iter().enumerate() {
        let id = ComputationId(u32::try_from(i).map_err(|_| too_many())?);
        if computation_ids.insert(computation.id, id).is_some() {
            return Err(Error::malformed(&computation.name, format!("computation id {} twice", computation.id)));
        }
    }
    let entry = *computation_ids
        .get(&proto.entry_computation_id)
        .ok_or_else(|| Error::malformed("module", format!("no entry computation {}", proto.entry_computation_id)))?;

    let payloads: Vec<Arc<[u8]>> = proto.payloads.into_iter().map(Arc::from).collect();
    let mut reader = Reader {
        payloads: &payloads,
        computation_ids: &computation_ids,
        instructions: Vec::new(),
        by_name: HashMap::new(),
        by_proto_id: HashMap::new(),
    };
    let sequences = proto.schedule.as_ref().map(|s| &s.sequences);
    let mut computations = Vec::with_capacity(decoded.len());
    for (i, computation) in decoded.into_iter().enumerate() {
        let sequence = sequences.and_then(|s| s.get(&computation.id));
        computations.push(reader.computation(ComputationId(i as u32), computation, sequence)?);
    }
    let Reader { instructions, by_name, by_proto_id, .. } = reader;
    for (i, instruction) in instructions.iter().enumerate() {
        for callee in &instruction.called {
            let computation = &mut computations[callee.0 as usize];
            computation.callers.push(InstructionId(i as u32));
            computation.is_fusion |= instruction.opcode == Opcode::Fusion;
        }
    }
    let count = |n: i64| u64::try_from(n).unwrap_or(0).max(1);
    let (num_replicas, num_partitions) = match (&config, &proto.device_assignment) {
        (Some(c), _) => (count(c.replica_count), count(c.num_partitions)),
        (None, Some(a)) => (count(i64::from(a.replica_count)), count(i64::from(a.computation_count))),
        (None, None) => (1, 1),
    };
    let program_shape = config.and_then(|c| c.entry_computation_layout).or(proto.host_program_shape);
    let entry_layout = match program_shape {
        Some(proto::ProgramShape { parameters, result: Some(result) }) => {
            Some((parameters.iter().map(Shape::read).collect::<Result<_, _>>()?, Shape::read(&result)?))
        }
        _ => None,
    };
    let aliases = proto.input_output_alias.map(|a| a.entries).unwrap_or_default();
    let module = HloModule {
        name: proto.name,
        computations,
        instructions,
        entry,
        num_replicas,
        num_partitions,
        is_scheduled: sequences.is_some_and(|s| !s.is_empty()),
        aliases: aliases
            .into_iter()
            .map(|a| Alias {
                output_index: a.output_shape_index,
                parameter: a.parameter_number,
                parameter_index: a.parameter_shape_index,
                must_alias: a.kind == 2,
            })
            .collect(),
        frontend_attributes: proto.frontend_attributes.map(|a| a.map.into_iter().collect()).unwrap_or_default(),
        stack_frames: proto.stack_frame_index.unwrap_or_default(),
        entry_layout,
        by_name,
        by_proto_id,
    };
    refuse_recursion(&module)?;
    Ok(module)
}

struct Reader<'a> {
    payloads: &'a [Arc<[u8]>],
    computation_ids: &'a HashMap<i64, ComputationId>,
    instructions: Vec<Instruction>,
    by_name: HashMap<Box<str>, InstructionId>,
    by_proto_id: HashMap<i64, InstructionId>,
}

impl Reader<'_> {
    fn computation(
        &mut self,
        id: ComputationId,
        proto: proto::Computation,
        sequence: Option<&proto::InstructionSequence>,
    ) -> Result<Computation, Error> {
        let at = &proto.name;
        let mut locals: HashMap<u32, InstructionId> = HashMap::with_capacity(proto.instructions.len());
        let mut instructions = Vec::with_capacity(proto.instructions.len());
        let mut parameters: Vec<(u32, InstructionId)> = Vec::new();
        for bytes in &proto.instructions {
            let message = proto::Instruction::decode(&bytes[..]).map_err(Error::wire("HloInstructionProto"))?;
            let next = InstructionId(
                u32::try_from(self.instructions.len()).map_err(|_| Error::malformed(at, "too many instructions"))?,
            );
            let (local_id, proto_id) = (local(message.id), message.id);
            let instruction = self.instruction(id, message, &locals)?;
            if let Some(number) = instruction.attributes().parameter_number {
                parameters.push((number, next));
            }
            if locals.insert(local_id, next).is_some() {
                return Err(Error::malformed(at, format!("instruction id {local_id} twice")));
            }
            self.by_name.entry(instruction.name.clone()).or_insert(next);
            self.by_proto_id.entry(proto_id).or_insert(next);
            instructions.push(next);
            self.instructions.push(instruction);
        }
        parameters.sort_unstable();
        if parameters.iter().enumerate().any(|(i, p)| p.0 as usize != i) {
            return Err(Error::malformed(at, "parameter numbers are not 0, 1, 2, ..."));
        }
        let root = *locals
            .get(&local(proto.root_id))
            .ok_or_else(|| Error::malformed(at, format!("no root instruction {}", proto.root_id)))?;
        let schedule = sequence.map(|s| read_schedule(at, s, &locals)).transpose()?;
        Ok(Computation {
            instructions,
            schedule,
            parameters: parameters.into_iter().map(|p| p.1).collect(),
            root,
            is_fusion: proto.is_fusion_computation,
            execution_thread: proto.execution_thread,
            callers: Vec::new(),
            name: proto.name,
        })
    }

    fn instruction(
        &self,
        computation: ComputationId,
        mut proto: proto::Instruction,
        locals: &HashMap<u32, InstructionId>,
    ) -> Result<Instruction, Error> {
        let at = proto.name.clone();
        if at.is_empty() || proto.opcode.is_empty() {
            return Err(Error::malformed("instruction", "no name or no opcode"));
        }
        let resolve = |ids: &[i64]| {
            let find = |id: &i64| {
                locals
                    .get(&local(*id))
                    .copied()
                    .ok_or_else(|| Error::malformed(&at, format!("no operand {id} before it")))
            };
            ids.iter().map(find).collect::<Result<Box<[_]>, _>>()
        };
        let called = (proto.called_computation_ids.iter())
            .map(|id| {
                let found = self.computation_ids.get(id).copied();
                found.ok_or_else(|| Error::malformed(&at, format!("no computation {id}")))
            })
            .collect::<Result<Box<[_]>, _>>()?;
        let opcode = Opcode::from_name(&proto.opcode);
        let shape = proto.shape.take().ok_or_else(|| Error::malformed(&at, "no shape"))?;
        let backend_config = self.backend_config(&mut proto)?;
        let metadata = proto.metadata.take().map(read_metadata);
        let attributes = read_attributes(&opcode, &mut proto)?;
        let instruction = Instruction {
            shape: Shape::read(&shape)?,
            computation,
            operands: resolve(&proto.operand_ids)?,
            control_predecessors: resolve(&proto.control_predecessor_ids)?,
            called,
            metadata,
            backend_config,
            attributes,
            opcode,
            name: proto.name.into(),
        };
        check_arity(&instruction)?;
        Ok(instruction)
    }

    fn backend_config(&self, proto: &mut proto::Instruction) -> Result<Arc<[u8]>, Error> {
        match proto.backend_config_payload.take().and_then(|p| p.source) {
            Some(proto::PayloadSource::Value(bytes)) => Ok(bytes.into()),
            Some(proto::PayloadSource::Id(id)) => {
                let payload = usize::try_from(id).ok().and_then(|i| self.payloads.get(i));
                let payload = payload.ok_or_else(|| Error::malformed(&proto.name, format!("no payload {id}")))?;
                Ok(payload.clone())
            }
            None => Ok(std::mem::take(&mut proto.backend_config).into()),
        }
    }
}

/// Only what later code relies on; the compiler's own verifier checked the rest.
pub(crate) fn check_arity(instruction: &Instruction) -> Result<(), Error> {
    let expected = match instruction.opcode {
        Opcode::While => {
            (instruction.operands.len() == 1 && instruction.called.len() == 2, "one operand, two computations")
        }
        Opcode::GetTupleElement => (instruction.operands.len() == 1, "one operand"),
        Opcode::Fusion => (instruction.called.len() == 1, "one computation"),
        Opcode::Dot | Opcode::Convolution => (instruction.operands.len() >= 2, "two operands"),
        Opcode::Scatter => (instruction.operands.len() >= 3, "three operands"),
        _ => (true, ""),
    };
    if expected.0 {
        return Ok(());
    }
    Err(Error::malformed(&*instruction.name, format!("{} needs {}", instruction.opcode, expected.1)))
}

fn read_schedule(
    at: &str,
    sequence: &proto::InstructionSequence,
    locals: &HashMap<u32, InstructionId>,
) -> Result<Vec<InstructionId>, Error> {
    let find = |id: &i64| {
        locals
            .get(&local(*id))
            .copied()
            .ok_or_else(|| Error::malformed(at, format!("scheduled instruction {id} missing")))
    };
    let order = sequence.instruction_ids.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::with_capacity(order.len());
    if order.len() != locals.len() || !order.iter().all(|id| seen.insert(*id)) {
        return Err(Error::malformed(at, "schedule does not list every instruction once"));
    }
    Ok(order)
}

fn read_metadata(proto: proto::OpMetadata) -> Box<Metadata> {
    Box::new(Metadata {
        op_type: proto.op_type,
        op_name: proto.op_name,
        source_file: proto.source_file,
        source_line: u32::try_from(proto.source_line).unwrap_or(0),
        stack_frame_id: u32::try_from(proto.stack_frame_id).unwrap_or(0),
        deduplicated_name: proto.deduplicated_name,
        scheduling_name: proto.scheduling_name,
    })
}

fn read_attributes(opcode: &Opcode, proto: &mut proto::Instruction) -> Result<Option<Box<Attributes>>, Error> {
    let index = |wanted: Opcode, value: i64| -> Result<Option<u32>, Error> {
        if *opcode != wanted {
            return Ok(None);
        }
        u32::try_from(value).map(Some).map_err(|_| Error::malformed(&proto.name, format!("index {value} is negative")))
    };
    let parameter_number = index(Opcode::Parameter, proto.parameter_number)?;
    let tuple_index = index(Opcode::GetTupleElement, proto.tuple_index)?;
    let replica_groups = ReplicaGroups::read(proto)?;
    let precision = proto.precision_config.take().unwrap_or_default();
    let ragged = proto.ragged_dot_dimension_numbers.take().and_then(|r| r.dot_dimension_numbers);
    let aliasing = std::mem::take(&mut proto.output_operand_aliasing);
    let channel = if proto.channel_id > 0 { proto.channel_id } else { proto.all_reduce_id };
    let attributes = Attributes {
        parameter_number,
        tuple_index,
        dimensions: std::mem::take(&mut proto.dimensions),
        window: proto.window.take().map(|w| w.dimensions).unwrap_or_default(),
        convolution: proto.convolution_dimension_numbers.take(),
        feature_group_count: proto.feature_group_count,
        batch_group_count: proto.batch_group_count,
        dot: proto.dot_dimension_numbers.take().or(ragged),
        operand_precision: precision.operand_precision,
        dot_algorithm: precision.algorithm,
        slice: std::mem::take(&mut proto.slice_dimensions),
        dynamic_slice_sizes: std::mem::take(&mut proto.dynamic_slice_sizes),
        padding: proto.padding_config.take().map(|p| p.dimensions).unwrap_or_default(),
        gather: proto.gather_dimension_numbers.take(),
        gather_slice_sizes: std::mem::take(&mut proto.gather_slice_sizes),
        scatter: proto.scatter_dimension_numbers.take(),
        indices_are_sorted: proto.indices_are_sorted,
        unique_indices: proto.unique_indices,
        is_stable: proto.is_stable,
        exponent_bits: proto.exponent_bits,
        mantissa_bits: proto.mantissa_bits,
        comparison_direction: std::mem::take(&mut proto.comparison_direction),
        comparison_type: std::mem::take(&mut proto.comparison_type),
        channel_id: (channel > 0).then_some(channel),
        replica_groups,
        use_global_device_ids: proto.use_global_device_ids,
        source_target_pairs: proto.source_target_pairs.iter().map(|p| (p.source, p.target)).collect(),
        is_host_transfer: proto.is_host_transfer,
        custom_call_target: std::mem::take(&mut proto.custom_call_target),
        custom_call_has_side_effect: proto.custom_call_has_side_effect,
        operand_shapes_with_layout: if proto.constrain_layout {
            proto.operand_shapes_with_layout.iter().map(Shape::read).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        },
        output_operand_aliasing: aliasing
            .into_iter()
            .map(|a| OperandAliasing {
                output_index: a.output_shape_index,
                operand: a.operand_index,
                operand_index: a.operand_shape_index,
            })
            .collect(),
        fusion_kind: std::mem::take(&mut proto.fusion_kind),
        async_execution_thread: std::mem::take(&mut proto.async_execution_thread),
        cross_program_prefetch_index: proto.cross_program_prefetch_index,
        literal: std::mem::take(&mut proto.literal),
        sharding: proto.sharding.take(),
        frontend_attributes: proto.frontend_attributes.take().map(|a| a.map.into_iter().collect()).unwrap_or_default(),
    };
    Ok((attributes != Attributes::default()).then(|| Box::new(attributes)))
}

/// HLO has no recursion; everything that walks calls relies on it.
fn refuse_recursion(module: &HloModule) -> Result<(), Error> {
    let order = module.callees_first();
    match order.len() == module.computations.len() {
        true => Ok(()),
        false => Err(Error::malformed("module", "a computation calls itself")),
    }
}

impl HloModule {
    /// All computations, callees before callers. Shorter than the module if there is recursion.
    pub(crate) fn callees_first(&self) -> Vec<ComputationId> {
        let callees: Vec<Vec<ComputationId>> = (self.computations.iter())
            .map(|c| c.instructions.iter().flat_map(|&i| self.instruction(i).called.iter().copied()).collect())
            .collect();
        let mut waiting: Vec<usize> = callees.iter().map(Vec::len).collect();
        let mut order: Vec<ComputationId> =
            (0..waiting.len()).filter(|&i| waiting[i] == 0).map(|i| ComputationId(i as u32)).collect();
        let mut next = 0;
        while let Some(&done) = order.get(next) {
            next += 1;
            for &caller in &self.computation(done).callers {
                let caller = self.instruction(caller).computation;
                waiting[caller.0 as usize] -= 1;
                if waiting[caller.0 as usize] == 0 {
                    order.push(caller);
                }
            }
        }
        order
    }
}
