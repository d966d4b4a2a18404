//! A kernel: grid, memory, windows and body, checked when it is finished.

use chips::Generation;
use tensor::{DType, Spec};

use crate::cost::{self, Cost};
use crate::error::Error;
use crate::ir::{Body, RefId};
use crate::vmem;
use crate::writer::{Val, Writer};

/// Whether the steps along an axis of the grid may be shared out between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Steps do not depend on each other.
    Parallel,
    /// Steps run in order; scratch and output blocks carry from one to the next.
    Arbitrary,
}

/// An axis of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis(pub(crate) u32);

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
pub enum Memory {
    /// Vector memory.
    Vmem,
    /// Scalar memory.
    Smem,
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
pub struct Window {
    /// The whole array, in HBM.
    pub array: Spec,
    /// From grid indices and prefetched scalars to the index of the block, in blocks.
    pub map: Body,
    /// Copies kept.
    pub buffers: Buffers,
}

/// What a piece of memory is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// An operand that lies in SMEM before the first step.
    Prefetch,
    /// Blocks of an operand.
    Input(Window),
    /// Blocks of a result.
    Output(Window),
    /// Kept from step to step.
    Scratch,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Its name, for messages.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Where it is.
    pub memory: Memory,
    /// Type and shape of what is there: of one block.
    pub block: Spec,
}

impl Reference {
    /// The shape bodies see: leading dimensions of size 1 beyond the last two are dropped.
    pub fn view(&self) -> &[usize] {
        let dims = &self.block.dims;
        if self.memory == Memory::Smem {
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
    pub cost: Cost,
    /// VMEM it may take: blocks, scratch and values that do not fit into registers.
    pub vmem_bytes: u64,
}

impl Kernel {
    /// A piece of memory.
    pub fn reference(&self, id: RefId) -> Option<&Reference> {
        self.references.get(id.0 as usize)
    }

    /// Memory in the order of the kernel's arguments: prefetched operands, inputs, outputs, scratch.
    pub fn arguments(&self) -> Vec<RefId> {
        let rank = |reference: &Reference| match reference.role {
            Role::Prefetch => 0,
            Role::Input(_) => 1,
            Role::Output(_) => 2,
            Role::Scratch => 3,
        };
        let mut order: Vec<RefId> = (0..self.references.len() as u32).map(RefId).collect();
        order.sort_by_key(|&id| self.reference(id).map_or(0, rank));
        order
    }

    /// Types of the operands of a call: prefetched scalars first.
    pub fn operands(&self) -> Vec<Spec> {
        self.specs(|role| match role {
            Role::Prefetch => Some(None),
            Role::Input(window) => Some(Some(window.array.clone())),
            _ => None,
        })
    }

    /// Types of the results of a call.
    pub fn results(&self) -> Vec<Spec> {
        self.specs(|role| match role {
            Role::Output(window) => Some(Some(window.array.clone())),
            _ => None,
        })
    }

    /// [`Kernel::in_place`] as numbers of operands and results.
    pub(crate) fn aliases(&self) -> Vec<(usize, usize)> {
        let arguments = self.arguments();
        let number = |wanted: RefId, is_one: fn(&Role) -> bool| {
            let same = arguments.iter().filter(|&&id| self.reference(id).is_some_and(|r| is_one(&r.role)));
            same.into_iter().position(|&id| id == wanted)
        };
        let is_operand = |role: &Role| matches!(role, Role::Prefetch | Role::Input(_));
        let numbers = |&(operand, result): &(RefId, RefId)| {
            Some((number(operand, is_operand)?, number(result, |role| matches!(role, Role::Output(_)))?))
        };
        self.in_place.iter().filter_map(numbers).collect()
    }

    fn specs(&self, pick: impl Fn(&Role) -> Option<Option<Spec>>) -> Vec<Spec> {
        let references = self.arguments().into_iter().filter_map(|id| self.reference(id));
        references
            .filter_map(|reference| Some(pick(&reference.role)?.unwrap_or_else(|| reference.block.clone())))
            .collect()
    }
}

/// Writes a kernel.
///
/// ```
/// use chips::Generation;
/// use kernel::{KernelBuilder, Semantics};
/// use tensor::{DType, Spec};
/// # fn main() -> Result<(), kernel::Error> {
/// let array = Spec::new(DType::F32, [1024, 512]);
/// let mut twice = KernelBuilder::new("twice", Generation::V5e);
/// let rows = twice.grid(8, Semantics::Parallel);
/// let x = twice.input("x", array.clone(), [128, 512], |m| vec![m.program_id(rows), m.i32(0)]);
/// let y = twice.output("y", array, [128, 512], |m| vec![m.program_id(rows), m.i32(0)]);
/// let twice = twice.body(|k| k.store(y, k.load(x) * 2.0))?;
/// assert!(twice.text().contains("arith.mulf"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct KernelBuilder {
    name: String,
    generation: Generation,
    grid: Vec<GridAxis>,
    references: Vec<Reference>,
    in_place: Vec<(RefId, RefId)>,
    cost: Option<Cost>,
    error: Option<Error>,
}

impl KernelBuilder {
    /// A kernel of that name for a generation.
    pub fn new(name: impl Into<String>, generation: Generation) -> KernelBuilder {
        let error = (generation < Generation::V4).then_some(Error::Generation(generation));
        KernelBuilder {
            name: name.into(),
            generation,
            grid: Vec::new(),
            references: Vec::new(),
            in_place: Vec::new(),
            cost: None,
            error,
        }
    }

