//! Reading of attributes of the StableHLO and CHLO dialects.

use std::sync::Arc;

use crate::ir::dims::{
    AxisRef, ChannelHandle, ConvDims, DotAlgorithm, DotDims, GatherDims, InlineMesh, OutputOperandAlias, RaggedDotDims,
    ReplicaGroupMeshAxes, ResultAccuracy, ScatterDims,
};
use crate::ir::{Attr, DYNAMIC, Keyword, KeywordSet, Real};
use crate::text::lexer::{Read, Reader, text};

impl<'a> Reader<'a> {
    /// An attribute that starts with `#`: of a dialect, or an alias.
    pub(super) fn hash_attr(&mut self) -> Read<Attr> {
        self.skip();
        let start = self.pos;
        self.pos += 1;
        let name = text(self.suffix("a name after `#`")?);
        if self.here() != b'<' && !name.contains('.') {
            return self.attr_alias(&self.src[start..self.pos], start);
        }
        let attr = match name.split_once('.') {
            Some(("stablehlo" | "chlo" | "mhlo", mnemonic)) => self.structured(mnemonic)?,
            Some(("sdy", mnemonic)) => self.sdy_attr(mnemonic)?,
            None if matches!(name, "stablehlo" | "chlo" | "mhlo") => self.bracketed()?,
            None if name == "sdy" => self.bracketed_sdy()?,
            _ => None,
        };
        if let Some(attr) = attr {
            return Ok(attr);
        }
        self.pos = start + 1 + name.len();
        if self.here() == b'<' {
            self.skip_balanced()?;
        }
        Ok(Attr::Opaque(self.foreign_text(start)?))
    }

    /// `<comparison_direction LT>` after `#stablehlo`, and the older spelling of structured attributes there.
    fn bracketed(&mut self) -> Read<Option<Attr>> {
        self.expect(b'<')?;
        let at = self.pos;
        let mnemonic = self.word("the name of an attribute")?;
        let attr = match keyword_set(mnemonic) {
            Some(set) => {
                let nested = self.eat(b'<');
                let keyword = self.keyword(set)?;
                if nested {
                    self.expect(b'>')?;
                }
                Some(Attr::Keyword(keyword))
            }
            None => self.structured(mnemonic)?,
        };
        if attr.is_none() {
            return self.fail_at(at, format!("`{mnemonic}` is not a StableHLO attribute"));
        }
        self.expect(b'>')?;
        Ok(attr)
    }

    /// One word of an enumeration.
    pub(super) fn keyword(&mut self, set: KeywordSet) -> Read<Keyword> {
        self.skip();
        let at = self.pos;
        let word = self.word("a word")?;
        match set.parse(word) {
            Some(keyword) => Ok(keyword),
            None => {
                let all: Vec<&str> = set.words().iter().map(|k| k.word()).collect();
                self.fail_at(at, format!("`{word}` is not one of {}", all.join(", ")))
            }
        }
    }

