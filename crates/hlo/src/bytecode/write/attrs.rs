//! Attributes and locations as VHLO, Shardy and the builtin dialect encode them.

use tensor::{DType, encode_float};

use super::emitter::Emitter;
use super::tables::{Encoding, Tables};
use super::types::Types;
use crate::bytecode::vhlo::{self, code};
use crate::bytecode::{assembly, constant};
use crate::error::Error;
use crate::ir::dims::AxisRef;
use crate::ir::{Attr, Attrs, Dense, DenseData, ElementType, Keyword, KeywordSet, Loc, Location, TensorType, Type};

impl Tables {
    fn vhlo(&mut self, code: u64, rest: impl FnOnce(&mut Emitter)) -> u64 {
        let mut out = Emitter::default();
        out.varint(code);
        rest(&mut out);
        self.attr_entry("vhlo", Encoding::Custom, out.finish())
    }

    fn builtin(&mut self, code: u64, rest: impl FnOnce(&mut Emitter)) -> u64 {
        let mut out = Emitter::default();
        out.varint(code);
        rest(&mut out);
        self.attr_entry("builtin", Encoding::Custom, out.finish())
    }

    fn text_attr(&mut self, text: &str) -> u64 {
        let dialect = assembly::dialect_of(text).unwrap_or("builtin").to_owned();
        let mut data = text.as_bytes().to_vec();
        data.push(0);
        self.attr_entry(&dialect, Encoding::Text, data)
    }

    /// A string as VHLO encodes it.
    pub(super) fn vhlo_string(&mut self, text: impl AsRef<[u8]>) -> u64 {
        let text = self.string(text);
        self.vhlo(code::STRING, |out| out.varint(text))
    }

    /// A list of VHLO attributes.
    pub(super) fn vhlo_array(&mut self, values: &[u64]) -> u64 {
        self.vhlo(code::ARRAY, |out| out.indices(values))
    }

    /// The version of the custom-call interface.
    pub(super) fn api_version(&mut self, version: i64) -> u64 {
        self.vhlo(code::API_VERSION, |out| out.varint(version as u64))
    }

