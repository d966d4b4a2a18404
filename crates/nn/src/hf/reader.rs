//! Parameters read one by one, each whole or only the part that a device has: no more of a model is in memory at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tensor::{DType, Literal, Spec};
use trace::{Tensor, Tree};
use weights::TensorRegion;
use weights::quant::QuantizedFolder;

use crate::error::Error;
use crate::hf::Family;
use crate::hf::layout::Layout;
use crate::hf::load::{DenseForms, LeafPlan, plan_leaves};
use crate::hf::names::Naming;
use crate::hf::packed::{FileBlocks, LoadedWeight, PackedForms, PackedPlan, WeightChange};
use crate::quant::{ActivationQuant, InputAxis, JoinedTensor, MapWeights, TurnedTensor, Weight};

/// A model as its files have it.
#[derive(Clone, Debug)]
pub struct LoadedModel<P> {
    /// Known by types and shapes; weights that are quantized in the files are quantized here.
    pub model: P,
    /// Its parameters, in the order of its leaves.
    pub params: Vec<Literal>,
    /// What became of the weights that are quantized in the files.
    pub weights: Vec<LoadedWeight>,
}

/// The parameters of a model whose quantized weights stay quantized. `model` is known by types and shapes, with dense weights;
/// `activations` is what the files say of them.
///
/// Stacked layers whose weights differ in form become segments, each with the form of its layers
/// ([`LayerStack`](crate::models::LayerStack)). Layers that share a form have the widest type and the smallest group of any of them, so
/// that nothing is lost. Tables of levels (nf4) become `i8` with the same groups, and `f4E2M1FN` becomes `i8` exactly: no TPU
/// multiplies them faster.
pub fn load_packed<P: Tree + MapWeights>(
    files: &QuantizedFolder,
    family: Family,
    model: &P,
    activations: ActivationQuant,
) -> Result<LoadedModel<P>, Error> {
    let mut reader = ParameterReader::open(files, family, model, activations, DenseOrder::InOut)?;
    let params = reader.model().paths().iter().map(|path| reader.read(path)).collect::<Result<Vec<_>, Error>>()?;
    let (model, weights) = reader.finish();
    Ok(LoadedModel { model, params, weights })
}

/// How dense matrices of matmuls lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseOrder {
    /// `[in, out]`, as layers have them.
    InOut,
    /// `[out, in]` where the files have them so, and those of one input as one: [`Weight::Turned`] and [`Weight::Joined`].
    OutIn,
}

/// The files of a model, checked against it by their headers: every parameter is there, none is read yet.
#[derive(Debug)]
pub struct ParameterReader<'a, P> {
    files: &'a QuantizedFolder,
    model: P,
    dense: BTreeMap<String, LeafPlan>,
    /// Quantized weights by their paths; their parts are leaves below.
    packed: BTreeMap<String, PackedPlan>,
    /// What was read of the last quantized weight and not yet given.
    parts: BTreeMap<String, Literal>,
    /// Of which of its layers they are.
    layers_read: Range<usize>,
    weights: BTreeMap<String, LoadedWeight>,
}

