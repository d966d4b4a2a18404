//! Adapters in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tensor::{DType, Literal};
use trace::Tree;
use weights::SafeTensorsFolder;

use crate::error::Error;
use crate::hf::Family;
use crate::hf::layout::{Layout, converted, transposed};
use crate::hf::names::Naming;
use crate::hf::save::written_whole;
use crate::quant::{LoraConfig, MapWeights, can_adapt};
use crate::stacked::{is_stacked, without_range};

const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// What stands before the names of the model's own modules.
const PREFIX: &str = "base_model.model.";

/// Tensors of adapters by their paths: those of the weights with `lora_a` or `lora_b` behind them.
pub type AdapterTensors = BTreeMap<String, Literal>;

/// The module of a weight in files, with `{layer}`, and whether it is a third of a fused one.
fn module_of(naming: &Naming, path: &str) -> Option<(String, Option<usize>, usize)> {
    let origin = naming.origin(path)?;
    let third = match origin.layout {
        Layout::Third(n) => Some(n),
        Layout::Same | Layout::Transposed => None,
        // Parts of several sizes have no common adapter.
        Layout::Columns(_) | Layout::Rows(_) | Layout::Kernel | Layout::AloneInBatch => return None,
    };
    Some((origin.pattern.strip_suffix(".weight")?.to_string(), third, origin.before))
}

/// Whether the weight at a path is that of a layer among the targets: by the end of its name, as PEFT matches them.
pub fn is_target<M: Tree>(family: Family, model: &M, path: &str, targets: &[String]) -> bool {
    let Some((module, ..)) = module_of(&Naming::of(family, model), path) else { return false };
    let matches = |target: &String| {
        target == "all-linear" || module.strip_suffix(target.as_str()).is_some_and(|rest| rest.ends_with('.'))
    };
    targets.is_empty() || targets.iter().any(matches)
}

/// Names of the layers that can have adapters, as PEFT's `target_modules` has them.
pub fn target_modules<M: Tree + MapWeights>(family: Family, model: &M) -> Vec<String> {
    let naming = Naming::of(family, model);
    let mut names = BTreeSet::new();
    model.map_weights(|path, weight, axis| {
        if can_adapt(path, weight, axis)
            && let Some((module, ..)) = module_of(&naming, path)
        {
            names.insert(last_word(&module).to_string());
        }
        weight.clone()
    });
    names.into_iter().collect()
}

fn last_word(module: &str) -> &str {
    module.rsplit('.').next().unwrap_or(module)
}

/// Adapters of layers in segments as those of whole stacks; `None` where they do not fit together.
pub fn of_whole_stacks(tensors: &AdapterTensors) -> Option<AdapterTensors> {
    let mut segments: BTreeMap<String, BTreeMap<usize, &Literal>> = BTreeMap::new();
    for (path, literal) in tensors {
        let (whole, start) = without_range(path);
        segments.entry(whole.into_owned()).or_default().insert(start, literal);
    }
    let joined = segments.into_iter().map(|(path, parts)| {
        let first = parts.values().next()?;
        if parts.len() == 1 {
            return Some((path, (*first).clone()));
        }
        let layers = parts.values().map(|part| part.dims().first().copied()).sum::<Option<usize>>()?;
        let dims = [&[layers], first.dims().get(1..)?].concat();
        let bytes = parts.values().flat_map(|part| part.bytes().iter().copied()).collect();
        Some((path, Literal::new(first.dtype(), dims, bytes)?))
    });
    joined.collect()
}

/// One layer of an adapter's matrix.
struct Matrix {
    rows: usize,
    columns: usize,
    bytes: Vec<u8>,
}

impl Matrix {
    fn transposed(&self) -> Matrix {
        let bytes = transposed(&self.bytes, self.rows, self.columns, size_of::<f32>());
        Matrix { rows: self.columns, columns: self.rows, bytes }
    }

    fn row(&self, row: usize) -> &[u8] {
        let width = self.columns * size_of::<f32>();
        self.bytes.get(row * width..(row + 1) * width).unwrap_or_default()
    }

