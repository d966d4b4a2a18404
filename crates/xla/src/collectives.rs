//! Collectives of a program: what is exchanged, among whom, how often, and how many bytes leave each device.

use crate::attributes::Attributes;
use crate::executions::Executions;
use crate::json::Json;
use crate::module::{ComputationId, HloModule, Instruction, InstructionId};
use crate::opcode::Opcode;
use std::fmt;

/// What a collective does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CollectiveKind {
    /// Sum (or other reduction) to everyone.
    AllReduce,
    /// Concatenation to everyone.
    AllGather,
    /// Reduction, each keeps a part. Includes the compiler's fusion of an all-reduce with the slice that follows.
    ReduceScatter,
    /// Transposition of parts.
    AllToAll,
    /// Pairwise exchange.
    CollectivePermute,
    /// One to all of a group.
    CollectiveBroadcast,
    /// Sending half of a pair.
    Send,
    /// Receiving half of a pair; adds no bytes, its `send` has them.
    Recv,
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::CollectivePermute => "collective-permute",
            CollectiveKind::CollectiveBroadcast => "collective-broadcast",
            CollectiveKind::Send => "send",
            CollectiveKind::Recv => "recv",
        })
    }
}

/// Whether the device waits for a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// Nothing else runs meanwhile.
    Synchronous,
    /// Started here, waited for later.
    Asynchronous,
}

/// What the bytes travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Link {
    /// Links between the chips of one slice.
    Interconnect,
    /// The data-center network between slices.
    DataCenter,
    /// To and from the host.
    Host,
}

/// One collective instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// What it does.
    pub kind: CollectiveKind,
    /// The instruction that starts it.
    pub instruction: InstructionId,
    /// Whether other work can run meanwhile.
    pub overlap: Overlap,
    /// What the bytes travel over.
    pub link: Link,
    /// Devices in a group; for a permute, the number of devices that send.
    pub group_size: u64,
    /// Number of groups.
    pub group_count: u64,
    /// Bytes of the full value on one device per execution: the larger of what goes in and what comes out, unpadded.
    pub payload_bytes: u64,
    /// Bytes that leave one device per execution if every byte travels once (ring).
    pub sent_bytes: u64,
    /// Executions per step.
    pub executions: u64,
}

impl Collective {
    /// Bytes that leave one device per step.
    pub fn sent_bytes_per_step(&self) -> u64 {
        self.sent_bytes.saturating_mul(self.executions)
    }
}

/// All collectives of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveTotal {
    /// The kind.
    pub kind: CollectiveKind,
    /// Instructions in the program.
    pub instructions: u64,
    /// Executions per step.
    pub executions: u64,
    /// Payload per device per step.
    pub payload_bytes: u64,
    /// Bytes that leave each device per step.
    pub sent_bytes: u64,
}

impl HloModule {
    /// Every collective that runs, in order of computations, each transfer once.
    pub fn collectives(&self, executions: &Executions) -> Vec<Collective> {
        let asynchronous = self.asynchronous_computations();
        let mut found = Vec::new();
        for (computation, _) in self.computations() {
            let times = executions.of(computation);
            if times == 0 {
                continue;
            }
            let place = self.place(computation, asynchronous[computation.0 as usize]);
            for &id in self.order(computation) {
                found.extend(self.collective(id, &place, times));
            }
        }
        found
    }

    /// Totals by kind, most bytes first.
    pub fn collective_totals(&self, executions: &Executions) -> Vec<CollectiveTotal> {
        let mut totals: Vec<CollectiveTotal> = Vec::new();
        for c in self.collectives(executions) {
            let zero =
                CollectiveTotal { kind: c.kind, instructions: 0, executions: 0, payload_bytes: 0, sent_bytes: 0 };
            let at = totals.iter().position(|t| t.kind == c.kind).unwrap_or_else(|| {
                totals.push(zero);
                totals.len() - 1
            });
            let total = &mut totals[at];
            total.instructions += 1;
            total.executions = total.executions.saturating_add(c.executions);
            total.payload_bytes = total.payload_bytes.saturating_add(c.payload_bytes.saturating_mul(c.executions));
            total.sent_bytes = total.sent_bytes.saturating_add(c.sent_bytes_per_step());
        }
        totals.sort_by_key(|t| (std::cmp::Reverse(t.sent_bytes), t.kind));
        totals
    }