impl<'a, P: Tree + MapWeights> ParameterReader<'a, P> {
    /// Checks the files of a model, which is known by types and shapes and dense; weights that are quantized in the files stay so, others
    /// lie in an order. `activations` is what the files say of them.
    pub fn open(
        files: &'a QuantizedFolder,
        family: Family,
        model: &P,
        activations: ActivationQuant,
        order: DenseOrder,
    ) -> Result<ParameterReader<'a, P>, Error> {
        ParameterReader::open_blocks(files, family, model, activations, order, FileBlocks::Unpacked)
    }

    /// The same, and what becomes of blocks that llama.cpp's files have.
    pub fn open_blocks(
        files: &'a QuantizedFolder,
        family: Family,
        model: &P,
        activations: ActivationQuant,
        order: DenseOrder,
        blocks: FileBlocks,
    ) -> Result<ParameterReader<'a, P>, Error> {
        let forms = PackedForms::with_blocks(files, family, model, activations, blocks)?;
        let naming = Naming::in_files(files, family, model);
        let can_turn = |path: &str, axis: InputAxis| {
            let origin = naming.origin(path).filter(|origin| !origin.has_experts());
            axis == InputAxis::First && origin.is_some_and(|origin| origin.layout == Layout::Transposed)
        };
        let mut turned = BTreeMap::new();
        let mut joined = BTreeMap::new();
        let shapes = trace::shapes_of(model, |model| {
            let shapes = forms.shapes(model).map_weights(|path, weight, axis| match weight {
                Weight::Dense(tensor) if order == DenseOrder::OutIn && can_turn(path, axis) => {
                    let tensor = tensor.swap_axes(-2, -1);
                    turned.insert(path.to_string(), Spec::new(tensor.dtype(), tensor.dims().to_vec()));
                    Weight::Turned(TurnedTensor::new(tensor))
                }
                other => other.clone(),
            });
            joined = joined_weights(&turned);
            let behind: BTreeSet<&str> =
                joined.values().flat_map(|members| &members[1..]).map(|(path, _)| path.as_str()).collect();
            shapes.map_weights(|path, weight, _| match joined.get(path) {
                Some(members) => {
                    let outputs: Vec<usize> = members.iter().map(|(_, dims)| dims[dims.len() - 2]).collect();
                    let mut dims = members[0].1.clone();
                    let at = dims.len() - 2;
                    dims[at] = outputs.iter().sum();
                    let dtype = turned.get(path).map_or(DType::F32, |spec| spec.dtype);
                    Weight::Joined(JoinedTensor::new(Tensor::zeros(dtype, &dims), outputs))
                }
                None if behind.contains(path) => Weight::Behind(weight.dims().to_vec()),
                None => weight.clone(),
            })
        })?;
        let dense_forms = DenseForms { turned: turned.into_keys().collect(), joined };
        let PackedForms { plans: packed, dense, .. } = forms;
        let of_dense = |path: String| {
            let weight =
                LoadedWeight { path: path.clone(), scheme: None, change: WeightChange::Dense, file_bits: Vec::new() };
            (path, weight)
        };
        let weights = dense.into_iter().map(of_dense).collect();
        let used = packed.values().flat_map(|plan| plan.names.iter().cloned()).collect();
        let dense =
            plan_leaves(files, family, &shapes, &dense_forms, used, &|path| weight_of(&packed, path).is_some())?;
        Ok(ParameterReader { files, model: shapes, dense, packed, parts: BTreeMap::new(), layers_read: 0..0, weights })
    }

    /// The model, known by types and shapes, with weights as the files have them.
    pub fn model(&self) -> &P {
        &self.model
    }

    /// A parameter.
    pub fn read(&mut self, path: &str) -> Result<Literal, Error> {
        match self.dense.get(path) {
            Some(plan) => plan.read(self.files, path, &plan.whole()),
            None => {
                self.read_packed(path, None)?;
                self.parts.remove(path).ok_or_else(|| unknown(path))
            }
        }
    }

    /// The part of a parameter that lies in a region. Of dense ones no more is read from the files, of quantized ones whole layers.
    pub fn read_region(&mut self, path: &str, region: &TensorRegion) -> Result<Literal, Error> {
        match self.dense.get(path) {
            Some(plan) => plan.read(self.files, path, region),
            None => {
                let first = self.read_packed(path, Some(region))?;
                let read = self.parts.get(path).ok_or_else(|| unknown(path))?;
                let mut within = region.clone();
                if let Some(start) = within.start.first_mut() {
                    *start -= first;
                }
                within.cut(read).ok_or_else(|| Error::config(format!("`{path}` has no part {region:?}")))
            }
        }
    }

    /// Reads the layers of the quantized weight that have this part, unless they were the last to be read; all without a region. Gives
    /// the first of them.
    fn read_packed(&mut self, path: &str, region: Option<&TensorRegion>) -> Result<usize, Error> {
        let (weight, plan) = weight_of(&self.packed, path).ok_or_else(|| unknown(path))?;
        let layers = plan.layers(region);
        if self.parts.contains_key(path) && self.layers_read == layers {
            return Ok(layers.start);
        }
        self.parts.clear();
        let plan = plan.of_layers(&layers).ok_or_else(|| unknown(path))?;
        let loaded = plan.read(self.files, weight, &mut self.parts)?;
        self.weights.insert(weight.to_string(), loaded);
        self.layers_read = layers.clone();
        Ok(layers.start)
    }

    /// The model, and what became of the weights that are quantized in the files and were read.
    pub fn finish(self) -> (P, Vec<LoadedWeight>) {
        (self.model, self.weights.into_values().collect())
    }
}

/// Parameters below a layer whose weights are of the same input.
const OF_ONE_INPUT: [&[&str]; 2] = [&["query", "key", "value"], &["gate", "up"]];

/// Weights `[…, out, in]` of the same input, by the path of the first: their paths and sizes.
fn joined_weights(turned: &BTreeMap<String, Spec>) -> BTreeMap<String, Vec<(String, Vec<usize>)>> {
    let mut joined = BTreeMap::new();
    for (path, first) in turned {
        for names in OF_ONE_INPUT {
            let Some(layer) = path.strip_suffix(&format!("{}.weight", names[0])) else { continue };
            let of = |name: &&str| {
                let path = format!("{layer}{name}.weight");
                let spec = turned.get(&path)?;
                let alike = |dims: &[usize]| {
                    (dims.len(), dims.first().copied().filter(|_| dims.len() > 2), dims.last().copied())
                };
                let fits = spec.dtype == first.dtype && spec.dims.len() >= 2 && alike(&spec.dims) == alike(&first.dims);
                fits.then(|| (path, spec.dims.clone()))
            };
            if let Some(members) = names.iter().map(of).collect::<Option<Vec<_>>>() {
                joined.insert(path.clone(), members);
            }
        }
    }
    joined
}

/// The quantized weight that a leaf is a part of.
fn weight_of<'a>(packed: &'a BTreeMap<String, PackedPlan>, path: &str) -> Option<(&'a str, &'a PackedPlan)> {
    let (weight, _) = path.rsplit_once('.')?;
    packed.get_key_value(weight).map(|(path, plan)| (path.as_str(), plan))
}

fn unknown(path: &str) -> Error {
    Error::config(format!("the model has no parameter `{path}`"))
}
