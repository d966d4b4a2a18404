//! What kind of work an op is: the one list that passes, costs, fusion, gradients and the CPU device ask.
//!
//! An op's class is written in its file. Who treats some op of a class differently names that exception beside the question.

use crate::ir::OpKind;

/// What kind of work an op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// Each element of the results from the elements at its place, by one instruction or a few.
    Arithmetic,
    /// Each element of the results from the elements at its place, by many instructions: divisions, roots, exponentials.
    Transcendental,
    /// As one of these, after its operands are broadcast to one shape (CHLO).
    Broadcasting,
    /// Between real numbers and quantized ones.
    Quantization,
    /// Made from attributes, sizes or the device alone.
    Source,
    /// Each element of the result is one of the operands', at a place the program says.
    Movement,
    /// As [`OpClass::Movement`], with places or sizes that are operands.
    Indexing,
    /// Sums of products: matmuls and convolutions.
    Contraction,
    /// Many elements combined into one.
    Reduction,
    /// Batch normalization as one op.
    Normalization,
    /// Elements in an order that their values decide.
    Ordering,
    /// Factorizations, solvers and Fourier transforms.
    LinearAlgebra,
    /// Random numbers.
    Random,
    /// Devices exchange values; each must take part.
    Collective,
    /// To and from the host or another program.
    Transfer,
    /// Runs regions, functions or code of others.
    Control,
    /// Ends a region.
    Terminator,
    /// Tuples, tokens and barriers: orders or groups values without touching an element.
    Structure,
    /// Reads or sets the size of a dimension.
    Size,
    /// Says how values are sharded, or asks for another sharding.
    Sharding,
    /// Compares, prints or records for tests.
    Testing,
}

impl OpKind {
    /// What kind of work it is.
    pub const fn class(self) -> OpClass {
        self.def().class
    }

    /// Whether each element of its results depends on the elements at the same place of its operands alone.
    ///
    /// `bitcast_convert` is one: between types of different widths it adds or drops a last dimension, which who cannot
    /// have it must except.
    pub const fn is_elementwise(self) -> bool {
        matches!(self.class(), OpClass::Arithmetic | OpClass::Transcendental)
    }

    /// Whether devices exchange values in it.
    pub const fn is_collective(self) -> bool {
        matches!(self.class(), OpClass::Collective)
    }

    /// Whether each element of its result is one of the operands', at a place the program says.
    pub const fn is_movement(self) -> bool {
        matches!(self.class(), OpClass::Movement)
    }

    /// Whether it ends a region.
    pub const fn is_terminator(self) -> bool {
        matches!(self.class(), OpClass::Terminator)
    }

    /// Whether it is an op of StableHLO itself, not of CHLO, Shardy, `func` or the dialects of tests.
    pub const fn is_stablehlo(self) -> bool {
        matches!(self.name().as_bytes().first_chunk(), Some(b"stablehlo."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Arity;

    /// Every op has a class because a definition without one does not compile; this holds the class against the rest of
    /// the definition.
    #[test]
    fn classes_agree_with_definitions() {
        for &kind in OpKind::ALL {
            let def = kind.def();
            let (none, one) = (Arity::exactly(0), Arity::exactly(1));
            let agrees = match kind.class() {
                OpClass::Arithmetic | OpClass::Transcendental => {
                    def.regions == none && def.results == one && def.operands.min > 0
                }
                OpClass::Broadcasting => kind.name().starts_with("chlo.broadcast_"),
                OpClass::Quantization => def.regions == none && def.operands == one,
                OpClass::Source | OpClass::Movement | OpClass::Contraction => def.regions == none && def.results == one,
                OpClass::Indexing => def.operands.max > 1,
                OpClass::Reduction => def.regions.min > 0,
                OpClass::Normalization => kind.name().starts_with("stablehlo.batch_norm"),
                OpClass::Ordering | OpClass::LinearAlgebra | OpClass::Random => def.operands.max > 0,
                OpClass::Collective => {
                    let named = |word| kind.name().contains(word);
                    named("all_") || named("collective") || named("reduce_scatter") || named("cross-replica")
                }
                OpClass::Transfer => kind.is_stablehlo() && def.regions == none,
                OpClass::Control => {
                    let calls = def.attr("callee").is_some() || def.attr("decomposition").is_some();
                    def.regions.max > 0 || calls || matches!(kind, OpKind::CustomCall | OpKind::AsyncDone)
                }
                OpClass::Terminator => kind.name().ends_with(".return") && def.results == none,
                OpClass::Structure | OpClass::Size => kind.is_stablehlo() && def.regions == none,
                OpClass::Sharding => kind.name().starts_with("sdy."),
                OpClass::Testing => kind.name().starts_with("check.") || kind.name().starts_with("interpreter."),
            };
            assert!(agrees, "{} is no {:?}", kind.name(), kind.class());
        }
    }

    /// What is written down as elementwise keeps its operand's shape, as inference has it.
    #[test]
    fn elementwise_ops_of_one_operand_keep_its_shape() {
        use crate::build::FuncBuilder;
        use crate::ir::{Attrs, Type};
        use tensor::DType;
        let mut tried = 0;
        for &kind in OpKind::ALL.iter().filter(|kind| kind.is_elementwise() && kind.def().operands == Arity::exactly(1))
        {
            for element in [DType::F32, DType::I32] {
                let mut func = FuncBuilder::new("f");
                let x = func.arg(Type::tensor([3, 5], element));
                let Ok(result) = func.op(kind, &[x], Attrs::new()) else { continue };
                assert_eq!(func.ty(result).as_tensor().map(|ty| ty.dims.clone()), Some(vec![3, 5]), "{}", kind.name());
                tried += 1;
            }
        }
        assert!(tried > 30, "{tried} ops tried");
    }
}
