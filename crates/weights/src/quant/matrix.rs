//! One quantized matrix, the same form whatever file format it came from.

use std::ops::Range;

use tensor::{DType, Literal, decode_float, encode_float};

use crate::error::Error;
use crate::quant::microscaling::power_of_two;
use crate::quant::refusal::Refusal;

/// What scales and minima stay below, so that no element is infinite.
const MAX_SCALE: f32 = 1e18;

/// Outputs and inputs that share one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleBlock {
    /// Rows of the matrix: outputs.
    pub out_features: usize,
    /// Columns of the matrix: inputs.
    pub in_features: usize,
}

/// What scales are in files, where they are narrower than floats of 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ScaleEncoding {
    /// Floats of the dense type.
    #[default]
    Floats,
    /// Powers of two, an exponent of 8 bits each, as the mx formats have them.
    PowersOfTwo,
    /// `f8E4M3FN` divided by a scale of the whole matrix, as nvfp4 has them.
    Fp8Over(f32),
}

/// How a matrix is quantized: what its form on a device depends on, without its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSpec {
    /// Type of the codes: signed or unsigned integers of 2, 4 or 8 bits, or a small float.
    pub dtype: DType,
    /// Bits a code has in the file; 3 bits are kept as `i4`, 5 to 7 bits as `i8`.
    pub bits: u32,
    /// Outputs and inputs that share a scale.
    pub block: ScaleBlock,
    /// Whether codes are indices into a table of 16 levels (nf4, fp4).
    pub has_levels: bool,
    /// Whether every scale has a zero point.
    pub has_zero_points: bool,
    /// Whether every scale has a minimum, which is subtracted.
    pub has_minima: bool,
    /// Whether the group of an input is not told by its position (act-order).
    pub has_input_groups: bool,
    /// The float type that the format's own tool dequantizes to.
    pub dense: DType,
}

/// A matrix `[out_features, in_features]` of codes with scales.
///
/// An element is `(value - zero point) * scale - minimum`, where the value is the code itself or its level. Integers are
/// kept one a byte (as literals keep them), signed with zero points around 0 but for formats with minima.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedMatrix {
    pub(crate) out_features: usize,
    pub(crate) in_features: usize,
    pub(crate) dtype: DType,
    pub(crate) bits: u32,
    /// Row by row, one byte each, signed integers with their sign extended.
    pub(crate) codes: Vec<u8>,
    pub(crate) levels: Option<[f32; 16]>,
    pub(crate) block: ScaleBlock,
    /// By blocks of outputs, then by blocks of inputs.
    pub(crate) scales: Vec<f32>,
    pub(crate) zero_points: Option<Vec<i8>>,
    pub(crate) minima: Option<Vec<f32>>,
    /// Number of the block of each input.
    pub(crate) input_groups: Option<Vec<u32>>,
    pub(crate) input_scale: Option<f32>,
    pub(crate) scale_encoding: ScaleEncoding,
    pub(crate) dense: DType,
}

impl PackedMatrix {
    /// A matrix of codes, one byte each, with a scale for every block; what else it has is added by `with_…`.
    pub fn new(
        out_features: usize,
        in_features: usize,
        dtype: DType,
        codes: Vec<u8>,
        block: ScaleBlock,
        scales: Vec<f32>,
    ) -> Result<PackedMatrix, Error> {
        let bits = dtype.bits();
        let bare = PackedMatrix::bare(out_features, in_features, dtype, bits, codes, block, scales);
        bare.checked().map_err(Refusal::of_matrix)
    }

    /// Not yet checked.
    pub(crate) fn bare(
        out_features: usize,
        in_features: usize,
        dtype: DType,
        bits: u32,
        codes: Vec<u8>,
        block: ScaleBlock,
        scales: Vec<f32>,
    ) -> PackedMatrix {
        PackedMatrix {
            out_features,
            in_features,
            dtype,
            bits,
            codes,
            levels: None,
            block,
            scales,
            zero_points: None,
            minima: None,
            input_groups: None,
            input_scale: None,
            scale_encoding: ScaleEncoding::Floats,
            dense: DType::F32,
        }
    }