    /// Adds an axis to the grid, faster than those before.
    pub fn grid(&mut self, size: usize, semantics: Semantics) -> Axis {
        self.grid.push(GridAxis { size, semantics });
        Axis(self.grid.len() as u32 - 1)
    }

    /// Adds an operand of `i32` that lies in SMEM from the beginning, for index maps and bodies to read.
    pub fn prefetch(&mut self, name: &str, dims: impl Into<Vec<usize>>) -> RefId {
        let block = Spec::new(DType::I32, dims);
        self.add(Reference { name: name.into(), role: Role::Prefetch, memory: Memory::Smem, block })
    }

    /// Adds an operand, seen through blocks; the map gives the block's index.
    pub fn input(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (Role::Input, Buffers::Two), map)
    }

    /// As [`KernelBuilder::input`], with one copy of the block only.
    pub fn input_single(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (Role::Input, Buffers::One), map)
    }

    /// Adds a result, written through blocks; the map gives the block's index.
    pub fn output(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (Role::Output, Buffers::Two), map)
    }

    /// As [`KernelBuilder::output`], with one copy of the block only.
    pub fn output_single(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (Role::Output, Buffers::One), map)
    }

    /// Lets a result take the place of an operand of the same type. Each block of the operand must be read before the same
    /// block of the result is written, and not afterwards.
    pub fn in_place(&mut self, operand: RefId, result: RefId) -> &mut Self {
        self.in_place.push((operand, result));
        self
    }

    /// Adds vector memory that keeps its contents from step to step.
    pub fn scratch(&mut self, name: &str, dtype: DType, dims: impl Into<Vec<usize>>) -> RefId {
        let block = Spec::new(dtype, dims);
        self.add(Reference { name: name.into(), role: Role::Scratch, memory: Memory::Vmem, block })
    }

    /// Adds scalar memory of `i32` that keeps its contents from step to step.
    pub fn scalars(&mut self, name: &str, dims: impl Into<Vec<usize>>) -> RefId {
        let block = Spec::new(DType::I32, dims);
        self.add(Reference { name: name.into(), role: Role::Scratch, memory: Memory::Smem, block })
    }

    /// States the work of one call; without it every branch of every step counts.
    pub fn cost(&mut self, cost: Cost) -> &mut Self {
        self.cost = Some(cost);
        self
    }

    /// Writes the body and finishes the kernel.
    pub fn body(self, write: impl FnOnce(&Writer)) -> Result<Kernel, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.grid.is_empty() || self.grid.iter().any(|axis| axis.size == 0) {
            let message = "the grid has no steps".to_owned();
            return Err(Error::Window { kernel: self.name, operand: "grid".into(), message });
        }
        let writer = Writer::new(&self.name, self.grid.len(), &self.references);
        write(&writer);
        let body = writer.finish(Vec::new())?;
        let mut kernel = Kernel {
            name: self.name,
            generation: self.generation,
            grid: self.grid,
            references: self.references,
            in_place: self.in_place,
            body,
            cost: Cost::default(),
            vmem_bytes: 0,
        };
        for reference in &kernel.references {
            check_reference(&kernel, reference)?;
        }
        for &(operand, result) in &kernel.in_place {
            check_in_place(&kernel, operand, result)?;
        }
        kernel.cost = self.cost.unwrap_or_else(|| cost::count(&kernel));
        kernel.vmem_bytes = vmem::check(&kernel)?;
        Ok(kernel)
    }

    fn add(&mut self, reference: Reference) -> RefId {
        self.references.push(reference);
        RefId(self.references.len() as u32 - 1)
    }

    fn add_window(
        &mut self,
        name: &str,
        block: Spec,
        array: Spec,
        (role, buffers): (fn(Window) -> Role, Buffers),
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        let map = self.map(name, &array, map);
        let role = role(Window { array, map, buffers });
        self.add(Reference { name: name.into(), role, memory: Memory::Vmem, block })
    }

    fn map(&mut self, name: &str, array: &Spec, map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>) -> Body {
        let writer = Writer::new(&self.name, self.grid.len(), &self.references);
        let indices: Vec<_> = map(&writer).into_iter().map(|v| v.id()).collect();
        let map = writer.finish(indices).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            Body::default()
        });
        if self.error.is_none() && map.entry().yields.len() != array.rank() {
            let message = format!("the map gives {} indices for {array}", map.entry().yields.len());
            self.refuse(name, message);
        }
        let is_index = |&id| *map.ty(id) == Spec::new(DType::I32, []);
        if !map.entry().yields.iter().all(is_index) {
            self.refuse(name, "the map gives something else than i32 scalars".into());
        }
        map
    }

    fn refuse(&mut self, operand: &str, message: String) {
        self.error.get_or_insert(Error::Window { kernel: self.name.clone(), operand: operand.into(), message });
    }
}

