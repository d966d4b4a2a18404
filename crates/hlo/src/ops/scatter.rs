//! `stablehlo.scatter`: combines updates into slices at given indices.

use crate::ir::{Attr, TensorType};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, clauses, elements, indexing, reduction, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.scatter",
    class: OpClass::Indexing,
    operands: Arity::at_least(1),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "scatter_dimension_numbers", kind: AttrKind::Scatter, presence: Presence::Required },
        AttrDef { name: "indices_are_sorted", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "unique_indices", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "scatter_v1",
            attrs: &[
                "index_vector_dim",
                "indices_are_sorted",
                "inserted_window_dims",
                "scatter_dims_to_operand_dims",
                "unique_indices",
                "update_window_dims",
            ],
        },
        VhloForm {
            name: "scatter_v2",
            attrs: &[
                "index_vector_dim",
                "indices_are_sorted",
                "input_batching_dims",
                "inserted_window_dims",
                "scatter_dims_to_operand_dims",
                "scatter_indices_batching_dims",
                "unique_indices",
                "update_window_dims",
            ],
        },
    ],
    infer: Some(Infer::by("scatter C24", infer)),
    check,
};

const CLAUSES: [&str; 26] = clauses!("scatter": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25);

fn infer(op: &OpView<'_>) -> Inferred {
    let inputs = split(op)?.0;
    let accumulators = reduction::accumulators(op, 0, inputs.len(), "scatter C23")?;
    Ok(inputs.iter().zip(accumulators).map(|(ty, element)| shapes::with_element(ty, element).into()).collect())
}

fn check(op: &OpView<'_>) -> Checked {
    let (inputs, indices, updates) = split(op)?;
    for ty in inputs.iter().chain(&updates) {
        elements::tensor("scatter I1", "an input or update", ty, Elements::TENSOR)?;
    }
    elements::tensor("scatter I2", "scatter_indices", indices, Elements::INDICES)?;
    let Attr::Scatter(dims) = op.attr("scatter_dimension_numbers")? else {
        return Err(Violation::new("", "attribute `scatter_dimension_numbers` must be #stablehlo.scatter"));
    };
    for (n, (input, update)) in inputs.iter().zip(&updates).enumerate() {
        let names = (format!("input {n}"), format!("update {n}"));
        shapes::same_shape("scatter C1", ("input 0", inputs[0]), (&names.0, input))?;
        shapes::same_shape("scatter C3", ("update 0", updates[0]), (&names.1, update))?;
        shapes::same_element("scatter C6", (&names.0, input), (&names.1, update))?;
        indexing::scatter(&CLAUSES, input, indices, update, dims)?;
    }
    let inits: Vec<TensorType> =
        updates.iter().map(|update| TensorType::new(Vec::new(), update.element.clone())).collect();
    reduction::body(op, 0, &inputs, &inits.iter().collect::<Vec<_>>(), "scatter C23")
}

type Parts<'a> = (Vec<&'a TensorType>, &'a TensorType, Vec<&'a TensorType>);

fn split<'a>(op: &OpView<'a>) -> Result<Parts<'a>, Violation> {
    let mut inputs = op.tensors()?;
    let count = inputs.len() / 2;
    require!(
        inputs.len() % 2 == 1 && count > 0,
        "scatter C5",
        "{} operands, inputs, indices and as many updates expected",
        inputs.len()
    );
    let updates = inputs.split_off(count + 1);
    let indices = inputs[count];
    inputs.truncate(count);
    Ok((inputs, indices, updates))
}
