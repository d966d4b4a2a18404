//! GPTQ checkpoints: `qweight`, `qzeros`, `scales` and `g_idx` of AutoGPTQ and GPTQModel, versions 1 and 2.

use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::bits::{Packing, words};
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec, group_block};
use crate::quant::matrix::{PackedMatrix, PackedSpec, signed_type};
use crate::quant::refusal::Refusal;
use crate::quant::settings::Settings;

const SCALES: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// What zero points are stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// One less than they are.
    V1,
    /// As they are.
    V2,
}

/// The settings of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gptq {
    bits: u32,
    /// `None`: one group of all inputs.
    group_size: Option<usize>,
    is_symmetric: bool,
    version: Version,
}

/// Outputs, inputs, the quantization, and the group of each input where positions do not tell it.
type Shape = (usize, usize, PackedSpec, Option<Vec<u32>>);

impl Gptq {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<Gptq, Refusal> {
        let bits = settings.bits("bits", &[2, 3, 4, 8])?;
        let format = settings.text("checkpoint_format")?.or(settings.text("format")?);
        let version = match format {
            None | Some("gptq") => Version::V1,
            Some("gptq_v2") => Version::V2,
            Some(other) => {
                return Err(Refusal::new(
                    format!("checkpoint_format `{other}` is not read; gptq and gptq_v2 are"),
                    "convert the model with GPTQModel: format = gptq",
                ));
            }
        };
        if settings.flag("is_marlin_format")?.unwrap_or(false) {
            let message = "its weights have the order of Marlin kernels (is_marlin_format)";
            return Err(Refusal::new(message, "take the model in the format gptq"));
        }
        if settings.object("dynamic")?.is_some_and(|overrides| !overrides.is_empty()) {
            let message = "layers have settings of their own (`dynamic`)";
            return Err(Refusal::new(message, "quantize the model with the same bits and group size in all layers"));
        }
        let is_symmetric = settings.flag("sym")?.unwrap_or(true);
        Ok(Gptq { bits, group_size: settings.group_size("group_size")?, is_symmetric, version })
    }

    /// What the tensors of a matrix say of it.
    fn shape(&self, parts: &Parts<'_>) -> Result<Shape, Failure> {
        let (_, rows, out_features) = parts.matrix("qweight", &[DType::I32])?;
        let bits = self.bits as usize;
        let in_features = rows.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
        let in_features = in_features.ok_or_else(|| {
            Refusal::damaged(format!("its `qweight` has {rows} rows, which hold no whole number of {bits}-bit values"))
        })?;
        if out_features == 0 || in_features == 0 || !(out_features * bits).is_multiple_of(32) {
            let message = format!("{out_features} outputs of {bits} bits fill no whole words");
            return Err(Refusal::damaged(message).into());
        }
        // The last group of AutoGPTQ may be smaller; inputs then still divide into words.
        let size = self.group_size.unwrap_or(in_features).min(in_features);
        let block = group_block(Some(size), in_features)?;
        let (dense, _, _) = parts.matrix("scales", SCALES)?;
        let input_groups = parts.input_groups("g_idx", in_features, size)?;
        let spec = PackedSpec {
            dtype: signed_type(self.bits).unwrap_or(DType::I8),
            bits: self.bits,
            block,
            has_levels: false,
            has_zero_points: !self.is_symmetric,
            has_minima: false,
            has_input_groups: input_groups.is_some(),
            dense,
        };
        Ok((out_features, in_features, spec, input_groups))
    }
}

impl Format for Gptq {
    fn describe(&self) -> String {
        let groups = self.group_size.map_or("one group a channel".into(), |size| format!("groups of {size}"));
        format!("GPTQ, {} bits, {groups}", self.bits)
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        Ok(Module::all_with(files, "qweight", &["qzeros", "scales", "g_idx"]))
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let (out_features, in_features, spec, _) = self.shape(parts)?;
        Ok(WeightSpec { dims: vec![out_features, in_features], storage: Storage::Packed(spec) })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let (out_features, in_features, spec, input_groups) = self.shape(parts)?;
        let bits = self.bits as usize;
        let groups = in_features / spec.block.in_features;
        let middle = 1u8 << (self.bits - 1);
        let qweight = parts.read("qweight", &[DType::I32], &[in_features * bits / 32, out_features])?;
        let packed = words(qweight.bytes());
        drop(qweight);
        // Words lie by input, then output; codes by output, then input.
        let mut codes = vec![0; out_features * in_features];
        for (output, row) in codes.chunks_exact_mut(in_features).enumerate() {
            let word = |number: usize| packed[number * out_features + output];
            for (input, code) in row.iter_mut().enumerate() {
                *code = Packing::Dense.value(word, input, self.bits).wrapping_sub(middle);
            }
        }
        drop(packed);
        let stored_scales = parts.floats("scales", groups * out_features)?;
        let scales = turned(&stored_scales, groups, out_features);
        let qzeros = parts.read("qzeros", &[DType::I32], &[groups, out_features * bits / 32])?;
        let zeros = words(qzeros.bytes());
        let (per_group, mask) = (out_features * bits / 32, ((1u16 << self.bits) - 1) as u8);
        let mut zero_points = vec![0i8; scales.len()];
        for group in 0..groups {
            for output in 0..out_features {
                let stored = Packing::Dense.value(|number| zeros[group * per_group + number], output, self.bits);
                let zero = match self.version {
                    Version::V1 => stored.wrapping_add(1) & mask,
                    Version::V2 => stored,
                };
                zero_points[output * groups + group] = zero.wrapping_sub(middle) as i8;
            }
        }
        if self.is_symmetric
            && let Some(place) = zero_points.iter().position(|zero| *zero != 0)
        {
            let zero = i32::from(zero_points[place]) + i32::from(middle);
            let message = format!("sym is true, but a zero point is {zero}, not {middle}");
            let help =
                "check checkpoint_format (gptq stores zero points less 1, gptq_v2 as they are), or set sym to false";
            return Err(Refusal::new(message, help).into());
        }
        let bare = PackedMatrix::bare(out_features, in_features, spec.dtype, self.bits, codes, spec.block, scales);
        let zero_points = (!self.is_symmetric).then_some(zero_points);
        let matrix = PackedMatrix { zero_points, input_groups, dense: spec.dense, ..bare };
        Ok(QuantizedWeight::Packed(matrix.checked()?.without_zero_scales()?))
    }
}

/// Values by group, then output, in the order of output, then group.
pub(crate) fn turned<T: Copy>(values: &[T], groups: usize, out_features: usize) -> Vec<T> {
    (0..out_features).flat_map(|output| (0..groups).map(move |group| values[group * out_features + output])).collect()
}
