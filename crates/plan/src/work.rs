//! What one instruction of a compiled program does: matmuls, vector arithmetic, bytes moved.

use xla::{ComputationId, HloModule, InstructionId, Opcode, OpcodeClass, PrimitiveType, Traffic, Users};

/// The work of one execution of an instruction, with everything it fuses.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Matmuls.
    pub matmuls: Vec<Matmul>,
    /// Simple operations on elements.
    pub vector_ops: f64,
    /// Exponentials, logarithms, roots and the like, on elements.
    pub transcendentals: f64,
    /// Rows that are gathered or scattered by an index each.
    pub indexed_rows: f64,
    /// Cycles of shuffling sublanes where the second smallest dimension of a layout changes.
    pub shuffle_cycles: f64,
    /// Bytes of results that vector units store, in whatever memory; copies are moved by other units.
    pub stored_bytes: f64,
    /// Operands of matmuls of 8 bits and less.
    pub narrow: Vec<NarrowOperand>,
    /// Bytes moved.
    pub traffic: Traffic,
    /// The compiler's own estimate.
    pub cycles: Option<u64>,
}

/// A matmul.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matmul {
    /// Operations: two for each multiply-add.
    pub flops: f64,
    /// Type that decides the rate.
    pub element: PrimitiveType,
    /// Summed size.
    pub contracted: u64,
    /// Columns of the result: the size that comes from the second operand.
    pub columns: u64,
}

/// An operand of a matmul of 8 bits and less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NarrowOperand {
    /// Its type.
    pub element: PrimitiveType,
    /// The type of the other side.
    pub beside: PrimitiveType,
    /// Its elements.
    pub elements: f64,
}

impl Work {
    /// Operations of all matmuls.
    pub fn flops(&self) -> f64 {
        self.matmuls.iter().map(|matmul| matmul.flops).sum()
    }

    /// Reads the work of an instruction that is scheduled (not inside a fusion).
    pub fn of(module: &HloModule, users: &Users, id: InstructionId) -> Work {
        let instruction = module.instruction(id);
        let mut work =
            Work { traffic: users.traffic(module, id), cycles: instruction.estimated_cycles(), ..Work::default() };
        work.add(module, id, 0);
        work.shuffle_cycles = shuffle_cycles(module, id);
        let is_stored = matches!(instruction.opcode(), Opcode::Fusion | Opcode::Broadcast | Opcode::Iota)
            || matches!(instruction.opcode().class(), OpcodeClass::Arithmetic | OpcodeClass::Transcendental);
        if is_stored {
            work.stored_bytes = work.traffic.written.hbm + work.traffic.written.vmem;
        }
        work
    }

    fn add(&mut self, module: &HloModule, id: InstructionId, depth: u32) {
        let instruction = module.instruction(id);
        match instruction.opcode() {
            Opcode::Fusion if depth < MAX_DEPTH => {
                for &ComputationId(called) in instruction.called_computations() {
                    for &inner in module.computation(ComputationId(called)).instructions() {
                        self.add(module, inner, depth + 1);
                    }
                }
            }
            opcode if opcode.is_contraction() => {
                let flops = module.matmul_flops(id) as f64;
                let element = module.matmul_type(id).unwrap_or(PrimitiveType::Bf16);
                let (contracted, columns) = sides(module, id, flops);
                self.matmuls.push(Matmul { flops, element, contracted, columns });
                self.narrow.extend(narrow_operands(module, id));
            }
            Opcode::Gather => self.indexed_rows += rows(module, id, 1),
            Opcode::Scatter => self.indexed_rows += rows(module, id, (instruction.operands().len() - 1) / 2),
            Opcode::Reduce | Opcode::ReduceWindow => self.vector_ops += elements_of_operand(module, id),
            opcode => match cost(opcode) {
                RunCost::Free => {}
                RunCost::Simple => self.vector_ops += elements(module, id),
                RunCost::Transcendental => self.transcendentals += elements(module, id),
            },
        }
    }
}

const MAX_DEPTH: u32 = 16;

/// Cycles for each row of 128 elements whose sublane changes. A published trace of TPU7x: 1.0 to 1.4 for bf16, whose rows lie two in a
/// word and are taken apart and joined again, 0.25 for f32, eight rows at a time.
const CYCLES_PER_PACKED_ROW: f64 = 1.2;
const CYCLES_PER_ROW: f64 = 0.25;
/// The same where rows of one tile go to tiles that do not follow each other: loads bring rows from anywhere into a register, but a store
/// takes them to one place, so that each goes by itself. The same trace: 3.1.
const CYCLES_PER_SCATTERED_ROW: f64 = 3.1;
/// Rows of a tile that fills the sublanes of a register. Smaller ones are moved one in a cycle: the same trace.
const FULL_TILE_ROWS: u64 = 8;

