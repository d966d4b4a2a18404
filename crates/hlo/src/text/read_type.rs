//! Reading of types.

use std::sync::Arc;

use tensor::DType;

use crate::ir::{DYNAMIC, ElementType, FunctionType, Quantized, Real, TensorType, Type};
use crate::text::lexer::{Read, Reader};

/// A list of element types and dimensions inside `tensor<…>`, or that it holds something we carry as text.
enum Shaped {
    Known(TensorType),
    Foreign,
}

impl<'a> Reader<'a> {
    /// Any type, function types included.
    pub(super) fn ty(&mut self) -> Read<Type> {
        match self.peek() {
            b't' | b'm' => {
                if let Some(known) = self.known_tensor_type() {
                    return Ok(known);
                }
            }
            b'(' => {
                let function = self.function_type()?;
                return Ok(Type::Function(Arc::new(function)));
            }
            _ => {}
        }
        self.enter()?;
        let ty = self.new_type()?;
        self.depth -= 1;
        Ok(ty)
    }

    /// The tensor type that starts here, if the same text was read before.
    #[inline]
    fn known_tensor_type(&mut self) -> Option<Type> {
        let end = self.tensor_text_end()?;
        let known = self.types.get(&self.src[self.pos..end])?.clone();
        self.pos = end;
        Some(known)
    }

    /// End of `tensor<…>` that starts here and holds no string.
    fn tensor_text_end(&self) -> Option<usize> {
        let rest = &self.src[self.pos..];
        if !rest.starts_with(b"tensor<") {
            return None;
        }
        let mut open = 1u32;
        for (i, &b) in rest.iter().enumerate().skip(7) {
            match b {
                b'<' => open += 1,
                b'>' if open == 1 => return Some(self.pos + i + 1),
                b'>' => open -= 1,
                b'"' | b'-' | b'/' => return None,
                _ => {}
            }
        }
        None
    }

    fn new_type(&mut self) -> Read<Type> {
        let start = self.pos;
        if self.peek() == b'!' {
            return self.dialect_type();
        }
        let word = self.word("a type")?;
        match word {
            "tensor" | "memref" => {
                self.pos = start;
                let key_end = if word == "tensor" { self.tensor_text_end() } else { None };
                self.pos = start + word.len();
                let ty = match self.shaped()? {
                    Shaped::Foreign => {
                        self.pos = start + word.len();
                        self.skip_balanced()?;
                        return Ok(Type::Opaque(self.foreign_text(start)?));
                    }
                    Shaped::Known(tensor) if word == "memref" => return Ok(Type::Buffer(Arc::new(tensor))),
                    Shaped::Known(tensor) => Type::Tensor(Arc::new(tensor)),
                };
                if key_end == Some(self.pos) {
                    self.types.insert(&self.src[start..self.pos], ty.clone());
                }
                Ok(ty)
            }
            "tuple" => {
                let mut parts = Vec::new();
                self.list(b'<', b'>', |r| {
                    parts.push(r.ty()?);
                    Ok(())
                })?;
                Ok(Type::Tuple(parts.into()))
            }
            "none" => Ok(Type::None),
            "vector" => {
                self.skip_balanced()?;
                Ok(Type::Opaque(self.foreign_text(start)?))
            }
            _ => {
                self.pos = start;
                match self.element_type()? {
                    Some(element) => Ok(Type::Element(element)),
                    None => Ok(Type::Opaque(self.foreign_text(start)?)),
                }
            }
        }
    }

