//! Quantizes a model layer by layer: one layer in memory at a time, each written before the next, resumable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nn::hf::{self, TensorSource};
use nn::models::{Llama, LlamaBlock, LlamaConfig, RunOptions};
use nn::quant::{ActivationQuant, QuantScheme, ZeroPoints, largest_code};
use runtime::Backend;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tensor::{DType, Literal};
use weights::quant::{
    CompressedGroup, Inputs, PackedMatrix, QuantizedFolder, ScaleStrategy, compressed_tensors_config,
};

use crate::error::Error;
use crate::methods::codebook::{Codebooks, EncodedMatrix};
use crate::methods::{InputStatistics, Matrix, Rounding, gptq, metrics, nearest};
use crate::pipeline::ModelFolder;
use crate::pipeline::calibration::{LayerRunner, observed_as};
use crate::pipeline::layers::{LayerPlan, Rotations, Tensors, floats, layers_of, matrix, put, put_vector};
use crate::pipeline::plan::{Fp4Format, Method, QuantizePlan};
use crate::pipeline::scales;

/// The file that says how far a folder is; gone when it is finished.
const PROGRESS: &str = "quantize-progress.json";

/// Version of [`Progress`].
const PROGRESS_VERSION: u32 = 1;

/// Sequences that a device runs at once.
const BATCH: usize = 4;

/// What became of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerReport {
    /// Its weights.
    pub weights: Vec<WeightReport>,
    /// Seconds it took.
    pub seconds: f64,
}

/// What became of a weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightReport {
    /// Its name in the files.
    pub name: String,
    /// Bits of a weight, scales among them.
    pub bits_per_weight: f64,
    /// Ratio of signal to noise of the weight, in dB.
    pub sqnr_db: f64,
    /// Squared error of its outputs for the calibration text, beside their squares.
    pub output_error: Option<f64>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantizedModel {
    /// Where the model is.
    pub folder: PathBuf,
    /// Layers in order.
    pub layers: Vec<LayerReport>,
    /// The LM head, where it is quantized.
    pub lm_head: Option<WeightReport>,
    /// Bytes of the weights that were quantized, before and after.
    pub bytes: (u64, u64),
}

/// How far a folder is.
#[derive(Serialize, Deserialize)]
struct Progress {
    version: u32,
    /// What is being done; another plan begins again.
    plan: String,
    layers: Vec<LayerReport>,
    bytes: (u64, u64),
    /// Bits of each layer, where they differ.
    #[serde(default)]
    bits: Vec<u32>,
}

/// Quantizes the model of a folder into another. `tokens` are those of the calibration text; only rounding needs none.
/// `progress` is told layers done and all of them.
pub fn quantize_folder(
    backend: &Backend,
    folder: &ModelFolder,
    tokens: &[u32],
    plan: &QuantizePlan,
    out: &Path,
    progress: &mut dyn FnMut(usize, usize, Option<&LayerReport>),
) -> Result<QuantizedModel, Error> {
    if let Some(format) = folder.files.describe() {
        let message = format!("{} is quantized already: {format}", folder.path.display());
        return Err(Error::setting(message, "give the folder of the dense model"));
    }
    plan.check()?;
    let (config, model) = folder.llama(&RunOptions::default())?;
    let rotations = plan.is_rotated.then(|| Rotations::of(&config, plan.seed)).transpose()?;
    let layers = layers_of(folder, &config, &model);
    let mut work = Work {
        backend,
        folder,
        plan,
        out,
        model: &model,
        rotations,
        shards: layers.len() + 1,
        runners: BTreeMap::new(),
        map: serde_json::Map::new(),
        plans: Vec::new(),
    };
    let mut done = work.begin()?;
    let mut x = match plan.needs_calibration() {
        true => Some(work.embedded(&config, tokens)?),
        false => None,
    };
    if let (Some(average), Some(x)) = (plan.average_bits, &x) {
        if done.bits.len() != layers.len() {
            done.bits = work.bits_of_layers(&layers, x, average)?;
            work.keep(&done)?;
        }
        work.plans = done.bits.iter().map(|bits| plan.with_bits(*bits)).collect();
    }
    work.write_config(&layers)?;
    for (n, layer) in layers.iter().enumerate() {
        let begun = Instant::now();
        let file = work.shard(n);
        let is_done = n < done.layers.len() && file.is_file();
        let tensors = if is_done {
            done_tensors(&file, layer)?
        } else {
            done.layers.truncate(n);
            let mut tensors = work.read(layer)?;
            let report = work.quantize_layer(n, layer, &mut tensors, x.as_deref(), &mut done.bytes)?;
            done.layers.push(LayerReport { seconds: begun.elapsed().as_secs_f64(), ..report });
            work.keep(&done)?;
            tensors
        };
        if is_done {
            work.note(&file)?;
        }
        if let Some(before) = x.take().filter(|_| n + 1 < layers.len()) {
            x = Some(work.forward(layer, &tensors, before)?);
        }
        progress(n + 1, layers.len(), done.layers.get(n));
    }
    let lm_head = work.rest(&mut done.bytes)?;
    work.finish()?;
    Ok(QuantizedModel { folder: out.to_path_buf(), layers: done.layers, lm_head, bytes: done.bytes })
}

