//! VPTQ checkpoints: vectors along the outputs out of a codebook and a residual one, indices packed in words.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::bits::words;
use crate::quant::codebook::{Codebook, CodebookMatrix};
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec};
use crate::quant::refusal::Refusal;
use crate::quant::settings::{Settings, wrong};

const FLOATS: &[DType] = &[DType::F16, DType::BF16, DType::F32];
const PARTS: &[&str] =
    &["centroids.weight", "res_centroids.weight", "res_indices", "perm", "weight_scale", "weight_bias"];

/// The settings of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    out_features: usize,
    in_features: usize,
    /// Outputs of a vector.
    vector: usize,
    entries: usize,
    residual_entries: Option<usize>,
    has_order: bool,
    has_scales: bool,
}

/// The settings of a model, by layer.
#[derive(Clone, Debug)]
pub(crate) struct Vptq {
    layers: BTreeMap<String, Layer>,
}

impl Vptq {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<Vptq, Refusal> {
        let missing = || Refusal::new("`config_for_layers` is missing", "take the configuration that VPTQ wrote");
        let layers = settings.object("config_for_layers")?.ok_or_else(missing)?;
        let one = |(name, value): (&String, &Value)| {
            let map: &Map<String, Value> = value.as_object().ok_or_else(|| wrong(name, value, "an object"))?;
            let layer = Layer::parse(&Settings(map));
            let layer = layer.map_err(|refusal| Refusal::new(format!("{name}: {}", refusal.message), refusal.help))?;
            Ok((name.clone(), layer))
        };
        Ok(Vptq { layers: layers.iter().map(one).collect::<Result<_, Refusal>>()? })
    }

    fn layer(&self, module: &str) -> Result<Layer, Refusal> {
        let missing = || Refusal::new("config_for_layers does not have it", "take the configuration that VPTQ wrote");
        self.layers.get(module).copied().ok_or_else(missing)
    }
}

impl Layer {
    fn parse(settings: &Settings<'_>) -> Result<Layer, Refusal> {
        let count = |key: &str| {
            let missing = || Refusal::damaged(format!("`{key}` is missing"));
            settings.count(key)?.ok_or_else(missing)
        };
        // Of outliers, then of the others; -1 where there are none.
        let second = |key: &str| {
            let pair = settings.get(key).and_then(Value::as_array).map(Vec::as_slice);
            match pair.map(|pair| pair.iter().map(Value::as_i64).collect::<Vec<_>>()).as_deref() {
                Some([Some(first), Some(second)]) => {
                    Ok((*first, usize::try_from(*second).ok().filter(|count| *count > 0)))
                }
                _ => Err(wrong(key, settings.get(key).unwrap_or(&Value::Null), "two numbers")),
            }
        };
        let refused = |what: &str| Refusal::new(format!("{what} are not read"), "take a model without them");
        if settings.count("group_num")?.unwrap_or(1) != 1 {
            return Err(refused("several groups of columns (group_num)"));
        }
        if settings.get("outlier_size").and_then(Value::as_i64).unwrap_or(0) > 0 {
            return Err(refused("columns of outliers (outlier_size)"));
        }
        if settings.flag("is_indice_packed")? != Some(true) {
            return Err(refused("indices that are not packed (is_indice_packed)"));
        }
        if settings.text("vector_quant_dim")?.unwrap_or("out") != "out" {
            return Err(refused("vectors along the inputs (vector_quant_dim)"));
        }
        let power = |entries: usize| entries.is_power_of_two() && (2..=1 << 16).contains(&entries);
        let wrong_entries = || Refusal::damaged("`num_centroids` is no power of two up to 65536");
        let entries = second("num_centroids")?.1.filter(|entries| power(*entries)).ok_or_else(wrong_entries)?;
        let residual_entries = second("num_res_centroids")?.1;
        if residual_entries.is_some_and(|entries| !power(entries)) {
            return Err(Refusal::damaged("`num_res_centroids` is no power of two up to 65536"));
        }
        let vector = second("vector_lens")?.1.ok_or_else(|| Refusal::damaged("`vector_lens` has no length"))?;
        Ok(Layer {
            out_features: count("out_features")?,
            in_features: count("in_features")?,
            vector,
            entries,
            residual_entries,
            has_order: settings.flag("enable_perm")?.unwrap_or(false),
            has_scales: settings.flag("enable_norm")?.unwrap_or(false),
        })
    }

