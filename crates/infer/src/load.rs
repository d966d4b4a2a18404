//! A model on its way to the devices: sizes first, then whether it fits, then its parameters one by one, each device its part.

use std::sync::Arc;

use nn::hf::{DenseOrder, Family, FileBlocks, ModelConfig, ParameterReader};
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama};
use nn::quant::{ActivationQuant, MapWeights};
use runtime::{Backend, TreeArrays};
use tensor::{DType, Literal, Spec};
use trace::{CompileTarget, Key, Mesh, Tensor, Tree};
use train::TrainedModel;
use weights::TensorRegion;
use weights::quant::QuantizedFolder;

use crate::draft::{Drafter, ModelDrafter};
use crate::error::Error;
use crate::fit::{EngineMemory, ModelBytes, PagePool};
use crate::options::{DraftOptions, InferenceOptions};
use crate::sharding::{EngineSharding, MeshRules};
use crate::sizes::{MAX_DRAFT_TOKENS, StepSizes};
use crate::source::{OpenOptions, OpenedModel};
use crate::steps::{ModelSteps, Steps};

/// What [`load`] gives.
pub(crate) struct LoadedSteps {
    pub(crate) steps: Box<dyn Steps>,
    pub(crate) sizes: StepSizes,
    /// Of the KV cache on each device.
    pub(crate) cache_bytes: u64,
}

/// A model's programs, with its parameters on the devices, their sizes, and the bytes of its KV cache.
pub(crate) fn load(
    backend: &Backend,
    source: &OpenedModel,
    options: &InferenceOptions,
    sizes: StepSizes,
) -> Result<LoadedSteps, Error> {
    let draft = options.draft.as_ref().map(|draft| open_draft(draft, source, sizes)).transpose()?;
    let loading = Loading { backend, options, sizes, draft: draft.as_ref(), source };
    let run = source.run_options(&options.run);
    match source.config() {
        ModelConfig::Gpt2(config) => {
            let model = trace::shapes_of(&(), |()| Gpt2::init(&no_key(), config, &run))?;
            loading.model(&model)
        }
        ModelConfig::Llama(config) => {
            let model = trace::shapes_of(&(), |()| Llama::init(&no_key(), config, &run))?;
            loading.model(&model)
        }
        ModelConfig::Gemma4(config) => {
            let model = trace::shapes_of(&(), |()| Gemma4::init(&no_key(), config, &run))?;
            loading.model(&model)
        }
    }
}

/// A model with its parameters on one device.
pub(crate) fn placed<M: LanguageModel>(backend: &Backend, source: &OpenedModel, model: &M) -> Result<M, Error> {
    ModelWeights::open(source, model, DenseOrder::InOut, kept_blocks(backend, None))?.placed(backend, None)
}

/// A model of a folder with its parameters on one device, sent one by one.
pub(crate) fn placed_from<M: Tree + MapWeights>(
    backend: &Backend,
    files: &QuantizedFolder,
    family: Family,
    model: &M,
    activations: ActivationQuant,
) -> Result<M, Error> {
    let blocks = kept_blocks(backend, None);
    let mut reader = ParameterReader::open_blocks(files, family, model, activations, DenseOrder::InOut, blocks)?;
    let mut arrays = Vec::new();
    for path in reader.model().paths() {
        arrays.push(backend.send(&Arc::new(reader.read(&path)?))?);
    }
    Ok(reader.model().with_arrays(arrays)?)
}

/// Whether blocks of files stay as they are: our CPU device multiplies with them.
fn kept_blocks(backend: &Backend, mesh: Option<&Mesh>) -> FileBlocks {
    match backend.compile_target() {
        CompileTarget::Cpu if mesh.is_none() => FileBlocks::Kept,
        _ => FileBlocks::Unpacked,
    }
}

fn no_key() -> Key {
    Key::from_seed(&Tensor::scalar(DType::U32, 0.0))
}

