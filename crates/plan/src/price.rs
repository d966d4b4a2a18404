//! The price of a single instruction, outside of any schedule: what ops of a measured profile are compared with.

use serde::{Deserialize, Serialize};
use xla::{
    CollectiveKind, Executions, HloModule, InstructionId, Link, Opcode, OpcodeClass, Overlap, PrimitiveType, Shape,
};

use crate::kernel_work::KernelWork;
use crate::machine::{HostTransfer, Machine};
use crate::op_time::{Bound, OpTime};
use crate::simulate::Program;
use crate::torus::Group;
use crate::work::{Matmul, Work};

/// What kind of op it is, as far as errors of the estimate have different causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PricedClass {
    /// Matmuls and convolutions, with what is fused to them.
    Matmul,
    /// Elementwise work, reductions, gathers.
    Fusion,
    /// Exchange between devices that the core waits for.
    Collective,
    /// Values that move or change their layout, and nothing else.
    Copy,
    /// Custom kernels.
    Kernel,
}

impl PricedClass {
    /// Every one.
    pub const ALL: [PricedClass; 5] =
        [PricedClass::Matmul, PricedClass::Fusion, PricedClass::Collective, PricedClass::Copy, PricedClass::Kernel];

    /// In words, for more than one.
    pub fn name(self) -> &'static str {
        match self {
            PricedClass::Matmul => "matmuls",
            PricedClass::Fusion => "fusions",
            PricedClass::Collective => "collectives",
            PricedClass::Copy => "copies",
            PricedClass::Kernel => "kernels",
        }
    }
}

/// What an instruction costs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OpPrice {
    /// What it is.
    pub class: PricedClass,
    /// Seconds of one execution.
    pub seconds: f64,
    /// What limits it.
    pub bound: Bound,
}

/// Work of one execution as a profile states it; 0 where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatedWork {
    /// Floating point operations.
    pub flops: f64,
    /// Bytes read and written, in all memories.
    pub bytes: f64,
}

/// What an op does, whatever it runs on: its price on a machine is a function of this alone.
#[derive(Clone, Debug)]
pub struct OpWork {
    /// What it is.
    pub class: PricedClass,
    kind: WorkKind,
}

#[derive(Clone, Debug)]
enum WorkKind {
    Op(Work),
    Alone(Work),
    Kernel(Option<KernelWork>, Work),
    Exchange { kind: CollectiveKind, payload_bytes: u64, group: Group, hbm_bytes: f64 },
    Transfer { over: Bound, bytes: f64 },
}

impl OpWork {
    /// What it costs on a machine.
    pub fn price(&self, machine: &Machine) -> OpPrice {
        let of = |time: OpTime| OpPrice { class: self.class, seconds: time.seconds(), bound: time.bound() };
        match &self.kind {
            WorkKind::Op(work) => of(machine.op_time(work)),
            WorkKind::Alone(work) => {
                let bound = machine.op_time(work).bound();
                OpPrice { class: self.class, seconds: machine.alone_s(work) - machine.reach.program_s, bound }
            }
            WorkKind::Kernel(Some(kernel), work) => of(kernel.time(machine, work)),
            WorkKind::Kernel(None, work) => of(machine.kernel_time(work)),
            WorkKind::Exchange { kind, payload_bytes, group, hbm_bytes } => OpPrice {
                class: self.class,
                seconds: machine.collective_s(*kind, *payload_bytes, group, *hbm_bytes),
                bound: Bound::Ici,
            },
            WorkKind::Transfer { over, bytes } => {
                let moving_s = match over {
                    Bound::Dcn => bytes / (machine.dcn_bytes_per_s * machine.reach.dcn),
                    _ => machine.host_s(*bytes, HostTransfer::WholeBuffer),
                };
                OpPrice { class: self.class, seconds: moving_s + machine.reach.collective_s, bound: *over }
            }
        }
    }

    /// A matmul in a program of its own.
    pub(crate) fn matmul_alone(work: Work) -> OpWork {
        OpWork { class: PricedClass::Matmul, kind: WorkKind::Alone(work) }
    }