    /// With a zero point for every scale.
    pub fn with_zero_points(self, zero_points: Vec<i8>) -> Result<PackedMatrix, Error> {
        PackedMatrix { zero_points: Some(zero_points), ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With a minimum for every scale.
    pub fn with_minima(self, minima: Vec<f32>) -> Result<PackedMatrix, Error> {
        PackedMatrix { minima: Some(minima), ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With the number of the block of each input.
    pub fn with_input_groups(self, groups: Vec<u32>) -> Result<PackedMatrix, Error> {
        PackedMatrix { input_groups: Some(groups), ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With a table that codes are indices into.
    pub fn with_levels(self, levels: [f32; 16]) -> Result<PackedMatrix, Error> {
        PackedMatrix { levels: Some(levels), ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With codes of fewer bits than their type has.
    pub fn with_bits(self, bits: u32) -> Result<PackedMatrix, Error> {
        PackedMatrix { bits, ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With the scale of inputs that are quantized with it, whatever they are (static activations).
    pub fn with_input_scale(self, scale: f32) -> Result<PackedMatrix, Error> {
        PackedMatrix { input_scale: Some(scale), ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With scales that are numbers of an encoding.
    pub fn with_scale_encoding(self, scale_encoding: ScaleEncoding) -> Result<PackedMatrix, Error> {
        PackedMatrix { scale_encoding, ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// With the float type that scales and dense weights have in files.
    pub fn with_dense(self, dense: DType) -> Result<PackedMatrix, Error> {
        PackedMatrix { dense, ..self }.checked().map_err(Refusal::of_matrix)
    }

    /// Outputs: rows.
    pub fn out_features(&self) -> usize {
        self.out_features
    }

    /// Inputs: columns.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// How it is quantized.
    pub fn spec(&self) -> PackedSpec {
        PackedSpec {
            dtype: self.dtype,
            bits: self.bits,
            block: self.block,
            has_levels: self.levels.is_some(),
            has_zero_points: self.zero_points.is_some(),
            has_minima: self.minima.is_some(),
            has_input_groups: self.input_groups.is_some(),
            dense: self.dense,
        }
    }

    /// The codes row by row, one byte each, signed integers with their sign extended.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// The codes as a tensor `[in_features, out_features]`, as devices multiply with them.
    pub fn codes_by_input(&self) -> Result<Literal, Error> {
        let (rows, columns) = (self.out_features, self.in_features);
        let mut turned = vec![0; self.codes.len()];
        // In tiles that stay in the cache.
        const TILE: usize = 64;
        for first_row in (0..rows).step_by(TILE) {
            for first_column in (0..columns).step_by(TILE) {
                for row in first_row..(first_row + TILE).min(rows) {
                    for column in first_column..(first_column + TILE).min(columns) {
                        turned[column * rows + row] = self.codes[row * columns + column];
                    }
                }
            }
        }
        let literal = Literal::new(self.dtype, [columns, rows], turned);
        literal.ok_or_else(|| Refusal::damaged("it has another number of codes than elements").of_matrix())
    }

    /// The table that codes are indices into.
    pub fn levels(&self) -> Option<&[f32; 16]> {
        self.levels.as_ref()
    }

    /// Outputs and inputs that share a scale.
    pub fn block(&self) -> ScaleBlock {
        self.block
    }

    /// Blocks of outputs and blocks of inputs: the shape of scales, zero points and minima.
    pub fn blocks(&self) -> (usize, usize) {
        (self.out_features.div_ceil(self.block.out_features), self.in_features.div_ceil(self.block.in_features))
    }

    /// Scales by blocks of outputs, then by blocks of inputs.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Zero points as the scales lie.
    pub fn zero_points(&self) -> Option<&[i8]> {
        self.zero_points.as_deref()
    }

    /// Minima as the scales lie.
    pub fn minima(&self) -> Option<&[f32]> {
        self.minima.as_deref()
    }

    /// The number of the block of each input, where the position does not tell it.
    pub fn input_groups(&self) -> Option<&[u32]> {
        self.input_groups.as_deref()
    }

    /// The scale of inputs that are quantized with it, whatever they are.
    pub fn input_scale(&self) -> Option<f32> {
        self.input_scale
    }

    /// What its scales are in files.
    pub fn scale_encoding(&self) -> ScaleEncoding {
        self.scale_encoding
    }

    /// Bytes of the codes, scales and zero points where codes take no more than their bits.
    pub fn packed_bytes(&self) -> u64 {
        let codes = (self.codes.len() as u64 * u64::from(self.bits)).div_ceil(8);
        let scale = if self.scale_encoding == ScaleEncoding::Floats { 4 } else { 1 };
        let each = scale + u64::from(self.zero_points.is_some()) + 4 * u64::from(self.minima.is_some());
        codes + self.scales.len() as u64 * each + 4 * self.input_groups.as_ref().map_or(0, |groups| groups.len() as u64)
    }

    /// Some of the outputs. The range must begin and end where blocks do, or at the end of the matrix.
    pub fn rows(&self, range: Range<usize>) -> Result<PackedMatrix, Error> {
        let per_block = self.block.out_features;
        let is_edge = |row: usize| row.is_multiple_of(per_block) || row == self.out_features;
        if range.start >= range.end || range.end > self.out_features || !is_edge(range.start) || !is_edge(range.end) {
            let message = format!(
                "rows {} to {} of {} cut a block of {per_block} rows, or are none",
                range.start, range.end, self.out_features
            );
            return Err(Refusal::new(message, "take rows by whole blocks").of_matrix());
        }
        let (_, groups) = self.blocks();
        let blocks = range.start / per_block * groups..range.end.div_ceil(per_block) * groups;
        let codes = self.codes[range.start * self.in_features..range.end * self.in_features].to_vec();
        Ok(PackedMatrix {
            out_features: range.len(),
            in_features: self.in_features,
            dtype: self.dtype,
            bits: self.bits,
            codes,
            levels: self.levels,
            // A block of the whole matrix is one of all rows that are left.
            block: ScaleBlock { out_features: per_block.min(range.len()), ..self.block },
            scales: self.scales[blocks.clone()].to_vec(),
            zero_points: self.zero_points.as_ref().map(|zeros| zeros[blocks.clone()].to_vec()),
            minima: self.minima.as_ref().map(|minima| minima[blocks].to_vec()),
            input_groups: self.input_groups.clone(),
            input_scale: self.input_scale,
            scale_encoding: self.scale_encoding,
            dense: self.dense,
        })
    }

    /// The same rows in another order, each once: row `order[i]` becomes row `i`.
    pub(crate) fn reordered_rows(self, order: &[usize]) -> Result<PackedMatrix, Refusal> {
        let (_, groups) = self.blocks();
        if self.block.out_features != 1
            || order.len() != self.out_features
            || order.iter().any(|row| *row >= order.len())
        {
            return Err(Refusal::damaged("its rows have an order that is none of whole blocks"));
        }
        let columns = self.in_features;
        let codes = order.iter().flat_map(|row| &self.codes[row * columns..][..columns]).copied().collect();
        fn moved<T: Copy>(values: &[T], order: &[usize], groups: usize) -> Vec<T> {
            order.iter().flat_map(|row| &values[row * groups..][..groups]).copied().collect()
        }
        let scales = moved(&self.scales, order, groups);
        let zero_points = self.zero_points.as_ref().map(|zeros| moved(zeros, order, groups));
        let minima = self.minima.as_ref().map(|minima| moved(minima, order, groups));
        Ok(PackedMatrix { codes, scales, zero_points, minima, ..self })
    }

    /// The inputs in an order in which every block's are next to each other, and the matrix with its columns in it: column
    /// `i` is of input `order[i]`. `None` where positions already tell the block.
    pub fn by_input_group(&self) -> Result<Option<(PackedMatrix, Vec<u32>)>, Error> {
        let Some(group_of) = &self.input_groups else { return Ok(None) };
        let mut order: Vec<u32> = (0..self.in_features as u32).collect();
        order.sort_by_key(|input| group_of[*input as usize]);
        let per_group = self.block.in_features;
        if let Some(wrong) =
            (0..order.len()).find(|&place| group_of[order[place] as usize] as usize != place / per_group)
        {
            let group = wrong / per_group;
            let message = format!("group {group} of its inputs does not have {per_group} of them");
            return Err(
                Refusal::new(message, "dequantize the matrix, or quantize the model without act-order").of_matrix()
            );
        }
        let columns = self.in_features;
        let mut codes = Vec::with_capacity(self.codes.len());
        for row in self.codes.chunks_exact(columns) {
            codes.extend(order.iter().map(|input| row[*input as usize]));
        }
        Ok(Some((PackedMatrix { codes, input_groups: None, ..self.clone() }, order)))
    }

    /// All elements row by row, in the order of operations of the format's own tool.
    pub fn dequantize(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.codes.len()];
        let table = self.table();
        for (row, target) in values.chunks_exact_mut(self.in_features).enumerate() {
            self.dequantize_with(&table, row, target);
        }
        values
    }

    /// The elements of one row; `target` has one place for every input.
    pub fn dequantize_row(&self, row: usize, target: &mut [f32]) -> Result<(), Error> {
        if row >= self.out_features || target.len() != self.in_features {
            let message = format!("row {row} of {} into {} places", self.out_features, target.len());
            return Err(
                Refusal::new(message, "give a row of the matrix and a place for each of its inputs").of_matrix()
            );
        }
        self.dequantize_with(&self.table(), row, target);
        Ok(())
    }

    /// All elements as a tensor `[out_features, in_features]` of a float type, rounded once to it.
    pub fn to_literal(&self, dtype: DType) -> Result<Literal, Error> {
        let failed = || Refusal::new(format!("it cannot become {dtype}"), "ask for a float type").of_matrix();
        let table = self.table();
        let mut row_values = vec![0.0; self.in_features];
        let mut bytes = Vec::with_capacity(self.codes.len() * dtype.size_bytes());
        for row in 0..self.out_features {
            self.dequantize_with(&table, row, &mut row_values);
            let literal = Literal::from_slice(&row_values, [self.in_features]).map_err(|_| failed())?;
            bytes.extend(literal.cast(dtype).map_err(|_| failed())?.into_bytes());
        }
        Literal::new(dtype, [self.out_features, self.in_features], bytes).ok_or_else(failed)
    }

    /// The value of every byte as a code.
    fn table(&self) -> [f32; 256] {
        std::array::from_fn(|code| match &self.levels {
            Some(levels) => levels[code & 15],
            None if self.dtype.is_signed_integer() => f32::from(code as u8 as i8),
            None if self.dtype.is_unsigned_integer() => f32::from(code as u8),
            None => decode_float(self.dtype, code as u64).map_or(f32::NAN, |value| value as f32),
        })
    }

    fn dequantize_with(&self, table: &[f32; 256], row: usize, target: &mut [f32]) {
        let (_, groups) = self.blocks();
        let codes = &self.codes[row * self.in_features..][..self.in_features];
        let first = row / self.block.out_features * groups;
        let one = |code: u8, group: usize| {
            let place = first + group;
            let mut value = table[usize::from(code)];
            if let Some(zeros) = &self.zero_points {
                value -= f32::from(zeros[place]);
            }
            value *= self.scales[place];
            if let Some(minima) = &self.minima {
                value -= minima[place];
            }
            value
        };
        match &self.input_groups {
            Some(group_of) => {
                for ((target, &code), &group) in target.iter_mut().zip(codes).zip(group_of) {
                    *target = one(code, group as usize);
                }
            }
            None => {
                let size = self.block.in_features;
                for (group, (target, codes)) in target.chunks_mut(size).zip(codes.chunks(size)).enumerate() {
                    for (target, &code) in target.iter_mut().zip(codes) {
                        *target = one(code, group);
                    }
                }
            }
        }
    }

    /// Itself, if all of it fits together.
    pub(crate) fn checked(self) -> Result<PackedMatrix, Refusal> {
        const HELP: &str = "give codes, scales and zero points of one matrix";
        let wrong = |message: String| Err(Refusal::new(message, HELP));
        let (rows, columns) = (self.out_features, self.in_features);
        if rows == 0 || columns == 0 || rows.checked_mul(columns) != Some(self.codes.len()) {
            return wrong(format!("a matrix of [{rows}, {columns}] has {} codes", self.codes.len()));
        }
        let is_known = matches!(
            self.dtype,
            DType::I2
                | DType::I4
                | DType::I8
                | DType::U2
                | DType::U4
                | DType::U8
                | DType::F8E4M3FN
                | DType::F8E5M2
                | DType::F4E2M1FN
                | DType::F6E2M3FN
        );
        if !is_known || self.bits == 0 || self.bits > self.dtype.bits() {
            return wrong(format!("codes of type {} have {} bits", self.dtype, self.bits));
        }
        if self.levels.is_some() && self.dtype != DType::U4 {
            return wrong(format!("codes of type {} are no indices into 16 levels", self.dtype));
        }
        if !(self.dense.is_float() && self.dense.bits() >= 16) {
            return wrong(format!("its dense type is {}", self.dense));
        }
        let is_code: [bool; 256] = std::array::from_fn(|code| self.is_code(code as u8));
        if let Some(place) = self.codes.iter().position(|code| !is_code[usize::from(*code)]) {
            let (row, column) = (place / columns, place % columns);
            return Err(Refusal::damaged(format!(
                "the code {:#04x} at [{row}, {column}] is not a number of {} with {} bits",
                self.codes[place], self.dtype, self.bits
            )));
        }
        if self.block.out_features == 0 || self.block.in_features == 0 {
            return wrong("a block has no elements".into());
        }
        let (row_blocks, groups) = self.blocks();
        if row_blocks.checked_mul(groups) != Some(self.scales.len()) {
            return wrong(format!("it has {} scales for [{row_blocks}, {groups}] blocks", self.scales.len()));
        }
        let place = |index: usize| format!("[{}, {}]", index / groups, index % groups);
        // NaN is not below either.
        let is_small = |value: f32| value.abs() < MAX_SCALE;
        if let Some(index) = self.scales.iter().position(|scale| !is_small(*scale)) {
            return Err(Refusal::damaged(format!("its scale {} is {}", place(index), self.scales[index])));
        }
        if let Some(index) = self.scales.iter().position(|scale| self.scale_encoding.encoded(*scale).is_none()) {
            let (scale, encoding) = (self.scales[index], self.scale_encoding);
            return wrong(format!("its scale {} is {scale}, which {encoding:?} does not have", place(index)));
        }
        if let Some(zeros) = &self.zero_points {
            let (low, high) = (-(1i32 << (self.bits - 1)), (1i32 << (self.bits - 1)) - 1);
            if !self.dtype.is_signed_integer() || zeros.len() != self.scales.len() {
                return wrong(format!(
                    "{} zero points for {} scales of {} codes",
                    zeros.len(),
                    self.scales.len(),
                    self.dtype
                ));
            }
            if let Some(index) = zeros.iter().position(|zero| !(low..=high).contains(&i32::from(*zero))) {
                let zero = zeros[index];
                return Err(Refusal::damaged(format!(
                    "its zero point {} is {zero}, out of {low} to {high}",
                    place(index)
                )));
            }
        }
        if let Some(minima) = &self.minima {
            if minima.len() != self.scales.len() {
                return wrong(format!("{} minima for {} scales", minima.len(), self.scales.len()));
            }
            if let Some(index) = minima.iter().position(|minimum| !is_small(*minimum)) {
                return Err(Refusal::damaged(format!("its minimum {} is {}", place(index), minima[index])));
            }
        }
        if let Some(levels) = &self.levels
            && levels.iter().any(|level| !is_small(*level))
        {
            return Err(Refusal::damaged("its table of levels has values that are not finite"));
        }
        if let Some(group_of) = &self.input_groups {
            if group_of.len() != columns {
                return wrong(format!("{columns} inputs have {} groups named", group_of.len()));
            }
            if let Some(input) = group_of.iter().position(|group| *group as usize >= groups) {
                let group = group_of[input];
                return Err(Refusal::damaged(format!("g_idx puts input {input} into group {group} of {groups}")));
            }
        }
        match self.input_scale {
            Some(scale) if !(scale.is_finite() && scale > 0.0) => {
                Err(Refusal::damaged(format!("the scale of its inputs is {scale}")))
            }
            _ => Ok(self),
        }
    }

    /// Refuses scales that make a block zero, in formats whose tools write none.
    pub(crate) fn without_zero_scales(self) -> Result<PackedMatrix, Refusal> {
        let (_, groups) = self.blocks();
        match self.scales.iter().position(|scale| *scale == 0.0) {
            Some(index) => Err(Refusal::damaged(format!("its scale [{}, {}] is zero", index / groups, index % groups))),
            None => Ok(self),
        }
    }

    fn is_code(&self, code: u8) -> bool {
        if self.dtype.is_signed_integer() {
            let (low, high) = (-(1i32 << (self.bits - 1)), (1i32 << (self.bits - 1)) - 1);
            return (low..=high).contains(&i32::from(code as i8));
        }
        if self.dtype.is_unsigned_integer() || self.dtype.bits() < 8 {
            return u32::from(code) >> self.bits == 0;
        }
        match self.dtype {
            // Infinities and NaN.
            DType::F8E5M2 => code & 0x7c != 0x7c,
            _ => code & 0x7f != 0x7f,
        }
    }
}

impl ScaleEncoding {
    /// The byte of a scale; 0 of floats, which have none; `None` where the encoding has no such number.
    pub(crate) fn encoded(self, scale: f32) -> Option<u8> {
        match self {
            ScaleEncoding::Floats => Some(0),
            ScaleEncoding::PowersOfTwo => {
                let exponent = (scale.to_bits() >> 23) as u8;
                (scale > 0.0 && power_of_two(exponent) == scale).then_some(exponent)
            }
            ScaleEncoding::Fp8Over(global) => {
                let code = encode_float(DType::F8E4M3FN, f64::from(scale * global))?;
                let is_same = decode_float(DType::F8E4M3FN, code)? as f32 / global == scale;
                u8::try_from(code).ok().filter(|_| is_same && global.is_finite() && global > 0.0)
            }
        }
    }
}

/// The signed type that codes of a number of bits are kept in.
pub(crate) fn signed_type(bits: u32) -> Option<DType> {
    match bits {
        1..=2 => Some(DType::I2),
        3..=4 => Some(DType::I4),
        5..=8 => Some(DType::I8),
        _ => None,
    }
}