/// Element types kernels compute with.
pub(crate) fn is_supported(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::I32 | DType::I8 | DType::Bool)
}

/// No array of a kernel has more elements; products of sizes cannot overflow.
const MAX_ELEMENTS: usize = 1 << 48;

fn check_in_place(kernel: &Kernel, operand: RefId, result: RefId) -> Result<(), Error> {
    let (from, to) = (kernel.reference(operand), kernel.reference(result));
    match (from.map(|reference| &reference.role), to.map(|reference| &reference.role)) {
        (Some(Role::Input(from)), Some(Role::Output(to))) if from.array == to.array => Ok(()),
        _ => {
            let operand = from.map(|reference| reference.name.clone()).unwrap_or_default();
            let message = "only a result of the same type takes the place of an operand".to_owned();
            Err(Error::Window { kernel: kernel.name.clone(), operand, message })
        }
    }
}

fn check_reference(kernel: &Kernel, reference: &Reference) -> Result<(), Error> {
    let refuse =
        |message: String| Err(Error::Window { kernel: kernel.name.clone(), operand: reference.name.clone(), message });
    let array = match &reference.role {
        Role::Input(window) | Role::Output(window) => Some(&window.array),
        _ => None,
    };
    for spec in array.into_iter().chain([&reference.block]) {
        if !is_supported(spec.dtype) || spec.dtype == DType::Bool {
            return refuse(format!("arrays of {} are not supported", spec.dtype));
        }
        let elements = spec.dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if elements.is_none_or(|n| n == 0 || n > MAX_ELEMENTS) || spec.dims.is_empty() {
            return refuse(format!("{spec} is empty or too large"));
        }
    }
    let Some(array) = array else { return Ok(()) };
    let block = &reference.block.dims;
    if block.len() != array.rank() {
        return refuse(format!("a block of {} dimensions for {array}", block.len()));
    }
    if let Some(axis) = (0..block.len()).find(|&n| block[n] > array.dims[n]) {
        return refuse(format!("size {} of the block's dimension {axis} exceeds {array}", block[axis]));
    }
    let rank = block.len();
    let packed = 32 / array.dtype.bits() as usize;
    let tiles = if rank == 1 { vec![(0, 128 * packed)] } else { vec![(rank - 2, 8), (rank - 1, 128)] };
    for (axis, multiple) in tiles {
        if block[axis] != array.dims[axis] && !block[axis].is_multiple_of(multiple) {
            return refuse(format!(
                "size {} of the block's dimension {axis} is neither a multiple of {multiple} nor all of {array}",
                block[axis]
            ));
        }
    }
    Ok(())
}
