//! Types as VHLO and as the builtin dialect encode them.

use tensor::DType;

use super::emitter::Emitter;
use super::tables::{Encoding, Tables};
use crate::bytecode::{assembly, vhlo};
use crate::error::Error;
use crate::ir::{ElementType, Quantized, TensorType, Type};

/// Which dialect's types are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    Vhlo,
    Builtin,
}

impl Tables {
    pub(super) fn ty(&mut self, types: Types, ty: &Type) -> Result<u64, Error> {
        match types {
            Types::Vhlo => self.vhlo_type(ty),
            Types::Builtin => self.builtin_type(ty),
        }
    }

    fn all(&mut self, types: Types, list: &[Type]) -> Result<Vec<u64>, Error> {
        list.iter().map(|ty| self.ty(types, ty)).collect()
    }

    fn vhlo_entry(&mut self, code: u64, rest: impl FnOnce(&mut Emitter)) -> u64 {
        let mut out = Emitter::default();
        out.varint(code);
        rest(&mut out);
        self.type_entry("vhlo", Encoding::Custom, out.finish())
    }

    fn builtin_entry(&mut self, code: u64, rest: impl FnOnce(&mut Emitter)) -> u64 {
        let mut out = Emitter::default();
        out.varint(code);
        rest(&mut out);
        self.type_entry("builtin", Encoding::Custom, out.finish())
    }

    fn text_type(&mut self, dialect: &str, text: &str) -> u64 {
        let mut data = text.as_bytes().to_vec();
        data.push(0);
        self.type_entry(dialect, Encoding::Text, data)
    }

    fn vhlo_type(&mut self, ty: &Type) -> Result<u64, Error> {
        Ok(match ty {
            Type::Element(element) => self.vhlo_element(element)?,
            Type::Tensor(tensor) => {
                let element = self.vhlo_element(&tensor.element)?;
                match &tensor.encoding {
                    None => self.vhlo_entry(20, |out| shape(out, tensor, element)),
                    Some(encoding) => {
                        let encoding = self.vhlo_attr(encoding)?;
                        self.vhlo_entry(21, |out| {
                            out.varint(encoding);
                            shape(out, tensor, element);
                        })
                    }
                }
            }
            Type::Buffer(buffer) => {
                self.need((1, 13, 0));
                let element = self.vhlo_element(&buffer.element)?;
                self.vhlo_entry(41, |out| shape(out, buffer, element))
            }
            Type::Token => self.vhlo_entry(22, |_| ()),
            Type::Tuple(parts) => {
                let parts = self.all(Types::Vhlo, parts)?;
                self.vhlo_entry(23, |out| out.indices(&parts))
            }
            Type::Future(parts) => {
                self.need((1, 15, 0));
                let parts = self.all(Types::Vhlo, parts)?;
                self.vhlo_entry(42, |out| out.indices(&parts))
            }
            Type::Function(function) => {
                let inputs = self.all(Types::Vhlo, &function.inputs)?;
                let outputs = self.all(Types::Vhlo, &function.outputs)?;
                self.vhlo_entry(8, |out| {
                    out.indices(&inputs);
                    out.indices(&outputs);
                })
            }
            Type::None => self.vhlo_entry(33, |_| ()),
            Type::Opaque(text) => self.opaque_type(text),
        })
    }

    fn vhlo_element(&mut self, element: &ElementType) -> Result<u64, Error> {
        Ok(match element {
            ElementType::Plain(dtype) => match dtype.complex_part() {
                Some(part) => {
                    let part = self.vhlo_element(&part.into())?;
                    self.vhlo_entry(1, |out| out.varint(part))
                }
                None => {
                    let known = vhlo::ELEMENTS.iter().find(|(_, known)| known == dtype);
                    let (code, _) =
                        known.ok_or_else(|| Error::Limit { message: format!("`{dtype}` has no VHLO type") })?;
                    self.vhlo_entry(*code, |_| ())
                }
            },
            ElementType::Index => self.vhlo_entry(9, |_| ()),
            ElementType::Tf32 => self.vhlo_entry(34, |_| ()),
            ElementType::Quantized(quantized) => {
                let storage = self.vhlo_element(&signed_storage(quantized.storage).into())?;
                let expressed = self.vhlo_element(&quantized.expressed.into())?;
                match quantized.axis {
                    None => self.vhlo_entry(24, |out| emit_quantized(out, quantized, storage, expressed)),
                    Some(_) => self.vhlo_entry(30, |out| emit_quantized(out, quantized, storage, expressed)),
                }
            }
        })
    }

