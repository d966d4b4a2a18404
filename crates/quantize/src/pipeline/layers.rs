//! The tensors of one layer on the host, and what is folded into them before they are quantized.

use std::collections::BTreeMap;

use nn::hf::{self, TensorSource};
use nn::models::{Llama, LlamaConfig};
use nn::quant::MapWeights;
use tensor::{DType, Literal};
use trace::Tree;

use crate::error::Error;
use crate::methods::Matrix;
use crate::methods::rotation::Rotation;
use crate::pipeline::ModelFolder;

/// Dense tensors by their names in files.
pub(crate) type Tensors = BTreeMap<String, Literal>;

/// A weight that is quantized.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its path in a layer, as `attention.query.weight`.
    pub(crate) path: String,
    /// Names of its tensors: one, or one of each expert.
    pub(crate) names: Vec<String>,
}

/// One of the layers.
#[derive(Clone, Debug)]
pub(crate) struct LayerPlan {
    /// The stack it is in: `layers`, or `first.layers`.
    pub(crate) stack: &'static str,
    /// Its number in the stack.
    pub(crate) number: usize,
    /// What is quantized.
    pub(crate) targets: Vec<Target>,
    /// All of its tensors.
    pub(crate) names: Vec<String>,
}

/// All layers in order.
pub(crate) fn layers_of(folder: &ModelFolder, config: &LlamaConfig, model: &Llama) -> Vec<LayerPlan> {
    let dense = config.num_dense_layers();
    let stacks = [("first.layers", dense), ("layers", config.num_hidden_layers - dense)];
    let mut weights: Vec<String> = Vec::new();
    let _ = model.map_weights(|path, weight, _| {
        weights.push(path.to_string());
        weight.clone()
    });
    let family = folder.family();
    let paths = model.paths();
    let specs = model.specs();
    let mut layers = Vec::new();
    for (stack, count) in stacks {
        for number in 0..count {
            let below =
                |path: &str| path.strip_prefix(stack).and_then(|rest| rest.strip_prefix('.')).map(str::to_string);
            let of_layer = |path: &str| {
                let all = hf::tensor_names(family, model, path);
                let each = all.len() / count.max(1);
                all.get(number * each..(number + 1) * each).unwrap_or_default().to_vec()
            };
            let mut plan = LayerPlan { stack, number, targets: Vec::new(), names: Vec::new() };
            for (path, spec) in paths.iter().zip(&specs) {
                let Some(inside) = below(path) else { continue };
                let names = of_layer(path);
                plan.names.extend(names.iter().cloned());
                let is_weight = weights.contains(path) && spec.dims.len() >= 3 && !path.contains("router");
                if is_weight {
                    plan.targets.push(Target { path: inside, names });
                }
            }
            layers.push(plan);
        }
    }
    layers
}

/// A tensor as `f32`, and the type it has in its files.
pub(crate) fn floats(source: &dyn TensorSource, name: &str) -> Result<(Literal, DType), Error> {
    let literal = source.read(name, DType::F32)?;
    let dtype = literal.dtype();
    if !dtype.is_float() {
        return Err(Error::layer(name, format!("it is {dtype}"), "give a model with weights of floats"));
    }
    Ok((literal.cast(DType::F32)?, dtype))
}

/// A tensor of two axes as a matrix.
pub(crate) fn matrix(tensors: &Tensors, name: &str) -> Result<Matrix, Error> {
    let literal = tensors.get(name).ok_or_else(|| Error::layer(name, "it is missing", "give the whole folder"))?;
    let [outputs, inputs] = *literal.dims() else {
        return Err(Error::layer(name, format!("it has axes {:?}", literal.dims()), "give a matrix"));
    };
    let values = literal.to_vec::<f32>()?;
    Matrix::new(name, outputs, inputs, values)
}

/// Puts a matrix back.
pub(crate) fn put(tensors: &mut Tensors, matrix: Matrix) -> Result<(), Error> {
    let dims = [matrix.out_features(), matrix.in_features()];
    let name = matrix.name().to_string();
    let literal = Literal::from_slice(&matrix.into_values(), dims)?;
    tensors.insert(name, literal);
    Ok(())
}

