//! Reading of attributes that MLIR itself defines, and of those carried only as text.

use std::borrow::Cow;
use std::sync::Arc;

use tensor::DType;

use crate::ir::{Attr, AttrName, Attrs, ByteString, ElementType, Real, Type};
use crate::ops::OpDef;
use crate::print::attr::write_attr;
use crate::print::name::is_word_start;
use crate::print::ty::write_type;
use crate::text::lexer::{Read, Reader, text};

/// How many times its own size a text may reach when aliases inside foreign attributes are written out.
const MAX_EXPANSION: usize = 16;

impl<'a> Reader<'a> {
    /// Any attribute.
    pub(super) fn attr(&mut self) -> Read<Attr> {
        self.enter()?;
        let attr = self.attr_inside()?;
        self.depth -= 1;
        Ok(attr)
    }

    fn attr_inside(&mut self) -> Read<Attr> {
        let first = self.peek();
        let start = self.pos;
        match first {
            b'"' => {
                let bytes = self.string()?;
                if self.eat(b':') {
                    self.ty()?;
                    return Ok(Attr::Opaque(self.foreign_text(start)?));
                }
                Ok(Attr::Str(ByteString::new(bytes)))
            }
            b'[' => {
                let mut items = Vec::new();
                self.list(b'[', b']', |r| {
                    items.push(r.attr()?);
                    Ok(())
                })?;
                Ok(Attr::Array(items.into()))
            }
            b'{' => {
                let mut attrs = Attrs::new();
                self.attr_dict(&mut attrs, None)?;
                Ok(Attr::Dict(Arc::new(attrs)))
            }
            b'@' => {
                let name = self.symbol()?;
                if !self.src[self.pos..].starts_with(b"::") {
                    return Ok(Attr::Symbol(name));
                }
                while self.src[self.pos..].starts_with(b"::") {
                    self.pos += 2;
                    self.symbol()?;
                }
                Ok(Attr::Opaque(self.foreign_text(start)?))
            }
            b'#' => self.hash_attr(),
            b'!' | b'(' => Ok(Attr::Type(self.ty()?)),
            b'-' | b'0'..=b'9' => self.number_attr(),
            _ => self.word_attr(),
        }
    }

    fn word_attr(&mut self) -> Read<Attr> {
        let word = self.peek_word();
        let start = self.pos;
        match word {
            "true" | "false" => {
                self.pos += word.len();
                if self.eat(b':') {
                    self.ty()?;
                }
                Ok(Attr::Bool(word == "true"))
            }
            "unit" => {
                self.pos += word.len();
                Ok(Attr::Unit)
            }
            "dense" => self.dense_attr(),
            "dense_resource" => self.dense_resource(),
            "array" => self.dense_array(),
            "loc" => Ok(Attr::Loc(self.location()?)),
            "affine_map" | "affine_set" | "strided" => {
                self.pos += word.len();
                self.skip_balanced()?;
                Ok(Attr::Opaque(self.foreign_text(start)?))
            }
            "sparse" => {
                self.pos += word.len();
                self.skip_balanced()?;
                self.expect(b':')?;
                self.ty()?;
                Ok(Attr::Opaque(self.foreign_text(start)?))
            }
            "distinct" => {
                self.pos += word.len();
                self.expect(b'[')?;
                self.integer()?;
                self.expect(b']')?;
                self.skip_balanced()?;
                Ok(Attr::Opaque(self.foreign_text(start)?))
            }
            _ if Self::starts_type(word) => Ok(Attr::Type(self.ty()?)),
            _ => self.expected("an attribute"),
        }
    }

