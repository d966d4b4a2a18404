//! `stablehlo.fft`: Fourier transforms.

use tensor::DType;

use crate::ir::{DYNAMIC, Keyword, KeywordSet};
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation,
};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.fft",
    class: OpClass::LinearAlgebra,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "fft_type", kind: AttrKind::Keyword(KeywordSet::FftType), presence: Presence::Required },
        AttrDef { name: "fft_length", kind: AttrKind::I64s, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("type"),
        Piece::Word("="),
        Piece::Attr("fft_type"),
        Piece::Word(","),
        Piece::Word("length"),
        Piece::Word("="),
        Piece::Attr("fft_length"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "fft_v1", attrs: &["fft_length", "fft_type"] }],
    infer: Some(Infer::by("fft C5", infer)),
    check: |op| elements::operand(op, 0, Elements::FLOAT_COMPLEX, "fft I1"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let lengths = op.i64s("fft_length")?;
    require!((1..=3).contains(&lengths.len()), "fft C3", "fft_length has {} elements, 1 to 3 expected", lengths.len());
    require!(
        lengths.len() <= operand.rank(),
        "fft C1",
        "fft_length has {} elements, the operand has rank {}",
        lengths.len(),
        operand.rank()
    );
    if let Some(negative) = lengths.iter().find(|&&length| length < 0) {
        return Err(Violation::new("fft C4", format!("fft_length holds {negative}")));
    }
    let dtype = operand.element.plain();
    let kind = op.keyword("fft_type")?;
    let wrong = || Violation::new("fft C2", format!("{} does not take {}", kind.word(), spelling::tensor(operand)));
    let mut ty = operand.clone();
    let first = operand.rank() - lengths.len();
    let last = operand.rank() - 1;
    match kind {
        Keyword::Rfft => {
            let element = match dtype {
                Some(DType::F32) => DType::C64,
                Some(DType::F64) => DType::C128,
                _ => return Err(wrong()),
            };
            shapes::same_dims("fft C4", ("fft_length", lengths), ("end of the operand", &operand.dims[first..]))?;
            ty = shapes::with_element(&ty, element.into());
            if ty.dims[last] != DYNAMIC && ty.dims[last] != 0 {
                ty.dims[last] = ty.dims[last] / 2 + 1;
            }
            Ok(vec![ty.into()])
        }
        Keyword::Irfft => {
            let element = dtype.and_then(|d| d.complex_part()).ok_or_else(wrong)?;
            shapes::same_dims(
                "fft C4",
                ("fft_length", &lengths[..lengths.len() - 1]),
                ("end of the operand", &operand.dims[first..last]),
            )?;
            let length = lengths[lengths.len() - 1];
            let half = if length == 0 { 0 } else { length / 2 + 1 };
            require!(
                shapes::dims_agree(operand.dims[last], half),
                "fft C5",
                "the last dimension is {}, {half} expected for fft_length {length}",
                operand.dims[last]
            );
            ty = shapes::with_element(&ty, element.into());
            ty.dims[last] = length;
            Ok(vec![ty.into()])
        }
        _ => {
            require!(dtype.is_some_and(|d| d.is_complex()), "fft C2", "{}", wrong().message);
            // Compilers take the length from either side; the specification leaves it open.
            shapes::same_dims("fft C4", ("fft_length", lengths), ("end of the operand", &operand.dims[first..]))?;
            Ok(op.operands.to_vec())
        }
    }
}