    /// An element type; `None` (and moved past it) if it is one we carry only as text.
    fn element_type(&mut self) -> Read<Option<ElementType>> {
        self.skip();
        let start = self.pos;
        if self.here() == b'!' {
            return match self.ty()? {
                Type::Element(element) => Ok(Some(element)),
                Type::Opaque(_) => Ok(None),
                _ => self.fail_at(start, "this type cannot be an element"),
            };
        }
        let word = self.word("an element type")?;
        if word == "complex" {
            self.expect(b'<')?;
            let part_at = self.pos;
            let part = self.element_type()?;
            self.expect(b'>')?;
            return Ok(match part {
                Some(ElementType::Plain(DType::F32)) => Some(DType::C64.into()),
                Some(ElementType::Plain(DType::F64)) => Some(DType::C128.into()),
                Some(ElementType::Plain(_)) | None => None,
                _ => return self.fail_at(part_at, "this type cannot be a part of a complex number"),
            });
        }
        Ok(Some(match word {
            "index" => ElementType::Index,
            "tf32" => ElementType::Tf32,
            _ => match DType::from_name(word) {
                Some(dtype) => dtype.into(),
                None if is_foreign_number(word) => return Ok(None),
                None => return self.fail_at(start, format!("`{word}` is not a type")),
            },
        }))
    }

    /// `<4x?xf32, encoding>` after `tensor` or `memref`.
    fn shaped(&mut self) -> Read<Shaped> {
        self.expect(b'<')?;
        let mut dims = Vec::new();
        loop {
            match self.peek() {
                b'?' => {
                    self.pos += 1;
                    dims.push(DYNAMIC);
                }
                b'*' => return Ok(Shaped::Foreign),
                b'0'..=b'9' => {
                    let start = self.pos;
                    let mut value: i64 = 0;
                    // `0x` inside a shape is a zero dimension and the separator, never a hexadecimal number.
                    while let b @ b'0'..=b'9' = self.here() {
                        let next = value.checked_mul(10).and_then(|v| v.checked_add(i64::from(b - b'0')));
                        let Some(next) = next else {
                            return self.fail_at(start, "the dimension does not fit in 64 bits");
                        };
                        value = next;
                        self.pos += 1;
                    }
                    dims.push(value);
                }
                _ => break,
            }
            if self.here() != b'x' {
                return self.expected("`x` after a dimension");
            }
            self.pos += 1;
        }
        let Some(element) = self.element_type()? else { return Ok(Shaped::Foreign) };
        let mut encoding = None;
        if self.eat(b',') {
            let attr = self.attr()?;
            encoding = Some(attr);
            if self.peek() == b',' {
                return Ok(Shaped::Foreign);
            }
        }
        self.expect(b'>')?;
        Ok(Shaped::Known(TensorType { dims, element, encoding }))
    }

    fn dialect_type(&mut self) -> Read<Type> {
        self.skip();
        let start = self.pos;
        self.pos += 1;
        let name = self.suffix("a type name after `!`")?;
        match name {
            b"stablehlo.token" => return Ok(Type::Token),
            b"stablehlo.future" => {
                let mut parts = Vec::new();
                self.list(b'<', b'>', |r| {
                    parts.push(r.ty()?);
                    Ok(())
                })?;
                return Ok(Type::Future(parts.into()));
            }
            b"quant.uniform" => {
                let body = self.pos;
                if let Some(quantized) = self.quantized()? {
                    return Ok(Type::Element(ElementType::Quantized(Arc::new(quantized))));
                }
                self.pos = body;
            }
            _ => {}
        }
        if !name.contains(&b'.') && self.here() != b'<' {
            return self.type_alias(&self.src[start..self.pos], start);
        }
        if self.here() == b'<' {
            self.skip_balanced()?;
        }
        Ok(Type::Opaque(self.foreign_text(start)?))
    }