    fn collective(&self, id: InstructionId, place: &Place, executions: u64) -> Option<Collective> {
        let instruction = self.instruction(id);
        let (mut kind, mut overlap) = match instruction.opcode {
            Opcode::AllReduce => (CollectiveKind::AllReduce, Overlap::Synchronous),
            Opcode::AllReduceStart => (CollectiveKind::AllReduce, Overlap::Asynchronous),
            Opcode::AllGather => (CollectiveKind::AllGather, Overlap::Synchronous),
            Opcode::AllGatherStart => (CollectiveKind::AllGather, Overlap::Asynchronous),
            Opcode::ReduceScatter => (CollectiveKind::ReduceScatter, Overlap::Synchronous),
            Opcode::AllToAll | Opcode::RaggedAllToAll => (CollectiveKind::AllToAll, Overlap::Synchronous),
            Opcode::CollectivePermute => (CollectiveKind::CollectivePermute, Overlap::Synchronous),
            Opcode::CollectivePermuteStart => (CollectiveKind::CollectivePermute, Overlap::Asynchronous),
            Opcode::CollectiveBroadcast => (CollectiveKind::CollectiveBroadcast, Overlap::Synchronous),
            Opcode::Send => (CollectiveKind::Send, Overlap::Asynchronous),
            Opcode::Recv => (CollectiveKind::Recv, Overlap::Asynchronous),
            _ => return None,
        };
        match place.fused_part(instruction) {
            FusedPart::Continuation => return None,
            FusedPart::Start => overlap = Overlap::Asynchronous,
            FusedPart::Whole => {}
        }
        if place.overlap == Overlap::Asynchronous {
            overlap = Overlap::Asynchronous;
        }
        if kind == CollectiveKind::AllReduce && place.is_fusion && place.ends_in_slice {
            kind = CollectiveKind::ReduceScatter;
        }
        let attributes = instruction.attributes();
        let all = self.num_replicas.saturating_mul(self.num_partitions);
        let (group_size, group_count) = match (&attributes.replica_groups, kind) {
            (_, CollectiveKind::CollectivePermute) => (attributes.source_target_pairs.len() as u64, 1),
            (_, CollectiveKind::Send | CollectiveKind::Recv) => (2, 1),
            (Some(groups), _) => (groups.group_size(all), groups.group_count()),
            (None, _) => (all, 1),
        };
        let input = self.input_bytes(instruction);
        let (payload_bytes, sent_bytes) = match between_slices(attributes) {
            Some((what, slices)) if kind == CollectiveKind::Send => (input, bytes(what, input, slices).1),
            _ => bytes(kind, input, group_size),
        };
        Some(Collective {
            kind,
            instruction: id,
            overlap,
            link: link(attributes),
            group_size,
            group_count,
            payload_bytes,
            sent_bytes,
            executions,
        })
    }

    fn input_bytes(&self, instruction: &Instruction) -> u64 {
        let shape = |id: &InstructionId| self.instruction(*id).shape();
        let operands = &instruction.operands;
        match instruction.opcode {
            // The other operands are buffers to write into, offsets, or a token.
            Opcode::Send | Opcode::RaggedAllToAll => operands.first().map_or(0, |o| shape(o).byte_size()),
            Opcode::CollectivePermute | Opcode::CollectivePermuteStart
                if operands.len() == 4 && in_place(self, operands) =>
            {
                operands.first().map_or(0, |o| shape(o).byte_size())
            }
            Opcode::Recv => instruction.shape.tuple_shapes().first().map_or(0, |s| s.byte_size()),
            _ => operands.iter().fold(0, |n: u64, o| n.saturating_add(shape(o).byte_size())),
        }
    }

    /// Which computations run under an `async-start`, directly or through other calls: collectives offloaded to
    /// SparseCores sit two calls below it.
    fn asynchronous_computations(&self) -> Vec<Overlap> {
        let mut overlaps = vec![Overlap::Synchronous; self.computations.len()];
        for id in self.callees_first().into_iter().rev() {
            let is_under_start = self.computation(id).callers.iter().any(|&caller| {
                let caller = self.instruction(caller);
                caller.opcode == Opcode::AsyncStart || overlaps[caller.computation.0 as usize] == Overlap::Asynchronous
            });
            if is_under_start {
                overlaps[id.0 as usize] = Overlap::Asynchronous;
            }
        }
        overlaps
    }

    /// Fusions that wait for the end of a transfer which several fusions carry, with its channel.
    pub fn awaited_channels(&self) -> Vec<(InstructionId, i64)> {
        let mut awaited = Vec::new();
        for (id, computation) in self.computations() {
            if !computation.is_fusion || !self.place(id, Overlap::Synchronous).has_async_done {
                continue;
            }
            let collectives = computation.instructions.iter().map(|&i| self.instruction(i));
            let mut channels =
                collectives.filter(|i| i.opcode.is_collective()).filter_map(|i| i.attributes().channel_id);
            if let Some(channel) = channels.next() {
                awaited.extend(computation.callers.iter().map(|&caller| (caller, channel)));
            }
        }
        awaited
    }