    fn literal(self) -> Option<Literal> {
        Literal::new(DType::F32, [self.rows, self.columns], self.bytes)
    }
}

/// Layers of an adapter's matrices `[layers, rows, columns]`, or the only one.
fn layers_of(literal: &Literal, is_stacked: bool) -> Option<Vec<Matrix>> {
    let (rows, columns) = match (is_stacked, literal.dims()) {
        (true, [_, rows, columns]) | (false, [rows, columns]) => (*rows, *columns),
        _ => return None,
    };
    let bytes = converted(literal.bytes().to_vec(), literal.dtype(), DType::F32)?;
    let each = (rows * columns * size_of::<f32>()).max(1);
    Some(bytes.chunks_exact(each).map(|bytes| Matrix { rows, columns, bytes: bytes.to_vec() }).collect())
}

/// Writes adapters for a model, which is known by types and shapes. `base` is what the files call the model.
///
/// Layers that files fuse, such as GPT-2's `c_attn`, become one adapter of the ranks together: PEFT's `rank_pattern` says so.
pub fn save_adapter<M: Tree>(
    folder: &Path,
    family: Family,
    model: &M,
    config: &LoraConfig,
    base: &str,
    tensors: &AdapterTensors,
) -> Result<(), Error> {
    let naming = Naming::of(family, model);
    let mut written: BTreeMap<String, Literal> = BTreeMap::new();
    let mut targets = BTreeSet::new();
    let mut fused: BTreeMap<String, [Option<(Matrix, Matrix)>; 3]> = BTreeMap::new();
    for (path, literal) in tensors {
        let Some(weight) = path.strip_suffix(".lora_a") else { continue };
        let broken = || Error::config(format!("`{path}` is not the adapter of a layer of {family:?}"));
        let (module, third, before) = module_of(&naming, weight).ok_or_else(broken)?;
        let other = tensors.get(&format!("{weight}.lora_b")).ok_or_else(broken)?;
        let stacked = is_stacked(weight);
        let (a, b) = (layers_of(literal, stacked).ok_or_else(broken)?, layers_of(other, stacked).ok_or_else(broken)?);
        targets.insert(last_word(&module).to_string());
        for (layer, (a, b)) in a.into_iter().zip(b).enumerate() {
            let name = module.replace("{layer}", &(before + layer).to_string());
            let pair = (a.transposed(), b.transposed());
            match third {
                None => put(&mut written, &name, pair).ok_or_else(broken)?,
                Some(third) => {
                    if let Some(place) = fused.entry(name).or_default().get_mut(third) {
                        *place = Some(pair);
                    }
                }
            }
        }
    }
    let (mut ranks, mut alphas) = (serde_json::Map::new(), serde_json::Map::new());
    for (name, parts) in fused {
        let [Some(one), Some(two), Some(three)] = parts else {
            return Err(Error::config(format!("the adapter of `{name}` lacks a part")));
        };
        ranks.insert(last_word(&name).to_string(), json!(3 * config.rank));
        alphas.insert(last_word(&name).to_string(), json!(3.0 * config.alpha));
        let joined = joined(&[one, two, three]);
        put(&mut written, &name, joined)
            .ok_or_else(|| Error::config(format!("the adapter of `{name}` has no shape")))?;
    }
    std::fs::create_dir_all(folder)
        .map_err(|source| Error::Weights(weights::Error::Io { doing: "making", path: folder.into(), source }))?;
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    weights::write(&folder.join(TENSORS), written.iter().map(|(name, literal)| (name.as_str(), literal)), &metadata)?;
    let record = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": config.dropout,
        "target_modules": targets,
        "rank_pattern": ranks,
        "alpha_pattern": alphas,
        "bias": "none",
        "fan_in_fan_out": family == Family::Gpt2,
        "inference_mode": true,
        "init_lora_weights": true,
        "modules_to_save": Value::Null,
        "layers_to_transform": Value::Null,
        "layers_pattern": Value::Null,
        "revision": Value::Null,
        "use_dora": false,
        "use_rslora": false,
    });
    // Last, so that it never describes a file that is not there.
    written_whole(&folder.join(CONFIG), record.to_string().as_bytes())
}

