//! Reading of pretty op forms that are given piece by piece.

use std::sync::Arc;

use tensor::DType;

use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, Dense, ElementType, KeywordSet, TensorType, Type};
use crate::ops::{AttrKind, OpDef, Piece};
use crate::print::name::is_word_start;
use crate::text::lexer::{Read, Reader};
use crate::text::read_attr::{fit_integer, float_attr};
use crate::text::read_op::{Body, OuterNames, Parts};

impl<'a> Reader<'a> {
    pub(super) fn pieces(&mut self, body: &mut Body<'a>, def: &'static OpDef, pieces: &'static [Piece]) -> Read<Parts> {
        let mut parts = Parts::new();
        for piece in pieces {
            self.piece(body, def, piece, &mut parts)?;
        }
        Ok(parts)
    }

    fn piece(
        &mut self,
        body: &mut Body<'a>,
        def: &'static OpDef,
        piece: &'static Piece,
        parts: &mut Parts,
    ) -> Read<()> {
        match *piece {
            Piece::Operand(_) => {
                let value = self.operand(body)?;
                parts.operands.push(value);
            }
            Piece::OperandsFrom(_) => {
                let values = self.operands(body)?;
                if parts.operands.is_empty() {
                    parts.operands = values;
                } else {
                    parts.operands.extend(values);
                }
            }
            Piece::OperandsThenComma(_) => {
                while self.peek() == b'%' {
                    let value = self.operand(body)?;
                    parts.operands.push(value);
                    self.expect(b',')?;
                }
            }
            Piece::Word(word) => self.fixed(word)?,
            Piece::Attr(name) => {
                let value = self.short_attr(def, name)?;
                parts.attrs.set(name, value);
            }
            Piece::IfAttr(_, pieces) => {
                let Some(Piece::Word(first)) = pieces.first() else {
                    return self.optional_leading_attr(def, pieces, parts);
                };
                if self.eat_fixed(first) {
                    for piece in &pieces[1..] {
                        self.piece(body, def, piece, parts)?;
                    }
                }
            }
            Piece::SliceRanges => self.slice_ranges(parts)?,
            Piece::DotDims => self.short_dot_dims(parts)?,
            Piece::Precision | Piece::PrecisionAlgorithm => self.precision(parts)?,
            Piece::ConvDims => {
                let dims = self.conv_dims()?;
                parts.attrs.set("dimension_numbers", Attr::Conv(Arc::new(dims)));
            }
            Piece::ConvWindow => self.conv_window(parts)?,
            Piece::ExponentMantissa => self.exponent_mantissa(parts)?,
            Piece::CallTarget => {
                let target = self.symbol()?;
                parts.attrs.set("call_target_name", Attr::string(target.as_bytes()));
            }
            Piece::AttrDict => self.optional_attr_dict(&mut parts.attrs, Some(def))?,
            Piece::Regions => {
                if self.peek() == b'(' {
                    let mut regions = Vec::new();
                    self.list(b'(', b')', |r| {
                        regions.push(r.region(body, None, OuterNames::Visible)?);
                        Ok(())
                    })?;
                    parts.regions = regions;
                }
            }
            _ => self.types_piece(body, *piece, parts)?,
        }
        Ok(())
    }

