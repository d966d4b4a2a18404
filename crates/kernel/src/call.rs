//! Calls of kernels in programs: the custom call op with its configuration, layouts and types.

use std::sync::Arc;

use hlo::dims::OutputOperandAlias;
use hlo::{Attr, Attrs, Dense, ElementType, Location, NewOp, OpKind, OpName, TensorType, Type, Value};
use tensor::Spec;

use crate::kernel::Kernel;
use crate::text::symbol;

/// The target every kernel is called by.
pub const TARGET: &str = "tpu_custom_call";

/// The op that calls a kernel with these operands, in the order of [`Kernel::operands`].
///
/// `trace::custom_call` with [`TARGET`], [`Kernel::results`] and [`Kernel::backend_config`] writes the same but for the name
/// and the layouts.
pub fn call(kernel: &Kernel, operands: &[Value]) -> NewOp {
    let mut attrs = Attrs::new();
    attrs.set("call_target_name", Attr::string(TARGET));
    attrs.set("backend_config", Attr::string(kernel.backend_config().as_str()));
    attrs.set("kernel_name", Attr::string(symbol(&kernel.name).as_str()));
    // Kernels address arrays row by row, whatever layout the compiler would choose.
    let (specs, seen) = (kernel.operands(), kernel.seen_operands());
    let specs: Vec<Spec> = seen.iter().filter_map(|&n| specs.get(n).cloned()).collect();
    let operands = seen.iter().filter_map(|&n| operands.get(n).copied()).collect();
    attrs.set("operand_layouts", layouts(&specs));
    attrs.set("result_layouts", layouts(&kernel.results()));
    let pairs = kernel.aliases();
    if !pairs.is_empty() {
        attrs.set("output_operand_aliases", aliases(&pairs, kernel.results().len()));
    }
    let results = kernel.results().iter().map(tensor_type).collect();
    let loc = Some(Arc::new(Location::Name(kernel.name.as_str().into(), None)));
    NewOp { operands, results, attrs, loc, ..NewOp::new(OpName::Known(OpKind::CustomCall)) }
}

pub(crate) fn tensor_type(spec: &Spec) -> Type {
    Type::tensor(spec.dims.iter().map(|&d| d as i64).collect::<Vec<_>>(), spec.dtype)
}

/// Results in the places of operands, as pairs of an operand and a result; the only result of a call is no tuple.
pub(crate) fn aliases(pairs: &[(usize, usize)], results: usize) -> Attr {
    let one = |&(operand, result): &(usize, usize)| {
        let alias = OutputOperandAlias {
            output_tuple_indices: if results > 1 { vec![result as i64] } else { Vec::new() },
            operand_index: operand as i64,
            operand_tuple_indices: Vec::new(),
        };
        Attr::OutputAlias(Arc::new(alias))
    };
    Attr::Array(pairs.iter().map(one).collect())
}

pub(crate) fn layouts(specs: &[Spec]) -> Attr {
    let one = |spec: &Spec| {
        let order: Vec<u8> = (0..spec.rank() as i64).rev().flat_map(i64::to_le_bytes).collect();
        let ty = TensorType::new(vec![spec.rank() as i64], ElementType::Index);
        Attr::Dense(Arc::new(Dense { ty, data: hlo::DenseData::Elements(order.into()) }))
    };
    Attr::Array(specs.iter().map(one).collect())
}

/// A type of fixed sizes as a spec.
pub(crate) fn static_spec(ty: &Type) -> Option<Spec> {
    let tensor = ty.as_tensor()?;
    let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
    Some(Spec::new(tensor.element.plain()?, dims?))
}
