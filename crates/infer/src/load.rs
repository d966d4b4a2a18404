//! A model on its way to the devices: sizes first, then whether it fits, then its parameters one by one, each device its part.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use nn::hf::{DenseOrder, Family, FileBlocks, ModelConfig, ParameterReader};
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama, ModelPart, RunOptions};
use nn::quant::{ActivationQuant, MapWeights};
use runtime::mesh::DeviceMesh;
use runtime::{Backend, TreeArrays};
use tensor::{DType, Literal};
use trace::{CompileTarget, Key, Site, Tensor, Tree};
use train::TrainedModel;
use weights::TensorRegion;
use weights::quant::QuantizedFolder;

use crate::draft::{Drafter, ModelDrafter};
use crate::error::Error;
use crate::fit::{EngineMemory, ModelBytes, PagePool};
use crate::options::{DraftOptions, InferenceOptions};
use crate::sharding::{EngineSharding, MeshRules};
use crate::sizes::{MAX_DRAFT_TOKENS, StepSizes};
use crate::source::{ModelSource, OpenOptions, OpenedModel};
use crate::steps::{ModelSteps, Steps};

/// Where models have their final norm.
const FINAL_NORM: &str = "norm.";

/// What [`load`] gives.
pub(crate) struct LoadedSteps {
    pub(crate) steps: Box<dyn Steps>,
    pub(crate) sizes: StepSizes,
    /// Of the KV cache on each device.
    pub(crate) cache_bytes: u64,
}

/// What a model takes of its devices, before any of it is loaded.
pub(crate) struct Fitted {
    pub(crate) sizes: StepSizes,
    /// Of the final norm, which every part of a model has: that of another model differs.
    pub(crate) digest: u64,
}

/// What is loaded, and onto what.
pub(crate) struct LoadRequest<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) source: &'a ModelSource,
    /// How the model is run.
    pub(crate) run: &'a RunOptions,
    /// One device if absent.
    pub(crate) mesh: Option<&'a Arc<DeviceMesh>>,
    /// The layers of a pipeline stage; all if absent.
    pub(crate) part: Option<&'a ModelPart>,
    pub(crate) sizes: StepSizes,
    pub(crate) pool: PagePool,
    /// The width of what may stand for tokens, where something may.
    pub(crate) given_width: Option<usize>,
}

/// A model's programs, with its parameters on the devices, their sizes, and the bytes of its KV cache.
pub(crate) fn load(
    backend: &Backend,
    source: &OpenedModel,
    options: &InferenceOptions,
    sizes: StepSizes,
) -> Result<LoadedSteps, Error> {
    let draft = options.draft.as_ref().map(|draft| open_draft(draft, source, sizes)).transpose()?;
    let draft = draft.as_ref().map(OpenedModel::weights).zip(options.draft.as_ref().map(|draft| draft.tokens));
    let mesh = options.mesh.as_ref().map(|mesh| backend.mesh(mesh)).transpose()?;
    let request = LoadRequest {
        backend,
        source: &source.weights(),
        run: &options.run,
        mesh: mesh.as_ref(),
        part: None,
        sizes,
        pool: PagePool::of(options),
        given_width: source.images().map(|images| images.config().text_width),
    };
    load_part(&request, draft.as_ref(), &mut |fitted| Ok(fitted.sizes))
}

/// The same of a part of a model, or all of it. `agree` is told the sizes with which it fits, and says with which it is loaded.
pub(crate) fn load_part(
    request: &LoadRequest<'_>,
    draft: Option<&(ModelSource, usize)>,
    agree: &mut dyn FnMut(Fitted) -> Result<StepSizes, Error>,
) -> Result<LoadedSteps, Error> {
    let loading = Loading { request, draft };
    let run = request.source.run_options(request.run);
    match request.source.config() {
        ModelConfig::Gpt2(config) => {
            let model = trace::shapes_of(&(), |()| Gpt2::init(&no_key(), config, &run))?;
            loading.model(&model, agree)
        }
        ModelConfig::Llama(config) => {
            let model = trace::shapes_of(&(), |()| Llama::init(&no_key(), config, &run))?;
            loading.model(&model, agree)
        }
        ModelConfig::Gemma4(config) => {
            let model = trace::shapes_of(&(), |()| Gemma4::init(&no_key(), config, &run))?;
            loading.model(&model, agree)
        }
    }
}

