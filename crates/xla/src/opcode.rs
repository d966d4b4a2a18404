//! The operations of HLO, and what kind of work each is.

use std::fmt;

/// What kind of work an operation is. Who treats some operation of a class differently names that exception beside the
/// question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpcodeClass {
    /// Each element of the result from the elements at its place, by one instruction or a few.
    Arithmetic,
    /// Each element of the result from the elements at its place, by many instructions: divisions, roots, exponentials.
    Transcendental,
    /// Made from attributes, arguments or the device alone.
    Source,
    /// Each element of the result is one of the operands', at a place the program says.
    Movement,
    /// As [`OpcodeClass::Movement`], with places or sizes that are operands.
    Indexing,
    /// Sums of products: matmuls and convolutions.
    Contraction,
    /// Many elements combined into one.
    Reduction,
    /// Batch normalization as one operation.
    Normalization,
    /// Elements in an order that their values decide.
    Ordering,
    /// Factorizations, solvers and Fourier transforms.
    LinearAlgebra,
    /// Random numbers.
    Random,
    /// Devices exchange values; each takes part.
    Collective,
    /// To and from the host or another program.
    Transfer,
    /// Runs computations or code of others.
    Control,
    /// Tuples, tokens and barriers: orders or groups values without touching an element.
    Structure,
    /// Reads or sets the size of a dimension.
    Size,
    /// An operation this reader does not know.
    Unknown,
}

macro_rules! opcodes {
    ($($variant:ident = $text:literal, $class:ident;)*) => {
        /// Operation of an instruction.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Opcode {
            $(#[doc = concat!("`", $text, "`.")] $variant,)*
            /// An operation this reader does not know, by its name.
            Other(Box<str>),
        }

        impl Opcode {
            pub(crate) fn from_name(name: &str) -> Opcode {
                match name { $($text => Opcode::$variant,)* other => Opcode::Other(other.into()) }
            }

            /// Name as HLO text writes it.
            pub fn name(&self) -> &str {
                match self { $(Opcode::$variant => $text,)* Opcode::Other(name) => name }
            }

            /// What kind of work it is.
            pub fn class(&self) -> OpcodeClass {
                match self { $(Opcode::$variant => OpcodeClass::$class,)* Opcode::Other(_) => OpcodeClass::Unknown }
            }

            #[cfg(test)]
            const NAMES: &[&str] = &[$($text,)*];
        }
    };
}

