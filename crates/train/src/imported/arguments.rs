//! What the arguments of an imported program are given: arrays of the data in the type and layout of PyTorch, or numbers.

use std::collections::BTreeMap;

use tensor::Spec;
use torch::graph::{NodeArgument, OutputRole, SymExpr, TensorMeta};
use trace::Tensor;

use super::{ArgumentSource, ImportedModel};
use crate::datasets::Datasets;
use crate::error::Error;

/// Data with the names of its arrays.
pub(crate) struct ArrayData {
    pub(crate) datasets: Datasets,
    pub(crate) names: Vec<String>,
    /// What the model learns from, by its place.
    pub(crate) target: Option<usize>,
    /// Tokens, images or other examples of a batch.
    pub(crate) count: usize,
}

/// What an argument is given.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// An array of a batch, by its place.
    Array(usize),
    /// A number for every element.
    Number(f64),
}

impl ImportedModel {
    /// The recorded type and shape of an argument.
    pub(super) fn argument(&self, name: &str) -> Option<&TensorMeta> {
        self.archive.program().graph.tensors.get(name)
    }

    /// The recorded shape of the result that the loss is of; none where it is no tensor.
    pub(super) fn result_meta(&self) -> Option<&TensorMeta> {
        let program = self.archive.program();
        let results = program.graph.outputs.iter().zip(&program.outputs);
        let mut own = results.filter(|(_, role)| matches!(role, OutputRole::User | OutputRole::Loss));
        match own.nth(self.result)?.0 {
            NodeArgument::Tensor(name) => program.graph.tensors.get(name),
            _ => None,
        }
    }

    /// Classes of the result: its last axis, if that has one size.
    pub(super) fn classes(&self) -> Option<usize> {
        match self.result_meta()?.sizes.last()? {
            SymExpr::Int(size) => usize::try_from(*size).ok(),
            _ => None,
        }
    }

    /// What each argument is given: what the table says, the array of its name, or for the first argument the first array that is
    /// no target.
    pub(super) fn sources(&self, names: &[String], target: Option<usize>) -> Result<BTreeMap<String, Given>, Error> {
        let arguments = self.archive.program().argument_names();
        let (arrays, taken) = (names.join(", "), arguments.join(", "));
        if let Some(wrong) = self.table.inputs.keys().find(|name| !arguments.contains(&name.as_str())) {
            return Err(Error::new(format!("model.inputs.{wrong}: the program has no such argument"))
                .hint(format!("it takes {taken}")));
        }
        let place = |name: &str| names.iter().position(|own| own == name);
        let mut given = BTreeMap::new();
        for (n, argument) in arguments.iter().enumerate() {
            let first = (0..names.len()).find(|place| Some(*place) != target).filter(|_| n == 0);
            let source = match self.table.inputs.get(*argument) {
                Some(ArgumentSource::Number(number)) => Some(Given::Number(*number)),
                Some(ArgumentSource::Array(name)) => match place(name) {
                    Some(place) => Some(Given::Array(place)),
                    None => {
                        return Err(Error::new(format!("model.inputs.{argument}: the data has no array `{name}`"))
                            .hint(format!("it has {arrays}")));
                    }
                },
                None => place(argument).or(first).map(Given::Array),
            };
            let source = source.ok_or_else(|| {
                Error::new(format!("nothing says what the argument `{argument}` is given")).hint(format!(
                    "set model.inputs = {{ {argument} = \"ARRAY\" }}; the data has {arrays}, and numbers are taken too"
                ))
            })?;
            given.insert(argument.to_string(), source);
        }
        Ok(given)
    }

    /// The arguments of a batch.
    pub(super) fn arguments(
        &self,
        given: &BTreeMap<String, Given>,
        batch: &[Tensor],
    ) -> Result<BTreeMap<String, Tensor>, torch::Error> {
        let program = self.archive.program();
        let mut arguments = BTreeMap::new();
        let mut symbols: BTreeMap<String, i64> = BTreeMap::new();
        for (name, source) in given {
            let (Given::Array(place), Some(meta)) = (source, self.argument(name)) else { continue };
            let Some(array) = batch.get(*place) else { continue };
            let array = in_layout(array, meta);
            for (size, dim) in meta.sizes.iter().zip(array.dims()) {
                if let SymExpr::Symbol(symbol) = size {
                    symbols.entry(symbol.clone()).or_insert(*dim as i64);
                }
            }
            let array = if array.dtype() == meta.dtype { array } else { array.cast(meta.dtype) };
            arguments.insert(name.clone(), array);
        }
        for (name, source) in given {
            let (Given::Number(number), Some(meta)) = (source, self.argument(name)) else { continue };
            let dims = meta.sizes.iter().map(|size| Ok(size.value(&symbols)?.max(0) as usize));
            let dims = dims.collect::<Result<Vec<usize>, torch::Error>>()?;
            arguments.insert(name.clone(), Tensor::scalar(meta.dtype, *number).broadcast_to(&dims));
        }
        // Sizes that do not fit are told by name here.
        program.bound(&arguments.iter().map(|(name, tensor)| (name.clone(), tensor.dims().to_vec())).collect())?;
        Ok(arguments)
    }

    /// Channels of images that the program takes: its first argument is `[batch, channels, height, width]`.
    pub(super) fn channels(&self) -> Result<usize, Error> {
        let program = self.archive.program();
        let meta = program.argument_names().first().and_then(|name| self.argument(name));
        match meta.map(|meta| meta.sizes.as_slice()) {
            Some([_, SymExpr::Int(channels), _, _]) => Ok(usize::try_from(*channels).unwrap_or(0)),
            _ => Err(Error::new(
                "the first argument of the program is no batch of images: [batch, channels, height, width]",
            )
            .hint("data.kind = \"arrays\" takes arrays of any shape")),
        }
    }
}

/// Our images have channels last, PyTorch's before height and width.
fn in_layout(array: &Tensor, meta: &TensorMeta) -> Tensor {
    let fits = |dims: &[usize]| {
        dims.len() == meta.sizes.len()
            && dims.iter().zip(&meta.sizes).skip(1).all(|(dim, size)| match size {
                SymExpr::Int(size) => *size == *dim as i64,
                _ => true,
            })
    };
    if array.rank() != 4 || fits(array.dims()) {
        return array.clone();
    }
    let order = [0, 3, 1, 2];
    let dims = order.map(|axis| array.dims()[axis]);
    if fits(&dims) { array.transpose(&order) } else { array.clone() }
}

/// Types and shapes of arrays, for a check before anything runs.
pub(super) fn shapes(specs: &[Spec]) -> Vec<Tensor> {
    specs.iter().cloned().map(Tensor::of).collect()
}
