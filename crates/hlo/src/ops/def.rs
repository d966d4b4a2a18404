//! What an op's file states: class, operands, attributes, text form, bytecode form, inference and constraints.

use std::collections::HashMap;

use tensor::DType;

use crate::ir::sdy::MeshAttr;
use crate::ir::{Attr, Attrs, Func, KeywordSet, Module, Op, Region, RegionData, TensorType, Type, Value};

pub(crate) use super::class::OpClass;

/// How many of something an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// At least.
    pub min: u32,
    /// At most; `u32::MAX` for any number.
    pub max: u32,
}

impl Arity {
    /// Exactly `n`.
    pub const fn exactly(n: u32) -> Arity {
        Arity { min: n, max: n }
    }

    /// `n` or more.
    pub const fn at_least(n: u32) -> Arity {
        Arity { min: n, max: u32::MAX }
    }

    /// Whether `n` is allowed.
    pub fn allows(self, n: usize) -> bool {
        u32::try_from(n).is_ok_and(|n| self.min <= n && n <= self.max)
    }
}

/// What kind of value an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// Any attribute.
    Any,
    /// Present or absent.
    Unit,
    /// `true` or `false`.
    Bool,
    /// `N : i64`.
    I64,
    /// `N : i32`.
    I32,
    /// A real number, `f32`.
    F32,
    /// A number of this type, which short forms do not spell.
    Number(DType),
    /// A string.
    Str,
    /// `@name`.
    Symbol,
    /// `[@a, @b]`.
    Symbols,
    /// A dictionary.
    Dict,
    /// A string or a dictionary.
    StrOrDict,
    /// `dense<…>` of any element type.
    Dense,
    /// `dense<…> : tensor<…xi64>`.
    DenseI64,
    /// `array<i64: …>`.
    I64s,
    /// `array<i1: …>`.
    Bools,
    /// An array of anything.
    Array,
    /// One word of an enumeration.
    Keyword(KeywordSet),
    /// An array of words of one enumeration.
    Keywords(KeywordSet),
    /// `N : i32` whose values are named (custom-call API version).
    ApiVersion,
    /// `#stablehlo.dot`.
    Dot,
    /// `#chlo.ragged_dot`.
    RaggedDot,
    /// `#stablehlo.gather`.
    Gather,
    /// `#stablehlo.scatter`.
    Scatter,
    /// `#stablehlo.conv`.
    Conv,
    /// `#stablehlo.dot_algorithm`.
    DotAlgorithm,
    /// `#stablehlo.channel_handle`.
    Channel,
    /// `#stablehlo.result_accuracy`.
    ResultAccuracy,
    /// `dense<…> : tensor<…xi64>` or `#stablehlo.replica_group_mesh_axes`.
    ReplicaGroups,
    /// `#sdy.sharding`.
    SdySharding,
    /// `#sdy.sharding_per_value`.
    SdyShardings,
    /// `#sdy<manual_axes{…}>`.
    SdyManualAxes,
    /// `[{"x"}, {}]`: axes for each dimension.
    SdyAxisLists,
    /// `{"x", "y"}`: axes.
    SdyAxisList,
    /// `[{"x"}: 0->1]`: moves of axes between dimensions.
    SdyAllToAll,
    /// `N : i32` whose values are these words, from 0.
    Named(&'static [&'static str]),
}

/// Whether an attribute must be there.
#[derive(Clone, Copy, Debug)]
pub enum Presence {
    /// Must be there.
    Required,
    /// May be absent, and absence means something of its own.
    Optional,
    /// May be absent, which means this value. Readers drop an attribute equal to its default.
    Default(fn() -> Attr),
    /// May be absent, which means this value in every dimension (1 for strides, 0 for padding, false for reversal).
    /// Readers drop an attribute whose every element equals it.
    DefaultFill(i64),
}

/// One attribute of an op.
#[derive(Clone, Copy, Debug)]
pub struct AttrDef {
    /// Name.
    pub name: &'static str,
    /// What it holds.
    pub kind: AttrKind,
    /// Whether it must be there.
    pub presence: Presence,
}

