//! MXFP4 experts as of gpt-oss: all experts of a layer in one tensor, rows of gate and up in turns.

use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec};
use crate::quant::matrix::{PackedMatrix, PackedSpec, ScaleBlock};
use crate::quant::microscaling::{nibbles, powers_of_two};
use crate::quant::refusal::Refusal;
use crate::region::TensorRegion;

/// Inputs that share a scale, and the bytes of their codes.
const GROUP: usize = 32;
const GROUP_BYTES: usize = 16;

/// Most experts of a layer: each is a name.
const MAX_EXPERTS: usize = 1 << 16;

/// A model; the shapes say the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GptOss;

/// A matrix of an expert, or its bias, by the name of the dense parameter: `….experts.3.gate_proj.weight`.
struct Expert<'a> {
    /// What the names of the tensors of all experts begin with.
    experts: &'a str,
    number: usize,
    projection: &'a str,
    is_bias: bool,
}

/// Rows of a matrix among those of its tensor.
struct Rows {
    first: usize,
    step: usize,
}

impl<'a> Expert<'a> {
    fn of(dense: &'a str) -> Option<Expert<'a>> {
        let (rest, last) = dense.rsplit_once('.')?;
        let (rest, projection) = rest.rsplit_once('.')?;
        let (experts, number) = rest.rsplit_once('.')?;
        Some(Expert { experts, number: number.parse().ok()?, projection, is_bias: last == "bias" })
    }

    /// The tensor of all experts without its ending, and the rows in it.
    fn tensor(&self) -> (&'static str, Rows) {
        match self.projection {
            "gate_proj" => ("gate_up_proj", Rows { first: 0, step: 2 }),
            "up_proj" => ("gate_up_proj", Rows { first: 1, step: 2 }),
            _ => ("down_proj", Rows { first: 0, step: 1 }),
        }
    }
}

fn no_expert() -> Failure {
    Refusal::damaged("its name is none of an expert").into()
}

impl GptOss {
    /// The shape of one expert's matrix.
    fn shape(parts: &Parts<'_>, expert: &Expert<'_>) -> Result<(usize, usize), Failure> {
        let (tensor, rows) = expert.tensor();
        let entry = parts.entry(&format!("{tensor}_blocks"))?;
        let [_, outputs, groups, GROUP_BYTES] = entry.dims[..] else {
            let message =
                format!("its `{tensor}_blocks` has the shape {:?}, not [experts, rows, groups, 16]", entry.dims);
            return Err(Refusal::damaged(message).into());
        };
        let in_features = groups.checked_mul(GROUP).filter(|inputs| *inputs > 0);
        let in_features = in_features.ok_or_else(|| Refusal::damaged("it has no inputs"))?;
        if entry.dtype != DType::U8 || outputs == 0 || !outputs.is_multiple_of(rows.step) {
            let message = format!("its `{tensor}_blocks` is {} with {outputs} rows", entry.dtype);
            return Err(Refusal::damaged(message).into());
        }
        Ok((outputs / rows.step, in_features))
    }
}

impl Format for GptOss {
    fn describe(&self) -> String {
        "mxfp4 experts".into()
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        let mut modules = Vec::new();
        for (name, entry) in files.entries() {
            let Some(tensor) = name.strip_suffix("_blocks") else { continue };
            let (experts, projections): (_, &[&str]) = match tensor.rsplit_once('.') {
                Some((experts, "gate_up_proj")) => (experts, &["gate_proj", "up_proj"]),
                Some((experts, "down_proj")) => (experts, &["down_proj"]),
                _ => continue,
            };
            let count = entry.dims.first().copied().unwrap_or(0);
            // A tensor without elements could name any number of experts.
            if count > MAX_EXPERTS || entry.dims.contains(&0) {
                return Err(Refusal::damaged(format!("`{name}` has the shape {:?}", entry.dims)).into());
            }
            let endings = [("weight", vec!["_blocks", "_scales"]), ("bias", vec!["_bias"])];
            for (ending, tensors) in &endings {
                let tensors: Vec<String> = tensors.iter().map(|part| format!("{tensor}{part}")).collect();
                if *ending == "bias" && files.entry(&tensors[0]).is_none() {
                    continue;
                }
                for number in 0..count {
                    modules.extend(projections.iter().map(|projection| Module {
                        dense: format!("{experts}.{number}.{projection}.{ending}"),
                        module: experts.to_string(),
                        // Shared by all experts.
                        tensors: tensors.clone(),
                    }));
                }
            }
        }
        Ok(modules)
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let expert = Expert::of(&parts.module.dense).ok_or_else(no_expert)?;
        let (out_features, in_features) = GptOss::shape(parts, &expert)?;
        if expert.is_bias {
            let dtype = parts.entry(&format!("{}_bias", expert.tensor().0))?.dtype;
            return Ok(WeightSpec { dims: vec![out_features], storage: Storage::Dense(dtype) });
        }
        let spec = PackedSpec {
            dtype: DType::F4E2M1FN,
            bits: 4,
            block: ScaleBlock { out_features: 1, in_features: GROUP },
            has_levels: false,
            has_zero_points: false,
            has_minima: false,
            has_input_groups: false,
            dense: DType::BF16,
        };
        Ok(WeightSpec { dims: vec![out_features, in_features], storage: Storage::Packed(spec) })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let expert = Expert::of(&parts.module.dense).ok_or_else(no_expert)?;
        let (out_features, in_features) = GptOss::shape(parts, &expert)?;
        let (tensor, rows) = expert.tensor();
        let (outputs, groups) = (out_features * rows.step, in_features / GROUP);
        // Only this expert's part of the tensors is read, and of it every row of the other projection is left out.
        let read = |part: &str, sizes: &[usize]| {
            let name = format!("{}.{tensor}{part}", expert.experts);
            let start = [expert.number].into_iter().chain(sizes.iter().map(|_| 0)).collect();
            let size = [1].into_iter().chain(sizes.iter().copied()).collect();
            let entry = parts.entry(&format!("{tensor}{part}"))?;
            if entry.dims.len() != sizes.len() + 1 || entry.dims[1..] != *sizes || expert.number >= entry.dims[0] {
                let message =
                    format!("its `{tensor}{part}` has the shape {:?}, each expert's is {sizes:?}", entry.dims);
                return Err(Failure::from(Refusal::damaged(message)));
            }
            let all = parts.files.read_region(&name, &TensorRegion { start, size })?;
            let row_bytes = all.bytes().len() / outputs;
            let own = all.bytes().chunks_exact(row_bytes).skip(rows.first).step_by(rows.step);
            Ok((all.dtype(), own.flatten().copied().collect::<Vec<u8>>()))
        };
        if expert.is_bias {
            let (dtype, bytes) = read("_bias", &[outputs])?;
            let bias = tensor::Literal::new(dtype, [out_features], bytes);
            return Ok(QuantizedWeight::Dense(bias.ok_or_else(|| Refusal::damaged("its bias has another size"))?));
        }
        let (_, codes) = read("_blocks", &[outputs, groups, GROUP_BYTES])?;
        let (dtype, scales) = read("_scales", &[outputs, groups])?;
        if dtype != DType::U8 {
            return Err(Refusal::damaged(format!("its `{tensor}_scales` has the type {dtype}")).into());
        }
        let block = ScaleBlock { out_features: 1, in_features: GROUP };
        let (codes, scales) = (nibbles(&codes), powers_of_two(&scales)?);
        let matrix = PackedMatrix::bare(out_features, in_features, DType::F4E2M1FN, 4, codes, block, scales);
        Ok(QuantizedWeight::Packed(PackedMatrix { dense: DType::BF16, ..matrix }.checked()?))
    }
}