impl QuantizePlan {
    /// Whether it looks at activations.
    pub fn needs_calibration(&self) -> bool {
        !matches!(self.method, Method::Nearest | Method::Codebook)
            || self.scheme.activations == ActivationQuant::Static
            || self.average_bits.is_some()
    }

    /// The scale of activations whose largest magnitude is this.
    fn input_scale(&self, largest: f32) -> f32 {
        let code = if self.scheme.values.is_float() { DType::F8E4M3FN } else { DType::I8 };
        (largest / largest_code(code) as f32).max(f32::MIN_POSITIVE)
    }

    /// How its matrices are written, of these modules.
    fn group(&self, targets: Vec<String>) -> CompressedGroup {
        CompressedGroup {
            targets,
            bits: self.code_bits(),
            is_float: self.scheme.values.is_float(),
            is_symmetric: self.scheme.zero_points == ZeroPoints::None,
            strategy: self.scheme.group.map_or(ScaleStrategy::Channel, ScaleStrategy::Group),
            inputs: match self.scheme.activations {
                ActivationQuant::None => Inputs::Float,
                ActivationQuant::Dynamic => Inputs::Dynamic,
                ActivationQuant::Static => Inputs::Static,
            },
        }
    }

    pub(crate) fn rounding(&self) -> Rounding {
        let rounding = match self.fp4_format() {
            Some(Fp4Format::Nvfp4) => Rounding::new(self.scheme).scale_type(DType::F8E4M3FN),
            Some(Fp4Format::Mxfp4) => Rounding::new(self.scheme).scale_type(DType::F8E8M0FNU),
            None => Rounding::new(self.scheme),
        };
        self.bits.map_or(rounding, |bits| rounding.bits(bits))
    }
}

pub(crate) struct Work<'a> {
    backend: &'a Backend,
    folder: &'a ModelFolder,
    pub(crate) plan: &'a QuantizePlan,
    out: &'a Path,
    model: &'a Llama,
    rotations: Option<Rotations>,
    shards: usize,
    /// By stack and place in the pattern.
    runners: BTreeMap<(&'static str, usize), LayerRunner>,
    /// Files of the tensors.
    map: serde_json::Map<String, Value>,
    /// The plan of each layer, where they differ.
    plans: Vec<QuantizePlan>,
}

