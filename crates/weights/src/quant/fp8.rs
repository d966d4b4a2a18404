//! fp8 checkpoints as of DeepSeek: weights in blocks of 128 by 128 with `weight_scale_inv`, or with one scale.

use serde_json::Value;
use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec};
use crate::quant::matrix::{PackedMatrix, PackedSpec, ScaleBlock};
use crate::quant::microscaling::powers_of_two;
use crate::quant::refusal::Refusal;
use crate::quant::settings::{Settings, wrong};

const CODES: &[DType] = &[DType::F8E4M3FN, DType::F8E5M2];

/// The settings of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fp8 {
    /// Outputs and inputs of a block; `None`: scales by tensor or by output.
    block: Option<(usize, usize)>,
}

impl Fp8 {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<Fp8, Refusal> {
        let block = match settings.get("weight_block_size") {
            None => None,
            Some(Value::Array(sizes)) if sizes.len() == 2 => {
                let sizes: Vec<usize> = sizes
                    .iter()
                    .filter_map(|size| usize::try_from(size.as_u64()?).ok())
                    .filter(|size| *size > 0)
                    .collect();
                match sizes[..] {
                    [rows, columns] => Some((rows, columns)),
                    _ => return Err(wrong("weight_block_size", &Value::Null, "two positive sizes")),
                }
            }
            Some(other) => return Err(wrong("weight_block_size", other, "two sizes such as [128, 128]")),
        };
        if let Some(format) = settings.text("fmt")?
            && format != "e4m3"
        {
            return Err(Refusal::new(format!("fmt `{format}` is not read; e4m3 is"), "take the model in e4m3"));
        }
        Ok(Fp8 { block })
    }

    /// The part that has the scales: by their old name they would be divided by.
    fn scales_part(parts: &Parts<'_>) -> &'static str {
        if !parts.has("weight_scale_inv") && parts.has("weight_scale") { "weight_scale" } else { "weight_scale_inv" }
    }

    fn shape(&self, parts: &Parts<'_>) -> Result<(usize, usize, PackedSpec), Failure> {
        let (dtype, out_features, in_features) = parts.matrix("weight", CODES)?;
        if out_features == 0 || in_features == 0 {
            return Err(Refusal::damaged(format!("it has the shape [{out_features}, {in_features}]")).into());
        }
        let part = Fp8::scales_part(parts);
        let scales = parts.entry(part)?;
        let block = match (self.block, scales.dims.as_slice()) {
            (Some((rows, columns)), [row_blocks, groups]) => {
                if (*row_blocks, *groups) != (out_features.div_ceil(rows), in_features.div_ceil(columns)) {
                    let message = format!(
                        "its `{part}` has the shape {:?} for [{out_features}, {in_features}] in blocks of {rows}x{columns}",
                        scales.dims
                    );
                    return Err(Refusal::damaged(message).into());
                }
                ScaleBlock { out_features: rows.min(out_features), in_features: columns.min(in_features) }
            }
            (None, [] | [1] | [1, 1]) => ScaleBlock { out_features, in_features },
            (None, [rows] | [rows, 1]) if *rows == out_features => ScaleBlock { out_features: 1, in_features },
            _ => return Err(Refusal::damaged(format!("its `{part}` has the shape {:?}", scales.dims)).into()),
        };
        let spec = PackedSpec {
            dtype,
            bits: 8,
            block,
            has_levels: false,
            has_zero_points: false,
            has_minima: false,
            has_input_groups: false,
            dense: DType::BF16,
        };
        Ok((out_features, in_features, spec))
    }
}

impl Format for Fp8 {
    fn describe(&self) -> String {
        match self.block {
            Some((rows, columns)) => format!("fp8 by blocks of {rows}x{columns}"),
            None => "fp8".into(),
        }
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        let weights = files.entries().filter(|(_, entry)| CODES.contains(&entry.dtype));
        let modules = weights.filter_map(|(name, _)| name.strip_suffix(".weight"));
        let parts = ["weight_scale_inv", "weight_scale", "input_scale", "activation_scale"];
        Ok(modules.map(|module| Module::of(files, module, "weight", &parts)).collect())
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let (out_features, in_features, spec) = self.shape(parts)?;
        Ok(WeightSpec { dims: vec![out_features, in_features], storage: Storage::Packed(spec) })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let (out_features, in_features, spec) = self.shape(parts)?;
        let codes = parts.read("weight", CODES, &[out_features, in_features])?.into_bytes();
        let mut matrix =
            PackedMatrix::bare(out_features, in_features, spec.dtype, spec.bits, codes, spec.block, Vec::new());
        let (row_blocks, groups) = matrix.blocks();
        let part = Fp8::scales_part(parts);
        matrix.scales = match parts.entry(part)?.dtype {
            DType::U8 | DType::F8E8M0FNU => {
                powers_of_two(parts.read(part, &[DType::U8, DType::F8E8M0FNU], &[row_blocks, groups])?.bytes())?
            }
            _ => parts.floats(part, row_blocks * groups)?,
        };
        matrix.dense = spec.dense;
        for part in ["input_scale", "activation_scale"] {
            if parts.has(part) {
                matrix.input_scale = Some(parts.floats(part, 1)?[0]);
            }
        }
        Ok(QuantizedWeight::Packed(matrix.checked()?.without_zero_scales()?))
    }
}
