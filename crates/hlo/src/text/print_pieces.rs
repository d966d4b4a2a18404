//! Printing of pretty op forms that are given piece by piece.

use std::fmt::Write;

use tensor::DType;

use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, ElementType, Op, OpId, Type};
use crate::ops::{AttrKind, OpDef, Piece};
use crate::print::attr::{Dialect, NumberType, write_attr_as, write_integers};
use crate::print::dialect::{write_conv, write_dot_algorithm, write_short_sdy};
use crate::print::float::write_float;
use crate::print::name::is_word_start;
use crate::print::name::write_symbol;
use crate::print::ty::{write_results, write_type, write_types};
use crate::text::Locations;
use crate::text::print_op::{OpPrinter, Pending};
use crate::text::read_pieces::real_type;

/// Where blanks go between pieces, by the rules of MLIR's declarative forms.
struct Spacing {
    wants_blank: bool,
    after_mark: bool,
}

impl Spacing {
    fn before_word(&mut self, out: &mut String, word: &str) {
        let is_mark = !word.bytes().next().is_some_and(is_word_start);
        let blank = if word.len() != 1 && word != "->" {
            true
        } else if self.after_mark {
            !">)}],".contains(word)
        } else {
            !"<>(){}[],".contains(word)
        };
        if self.wants_blank && blank {
            out.push(' ');
        }
        self.wants_blank = !(is_glued(word) || word.len() == 1 && "<({[".contains(word));
        self.after_mark = is_mark || is_glued(word);
    }

    fn before_item(&mut self, out: &mut String) {
        if self.wants_blank || !self.after_mark {
            out.push(' ');
        }
        self.wants_blank = true;
        self.after_mark = false;
    }
}

/// Whether the word brings its own `=` with nothing around it.
fn is_glued(word: &str) -> bool {
    word.len() > 1 && word.ends_with('=')
}