    /// Whether it is a program of its own.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.kind, WorkKind::Alone(_))
    }

    /// The work of an op that is no kernel and no exchange.
    pub(crate) fn plain(&self) -> Option<&Work> {
        match &self.kind {
            WorkKind::Op(work) | WorkKind::Alone(work) => Some(work),
            _ => None,
        }
    }

    /// Seconds that links are busy at their full rate, and the fixed part, for an exchange between chips.
    pub(crate) fn exchange(&self, machine: &Machine) -> Option<(f64, f64)> {
        let WorkKind::Exchange { kind, payload_bytes, group, hbm_bytes } = &self.kind else { return None };
        let busy = group.transfer_s(*kind, *payload_bytes, machine.torus.link_bytes_per_s);
        let whole = machine.collective_s(*kind, *payload_bytes, group, *hbm_bytes);
        Some((busy, whole - busy / machine.reach.ici))
    }
}

/// Reads what instructions of a program do.
pub struct OpPricer<'a> {
    program: Program<'a>,
}

impl<'a> OpPricer<'a> {
    /// For a program on a machine, partition `n` on device `n`.
    pub fn new(module: &'a HloModule, executions: &Executions, machine: &'a Machine) -> OpPricer<'a> {
        OpPricer { program: Program::new(module, executions, machine, &[]) }
    }

    /// What an instruction does; `None` for those that take no time of the core by themselves, or start and end what runs beside it.
    pub fn work(&self, id: InstructionId, stated: StatedWork) -> Option<OpWork> {
        let Program { module, users, collectives, .. } = &self.program;
        let instruction = module.instruction(id);
        if let Some(collective) = collectives.get(&id) {
            if collective.overlap == Overlap::Asynchronous {
                return None;
            }
            let bytes = collective.sent_bytes as f64;
            let kind = match collective.link {
                Link::DataCenter => WorkKind::Transfer { over: Bound::Dcn, bytes },
                Link::Host => WorkKind::Transfer { over: Bound::Host, bytes },
                _ => WorkKind::Exchange {
                    kind: collective.kind,
                    payload_bytes: collective.payload_bytes,
                    group: self.program.group(collective),
                    hbm_bytes: self.program.hbm_bytes(id),
                },
            };
            return Some(OpWork { class: PricedClass::Collective, kind });
        }
        let opcode = instruction.opcode();
        let is_beside = opcode.is_done()
            || matches!(opcode, Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::CopyStart)
            || matches!(opcode, Opcode::While | Opcode::Call | Opcode::Conditional);
        if is_beside {
            return None;
        }
        let mut work = Work::of(module, users, id);
        if *opcode == Opcode::CustomCall {
            let moves = work.traffic.read.hbm + work.traffic.written.hbm > 0.0;
            let kind = WorkKind::Kernel(KernelWork::read(module, id), work);
            return moves.then_some(OpWork { class: PricedClass::Kernel, kind });
        }
        if is_opaque(module, id) {
            complete(&mut work, module, id, stated);
        }
        let (read, written) = (work.traffic.read, work.traffic.written);
        if work.matmuls.is_empty() && read.hbm + written.hbm + read.vmem + written.vmem == 0.0 {
            return None;
        }
        let class = if !work.matmuls.is_empty() {
            PricedClass::Matmul
        } else if opcode.class() == OpcodeClass::Movement || moves_only(module, id, &work) {
            PricedClass::Copy
        } else {
            PricedClass::Fusion
        };
        Some(OpWork { class, kind: WorkKind::Op(work) })
    }
}

/// A fusion whose inside is not known.
fn is_opaque(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    let inside = instruction.called_computations().first().map(|&called| module.computation(called).root());
    *instruction.opcode() == Opcode::Fusion
        && inside.is_some_and(|root| matches!(module.instruction(root).opcode(), Opcode::Other(_)))
}

