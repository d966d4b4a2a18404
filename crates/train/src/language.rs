//! What is trained of a language model: all of its parameters, or adapters beside a frozen one; and what it carries with them.

use nn::models::{LanguageModel, TokenBatch};
use nn::quant::{
    AdapterParts, Adapters, AmaxHistory, LoraConfig, TrainingParts, Weight, amax_history, in_training, init_adapters,
};
use nn::{CrossEntropy, hf};
use trace::{Key, Path, Tensor, Tree};

use crate::config::{LoraTable, TrainConfig};
use crate::model::TokenSizes;
use crate::task::ModelTask;
use crate::trainer::Measures;

/// Parameters that are trained. Their paths are those of the model, or of the adapters.
#[derive(Clone, Debug)]
pub enum LanguageParams<M> {
    /// All of the model's.
    Model(M),
    /// Low-rank adapters; the model is frozen.
    Adapters(Adapters),
}

impl<M: Tree> Tree for LanguageParams<M> {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        match self {
            LanguageParams::Model(model) => model.visit(path, f),
            LanguageParams::Adapters(adapters) => adapters.visit(path, f),
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        match self {
            LanguageParams::Model(model) => LanguageParams::Model(model.map(path, f)),
            LanguageParams::Adapters(adapters) => LanguageParams::Adapters(adapters.map(path, f)),
        }
    }
}

/// What a language model carries beside what is trained.
#[derive(Clone, Debug, Tree)]
pub struct LanguageCarried<M: Tree> {
    /// The model whose adapters are trained.
    pub frozen: Option<M>,
    /// Histories of delayed scaling; see [`nn::optim::OVERWRITE_WITH_GRADIENT`].
    pub overwrite_with_gradient: Option<AmaxHistory>,
}

impl<M: LanguageModel + 'static> ModelTask<LanguageParams<M>, LanguageCarried<M>> {
    /// A model of sequences of so many tokens.
    pub fn language(
        config: &TrainConfig,
        sizes: &TokenSizes,
        family: hf::Family,
        sequence: usize,
        init: impl Fn(&Key) -> M + 'static,
    ) -> Self {
        let lora = config.lora.as_ref().map(LoraTable::adapters);
        let make = move |key: &Key| match &lora {
            None => {
                let model = init(key);
                let overwrite_with_gradient = amax_history(&model, &model.options().training());
                (LanguageParams::Model(model), LanguageCarried { frozen: None, overwrite_with_gradient })
            }
            Some(lora) => {
                let frozen = frozen(&init(key), lora);
                let is_target = |path: &str| hf::is_target(family, &frozen, path, &lora.target_modules);
                let adapters = init_adapters(&key.fold_in(1), &frozen, lora, is_target);
                if adapters.is_empty() {
                    trace::refuse(format!(
                        "lora.target_modules = {:?} names no linear layer; layers are {}",
                        lora.target_modules,
                        hf::target_modules(family, &frozen).join(", ")
                    ));
                }
                let overwrite_with_gradient = amax_history(&frozen, &frozen.options().training());
                let carried = LanguageCarried { frozen: Some(frozen), overwrite_with_gradient };
                (LanguageParams::Adapters(adapters), carried)
            }
        };
        let lora = config.lora.as_ref().map(LoraTable::adapters);
        let loss =
            move |params: &LanguageParams<M>, carried: &LanguageCarried<M>, batch: &[Tensor], key: Option<&Key>| {
                let own_key = key.map(|key| key.fold_in(1));
                let (model, adapters) = match (params, &carried.frozen, &lora) {
                    (LanguageParams::Adapters(adapters), Some(frozen), Some(config)) => {
                        (frozen, Some(AdapterParts { adapters, config, key: own_key.as_ref() }))
                    }
                    (LanguageParams::Model(model), ..) => (model, None),
                    _ => trace::refuse("adapters need the model they are for"),
                };
                let history = carried.overwrite_with_gradient.as_ref();
                let model = in_training(model, &model.options().training(), TrainingParts { history, adapters });
                let batch = TokenBatch { tokens: batch[0].clone(), targets: batch[1].clone() };
                (model.loss(&batch, &CrossEntropy::default(), key), carried.clone())
            };
        let tokens = config.train.batch_size * sequence;
        let flops = Some(sizes.flops_per_token(sequence));
        ModelTask::new(config, make, loss, |_, _, _| Measures::new(), (tokens, flops))
    }
}

/// The frozen model of a drawn one: zeros until its weights are given, weights of matmuls in the type of activations, or
/// quantized.
fn frozen<M: LanguageModel>(model: &M, lora: &LoraConfig) -> M {
    let compute = model.options().precision.compute();
    let narrow = model.map_weights(|_, weight, _| match weight {
        Weight::Dense(tensor) => Weight::Dense(Tensor::zeros(compute, tensor.dims())),
        other => other.clone(),
    });
    let narrow = match &lora.base {
        Some(scheme) => narrow.quantized(scheme),
        None => narrow,
    };
    narrow.map_leaves(|leaf| Tensor::zeros(leaf.dtype(), leaf.dims()))
}