impl<'m> OpPrinter<'_, 'm> {
    pub(super) fn shows_locations(&self) -> bool {
        self.options().locations == Locations::Aliases
    }

    /// Prints the pieces; writes nothing and says so if the op does not fit them.
    pub(super) fn pieces(&mut self, id: OpId, def: &'static OpDef, pieces: &'static [Piece], indent: usize) -> bool {
        let op = self.func.op(id);
        if !pieces.iter().all(|piece| self.fits(op, def, piece)) {
            return false;
        }
        self.out.push_str(def.name);
        self.pieces_from(id, def, pieces, 0, indent);
        true
    }

    /// Prints the pieces from one on; behind regions, which are queued, the rest is queued as well.
    pub(super) fn pieces_from(
        &mut self,
        id: OpId,
        def: &'static OpDef,
        pieces: &'static [Piece],
        from: usize,
        indent: usize,
    ) {
        let op = self.func.op(id);
        let mut spacing = Spacing { wants_blank: true, after_mark: false };
        for (i, piece) in pieces.iter().enumerate().skip(from) {
            if matches!(piece, Piece::Regions) && !op.regions.is_empty() {
                self.pending.push(Pending::Pieces { id, from: i + 1, indent });
                self.out.push_str(" (");
                self.push_regions(&op.regions, indent);
                return;
            }
            self.piece(op, def, piece, pieces, &mut spacing);
        }
    }

    /// Whether a piece can say what the op holds.
    fn fits(&self, op: &Op, def: &OpDef, piece: &Piece) -> bool {
        let func = self.func;
        let all_operands = |ty: &Type| op.operands.iter().all(|&v| func.ty(v) == ty);
        let first_result = || op.results().next().map(|v| func.ty(v));
        match *piece {
            Piece::Operand(n) => op.operands.len() > usize::from(n),
            Piece::Attr(name) => op.attr(name).is_some_and(|attr| fits_short(def, name, attr)),
            Piece::IfAttr(name, pieces) => {
                op.attr(name).is_none() || pieces.iter().all(|piece| self.fits(op, def, piece))
            }
            Piece::SliceRanges => {
                let lengths = ["start_indices", "limit_indices", "strides"].map(|n| op.attr(n).and_then(Attr::as_i64s));
                matches!(lengths, [Some(a), Some(b), Some(c)] if a.len() == b.len() && b.len() == c.len())
            }
            Piece::DotDims => matches!(op.attr("dot_dimension_numbers"), Some(Attr::Dot(_))),
            Piece::Precision => precision_fits(op),
            Piece::PrecisionAlgorithm => {
                precision_fits(op) && matches!(op.attr("algorithm"), None | Some(Attr::DotAlgorithm(_)))
            }
            Piece::ConvDims => match op.attr("dimension_numbers") {
                Some(Attr::Conv(dims)) => write_conv(&mut String::new(), dims),
                _ => false,
            },
            Piece::ConvWindow => window_fields(op).is_some(),
            Piece::ExponentMantissa => ["exponent_bits", "mantissa_bits"]
                .iter()
                .all(|n| op.attr(n).and_then(Attr::as_int).is_some_and(|v| v >= 0)),
            Piece::CallTarget => op.attr("call_target_name").and_then(Attr::as_str).is_some(),
            Piece::ResultTypes => op.num_results == 1 && first_result().is_some_and(all_operands),
            Piece::SameType | Piece::SelectTypes | Piece::ComplexType => op.num_results == 1,
            Piece::FirstOperandType => op.operands.first().is_some_and(|&v| all_operands(func.ty(v))),
            Piece::ArrowTypes | Piece::OperandTypes => !op.operands.is_empty(),
            Piece::TupleType => match first_result() {
                Some(Type::Tuple(items)) => items.iter().eq(op.operands.iter().map(|&v| func.ty(v))),
                _ => false,
            },
            Piece::PairwiseTypes => op.operands.iter().map(|&v| func.ty(v)).eq(op.results().map(|v| func.ty(v))),
            _ => true,
        }
    }

    fn piece(&mut self, op: &'m Op, def: &'static OpDef, piece: &Piece, all: &'static [Piece], spacing: &mut Spacing) {
        match *piece {
            Piece::Operand(n) => {
                spacing.before_item(self.out);
                self.value(op.operands[usize::from(n)]);
            }
            Piece::OperandsFrom(n) => {
                let values = op.operands.get(usize::from(n)..).unwrap_or_default();
                if !values.is_empty() {
                    spacing.before_item(self.out);
                    self.operands(values);
                }
            }
            Piece::OperandsThenComma(n) => {
                let values = op.operands.get(usize::from(n)..).unwrap_or_default();
                if !values.is_empty() {
                    spacing.before_item(self.out);
                    self.operands(values);
                    self.out.push(',');
                }
            }
            Piece::Word(word) => {
                spacing.before_word(self.out, word);
                self.out.push_str(word);
            }
            Piece::Attr(name) => {
                if let Some(attr) = op.attr(name) {
                    spacing.before_item(self.out);
                    self.short_attr(def, name, attr);
                }
            }
            Piece::IfAttr(name, pieces) => {
                if op.attr(name).is_some() {
                    for piece in pieces {
                        self.piece(op, def, piece, all, spacing);
                    }
                }
            }
            Piece::SliceRanges => {
                spacing.before_item(self.out);
                self.slice_ranges(op);
            }
            Piece::DotDims => {
                spacing.before_item(self.out);
                self.dot_dims(op);
            }
            Piece::Precision | Piece::PrecisionAlgorithm => self.precision(op),
            Piece::ConvDims => {
                spacing.before_item(self.out);
                if let Some(Attr::Conv(dims)) = op.attr("dimension_numbers") {
                    write_conv(self.out, dims);
                }
            }
            Piece::ConvWindow => {
                // The window opens right behind its brace.
                let fields = window_fields(op).unwrap_or_default();
                self.out.push_str(&fields.join(", "));
                (spacing.wants_blank, spacing.after_mark) = (true, false);
            }
            Piece::ExponentMantissa => {
                spacing.before_item(self.out);
                let bits = |name| op.attr(name).and_then(Attr::as_int).unwrap_or(0);
                let _ = write!(self.out, "e{}m{}", bits("exponent_bits"), bits("mantissa_bits"));
            }
            Piece::CallTarget => {
                spacing.before_item(self.out);
                write_symbol(self.out, op.attr("call_target_name").and_then(Attr::as_str).unwrap_or(""));
            }
            Piece::AttrDict => {
                let mut shown = Vec::new();
                shown_attrs(all, &mut shown);
                self.dict_without(op, &shown);
            }
            Piece::Regions => {}
            _ => self.types(op, *piece, spacing),
        }
    }

    fn types(&mut self, op: &'m Op, piece: Piece, spacing: &mut Spacing) {
        let func = self.func;
        let result = || op.results().next().map(|v| func.ty(v));
        let one = |printer: &mut Self, ty: Option<&Type>| {
            if let Some(ty) = ty {
                write_type(printer.out, ty);
            }
        };
        match piece {
            Piece::OperandTypesIfAny => {
                if !op.operands.is_empty() {
                    self.out.push_str(" : ");
                    let types = self.operand_types(op);
                    write_types(self.out, types);
                }
                return;
            }
            Piece::PairwiseTypes => {
                if op.operands.is_empty() {
                    self.out.push_str(" ()");
                } else {
                    self.out.push_str(" : ");
                    let types = self.operand_types(op);
                    write_types(self.out, types);
                }
                return;
            }
            _ => spacing.before_item(self.out),
        }
        match piece {
            Piece::FunctionType => self.function_type(op),
            Piece::SameType => {
                if op.operands.iter().all(|&v| Some(func.ty(v)) == result()) {
                    one(self, result());
                } else {
                    self.function_type(op);
                }
            }
            Piece::ResultTypes | Piece::TupleType => {
                let types = self.result_types(op);
                write_types(self.out, types);
            }
            Piece::OperandTypes => {
                let types = self.operand_types(op);
                write_types(self.out, types);
            }
            Piece::FirstOperandType => one(self, op.operands.first().map(|&v| func.ty(v))),
            Piece::ArrowTypes => {
                let types = self.operand_types(op);
                write_types(self.out, types);
                self.out.push_str(" -> ");
                let results = self.result_types(op);
                write_results(self.out, results);
            }
            Piece::SelectTypes => match op.operands.as_slice() {
                &[pred, on_true, on_false]
                    if Some(func.ty(on_true)) == result() && Some(func.ty(on_false)) == result() =>
                {
                    write_types(self.out, [func.ty(pred), func.ty(on_true)]);
                }
                _ => self.function_type(op),
            },
            Piece::ComplexType => {
                let real = result().and_then(real_type);
                if op.operands.iter().all(|&v| Some(func.ty(v)) == real.as_ref()) {
                    one(self, result());
                } else {
                    self.function_type(op);
                }
            }
            _ => {}
        }
    }

    fn short_attr(&mut self, def: &OpDef, name: &str, attr: &Attr) {
        let kind = def.attr(name).map_or(AttrKind::Any, |a| a.kind);
        match (kind, attr) {
            (AttrKind::Keyword(_), Attr::Keyword(keyword)) => self.out.push_str(keyword.word()),
            (AttrKind::I64s | AttrKind::Bools, Attr::DenseArray(_, values)) => write_integers(self.out, values),
            (AttrKind::I64 | AttrKind::I32, Attr::Int(value, _)) => {
                let _ = write!(self.out, "{value}");
            }
            (AttrKind::Named(words), Attr::Int(value, _)) => {
                let word = usize::try_from(*value).ok().and_then(|v| words.get(v));
                self.out.push_str(word.copied().unwrap_or_default());
            }
            (_, Attr::Sdy(sdy)) => write_short_sdy(self.out, sdy),
            (AttrKind::Number(_), Attr::Int(value, _)) => {
                let _ = write!(self.out, "{}", *value as u64);
            }
            (AttrKind::Number(_), Attr::Float(value, ElementType::Plain(dtype))) => {
                write_float(self.out, *dtype, tensor::encode_float(*dtype, value.get()).unwrap_or(0));
            }
            _ => write_attr_as(self.out, attr, Dialect::of_op(def.name), NumberType::Shown),
        }
    }

    fn slice_ranges(&mut self, op: &Op) {
        let values = |name| op.attr(name).and_then(Attr::as_i64s).unwrap_or_default();
        let (starts, limits, strides) = (values("start_indices"), values("limit_indices"), values("strides"));
        self.out.push('[');
        for (i, ((start, limit), stride)) in starts.iter().zip(limits).zip(strides).enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            let _ = write!(self.out, "{start}:{limit}");
            if *stride != 1 {
                let _ = write!(self.out, ":{stride}");
            }
        }
        self.out.push(']');
    }

    fn dot_dims(&mut self, op: &Op) {
        let Some(Attr::Dot(dims)) = op.attr("dot_dimension_numbers") else { return };
        if !dims.lhs_batching.is_empty() || !dims.rhs_batching.is_empty() {
            self.out.push_str("batching_dims = ");
            write_integers(self.out, &dims.lhs_batching);
            self.out.push_str(" x ");
            write_integers(self.out, &dims.rhs_batching);
            self.out.push_str(", ");
        }
        self.out.push_str("contracting_dims = ");
        write_integers(self.out, &dims.lhs_contracting);
        self.out.push_str(" x ");
        write_integers(self.out, &dims.rhs_contracting);
    }

    fn precision(&mut self, op: &Op) {
        if let Some(Attr::Array(words)) = op.attr("precision_config") {
            let words: Vec<&str> = words.iter().filter_map(|w| w.as_keyword()).map(|k| k.word()).collect();
            let _ = write!(self.out, ", precision = [{}]", words.join(", "));
        }
        if let Some(Attr::DotAlgorithm(algorithm)) = op.attr("algorithm") {
            self.out.push_str(", algorithm = ");
            write_dot_algorithm(self.out, algorithm);
        }
    }
}

