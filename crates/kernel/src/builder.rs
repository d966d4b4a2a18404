//! Writing a kernel: grid, memory with windows, and a body, checked.

use chips::Generation;
use tensor::{DType, Spec};

use crate::cost;
use crate::error::Error;
use crate::ir::{Body, RefId};
use crate::kernel::{
    AxisId, BlockSpec, Buffers, CostEstimate, GridAxis, Kernel, KernelCore, KernelMemory, Reference, ReferenceRole,
    Semantics, is_supported,
};
use crate::sparse_core::SparseCores;
use crate::vmem;
use crate::writer::{Val, Writer};

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
    cost: Option<CostEstimate>,
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
    pub fn grid(&mut self, size: usize, semantics: Semantics) -> AxisId {
        self.grid.push(GridAxis { size, semantics });
        AxisId(self.grid.len() as u32 - 1)
    }

    /// Adds an operand of `i32` that lies in SMEM from the beginning, for index maps and bodies to read.
    pub fn prefetch(&mut self, name: &str, dims: impl Into<Vec<usize>>) -> RefId {
        let block = Spec::new(DType::I32, dims);
        self.add(Reference { name: name.into(), role: ReferenceRole::Prefetch, memory: KernelMemory::Smem, block })
    }

    /// Adds an operand, seen through blocks; the map gives the block's index.
    pub fn input(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (ReferenceRole::Input, Buffers::Two), map)
    }

    /// Adds another view of an input, through blocks of the same size; the map gives the block's index.
    pub fn input_again(
        &mut self,
        name: &str,
        input: RefId,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        let seen = self.references.get(input.0 as usize).and_then(|seen| match &seen.role {
            ReferenceRole::Input(window) if window.part_of.is_none() => Some((seen.block.clone(), window.clone())),
            _ => None,
        });
        let Some((block, window)) = seen else {
            self.refuse(name, "what it is another view of is no input".into());
            return input;
        };
        let map = self.map(name, &window.array, map);
        let role = ReferenceRole::Input(BlockSpec { map, part_of: Some(input), ..window });
        self.add(Reference { name: name.into(), role, memory: KernelMemory::Vmem, block })
    }

    /// As [`KernelBuilder::input`], with one copy of the block only.
    pub fn input_single(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (ReferenceRole::Input, Buffers::One), map)
    }

    /// Adds a result, written through blocks; the map gives the block's index.
    pub fn output(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (ReferenceRole::Output, Buffers::Two), map)
    }

    /// As [`KernelBuilder::output`], with one copy of the block only.
    pub fn output_single(
        &mut self,
        name: &str,
        array: Spec,
        block: impl Into<Vec<usize>>,
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        self.add_window(name, Spec::new(array.dtype, block), array, (ReferenceRole::Output, Buffers::One), map)
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
        self.add(Reference { name: name.into(), role: ReferenceRole::Scratch, memory: KernelMemory::Vmem, block })
    }

    /// Adds scalar memory of `i32` that keeps its contents from step to step.
    pub fn scalars(&mut self, name: &str, dims: impl Into<Vec<usize>>) -> RefId {
        let block = Spec::new(DType::I32, dims);
        self.add(Reference { name: name.into(), role: ReferenceRole::Scratch, memory: KernelMemory::Smem, block })
    }

    /// Adds an operand that stays in HBM: the body copies from it.
    pub fn hbm_input(&mut self, name: &str, array: Spec) -> RefId {
        self.add_in_hbm(name, array, ReferenceRole::Input)
    }

    /// Adds a result that lies in HBM: the body copies into it.
    pub fn hbm_output(&mut self, name: &str, array: Spec) -> RefId {
        self.add_in_hbm(name, array, ReferenceRole::Output)
    }

    fn add_in_hbm(&mut self, name: &str, array: Spec, role: fn(BlockSpec) -> ReferenceRole) -> RefId {
        let zeros = |map: &Writer| (0..array.rank()).map(|_| map.i32(0).id()).collect::<Vec<_>>();
        let writer = Writer::new(&self.name, self.grid.len(), &self.references);
        let indices = zeros(&writer);
        let map = writer.finish(indices).unwrap_or_default();
        let role = role(BlockSpec { array: array.clone(), map, buffers: Buffers::One, part_of: None });
        self.add(Reference { name: name.into(), role, memory: KernelMemory::Hbm, block: array })
    }

    /// Adds semaphores for copies.
    pub fn semaphores(&mut self, name: &str, count: usize) -> RefId {
        let block = Spec::new(DType::I32, [count]);
        self.add(Reference { name: name.into(), role: ReferenceRole::Scratch, memory: KernelMemory::Semaphore, block })
    }

    /// States the work of one call; without it every branch of every step counts.
    pub fn cost(&mut self, cost: CostEstimate) -> &mut Self {
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
            cost: CostEstimate::default(),
            vmem_bytes: 0,
        };
        for reference in &kernel.references {
            check_reference(&kernel, reference)?;
        }
        for &(operand, result) in &kernel.in_place {
            check_in_place(&kernel, operand, result)?;
        }
        if kernel.core() == KernelCore::SparseCore {
            check_sparse_core(&kernel)?;
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
        (role, buffers): (fn(BlockSpec) -> ReferenceRole, Buffers),
        map: impl for<'k> FnOnce(&'k Writer) -> Vec<Val<'k>>,
    ) -> RefId {
        let map = self.map(name, &array, map);
        let role = role(BlockSpec { array, map, buffers, part_of: None });
        self.add(Reference { name: name.into(), role, memory: KernelMemory::Vmem, block })
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

/// No array of a kernel has more elements; products of sizes cannot overflow.
const MAX_ELEMENTS: usize = 1 << 48;

fn check_in_place(kernel: &Kernel, operand: RefId, result: RefId) -> Result<(), Error> {
    let (from, to) = (kernel.reference(operand), kernel.reference(result));
    match (from.map(|reference| &reference.role), to.map(|reference| &reference.role)) {
        (Some(ReferenceRole::Input(from)), Some(ReferenceRole::Output(to))) if from.array == to.array => Ok(()),
        _ => {
            let operand = from.map(|reference| reference.name.clone()).unwrap_or_default();
            let message = "only a result of the same type takes the place of an operand".to_owned();
            Err(Error::Window { kernel: kernel.name.clone(), operand, message })
        }
    }
}

/// The grid of a SparseCore kernel is the cores and their subcores, and nothing of it waits in windows.
fn check_sparse_core(kernel: &Kernel) -> Result<(), Error> {
    let cores = SparseCores::of(kernel.generation)?;
    let is_there = |axis: &GridAxis| match axis.semantics {
        Semantics::Core => axis.size <= cores.cores,
        Semantics::Subcore => axis.size <= cores.subcores,
        _ => false,
    };
    let semantics: Vec<Semantics> = kernel.grid.iter().map(|axis| axis.semantics).collect();
    let wrong = if semantics != [Semantics::Core, Semantics::Subcore] || !kernel.grid.iter().all(is_there) {
        Some(("grid", format!("it is at most {} SparseCores by {} subcores", cores.cores, cores.subcores)))
    } else {
        let is_window = |r: &&Reference| !matches!(r.role, ReferenceRole::Scratch) && r.memory != KernelMemory::Hbm;
        let window = kernel.references.iter().find(is_window);
        window.map(|reference| (reference.name.as_str(), "SparseCores take operands in HBM only".to_owned()))
    };
    wrong.map_or(Ok(()), |(operand, message)| {
        Err(Error::Window { kernel: kernel.name.clone(), operand: operand.into(), message })
    })
}

fn check_reference(kernel: &Kernel, reference: &Reference) -> Result<(), Error> {
    let refuse =
        |message: String| Err(Error::Window { kernel: kernel.name.clone(), operand: reference.name.clone(), message });
    let array = match &reference.role {
        ReferenceRole::Input(window) | ReferenceRole::Output(window) => Some(&window.array),
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
    let Some(array) = array.filter(|_| reference.memory != KernelMemory::Hbm) else { return Ok(()) };
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
