//! `stablehlo.rng_bit_generator`: random bits and the next state.

use tensor::DType;

use crate::ir::{Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.rng_bit_generator",
    class: OpClass::Random,
    operands: Arity::exactly(1),
    results: Arity::exactly(2),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "rng_algorithm",
        kind: AttrKind::Keyword(KeywordSet::RngAlgorithm),
        presence: Presence::Required,
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("algorithm"),
        Piece::Word("="),
        Piece::Attr("rng_algorithm"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "rng_bit_generator_v1", attrs: &["rng_algorithm"] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let accepted = Elements::INTEGER.or(Elements::FLOAT);
    elements::operand(op, 0, accepted, "rng_bit_generator I2")?;
    elements::result(op, 0, accepted, "rng_bit_generator O1")?;
    elements::result(op, 1, accepted, "rng_bit_generator O2")?;
    let (initial, state, output) = (op.tensor(0)?, op.result_tensor(0)?, op.result_tensor(1)?);
    require!(output.is_static(), "rng_bit_generator O2", "the output {} is not static", spelling::tensor(output));
    require!(
        shapes::tensors_agree(initial, state),
        "rng_bit_generator C1",
        "initial_state is {}, output_state is {}",
        spelling::tensor(initial),
        spelling::tensor(state)
    );
    let (&[size], Some(DType::U64)) = (&initial.dims[..], initial.element.plain()) else {
        let message = format!("initial_state is {}, a vector of ui64 expected", spelling::tensor(initial));
        return Err(Violation::new("rng_bit_generator I2", message));
    };
    let fits = match op.keyword("rng_algorithm")? {
        Keyword::ThreeFry => shapes::dims_agree(size, 2),
        Keyword::Philox => shapes::dims_agree(size, 2) || size == 3,
        _ => true,
    };
    require!(
        fits,
        "rng_bit_generator C2",
        "the state has {size} words, which {} does not take",
        op.keyword("rng_algorithm")?.word()
    );
    Ok(())
}
