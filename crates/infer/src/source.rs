//! Where a model comes from: a Hugging Face folder, a GGUF file, or the folder of a `tpu train` run.

use std::path::Path;
use std::sync::Arc;

use data::{Tokenizer, check_vocab_size};
use nn::hf::ModelConfig;
use nn::models::RunOptions;
use quantize::pipeline::{ModelFolder, tokenizer_of};
use serde_json::Value;
use train::TrainedModel;
use weights::Protection;

use crate::chat::ChatTemplate;
use crate::constraint::Constraints;
use crate::error::Error;
use crate::images::ImageReader;
use crate::settings::read_json;

/// What to open.
#[derive(Debug, Default)]
pub struct OpenOptions<'a> {
    /// A `tokenizer.json`, or the word `bytes`; the model's own if absent.
    pub tokenizer: Option<&'a str>,
    /// Of the checkpoint of a run: the newest good one if absent.
    pub step: Option<u64>,
    /// Keys of the checkpoints of a run.
    pub protection: Protection,
}

/// A model, its tokenizer, and how its texts end.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has one or two of these")]
pub enum OpenedModel {
    /// Weights as others publish them.
    Folder {
        /// Its files.
        folder: Arc<ModelFolder>,
        /// What goes with them.
        text: TextParts,
        /// How it takes images, if it does.
        images: Option<ImageReader>,
    },
    /// A checkpoint of a training here.
    Run {
        /// Its parameters.
        run: Arc<TrainedModel>,
        /// What goes with them.
        text: TextParts,
    },
}

/// The parameters of a model where they are stored; threads share it.
#[derive(Clone)]
pub(crate) enum ModelSource {
    Folder(Arc<ModelFolder>),
    Run(Arc<TrainedModel>),
}

impl ModelSource {
    pub(crate) fn config(&self) -> &ModelConfig {
        match self {
            ModelSource::Folder(folder) => &folder.config,
            ModelSource::Run(run) => run.config(),
        }
    }

    /// How the model is run: as it was trained, or as asked.
    pub(crate) fn run_options(&self, asked: &RunOptions) -> RunOptions {
        match self {
            ModelSource::Folder(_) => asked.clone(),
            ModelSource::Run(run) => {
                let RunOptions { kv_cache, longest_sequence, .. } = *asked;
                RunOptions { kv_cache, longest_sequence, ..run.options().clone() }
            }
        }
    }
}

/// What turns text into tokens and back.
#[derive(Debug)]
pub struct TextParts {
    tokenizer: Option<Tokenizer>,
    begin_token: Option<u32>,
    end_tokens: Vec<u32>,
    chat: Option<ChatTemplate>,
    constraints: Arc<Constraints>,
}

impl TextParts {
    fn new(
        tokenizer: Option<Tokenizer>,
        end_tokens: Vec<u32>,
        chat: Option<ChatTemplate>,
        vocabulary: usize,
    ) -> TextParts {
        let constraints = Arc::new(Constraints::new(tokenizer.clone(), &end_tokens, vocabulary));
        TextParts { tokenizer, begin_token: None, end_tokens, chat, constraints }
    }
}

impl OpenedModel {
    /// Opens a folder or a file.
    pub fn open(path: &Path, options: OpenOptions<'_>) -> Result<OpenedModel, Error> {
        let is_run = path.join("checkpoints").exists() || path.to_string_lossy().contains("://");
        let is_model = path.join("config.json").is_file() || path.is_file();
        if is_run || !is_model && path.is_dir() {
            let run = TrainedModel::open(&path.to_string_lossy(), options.step, options.tokenizer, options.protection)?;
            let vocabulary = run.config().vocab_size();
            let text = TextParts::new(Some(run.tokenizer().clone()), Vec::new(), None, vocabulary);
            return Ok(OpenedModel::Run { run: Arc::new(run), text });
        }
        let folder = ModelFolder::open(path)?;
        let tokenizer = tokenizer_of(&folder, options.tokenizer)?;
        if let Some(tokenizer) = &tokenizer {
            let vocabulary = folder.vocab_size() as u32;
            // Padded embeddings are common, missing rows are not; bytes may meet a smaller toy.
            if options.tokenizer.is_none_or(|name| name != "bytes") {
                check_vocab_size(tokenizer, vocabulary)?;
            }
        }
        let settings = read_json(&path.join("generation_config.json"))?;
        let mut end_tokens = settings.as_ref().map_or(Vec::new(), |settings| tokens_of(settings.get("eos_token_id")));
        if end_tokens.is_empty() {
            end_tokens = tokens_of(folder.json.get("eos_token_id"));
        }
        // Models that read images say it of their model of text.
        if end_tokens.is_empty() {
            end_tokens = tokens_of(folder.json.pointer("/text_config/eos_token_id"));
        }
        let chat = ChatTemplate::open(path)?;
        let of_settings = settings.as_ref().and_then(|settings| settings.get("bos_token_id"));
        let named = [folder.json.get("bos_token_id"), of_settings, folder.json.pointer("/text_config/bos_token_id")];
        let begin_token = named.into_iter().flat_map(tokens_of).next();
        let text = TextParts::new(tokenizer, end_tokens, chat, folder.config.vocab_size());
        let text = TextParts { begin_token, ..text };
        let images = ImageReader::open(path, &folder.json)?;
        Ok(OpenedModel::Folder { folder: Arc::new(folder), text, images })
    }