    fn number_attr(&mut self) -> Read<Attr> {
        let start = self.pos;
        if self.at_float() {
            let value = self.float()?;
            let mut element = ElementType::Plain(DType::F64);
            if self.eat(b':') {
                match self.ty()? {
                    Type::Element(e @ ElementType::Plain(dtype)) if dtype.is_float() => element = e,
                    Type::Opaque(_) => return Ok(Attr::Opaque(self.foreign_text(start)?)),
                    _ => return self.fail_at(start, "a number with a decimal point needs a floating-point type"),
                }
            }
            return Ok(float_attr(value, element));
        }
        let is_hex = self.src[self.pos..].starts_with(b"0x");
        let value = self.wide_integer()?;
        let mut element = ElementType::Plain(DType::I64);
        if self.eat(b':') {
            self.skip();
            let type_at = self.pos;
            match self.ty()? {
                Type::Element(e) => element = e,
                Type::Opaque(_) => return Ok(Attr::Opaque(self.foreign_text(start)?)),
                _ => return self.fail_at(type_at, "an integer needs an integer type"),
            }
        }
        match element {
            ElementType::Plain(dtype) if dtype.is_float() && is_hex => {
                let bits = value as u64;
                if dtype.bits() < 64 && bits >> dtype.bits() != 0 {
                    return self.fail_at(start, format!("the bit pattern does not fit in {dtype}"));
                }
                let decoded = tensor::decode_float(dtype, bits).unwrap_or(f64::NAN);
                // A NaN keeps its pattern when the double's own pattern can carry it.
                let exact = tensor::encode_float(dtype, decoded) == Some(bits);
                if exact {
                    Ok(Attr::Float(Real::new(decoded), element))
                } else {
                    Ok(Attr::Opaque(self.foreign_text(start)?))
                }
            }
            ElementType::Plain(DType::Bool) if value == 0 || value == 1 || value == -1 => Ok(Attr::Bool(value != 0)),
            ElementType::Plain(dtype) if dtype.is_integer() => match fit_integer(dtype, value) {
                Some(value) => Ok(Attr::Int(value, element)),
                None => self.fail_at(start, format!("the integer does not fit in {dtype}")),
            },
            ElementType::Index => match i64::try_from(value) {
                Ok(value) => Ok(Attr::Int(value, element)),
                Err(_) => self.fail_at(start, "the integer does not fit in an index"),
            },
            _ => self.fail_at(start, "an integer needs an integer type"),
        }
    }

    /// `array<i64: 1, 2>`.
    fn dense_array(&mut self) -> Read<Attr> {
        self.expect_word("array")?;
        self.expect(b'<')?;
        let type_at = self.pos;
        let dtype = match self.known_element_type()? {
            ElementType::Plain(dtype) if !dtype.is_complex() => dtype,
            _ => return self.fail_at(type_at, "an array holds integers, booleans or real numbers"),
        };
        let mut values = Vec::new();
        if self.eat(b':') {
            loop {
                values.push(self.array_element(dtype)?);
                if !self.eat(b',') {
                    break;
                }
            }
        }
        self.expect(b'>')?;
        Ok(Attr::DenseArray(dtype, values.into()))
    }

    fn array_element(&mut self, dtype: DType) -> Read<i64> {
        self.skip();
        let start = self.pos;
        if dtype.is_bool() {
            return match self.peek_word() {
                "" => Ok(i64::from(self.integer()? != 0)),
                word @ ("true" | "false") => {
                    self.pos += word.len();
                    Ok(i64::from(word == "true"))
                }
                _ => self.expected("`true` or `false`"),
            };
        }
        if dtype.is_float() {
            let bits = if self.at_float() {
                let value = self.float()?;
                tensor::encode_float(dtype, value).unwrap_or(0)
            } else {
                self.wide_integer()? as u64
            };
            return Ok(bits as i64);
        }
        let value = self.wide_integer()?;
        fit_integer(dtype, value)
            .map_or_else(|| self.fail_at(start, format!("the integer does not fit in {dtype}")), Ok)
    }