/// A fusion that computes nothing.
fn moves_only(module: &HloModule, id: InstructionId, work: &Work) -> bool {
    let name = module.instruction(id).name();
    let is_named_so = ["copy", "transpose", "bitcast", "slice", "pad"].iter().any(|word| name.starts_with(word));
    work.vector_ops == 0.0 && work.transcendentals == 0.0 && work.indexed_rows == 0.0 && is_named_so
}

/// What another piece of a row costs, in rows. A published trace of TPU7x: 1024 rows of 128 numbers take 8.6 us, of 5120 numbers 84 us.
const ROWS_PER_PIECE: f64 = 0.19;

/// The work of a fusion without its inside, from what the profile states and its shapes.
fn complete(work: &mut Work, module: &HloModule, id: InstructionId, stated: StatedWork) {
    let instruction = module.instruction(id);
    let shapes: Vec<&Shape> =
        instruction.operands().iter().map(|&operand| module.instruction(operand).shape()).collect();
    // What it does not read of an operand, the profile leaves out too.
    let traffic = &mut work.traffic;
    let all = traffic.read.hbm + traffic.read.vmem + traffic.written.hbm + traffic.written.vmem;
    if stated.bytes > 0.0 && stated.bytes < all {
        let mut unread = all - stated.bytes;
        for part in [&mut traffic.read.hbm, &mut traffic.read.vmem, &mut traffic.written.hbm] {
            let less = unread.min(*part);
            *part -= less;
            unread -= less;
        }
    }
    let results: f64 = instruction.shape().leaves().map(|leaf| leaf.element_count() as f64).sum();
    let is_matmul = instruction.attributes().fusion_kind == "kOutput" && stated.flops > 2.0 * 16.0 * results;
    if is_matmul && results > 0.0 {
        let contracted = (stated.flops / 2.0 / results).round().max(1.0);
        let largest = shapes.iter().max_by_key(|shape| shape.element_count());
        let columns = largest.map_or(1.0, |shape| (shape.element_count() as f64 / contracted).round().max(1.0));
        let widest =
            shapes.iter().filter(|shape| shape.dimensions().len() >= 2).max_by_key(|shape| shape.element_type().bits());
        let element = widest.map_or(PrimitiveType::Bf16, |shape| shape.element_type());
        work.matmuls.push(Matmul {
            flops: stated.flops,
            element,
            contracted: contracted as u64,
            columns: columns as u64,
        });
        return;
    }
    // Vector units compute in 32 bits: narrower elements are unpacked as they come and packed as they go.
    let narrow = shapes.iter().flat_map(|shape| shape.leaves()).chain(instruction.shape().leaves());
    let conversions: f64 =
        narrow.filter(|leaf| leaf.element_type().bits() < 32).map(|leaf| leaf.element_count() as f64).sum();
    let whole: f64 = shapes.iter().map(|shape| shape.byte_size() as f64).sum::<f64>().max(1.0);
    let read = (stated.bytes / whole).clamp(0.0, 1.0);
    if stated.flops > 0.0 {
        work.vector_ops += stated.flops + conversions * read;
    }
    // A gather: rows by their indices, of a table that is not read whole.
    if instruction.attributes().fusion_kind == "kCustom" && stated.flops == 0.0 {
        let is_index = |shape: &&&Shape| shape.element_type() == PrimitiveType::S32 && shape.dimensions().len() == 1;
        let indices = shapes.iter().find(is_index).map_or(0.0, |shape| shape.element_count() as f64);
        // A row of a tiled table lies in as many tiles as it has groups of 128 lanes, and each piece is fetched by itself.
        let table = shapes.iter().max_by_key(|shape| shape.element_count());
        let lanes = table.and_then(|shape| shape.dimensions().last()).map_or(1, |&size| size.max(1));
        let pieces = (lanes as f64 / 128.0).ceil();
        let rows = indices.min(results / lanes as f64);
        work.indexed_rows += rows * (1.0 + ROWS_PER_PIECE * (pieces - 1.0));
    }
}