    /// Whether a value inside a fusion is that of a transfer which several fusions carry: its bytes are moved beside them.
    pub(crate) fn is_carried(&self, id: InstructionId) -> bool {
        let instruction = self.instruction(id);
        match instruction.opcode {
            Opcode::CustomCall => CARRIED.contains(&instruction.attributes().custom_call_target.as_str()),
            ref opcode if opcode.is_collective() => {
                let place = self.place(instruction.computation, Overlap::Synchronous);
                !matches!(place.fused_part(instruction), FusedPart::Whole)
            }
            _ => false,
        }
    }

    fn place(&self, id: ComputationId, overlap: Overlap) -> Place {
        let computation = self.computation(id);
        let has = |target: &str| {
            let mut instructions = computation.instructions.iter();
            instructions.any(|&i| self.instruction(i).attributes().custom_call_target == target)
        };
        let [start, done] = CARRIED;
        Place {
            is_fusion: computation.is_fusion,
            has_async_start: has(start),
            has_async_done: has(done),
            ends_in_slice: self.instruction(computation.root).opcode == Opcode::DynamicSlice,
            overlap,
        }
    }
}

/// Custom calls that begin and end a transfer which several fusions carry.
const CARRIED: [&str; 2] = ["AsyncCollectiveStart", "AsyncCollectiveDone"];

/// What the computation around a collective says about it.
struct Place {
    is_fusion: bool,
    has_async_start: bool,
    has_async_done: bool,
    /// A fusion that reduces and returns a dynamic slice is emitted as a reduce-scatter.
    ends_in_slice: bool,
    overlap: Overlap,
}

impl Place {
    /// The compiler spreads one transfer over several fusions: the first holds the collective next to an
    /// `AsyncCollectiveStart`, later ones repeat the instruction to advance and to finish it.
    fn fused_part(&self, instruction: &Instruction) -> FusedPart {
        if !self.is_fusion {
            return FusedPart::Whole;
        }
        let config = instruction.backend_config_json();
        let flag = (config.as_ref())
            .and_then(|c| c.get("async_collective_fusion_config")?.get("flag_start"))
            .and_then(Json::as_i64);
        match flag {
            Some(0..) => FusedPart::Continuation,
            Some(_) => FusedPart::Start,
            None if self.has_async_start => FusedPart::Start,
            None if self.has_async_done => FusedPart::Continuation,
            None => FusedPart::Whole,
        }
    }
}

/// What the host's runtime does with what it is sent, and between how many slices.
fn between_slices(attributes: &Attributes) -> Option<(CollectiveKind, u64)> {
    let value = |name: &str| attributes.frontend_attributes.iter().find(|(known, _)| known == name).map(|(_, v)| &**v);
    let kind = match value("_xla_megascale_transfer_type")? {
        "ALL_REDUCE" => CollectiveKind::AllReduce,
        "ALL_GATHER" => CollectiveKind::AllGather,
        "REDUCE_SCATTER" => CollectiveKind::ReduceScatter,
        "ALL_TO_ALL" => CollectiveKind::AllToAll,
        _ => return None,
    };
    // Slices, then the devices of each: `{1,2,3,4}x{0:255}`.
    let (slices, _) = value("_xla_megascale_target")?.strip_prefix('{')?.split_once("}x{")?;
    let size = |part: &str| match part.split_once(':') {
        Some((first, last)) => last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1),
        None => part.parse::<u64>().ok().map(|_| 1),
    };
    let count = slices.split(',').try_fold(0_u64, |sum, part| sum.checked_add(size(part)?))?;
    (count > 1).then_some((kind, count))
}

/// Exchange between slices is handed to the host's runtime, which is named in an attribute.
fn link(attributes: &Attributes) -> Link {
    let is_between_slices = |(name, value): &(String, String)| {
        name == "_xla_host_transfer_handler_name" && value == "xla_megascale_runtime"
    };
    match attributes.is_host_transfer {
        true if attributes.frontend_attributes.iter().any(is_between_slices) => Link::DataCenter,
        true => Link::Host,
        false => Link::Interconnect,
    }
}

enum FusedPart {
    Whole,
    Start,
    Continuation,
}

fn in_place(module: &HloModule, operands: &[InstructionId]) -> bool {
    let offsets = module.instruction(operands[2]).shape();
    offsets.leaves().all(|leaf| leaf.element_type() == crate::PrimitiveType::S32)
}

/// Payload and bytes sent by one device for `input` bytes on it.
fn bytes(kind: CollectiveKind, input: u64, group_size: u64) -> (u64, u64) {
    let size = group_size.max(1);
    // `(size - 1) / size` of the value, without overflow.
    let others = |value: u64| (u128::from(value) * u128::from(size - 1) / u128::from(size)) as u64;
    match kind {
        CollectiveKind::AllReduce => (input, others(input).saturating_mul(2)),
        CollectiveKind::AllGather => (input.saturating_mul(size), input.saturating_mul(size - 1)),
        CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => (input, others(input)),
        CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast | CollectiveKind::Send => {
            (input, input)
        }
        CollectiveKind::Recv => (input, 0),
    }
}