    /// An attribute of an op of the language.
    pub(super) fn vhlo_attr(&mut self, attr: &Attr) -> Result<u64, Error> {
        Ok(match attr {
            Attr::Bool(value) => self.vhlo(code::BOOLEAN, |out| out.varint(u64::from(*value))),
            Attr::Int(value, element) => {
                let ty = self.ty(Types::Vhlo, &Type::Element(element.clone()))?;
                let (bits, value) = integer_bits(*value, element)?;
                self.vhlo(code::INTEGER, |out| {
                    out.varint(ty);
                    out.known_width(bits, value);
                })
            }
            Attr::Float(value, element) => {
                let ty = self.ty(Types::Vhlo, &Type::Element(element.clone()))?;
                let (bits, value) = float_bits(value.get(), element)?;
                self.vhlo(code::FLOAT, |out| {
                    out.varint(ty);
                    out.known_width(bits, value);
                })
            }
            Attr::Str(text) => self.vhlo_string(text.as_bytes()),
            Attr::Symbol(name) => self.vhlo_string(name.as_bytes()),
            Attr::Array(values) => {
                let values = values.iter().map(|value| self.vhlo_attr(value)).collect::<Result<Vec<_>, _>>()?;
                self.vhlo_array(&values)
            }
            Attr::Dict(attrs) => self.vhlo_dict(attrs)?,
            Attr::Type(ty) => {
                let ty = self.ty(Types::Vhlo, ty)?;
                self.vhlo(code::TYPE, |out| out.varint(ty))
            }
            Attr::Dense(dense) => match constant::stored_bytes(dense) {
                Some(bytes) => {
                    let ty = self.ty(Types::Vhlo, &Type::from(dense.ty.clone()))?;
                    self.vhlo(code::TENSOR, |out| {
                        out.varint(ty);
                        out.blob(&bytes);
                    })
                }
                None => self.builtin_attr(attr)?,
            },
            Attr::DenseArray(DType::I64 | DType::Bool, _) => match list(attr) {
                Some(dense) => self.vhlo_attr(&dense)?,
                None => return Err(unwritable("a list that is too long")),
            },
            Attr::Keyword(keyword) => {
                let codes = code::COMPARISON_DIRECTION..=code::RESULT_ACCURACY_MODE;
                let code = codes.into_iter().find(|&code| vhlo::keyword_set(code) == Some(keyword.set()));
                let code = code.ok_or_else(|| unwritable("a keyword that VHLO does not have"))?;
                self.vhlo(code, |out| out.varint(u64::from(keyword.value())))
            }
            Attr::OutputAlias(alias) => self.vhlo(code::OUTPUT_OPERAND_ALIAS, |out| {
                out.signed_list(&alias.output_tuple_indices);
                out.signed(alias.operand_index);
                out.signed_list(&alias.operand_tuple_indices);
            }),
            Attr::ResultAccuracy(accuracy) => {
                self.vhlo_accuracy(accuracy.atol.get(), accuracy.rtol.get(), accuracy.ulps, accuracy.mode)?
            }
            Attr::Bounds(bounds) => self.vhlo(code::TYPE_EXTENSIONS, |out| out.signed_list(bounds)),
            Attr::MeshAxes(groups) => {
                self.need((1, 16, 0));
                let mesh = self.vhlo_attr(&groups.mesh)?;
                let axes: Vec<u64> = groups.axes.iter().map(|axis| self.vhlo_axis(axis)).collect();
                let axes = self.vhlo_array(&axes);
                self.vhlo(code::REPLICA_GROUP_MESH_AXES, |out| {
                    out.varint(mesh);
                    out.varint(axes);
                })
            }
            Attr::Mesh(mesh) => {
                self.need((1, 16, 0));
                let mut axes = Vec::with_capacity(mesh.axes.len());
                for (name, size) in &mesh.axes {
                    let name = self.vhlo_string(name);
                    axes.push(self.vhlo(code::MESH_AXIS, |out| {
                        out.varint(name);
                        out.signed(*size);
                    }));
                }
                let axes = self.vhlo_array(&axes);
                let device_ids = mesh.device_ids.as_ref().map(|ids| self.vhlo_attr(ids)).transpose()?;
                self.vhlo(code::MESH, |out| {
                    out.varint(axes);
                    out.optional(device_ids);
                })
            }
            _ => self.builtin_attr(attr)?,
        })
    }

    pub(super) fn vhlo_dict(&mut self, attrs: &Attrs) -> Result<u64, Error> {
        let mut pairs = Vec::with_capacity(attrs.len());
        for (name, value) in attrs.iter() {
            pairs.push((self.vhlo_string(name), self.vhlo_attr(value)?));
        }
        Ok(self.vhlo(code::DICTIONARY, |out| emit_pairs(out, &pairs)))
    }

    pub(super) fn vhlo_accuracy(&mut self, atol: f64, rtol: f64, ulps: i64, mode: Keyword) -> Result<u64, Error> {
        let mode = self.vhlo_attr(&Attr::Keyword(mode))?;
        Ok(self.vhlo(code::RESULT_ACCURACY, |out| {
            out.double(atol);
            out.double(rtol);
            out.signed(ulps);
            out.varint(mode);
        }))
    }

    fn vhlo_axis(&mut self, axis: &AxisRef) -> u64 {
        let name = self.vhlo_string(&axis.name);
        let sub_axis = axis.sub_axis.map(|(pre_size, size)| {
            self.vhlo(code::SUB_AXIS_INFO, |out| {
                out.signed(pre_size);
                out.signed(size);
            })
        });
        self.vhlo(code::AXIS_REF, |out| {
            out.varint(name);
            out.varint(u64::from(sub_axis.is_some()));
            sub_axis.into_iter().for_each(|index| out.varint(index));
        })
    }

    /// A string as the builtin dialect encodes it.
    pub(super) fn builtin_string(&mut self, text: impl AsRef<[u8]>) -> u64 {
        let text = self.string(text);
        self.builtin(2, |out| out.varint(text))
    }

