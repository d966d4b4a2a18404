//! `stablehlo.custom_call`: calls what an implementation provides.

use tensor::DType;

use crate::ir::dims::OutputOperandAlias;
use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation};
use crate::ops::rules::{Checked, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.custom_call",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "call_target_name", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef { name: "has_side_effect", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "backend_config", kind: AttrKind::StrOrDict, presence: Presence::Default(|| Attr::string("")) },
        AttrDef { name: "api_version", kind: AttrKind::ApiVersion, presence: Presence::Default(|| Attr::i32(1)) },
        AttrDef {
            name: "called_computations",
            kind: AttrKind::Symbols,
            presence: Presence::Default(|| Attr::Array([].into())),
        },
        AttrDef { name: "operand_layouts", kind: AttrKind::Array, presence: Presence::Optional },
        AttrDef { name: "result_layouts", kind: AttrKind::Array, presence: Presence::Optional },
        AttrDef {
            name: "output_operand_aliases",
            kind: AttrKind::Array,
            presence: Presence::Default(|| Attr::Array([].into())),
        },
        AttrDef { name: "result_tilings", kind: AttrKind::Array, presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::CallTarget,
        Piece::Word("("),
        Piece::OperandsFrom(0),
        Piece::Word(")"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[
        VhloForm {
            name: "custom_call_v1",
            attrs: &[
                "api_version",
                "backend_config",
                "call_target_name",
                "called_computations",
                "has_side_effect",
                "operand_layouts",
                "output_operand_aliases",
                "result_layouts",
            ],
        },
        VhloForm {
            name: "custom_call_v2",
            attrs: &[
                "api_version",
                "backend_config",
                "call_target_name",
                "called_computations",
                "has_side_effect",
                "operand_layouts",
                "output_operand_aliases",
                "result_layouts",
                "result_tilings",
            ],
        },
    ],
    infer: None,
    check,
};

/// The API version whose configuration is a dictionary.
const TYPED_FFI: i64 = 4;

/// Calls that say something about a value and give it on: to the partitioner, or to the assignment of memories and layouts.
const ANNOTATIONS: [&str; 6] = [
    "Sharding",
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "xla.sdy.FuncResultSharding",
];

/// Calls that give a value on as the part of it that a device has, or the other way round.
const RESHARDED: [&str; 2] = ["SPMDFullToShardShape", "SPMDShardToFullShape"];

/// A call whose target means that the value is given on has the type of what it is given.
fn annotation(op: &OpView<'_>) -> Checked {
    let target = op.attr("call_target_name")?.as_str().unwrap_or_default();
    if ANNOTATIONS.contains(&target) {
        return shapes::same_types(
            "custom_call annotation",
            ("operand", op.operands.iter()),
            ("result", op.results.iter()),
        );
    }
    if !RESHARDED.contains(&target) {
        return Ok(());
    }
    let ([_], [_]) = (op.operands, op.results) else {
        let message =
            format!("@{target} takes and returns one value, not {} and {}", op.operands.len(), op.results.len());
        return Err(Violation::new("custom_call annotation", message));
    };
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    shapes::same_element("custom_call annotation", ("operand", operand), ("result", result))?;
    require!(
        operand.rank() == result.rank(),
        "custom_call annotation",
        "@{target} takes {} and returns {}, of another rank",
        spelling::tensor(operand),
        spelling::tensor(result)
    );
    Ok(())
}

/// Factorizations of matrices, and what is made of them, by XLA's names. JAX names LAPACK's routines beside them.
const FACTORIZATIONS: [&str; 5] =
    ["Qr", "ProductOfElementaryHouseholderReflectors", "LuDecomposition", "Eigh", "tridiagonal_solve_perturbed_ffi"];

/// A factorization is of a real or complex matrix. Beside such numbers it takes and gives integers: pivots, sizes, error
/// codes.
fn factorization(op: &OpView<'_>) -> Checked {
    let target = op.attr("call_target_name")?.as_str().unwrap_or_default();
    let is_routine = target.starts_with("lapack_") && target.ends_with("_ffi");
    if !is_routine && !FACTORIZATIONS.contains(&target) {
        return Ok(());
    }
    let clause = "custom_call factorization";
    let element = |ty: &Type| ty.as_tensor().and_then(|tensor| tensor.element.plain());
    let is_real_or_complex = |ty: &Type| element(ty).is_some_and(|dtype| dtype.is_float() || dtype.is_complex());
    let is_number = |ty: &Type| is_real_or_complex(ty) || element(ty).is_some_and(DType::is_integer);
    if let Some(matrix) = op.operands.first().filter(|ty| !is_real_or_complex(ty)) {
        let message = format!("@{target} takes a real or complex matrix, not {}", spelling::ty(matrix));
        return Err(Violation::new(clause, message));
    }
    let results = match op.results {
        [Type::Tuple(members)] => &members[..],
        types => types,
    };
    if let Some(other) = op.operands.iter().chain(results).find(|ty| !is_number(ty)) {
        return Err(Violation::new(clause, format!("@{target} takes and gives numbers, not {}", spelling::ty(other))));
    }
    Ok(())
}

fn check(op: &OpView<'_>) -> Checked {
    annotation(op)?;
    factorization(op)?;
    let layouts = ["operand_layouts", "result_layouts"].map(|name| op.attrs.get(name));
    require!(
        layouts[0].is_some() == layouts[1].is_some(),
        "custom_call layouts",
        "either both operand_layouts and result_layouts are given or none"
    );
    if let [Some(operands), Some(results)] = layouts {
        fits("operand", operands, op.operands)?;
        match op.results {
            [Type::Tuple(types)] => fits("result", results, types)?,
            types => fits("result", results, types)?,
        }
    }
    let version = op.attrs.get("api_version").and_then(Attr::as_int).unwrap_or(1);
    let wants_dict = version == TYPED_FFI;
    match op.attrs.get("backend_config") {
        Some(Attr::Str(text)) if wants_dict && !text.as_bytes().is_empty() => {
            return Err(Violation::new("custom_call I4", "API version 4 takes a dictionary as backend_config"));
        }
        Some(Attr::Dict(_)) if !wants_dict => {
            return Err(Violation::new(
                "custom_call I4",
                format!("API version {version} takes a string as backend_config"),
            ));
        }
        _ => {}
    }
    if let Some(Attr::Array(aliases)) = op.attrs.get("output_operand_aliases") {
        for alias in aliases.iter() {
            if let Attr::OutputAlias(alias) = alias {
                aliased(op, alias)?;
            }
        }
    }
    if let Some(Attr::Array(called)) = op.attrs.get("called_computations")
        && let Some(symbols) = op.symbols
    {
        for name in called.iter() {
            if let Attr::Symbol(name) = name {
                require!(symbols.func(name).is_some(), "custom_call I6", "there is no function @{name}");
            }
        }
    }
    Ok(())
}

/// One minor-to-major order for each value, a permutation of a tensor's dimensions and empty for other types.
fn fits(name: &str, layouts: &Attr, types: &[Type]) -> Checked {
    let Attr::Array(layouts) = layouts else { return Ok(()) };
    require!(
        layouts.len() == types.len(),
        "custom_call layouts",
        "{} {name} layouts for {} {name}s",
        layouts.len(),
        types.len()
    );
    for (n, (layout, ty)) in layouts.iter().zip(types).enumerate() {
        let Attr::Dense(dense) = layout else { continue };
        let Some(mut order) = dense.to_i64s(4096) else { continue };
        order.sort_unstable();
        let rank = ty.as_tensor().map_or(0, |tensor| tensor.rank());
        require!(
            order.iter().copied().eq(0..rank as i64),
            "custom_call layouts",
            "layout of {name} {n} is no permutation of {rank} dimensions"
        );
    }
    Ok(())
}

fn aliased(op: &OpView<'_>, alias: &OutputOperandAlias) -> Checked {
    let clause = "custom_call I7";
    let input = usize::try_from(alias.operand_index).ok().and_then(|n| op.operands.get(n));
    let Some(input) = input else {
        return Err(Violation::new(clause, format!("operand {} does not exist", alias.operand_index)));
    };
    let Some(input) = part(input, &alias.operand_tuple_indices) else {
        return Err(Violation::new(clause, format!("operand has no part {:?}", alias.operand_tuple_indices)));
    };
    let path = &alias.output_tuple_indices;
    let output = match (op.results, &path[..]) {
        ([only], _) => part(only, path),
        (all, [first, rest @ ..]) => {
            usize::try_from(*first).ok().and_then(|n| all.get(n)).and_then(|ty| part(ty, rest))
        }
        _ => None,
    };
    let Some(output) = output else {
        return Err(Violation::new(clause, format!("the output has no part {path:?}")));
    };
    require!(
        shapes::types_agree(input, output),
        clause,
        "operand part is {}, output part is {}",
        spelling::ty(input),
        spelling::ty(output)
    );
    Ok(())
}

fn part<'a>(mut ty: &'a Type, path: &[i64]) -> Option<&'a Type> {
    for &n in path {
        ty = match ty {
            Type::Tuple(types) => types.get(usize::try_from(n).ok()?)?,
            _ => return None,
        };
    }
    Some(ty)
}
