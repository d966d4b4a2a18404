//! A model file: graph, weights, and what inputs it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tensor::{DType, Literal};

use crate::data;
use crate::error::Error;
use crate::proto::{GraphProto, ModelProto, TensorProto};

/// Opsets that are read: those before differ in the ops themselves, those after are not known.
const OPSETS: std::ops::RangeInclusive<i64> = 6..=28;
/// From so many values on an initializer is an argument of the program: a parameter, that a plan can shard.
const PARAMETER_ELEMENTS: usize = 32;
/// The same for whole numbers, which shapes are computed from.
const TABLE_ELEMENTS: usize = 1024;

/// One size of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Known(usize),
    /// By a name that other inputs may have too; empty where the model says nothing.
    Named(String),
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInput {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    pub(crate) sizes: Option<Vec<Size>>,
}

/// An ONNX model.
#[derive(Clone, Debug)]
pub struct OnnxModel {
    pub(crate) graph: GraphProto,
    pub(crate) opset: i64,
    pub(crate) inputs: Vec<ModelInput>,
    /// Inputs that have a value for good.
    pub(crate) constants: BTreeMap<String, Arc<Literal>>,
    initializers: BTreeMap<String, usize>,
    folder: Option<PathBuf>,
    producer: String,
}

impl OnnxModel {
    /// Reads a model file; external data is read from its folder when it is asked for.
    pub fn open(path: &Path) -> Result<OnnxModel, Error> {
        let bytes = std::fs::read(path)
            .map_err(|error| Error::new(format!("cannot read {}: {error}", path.display()), "check the path"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        OnnxModel::read(bytes, Some(folder.to_path_buf()))
    }

    /// Reads a model; `folder` is where its external data is.
    pub fn read(bytes: Vec<u8>, folder: Option<PathBuf>) -> Result<OnnxModel, Error> {
        let model = ModelProto::decode(Bytes::from(bytes))
            .map_err(|error| Error::damaged(format!("this is not an ONNX model: {error}")))?;
        let graph = model.graph.ok_or_else(|| Error::damaged("this is not an ONNX model: it has no graph"))?;
        let is_onnx = |domain: &str| domain.is_empty() || domain == "ai.onnx";
        let opset = model.opset_import.iter().find(|opset| is_onnx(&opset.domain)).map(|opset| opset.version);
        let opset = opset.ok_or_else(|| Error::damaged("the model names no version of ONNX's ops"))?;
        if !OPSETS.contains(&opset) {
            let message = format!("opset {opset} is not read; opsets {} to {} are", OPSETS.start(), OPSETS.end());
            return Err(Error::new(message, "`onnx.version_converter` converts a model to another opset"));
        }
        if !graph.sparse_initializer.is_empty() {
            return Err(Error::unsupported("a sparse initializer"));
        }
        let initializers: BTreeMap<String, usize> =
            graph.initializer.iter().enumerate().map(|(at, tensor)| (tensor.name.clone(), at)).collect();
        let mut inputs = Vec::new();
        for input in graph.input.iter().filter(|input| !initializers.contains_key(&input.name)) {
            let kind = input.value_type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
            let kind =
                kind.ok_or_else(|| Error::unsupported(format!("input `{}`, which is no tensor,", input.name)))?;
            let size = |dim: &crate::proto::DimensionProto| match dim.dim_value {
                Some(value) if value > 0 || dim.dim_param.is_none() && value == 0 => Size::Known(value as usize),
                _ => Size::Named(dim.dim_param.clone().unwrap_or_default()),
            };
            inputs.push(ModelInput {
                name: input.name.clone(),
                dtype: data::dtype(kind.elem_type).map_err(|error| error.at(format!("input `{}`", input.name)))?,
                sizes: kind.shape.as_ref().map(|shape| shape.dim.iter().map(size).collect()),
            });
        }
        let producer = model.producer_name;
        Ok(OnnxModel { graph, opset, inputs, constants: BTreeMap::new(), initializers, folder, producer })
    }

    /// What wrote the model.
    pub fn producer(&self) -> &str {
        &self.producer
    }

    /// The version of ONNX's ops.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// What the model takes, in order; without its weights.
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Names of the results, in order.
    pub fn output_names(&self) -> Vec<&str> {
        self.graph.output.iter().map(|output| output.name.as_str()).collect()
    }

    /// Weights that are arguments of the program, by name: large enough that no shape is computed from them.
    pub fn parameter_names(&self) -> Vec<&str> {
        let all = self.graph.initializer.iter().filter(|tensor| is_parameter(tensor));
        let once: BTreeSet<&str> = all.map(|tensor| tensor.name.as_str()).collect();
        once.into_iter().collect()
    }

    /// The values of a weight.
    pub fn tensor(&self, name: &str) -> Result<Literal, Error> {
        let at = self.initializers.get(name).ok_or_else(|| Error::damaged(format!("there is no weight `{name}`")))?;
        self.literal(&self.graph.initializer[*at]).map_err(|error| error.at(format!("weight `{name}`")))
    }

    pub(crate) fn literal(&self, tensor: &TensorProto) -> Result<Literal, Error> {
        data::literal(tensor, self.folder.as_deref())
    }

    /// The model with values for some of its inputs, which are part of it from then on: those that shapes are computed from must be.
    #[must_use]
    pub fn with_constants(&self, values: &BTreeMap<String, Literal>) -> OnnxModel {
        let mut model = self.clone();
        for (name, value) in values.iter().filter(|(name, _)| self.inputs.iter().any(|input| input.name == **name)) {
            model.inputs.retain(|input| input.name != *name);
            model.constants.insert(name.clone(), Arc::new(value.clone()));
        }
        model
    }

    /// Sizes of every input: those that are given, those that the model has, and for the rest the size that another input has for the
    /// same name, or 1.
    pub fn shapes(&self, given: &BTreeMap<String, Vec<usize>>) -> Result<BTreeMap<String, Vec<usize>>, Error> {
        let known: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        let takes = || format!("the model takes {}", known.join(", "));
        if let Some(stranger) = given.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::new(format!("the model has no input `{stranger}`"), takes()));
        }
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for input in &self.inputs {
            let (Some(dims), Some(sizes)) = (given.get(&input.name), &input.sizes) else { continue };
            if dims.len() != sizes.len() {
                let message =
                    format!("input `{}` has {} axes, and the model's {}", input.name, dims.len(), sizes.len());
                return Err(Error::new(message, "give a tensor of that many axes"));
            }
            for (axis, (dim, size)) in dims.iter().zip(sizes).enumerate() {
                let wanted = match size {
                    Size::Known(wanted) => *wanted,
                    Size::Named(name) if name.is_empty() => continue,
                    Size::Named(name) => *named.entry(name).or_insert(*dim),
                };
                if wanted != *dim {
                    let message =
                        format!("axis {axis} of input `{}` has {dim} elements instead of {wanted}", input.name);
                    return Err(Error::new(message, "give a tensor of that size"));
                }
            }
        }
        let mut shapes = BTreeMap::new();
        for input in &self.inputs {
            let dims = match (given.get(&input.name), &input.sizes) {
                (Some(dims), _) => dims.clone(),
                (None, Some(sizes)) => sizes
                    .iter()
                    .map(|size| match size {
                        Size::Known(value) => *value,
                        Size::Named(name) => named.get(name.as_str()).copied().unwrap_or(1),
                    })
                    .collect(),
                (None, None) => {
                    return Err(Error::new(format!("input `{}` has no known shape", input.name), "give its values"));
                }
            };
            shapes.insert(input.name.clone(), dims);
        }
        Ok(shapes)
    }
}

/// Whether an initializer is an argument of the program.
pub(crate) fn is_parameter(tensor: &TensorProto) -> bool {
    let Ok((dtype, dims)) = data::shape(tensor) else { return false };
    let count: usize = dims.iter().product();
    count >= if dtype.is_float() { PARAMETER_ELEMENTS } else { TABLE_ELEMENTS }
}