impl Work<'_> {
    /// What says that a folder is of this work.
    fn identity(&self) -> String {
        format!("{} {:?}", self.folder.path.display(), self.plan)
    }

    /// Makes the folder, or finds how far it is.
    fn begin(&mut self) -> Result<Progress, Error> {
        let fresh = Progress {
            version: PROGRESS_VERSION,
            plan: self.identity(),
            layers: Vec::new(),
            bytes: (0, 0),
            bits: Vec::new(),
        };
        let at = self.out.join(PROGRESS);
        if let Ok(text) = std::fs::read(&at) {
            let found: Option<Progress> = serde_json::from_slice(&text).ok();
            if let Some(found) = found.filter(|found| found.version == fresh.version && found.plan == fresh.plan) {
                return Ok(found);
            }
        } else if self.out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!("{} is not empty", self.out.display());
            return Err(Error::setting(message, "give --out of a folder that does not exist"));
        }
        std::fs::create_dir_all(self.out).map_err(|error| self.failed(self.out, &error))?;
        self.keep(&fresh)?;
        Ok(fresh)
    }

    fn keep(&self, progress: &Progress) -> Result<(), Error> {
        self.write(PROGRESS, serde_json::to_string(progress).unwrap_or_default().as_bytes())
    }

    fn failed(&self, path: &Path, error: &dyn std::fmt::Display) -> Error {
        Error::setting(format!("{}: {error}", path.display()), "give --out of a folder that can be written")
    }

    /// Writes a file whole or not at all.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let (path, temporary) = (self.out.join(name), self.out.join(format!("{name}.tmp")));
        let write = || {
            use std::io::Write;
            let mut file = std::fs::File::create(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)
        };
        write().map_err(|error| self.failed(&path, &error))
    }

    fn shard(&self, n: usize) -> PathBuf {
        self.out.join(format!("model-{:05}-of-{:05}.safetensors", n + 1, self.shards))
    }

    /// What is done to a layer.
    fn plan_of(&self, n: usize) -> &QuantizePlan {
        self.plans.get(n).unwrap_or(self.plan)
    }

    /// The tensors of a layer as floats, with what is folded into them.
    pub(crate) fn read(&self, layer: &LayerPlan) -> Result<Tensors, Error> {
        let mut tensors = Tensors::new();
        for name in &layer.names {
            if self.folder.files.contains(name) {
                tensors.insert(name.clone(), floats(&self.folder.files, name)?.0);
            }
        }
        if let Some(rotations) = &self.rotations {
            rotations.apply(layer, &mut tensors)?;
        }
        Ok(tensors)
    }

    /// Activations before the first layer, in batches.
    fn embedded(&mut self, config: &LlamaConfig, tokens: &[u32]) -> Result<Vec<Literal>, Error> {
        let (samples, sequence) = (self.plan.samples, self.plan.sequence);
        let windows: Vec<&[u32]> = tokens.chunks_exact(sequence.max(1)).collect();
        if tokens.len() < MIN_TOKENS {
            return Err(Error::setting(
                format!("the calibration text has {} tokens, fewer than {MIN_TOKENS}", tokens.len()),
                "give a longer text",
            ));
        }
        if windows.len() < MIN_SAMPLES || sequence == 0 {
            return Err(Error::setting(
                format!(
                    "the calibration text has {} tokens: {} sequences of {sequence}, fewer than {MIN_SAMPLES}",
                    tokens.len(),
                    windows.len()
                ),
                "give a longer text, or a shorter --sequence",
            ));
        }
        // Spread over the whole text.
        let count = samples.clamp(1, windows.len());
        let chosen: Vec<&[u32]> = (0..count).map(|n| windows[n * windows.len() / count]).collect();
        let table = self.embedding()?;
        let width = config.hidden_size;
        let values = table.values();
        let scale = config.style.embedding_scale as f32;
        let batches = chosen.chunks(BATCH).map(|batch| {
            let mut x = Vec::with_capacity(batch.len() * sequence * width);
            for token in batch.iter().flat_map(|window| window.iter()) {
                let at = *token as usize * width;
                let row = values.get(at..at + width).ok_or_else(|| {
                    Error::setting(format!("token {token} is not in the vocabulary"), "give the model's own tokenizer")
                })?;
                x.extend(row.iter().map(|value| value * scale));
            }
            Ok(Literal::from_slice(&x, [batch.len(), sequence, width])?)
        });
        batches.collect()
    }

    /// The table of tokens, rotated where the model is.
    fn embedding(&self) -> Result<Matrix, Error> {
        let mut tensors = Tensors::new();
        let name = hf::tensor_names(self.folder.family(), self.model, "token_embedding.weight");
        let name = name.first().cloned().unwrap_or_default();
        tensors.insert(name.clone(), floats(&self.folder.files, &name)?.0);
        let mut table = matrix(&tensors, &name)?;
        if let Some(rotations) = &self.rotations {
            rotations.residual.rotate_inputs(&mut table)?;
        }
        Ok(table)
    }

    fn runner(&mut self, layer: &LayerPlan) -> &mut LayerRunner {
        let pattern = self.model.config.global_layers.as_ref().map_or(1, |layers| layers.every);
        let place = if layer.stack == "layers" { layer.number % pattern } else { 0 };
        let stack: &LlamaBlock = match (&self.model.first, layer.stack) {
            (Some(first), "first.layers") => first.layers.first(),
            _ => self.model.layers.first(),
        };
        let (backend, model) = (self.backend, self.model);
        self.runners.entry((layer.stack, place)).or_insert_with(|| LayerRunner::new(backend, model, stack, place))
    }

    fn params(&self, layer: &LayerPlan, tensors: &Tensors) -> Result<Vec<Literal>, Error> {
        Ok(hf::load_layer(tensors, self.folder.family(), self.model, layer.stack, layer.number)?)
    }

    /// What a layer with these weights makes of activations.
    pub(crate) fn forward(
        &mut self,
        layer: &LayerPlan,
        tensors: &Tensors,
        x: Vec<Literal>,
    ) -> Result<Vec<Literal>, Error> {
        let params = self.params(layer, tensors)?;
        let backend = self.backend;
        let runner = self.runner(layer);
        let placed = runner.layer(backend, params)?;
        let next = runner.forward(&placed, &x)?;
        let name = format!("{}.{}", layer.stack, layer.number);
        match next.iter().any(|batch| batch.to_vec::<f32>().is_ok_and(|x| x.iter().any(|value| !value.is_finite()))) {
            true => Err(Error::layer(
                &name,
                "its output has NaN or infinite values",
                "its weights or the calibration text are damaged: evaluate the dense model with `tpu eval` first",
            )),
            false => Ok(next),
        }
    }

    /// Quantizes a layer's weights, writes it, and leaves what its weights have become in `tensors`.
    fn quantize_layer(
        &mut self,
        n: usize,
        layer: &LayerPlan,
        tensors: &mut Tensors,
        x: Option<&[Literal]>,
        bytes: &mut (u64, u64),
    ) -> Result<LayerReport, Error> {
        let mut statistics = match x {
            Some(x) => {
                let params = self.params(layer, tensors)?;
                let backend = self.backend;
                let name = format!("{}.{}", layer.stack, layer.number);
                let runner = self.runner(layer);
                let placed = runner.layer(backend, params)?;
                runner.observe(&name, &placed, x)?
            }
            None => BTreeMap::new(),
        };
        if matches!(self.plan.method, Method::Awq | Method::SmoothQuant) {
            let (plan, config) = (self.plan_of(n), &self.model.config);
            scales::fold(plan.method, config, layer, tensors, &mut statistics, &plan.rounding())?;
        }
        let mut weights = Vec::new();
        let mut written: Vec<(String, Literal)> = Vec::new();
        let largest = largest_of_fused(layer, tensors)?;
        for target in &layer.targets {
            for name in &target.names {
                let weight = matrix(tensors, name)?;
                let seen = statistics.get(&observed_as(&target.path));
                let largest = largest.get(&fused_name(name)).copied().unwrap_or_default();
                let coded = coded(self.plan_of(n), &weight, largest, seen)?;
                let values = coded.dequantize();
                let report = WeightReport {
                    name: name.clone(),
                    bits_per_weight: 8.0 * coded.packed_bytes() as f64 / values.len().max(1) as f64,
                    sqnr_db: metrics::sqnr_db(weight.values(), &values),
                    output_error: seen
                        .map(|seen| metrics::relative_output_error(&weight, &values, seen))
                        .transpose()?,
                };
                bytes.0 += 2 * values.len() as u64;
                bytes.1 += coded.packed_bytes();
                weights.push(report);
                let module = name.strip_suffix(".weight").unwrap_or(name);
                written.extend(match &coded {
                    Coded::Packed(packed) => self.plan_of(n).group(Vec::new()).tensors(module, packed)?,
                    Coded::Codebook(matrix) => aqlm_tensors(module, matrix)?,
                });
                put(tensors, Matrix::new(name.clone(), weight.out_features(), weight.in_features(), values)?)?;
            }
        }
        let quantized: Vec<&String> = layer.targets.iter().flat_map(|target| &target.names).collect();
        for name in layer.names.iter().filter(|name| !quantized.contains(name)) {
            if let Some(literal) = tensors.get(name) {
                written.push((name.clone(), literal.cast(self.source_dtype(name))?));
            }
        }
        self.write_shard(n, &written)?;
        Ok(LayerReport { weights, seconds: 0.0 })
    }

    fn source_dtype(&self, name: &str) -> DType {
        match self.folder.files.spec(name).map(|spec| spec.storage) {
            Ok(weights::quant::Storage::Dense(dtype)) => dtype,
            _ => DType::BF16,
        }
    }

    fn write_shard(&mut self, n: usize, tensors: &[(String, Literal)]) -> Result<(), Error> {
        let path = self.shard(n);
        let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        weights::write(&path, tensors.iter().map(|(name, literal)| (name.as_str(), literal)), &metadata)?;
        self.note(&path)
    }

    /// Notes which tensors are in a file.
    fn note(&mut self, path: &Path) -> Result<(), Error> {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
        let files = weights::SafeTensors::open(path)?;
        let names: Vec<String> = files.entries().keys().cloned().collect();
        self.map.extend(names.into_iter().map(|name| (name, Value::String(file.clone()))));
        Ok(())
    }

    /// What is in no layer: embeddings, the last norm and the LM head.
    fn rest(&mut self, bytes: &mut (u64, u64)) -> Result<Option<WeightReport>, Error> {
        let family = self.folder.family();
        let of = |path: &str| hf::tensor_names(family, self.model, path).first().cloned();
        let (table, norm, head) = (of("token_embedding.weight"), of("norm.weight"), of("lm_head.weight"));
        let mut written = Vec::new();
        let (Some(table), Some(norm)) = (table, norm) else {
            return Err(Error::setting("the model has no embedding", "give a decoder"));
        };
        match &self.rotations {
            None => {
                for name in [Some(table), Some(norm), head.clone()].into_iter().flatten() {
                    written.push((name.clone(), TensorSource::read(&self.folder.files, &name, DType::F32)?));
                }
            }
            Some(rotations) => {
                let mut tensors = Tensors::new();
                for name in [Some(&table), Some(&norm), head.as_ref()].into_iter().flatten() {
                    tensors.insert(name.clone(), floats(&self.folder.files, name)?.0);
                }
                let factors = crate::pipeline::layers::vector(&tensors, &norm)?;
                // A tied head reads the table before it is rotated, and through the norm.
                let untied = matrix(&tensors, head.as_ref().unwrap_or(&table))?;
                let (outputs, inputs) = (untied.out_features(), untied.in_features());
                let mut untied = Matrix::new("lm_head.weight", outputs, inputs, untied.into_values())?;
                untied.scale_inputs(&factors)?;
                rotations.residual.rotate_inputs(&mut untied)?;
                put(&mut tensors, untied)?;
                put(&mut tensors, self.embedding()?)?;
                put_vector(&mut tensors, &norm, &vec![1.0; factors.len()])?;
                let dtype = self.source_dtype(&table);
                for (name, literal) in tensors {
                    written.push((name, literal.cast(dtype)?));
                }
            }
        }
        let report = match self.plan.lm_head {
            Some(scheme) => Some(self.quantize_lm_head(scheme, &mut written, bytes)?),
            None => None,
        };
        self.write_shard(self.shards - 1, &written)?;
        Ok(report)
    }

    /// Puts codes in place of the LM head among what is written.
    fn quantize_lm_head(
        &self,
        scheme: QuantScheme,
        written: &mut Vec<(String, Literal)>,
        bytes: &mut (u64, u64),
    ) -> Result<WeightReport, Error> {
        let place = written.iter().position(|(name, _)| name.ends_with("lm_head.weight")).ok_or_else(|| {
            Error::setting(
                "the model has no LM head of its own: it is the embedding, which stays dense",
                "leave --lm-head out, or give --method rotate-gptq, which makes one",
            )
        })?;
        let (name, literal) = written.swap_remove(place);
        let tensors = Tensors::from([(name.clone(), literal.cast(DType::F32)?)]);
        let (weight, plan) = (matrix(&tensors, &name)?, self.plan.of_lm_head(scheme));
        let Coded::Packed(packed) = coded(&plan, &weight, weight.largest(), None)? else {
            return Err(Error::setting("the LM head has no codebooks", "leave --lm-head out"));
        };
        let values = packed.dequantize();
        let module = name.strip_suffix(".weight").unwrap_or(&name);
        written.extend(plan.group(Vec::new()).tensors(module, &packed)?);
        bytes.0 += 2 * values.len() as u64;
        bytes.1 += packed.packed_bytes();
        Ok(WeightReport {
            bits_per_weight: 8.0 * packed.packed_bytes() as f64 / values.len().max(1) as f64,
            sqnr_db: metrics::sqnr_db(weight.values(), &values),
            output_error: None,
            name,
        })
    }

    /// Ways of writing matrices, one for all layers or one for those of equal bits.
    fn groups(&self, layers: &[LayerPlan]) -> Vec<CompressedGroup> {
        if self.plans.is_empty() {
            return vec![self.plan.group(vec!["Linear".to_string()])];
        }
        let mut by_bits: BTreeMap<u32, (&QuantizePlan, Vec<String>)> = BTreeMap::new();
        for (plan, layer) in self.plans.iter().zip(layers) {
            let names = layer.targets.iter().flat_map(|target| &target.names);
            let modules = names.map(|name| name.strip_suffix(".weight").unwrap_or(name).to_string());
            by_bits.entry(plan.code_bits()).or_insert((plan, Vec::new())).1.extend(modules);
        }
        by_bits.into_values().map(|(plan, modules)| plan.group(modules)).collect()
    }

    /// `config.json`, which readers of single shards need too.
    fn write_config(&self, layers: &[LayerPlan]) -> Result<(), Error> {
        let mut json = self.folder.json.clone();
        if let Some(object) = json.as_object_mut() {
            let config = match self.plan.method {
                Method::Codebook => {
                    let options = self.plan.codebooks()?;
                    json!({
                        "quant_method": "aqlm", "in_group_size": options.vector, "out_group_size": 1,
                        "num_codebooks": options.stages, "nbits_per_codebook": 8,
                        "linear_weights_not_to_quantize": ["lm_head.weight", "model.embed_tokens.weight"],
                    })
                }
                _ => {
                    let mut groups = self.groups(layers);
                    let head = self.plan.lm_head.map(|scheme| self.plan.of_lm_head(scheme));
                    groups.extend(head.as_ref().map(|plan| plan.group(vec!["re:.*lm_head$".to_string()])));
                    let ignored = if head.is_some() { Vec::new() } else { vec!["lm_head".to_string()] };
                    compressed_tensors_config(&groups, &ignored)
                }
            };
            object.insert("quantization_config".into(), config);
            if self.rotations.is_some() {
                object.insert("tie_word_embeddings".into(), Value::Bool(false));
            }
        }
        self.write("config.json", serde_json::to_string_pretty(&json).unwrap_or_default().as_bytes())
    }

    /// The files beside the weights, then the index, which makes the folder a model; the progress goes last.
    fn finish(&self) -> Result<(), Error> {
        for name in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"] {
            if let Ok(bytes) = std::fs::read(self.folder.path.join(name)) {
                self.write(name, &bytes)?;
            }
        }
        let index = json!({ "metadata": {}, "weight_map": self.map });
        self.write("model.safetensors.index.json", serde_json::to_string(&index).unwrap_or_default().as_bytes())?;
        let progress = self.out.join(PROGRESS);
        std::fs::remove_file(&progress).map_err(|error| self.failed(&progress, &error))
    }
}