/// What an op pays for a layout with other sublanes: copies, and fusions without a known inside that keep the number of elements.
fn shuffle_cycles(module: &HloModule, id: InstructionId) -> f64 {
    let instruction = module.instruction(id);
    let is_opaque = || {
        let inside = instruction.called_computations().first().map(|&called| module.computation(called).root());
        inside.is_some_and(|root| matches!(module.instruction(root).opcode(), Opcode::Other(_)))
    };
    let moves = match instruction.opcode() {
        Opcode::Copy | Opcode::Reshape | Opcode::Transpose => true,
        Opcode::Fusion => is_opaque(),
        _ => false,
    };
    let shapes = instruction.operands().iter().map(|&operand| module.instruction(operand).shape());
    let result = instruction.shape();
    let Some(operand) = shapes.max_by_key(|shape| shape.element_count()).filter(|_| moves) else { return 0.0 };
    let (Some(from), Some(to)) = (Tiling::of(operand), Tiling::of(result)) else { return 0.0 };
    if operand.element_count() != result.element_count() || !keeps_lanes(operand, result) {
        return 0.0;
    }
    let rows = result.element_count() as f64 / 128.0;
    if from.sizes.get(..2) == to.sizes.get(..2) {
        let is_moved = from.sizes != to.sizes || from.order != to.order;
        let is_small = from.rows == to.rows && to.rows < FULL_TILE_ROWS;
        return if is_moved && is_small { rows / to.rows as f64 } else { 0.0 };
    }
    let bits = operand.element_type().bits().min(result.element_type().bits());
    if from.keeps_words(&to, bits) {
        return rows / from.rows.min(to.rows) as f64;
    }
    let is_packed = bits < 32;
    rows * match is_packed {
        true if to.scatters(&from) => CYCLES_PER_SCATTERED_ROW,
        true => CYCLES_PER_PACKED_ROW,
        false => CYCLES_PER_ROW,
    }
}

/// Whether rows of 128 elements stay rows. Where they do not, the transpose unit turns tiles as they pass, for which no time was
/// published: such an op counts by its bytes.
fn keeps_lanes(from: &xla::Shape, to: &xla::Shape) -> bool {
    let minor = |shape: &xla::Shape| shape.layout().and_then(|layout| layout.minor_to_major.first().copied());
    if from.dimensions() == to.dimensions() {
        return minor(from) == minor(to);
    }
    let lanes = |shape: &xla::Shape| minor(shape).and_then(|axis| shape.dimension(i64::from(axis)));
    match (lanes(from), lanes(to)) {
        (Some(from), Some(to)) => from == to || (from % 128 == 0 && to % 128 == 0),
        _ => false,
    }
}

/// A tiled layout.
struct Tiling {
    /// Sizes from the fastest varying dimension, which is in lanes, to the slowest; the second is in sublanes.
    sizes: Vec<u64>,
    /// The dimensions in that order.
    order: Vec<u32>,
    /// Rows of a tile.
    rows: u64,
}

impl Tiling {
    fn of(shape: &xla::Shape) -> Option<Tiling> {
        let layout = shape.layout()?;
        let rows = layout.tiles.first().filter(|tile| tile.len() >= 2)?.iter().rev().nth(1)?;
        let sizes: Option<Vec<u64>> =
            layout.minor_to_major.iter().map(|&dimension| shape.dimension(i64::from(dimension))).collect();
        let sizes = sizes.filter(|sizes| sizes.len() >= 2)?;
        Some(Tiling { sizes, order: layout.minor_to_major.clone(), rows: u64::try_from(*rows).ok()?.max(1) })
    }

    /// Whether rows stay in the same order, and those that share a word share one there too: tiles are cut or joined, one in a cycle, and
    /// nothing is taken apart.
    fn keeps_words(&self, to: &Tiling, bits: u32) -> bool {
        let rows_of_a_word = u64::from((32 / bits.max(1)).max(1));
        let is_whole = |tiling: &Tiling| {
            let in_order = tiling.order.iter().rev().copied().eq(0..tiling.order.len() as u32);
            in_order && tiling.sizes.get(1).is_some_and(|rows| rows % rows_of_a_word == 0)
        };
        self.sizes.first() == to.sizes.first() && is_whole(self) && is_whole(to)
    }