/// One element of an op's pretty form, read and written alike.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// Operand number `n`.
    Operand(u8),
    /// All operands from number `n`, separated by commas.
    OperandsFrom(u8),
    /// Operands from number `n`, each followed by a comma (`%a, %b, dim = 0`).
    OperandsThenComma(u8),
    /// A keyword or punctuation.
    Word(&'static str),
    /// The value of an attribute in its short form (a bare word for keywords, `[1, 2]` for `array<i64>`).
    Attr(&'static str),
    /// The pieces, present when the attribute is.
    IfAttr(&'static str, &'static [Piece]),
    /// `[0:4, 1:8:2]` from `start_indices`, `limit_indices` and `strides`.
    SliceRanges,
    /// `batching_dims = [0] x [0], contracting_dims = [2] x [1]`.
    DotDims,
    /// `, precision = [DEFAULT, DEFAULT]`, if present.
    Precision,
    /// As [`Piece::Precision`], then `, algorithm = <…>`, if present.
    PrecisionAlgorithm,
    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
    ConvDims,
    /// `stride = [1, 1], pad = [[0, 0]], …`.
    ConvWindow,
    /// `e5m2` from `exponent_bits` and `mantissa_bits`.
    ExponentMantissa,
    /// `@target` from `call_target_name`.
    CallTarget,
    /// The attributes no other piece shows, as `{…}` when there are any.
    AttrDict,
    /// `(`region`,` region`)` when there are regions.
    Regions,
    /// One type when operands and results agree, a function type otherwise.
    SameType,
    /// `(operand types) -> result types`.
    FunctionType,
    /// The result types, separated by commas.
    ResultTypes,
    /// The operand types, separated by commas.
    OperandTypes,
    /// `: ` and the operand types when there are operands.
    OperandTypesIfAny,
    /// The type of operand 0.
    FirstOperandType,
    /// Operand types without parentheses, `->`, result types (`a, b -> c`; several results in parentheses).
    ArrowTypes,
    /// `select`'s types: predicate and one type, or a function type.
    SelectTypes,
    /// `complex`'s type: the result's alone when it determines the operands'.
    ComplexType,
    /// `tuple`'s type: the result's alone when it determines the operands'.
    TupleType,
    /// `: ` and pairwise equal operand and result types, written once; `()` when there are none.
    PairwiseTypes,
}

/// How an op looks in text.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// Only the generic form `"name"(%a) <{…}> ({…}) : (…) -> …`.
    Generic,
    /// A pretty form given piece by piece.
    Pieces(&'static [Piece]),
    /// A form with its own reader and writer in `text/`.
    Constant,
    /// `reduce`.
    Reduce,
    /// `while`.
    While,
    /// `func.call` / `call`.
    Call,
    /// `func.return` / `return`.
    Return,
    /// `sdy.manual_computation`.
    ManualComputation,
    /// `sdy.named_computation`.
    NamedComputation,
    /// `chlo.scan`.
    Scan,
}

/// How an op is stored in a portable artifact.
#[derive(Clone, Copy, Debug)]
pub struct VhloForm {
    /// Versioned name without the dialect, as in `add_v1`.
    pub name: &'static str,
    /// Attribute names in the order they are stored (sorted).
    pub attrs: &'static [&'static str],
}

/// A constraint of the specification that an op breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The clause, as in `dot_general C7`; empty for structural rules of the dialect.
    pub clause: &'static str,
    /// What is wrong, with the figures.
    pub message: String,
}

impl Violation {
    /// A broken clause.
    pub fn new(clause: &'static str, message: impl Into<String>) -> Self {
        Violation { clause, message: message.into() }
    }
}

/// Functions and meshes of a module by name. Where a name is taken twice, it stands for the first.
#[derive(Clone, Debug, Default)]
pub struct Symbols<'a> {
    funcs: HashMap<&'a str, &'a Func>,
    meshes: HashMap<&'a str, &'a MeshAttr>,
}

impl<'a> Symbols<'a> {
    /// The symbols of a module.
    pub fn of(module: &'a Module) -> Self {
        Symbols {
            funcs: module.funcs.iter().rev().map(|func| (&*func.name, func)).collect(),
            meshes: module.meshes.iter().rev().map(|mesh| (&*mesh.name, &mesh.mesh)).collect(),
        }
    }

    /// The function of that name.
    pub fn func(&self, name: &str) -> Option<&'a Func> {
        self.funcs.get(name).copied()
    }

    /// The mesh of that name.
    pub fn mesh(&self, name: &str) -> Option<&'a MeshAttr> {
        self.meshes.get(name).copied()
    }
}

/// What inference and constraints may look at: an op that may not be in a function yet.
#[derive(Clone, Copy)]
pub struct OpView<'a> {
    /// Operand types.
    pub operands: &'a [Type],
    /// Operands, in `func`.
    pub values: &'a [Value],
    /// Attributes.
    pub attrs: &'a Attrs,
    /// Regions of the op, in `func`.
    pub regions: &'a [Region],
    /// Result types; empty during inference.
    pub results: &'a [Type],
    /// The function that owns the regions.
    pub func: &'a Func,
    /// What symbols name; `None` while a function is being built.
    pub symbols: Option<&'a Symbols<'a>>,
}