/// What servers multiply with as one matrix, and give one global scale: projections of the same inputs.
fn fused_name(name: &str) -> String {
    const FUSED: [&[&str]; 2] = [&["q_proj", "k_proj", "v_proj"], &["gate_proj", "up_proj", "w1", "w3"]];
    let module = name.strip_suffix(".weight").unwrap_or(name);
    let (parent, last) = module.rsplit_once('.').unwrap_or(("", module));
    match FUSED.iter().find(|names| names.contains(&last)) {
        Some(names) => format!("{parent}.{}", names[0]),
        None => module.to_string(),
    }
}

/// The largest magnitude among weights that are fused.
fn largest_of_fused(layer: &LayerPlan, tensors: &Tensors) -> Result<BTreeMap<String, f32>, Error> {
    let mut largest = BTreeMap::new();
    for name in layer.targets.iter().flat_map(|target| &target.names) {
        let most: &mut f32 = largest.entry(fused_name(name)).or_default();
        *most = most.max(matrix(tensors, name)?.largest());
    }
    Ok(largest)
}

/// A weight in codes, as a plan makes them; `largest` is the largest magnitude of the weights that it is fused with.
fn coded(
    plan: &QuantizePlan,
    weight: &Matrix,
    largest: f32,
    statistics: Option<&InputStatistics>,
) -> Result<Coded, Error> {
    let mut rounding = plan.rounding();
    if plan.fp4_format() == Some(Fp4Format::Nvfp4) {
        rounding = rounding.global_scale(rounding.global_scale_of(largest));
    }
    let packed = match (plan.method, statistics) {
        (Method::Codebook, _) => {
            let codebooks = Codebooks::train(weight, statistics, &plan.codebooks()?)?;
            return Ok(Coded::Codebook(codebooks.encode(weight, statistics)?));
        }
        (Method::Gptq, Some(statistics)) => {
            gptq::quantize(weight, &rounding, statistics, &gptq::GptqOptions::default())?
        }
        (_, statistics) => nearest::quantize(weight, &rounding, statistics)?,
    };
    let largest = statistics.map(|seen| seen.max_abs().iter().fold(0.0f32, |most, value| most.max(*value)));
    Ok(Coded::Packed(match (plan.scheme.activations, largest) {
        (ActivationQuant::Static, Some(largest)) => packed.with_input_scale(plan.input_scale(largest))?,
        _ => packed,
    }))
}

