//! The language of kernel bodies: ops over scalars and vectors, with references to memory, as plain data by dense ids.

use tensor::{DType, Spec};

/// A value: a scalar (no dimensions) or a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A piece of memory of a kernel: a scalar-prefetch operand, a window, or scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefId(pub u32);

/// A list of ops run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A number written into the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// For float types.
    Float(f32),
    /// For integer types, and for booleans as 0 and 1.
    Int(i32),
}

/// Of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-x`.
    Neg,
    /// Exponential.
    Exp,
    /// Power of two.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Reciprocal square root.
    Rsqrt,
    /// Hyperbolic tangent.
    Tanh,
    /// Absolute value.
    Abs,
    /// Negation of booleans.
    Not,
}

/// Of two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient; of integers, rounded toward zero.
    Div,
    /// Remainder of integers, with the sign of the dividend.
    Rem,
    /// Larger.
    Max,
    /// Smaller.
    Min,
    /// Conjunction of booleans or bits.
    And,
    /// Disjunction of booleans or bits.
    Or,
    /// Exclusive disjunction of booleans or bits.
    Xor,
    /// Bits of the first moved down by the second, zeros coming in.
    ShiftRight,
}

/// How two values of one type are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// What a reduction does along its axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum.
    Sum,
    /// Maximum.
    Max,
}

/// Which sides of a matmul are transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatMulForm {
    /// `[m, k] x [k, n]`.
    Plain,
    /// `[m, k] x [n, k]`.
    TransposedRhs,
    /// `[k, m] x [k, n]`.
    TransposedLhs,
}

/// Precision of a matmul of `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatmulPrecision {
    /// Operands are rounded to `bf16`.
    #[default]
    Default,
    /// As `f32`, in several passes.
    Highest,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelOp {
    /// The index of this step along an axis of the grid.
    ProgramId(u32),
    /// A number, repeated over the result's shape.
    Constant(Number),
    /// Counts along an axis.
    Iota {
        /// The axis.
        axis: u32,
    },
    /// Elementwise.
    Unary(UnaryOp, ValueId),
    /// Elementwise.
    Binary(BinaryOp, ValueId, ValueId),
    /// Elementwise; gives booleans.
    Compare(CompareOp, ValueId, ValueId),
    /// Where the first is true the second, else the third.
    Select(ValueId, ValueId, ValueId),
    /// Conversion to the result's element type.
    Cast(ValueId),
    /// Repetition of a scalar, or along dimensions of size 1.
    Broadcast(ValueId),
    /// Copies side by side along the last axis.
    Repeat(ValueId, u32),
    /// The same elements in another shape.
    Reshape(ValueId),
    /// A matrix transposed.
    Transpose(ValueId),
    /// The same bits in another type: elements of a column that lie in one word, the first in its lowest bits, are as many rows.
    Reinterpret(ValueId),
    /// Rows of matrices one below the other.
    Concatenate(Vec<ValueId>),
    /// As many rows of a matrix as the result has, from this one on.
    Rows(ValueId, u32),
    /// Along one axis, which stays with size 1.
    Reduce(ReduceOp, ValueId, u32),
    /// A matmul.
    MatMul {
        /// Left side.
        lhs: ValueId,
        /// Right side.
        rhs: ValueId,
        /// Which sides are transposed.
        form: MatMulForm,
        /// How exactly.
        precision: MatmulPrecision,
    },
    /// The promise that an integer is a multiple of another, without which rows that are not known to lie on tiles cannot be addressed.
    AssumeMultiple(ValueId, u32),
    /// Reads vectors of the result's shape (its leading dimensions of size 1 dropped) at these indices; scalars from SMEM.
    Load {
        /// From where.
        from: RefId,
        /// First element of each dimension.
        at: Vec<ValueId>,
    },
    /// Writes a value at these indices.
    Store {
        /// Where to.
        to: RefId,
        /// First element of each dimension.
        at: Vec<ValueId>,
        /// What.
        value: ValueId,
    },
    /// Begins a copy. Until it is awaited, neither end may be written and its destination may not be read.
    Start(Transfer),
    /// Waits for the end of a copy.
    Await(Transfer),
    /// One of two blocks; its results are what the block yields.
    If {
        /// The condition.
        condition: ValueId,
        /// Run if it holds.
        then: BlockId,
        /// Run if it does not.
        otherwise: BlockId,
    },
    /// A block for each count; the block takes the count and carried values and yields the next carried values.
    For {
        /// First count.
        from: ValueId,
        /// One past the last.
        to: ValueId,
        /// Carried values at the beginning.
        carried: Vec<ValueId>,
        /// The block.
        body: BlockId,
    },
}

/// A part of a piece of memory: where it begins, and its sizes. Leading dimensions that have no size here are one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Of which memory.
    pub memory: RefId,
    /// First element of each dimension.
    pub at: Vec<ValueId>,
    /// Sizes of the last dimensions.
    pub dims: Vec<usize>,
}

/// A copy from memory to memory that goes on beside the core (a DMA).
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// What is copied; all of its rows where some are gathered.
    pub from: Part,
    /// Where to.
    pub to: Part,
    /// Numbers of the rows that are gathered, one for each row there.
    pub rows: Option<Part>,
    /// The semaphore that tells the end.
    pub semaphore: Part,
}

impl Transfer {
    /// What it touches.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        [&self.from, &self.to, &self.semaphore].into_iter().chain(&self.rows)
    }
}

/// An op in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub op: KernelOp,
    /// Its results, consecutive.
    pub results: Vec<ValueId>,
}

/// A block: what it takes, does and yields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Values it takes.
    pub args: Vec<ValueId>,
    /// In order.
    pub statements: Vec<Statement>,
    /// Values it gives.
    pub yields: Vec<ValueId>,
}

/// Ops with their values: a kernel's body, or an index map. Block 0 is the outermost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Types of values.
    pub values: Vec<Spec>,
    /// Blocks.
    pub blocks: Vec<Block>,
}

impl Body {
    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Spec {
        const NONE: &Spec = &Spec { dtype: DType::I32, dims: Vec::new() };
        self.values.get(value.0 as usize).unwrap_or(NONE)
    }

    /// A block.
    pub fn block(&self, id: BlockId) -> &Block {
        const EMPTY: &Block = &Block { args: Vec::new(), statements: Vec::new(), yields: Vec::new() };
        self.blocks.get(id.0 as usize).unwrap_or(EMPTY)
    }

    /// The outermost block.
    pub fn entry(&self) -> &Block {
        self.block(BlockId(0))
    }
}
