//! Calibration on a device: what the inputs of a layer's weights look like, and what the layer makes of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use nn::models::{Llama, LlamaBlock};
use nn::quant::{MapWeights, Weight, record_inputs};
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal};
use trace::{Contraction, Donate, Precision, Spec, Tensor, Tree};

use crate::error::Error;
use crate::methods::InputStatistics;

/// What a device says of the inputs of a weight.
#[derive(Clone, Debug, Tree)]
struct Observed {
    gram: Tensor,
    mean_abs: Tensor,
    max_abs: Tensor,
}

/// Layers of one kind, run one by one.
pub(crate) struct LayerRunner {
    block: LlamaBlock,
    forward: Jit<(LlamaBlock, Tensor), Tensor>,
    observe: Jit<(LlamaBlock, Tensor), Vec<Observed>>,
    /// Paths of the weights whose inputs are observed, in the order of the results.
    names: Rc<RefCell<Vec<String>>>,
}

impl LayerRunner {
    /// Of a stack of layers at a place of the repeating pattern.
    pub(crate) fn new(backend: &Backend, model: &Llama, stack: &LlamaBlock, place: usize) -> LayerRunner {
        let one = |leaf: &Tensor| Tensor::of(Spec::new(leaf.dtype(), leaf.dims().get(1..).unwrap_or_default()));
        let names = Rc::new(RefCell::new(Vec::new()));
        let (of_forward, of_observe, told) = (model.clone(), model.clone(), names.clone());
        let forward = Jit::new(backend, "layer", Donate::Nothing, move |(block, x): &(LlamaBlock, Tensor)| {
            of_forward.run_layer(x, block, place)
        });
        let observe = Jit::new(backend, "observe", Donate::Nothing, move |(block, x): &(LlamaBlock, Tensor)| {
            let recorded = block.map_weights(|path, weight, _| Weight::Recorded(Box::new(weight.clone()), path.into()));
            let (_, inputs) = record_inputs(|| of_observe.run_layer(x, &recorded, place));
            let firsts: Vec<_> = inputs.into_iter().filter(|input| observed_as(&input.name) == input.name).collect();
            *told.borrow_mut() = firsts.iter().map(|input| input.name.clone()).collect();
            firsts.iter().map(|input| observed(&input.input)).collect()
        });
        LayerRunner { block: stack.map_leaves(one), forward, observe, names }
    }

    /// A layer with its parameters.
    pub(crate) fn layer(&self, backend: &Backend, params: Vec<Literal>) -> Result<LlamaBlock, Error> {
        let mut params = params.into_iter();
        Ok(backend.place(&self.block, &mut |path, _| {
            params
                .next()
                .map(std::sync::Arc::new)
                .ok_or_else(|| runtime::Error::from(runtime::ValidationError::Other(format!("`{path}` has no value"))))
        })?)
    }

    /// Statistics of the inputs of a layer's weights, by the weights' paths.
    pub(crate) fn observe(
        &mut self,
        layer_name: &str,
        layer: &LlamaBlock,
        batches: &[Literal],
    ) -> Result<BTreeMap<String, InputStatistics>, Error> {
        let mut all: BTreeMap<String, InputStatistics> = BTreeMap::new();
        for batch in batches {
            let results = self.observe.call((layer.clone(), Tensor::from(batch.clone())))?;
            let rows = batch.num_elements() / batch.dims().last().copied().unwrap_or(1).max(1);
            for (name, observed) in self.names.borrow().iter().zip(results) {
                let floats = |tensor: &Tensor| -> Result<Vec<f32>, Error> { Ok(tensor.to_vec::<f32>()?) };
                let (gram, mean, max) =
                    (floats(&observed.gram)?, floats(&observed.mean_abs)?, floats(&observed.max_abs)?);
                let own = InputStatistics::from_parts(format!("{layer_name}.{name}"), rows, gram, mean, max)?;
                match all.get_mut(name) {
                    Some(before) => before.merge(&own)?,
                    None => {
                        all.insert(name.clone(), own);
                    }
                }
            }
        }
        Ok(all)
    }

    /// What a layer makes of activations.
    pub(crate) fn forward(&mut self, layer: &LlamaBlock, batches: &[Literal]) -> Result<Vec<Literal>, Error> {
        let next = batches.iter().map(|batch| {
            let x = self.forward.call((layer.clone(), Tensor::from(batch.clone())))?;
            Ok(x.to_host()?)
        });
        next.collect()
    }
}

/// Weights that share an input are observed by one of them.
pub(crate) fn observed_as(name: &str) -> String {
    let shared = [
        ("attention.key.weight", "attention.query.weight"),
        ("attention.value.weight", "attention.query.weight"),
        ("dense.up.weight", "dense.gate.weight"),
        ("shared.up.weight", "shared.gate.weight"),
    ];
    let found = shared.iter().find_map(|(of, by)| name.strip_suffix(of).map(|start| format!("{start}{by}")));
    found.unwrap_or_else(|| name.to_string())
}

fn observed(input: &Tensor) -> Observed {
    let width = input.dim(-1);
    let rows = input.num_elements() / width.max(1);
    let x = input.cast(DType::F32).reshape(&[rows, width]);
    let contraction = Contraction { lhs_sum: vec![0], rhs_sum: vec![0], ..Contraction::default() };
    let gram = x.dot_general(&x, &contraction, DType::F32, Precision::Highest);
    Observed { gram: &gram * (1.0 / rows as f64), mean_abs: x.abs().mean(&[0]), max_abs: x.abs().max(&[0]) }
}