    /// A dictionary of the builtin dialect whose values are encoded by `value`.
    pub(super) fn dict<'v>(
        &mut self,
        attrs: impl Iterator<Item = (&'v str, &'v Attr)>,
        value: fn(&mut Tables, &Attr) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let mut pairs = Vec::new();
        for (name, attr) in attrs {
            pairs.push((self.builtin_string(name), value(self, attr)?));
        }
        Ok(self.builtin(1, |out| emit_pairs(out, &pairs)))
    }

    /// An attribute outside ops of the language.
    pub(super) fn builtin_attr(&mut self, attr: &Attr) -> Result<u64, Error> {
        Ok(match attr {
            Attr::Unit => self.builtin(7, |_| ()),
            Attr::Bool(value) => self.builtin_integer(i64::from(*value), &DType::Bool.into())?,
            Attr::Int(value, element) => self.builtin_integer(*value, element)?,
            Attr::Float(value, element) => {
                let ty = self.ty(Types::Builtin, &Type::Element(element.clone()))?;
                let (bits, value) = float_bits(value.get(), element)?;
                self.builtin(9, |out| {
                    out.varint(ty);
                    out.known_width(bits, value);
                })
            }
            Attr::Str(text) => self.builtin_string(text.as_bytes()),
            Attr::Symbol(name) => self.symbol(name),
            Attr::Array(values) => {
                let values = values.iter().map(|value| self.builtin_attr(value)).collect::<Result<Vec<_>, _>>()?;
                self.builtin(0, |out| out.indices(&values))
            }
            Attr::Dict(attrs) => self.dict(attrs.iter(), Tables::builtin_attr)?,
            Attr::Type(ty) => {
                let ty = self.ty(Types::Builtin, ty)?;
                self.builtin(6, |out| out.varint(ty))
            }
            Attr::Dense(dense) => self.builtin_dense(dense)?,
            Attr::DenseArray(dtype, values) => {
                let ty = self.ty(Types::Builtin, &Type::Element((*dtype).into()))?;
                let width = dtype.size_bytes().min(8);
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect();
                self.builtin(17, |out| {
                    out.varint(ty);
                    out.varint(values.len() as u64);
                    out.blob(&bytes);
                })
            }
            Attr::Sdy(sdy) => self.sdy_attr(sdy),
            Attr::Loc(loc) => self.loc(loc)?,
            Attr::Opaque(text) => self.text_attr(text),
            Attr::Bounds(bounds) => {
                let mut out = Emitter::default();
                out.varint(13);
                out.signed_list(bounds);
                self.attr_entry("stablehlo", Encoding::Custom, out.finish())
            }
            _ => self.text_attr(&assembly::print_attr(attr)),
        })
    }

    /// An attribute of an op of CHLO, which has enumerations of its own.
    pub(super) fn chlo_attr(&mut self, attr: &Attr) -> Result<u64, Error> {
        if let Attr::Array(values) = attr {
            let values = values.iter().map(|value| self.chlo_attr(value)).collect::<Result<Vec<_>, _>>()?;
            return Ok(self.builtin(0, |out| out.indices(&values)));
        }
        let Attr::Keyword(keyword) = attr else { return self.builtin_attr(attr) };
        let code = match keyword.set() {
            KeywordSet::ComparisonDirection => 0,
            KeywordSet::ComparisonType => 1,
            set => return Ok(self.text_attr(&format!("#chlo<{} {}>", set.mnemonic(), keyword.word()))),
        };
        let mut out = Emitter::default();
        out.varint(code);
        out.varint(u64::from(keyword.value()));
        Ok(self.attr_entry("chlo", Encoding::Custom, out.finish()))
    }

    pub(super) fn symbol(&mut self, path: &str) -> u64 {
        let mut names = path.split("::@");
        let root = names.next().unwrap_or_default();
        let root = self.builtin_string(root);
        let nested: Vec<u64> = names.map(|name| self.symbol(name)).collect();
        match nested.as_slice() {
            [] => self.builtin(4, |out| out.varint(root)),
            nested => self.builtin(5, |out| {
                out.varint(root);
                out.indices(nested);
            }),
        }
    }

    fn builtin_integer(&mut self, value: i64, element: &ElementType) -> Result<u64, Error> {
        let ty = self.ty(Types::Builtin, &Type::Element(element.clone()))?;
        let (bits, value) = integer_bits(value, element)?;
        Ok(self.builtin(8, |out| {
            out.varint(ty);
            out.known_width(bits, value);
        }))
    }

    fn builtin_dense(&mut self, dense: &Dense) -> Result<u64, Error> {
        let ty = self.ty(Types::Builtin, &Type::from(dense.ty.clone()))?;
        if let DenseData::Strings(strings) = &dense.data {
            let is_splat = strings.len() == 1 && dense.ty.num_elements() != Some(1);
            let strings: Vec<u64> = strings.iter().map(|text| self.string(text.as_bytes())).collect();
            return Ok(self.builtin(19, |out| {
                out.varint(ty);
                out.varint(u64::from(is_splat));
                strings.iter().for_each(|&text| out.varint(text));
            }));
        }
        let bytes = constant::stored_bytes(dense).ok_or_else(|| unwritable("a constant of this kind"))?;
        Ok(self.builtin(18, |out| {
            out.varint(ty);
            out.blob(&bytes);
        }))
    }

    /// A location.
    pub(super) fn loc(&mut self, loc: &Loc) -> Result<u64, Error> {
        let Some(location) = loc else { return Ok(self.builtin(15, |_| ())) };
        Ok(match &**location {
            Location::File { file, line, column, end } => {
                let file = self.builtin_string(file.as_bytes());
                let (line, column) = (u64::from(*line), u64::from(*column));
                match end {
                    None => self.builtin(11, |out| {
                        out.varint(file);
                        out.varint(line);
                        out.varint(column);
                    }),
                    Some((end_line, end_column)) => self.builtin(22, |out| {
                        out.varint(file);
                        out.indices(&[line, column, u64::from(*end_line), u64::from(*end_column)]);
                    }),
                }
            }
            Location::Name(name, child) => {
                let (name, child) = (self.builtin_string(name.as_bytes()), self.loc(child)?);
                self.builtin(14, |out| {
                    out.varint(name);
                    out.varint(child);
                })
            }
            Location::CallSite { callee, caller } => {
                let (callee, caller) = (self.loc(callee)?, self.loc(caller)?);
                self.builtin(10, |out| {
                    out.varint(callee);
                    out.varint(caller);
                })
            }
            Location::Fused(parts, metadata) => {
                let parts = parts.iter().map(|part| self.loc(part)).collect::<Result<Vec<_>, _>>()?;
                match metadata {
                    None => self.builtin(12, |out| out.indices(&parts)),
                    Some(text) => {
                        let metadata = self.builtin_attr(&assembly::parse_attr(text)?)?;
                        self.builtin(13, |out| {
                            out.indices(&parts);
                            out.varint(metadata);
                        })
                    }
                }
            }
        })
    }
}