/// Whether an attribute can be written in the short form of its kind.
fn fits_short(def: &OpDef, name: &str, attr: &Attr) -> bool {
    match def.attr(name).map_or(AttrKind::Any, |a| a.kind) {
        AttrKind::Keyword(set) => attr.as_keyword().is_some_and(|k| k.set() == set),
        AttrKind::I64s => attr.as_i64s().is_some(),
        AttrKind::Bools => matches!(attr, Attr::DenseArray(DType::Bool, _)),
        AttrKind::I64 => matches!(attr, Attr::Int(_, ElementType::Plain(DType::I64))),
        AttrKind::I32 => matches!(attr, Attr::Int(_, ElementType::Plain(DType::I32))),
        AttrKind::Bool => matches!(attr, Attr::Bool(_)),
        AttrKind::Str => matches!(attr, Attr::Str(_)),
        AttrKind::SdySharding => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::Sharding(_))),
        AttrKind::SdyAxisLists => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::AxisLists(_))),
        AttrKind::SdyAxisList => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::AxisList(_))),
        AttrKind::SdyAllToAll => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::AllToAll(_))),
        AttrKind::Number(dtype) => {
            matches!(attr, Attr::Int(_, ElementType::Plain(have)) | Attr::Float(_, ElementType::Plain(have)) if *have == dtype)
        }
        AttrKind::Named(words) => attr.as_int().is_some_and(|v| usize::try_from(v).is_ok_and(|v| v < words.len())),
        _ => true,
    }
}