    fn builtin_type(&mut self, ty: &Type) -> Result<u64, Error> {
        Ok(match ty {
            Type::Element(element) => self.builtin_element(element)?,
            Type::Tensor(tensor) => {
                let element = self.builtin_element(&tensor.element)?;
                match &tensor.encoding {
                    None => self.builtin_entry(13, |out| shape(out, tensor, element)),
                    Some(encoding) => {
                        let encoding = self.builtin_attr(encoding)?;
                        self.builtin_entry(14, |out| {
                            out.varint(encoding);
                            shape(out, tensor, element);
                        })
                    }
                }
            }
            Type::Tuple(parts) => {
                let parts = self.all(Types::Builtin, parts)?;
                self.builtin_entry(15, |out| out.indices(&parts))
            }
            Type::Function(function) => {
                let inputs = self.all(Types::Builtin, &function.inputs)?;
                let outputs = self.all(Types::Builtin, &function.outputs)?;
                self.builtin_entry(2, |out| {
                    out.indices(&inputs);
                    out.indices(&outputs);
                })
            }
            Type::None => self.builtin_entry(12, |_| ()),
            Type::Token => self.type_entry("stablehlo", Encoding::Custom, vec![1]),
            Type::Future(parts) => {
                let parts = self.all(Types::Builtin, parts)?;
                let mut out = Emitter::default();
                out.varint(1);
                out.indices(&parts);
                self.type_entry("stablehlo", Encoding::Custom, out.finish())
            }
            Type::Buffer(_) => self.text_type("builtin", &assembly::print_type(ty)),
            Type::Opaque(text) => self.opaque_type(text),
        })
    }

    fn builtin_element(&mut self, element: &ElementType) -> Result<u64, Error> {
        let dtype = match element {
            ElementType::Plain(dtype) => *dtype,
            ElementType::Index => return Ok(self.builtin_entry(1, |_| ())),
            ElementType::Tf32 => return Ok(self.text_type("builtin", "tf32")),
            ElementType::Quantized(quantized) => {
                let storage = self.builtin_element(&signed_storage(quantized.storage).into())?;
                let expressed = self.builtin_element(&quantized.expressed.into())?;
                let mut out = Emitter::default();
                out.varint(if quantized.axis.is_none() { 4 } else { 5 });
                emit_quantized(&mut out, quantized, storage, expressed);
                return Ok(self.type_entry("quant", Encoding::Custom, out.finish()));
            }
        };
        Ok(match dtype {
            DType::BF16 => self.builtin_entry(3, |_| ()),
            DType::F16 => self.builtin_entry(4, |_| ()),
            DType::F32 => self.builtin_entry(5, |_| ()),
            DType::F64 => self.builtin_entry(6, |_| ()),
            _ if dtype.is_float() => self.text_type("builtin", dtype.name()),
            _ => match dtype.complex_part() {
                Some(part) => {
                    let part = self.builtin_element(&part.into())?;
                    self.builtin_entry(9, |out| out.varint(part))
                }
                None => {
                    let signedness = if dtype.is_unsigned_integer() { 2 } else { 0 };
                    self.builtin_entry(0, |out| out.varint(u64::from(dtype.bits()) << 2 | signedness))
                }
            },
        })
    }

    fn opaque_type(&mut self, text: &str) -> u64 {
        let dialect = assembly::dialect_of(text).unwrap_or("builtin").to_owned();
        self.text_type(&dialect, text)
    }
}

fn shape(out: &mut Emitter, tensor: &TensorType, element: u64) {
    out.signed_list(&tensor.dims);
    out.varint(element);
}

/// The signless storage type; a flag says whether it is read as signed.
fn signed_storage(storage: DType) -> DType {
    match storage {
        DType::U2 => DType::I2,
        DType::U4 => DType::I4,
        DType::U8 => DType::I8,
        DType::U16 => DType::I16,
        DType::U32 => DType::I32,
        other => other,
    }
}

fn emit_quantized(out: &mut Emitter, quantized: &Quantized, storage: u64, expressed: u64) {
    out.varint(u64::from(!quantized.storage.is_unsigned_integer()));
    out.varint(storage);
    out.varint(expressed);
    match quantized.axis {
        None => {
            out.double(quantized.scales.first().map_or(1.0, |scale| scale.get()));
            out.signed(quantized.zero_points.first().copied().unwrap_or(0));
            out.signed(quantized.storage_min);
            out.signed(quantized.storage_max);
        }
        Some(axis) => {
            out.varint(axis as u64);
            out.signed(quantized.storage_min);
            out.signed(quantized.storage_max);
            out.varint(quantized.scales.len() as u64);
            quantized.scales.iter().for_each(|scale| out.double(scale.get()));
            out.signed_list(&quantized.zero_points);
        }
    }
}
