//! `stablehlo.select_and_scatter`: scatters values to the selected element of each window.

use tensor::DType;

use crate::ir::{TensorType, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::window::{Window, WindowForm};
use crate::ops::rules::{Checked, Inferred, dimensions, elements, elementwise, reduction, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.select_and_scatter",
    class: OpClass::Reduction,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(2),
    attrs: &[
        AttrDef { name: "window_dimensions", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "window_strides", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "padding", kind: AttrKind::DenseI64, presence: Presence::DefaultFill(0) },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "select_and_scatter_v1", attrs: &["padding", "window_dimensions", "window_strides"] }],
    infer: Some(Infer::by("select_and_scatter C11", infer)),
    check,
};

const FORM: WindowForm = WindowForm {
    base_dilations: None,
    window_dilations: None,
    sizes_positive: Some("select_and_scatter C5"),
    strides: ["select_and_scatter C6", "select_and_scatter C7"],
    base: [""; 2],
    dilations: [""; 2],
    padding: "select_and_scatter C8",
    result: "select_and_scatter C2",
};

fn infer(op: &OpView<'_>) -> Inferred {
    let element = reduction::accumulators(op, 1, 1, "select_and_scatter C10")?.remove(0);
    elementwise::infer_element(op, element)
}

fn check(op: &OpView<'_>) -> Checked {
    let (operand, source, init) = (op.tensor(0)?, op.tensor(1)?, op.tensor(2)?);
    elements::operands_from(op, 0, Elements::TENSOR, "select_and_scatter I1")?;
    elements::rank(op, 2, 0, "select_and_scatter I3")?;
    shapes::same_element("select_and_scatter C1", ("operand", operand), ("source", source))?;
    shapes::same_element("select_and_scatter C3", ("operand", operand), ("init_value", init))?;
    let scalar = TensorType::new(Vec::new(), operand.element.clone());
    let outputs = op.region_outputs(0)?;
    let args = op.region_inputs(0)?;
    require!(
        args.len() == 2 && outputs.len() == 1,
        "select_and_scatter C9",
        "select takes {} values and returns {}, 2 and 1 expected",
        args.len(),
        outputs.len()
    );
    for (n, arg) in args.iter().enumerate() {
        require!(
            arg.as_tensor().is_some_and(|arg| shapes::tensors_agree(arg, &scalar)),
            "select_and_scatter C9",
            "select's argument {n} is {}, {} expected",
            spelling::ty(arg),
            spelling::tensor(&scalar)
        );
    }
    require!(
        *outputs[0] == Type::scalar(DType::Bool),
        "select_and_scatter C9",
        "select returns {}, tensor<i1> expected",
        spelling::ty(outputs[0])
    );
    let update = TensorType::new(Vec::new(), source.element.clone());
    reduction::body(op, 1, &[&update], &[init], "select_and_scatter C10")?;
    let sizes = op.i64s_or("window_dimensions", operand.rank(), 1)?;
    dimensions::count("select_and_scatter C4", "window_dimensions", sizes.len(), operand.rank())?;
    let positions = Window::read(op, &sizes, &FORM)?.positions(&operand.dims)?;
    shapes::same_dims("select_and_scatter C2", ("the windows", &positions), ("source", &source.dims))?;
    Ok(())
}