/// Puts `[rank, in]` and `[out, rank]` under PEFT's names.
fn put(written: &mut BTreeMap<String, Literal>, module: &str, (a, b): (Matrix, Matrix)) -> Option<()> {
    written.insert(format!("{PREFIX}{module}.lora_A.weight"), a.literal()?);
    written.insert(format!("{PREFIX}{module}.lora_B.weight"), b.literal()?);
    Some(())
}

/// Adapters of three layers as one of a fused layer: `a` one below the other, `b` on the diagonal.
fn joined(parts: &[(Matrix, Matrix); 3]) -> (Matrix, Matrix) {
    let inputs = parts[0].0.columns;
    let rank: usize = parts.iter().map(|(a, _)| a.rows).sum();
    let outputs: usize = parts.iter().map(|(_, b)| b.rows).sum();
    let a = parts.iter().flat_map(|(a, _)| a.bytes.iter().copied()).collect();
    let mut b = vec![0; outputs * rank * size_of::<f32>()];
    let (mut first_row, mut first_column) = (0, 0);
    for (_, part) in parts {
        for row in 0..part.rows {
            let at = ((first_row + row) * rank + first_column) * size_of::<f32>();
            if let Some(place) = b.get_mut(at..at + part.columns * size_of::<f32>()) {
                place.copy_from_slice(part.row(row));
            }
        }
        first_row += part.rows;
        first_column += part.columns;
    }
    (Matrix { rows: rank, columns: inputs, bytes: a }, Matrix { rows: outputs, columns: rank, bytes: b })
}

/// What is read of `adapter_config.json`.
#[derive(Deserialize)]
struct PeftConfig {
    peft_type: String,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    rank_pattern: BTreeMap<String, usize>,
    #[serde(default)]
    alpha_pattern: BTreeMap<String, f64>,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    modules_to_save: Option<Vec<String>>,
}

impl PeftConfig {
    fn read(path: &Path) -> Result<PeftConfig, Error> {
        let wrong = |what: String| Error::config(format!("{}: {what}", path.display()));
        let io = |source| Error::Weights(weights::Error::Io { doing: "reading", path: path.into(), source });
        if std::fs::metadata(path).map_err(io)?.len() > MAX_CONFIG_BYTES {
            return Err(wrong(format!("it is longer than {MAX_CONFIG_BYTES} bytes")));
        }
        let text = std::fs::read(path).map_err(io)?;
        let config: PeftConfig = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let refused = [
            (config.peft_type != "LORA", format!("peft_type `{}` is not read; only LORA is", config.peft_type)),
            (config.use_dora, "use_dora is not read: merge the adapter with PEFT first".into()),
            (config.bias.as_ref().is_some_and(|bias| bias != "none"), "biases of adapters are not read".into()),
            (
                config.modules_to_save.as_ref().is_some_and(|modules| !modules.is_empty()),
                "modules_to_save are not read: merge the adapter with PEFT first".into(),
            ),
            (config.r == 0, "the rank is 0".into()),
            (!config.lora_alpha.is_finite(), "lora_alpha is not finite".into()),
        ];
        match refused.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(wrong(what)),
            None => Ok(config),
        }
    }

    /// What the adapter of a module is multiplied by.
    fn scale(&self, module: &str) -> f64 {
        let ends =
            |key: &String| module == key || module.strip_suffix(key.as_str()).is_some_and(|rest| rest.ends_with('.'));
        let rank = self.rank_pattern.iter().find(|(key, _)| ends(key)).map_or(self.r, |(_, rank)| *rank).max(1) as f64;
        let alpha = self.alpha_pattern.iter().find(|(key, _)| ends(key)).map_or(self.lora_alpha, |(_, alpha)| *alpha);
        alpha / if self.use_rslora { rank.sqrt() } else { rank }
    }
}

