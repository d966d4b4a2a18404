//! AWQ checkpoints in the `gemm` layout of AutoAWQ: 4 bits, eight outputs a word in an order of its own.

use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::bits::words;
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec, group_block};
use crate::quant::gptq::turned;
use crate::quant::matrix::{PackedMatrix, PackedSpec};
use crate::quant::refusal::Refusal;
use crate::quant::settings::Settings;

/// The output, of the eight of a word, that each nibble is of.
const OUTPUT_OF_NIBBLE: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

const PER_WORD: usize = 8;
const SCALES: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// The settings of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awq {
    group_size: Option<usize>,
}

impl Awq {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<Awq, Refusal> {
        let bits = if settings.has("bits") { "bits" } else { "w_bit" };
        settings.bits(bits, &[4])?;
        let version = settings.text("version")?.unwrap_or("gemm");
        if !version.eq_ignore_ascii_case("gemm") {
            return Err(Refusal::new(
                format!("version `{version}` of AWQ is not read; gemm is"),
                "take the model in the version gemm, or convert it with AutoAWQ",
            ));
        }
        if settings.flag("zero_point")? == Some(false) {
            let message = "AWQ without zero points (zero_point = false) is not read";
            return Err(Refusal::new(message, "quantize the model with zero_point = true"));
        }
        let group_size = if settings.has("group_size") { "group_size" } else { "q_group_size" };
        Ok(Awq { group_size: settings.group_size(group_size)? })
    }

    fn shape(&self, parts: &Parts<'_>) -> Result<(usize, usize, PackedSpec), Failure> {
        let (_, in_features, words) = parts.matrix("qweight", &[DType::I32])?;
        let out_features = words.checked_mul(PER_WORD).filter(|count| *count > 0 && in_features > 0);
        let out_features = out_features.ok_or_else(|| Refusal::damaged("its `qweight` has no elements"))?;
        let block = group_block(self.group_size, in_features)?;
        let (dense, _, _) = parts.matrix("scales", SCALES)?;
        let spec = PackedSpec {
            dtype: DType::I4,
            bits: 4,
            block,
            has_levels: false,
            has_zero_points: true,
            has_minima: false,
            has_input_groups: false,
            dense,
        };
        Ok((out_features, in_features, spec))
    }
}

impl Format for Awq {
    fn describe(&self) -> String {
        let groups = self.group_size.map_or("one group a channel".into(), |size| format!("groups of {size}"));
        format!("AWQ, 4 bits, {groups}")
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        Ok(Module::all_with(files, "qweight", &["qzeros", "scales"]))
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let (out_features, in_features, spec) = self.shape(parts)?;
        Ok(WeightSpec { dims: vec![out_features, in_features], storage: Storage::Packed(spec) })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let (out_features, in_features, spec) = self.shape(parts)?;
        let groups = in_features / spec.block.in_features;
        let qweight = parts.read("qweight", &[DType::I32], &[in_features, out_features / PER_WORD])?;
        let mut codes = vec![0; out_features * in_features];
        unpack(&words(qweight.bytes()), out_features, |input, output, code| codes[output * in_features + input] = code);
        let stored_scales = parts.floats("scales", groups * out_features)?;
        let qzeros = parts.read("qzeros", &[DType::I32], &[groups, out_features / PER_WORD])?;
        let mut zero_points = vec![0; groups * out_features];
        unpack(&words(qzeros.bytes()), out_features, |group, output, code| {
            zero_points[output * groups + group] = code as i8;
        });
        let scales = turned(&stored_scales, groups, out_features);
        let bare = PackedMatrix::bare(out_features, in_features, spec.dtype, spec.bits, codes, spec.block, scales);
        let matrix = PackedMatrix { zero_points: Some(zero_points), dense: spec.dense, ..bare };
        Ok(QuantizedWeight::Packed(matrix.checked()?.without_zero_scales()?))
    }
}

/// Every value of words that lie by row, less 8, with its row and its output.
fn unpack(words: &[u32], out_features: usize, mut put: impl FnMut(usize, usize, u8)) {
    for (row, words) in words.chunks_exact(out_features / PER_WORD).enumerate() {
        for (place, word) in words.iter().enumerate() {
            for (nibble, output) in OUTPUT_OF_NIBBLE.into_iter().enumerate() {
                put(row, place * PER_WORD + output, ((word >> (4 * nibble)) as u8 & 15).wrapping_sub(8));
            }
        }
    }
}