    /// Pieces that state types. Operands are known by now, so their types are checked rather than taken.
    fn types_piece(&mut self, body: &Body<'a>, piece: Piece, parts: &mut Parts) -> Read<()> {
        self.skip();
        let at = self.pos;
        match piece {
            Piece::FunctionType => {
                let ty = self.function_type()?;
                self.check_types(body, &parts.operands, &ty.inputs, at)?;
                parts.results = ty.outputs;
            }
            Piece::SameType => {
                if self.here() == b'(' {
                    return self.types_piece(body, Piece::FunctionType, parts);
                }
                let ty = self.ty()?;
                self.check_all(body, parts, &ty, at)?;
                parts.results = vec![ty];
            }
            Piece::ResultTypes => {
                parts.results = self.type_list()?;
                // Ops whose only stated type is the result's have operands of that type.
                if let [only] = parts.results.as_slice() {
                    self.check_all(body, parts, &only.clone(), at)?;
                }
            }
            Piece::OperandTypes => {
                let types = self.type_list()?;
                self.check_types(body, &parts.operands, &types, at)?;
            }
            Piece::OperandTypesIfAny => {
                if self.eat(b':') {
                    let types = self.type_list()?;
                    self.check_types(body, &parts.operands, &types, at)?;
                } else if !parts.operands.is_empty() {
                    return self.expected("`:` and the operand types");
                }
            }
            Piece::FirstOperandType => {
                let ty = self.ty()?;
                self.check_all(body, parts, &ty, at)?;
            }
            Piece::ArrowTypes => {
                let types = self.type_list()?;
                self.check_types(body, &parts.operands, &types, at)?;
                self.expect_mark("->")?;
                parts.results = self.result_types()?;
            }
            Piece::SelectTypes => {
                if self.here() == b'(' {
                    return self.types_piece(body, Piece::FunctionType, parts);
                }
                let types = self.type_list()?;
                let [pred, rest] = types.as_slice() else {
                    return self.fail_at(at, "expected the predicate's type and the values' type");
                };
                let starts = self.type_starts.clone();
                self.type_starts = vec![starts[0], starts[1], starts[1]];
                self.check_types(body, &parts.operands, &[pred.clone(), rest.clone(), rest.clone()], at)?;
                parts.results = vec![rest.clone()];
            }
            Piece::ComplexType => {
                if self.here() == b'(' {
                    return self.types_piece(body, Piece::FunctionType, parts);
                }
                let ty = self.ty()?;
                let Some(real) = real_type(&ty) else {
                    return self.fail_at(at, "expected a tensor of complex numbers");
                };
                self.check_all(body, parts, &real, at)?;
                parts.results = vec![ty];
            }
            Piece::TupleType => {
                let ty = self.ty()?;
                let Type::Tuple(items) = &ty else { return self.fail_at(at, "expected a tuple type") };
                self.type_starts.clear();
                self.check_types(body, &parts.operands, items, at)?;
                parts.results = vec![ty];
            }
            Piece::PairwiseTypes => {
                if parts.operands.is_empty() {
                    self.expect(b'(')?;
                    return self.expect(b')');
                }
                self.expect(b':')?;
                let types = self.type_list()?;
                self.check_types(body, &parts.operands, &types, at)?;
                parts.results = types;
            }
            _ => return self.fail("this piece is not a type"),
        }
        Ok(())
    }

    /// Every operand must have that type.
    fn check_all(&mut self, body: &Body<'a>, parts: &Parts, ty: &Type, at: usize) -> Read<()> {
        self.type_starts.clear();
        for &operand in &parts.operands {
            if body.func.ty(operand) != ty {
                let types = vec![ty.clone(); parts.operands.len()];
                return self.check_types(body, &parts.operands, &types, at);
            }
        }
        Ok(())
    }