    /// The attribute after `#stablehlo.` and its name; `None` if the name is not ours.
    fn structured(&mut self, mnemonic: &str) -> Read<Option<Attr>> {
        if let Some(set) = keyword_set(mnemonic) {
            self.expect(b'<')?;
            let keyword = self.keyword(set)?;
            self.expect(b'>')?;
            return Ok(Some(Attr::Keyword(keyword)));
        }
        Ok(Some(match mnemonic {
            "dot" => Attr::Dot(Arc::new(self.dot_dims()?)),
            "ragged_dot" => Attr::RaggedDot(Arc::new(self.ragged_dot_dims()?)),
            "gather" => Attr::Gather(Arc::new(self.gather_dims()?)),
            "scatter" => Attr::Scatter(Arc::new(self.scatter_dims()?)),
            "conv" => {
                self.expect(b'<')?;
                if self.eat_word("raw") {
                    Attr::Conv(Arc::new(self.raw_conv_dims()?))
                } else {
                    let dims = self.conv_dims()?;
                    self.expect(b'>')?;
                    Attr::Conv(Arc::new(dims))
                }
            }
            "dot_algorithm" => Attr::DotAlgorithm(Arc::new(self.dot_algorithm()?)),
            "channel_handle" => {
                let (mut handle, mut kind) = (0, 0);
                self.fields(|r, name| {
                    match name {
                        "handle" => handle = r.integer()?,
                        "type" => kind = r.integer()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attr::Channel(ChannelHandle { handle, kind })
            }
            "output_operand_alias" => {
                let mut alias = OutputOperandAlias {
                    output_tuple_indices: vec![],
                    operand_index: 0,
                    operand_tuple_indices: vec![],
                };
                self.fields(|r, name| {
                    match name {
                        "output_tuple_indices" => alias.output_tuple_indices = r.integers()?,
                        "operand_index" => alias.operand_index = r.integer()?,
                        "operand_tuple_indices" => alias.operand_tuple_indices = r.integers()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attr::OutputAlias(Arc::new(alias))
            }
            "result_accuracy" => Attr::ResultAccuracy(Arc::new(self.result_accuracy()?)),
            "bounds" => {
                let mut bounds = Vec::new();
                self.list(b'<', b'>', |r| {
                    bounds.push(r.bound()?);
                    Ok(())
                })?;
                Attr::Bounds(bounds.into())
            }
            "type_extensions" => {
                let mut bounds = Vec::new();
                self.fields(|r, name| {
                    if name != "bounds" {
                        return Ok(false);
                    }
                    r.list(b'[', b']', |r| {
                        bounds.push(r.bound()?);
                        Ok(())
                    })?;
                    Ok(true)
                })?;
                Attr::Bounds(bounds.into())
            }
            "replica_group_mesh_axes" => Attr::MeshAxes(Arc::new(self.mesh_axes()?)),
            "mesh" => Attr::Mesh(Arc::new(self.inline_mesh()?)),
            _ => return Ok(None),
        }))
    }

    /// `<name = value, …>` in any order, each at most once.
    fn fields(&mut self, mut field: impl FnMut(&mut Self, &'a str) -> Read<bool>) -> Read<()> {
        let mut seen: Vec<&str> = Vec::new();
        self.list(b'<', b'>', |r| {
            if r.peek() == b'>' && !seen.is_empty() {
                // MLIR accepts a comma behind the last field.
                return Ok(());
            }
            let at = r.pos;
            let name = r.word("the name of a field")?;
            if seen.contains(&name) {
                return r.fail_at(at, format!("`{name}` is given twice"));
            }
            seen.push(name);
            r.expect(b'=')?;
            if !field(r, name)? {
                return r.fail_at(at, format!("`{name}` is not a field of this attribute"));
            }
            Ok(())
        })
    }

    fn bound(&mut self) -> Read<i64> {
        if self.eat(b'?') { Ok(DYNAMIC) } else { self.integer() }
    }

    fn dot_dims(&mut self) -> Read<DotDims> {
        let mut dims = DotDims::default();
        self.fields(|r, name| r.dot_field(&mut dims, name))?;
        Ok(dims)
    }

    fn dot_field(&mut self, dims: &mut DotDims, name: &str) -> Read<bool> {
        let target = match name {
            "lhs_batching_dimensions" => &mut dims.lhs_batching,
            "rhs_batching_dimensions" => &mut dims.rhs_batching,
            "lhs_contracting_dimensions" => &mut dims.lhs_contracting,
            "rhs_contracting_dimensions" => &mut dims.rhs_contracting,
            _ => return Ok(false),
        };
        *target = self.integers()?;
        Ok(true)
    }

    fn ragged_dot_dims(&mut self) -> Read<RaggedDotDims> {
        let mut dims = RaggedDotDims::default();
        self.fields(|r, name| {
            match name {
                "lhs_ragged_dimensions" => dims.lhs_ragged = r.integers()?,
                "rhs_group_dimensions" => dims.rhs_group = r.integers()?,
                _ => return r.dot_field(&mut dims.dot, name),
            }
            Ok(true)
        })?;
        Ok(dims)
    }

    fn gather_dims(&mut self) -> Read<GatherDims> {
        let mut dims = GatherDims::default();
        self.fields(|r, name| {
            match name {
                "offset_dims" => dims.offset_dims = r.integers()?,
                "collapsed_slice_dims" => dims.collapsed_slice_dims = r.integers()?,
                "operand_batching_dims" => dims.operand_batching_dims = r.integers()?,
                "start_indices_batching_dims" => dims.start_indices_batching_dims = r.integers()?,
                "start_index_map" => dims.start_index_map = r.integers()?,
                "index_vector_dim" => dims.index_vector_dim = r.integer()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(dims)
    }

    fn scatter_dims(&mut self) -> Read<ScatterDims> {
        let mut dims = ScatterDims::default();
        self.fields(|r, name| {
            match name {
                "update_window_dims" => dims.update_window_dims = r.integers()?,
                "inserted_window_dims" => dims.inserted_window_dims = r.integers()?,
                "input_batching_dims" => dims.input_batching_dims = r.integers()?,
                "scatter_indices_batching_dims" => dims.scatter_indices_batching_dims = r.integers()?,
                "scatter_dims_to_operand_dims" => dims.scatter_dims_to_operand_dims = r.integers()?,
                "index_vector_dim" => dims.index_vector_dim = r.integer()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(dims)
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
    pub(super) fn conv_dims(&mut self) -> Read<ConvDims> {
        let (input_batch, input_feature, input_spatial) = self.conv_side(b'b', b'f')?;
        self.expect_mark("x")?;
        let (kernel_input_feature, kernel_output_feature, kernel_spatial) = self.conv_side(b'i', b'o')?;
        self.expect_mark("->")?;
        let (output_batch, output_feature, output_spatial) = self.conv_side(b'b', b'f')?;
        Ok(ConvDims {
            input_batch,
            input_feature,
            input_spatial,
            kernel_input_feature,
            kernel_output_feature,
            kernel_spatial,
            output_batch,
            output_feature,
            output_spatial,
        })
    }

    /// One side: the positions of the two named dimensions, and of the spatial ones by their number.
    fn conv_side(&mut self, first: u8, second: u8) -> Read<(i64, i64, Vec<i64>)> {
        self.skip();
        let start = self.pos;
        let (mut named, mut numbered): ([Option<i64>; 2], Vec<(i64, i64)>) = ([None; 2], Vec::new());
        let mut position = 0;
        self.list(b'[', b']', |r| {
            let byte = r.peek();
            if byte == first || byte == second {
                r.pos += 1;
                let slot = &mut named[usize::from(byte == second)];
                if slot.replace(position).is_some() {
                    return r.fail(format!("`{}` is given twice", char::from(byte)));
                }
            } else {
                numbered.push((r.integer()?, position));
            }
            position += 1;
            Ok(())
        })?;
        let [Some(a), Some(b)] = named else {
            let (first, second) = (char::from(first), char::from(second));
            return self.fail_at(start, format!("dimensions `{first}` and `{second}` must both be given"));
        };
        numbered.sort_unstable();
        if numbered.iter().enumerate().any(|(i, &(number, _))| number != i as i64) {
            return self.fail_at(start, "spatial dimensions must be numbered from 0 without gaps");
        }
        Ok((a, b, numbered.into_iter().map(|(_, position)| position).collect()))
    }

    fn raw_conv_dims(&mut self) -> Read<ConvDims> {
        let mut d = ConvDims::default();
        // The opening bracket was taken with the word `raw`.
        while !self.eat(b'>') {
            let at = self.pos;
            let name = self.word("the name of a field")?;
            self.expect(b'=')?;
            match name {
                "input_batch_dimension" => d.input_batch = self.integer()?,
                "input_feature_dimension" => d.input_feature = self.integer()?,
                "input_spatial_dimensions" => d.input_spatial = self.integers()?,
                "kernel_input_feature_dimension" => d.kernel_input_feature = self.integer()?,
                "kernel_output_feature_dimension" => d.kernel_output_feature = self.integer()?,
                "kernel_spatial_dimensions" => d.kernel_spatial = self.integers()?,
                "output_batch_dimension" => d.output_batch = self.integer()?,
                "output_feature_dimension" => d.output_feature = self.integer()?,
                "output_spatial_dimensions" => d.output_spatial = self.integers()?,
                _ => return self.fail_at(at, format!("`{name}` is not a field of this attribute")),
            }
            if !self.eat(b',') {
                self.expect(b'>')?;
                break;
            }
        }
        Ok(d)
    }

    /// `<lhs_precision_type = tf32, …>`.
    pub(super) fn dot_algorithm(&mut self) -> Read<DotAlgorithm> {
        let plain = crate::ir::ElementType::Plain(tensor::DType::F32);
        let mut algorithm = DotAlgorithm {
            lhs_precision_type: plain.clone(),
            rhs_precision_type: plain.clone(),
            accumulation_type: plain,
            lhs_component_count: 1,
            rhs_component_count: 1,
            num_primitive_operations: 1,
            allow_imprecise_accumulation: false,
        };
        self.fields(|r, name| {
            match name {
                "lhs_precision_type" => algorithm.lhs_precision_type = r.known_element_type()?,
                "rhs_precision_type" => algorithm.rhs_precision_type = r.known_element_type()?,
                "accumulation_type" => algorithm.accumulation_type = r.known_element_type()?,
                "lhs_component_count" => algorithm.lhs_component_count = r.integer()?,
                "rhs_component_count" => algorithm.rhs_component_count = r.integer()?,
                "num_primitive_operations" => algorithm.num_primitive_operations = r.integer()?,
                "allow_imprecise_accumulation" => algorithm.allow_imprecise_accumulation = r.boolean()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(algorithm)
    }

    pub(super) fn boolean(&mut self) -> Read<bool> {
        match self.peek_word() {
            word @ ("true" | "false") => {
                self.pos += word.len();
                Ok(word == "true")
            }
            _ => self.expected("`true` or `false`"),
        }
    }

    fn result_accuracy(&mut self) -> Read<ResultAccuracy> {
        let mut accuracy =
            ResultAccuracy { atol: Real::new(0.0), rtol: Real::new(0.0), ulps: 0, mode: Keyword::AccuracyDefault };
        self.fields(|r, name| {
            match name {
                "atol" => accuracy.atol = Real::new(r.float()?),
                "rtol" => accuracy.rtol = Real::new(r.float()?),
                "ulps" => accuracy.ulps = r.integer()?,
                "mode" => {
                    let at = r.pos;
                    match r.attr()? {
                        Attr::Keyword(mode) if mode.set() == KeywordSet::ResultAccuracyMode => accuracy.mode = mode,
                        _ => return r.fail_at(at, "expected a result accuracy mode"),
                    }
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(accuracy)
    }

    fn mesh_axes(&mut self) -> Read<ReplicaGroupMeshAxes> {
        let (mut mesh, mut axes) = (None, Vec::new());
        self.fields(|r, name| {
            match name {
                "mesh" => mesh = Some(r.attr()?),
                "axes" => r.list(b'[', b']', |r| {
                    axes.push(r.stablehlo_axis()?);
                    Ok(())
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        match mesh {
            Some(mesh) => Ok(ReplicaGroupMeshAxes { mesh, axes }),
            None => self.fail("`mesh` is missing"),
        }
    }

    /// `#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>`, with or without its prefix.
    fn stablehlo_axis(&mut self) -> Read<AxisRef> {
        if self.peek() == b'#' {
            self.expect_mark("#stablehlo.axis_ref")?;
        }
        let (mut axis, mut sub_axis) = (None, None);
        self.fields(|r, name| {
            match name {
                "name" => axis = Some(r.utf8_string()?),
                "sub_axis_info" => {
                    r.eat_mark("#stablehlo.sub_axis_info");
                    sub_axis = Some(r.sub_axis()?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        match axis {
            Some(name) => Ok(AxisRef { name, sub_axis }),
            None => self.fail("`name` is missing"),
        }
    }

    /// `(pre_size)size`.
    pub(super) fn sub_axis(&mut self) -> Read<(i64, i64)> {
        self.expect(b'(')?;
        let before = self.integer()?;
        self.expect(b')')?;
        Ok((before, self.integer()?))
    }

    fn inline_mesh(&mut self) -> Read<InlineMesh> {
        let (mut axes, mut device_ids) = (Vec::new(), None);
        self.fields(|r, name| {
            match name {
                "axes" => r.list(b'[', b']', |r| {
                    r.eat_mark("#stablehlo.mesh_axis");
                    let (mut axis, mut size) = (String::new(), 0);
                    r.fields(|r, name| {
                        match name {
                            "name" => axis = r.utf8_string()?,
                            "size" => size = r.integer()?,
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                    axes.push((axis, size));
                    Ok(())
                })?,
                "device_ids" => device_ids = Some(r.attr()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(InlineMesh { axes, device_ids })
    }
}

fn keyword_set(mnemonic: &str) -> Option<KeywordSet> {
    KeywordSet::ALL.iter().copied().find(|set| set.mnemonic() == mnemonic)
}