impl<'a> OpView<'a> {
    /// An op of a function, with the types of its operands and results; no symbols.
    pub(crate) fn of(func: &'a Func, op: &'a Op, operands: &'a [Type], results: &'a [Type]) -> OpView<'a> {
        let (values, attrs, regions) = (&op.operands, &op.attrs, &op.regions);
        OpView { operands, values, attrs, regions, results, func, symbols: None }
    }

    /// Operand `n` as a tensor.
    pub fn tensor(&self, n: usize) -> Result<&'a TensorType, Violation> {
        self.operands
            .get(n)
            .and_then(Type::as_tensor)
            .ok_or_else(|| Violation::new("", format!("operand {n} must be a tensor")))
    }

    /// The attribute of that name, or a violation.
    pub fn attr(&self, name: &'static str) -> Result<&'a Attr, Violation> {
        self.attrs.get(name).ok_or_else(|| Violation::new("", format!("attribute `{name}` is missing")))
    }

    /// An `array<i64: …>` attribute.
    pub fn i64s(&self, name: &'static str) -> Result<&'a [i64], Violation> {
        self.attr(name)?
            .as_i64s()
            .ok_or_else(|| Violation::new("", format!("attribute `{name}` must be an array of i64")))
    }

    /// An integer attribute.
    pub fn int(&self, name: &'static str) -> Result<i64, Violation> {
        self.attr(name)?.as_int().ok_or_else(|| Violation::new("", format!("attribute `{name}` must be an integer")))
    }

    /// Region `n`.
    pub fn region(&self, n: usize) -> Result<&'a RegionData, Violation> {
        self.regions
            .get(n)
            .map(|&region| self.func.region(region))
            .ok_or_else(|| Violation::new("", format!("region {n} is missing")))
    }
}

/// How result types follow from the rest.
#[derive(Clone, Copy, Debug)]
pub struct Infer {
    /// The clause that results break when they differ from the inferred types.
    pub clause: &'static str,
    /// The result types, or the constraint that operands, attributes or regions break.
    pub types: fn(&OpView<'_>) -> Result<Vec<Type>, Violation>,
}

impl Infer {
    /// Inference by a function, on behalf of a clause.
    pub(crate) const fn by(clause: &'static str, types: fn(&OpView<'_>) -> Result<Vec<Type>, Violation>) -> Infer {
        Infer { clause, types }
    }
}

/// The definition of an op.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// Full name.
    pub name: &'static str,
    /// What kind of work it is.
    pub class: OpClass,
    /// Operands.
    pub operands: Arity,
    /// Results.
    pub results: Arity,
    /// Regions.
    pub regions: Arity,
    /// Attributes.
    pub attrs: &'static [AttrDef],
    /// Text form.
    pub text: Text,
    /// Bytecode forms, oldest first.
    pub vhlo: &'static [VhloForm],
    /// Result types from operands, attributes and regions, where the specification determines them.
    pub infer: Option<Infer>,
    /// Constraints beyond those inference checks.
    pub check: fn(&OpView<'_>) -> Result<(), Violation>,
}

impl OpDef {
    /// The attribute definition of that name.
    pub fn attr(&self, name: &str) -> Option<&'static AttrDef> {
        self.attrs.iter().find(|a| a.name == name)
    }

    /// Removes attributes that say what their absence says, so that one program has one form.
    ///
    /// A window attribute of the wrong length stays, for the verifier to find.
    pub fn drop_defaults(&self, attrs: &mut Attrs) {
        let rank = window_rank(attrs);
        for def in self.attrs {
            let is_default = match (def.presence, attrs.get(def.name)) {
                (Presence::Default(default), Some(value)) => *value == default(),
                (Presence::DefaultFill(fill), Some(value)) => is_filled_with(value, fill, rank),
                _ => false,
            };
            if is_default {
                attrs.remove(def.name);
            }
        }
    }
}

/// Number of dimensions an op's window has, as far as its attributes tell.
pub(crate) fn window_rank(attrs: &Attrs) -> Option<usize> {
    match (attrs.get("dimension_numbers"), attrs.get("window_dimensions")) {
        (Some(Attr::Conv(dims)), _) => Some(dims.input_spatial.len()),
        (_, Some(window)) => window.as_i64s().map(<[i64]>::len),
        _ => None,
    }
}

/// Whether every element is `fill`, and there are as many as the window has dimensions: two for each in `padding`.
fn is_filled_with(value: &Attr, fill: i64, rank: Option<usize>) -> bool {
    match value {
        Attr::DenseArray(_, values) => rank.is_none_or(|n| values.len() == n) && values.iter().all(|&v| v == fill),
        Attr::Dense(dense) => {
            let has_shape = |n: usize| i64::try_from(n).is_ok_and(|n| dense.ty.dims == [n, 2]);
            rank.is_none_or(has_shape) && dense.to_i64s(4096).is_some_and(|values| values.iter().all(|&v| v == fill))
        }
        _ => false,
    }
}

/// The constraint check of an op that has none beyond inference.
pub(crate) fn no_constraints(_: &OpView<'_>) -> Result<(), Violation> {
    Ok(())
}