fn precision_fits(op: &Op) -> bool {
    match op.attr("precision_config") {
        None => true,
        Some(Attr::Array(words)) => {
            words.iter().all(|w| w.as_keyword().is_some_and(|k| k.set() == crate::ir::KeywordSet::Precision))
        }
        _ => false,
    }
}

/// The fields of a convolution's window; `None` if one cannot be written so.
fn window_fields(op: &Op) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for (name, word) in [
        ("window_strides", "stride"),
        ("padding", "pad"),
        ("lhs_dilation", "lhs_dilate"),
        ("rhs_dilation", "rhs_dilate"),
        ("window_reversal", "reverse"),
    ] {
        let text = match op.attr(name) {
            None => continue,
            Some(Attr::DenseArray(DType::Bool, values)) if word == "reverse" => {
                let words: Vec<&str> = values.iter().map(|&v| if v != 0 { "true" } else { "false" }).collect();
                format!("[{}]", words.join(", "))
            }
            Some(Attr::DenseArray(DType::I64, values)) if word != "pad" && word != "reverse" => {
                let mut text = String::new();
                write_integers(&mut text, values);
                text
            }
            Some(Attr::Dense(dense)) if word == "pad" => {
                let is_pairs = matches!(dense.ty.dims.as_slice(), [_, 2]);
                if dense.ty.element != ElementType::Plain(DType::I64) || !is_pairs || dense.ty.encoding.is_some() {
                    return None;
                }
                let pairs: Vec<String> =
                    dense.to_i64s(4096)?.chunks_exact(2).map(|p| format!("[{}, {}]", p[0], p[1])).collect();
                format!("[{}]", pairs.join(", "))
            }
            Some(_) => return None,
        };
        fields.push(format!("{word} = {text}"));
    }
    Some(fields)
}

/// Attributes that pieces show, so that the dictionary leaves them out.
fn shown_attrs(pieces: &'static [Piece], shown: &mut Vec<&'static str>) {
    for piece in pieces {
        match *piece {
            Piece::Attr(name) => shown.push(name),
            Piece::IfAttr(_, pieces) => shown_attrs(pieces, shown),
            Piece::SliceRanges => shown.extend(["start_indices", "limit_indices", "strides"]),
            Piece::DotDims => shown.push("dot_dimension_numbers"),
            Piece::Precision => shown.push("precision_config"),
            Piece::PrecisionAlgorithm => shown.extend(["precision_config", "algorithm"]),
            Piece::ConvDims => shown.push("dimension_numbers"),
            Piece::ConvWindow => {
                shown.extend(["window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal"]);
            }
            Piece::ExponentMantissa => shown.extend(["exponent_bits", "mantissa_bits"]),
            Piece::CallTarget => shown.push("call_target_name"),
            _ => {}
        }
    }
}