/// Reads adapters in the shapes of `adapters`, whose paths end in `lora_a` and `lora_b`, for a model known by types and shapes.
///
/// A scale other than that of `config` goes into `lora_b`. Tensors of the file that no adapter takes are refused by name.
pub fn load_adapter<M: Tree, A: Tree>(
    folder: &Path,
    family: Family,
    model: &M,
    config: &LoraConfig,
    adapters: &A,
) -> Result<AdapterTensors, Error> {
    let theirs = PeftConfig::read(&folder.join(CONFIG))?;
    let files = SafeTensorsFolder::open(&folder.join(TENSORS))?;
    let naming = Naming::of(family, model);
    let mut used = BTreeSet::new();
    let mut tensors = AdapterTensors::new();
    for (path, spec) in adapters.paths().into_iter().zip(adapters.specs()) {
        let (weight, side) = path.rsplit_once('.').unwrap_or((&path, ""));
        let (module, third, before) = module_of(&naming, weight)
            .ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
        let (layers, rows, columns) = match *spec.dims {
            [layers, rows, columns] => (layers, rows, columns),
            [rows, columns] => (1, rows, columns),
            _ => return Err(Error::config(format!("`{path}` ({spec}) is no adapter"))),
        };
        let mut bytes = Vec::new();
        for layer in 0..layers {
            let name = module.replace("{layer}", &(before + layer).to_string());
            let file_name = format!("{PREFIX}{name}.{}.weight", if side == "lora_a" { "lora_A" } else { "lora_B" });
            let read = files.read(&file_name)?;
            used.insert(file_name.clone());
            let mismatch = || {
                Error::config(format!(
                    "{}: `{file_name}` is {:?}; the training's adapter is {rows} by {columns}: set lora.rank to that of the file",
                    folder.display(),
                    read.dims()
                ))
            };
            let [own_rows, own_columns] = *read.dims() else { return Err(mismatch()) };
            let own = converted(read.bytes().to_vec(), read.dtype(), DType::F32).ok_or_else(mismatch)?;
            let own = Matrix { rows: own_rows, columns: own_columns, bytes: own };
            let part = part_of(own, side, third, (rows, columns)).ok_or_else(mismatch)?;
            let ratio = theirs.scale(&name) / config.scale();
            let scaled = if side == "lora_b" && ratio != 1.0 { scaled(&part.bytes, ratio) } else { part.bytes };
            bytes.extend(scaled);
        }
        let literal = Literal::new(DType::F32, spec.dims.clone(), bytes)
            .ok_or_else(|| Error::config(format!("`{path}` ({spec}): its parts have another size")))?;
        tensors.insert(path.clone(), literal);
    }
    let unexpected: Vec<String> =
        files.entries().map(|(name, _)| name.to_string()).filter(|name| !used.contains(name)).collect();
    if !unexpected.is_empty() {
        return Err(Error::Tensors { missing: Vec::new(), unexpected, mismatched: Vec::new() });
    }
    Ok(tensors)
}

fn scaled(bytes: &[u8], by: f64) -> Vec<u8> {
    let values = bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    values.flat_map(|value| ((f64::from(value) * by) as f32).to_le_bytes()).collect()
}

/// The part of a layer's matrix that is ours, `[in, rank]` or `[rank, out]`; `None` where it does not fit.
fn part_of(own: Matrix, side: &str, third: Option<usize>, (rows, columns): (usize, usize)) -> Option<Matrix> {
    // Theirs is transposed: [rank, in] or [out, rank].
    let wanted = (columns, rows);
    let part = match third {
        None => own,
        Some(third) => {
            let (rank, is_b) = if side == "lora_a" { (own.rows, false) } else { (own.columns, true) };
            let ours = if is_b { rows } else { columns };
            let is_joined = rank == 3 * ours;
            let (first_row, count) = match (is_b, is_joined) {
                (false, true) => (third * ours, ours),
                (false, false) => (0, own.rows),
                (true, _) => (third * (own.rows / 3), own.rows / 3),
            };
            let (first_column, width) = if is_b && is_joined { (third * ours, ours) } else { (0, own.columns) };
            let mut bytes = Vec::with_capacity(count * width * size_of::<f32>());
            for row in first_row..first_row + count {
                let whole = own.row(row);
                let (start, end) = (first_column * size_of::<f32>(), (first_column + width) * size_of::<f32>());
                // Of a fused adapter only what lies on the diagonal can be taken apart.
                let outside = whole.get(..start)?.iter().chain(whole.get(end..)?);
                if is_b && is_joined && outside.into_iter().any(|byte| *byte != 0) {
                    return None;
                }
                bytes.extend_from_slice(whole.get(start..end)?);
            }
            Matrix { rows: count, columns: width, bytes }
        }
    };
    ((part.rows, part.columns) == wanted).then(|| part.transposed())
}