/// The model that drafts, if it can.
fn open_draft(draft: &DraftOptions, source: &OpenedModel, sizes: StepSizes) -> Result<OpenedModel, Error> {
    if draft.tokens == 0 || draft.tokens > MAX_DRAFT_TOKENS {
        return Err(Error::setting(
            format!("{} tokens are to be drafted", draft.tokens),
            format!("give --draft-tokens from 1 to {MAX_DRAFT_TOKENS}"),
        ));
    }
    // The model that verifies has the tokenizer.
    let opened = OpenedModel::open(&draft.folder, OpenOptions { tokenizer: Some("bytes"), ..OpenOptions::default() })?;
    let name = draft.folder.display();
    let most = opened.max_positions();
    if sizes.max_length > most {
        return Err(Error::setting(
            format!("the draft model {name} has {most} positions, and sequences may have {}", sizes.max_length),
            format!("give --max-length of at most {most}, or another draft model"),
        ));
    }
    // Embeddings are padded to round numbers, each model to its own; other tokenizers are further apart.
    let (own, of_draft) = (source.vocab_size(), opened.vocab_size());
    if own.abs_diff(of_draft) > own / 64 {
        return Err(Error::setting(
            format!("the draft model {name} knows {of_draft} tokens, and the model {own}"),
            "give a draft model with the same tokenizer",
        ));
    }
    Ok(opened)
}

/// What is loaded, and onto what.
struct Loading<'a> {
    backend: &'a Backend,
    options: &'a InferenceOptions,
    sizes: StepSizes,
    source: &'a OpenedModel,
    draft: Option<&'a OpenedModel>,
}

impl Loading<'_> {
    fn model<M: LanguageModel + 'static>(&self, model: &M) -> Result<LoadedSteps, Error> {
        match self.draft.map(|draft| (draft, draft.config(), draft.run_options(&self.options.run))) {
            None => self.with_draft(model, None::<(&OpenedModel, Llama)>),
            Some((draft, ModelConfig::Gpt2(config), run)) => {
                let drafting = trace::shapes_of(&(), |()| Gpt2::init(&no_key(), config, &run))?;
                self.with_draft(model, Some((draft, drafting)))
            }
            Some((draft, ModelConfig::Llama(config), run)) => {
                let drafting = trace::shapes_of(&(), |()| Llama::init(&no_key(), config, &run))?;
                self.with_draft(model, Some((draft, drafting)))
            }
            Some((draft, ModelConfig::Gemma4(config), run)) => {
                let drafting = trace::shapes_of(&(), |()| Gemma4::init(&no_key(), config, &run))?;
                self.with_draft(model, Some((draft, drafting)))
            }
        }
    }

    fn with_draft<M: LanguageModel + 'static, D: LanguageModel + 'static>(
        &self,
        model: &M,
        draft: Option<(&OpenedModel, D)>,
    ) -> Result<LoadedSteps, Error> {
        let Loading { backend, sizes, source, .. } = *self;
        // What GPUs and CPUs read fastest, and loading turns nothing; rules of meshes know the axes of layers.
        let order = match backend.compile_target() {
            CompileTarget::Cuda | CompileTarget::Cpu if self.options.mesh.is_none() => DenseOrder::OutIn,
            _ => DenseOrder::InOut,
        };
        let blocks = kept_blocks(backend, self.options.mesh.as_ref());
        let mut weights = ModelWeights::open(source, model, order, blocks)?;
        let mut of_draft =
            draft.map(|(source, model)| ModelWeights::open(source, &model, order, blocks)).transpose()?;
        let on_mesh = |rules: MeshRules| EngineSharding::new(backend, rules);
        let mesh: Option<&Mesh> = self.options.mesh.as_ref();
        let rules = mesh.map(|mesh| MeshRules::new(mesh, weights.model(), &backend.site())).transpose()?;
        let on = rules.map(on_mesh).transpose()?;
        // A draft model is small: each device has all of it, so that drafting needs no collectives.
        let draft_on = match (mesh, &of_draft) {
            (Some(mesh), Some(draft)) => Some(on_mesh(MeshRules::replicated(mesh, draft.model()))?),
            _ => None,
        };
        let vocabulary = source.vocab_size();
        let shapes =
            |sizes: StepSizes| ModelSteps::of_shapes(backend, on.clone(), weights.model().clone(), vocabulary, sizes);
        let mut tried: Option<(StepSizes, ModelSteps<M>)> = None;
        let sizes = match EngineMemory::of(backend) {
            None => sizes,
            Some(memory) => {
                let bytes_of = |sizes: StepSizes| {
                    let beside = match &of_draft {
                        Some(draft) => {
                            ModelBytes::of(draft.model(), sizes, draft_on.as_ref().map(EngineSharding::rules))?
                        }
                        None => ModelBytes::default(),
                    };
                    let own = ModelBytes::of(weights.model(), sizes, on.as_ref().map(EngineSharding::rules))?;
                    Ok::<_, Error>((own, beside))
                };
                let pool = if self.options.pages.is_some() { PagePool::AsAsked } else { PagePool::AsFits };
                memory.fitted(weights.model(), sizes, pool, &bytes_of, &mut |sizes| {
                    let (_, steps) = tried.insert((sizes, shapes(sizes)?));
                    steps.temporary_bytes()
                })?
            }
        };
        let mut steps = match tried {
            Some((of, steps)) if of == sizes => steps,
            _ => shapes(sizes)?,
        };
        let cache_bytes = ModelBytes::of(weights.model(), sizes, on.as_ref().map(EngineSharding::rules))?.cache;
        let drafter = match (&mut of_draft, &self.options.draft) {
            (Some(draft), Some(options)) => {
                let model = draft.placed(backend, draft_on.as_ref())?;
                let drafter = ModelDrafter::new(backend, draft_on, model, (vocabulary, options.tokens), sizes)?;
                Some(Box::new(drafter) as Box<dyn Drafter>)
            }
            _ => None,
        };
        steps.takes_given(source.images().map(|images| images.config().text_width));
        steps.start(weights.placed(backend, on.as_ref())?, drafter)?;
        Ok(LoadedSteps { steps: Box::new(steps), sizes, cache_bytes })
    }
}