    /// A keyword, punctuation, or a keyword with `=` glued to it.
    fn fixed(&mut self, word: &'static str) -> Read<()> {
        if self.eat_fixed(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    fn eat_fixed(&mut self, word: &str) -> bool {
        match word.strip_suffix('=') {
            Some(name) if !name.is_empty() => self.eat_word(name) && self.eat(b'='),
            _ if word.bytes().next().is_some_and(is_word_start) => self.eat_word(word),
            _ => self.eat_mark(word),
        }
    }

    /// An optional group that starts with an attribute's word rather than punctuation.
    fn optional_leading_attr(&mut self, def: &'static OpDef, pieces: &'static [Piece], parts: &mut Parts) -> Read<()> {
        if let [Piece::Attr(name)] = pieces
            && !self.peek_word().is_empty()
        {
            let value = self.short_attr(def, name)?;
            parts.attrs.set(*name, value);
        }
        Ok(())
    }

    /// An attribute in the short form its kind has in pretty forms.
    fn short_attr(&mut self, def: &'static OpDef, name: &'static str) -> Read<Attr> {
        let kind = def.attr(name).map_or(AttrKind::Any, |a| a.kind);
        self.skip();
        let at = self.pos;
        Ok(match kind {
            AttrKind::Keyword(set) if self.here() != b'#' => Attr::Keyword(self.keyword(set)?),
            AttrKind::I64s if self.here() == b'[' => Attr::i64s(self.integers()?),
            AttrKind::Bools if self.here() == b'[' => Attr::DenseArray(DType::Bool, self.integers()?.into()),
            AttrKind::I32 => self.typed_integer(DType::I32)?,
            AttrKind::I64 => self.typed_integer(DType::I64)?,
            AttrKind::SdySharding if self.here() == b'<' => match self.sharding()? {
                Some(sharding) => Attr::Sdy(Arc::new(SdyAttr::Sharding(sharding))),
                None => return self.fail_at(at, "this sharding names a reduction that is not supported"),
            },
            AttrKind::SdyManualAxes if self.here() == b'{' => self.manual_axes()?,
            AttrKind::Named(words) if is_word_start(self.here()) => {
                let word = self.word("a word")?;
                match words.iter().position(|w| *w == word) {
                    Some(value) => Attr::i32(value as i32),
                    None => return self.fail_at(at, format!("`{word}` is not one of {}", words.join(", "))),
                }
            }
            AttrKind::SdyAxisLists if self.here() == b'[' => self.axis_lists()?,
            AttrKind::SdyAxisList if self.here() == b'{' => Attr::Sdy(Arc::new(SdyAttr::AxisList(self.axis_list()?))),
            AttrKind::SdyAllToAll if self.here() == b'[' => self.all_to_all_params()?,
            AttrKind::Number(dtype) => self.number(dtype)?,
            AttrKind::Str => Attr::string(self.string()?),
            AttrKind::Bool => Attr::Bool(self.boolean()?),
            _ => self.attr()?,
        })
    }

    /// An integer of a type that need not be written.
    fn typed_integer(&mut self, dtype: DType) -> Read<Attr> {
        self.skip();
        let at = self.pos;
        let value = self.integer()?;
        if self.peek() == b':' {
            let after_value = self.pos;
            self.pos += 1;
            // The colon may open the op's types instead; those never are the bare integer type.
            if self.peek_word() == dtype.name() {
                self.expect_word(dtype.name())?;
            } else {
                self.pos = after_value;
            }
        }
        if dtype == DType::I32 && i32::try_from(value).is_err() {
            return self.fail_at(at, "the integer does not fit in i32");
        }
        Ok(Attr::Int(value, dtype.into()))
    }

    /// A number whose type is not written.
    fn number(&mut self, dtype: DType) -> Read<Attr> {
        self.skip();
        let at = self.pos;
        if dtype.is_float() && self.at_float() {
            return Ok(float_attr(self.float()?, dtype.into()));
        }
        let value = self.wide_integer()?;
        match fit_integer(dtype, value).filter(|_| dtype.is_integer()) {
            Some(value) => Ok(Attr::Int(value, dtype.into())),
            None => self.fail_at(at, format!("expected a number of type {dtype}")),
        }
    }

    fn slice_ranges(&mut self, parts: &mut Parts) -> Read<()> {
        let (mut starts, mut limits, mut strides) = (Vec::new(), Vec::new(), Vec::new());
        self.list(b'[', b']', |r| {
            starts.push(r.integer()?);
            r.expect(b':')?;
            limits.push(r.integer()?);
            strides.push(if r.eat(b':') { r.integer()? } else { 1 });
            Ok(())
        })?;
        parts.attrs.set("start_indices", Attr::i64s(starts));
        parts.attrs.set("limit_indices", Attr::i64s(limits));
        parts.attrs.set("strides", Attr::i64s(strides));
        Ok(())
    }

    fn short_dot_dims(&mut self, parts: &mut Parts) -> Read<()> {
        let mut dims = crate::ir::dims::DotDims::default();
        if self.eat_word("batching_dims") {
            self.expect(b'=')?;
            dims.lhs_batching = self.integers()?;
            self.expect_mark("x")?;
            dims.rhs_batching = self.integers()?;
            self.expect(b',')?;
        }
        self.expect_word("contracting_dims")?;
        self.expect(b'=')?;
        dims.lhs_contracting = self.integers()?;
        self.expect_mark("x")?;
        dims.rhs_contracting = self.integers()?;
        parts.attrs.set("dot_dimension_numbers", Attr::Dot(Arc::new(dims)));
        Ok(())
    }

    fn precision(&mut self, parts: &mut Parts) -> Read<()> {
        while self.eat(b',') {
            if self.eat_word("algorithm") {
                self.expect(b'=')?;
                let algorithm = self.dot_algorithm()?;
                parts.attrs.set("algorithm", Attr::DotAlgorithm(Arc::new(algorithm)));
                break;
            }
            self.expect_word("precision")?;
            self.expect(b'=')?;
            let mut words = Vec::new();
            self.list(b'[', b']', |r| {
                words.push(Attr::Keyword(r.keyword(KeywordSet::Precision)?));
                Ok(())
            })?;
            parts.attrs.set("precision_config", Attr::Array(words.into()));
        }
        Ok(())
    }

    fn conv_window(&mut self, parts: &mut Parts) -> Read<()> {
        while !self.peek_word().is_empty() {
            let at = self.pos;
            let word = self.word("a window field")?;
            self.expect(b'=')?;
            let (name, value) = match word {
                "stride" => ("window_strides", Attr::i64s(self.integers()?)),
                "lhs_dilate" => ("lhs_dilation", Attr::i64s(self.integers()?)),
                "rhs_dilate" => ("rhs_dilation", Attr::i64s(self.integers()?)),
                "reverse" => ("window_reversal", self.booleans()?),
                "pad" => ("padding", self.window_padding()?),
                _ => {
                    return self
                        .fail_at(at, format!("`{word}` is not one of stride, pad, lhs_dilate, rhs_dilate, reverse"));
                }
            };
            if parts.attrs.set(name, value).is_some() {
                return self.fail_at(at, format!("`{word}` is given twice"));
            }
            if !self.eat(b',') {
                break;
            }
        }
        Ok(())
    }

    fn booleans(&mut self) -> Read<Attr> {
        let mut values = Vec::new();
        self.list(b'[', b']', |r| {
            let value = if r.peek_word().is_empty() { r.integer()? != 0 } else { r.boolean()? };
            values.push(i64::from(value));
            Ok(())
        })?;
        Ok(Attr::DenseArray(DType::Bool, values.into()))
    }

    fn window_padding(&mut self) -> Read<Attr> {
        let mut bytes = Vec::new();
        let mut rows = 0;
        let at = self.pos;
        self.list(b'[', b']', |r| {
            let at = r.pos;
            let pair = r.integers()?;
            if pair.len() != 2 {
                return r.fail_at(at, "expected the padding before and behind");
            }
            pair.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
            rows += 1;
            Ok(())
        })?;
        match Dense::from_elements(TensorType::new([rows, 2], DType::I64), bytes) {
            Some(dense) => Ok(Attr::Dense(Arc::new(dense))),
            None => self.fail_at(at, "malformed padding"),
        }
    }

    fn exponent_mantissa(&mut self, parts: &mut Parts) -> Read<()> {
        self.skip();
        let at = self.pos;
        let word = self.word("a format such as `e8m7`")?;
        let numbers = word.strip_prefix('e').and_then(|rest| rest.split_once('m'));
        let parsed = numbers.and_then(|(e, m)| Some((e.parse::<i32>().ok()?, m.parse::<i32>().ok()?)));
        let Some((exponent, mantissa)) = parsed else {
            return self.fail_at(at, format!("expected a format such as `e8m7`, found `{word}`"));
        };
        parts.attrs.set("exponent_bits", Attr::i32(exponent));
        parts.attrs.set("mantissa_bits", Attr::i32(mantissa));
        Ok(())
    }
}

/// The type of the parts of a tensor of complex numbers.
pub(super) fn real_type(ty: &Type) -> Option<Type> {
    let tensor = ty.as_tensor()?;
    let part = tensor.element.plain()?.complex_part()?;
    let mut real = tensor.clone();
    real.element = ElementType::Plain(part);
    Some(real.into())
}
