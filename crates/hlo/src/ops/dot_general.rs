//! `stablehlo.dot_general`: batched tensor contraction.

use tensor::DType;

use crate::ir::dims::DotAlgorithm;
use crate::ir::{Attr, ElementType, Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, clauses, contraction, elements, quantization, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dot_general",
    class: OpClass::Contraction,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "dot_dimension_numbers", kind: AttrKind::Dot, presence: Presence::Required },
        AttrDef {
            name: "precision_config",
            kind: AttrKind::Keywords(KeywordSet::Precision),
            presence: Presence::Default(|| Attr::Array([].into())),
        },
        AttrDef { name: "algorithm", kind: AttrKind::DotAlgorithm, presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::DotDims,
        Piece::PrecisionAlgorithm,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[
        VhloForm {
            name: "dot_general_v1",
            attrs: &[
                "lhs_batching_dimensions",
                "lhs_contracting_dimensions",
                "precision_config",
                "rhs_batching_dimensions",
                "rhs_contracting_dimensions",
            ],
        },
        VhloForm {
            name: "dot_general_v2",
            attrs: &[
                "accumulation_type",
                "allow_imprecise_accumulation",
                "lhs_batching_dimensions",
                "lhs_component_count",
                "lhs_contracting_dimensions",
                "lhs_precision_type",
                "num_primitive_operations",
                "precision_config",
                "rhs_batching_dimensions",
                "rhs_component_count",
                "rhs_contracting_dimensions",
                "rhs_precision_type",
            ],
        },
    ],
    infer: None,
    check,
};

const CLAUSES: [&str; 11] = clauses!("dot_general": 0 1 2 3 4 5 6 7 8 9 10);

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "dot_general I1")?;
    elements::operand(op, 1, Elements::ANY, "dot_general I2")?;
    let (lhs, rhs, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    let Attr::Dot(dims) = op.attr("dot_dimension_numbers")? else {
        return Err(Violation::new("", "attribute `dot_dimension_numbers` must be #stablehlo.dot"));
    };
    let inferred = contraction::infer(&CLAUSES, lhs, rhs, dims)?;
    shapes::same_shape("dot_general C12", ("the contraction", &inferred), ("result", result))?;
    contraction::same_field("dot_general C13", [lhs, rhs, result])?;
    let precision = match op.attrs.get("precision_config") {
        Some(Attr::Array(words)) => &words[..],
        _ => &[],
    };
    require!(precision.len() <= 2, "dot_general C11", "precision_config has {} elements", precision.len());
    if let Some(Attr::DotAlgorithm(algorithm)) = op.attrs.get("algorithm") {
        let is_default = precision.iter().all(|word| *word == Attr::Keyword(Keyword::PrecisionDefault));
        require!(is_default, "dot_general C21", "an algorithm goes with DEFAULT precision only");
        for (clause, name, count) in [
            ("dot_general C22", "lhs_component_count", algorithm.lhs_component_count),
            ("dot_general C23", "rhs_component_count", algorithm.rhs_component_count),
            ("dot_general C24", "num_primitive_operations", algorithm.num_primitive_operations),
        ] {
            require!(count > 0, clause, "{name} is {count}");
        }
        require!(
            is_known(algorithm),
            "dot_general I8",
            "no hardware is known for {} operations on {} by {} into {}",
            algorithm.num_primitive_operations,
            spelling::element(&algorithm.lhs_precision_type),
            spelling::element(&algorithm.rhs_precision_type),
            spelling::element(&algorithm.accumulation_type)
        );
    }
    if let Some(q) = quantization::of(rhs) {
        require!(
            q.zero_points.iter().all(|&z| z == 0),
            "dot_general C15",
            "zero points of rhs must be 0, are {:?}",
            q.zero_points
        );
        require!(
            q.axis.is_none_or(|axis| !dims.rhs_contracting.contains(&axis)),
            "dot_general C16",
            "rhs is quantized along a contracting dimension"
        );
    }
    let clauses = ["dot_general C14", "dot_general C17", "dot_general C18", "dot_general C19", "dot_general C20"];
    quantization::dot(clauses, lhs, rhs, result)
}

/// Whether the algorithm is one that the reference implementation accepts.
fn is_known(algorithm: &DotAlgorithm) -> bool {
    let types = (&algorithm.lhs_precision_type, &algorithm.rhs_precision_type, &algorithm.accumulation_type);
    let (lhs, rhs, sum) = (types.0.plain(), types.1.plain(), types.2.plain());
    let is_f8 = |dtype: Option<DType>| dtype.is_some_and(|d| d.is_float() && d.bits() == 8 && d != DType::F8E8M0FNU);
    if algorithm.lhs_component_count != 1 || algorithm.rhs_component_count != 1 {
        return false;
    }
    if is_f8(lhs) && is_f8(rhs) && sum == Some(DType::F32) {
        return algorithm.num_primitive_operations == 1;
    }
    if algorithm.allow_imprecise_accumulation || types.0 != types.1 {
        return false;
    }
    let counts: &[i64] = match (types.0, sum) {
        (ElementType::Tf32, Some(DType::F32)) => &[1, 3],
        (ElementType::Plain(DType::F16), Some(DType::F16 | DType::F32)) => &[1],
        (ElementType::Plain(DType::BF16), Some(DType::BF16)) => &[1],
        (ElementType::Plain(DType::BF16), Some(DType::F32)) => &[1, 3, 6, 9],
        (ElementType::Plain(DType::F32), Some(DType::F32)) => &[1],
        (ElementType::Plain(DType::F64), Some(DType::F64)) => &[1],
        _ => &[],
    };
    counts.contains(&algorithm.num_primitive_operations)
}