pub(super) fn unwritable(message: impl Into<String>) -> Error {
    Error::Unwritable { message: message.into() }
}

/// A list attribute as the rank-1 constant VHLO stores.
fn list(attr: &Attr) -> Option<Attr> {
    let Attr::DenseArray(dtype, values) = attr else { return None };
    let width = dtype.size_bytes();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect();
    let ty = TensorType::new([i64::try_from(values.len()).ok()?], *dtype);
    Dense::from_elements(ty, bytes).map(|dense| Attr::Dense(dense.into()))
}

/// Width and bits of an integer.
fn integer_bits(value: i64, element: &ElementType) -> Result<(u32, u64), Error> {
    let bits = match element {
        ElementType::Index => 64,
        ElementType::Plain(dtype) if dtype.is_integer() || dtype.is_bool() => dtype.bits(),
        other => return Err(unwritable(format!("an integer of type {other:?}"))),
    };
    Ok((bits, value as u64 & u64::MAX >> (64 - bits)))
}

/// Width and bits of a real number.
fn float_bits(value: f64, element: &ElementType) -> Result<(u32, u64), Error> {
    let dtype = element.plain().filter(|dtype| dtype.is_float());
    let encoded = dtype.and_then(|dtype| Some((dtype.bits(), encode_float(dtype, value)?)));
    encoded.ok_or_else(|| unwritable(format!("a real number of type {element:?}")))
}

fn emit_pairs(out: &mut Emitter, pairs: &[(u64, u64)]) {
    out.varint(pairs.len() as u64);
    for (name, value) in pairs {
        out.varint(*name);
        out.varint(*value);
    }
}