/// A model with its parameters on one device.
pub(crate) fn placed<M: LanguageModel>(backend: &Backend, source: &OpenedModel, model: &M) -> Result<M, Error> {
    let source = source.weights();
    let mut weights = ModelWeights::open(&source, model, DenseOrder::InOut, kept_blocks(backend, IsSharded::No))?;
    let (model, leaves) = weights.part(None)?;
    weights.placed(backend, &model, &leaves, None)
}

/// A model of a folder with its parameters on one device, sent one by one.
pub(crate) fn placed_from<M: Tree + MapWeights>(
    backend: &Backend,
    files: &QuantizedFolder,
    family: Family,
    model: &M,
    activations: ActivationQuant,
) -> Result<M, Error> {
    let blocks = kept_blocks(backend, IsSharded::No);
    let mut reader = ParameterReader::open_blocks(files, family, model, activations, DenseOrder::InOut, blocks)?;
    let mut arrays = Vec::new();
    for path in reader.model().paths() {
        arrays.push(backend.send(&Arc::new(reader.read(&path)?))?);
    }
    Ok(reader.model().with_arrays(arrays)?)
}

/// Whether parameters lie on a mesh.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsSharded {
    Yes,
    No,
}

/// Whether blocks of files stay as they are: our CPU device multiplies with them.
fn kept_blocks(backend: &Backend, sharded: IsSharded) -> FileBlocks {
    match backend.compile_target() {
        CompileTarget::Cpu if sharded == IsSharded::No => FileBlocks::Kept,
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

/// What is loaded, and the model that drafts.
struct Loading<'a> {
    request: &'a LoadRequest<'a>,
    /// Its parameters, and the tokens that it drafts.
    draft: Option<&'a (ModelSource, usize)>,
}

type Agree<'a> = dyn FnMut(Fitted) -> Result<StepSizes, Error> + 'a;

impl Loading<'_> {
    fn model<M: LanguageModel + 'static>(&self, model: &M, agree: &mut Agree<'_>) -> Result<LoadedSteps, Error> {
        let draft = self.draft.map(|(draft, tokens)| (draft, *tokens, draft.run_options(self.request.run)));
        match draft.as_ref().map(|(draft, tokens, run)| (*draft, *tokens, draft.config(), run)) {
            None => self.with_draft(model, None::<(&ModelSource, usize, Llama)>, agree),
            Some((draft, tokens, ModelConfig::Gpt2(config), run)) => {
                let drafting = trace::shapes_of(&(), |()| Gpt2::init(&no_key(), config, run))?;
                self.with_draft(model, Some((draft, tokens, drafting)), agree)
            }
            Some((draft, tokens, ModelConfig::Llama(config), run)) => {
                let drafting = trace::shapes_of(&(), |()| Llama::init(&no_key(), config, run))?;
                self.with_draft(model, Some((draft, tokens, drafting)), agree)
            }
            Some((draft, tokens, ModelConfig::Gemma4(config), run)) => {
                let drafting = trace::shapes_of(&(), |()| Gemma4::init(&no_key(), config, run))?;
                self.with_draft(model, Some((draft, tokens, drafting)), agree)
            }
        }
    }

    fn with_draft<M: LanguageModel + 'static, D: LanguageModel + 'static>(
        &self,
        model: &M,
        draft: Option<(&ModelSource, usize, D)>,
        agree: &mut Agree<'_>,
    ) -> Result<LoadedSteps, Error> {
        let LoadRequest { backend, source, mesh, part, sizes, pool, given_width, .. } = *self.request;
        let sharded = if mesh.is_some() { IsSharded::Yes } else { IsSharded::No };
        // What GPUs and CPUs read fastest, and loading turns nothing; rules of meshes know the axes of layers.
        let order = match backend.compile_target() {
            CompileTarget::Cuda | CompileTarget::Cpu if sharded == IsSharded::No => DenseOrder::OutIn,
            _ => DenseOrder::InOut,
        };
        let blocks = kept_blocks(backend, sharded);
        let mut weights = ModelWeights::open(source, model, order, blocks)?;
        let (own, leaves) = weights.part(part)?;
        let mut of_draft = draft
            .map(|(source, tokens, model)| Ok::<_, Error>((ModelWeights::open(source, &model, order, blocks)?, tokens)))
            .transpose()?;
        let site = if part.is_some() { Site::default() } else { backend.site() };
        let on = mesh.map(|mesh| Ok::<_, Error>(EngineSharding::new(mesh, MeshRules::new(mesh.mesh(), &own, &site)?)));
        let on = on.transpose()?;
        // A draft model is small: each device has all of it, so that drafting needs no collectives.
        let draft_on = mesh
            .zip(of_draft.as_ref())
            .map(|(mesh, (draft, _))| EngineSharding::new(mesh, MeshRules::replicated(mesh.mesh(), draft.model())));
        let config = source.config();
        let (vocabulary, width) = (config.vocab_size(), config.hidden_size());
        let layers = part.cloned().unwrap_or_else(|| ModelPart::whole(1));
        let shapes = |sizes: StepSizes| {
            let model = (own.clone(), layers.clone());
            ModelSteps::of_shapes(backend, on.clone(), model, (vocabulary, width), sizes)
        };
        let mut tried: Option<(StepSizes, ModelSteps<M>)> = None;
        let sizes = match EngineMemory::of(backend) {
            None => sizes,
            Some(memory) => {
                let bytes_of = |sizes: StepSizes| {
                    let beside = match &of_draft {
                        Some((draft, _)) => {
                            ModelBytes::of(draft.model(), sizes, draft_on.as_ref().map(EngineSharding::rules))?
                        }
                        None => ModelBytes::default(),
                    };
                    let own = ModelBytes::of(&own, sizes, on.as_ref().map(EngineSharding::rules))?;
                    Ok::<_, Error>((own, beside))
                };
                memory.fitted(&own, sizes, pool, &bytes_of, &mut |sizes| {
                    let (_, steps) = tried.insert((sizes, shapes(sizes)?));
                    steps.temporary_bytes()
                })?
            }
        };
        let digest = if part.is_some() { weights.digest()? } else { 0 };
        let sizes = agree(Fitted { sizes, digest })?;
        let mut steps = match tried {
            Some((of, steps)) if of == sizes => steps,
            _ => shapes(sizes)?,
        };
        let cache_bytes = ModelBytes::of(&own, sizes, on.as_ref().map(EngineSharding::rules))?.cache;
        let drafter = match &mut of_draft {
            Some((draft, tokens)) => {
                let (model, leaves) = draft.part(None)?;
                let model = draft.placed(backend, &model, &leaves, draft_on.as_ref())?;
                let drafter = ModelDrafter::new(backend, draft_on, model, (vocabulary, *tokens), sizes)?;
                Some(Box::new(drafter) as Box<dyn Drafter>)
            }
            None => None,
        };
        steps.takes_given(given_width);
        steps.start(weights.placed(backend, &own, &leaves, on.as_ref())?, drafter)?;
        Ok(LoadedSteps { steps: Box::new(steps), sizes, cache_bytes })
    }
}