    /// Whether rows that share a tile elsewhere come into smaller tiles here which do not follow each other.
    fn scatters(&self, from: &Tiling) -> bool {
        let place = self.sizes.iter().skip(2).position(|size| Some(size) == from.sizes.get(1));
        let Some(place) = place.filter(|_| self.rows < from.rows) else { return false };
        // Rows from one of them to the next.
        let apart = self.sizes[1..place + 2].iter().fold(1_u64, |all, size| all.saturating_mul(*size));
        apart > self.rows
    }
}

/// Sides of a matmul of 8 bits and less, as they are stored: conversions on the way are looked through.
fn narrow_operands(module: &HloModule, id: InstructionId) -> Vec<NarrowOperand> {
    let stored = |mut id: InstructionId| {
        for _ in 0..MAX_DEPTH {
            let instruction = module.instruction(id);
            let passes_on = matches!(
                instruction.opcode(),
                Opcode::Convert | Opcode::Bitcast | Opcode::Copy | Opcode::Reshape | Opcode::Transpose
            );
            match instruction.operands().first().filter(|_| passes_on) {
                Some(&next) => id = next,
                None => break,
            }
        }
        module.instruction(id).shape()
    };
    let sides: Vec<_> = module.instruction(id).operands().iter().take(2).map(|&operand| stored(operand)).collect();
    let [first, second] = sides[..] else { return Vec::new() };
    if first.is_tuple() || second.is_tuple() {
        return Vec::new();
    }
    let of = |shape: &xla::Shape, other: &xla::Shape| NarrowOperand {
        element: shape.element_type(),
        beside: other.element_type(),
        elements: shape.element_count() as f64,
    };
    let both = [of(first, second), of(second, first)];
    both.into_iter().filter(|side| side.element.bits() <= 8 && side.element != PrimitiveType::Pred).collect()
}

fn elements(module: &HloModule, id: InstructionId) -> f64 {
    module.instruction(id).shape().element_count() as f64
}

/// Rows that a gather or scatter with these indices moves.
fn rows(module: &HloModule, id: InstructionId, indices: usize) -> f64 {
    let instruction = module.instruction(id);
    let Some(&indices) = instruction.operands().get(indices) else { return 0.0 };
    let shape = module.instruction(indices).shape();
    let attributes = instruction.attributes();
    let vector = attributes.gather.as_ref().map(|numbers| numbers.index_vector_dim);
    let vector = vector.or_else(|| attributes.scatter.as_ref().map(|numbers| numbers.index_vector_dim));
    let parts = vector.and_then(|dimension| shape.dimension(dimension)).unwrap_or(1).max(1);
    shape.element_count() as f64 / parts as f64
}

fn elements_of_operand(module: &HloModule, id: InstructionId) -> f64 {
    module.instruction(id).operands().first().map_or(0.0, |&operand| elements(module, operand))
}

/// Summed size and columns of a matmul. The compiler writes matmuls as convolutions over several dimensions, so sizes are
/// told by counts of elements rather than by dimensions.
fn sides(module: &HloModule, id: InstructionId, flops: f64) -> (u64, u64) {
    let instruction = module.instruction(id);
    let results = instruction.shape().leaves().next().map_or(0, |shape| shape.element_count());
    let right = instruction.operands().get(1).map_or(0, |&operand| module.instruction(operand).shape().element_count());
    if results == 0 || flops <= 0.0 {
        return (0, 0);
    }
    let contracted = (flops / 2.0 / results as f64).round().max(1.0);
    (contracted as u64, (right as f64 / contracted).round().max(1.0) as u64)
}

enum RunCost {
    Free,
    Simple,
    Transcendental,
}

/// What an element costs. Roundings, bits, parts of complex numbers and rarer functions are not counted; a remainder counts
/// as simple.
fn cost(opcode: &Opcode) -> RunCost {
    use Opcode::*;
    match opcode.class() {
        OpcodeClass::Transcendental => match opcode {
            Acos | Acosh | Asin | Asinh | Atan2 | Atanh | Cosh | Sinh => RunCost::Free,
            Remainder => RunCost::Simple,
            _ => RunCost::Transcendental,
        },
        OpcodeClass::Arithmetic => match opcode {
            BitcastConvert | ReducePrecision | StochasticConvert => RunCost::Free,
            Ceil | Floor | RoundNearestAfz | RoundNearestEven | IsFinite => RunCost::Free,
            Clz | PopulationCount | Mulhi | Complex | Imag | Real => RunCost::Free,
            _ => RunCost::Simple,
        },
        _ => RunCost::Free,
    }
}