/// A dense weight with its adapter merged: `w + scale · a · b`, computed in `f64` and rounded once to its type. `None` where shapes do
/// not fit.
pub fn merged_weight(weight: &Literal, a: &Literal, b: &Literal, scale: f64) -> Option<Literal> {
    let is_stacked = weight.dims().len() == 3;
    let dtype = weight.dtype();
    let floats = |literal: &Literal| Some(floats(&converted(literal.bytes().to_vec(), literal.dtype(), DType::F32)?));
    let mut values = floats(weight)?;
    let (a_layers, b_layers) = (layers_of(a, is_stacked)?, layers_of(b, is_stacked)?);
    let (rows, columns) = match *weight.dims() {
        [_, rows, columns] if is_stacked => (rows, columns),
        [rows, columns] => (rows, columns),
        _ => return None,
    };
    for ((a, b), matrix) in a_layers.iter().zip(&b_layers).zip(values.chunks_mut((rows * columns).max(1))) {
        if a.rows != rows || b.columns != columns || a.columns != b.rows {
            return None;
        }
        let (a_values, b_values) = (self::floats(&a.bytes), self::floats(&b.bytes));
        let mut sums = vec![0f64; columns];
        for (a_row, out) in a_values.chunks(a.columns.max(1)).zip(matrix.chunks_mut(columns.max(1))) {
            sums.fill(0.0);
            for (factor, b_row) in a_row.iter().zip(b_values.chunks(columns.max(1))) {
                for (sum, value) in sums.iter_mut().zip(b_row) {
                    *sum += f64::from(*factor) * f64::from(*value);
                }
            }
            for (value, sum) in out.iter_mut().zip(&sums) {
                *value = (f64::from(*value) + sum * scale) as f32;
            }
        }
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Literal::new(dtype, weight.dims(), converted(bytes, DType::F32, dtype)?)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_adapters_become_whole_stacks() {
        let literal = |dims: &[usize], first: f32| {
            let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|n| first + n as f32).collect();
            Literal::from_slice(&values, dims).unwrap()
        };
        // In the order of paths the tenth layer is before the second.
        let parts = AdapterTensors::from([
            ("layers.0-1.q.weight.lora_a".to_string(), literal(&[2, 1, 3], 0.0)),
            ("layers.10-10.q.weight.lora_a".to_string(), literal(&[1, 1, 3], 30.0)),
            ("layers.2-9.q.weight.lora_a".to_string(), literal(&[8, 1, 3], 6.0)),
            ("head.lora_a".to_string(), literal(&[2, 2], 0.0)),
        ]);
        let whole = of_whole_stacks(&parts).unwrap();
        assert_eq!(whole.keys().collect::<Vec<_>>(), ["head.lora_a", "layers.q.weight.lora_a"]);
        assert_eq!(whole["layers.q.weight.lora_a"], literal(&[11, 1, 3], 0.0));
        assert_eq!(of_whole_stacks(&whole).unwrap(), whole);
        // Layers of another size do not fit.
        let odd = AdapterTensors::from([
            ("layers.0-0.q.lora_a".to_string(), literal(&[1, 2], 0.0)),
            ("layers.1-1.q.lora_a".to_string(), literal(&[1, 3], 0.0)),
        ]);
        assert!(of_whole_stacks(&odd).is_none());
    }
}
