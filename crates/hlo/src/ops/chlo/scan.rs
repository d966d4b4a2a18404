//! `chlo.scan`: carries a state along a dimension.

use crate::ir::{Attr, DYNAMIC};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, Violation};
use crate::ops::rules::{Checked, dimensions, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.scan",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "scan_dim_size", kind: AttrKind::I64, presence: Presence::Optional },
        AttrDef { name: "is_reverse", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "is_associative", kind: AttrKind::Bool, presence: Presence::Optional },
        AttrDef { name: "operandSegmentSizes", kind: AttrKind::Any, presence: Presence::Optional },
        AttrDef { name: "resultSegmentSizes", kind: AttrKind::Any, presence: Presence::Optional },
    ],
    text: Text::Scan,
    vhlo: &[],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let clause = "chlo.scan";
    let operands = op.tensors()?;
    let inputs = match op.attrs.get("operandSegmentSizes") {
        Some(Attr::DenseArray(_, sizes)) => sizes.first().and_then(|&n| usize::try_from(n).ok()).unwrap_or(0),
        _ => operands.len() / 2,
    };
    require!(inputs <= operands.len(), clause, "{inputs} inputs of {} operands", operands.len());
    let carries = operands.len() - inputs;
    let outputs = op.region_outputs(0)?;
    let args = op.region_inputs(0)?;
    require!(args.len() == operands.len(), clause, "the body takes {} values, {} expected", args.len(), operands.len());
    require!(
        outputs.len() >= carries && outputs.len() == op.results.len(),
        clause,
        "the body returns {} values for {carries} carries and {} results",
        outputs.len(),
        op.results.len()
    );
    require!(inputs > 0 || outputs.len() > carries, clause, "there are neither inputs nor outputs");
    let dimension = op.int("dimension")?;
    let mut length = match op.attrs.get("scan_dim_size").and_then(Attr::as_int) {
        Some(length) => {
            require!(length >= 0, clause, "scan_dim_size is {length}");
            length
        }
        None => DYNAMIC,
    };
    for (n, ty) in operands.iter().enumerate() {
        let mut want = (*ty).clone();
        if n < inputs {
            let dim = dimensions::index(clause, "dimension", dimension, ty.rank())?;
            let size = want.dims.remove(dim);
            require!(shapes::dims_agree(size, length), clause, "operand {n} has length {size}, {length} expected");
            if size != DYNAMIC {
                length = size;
            }
            want.encoding = None;
        }
        require!(
            args[n].as_tensor().is_some_and(|arg| shapes::tensors_agree(&want, arg)),
            clause,
            "the body's argument {n} is {}, {} expected",
            spelling::ty(args[n]),
            spelling::tensor(&want)
        );
    }
    for (n, (output, result)) in outputs.iter().zip(op.results).enumerate() {
        let Some(output) = output.as_tensor() else {
            return Err(Violation::new(clause, format!("the body returns {}", spelling::ty(output))));
        };
        let mut want = output.clone();
        let stacked = outputs.len() - carries;
        if let Some(carry) = n.checked_sub(stacked) {
            let carried = operands[inputs + carry];
            require!(
                shapes::tensors_agree(output, carried),
                clause,
                "the body returns {} for carry {carry}, which is {}",
                spelling::tensor(output),
                spelling::tensor(carried)
            );
        } else {
            let dim = dimensions::index(clause, "dimension", dimension, output.rank() + 1)?;
            want.dims.insert(dim, length);
            want.encoding = None;
        }
        require!(
            result.as_tensor().is_some_and(|result| shapes::tensors_agree(&want, result)),
            clause,
            "result {n} is {}, {} expected",
            spelling::ty(result),
            spelling::tensor(&want)
        );
    }
    Ok(())
}