    /// `<i8<-127:127>:f32:0, {0.1:5, 0.2}>`; `None` for sub-channel scales, which are carried as text.
    fn quantized(&mut self) -> Read<Option<Quantized>> {
        self.expect(b'<')?;
        let storage_at = self.pos;
        let word = self.word("a storage type")?;
        let storage = match word.strip_prefix('u') {
            Some(unsigned) => DType::from_name(&format!("ui{}", unsigned.trim_start_matches('i'))),
            None => DType::from_name(word),
        };
        let Some(storage) = storage.filter(|d| d.is_integer()) else {
            return match word.starts_with('f') {
                true => Ok(None),
                false => self.fail_at(storage_at, format!("`{word}` cannot store quantized values")),
            };
        };
        let (mut storage_min, mut storage_max) = Quantized::storage_range(storage);
        if self.eat(b'<') {
            storage_min = self.integer()?;
            self.expect(b':')?;
            storage_max = self.integer()?;
            self.expect(b'>')?;
        }
        self.expect(b':')?;
        let expressed_at = self.pos;
        let expressed = match self.element_type()? {
            Some(ElementType::Plain(dtype)) if dtype.is_float() => dtype,
            _ => return self.fail_at(expressed_at, "quantized values must stand for a floating-point type"),
        };
        let mut axis = None;
        if self.eat(b':') {
            if self.peek() == b'{' {
                return Ok(None);
            }
            axis = Some(self.integer()?);
        }
        self.expect(b',')?;
        let (mut scales, mut zero_points) = (Vec::new(), Vec::new());
        let mut pair = |r: &mut Self| {
            scales.push(Real::new(r.float()?));
            zero_points.push(if r.eat(b':') { r.integer()? } else { 0 });
            Ok(())
        };
        match axis {
            Some(_) => self.list(b'{', b'}', &mut pair)?,
            None => pair(self)?,
        }
        self.expect(b'>')?;
        Ok(Some(Quantized { storage, expressed, storage_min, storage_max, axis, scales, zero_points }))
    }

    /// `(a, b) -> c` or `(a) -> (b, c)`.
    pub(super) fn function_type(&mut self) -> Read<FunctionType> {
        self.enter()?;
        self.type_starts.clear();
        let inputs = self.types_in_parens()?;
        let starts = std::mem::take(&mut self.type_starts);
        self.expect_mark("->")?;
        let outputs = self.result_types()?;
        self.type_starts = starts;
        self.depth -= 1;
        Ok(FunctionType { inputs, outputs })
    }

    /// A type, or types in parentheses.
    pub(super) fn result_types(&mut self) -> Read<Vec<Type>> {
        if self.peek() != b'(' {
            return Ok(vec![self.ty()?]);
        }
        let start = self.pos;
        let types = self.types_in_parens()?;
        if self.peek() == b'-' && self.src.get(self.pos + 1) == Some(&b'>') {
            // One result that is itself a function type.
            self.pos = start;
            return Ok(vec![self.ty()?]);
        }
        Ok(types)
    }

    pub(super) fn types_in_parens(&mut self) -> Read<Vec<Type>> {
        let mut types = Vec::new();
        self.list(b'(', b')', |r| {
            r.skip();
            let start = r.pos;
            types.push(r.ty()?);
            r.type_starts.push(start);
            Ok(())
        })?;
        Ok(types)
    }

    /// `a, b, c`, at least one.
    pub(super) fn type_list(&mut self) -> Read<Vec<Type>> {
        let mut types = Vec::new();
        let mut starts = Vec::new();
        loop {
            self.skip();
            starts.push(self.pos);
            types.push(self.ty()?);
            if !self.eat(b',') {
                self.type_starts = starts;
                return Ok(types);
            }
        }
    }

    /// Whether a word begins a type that can stand where an attribute is expected.
    pub(super) fn starts_type(word: &str) -> bool {
        matches!(word, "tensor" | "memref" | "tuple" | "none" | "vector" | "index" | "complex" | "tf32")
            || DType::from_name(word).is_some()
            || is_foreign_number(word)
    }

    /// An element type that must be one of ours.
    pub(super) fn known_element_type(&mut self) -> Read<ElementType> {
        self.skip();
        let at = self.pos;
        self.element_type()?.map_or_else(|| self.fail_at(at, "expected an element type"), Ok)
    }
}

/// Number types of MLIR that StableHLO has no element type for.
fn is_foreign_number(word: &str) -> bool {
    let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    ["i", "si", "ui"].iter().any(|prefix| word.strip_prefix(prefix).is_some_and(digits))
        || matches!(word, "f80" | "f128")
}