/// The parameters of a model where they are stored.
enum ModelWeights<'a, M> {
    Folder(ParameterReader<'a, M>),
    Run(&'a TrainedModel, M),
}

/// A parameter of a part of a model, where the whole model has it.
struct PartLeaf {
    path: String,
    /// Axes of the whole.
    dims: Vec<usize>,
    /// The layers of a stack that the part has; all of the parameter if absent.
    layers: Option<Range<usize>>,
}

impl<'a, M: LanguageModel> ModelWeights<'a, M> {
    /// The parameters of a model that is known by types and shapes: all are there, none is read.
    fn open(
        source: &'a ModelSource,
        model: &M,
        order: DenseOrder,
        blocks: FileBlocks,
    ) -> Result<ModelWeights<'a, M>, Error> {
        Ok(match source {
            ModelSource::Folder(folder) => ModelWeights::Folder(ParameterReader::open_blocks(
                &folder.files,
                folder.family(),
                model,
                folder.activations(),
                order,
                blocks,
            )?),
            ModelSource::Run(run) => ModelWeights::Run(run, model.clone()),
        })
    }

    /// The model, with weights as the files have them, dense or quantized.
    fn model(&self) -> &M {
        match self {
            ModelWeights::Folder(reader) => reader.model(),
            ModelWeights::Run(_, model) => model,
        }
    }

    /// The model or a part of it, known by types and shapes, and where its parameters come from.
    fn part(&self, part: Option<&ModelPart>) -> Result<(M, Vec<PartLeaf>), Error> {
        let model = self.model();
        let Some(part) = part else {
            let leaves = model.paths().into_iter().zip(model.specs());
            let leaves = leaves.map(|(path, spec)| PartLeaf { path, dims: spec.dims, layers: None });
            return Ok((model.clone(), leaves.collect()));
        };
        let mut leaves = Vec::new();
        let split = trace::shapes_of(model, |model: &M| {
            model.split(part, &mut |path, leaf, layers| {
                let (path, dims) = (path.as_str().to_string(), leaf.dims().to_vec());
                leaves.push(PartLeaf { path, dims, layers: layers.clone() });
                layers.map_or(leaf.clone(), |layers| leaf.slice(0, layers))
            })
        })?;
        let split = split.ok_or_else(|| {
            Error::setting(
                "layers of this model depend on layers far before them: it has no pipeline stages",
                "leave out the stages, and give a mesh of `model` or `expert`",
            )
        })?;
        Ok((split, leaves))
    }

    /// Stands for what is in the final norm.
    fn digest(&mut self) -> Result<u64, Error> {
        let mut hasher = DefaultHasher::new();
        let leaves = self.model().paths().into_iter().zip(self.model().specs());
        for (path, spec) in leaves.filter(|(path, _)| path.starts_with(FINAL_NORM)).collect::<Vec<_>>() {
            let leaf = PartLeaf { path, dims: spec.dims.clone(), layers: None };
            self.read(&leaf, spec.dtype, &TensorRegion::whole(&spec.dims))?.bytes().hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// What lies in a region of a parameter of the part.
    fn read(&mut self, leaf: &PartLeaf, dtype: DType, region: &TensorRegion) -> Result<Literal, Error> {
        let mut region = region.clone();
        if let (Some(layers), Some(start)) = (&leaf.layers, region.start.first_mut()) {
            *start += layers.start;
        }
        let is_whole = region.size == leaf.dims;
        Ok(match self {
            ModelWeights::Folder(reader) if is_whole => reader.read(&leaf.path)?,
            ModelWeights::Folder(reader) => reader.read_region(&leaf.path, &region)?,
            ModelWeights::Run(run, _) => run.read_region(&leaf.path, &region, dtype).map_err(runtime::Error::from)?,
        })
    }

    /// Sends the parameters of the model or a part of it one by one, each device its part; no more than one is on the host at a time.
    fn placed(
        &mut self,
        backend: &Backend,
        model: &M,
        leaves: &[PartLeaf],
        on: Option<&EngineSharding>,
    ) -> Result<M, Error> {
        let mut arrays = Vec::new();
        for ((path, spec), leaf) in model.paths().into_iter().zip(model.specs()).zip(leaves) {
            arrays.push(match on {
                None => {
                    let whole = self.read(leaf, spec.dtype, &TensorRegion::whole(&spec.dims))?;
                    backend.send(&Arc::new(whole))?
                }
                Some(on) => {
                    let sharding = on.rules().parameter(&path, &spec.dims)?;
                    let mut failed = None;
                    let sent = backend.send_parts(on.mesh(), &sharding, &spec, &mut |region| {
                        self.read(leaf, spec.dtype, region).map(Arc::new).map_err(|error| {
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