/// The parameters of a model where they are stored.
enum ModelWeights<'a, M> {
    Folder(ParameterReader<'a, M>),
    Run(&'a TrainedModel, M),
}

impl<'a, M: LanguageModel> ModelWeights<'a, M> {
    /// The parameters of a model that is known by types and shapes: all are there, none is read.
    fn open(
        source: &'a OpenedModel,
        model: &M,
        order: DenseOrder,
        blocks: FileBlocks,
    ) -> Result<ModelWeights<'a, M>, Error> {
        Ok(match source {
            OpenedModel::Folder { folder, .. } => ModelWeights::Folder(ParameterReader::open_blocks(
                &folder.files,
                folder.family(),
                model,
                folder.activations(),
                order,
                blocks,
            )?),
            OpenedModel::Run { run, .. } => ModelWeights::Run(run, model.clone()),
        })
    }

    /// The model, with weights as the files have them, dense or quantized.
    fn model(&self) -> &M {
        match self {
            ModelWeights::Folder(reader) => reader.model(),
            ModelWeights::Run(_, model) => model,
        }
    }

    fn read(&mut self, path: &str, spec: &Spec, region: &TensorRegion) -> Result<Literal, Error> {
        let is_whole = region.size == spec.dims;
        Ok(match self {
            ModelWeights::Folder(reader) if is_whole => reader.read(path)?,
            ModelWeights::Folder(reader) => reader.read_region(path, region)?,
            ModelWeights::Run(run, _) => run.read_region(path, region, spec.dtype).map_err(runtime::Error::from)?,
        })
    }

    /// Sends the parameters one by one, each device its part; no more than one is on the host at a time.
    fn placed(&mut self, backend: &Backend, on: Option<&EngineSharding>) -> Result<M, Error> {
        let model = self.model().clone();
        let mut arrays = Vec::new();
        for (path, spec) in model.paths().into_iter().zip(model.specs()) {
            arrays.push(match on {
                None => {
                    let whole = self.read(&path, &spec, &TensorRegion::whole(&spec.dims))?;
                    backend.send(&Arc::new(whole))?
                }
                Some(on) => {
                    let sharding = on.rules().parameter(&path, &spec.dims)?;
                    let mut failed = None;
                    let sent = backend.send_parts(on.mesh(), &sharding, &spec, &mut |region| {
                        self.read(&path, &spec, region).map(Arc::new).map_err(|error| {
                            failed = Some(error);
                            runtime::ValidationError::Other(format!("reading `{path}`")).into()
                        })
                    });
                    match failed {
                        Some(error) => return Err(error),
                        None => sent?,
                    }
                }
            });
        }
        Ok(model.with_arrays(arrays)?)
    }
}