    fn text(&self) -> &TextParts {
        match self {
            OpenedModel::Folder { text, .. } | OpenedModel::Run { text, .. } => text,
        }
    }

    /// Its sizes.
    pub fn config(&self) -> &ModelConfig {
        match self {
            OpenedModel::Folder { folder, .. } => &folder.config,
            OpenedModel::Run { run, .. } => run.config(),
        }
    }

    /// Tokens of its vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.config().vocab_size()
    }

    /// Positions of its longest sequence.
    pub fn max_positions(&self) -> usize {
        self.config().max_positions()
    }

    /// The checkpoint of a run.
    pub fn run(&self) -> Option<&TrainedModel> {
        match self {
            OpenedModel::Folder { .. } => None,
            OpenedModel::Run { run, .. } => Some(run.as_ref()),
        }
    }

    /// Text to tokens and back; `None` where the folder has no tokenizer and none was named.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.text().tokenizer.as_ref()
    }

    /// Tokens that end a text.
    pub fn end_tokens(&self) -> &[u32] {
        &self.text().end_tokens
    }

    /// The token that begins a text, else one that ends it: what a model is given where there is nothing before.
    pub fn begin_token(&self) -> Option<u32> {
        self.text().begin_token.or(self.end_tokens().first().copied())
    }

    /// What makes answers of a form.
    pub(crate) fn constraints(&self) -> &Arc<Constraints> {
        &self.text().constraints
    }

    /// How the model takes images in its prompts; `None` where it reads none.
    pub fn images(&self) -> Option<&ImageReader> {
        match self {
            OpenedModel::Folder { images, .. } => images.as_ref(),
            OpenedModel::Run { .. } => None,
        }
    }

    /// A prompt with the tokens of so many images: each that it names takes as many as the image has, and images that it does not
    /// name stand before it.
    pub fn with_image_tokens(&self, prompt: Vec<u32>, images: usize) -> Result<Vec<u32>, Error> {
        match self {
            _ if images == 0 => Ok(prompt),
            OpenedModel::Folder { images: Some(reader), text, .. } => {
                reader.expanded(&prompt, images, text.begin_token)
            }
            _ => Err(self.no_images()),
        }
    }

    /// How the model takes images, or what to do where it reads none.
    pub fn needed_images(&self) -> Result<&ImageReader, Error> {
        self.images().ok_or_else(|| self.no_images())
    }

    fn no_images(&self) -> Error {
        Error::setting("the model reads no images", "leave them out, or give a model that does, such as a LLaVA")
    }

    /// How messages become a prompt; `None` where the folder has no template.
    pub fn chat(&self) -> Option<&ChatTemplate> {
        self.text().chat.as_ref()
    }

    /// How the model is run: as it was trained, or as asked.
    pub(crate) fn run_options(&self, asked: &RunOptions) -> RunOptions {
        self.weights().run_options(asked)
    }

    /// Its parameters where they are stored.
    pub(crate) fn weights(&self) -> ModelSource {
        match self {
            OpenedModel::Folder { folder, .. } => ModelSource::Folder(folder.clone()),
            OpenedModel::Run { run, .. } => ModelSource::Run(run.clone()),
        }
    }

    /// The tokens of a prompt, with those that begin a text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.needed_tokenizer()?.encode_text(text)?)
    }

    /// The tokenizer, or what to do without.
    pub fn needed_tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.tokenizer().ok_or_else(|| {
            Error::setting("the folder has no tokenizer.json", "give --tokenizer FILE, or --tokenizer bytes")
        })
    }
}

/// A token or a list of them.
fn tokens_of(value: Option<&Value>) -> Vec<u32> {
    let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    match value {
        Some(Value::Array(all)) => all.iter().filter_map(token).collect(),
        Some(one) => token(one).into_iter().collect(),
        None => Vec::new(),
    }
}