/// A weight in codes.
enum Coded {
    Packed(PackedMatrix),
    Codebook(EncodedMatrix),
}

impl Coded {
    fn dequantize(&self) -> Vec<f32> {
        match self {
            Coded::Packed(matrix) => matrix.dequantize(),
            Coded::Codebook(matrix) => matrix.dequantize(),
        }
    }

    fn packed_bytes(&self) -> u64 {
        match self {
            Coded::Packed(matrix) => matrix.packed_bytes(),
            Coded::Codebook(matrix) => matrix.packed_bytes(),
        }
    }
}

/// The tensors of a matrix as AQLM keeps them: indices `[out, in / vector, codebooks]`, codebooks
/// `[codebooks, entries, 1, vector]`, and a scale for each output.
fn aqlm_tensors(module: &str, matrix: &EncodedMatrix) -> Result<Vec<(String, Literal)>, Error> {
    let (codebooks, outputs) = (matrix.codebooks(), matrix.out_features());
    let (stages, vector) = (codebooks.stages(), codebooks.vector());
    let blocks = matrix.in_features() / vector.max(1);
    let each = outputs * blocks;
    let codes: Vec<i8> = (0..each)
        .flat_map(|at| (0..stages).map(move |stage| stage * each + at))
        .map(|at| matrix.codes().get(at).copied().unwrap_or(0) as i8)
        .collect();
    let tensors = [
        ("codes", Literal::from_slice(&codes, [outputs, blocks, stages])?),
        ("codebooks", Literal::from_slice(codebooks.values(), [stages, codebooks.entries(), 1, vector])?),
        ("scales", Literal::from_slice(matrix.scales(), [outputs, 1, 1, 1])?),
    ];
    Ok(tensors.into_iter().map(|(part, literal)| (format!("{module}.{part}"), literal)).collect())
}

/// Fewer tokens say nothing of a model.
const MIN_TOKENS: usize = 1024;

/// Fewer sequences say nothing of a model.
const MIN_SAMPLES: usize = 4;

/// The weights of a layer as its file has them.
fn done_tensors(file: &Path, layer: &LayerPlan) -> Result<Tensors, Error> {
    let files = QuantizedFolder::open(file)?;
    let mut tensors = Tensors::new();
    for name in &layer.names {
        if files.contains(name) {
            tensors.insert(name.clone(), floats(&files, name)?.0);
        }
    }
    Ok(tensors)
}