opcodes! {
    Abs = "abs", Arithmetic;
    Acos = "acos", Transcendental;
    Acosh = "acosh", Transcendental;
    Add = "add", Arithmetic;
    AddDependency = "add-dependency", Structure;
    AfterAll = "after-all", Structure;
    AllGather = "all-gather", Collective;
    AllGatherDone = "all-gather-done", Collective;
    AllGatherStart = "all-gather-start", Collective;
    AllReduce = "all-reduce", Collective;
    AllReduceDone = "all-reduce-done", Collective;
    AllReduceStart = "all-reduce-start", Collective;
    AllToAll = "all-to-all", Collective;
    And = "and", Arithmetic;
    Asin = "asin", Transcendental;
    Asinh = "asinh", Transcendental;
    AsyncDone = "async-done", Control;
    AsyncStart = "async-start", Control;
    AsyncUpdate = "async-update", Control;
    Atan2 = "atan2", Transcendental;
    Atanh = "atanh", Transcendental;
    BatchNormGrad = "batch-norm-grad", Normalization;
    BatchNormInference = "batch-norm-inference", Normalization;
    BatchNormTraining = "batch-norm-training", Normalization;
    Bitcast = "bitcast", Movement;
    BitcastConvert = "bitcast-convert", Arithmetic;
    Broadcast = "broadcast", Movement;
    Call = "call", Control;
    Cbrt = "cbrt", Transcendental;
    Ceil = "ceil", Arithmetic;
    Cholesky = "cholesky", LinearAlgebra;
    Clamp = "clamp", Arithmetic;
    Clz = "count-leading-zeros", Arithmetic;
    CollectiveBroadcast = "collective-broadcast", Collective;
    CollectivePermute = "collective-permute", Collective;
    CollectivePermuteDone = "collective-permute-done", Collective;
    CollectivePermuteStart = "collective-permute-start", Collective;
    CollectiveReduce = "collective-reduce", Collective;
    Compare = "compare", Arithmetic;
    Complex = "complex", Arithmetic;
    Concatenate = "concatenate", Movement;
    Conditional = "conditional", Control;
    Constant = "constant", Source;
    Convert = "convert", Arithmetic;
    Convolution = "convolution", Contraction;
    Copy = "copy", Movement;
    CopyDone = "copy-done", Movement;
    CopyStart = "copy-start", Movement;
    Cos = "cosine", Transcendental;
    Cosh = "cosh", Transcendental;
    CustomCall = "custom-call", Control;
    Divide = "divide", Transcendental;
    Domain = "domain", Structure;
    Dot = "dot", Contraction;
    DynamicReshape = "dynamic-reshape", Indexing;
    DynamicSlice = "dynamic-slice", Indexing;
    DynamicUpdateSlice = "dynamic-update-slice", Indexing;
    Erf = "erf", Transcendental;
    Exp = "exponential", Transcendental;
    Expm1 = "exponential-minus-one", Transcendental;
    Fft = "fft", LinearAlgebra;
    Floor = "floor", Arithmetic;
    Fusion = "fusion", Control;
    Gather = "gather", Indexing;
    GetDimensionSize = "get-dimension-size", Size;
    GetTupleElement = "get-tuple-element", Structure;
    Imag = "imag", Arithmetic;
    Infeed = "infeed", Transfer;
    Iota = "iota", Source;
    IsFinite = "is-finite", Arithmetic;
    Log = "log", Transcendental;
    Log1p = "log-plus-one", Transcendental;
    Logistic = "logistic", Transcendental;
    Map = "map", Control;
    Maximum = "maximum", Arithmetic;
    Minimum = "minimum", Arithmetic;
    Mulhi = "mulhi", Arithmetic;
    Multiply = "multiply", Arithmetic;
    Negate = "negate", Arithmetic;
    Not = "not", Arithmetic;
    OptimizationBarrier = "opt-barrier", Structure;
    Or = "or", Arithmetic;
    Outfeed = "outfeed", Transfer;
    Pad = "pad", Movement;
    Parameter = "parameter", Source;
    PartitionId = "partition-id", Source;
    PopulationCount = "popcnt", Arithmetic;
    Power = "power", Transcendental;
    RaggedAllToAll = "ragged-all-to-all", Collective;
    RaggedDot = "ragged-dot", Contraction;
    Real = "real", Arithmetic;
    Recv = "recv", Transfer;
    RecvDone = "recv-done", Transfer;
    Reduce = "reduce", Reduction;
    ReducePrecision = "reduce-precision", Arithmetic;
    ReduceScatter = "reduce-scatter", Collective;
    ReduceWindow = "reduce-window", Reduction;
    Remainder = "remainder", Transcendental;
    ReplicaId = "replica-id", Source;
    Reshape = "reshape", Movement;
    Reverse = "reverse", Movement;
    Rng = "rng", Random;
    RngBitGenerator = "rng-bit-generator", Random;
    RngGetAndUpdateState = "rng-get-and-update-state", Random;
    RoundNearestAfz = "round-nearest-afz", Arithmetic;
    RoundNearestEven = "round-nearest-even", Arithmetic;
    Rsqrt = "rsqrt", Transcendental;
    ScaledDot = "scaled-dot", Contraction;
    Scan = "scan", Control;
    Scatter = "scatter", Indexing;
    Select = "select", Arithmetic;
    SelectAndScatter = "select-and-scatter", Reduction;
    Send = "send", Transfer;
    SendDone = "send-done", Transfer;
    SetDimensionSize = "set-dimension-size", Size;
    ShiftLeft = "shift-left", Arithmetic;
    ShiftRightArithmetic = "shift-right-arithmetic", Arithmetic;
    ShiftRightLogical = "shift-right-logical", Arithmetic;
    Sign = "sign", Arithmetic;
    Sin = "sine", Transcendental;
    Sinh = "sinh", Transcendental;
    Slice = "slice", Movement;
    Sort = "sort", Ordering;
    Sqrt = "sqrt", Transcendental;
    StochasticConvert = "stochastic-convert", Arithmetic;
    Subtract = "subtract", Arithmetic;
    Tan = "tan", Transcendental;
    Tanh = "tanh", Transcendental;
    TopK = "topk", Ordering;
    Transpose = "transpose", Movement;
    TriangularSolve = "triangular-solve", LinearAlgebra;
    Tuple = "tuple", Structure;
    While = "while", Control;
    Xor = "xor", Arithmetic;
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Opcode {
    /// Whether each element of its result depends on the elements at the same place of its operands alone.
    pub fn is_elementwise(&self) -> bool {
        matches!(self.class(), OpcodeClass::Arithmetic | OpcodeClass::Transcendental)
    }

    /// Whether it is a matmul or a convolution.
    pub fn is_contraction(&self) -> bool {
        self.class() == OpcodeClass::Contraction
    }

    /// Whether devices exchange values in it, or begin or end to.
    pub fn is_collective(&self) -> bool {
        self.class() == OpcodeClass::Collective
    }

    /// Whether it waits for the end of what another operation began.
    pub fn is_done(&self) -> bool {
        use Opcode::*;
        matches!(
            self,
            AllGatherDone | AllReduceDone | AsyncDone | CollectivePermuteDone | CopyDone | RecvDone | SendDone
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_has_a_class_and_its_name_agrees() {
        for name in Opcode::NAMES {
            let opcode = Opcode::from_name(name);
            assert_eq!(opcode.name(), *name);
            assert_ne!(opcode.class(), OpcodeClass::Unknown, "{name}");
            assert_eq!(opcode.is_done(), name.ends_with("-done"), "{name}");
            let exchanges = ["all-", "collective-", "reduce-scatter"].iter().any(|word| name.contains(word));
            assert_eq!(opcode.is_collective(), exchanges, "{name}");
            let multiplies = name.ends_with("dot") || *name == "convolution";
            assert_eq!(opcode.is_contraction(), multiplies, "{name}");
        }
        assert_eq!(Opcode::from_name("no-such").class(), OpcodeClass::Unknown);
    }
}
