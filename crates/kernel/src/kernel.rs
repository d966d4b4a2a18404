//! A kernel: grid, memory, windows and body, checked when it is finished.

use chips::Generation;
use tensor::{DType, Spec};

use crate::ir::{Body, RefId};

/// Work of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// FLOPs of matmuls, two for each multiply-add.
    pub flops: u64,
    /// Exponentials and the like.
    pub transcendentals: u64,
    /// Bytes read from and written to HBM.
    pub bytes_accessed: u64,
}

/// Whether the steps along an axis of the grid may be shared out between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Steps do not depend on each other.
    Parallel,
    /// Steps run in order; scratch and output blocks carry from one to the next.
    Arbitrary,
    /// One step on each SparseCore, all at once.
    Core,
    /// One step on each vector subcore of a SparseCore, all at once.
    Subcore,
}

/// An axis of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisId(pub(crate) u32);

/// Size and semantics of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridAxis {
    /// Number of steps.
    pub size: usize,
    /// Whether they depend on each other.
    pub semantics: Semantics,
}

/// Where a piece of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelMemory {
    /// Vector memory.
    Vmem,
    /// Scalar memory.
    Smem,
    /// Device memory, from and to which a body copies by itself.
    Hbm,
    /// Semaphores that tell the end of copies.
    Semaphore,
}

/// How many copies of a block are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffers {
    /// Two: the next block arrives while this one is used.
    #[default]
    Two,
    /// One: for blocks that change rarely.
    One,
}

/// A part of an array that moves with the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSpec {
    /// The whole array, in HBM.
    pub array: Spec,
    /// From grid indices and prefetched scalars to the index of the block, in blocks.
    pub map: Body,
    /// Copies kept.
    pub buffers: Buffers,
    /// The input that is seen here too, through other blocks: an operand is given once.
    pub part_of: Option<RefId>,
}

/// What a piece of memory is for.
#[derive(Clone, Debug, PartialEq)]
pub enum ReferenceRole {
    /// An operand that lies in SMEM before the first step.
    Prefetch,
    /// Blocks of an operand.
    Input(BlockSpec),
    /// Blocks of a result.
    Output(BlockSpec),
    /// Kept from step to step.
    Scratch,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Its name, for messages.
    pub name: String,
    /// Its role.
    pub role: ReferenceRole,
    /// Where it is.
    pub memory: KernelMemory,
    /// Type and shape of what is there: of one block.
    pub block: Spec,
}

impl Reference {
    /// The shape bodies see: leading dimensions of size 1 beyond the last two are dropped.
    pub fn view(&self) -> &[usize] {
        let dims = &self.block.dims;
        if self.memory != KernelMemory::Vmem {
            return dims;
        }
        let ones = dims.iter().take_while(|&&d| d == 1).count().min(dims.len().saturating_sub(2));
        dims.get(ones..).unwrap_or(dims)
    }
}

/// A finished kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Its name; compilers and profiles show it.
    pub name: String,
    /// The generation it is for.
    pub generation: Generation,
    /// The grid, slowest axis first.
    pub grid: Vec<GridAxis>,
    /// Memory, in the order it was asked for.
    pub references: Vec<Reference>,
    /// Operands and the results that take their place.
    pub in_place: Vec<(RefId, RefId)>,
    /// The body.
    pub body: Body,
    /// Work of one call.
    pub cost: CostEstimate,
    /// VMEM it may take: blocks, scratch and values that do not fit into registers.
    pub vmem_bytes: u64,
}

/// The kind of core that runs a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCore {
    /// Matrix and vector units over whole tiles.
    TensorCore,
    /// Many small vector units that fetch rows by index.
    SparseCore,
}

impl Kernel {
    /// The kind of core that runs it.
    pub fn core(&self) -> KernelCore {
        let is_sparse = |axis: &GridAxis| matches!(axis.semantics, Semantics::Core | Semantics::Subcore);
        if self.grid.iter().any(is_sparse) { KernelCore::SparseCore } else { KernelCore::TensorCore }
    }

    /// A piece of memory.
    pub fn reference(&self, id: RefId) -> Option<&Reference> {
        self.references.get(id.0 as usize)
    }

    /// Memory in the order of the kernel's arguments: prefetched operands, inputs, outputs, scratch.
    pub fn arguments(&self) -> Vec<RefId> {
        let rank = |reference: &Reference| match reference.role {
            ReferenceRole::Prefetch => 0,
            ReferenceRole::Input(_) => 1,
            ReferenceRole::Output(_) => 2,
            ReferenceRole::Scratch => 3,
        };
        let mut order: Vec<RefId> = (0..self.references.len() as u32).map(RefId).collect();
        order.sort_by_key(|&id| self.reference(id).map_or(0, rank));
        order
    }

    /// Types of the operands of a call: prefetched scalars first.
    pub fn operands(&self) -> Vec<Spec> {
        self.specs(|role| match role {
            ReferenceRole::Prefetch => Some(None),
            ReferenceRole::Input(window) if window.part_of.is_none() => Some(Some(window.array.clone())),
            _ => None,
        })
    }

    /// Which of [`Kernel::operands`] each operand of the compiler's call is: one that is seen through several blocks is there for each.
    pub(crate) fn seen_operands(&self) -> Vec<usize> {
        let mut numbers: Vec<(RefId, usize)> = Vec::new();
        let mut seen = Vec::new();
        for id in self.arguments() {
            let part_of = match self.reference(id).map(|reference| &reference.role) {
                Some(ReferenceRole::Prefetch) => None,
                Some(ReferenceRole::Input(window)) => window.part_of,
                _ => continue,
            };
            match part_of.and_then(|of| numbers.iter().find(|(other, _)| *other == of)) {
                Some(&(_, number)) => seen.push(number),
                None => {
                    seen.push(numbers.len());
                    numbers.push((id, numbers.len()));
                }
            }
        }
        seen
    }

    /// Types of the results of a call.
    pub fn results(&self) -> Vec<Spec> {
        self.specs(|role| match role {
            ReferenceRole::Output(window) => Some(Some(window.array.clone())),
            _ => None,
        })
    }

    /// [`Kernel::in_place`] as numbers of operands and results.
    pub(crate) fn aliases(&self) -> Vec<(usize, usize)> {
        let arguments = self.arguments();
        let number = |wanted: RefId, is_one: fn(&ReferenceRole) -> bool| {
            let same = arguments.iter().filter(|&&id| self.reference(id).is_some_and(|r| is_one(&r.role)));
            same.into_iter().position(|&id| id == wanted)
        };
        let is_operand = |role: &ReferenceRole| matches!(role, ReferenceRole::Prefetch | ReferenceRole::Input(_));
        let numbers = |&(operand, result): &(RefId, RefId)| {
            Some((number(operand, is_operand)?, number(result, |role| matches!(role, ReferenceRole::Output(_)))?))
        };
        self.in_place.iter().filter_map(numbers).collect()
    }

    fn specs(&self, pick: impl Fn(&ReferenceRole) -> Option<Option<Spec>>) -> Vec<Spec> {
        let references = self.arguments().into_iter().filter_map(|id| self.reference(id));
        references
            .filter_map(|reference| Some(pick(&reference.role)?.unwrap_or_else(|| reference.block.clone())))
            .collect()
    }
}

/// Element types kernels compute with.
pub(crate) fn is_supported(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::I32 | DType::Bool) || is_narrow(dtype)
}

/// Element types of codes: read, never computed with.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::I4 | DType::F8E4M3FN | DType::F8E5M2)
}