/// Puts a vector.
pub(crate) fn put_vector(tensors: &mut Tensors, name: &str, values: &[f32]) -> Result<(), Error> {
    let literal = Literal::from_slice(values, [values.len()])?;
    tensors.insert(name.to_string(), literal);
    Ok(())
}

/// A vector.
pub(crate) fn vector(tensors: &Tensors, name: &str) -> Result<Vec<f32>, Error> {
    let literal = tensors.get(name).ok_or_else(|| Error::layer(name, "it is missing", "give the whole folder"))?;
    Ok(literal.to_vec::<f32>()?)
}

/// Rotations of a model: of what layers pass on, and of the values of each head.
pub(crate) struct Rotations {
    pub(crate) residual: Rotation,
    pub(crate) head: Rotation,
}

impl Rotations {
    /// Refuses models in which norms stand between what would be rotated.
    pub(crate) fn of(config: &LlamaConfig, seed: u64) -> Result<Rotations, Error> {
        let is_plain = config.has_plain_layers();
        if !is_plain || config.experts.is_some() || config.mla.is_some() {
            return Err(Error::setting(
                "this family cannot be rotated: only dense decoders with one RMS norm before each half of a layer can",
                "give --method gptq",
            ));
        }
        Ok(Rotations {
            residual: Rotation::new(config.hidden_size, seed)?,
            head: Rotation::new(config.head_dim, seed.wrapping_add(1))?,
        })
    }

    /// Folds norms and rotations into a layer's tensors: it computes the same in a rotated stream.
    pub(crate) fn apply(&self, layer: &LayerPlan, tensors: &mut Tensors) -> Result<(), Error> {
        let name = |path: &str| -> Result<String, Error> {
            let target = layer.targets.iter().find(|target| target.path == path);
            let name = target.and_then(|target| target.names.first()).cloned();
            name.ok_or_else(|| Error::setting(format!("a layer has no `{path}`"), "give --method gptq"))
        };
        let norms = |suffix: &str| layer.names.iter().find(|name| name.ends_with(suffix)).cloned().unwrap_or_default();
        let halves = [
            (
                norms("input_layernorm.weight"),
                ["attention.query.weight", "attention.key.weight", "attention.value.weight"].as_slice(),
            ),
            (
                norms("post_attention_layernorm.weight"),
                ["feed_forward.dense.gate.weight", "feed_forward.dense.up.weight"].as_slice(),
            ),
        ];
        for (norm, readers) in halves {
            let factors = vector(tensors, &norm)?;
            for path in readers {
                let mut weight = matrix(tensors, &name(path)?)?;
                weight.scale_inputs(&factors)?;
                self.residual.rotate_inputs(&mut weight)?;
                put(tensors, weight)?;
            }
            put_vector(tensors, &norm, &vec![1.0; factors.len()])?;
        }
        for path in ["attention.output.weight", "feed_forward.dense.down.weight"] {
            let mut weight = matrix(tensors, &name(path)?)?;
            self.residual.rotate_outputs(&mut weight)?;
            put(tensors, weight)?;
        }
        // Values of a head and what reads them; a bias of values is rotated with them.
        let (values, output) = (name("attention.value.weight")?, name("attention.output.weight")?);
        let mut weight = matrix(tensors, &values)?;
        self.head.rotate_outputs(&mut weight)?;
        put(tensors, weight)?;
        let mut weight = matrix(tensors, &output)?;
        self.head.rotate_inputs(&mut weight)?;
        put(tensors, weight)?;
        let value_bias = values.replace(".weight", ".bias");
        if tensors.contains_key(&value_bias) {
            let mut bias = vector(tensors, &value_bias)?;
            self.head.apply(&mut bias)?;
            put_vector(tensors, &value_bias, &bias)?;
        }
        let output_bias = output.replace(".weight", ".bias");
        if tensors.contains_key(&output_bias) {
            let mut bias = vector(tensors, &output_bias)?;
            self.residual.apply(&mut bias)?;
            put_vector(tensors, &output_bias, &bias)?;
        }
        Ok(())
    }
}
