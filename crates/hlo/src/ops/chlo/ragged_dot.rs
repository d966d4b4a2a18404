//! `chlo.ragged_dot`: dot product over groups of rows.

use crate::ir::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, contraction, dimensions, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.ragged_dot",
    class: OpClass::Contraction,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "ragged_dot_dimension_numbers", kind: AttrKind::RaggedDot, presence: Presence::Required },
        AttrDef {
            name: "precision_config",
            kind: AttrKind::Keywords(KeywordSet::Precision),
            presence: Presence::Default(|| Attr::Array([].into())),
        },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check,
};

const CLAUSES: [&str; 11] = ["chlo.ragged_dot"; 11];

/// What the ragged dimension of lhs is to the contraction.
enum Mode {
    Batch,
    Contracting,
    Free,
}

fn check(op: &OpView<'_>) -> Checked {
    let clause = "chlo.ragged_dot";
    let (lhs, rhs, groups, result) = (op.tensor(0)?, op.tensor(1)?, op.tensor(2)?, op.result_tensor(0)?);
    contraction::same_field(clause, [lhs, rhs, result])?;
    elements::operand(op, 2, Elements::INTEGER, clause)?;
    let Attr::RaggedDot(dims) = op.attr("ragged_dot_dimension_numbers")? else {
        return Err(Violation::new(clause, "attribute `ragged_dot_dimension_numbers` must be #chlo.ragged_dot"));
    };
    let dense = contraction::infer(&CLAUSES, lhs, rhs, &dims.dot)?;
    let [ragged] = dims.lhs_ragged[..] else {
        return Err(Violation::new(clause, format!("{} ragged dimensions, 1 expected", dims.lhs_ragged.len())));
    };
    let ragged = dimensions::index(clause, "the ragged dimension", ragged, lhs.rank())? as i64;
    dimensions::in_range(clause, "rhs_group_dimensions", &dims.rhs_group, rhs.rank())?;
    let taken = dims.rhs_group.iter().chain(&dims.dot.rhs_batching).chain(&dims.dot.rhs_contracting);
    dimensions::unique(clause, "group, batching and contracting dimensions of rhs", taken.copied())?;
    let (batching, contracting) = (&dims.dot.lhs_batching, &dims.dot.lhs_contracting);
    let is_free = |d: i64| !batching.contains(&d) && !contracting.contains(&d);
    let (mode, prefix): (Mode, Vec<i64>) = if let Some(at) = batching.iter().position(|&d| d == ragged) {
        (Mode::Batch, batching[..at].to_vec())
    } else if let Some(at) = contracting.iter().position(|&d| d == ragged) {
        (Mode::Contracting, [&batching[..], &contracting[..at]].concat())
    } else {
        (Mode::Free, batching.iter().copied().chain((0..ragged).filter(|&d| is_free(d))).collect())
    };
    let Some(&count) = groups.dims.last() else {
        return Err(Violation::new(clause, "group_sizes is a scalar"));
    };
    if groups.rank() != 1 {
        let want: Vec<i64> = prefix.iter().map(|&d| lhs.dims[d as usize]).chain([count]).collect();
        shapes::same_dims(clause, ("group_sizes", &groups.dims), ("its expected shape", &want))?;
    }
    let mut want = dense.dims;
    match (mode, &dims.rhs_group[..]) {
        (Mode::Free, &[group]) => {
            let size = rhs.dims[group as usize];
            require!(shapes::dims_agree(size, count), clause, "rhs dim {group} is {size}, there are {count} groups");
            // The group dimension is a free one of rhs to the contraction, but not in the result.
            let before = (0..group)
                .filter(|d| !dims.dot.rhs_batching.contains(d) && !dims.dot.rhs_contracting.contains(d))
                .count();
            want.remove(lhs.rank() - contracting.len() + before);
        }
        (Mode::Contracting, []) => want.insert(0, count),
        (Mode::Batch, []) => {}
        (_, other) => return Err(Violation::new(clause, format!("{} group dimensions of rhs", other.len()))),
    }
    shapes::same_dims(clause, ("the contraction", &want), ("result", &result.dims))
}