    /// Bits of the index of each vector.
    fn bits(&self) -> (u32, u32) {
        (self.entries.trailing_zeros(), self.residual_entries.map_or(0, usize::trailing_zeros))
    }

    /// The shape of the words, with all of the description checked against them.
    fn words(&self, parts: &Parts<'_>) -> Result<(usize, usize), Refusal> {
        let entry = parts.entry("indices")?;
        let (first, second) = self.bits();
        let row_blocks = self.out_features.div_ceil(self.vector);
        let bits = self.in_features.checked_mul((first + second) as usize);
        let width = bits.ok_or_else(|| Refusal::damaged("`in_features` is too large"))?.div_ceil(32);
        if entry.dims != [1, row_blocks, width] || entry.dtype != DType::I32 {
            let message = format!(
                "its `indices` are {} of the shape {:?}, not [1, {row_blocks}, {width}]",
                entry.dtype, entry.dims
            );
            return Err(Refusal::damaged(message));
        }
        Ok((row_blocks, width))
    }
}

impl Format for Vptq {
    fn describe(&self) -> String {
        "VPTQ".into()
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        Ok(Module::all_with(files, "indices", PARTS))
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let layer = self.layer(&parts.module.module)?;
        layer.words(parts)?;
        let codebooks = 1 + usize::from(layer.residual_entries.is_some());
        let storage = Storage::Codebook { vector: layer.vector, entries: layer.entries, codebooks };
        Ok(WeightSpec { dims: vec![layer.out_features, layer.in_features], storage })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let layer = self.layer(&parts.module.module)?;
        let (row_blocks, width) = layer.words(parts)?;
        let (first, second) = layer.bits();
        let packed = words(parts.read("indices", &[DType::I32], &[1, row_blocks, width])?.bytes());
        let mut indices = Vec::new();
        for row in packed.chunks_exact(width.max(1)) {
            for input in 0..layer.in_features {
                let start = input * (first + second) as usize;
                let low = u64::from(row[start / 32]) | u64::from(row.get(start / 32 + 1).copied().unwrap_or(0)) << 32;
                let value = low >> (start % 32);
                indices.push((value & ((1 << first) - 1)) as u16);
                if second > 0 {
                    indices.push((value >> first & ((1 << second) - 1)) as u16);
                }
            }
        }
        let book = |part: &str, entries: usize| {
            let count =
                entries.checked_mul(layer.vector).ok_or_else(|| Refusal::damaged("its vectors are too long"))?;
            Ok::<_, Failure>(Codebook { entries, values: parts.floats(part, count)? })
        };
        let mut codebooks = vec![book("centroids.weight", layer.entries)?];
        if let Some(entries) = layer.residual_entries {
            codebooks.push(book("res_centroids.weight", entries)?);
        }
        let dense = parts.entry("centroids.weight")?.dtype;
        if !FLOATS.contains(&dense) {
            return Err(Refusal::damaged(format!("its vectors are {dense}")).into());
        }
        let input_scales = if layer.has_scales {
            let of = |part: &str| parts.floats(part, layer.in_features);
            Some((of("weight_scale")?, of("weight_bias")?))
        } else {
            None
        };
        let input_order = if layer.has_order {
            let types = [DType::I16, DType::U16];
            let order = parts.read("perm", &types, &[layer.in_features])?;
            Some(order.bytes().as_chunks::<2>().0.iter().map(|input| u16::from_le_bytes(*input).into()).collect())
        } else {
            None
        };
        let matrix = CodebookMatrix {
            out_features: layer.out_features,
            in_features: layer.in_features,
            vector: (layer.vector, 1),
            codebooks,
            indices,
            output_scales: None,
            input_scales,
            input_order,
            dense,
        };
        Ok(QuantizedWeight::Codebook(matrix.checked()?))
    }
}
