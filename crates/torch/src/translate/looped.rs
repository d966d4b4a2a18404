//! Equal layers as one loop: their parameters are stacked, and what goes from layer to layer is carried.

use std::cell::RefCell;

use nn::run_stacked;
use trace::{Key, Tensor};

use crate::error::Error;
use crate::translate::layers::LayerLoop;
use crate::translate::mode::ProgramMode;
use crate::translate::run::Translator;

impl<'g> Translator<'g> {
    /// Runs equal layers, and gives their results the names that the nodes after them read.
    pub(crate) fn run_layers(&mut self, layers: &'g LayerLoop) -> Result<(), Error> {
        let mut carried = Vec::new();
        for value in &layers.carried {
            carried.push(match &value.first {
                Some(first) => self.tensor(first)?,
                None => {
                    let (dtype, dims) = self.recorded(&value.last)?;
                    Tensor::zeros(dtype, &dims)
                }
            });
        }
        let mut stacked = Vec::new();
        for tensor in &layers.stacked {
            let value = self.context.stacks.get(&tensor.name);
            stacked.push(value.cloned().ok_or_else(|| Error::damaged(format!("`{}` has no value", tensor.name)))?);
        }
        // Every layer has random numbers of its own.
        let keys = match self.context.inner_mode() {
            ProgramMode::Training(key) => Some(key.stacked(layers.len())),
            _ => None,
        };
        let failed = RefCell::new(None);
        let (remat, this) = (self.context.remat.clone(), &*self);
        let (last, kept) = run_stacked(&remat, &carried, &(stacked, keys), |carried, (stacked, key)| {
            match this.one_layer(layers, carried, stacked, key.as_ref()) {
                Ok(results) => results,
                Err(error) => {
                    failed.borrow_mut().get_or_insert(error);
                    (carried.clone(), Vec::new())
                }
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error.at(format!("layers {}", layers.path)));
        }
        for (value, tensor) in layers.carried.iter().zip(last) {
            self.bind(&value.last, tensor);
        }
        let mut kept = kept.into_iter();
        for (value, all) in layers.kept.iter().zip(kept.by_ref()) {
            for (layer, name) in value.names.iter().enumerate() {
                self.bind(name, all.at(0, layer));
            }
        }
        for (tensor, all) in layers.stacked.iter().filter(|tensor| tensor.is_written).zip(kept) {
            self.context.stacks.insert(tensor.name.clone(), all);
        }
        Ok(())
    }

    /// The second layer, with values of any layer: what it carries on, and what is kept of it.
    fn one_layer(
        &self,
        layers: &'g LayerLoop,
        carried: &[Tensor],
        stacked: &[Tensor],
        key: Option<&Key>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), Error> {
        let mut body = self.clone();
        if let Some(key) = key {
            body.context.mode = ProgramMode::Training(key.clone());
        }
        for (value, tensor) in layers.carried.iter().zip(carried) {
            if let Some(taken) = &value.taken {
                body.bind(taken, tensor.clone());
            }
        }
        for (stack, tensor) in layers.stacked.iter().zip(stacked) {
            body.bind(&stack.of_body, tensor.clone());
        }
        body.run_nodes(layers.body())?;
        let given = layers.carried.iter().map(|value| body.tensor(&value.given)).collect::<Result<Vec<_>, _>>()?;
        let mut kept = layers.kept.iter().map(|value| body.tensor(&value.of_body)).collect::<Result<Vec<_>, _>>()?;
        for stack in layers.stacked.iter().filter(|stack| stack.is_written) {
            kept.push(body.tensor(&stack.of_body)?);
        }
        Ok((given, kept))
    }
}