    /// `{name = value, other}`; merged into `attrs`. `def` gives names that need no allocation.
    pub(super) fn attr_dict(&mut self, attrs: &mut Attrs, def: Option<&'static OpDef>) -> Read<()> {
        let mut entries = Vec::new();
        self.list(b'{', b'}', |r| {
            let (name, start) = r.attr_name(def)?;
            let value = if r.eat(b'=') { r.attr()? } else { Attr::Unit };
            entries.push((name, start, value));
            Ok(())
        })?;
        // In name order each insertion is at the end, so that a long dictionary takes no quadratic time.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, start, value) in entries {
            if attrs.get(&name).is_some() {
                return self.fail_at(start, format!("`{name}` is given twice"));
            }
            attrs.set(name, value);
        }
        Ok(())
    }

    /// As [`Reader::attr_dict`], if one starts here.
    pub(super) fn optional_attr_dict(&mut self, attrs: &mut Attrs, def: Option<&'static OpDef>) -> Read<()> {
        if self.peek() == b'{' { self.attr_dict(attrs, def) } else { Ok(()) }
    }

    fn attr_name(&mut self, def: Option<&'static OpDef>) -> Read<(AttrName, usize)> {
        self.skip();
        let start = self.pos;
        if self.here() == b'"' {
            return Ok((Cow::Owned(self.utf8_string()?), start));
        }
        let word = self.word("an attribute name")?;
        let name = match def.and_then(|def| def.attr(word)) {
            Some(attr) => Cow::Borrowed(attr.name),
            None => Cow::Owned(word.to_owned()),
        };
        Ok((name, start))
    }

    /// The text from `start` to here with the aliases in it replaced by what they stand for, so that it can be read
    /// anywhere.
    pub(super) fn foreign_text(&mut self, start: usize) -> Read<Arc<str>> {
        let whole = self.text_since(start)?;
        let end = self.pos;
        if self.aliases.is_empty() {
            return Ok(whole);
        }
        let mut out = String::new();
        let mut copied = start;
        let mut at = start;
        while at < end {
            match self.src[at] {
                b'"' => {
                    self.pos = at;
                    self.raw_string()?;
                    at = self.pos;
                }
                sigil @ (b'#' | b'!') if self.src.get(at + 1).is_some_and(|&b| is_word_start(b)) => {
                    self.pos = at + 1;
                    self.suffix("a name")?;
                    let name = &self.src[at..self.pos];
                    let after = self.pos;
                    if self.aliases.contains_key(name) && self.here() != b'<' {
                        out.push_str(text(&self.src[copied..at]));
                        if sigil == b'#' {
                            let attr = self.attr_alias(name, at)?;
                            write_attr(&mut out, &attr);
                        } else {
                            let ty = self.type_alias(name, at)?;
                            write_type(&mut out, &ty);
                        }
                        copied = after;
                    }
                    at = after;
                }
                _ => at += 1,
            }
        }
        self.pos = end;
        if copied == start {
            return Ok(whole);
        }
        out.push_str(text(&self.src[copied..end]));
        self.expanded_bytes += out.len();
        if self.expanded_bytes > MAX_EXPANSION * self.src.len() + (1 << 20) {
            return self.limit("attributes of other dialects grow too much through aliases");
        }
        Ok(out.into())
    }
}

/// A real attribute rounded to its type, as MLIR rounds it on reading.
pub(super) fn float_attr(value: f64, element: ElementType) -> Attr {
    let rounded = match element {
        ElementType::Plain(dtype) => {
            tensor::encode_float(dtype, value).and_then(|bits| tensor::decode_float(dtype, bits)).unwrap_or(value)
        }
        _ => value,
    };
    Attr::Float(Real::new(rounded), element)
}

/// The value as its type holds it: a signless integer may be written signed or unsigned.
pub(super) fn fit_integer(dtype: DType, value: i128) -> Option<i64> {
    let bits = dtype.bits();
    let top = 1i128 << bits;
    if dtype.is_bool() {
        return (value == 0 || value == 1 || value == -1).then_some(i64::from(value != 0));
    }
    if dtype.is_unsigned_integer() {
        return (0..top).contains(&value).then_some(value as i64);
    }
    if value < -(top / 2) || value >= top {
        return None;
    }
    let wrapped = if value >= top / 2 { value - top } else { value };
    i64::try_from(wrapped).ok()
}
