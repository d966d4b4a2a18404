//! `tpu generate`: text from a folder of weights or a trained model, many prompts at once.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions as FileOptions};
use std::io::{BufRead, BufReader, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use infer::{
    ChatTemplate, DraftOptions, Engine, FinishReason, InferenceOptions, KvLayout, Message, OpenOptions, OpenedModel,
    OutputFormat, PromptImage, Request, RequestId, SamplingOptions, StageHosts, TokenEvent, TokenProbability,
};
use nn::LayerIteration;
use nn::layers::KvCacheDType;
use nn::models::RunOptions;
use runtime::Backend;
use runtime::config::Config;
use runtime::distributed::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::{GenerateArgs, ModelArgs, SamplingArgs};
use crate::commands;
use crate::commands::key;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;

/// Tokens of a prompt that are read before others are decoded again.
const PREFILL_CHUNK: usize = 512;
/// Longest line of a file of prompts.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Longest file of a schema.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// What `--json` prints, one line a prompt, and what `--out` writes.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    prompt: &'a str,
    text: &'a str,
    tokens: Vec<u32>,
    finish_reason: FinishReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_probabilities: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    likeliest: Vec<Vec<TokenProbability>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
}

/// One line of a file of prompts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Object(Box<LineObject>),
}

#[derive(Deserialize)]
struct LineObject {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Option<Vec<Message>>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    seed: Option<u32>,
    #[serde(default)]
    stop: Option<Vec<String>>,
    #[serde(default)]
    json_schema: Option<Value>,
}

/// A prompt, and what came of it.
struct Asked {
    id: Option<Value>,
    prompt: String,
    request: Request,
    images: Vec<PromptImage>,
    text: String,
    tokens: Vec<TokenProbability>,
    likeliest: Vec<Vec<TokenProbability>>,
    finish: Option<FinishReason>,
}

pub(crate) fn run(args: &GenerateArgs, output: &Output) -> Result<Answer, Failure> {
    let device = device_config(&args.model)?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let source = open(&args.folder, &args.model)?;
    if args.chat && args.prompt.is_none() && args.prompts.is_none() {
        return talk(args, &source, &Backend::auto(&device)?, output);
    }
    let mut asked = prompts(args, &source)?;
    let mut out = args.out.as_deref().map(|path| Answers::open(path, asked.len())).transpose()?;
    let done = out.as_ref().map_or(0, |out| out.done);
    asked.drain(..done);
    if done > 0 {
        eprintln!(
            "{} has {done} answers; {} are left",
            args.out.as_deref().unwrap_or(Path::new("")).display(),
            asked.len()
        );
    }
    if asked.is_empty() {
        return Ok(Answer::Yes);
    }
    let longest = asked.iter().map(|asked| asked.request.prompt.len() + asked.request.sampling.max_tokens).max();
    let backend = Backend::auto(&device)?;
    let mut engine = load(args, &source, &backend, asked.len(), longest.unwrap_or(0))?;
    let mut of: BTreeMap<RequestId, usize> = BTreeMap::new();
    for (at, asked) in asked.iter().enumerate() {
        of.insert(engine.add_with_images(asked.request.clone(), asked.images.clone())?, at);
    }
    // One prompt for people is written as it comes.
    let streams = args.prompts.is_none() && !output.is_json();
    if streams {
        output.text(&asked[0].prompt)?;
    }
    let progress = (!streams && std::io::stderr().is_terminal()).then(Progress::start);
    let (all, mut written) = (asked.len(), 0);
    while !engine.is_idle() {
        for event in engine.step()? {
            let Some(&at) = of.get(&event.id) else { continue };
            if streams {
                output.text(&event.text)?;
            }
            asked[at].take(event);
        }
        // Answers come in the order of prompts.
        while let Some(next) = asked.get(written).filter(|next| next.finish.is_some()) {
            let record = next.record(args, &source);
            match &mut out {
                Some(out) => out.write(&record)?,
                None if output.is_json() => output.text(&line_of(&record)?)?,
                None if streams => output.text("\n")?,
                None => output.text(&format!("{}{}\n", next.prompt, next.text))?,
            }
            written += 1;
        }
        if let Some(progress) = &progress {
            progress.step(&format!("{written} of {all} answers, {} at once", engine.num_running()));
        }
    }
    Ok(Answer::Yes)
}

/// The model of a folder or a file.
pub(super) fn open(folder: &str, args: &ModelArgs) -> Result<OpenedModel, Failure> {
    let protection = key::protection(&args.keys)?;
    let options = OpenOptions { tokenizer: args.tokenizer.as_deref(), step: args.step, protection };
    Ok(OpenedModel::open(Path::new(folder), options)?)
}

/// The devices of a model.
pub(super) fn device_config(args: &ModelArgs) -> Result<Config, Failure> {
    let device = commands::config::as_written(&args.config, args.device.as_deref())?;
    Ok(match &args.mesh {
        // The CPU pretends to be as many devices as the mesh has.
        Some(mesh) => device.cpu_devices(mesh.num_devices()),
        None => device,
    })
}

/// How a model is served, but for sizes.
pub(super) fn engine_options(args: &ModelArgs) -> Result<InferenceOptions, Failure> {
    let draft = args.draft.clone().map(|folder| DraftOptions { folder, tokens: args.draft_tokens });
    let stages = match args.stages.is_empty() {
        true => None,
        false => Some(StageHosts { addresses: args.stages.clone(), secret: secret()? }),
    };
    let kv_layout = args.kv_layout.as_deref().map(|name| {
        serde_json::from_value::<KvLayout>(Value::String(name.into()))
            .map_err(|_| Failure::new(format!("--kv-layout {name} is no layout")).hint("give pages or rows"))
    });
    Ok(InferenceOptions {
        run: run_options(args)?,
        mesh: args.mesh.clone(),
        stages,
        draft,
        kv_layout: kv_layout.transpose()?,
        page_size: args.page_size,
        pages: args.kv_pages,
        host_pages: args.kv_host_pages,
        ..InferenceOptions::default()
    })
}

/// The secret that the hosts of a pipeline share.
pub(super) fn secret() -> Result<Secret, Failure> {
    Secret::from_environment(|name| std::env::var(name).ok()).map_err(Failure::new)
}

/// How a model is run.
pub(super) fn run_options(args: &ModelArgs) -> Result<RunOptions, Failure> {
    let kv_cache = args.kv_cache.as_deref().map(|name| {
        serde_json::from_value::<KvCacheDType>(Value::String(name.into())).map_err(|_| {
            Failure::new(format!("--kv-cache {name} is not a type")).hint("give bf16, f32, int8, int4 or fp8")
        })
    });
    let layers = if args.unroll_layers { LayerIteration::Unrolled } else { LayerIteration::Auto };
    Ok(RunOptions { precision: args.precision, kv_cache: kv_cache.transpose()?, layers, ..RunOptions::default() })
}

/// An engine with room for the longest sequence.
fn load(
    args: &GenerateArgs,
    source: &OpenedModel,
    backend: &Backend,
    prompts: usize,
    longest: usize,
) -> Result<Engine, Failure> {
    let most = source.max_positions();
    if longest > most {
        return Err(Failure::new(format!(
            "{longest} tokens of prompt and answer are over the model's {most} positions"
        ))
        .hint("shorten the prompt, or lower --max-tokens"));
    }
    let options = InferenceOptions {
        rows: args.batch.clamp(1, prompts.max(1)),
        max_length: args.max_length.unwrap_or(longest).max(2),
        prefill_chunk: PREFILL_CHUNK.min(longest.max(1)),
        ..engine_options(&args.model)?
    };
    let progress = Progress::start();
    progress.step(&format!("loading {}", args.folder));
    Ok(Engine::load(backend, source, &options)?)
}

fn sampling(args: &SamplingArgs) -> Result<SamplingOptions, Failure> {
    let format = match &args.json_schema {
        None => OutputFormat::Text,
        Some(path) => {
            let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
            let mut text = String::new();
            let file = File::open(path).map_err(|error| failed(error.to_string()))?;
            let read = file.take(MAX_SCHEMA_BYTES).read_to_string(&mut text);
            read.map_err(|error| failed(error.to_string()))?;
            OutputFormat::JsonSchema(serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?)
        }
    };
    Ok(SamplingOptions {
        max_tokens: args.max_tokens,
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repetition_penalty: args.repetition_penalty,
        presence_penalty: args.presence_penalty,
        frequency_penalty: args.frequency_penalty,
        seed: args.seed,
        stop: args.stop.clone(),
        ignore_eos: args.ignore_eos,
        log_probabilities: args.logprobs.unwrap_or(0),
        logit_bias: BTreeMap::new(),
        format,
    })
}

fn template(source: &OpenedModel) -> Result<&ChatTemplate, Failure> {
    source.chat().ok_or_else(|| {
        Failure::new("the folder has no chat template")
            .hint("leave out --chat and give prompts as the model was trained on")
    })
}

fn message(role: &str, text: &str) -> Message {
    Message { role: role.into(), content: text.into(), rest: serde_json::Map::new() }
}

fn opening(args: &GenerateArgs) -> Vec<Message> {
    args.system.iter().map(|system| message("system", system)).collect()
}

impl Asked {
    fn new(
        source: &OpenedModel,
        prompt: String,
        messages: Option<&[Message]>,
        images: Vec<PromptImage>,
        sampling: SamplingOptions,
    ) -> Result<Asked, Failure> {
        // A template writes the tokens that begin a text itself.
        let tokens = match messages {
            Some(messages) => {
                let text = template(source)?.render(messages, None)?;
                source.needed_tokenizer()?.encode(&text).map_err(infer::Error::from)?
            }
            None => source.encode(&prompt)?,
        };
        let tokens = source.with_image_tokens(tokens, images.len())?;
        let request = Request { prompt: tokens, sampling };
        Ok(Asked {
            id: None,
            prompt,
            request,
            images,
            text: String::new(),
            tokens: Vec::new(),
            likeliest: Vec::new(),
            finish: None,
        })
    }

    fn take(&mut self, event: TokenEvent) {
        self.text.push_str(&event.text);
        self.tokens.extend(event.token);
        if !event.likeliest.is_empty() {
            self.likeliest.push(event.likeliest);
        }
        self.finish = self.finish.or(event.finish);
    }

    fn record(&self, args: &GenerateArgs, source: &OpenedModel) -> Record<'_> {
        let checkpoint = source.run().map(|run| run.checkpoint());
        Record {
            version: 1,
            id: self.id.as_ref(),
            prompt: &self.prompt,
            text: &self.text,
            tokens: self.tokens.iter().map(|token| token.token).collect(),
            finish_reason: self.finish.unwrap_or(FinishReason::Cancelled),
            log_probabilities: args
                .sampling
                .logprobs
                .map(|_| self.tokens.iter().map(|token| token.log_probability).collect()),
            likeliest: self.likeliest.clone(),
            checkpoint: checkpoint.map(|saved| saved.address()),
            step: checkpoint.map(|saved| saved.step()),
        }
    }
}

fn line_of(record: &Record<'_>) -> Result<String, Failure> {
    Ok(serde_json::to_string(record).map_err(Failure::new)? + "\n")
}

/// Images of a prompt.
fn read_images(files: &[PathBuf], source: &OpenedModel) -> Result<Vec<PromptImage>, Failure> {
    let read = |path: &PathBuf| {
        let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
        let reader = source.needed_images()?;
        let file = read_image_file(path)?;
        reader.read(&file).map_err(|error| match error.remedy() {
            Some(remedy) => failed(error.to_string()).hint(&remedy),
            None => failed(error.to_string()),
        })
    };
    files.iter().map(read).collect()
}

/// The bytes of an image file.
pub(super) fn read_image_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let most = infer::MAX_IMAGE_FILE_BYTES as u64;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > most {
        return Err(failed(format!("it is longer than {most} bytes")).hint("give a smaller image"));
    }
    Ok(bytes)
}

/// All prompts, checked before any is answered.
fn prompts(args: &GenerateArgs, source: &OpenedModel) -> Result<Vec<Asked>, Failure> {
    let Some(path) = &args.prompts else {
        let Some(prompt) = args.prompt.clone() else {
            return Err(Failure::new("there is no prompt").hint("give --prompt TEXT, --prompts FILE.jsonl, or --chat"));
        };
        let images = read_images(&args.image, source)?;
        let asked = match images.len() {
            0 => message("user", &prompt),
            // As templates of models that read images want it.
            count => {
                let mut parts = vec![json!({"type": "image"}); count];
                parts.push(json!({"type": "text", "text": prompt}));
                Message { content: parts.into(), ..message("user", "") }
            }
        };
        let messages = args.chat.then(|| [opening(args), vec![asked]].concat());
        return Ok(vec![Asked::new(source, prompt, messages.as_deref(), images, sampling(&args.sampling)?)?]);
    };
    let failed = |number: usize, why: String| {
        Failure::new(format!("{}, line {number}: {why}", path.display()))
            .hint(r#"each line is a JSON text, or an object such as {"prompt": "..."} or {"messages": [...]}"#)
    };
    let file = File::open(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let mut reader = BufReader::new(file);
    let usual = sampling(&args.sampling)?;
    let mut all = Vec::new();
    for number in 1.. {
        let mut line = String::new();
        let read = (&mut reader)
            .take(MAX_LINE_BYTES)
            .read_line(&mut line)
            .map_err(|error| failed(number, error.to_string()))?;
        if read == 0 {
            break;
        }
        if read as u64 >= MAX_LINE_BYTES {
            return Err(failed(number, format!("it is longer than {MAX_LINE_BYTES} bytes")));
        }
        if line.trim().is_empty() {
            continue;
        }
        let parsed: Line = serde_json::from_str(&line).map_err(|error| failed(number, error.to_string()))?;
        let mut sampling = usual.clone();
        let (id, prompt, messages) = match parsed {
            Line::Text(prompt) => (None, prompt, None),
            Line::Object(object) => {
                let LineObject { id, prompt, messages, max_tokens, temperature, seed, stop, json_schema } = *object;
                sampling.max_tokens = max_tokens.unwrap_or(sampling.max_tokens);
                sampling.temperature = temperature.unwrap_or(sampling.temperature);
                sampling.seed = seed.unwrap_or(sampling.seed);
                sampling.stop = stop.unwrap_or(sampling.stop);
                sampling.format = json_schema.map_or(sampling.format, OutputFormat::JsonSchema);
                match (prompt, messages) {
                    (Some(prompt), None) => (id, prompt, None),
                    (None, Some(messages)) => {
                        let last = messages.last().map(|message| match &message.content {
                            Value::String(text) => text.clone(),
                            other => other.to_string(),
                        });
                        (id, last.unwrap_or_default(), Some(messages))
                    }
                    (Some(_), Some(_)) => return Err(failed(number, "it has both prompt and messages".into())),
                    (None, None) => return Err(failed(number, "it has neither prompt nor messages".into())),
                }
            }
        };
        let messages = match messages {
            None if args.chat => Some([opening(args), vec![message("user", &prompt)]].concat()),
            messages => messages,
        };
        sampling.check().map_err(|error| failed(number, error.to_string()))?;
        let asked = Asked { id, ..Asked::new(source, prompt, messages.as_deref(), Vec::new(), sampling)? };
        let (length, most) = (asked.request.prompt.len() + asked.request.sampling.max_tokens, source.max_positions());
        if asked.request.prompt.is_empty() {
            return Err(failed(number, "the prompt has no tokens".into()));
        }
        if length > most {
            let why = format!("{length} tokens of prompt and answer are over the model's {most} positions");
            return Err(Failure::new(format!("{}, line {number}: {why}", path.display()))
                .hint("shorten the prompt, or lower --max-tokens"));
        }
        all.push(asked);
    }
    match all.is_empty() {
        true => Err(Failure::new(format!("{} has no prompts", path.display())).hint("write one JSON a line")),
        false => Ok(all),
    }
}

/// A file of answers that is continued.
struct Answers {
    file: File,
    done: usize,
}

impl Answers {
    /// Opens a file with at most so many answers; a line that was not written to its end is cut off.
    fn open(path: &Path, all: usize) -> Result<Answers, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        let mut file =
            FileOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let (mut done, mut whole) = (0, 0);
        let mut reader = BufReader::new(&file);
        loop {
            let mut line = String::new();
            let read = (&mut reader).take(MAX_LINE_BYTES).read_line(&mut line).map_err(failed)?;
            if read == 0 || !line.ends_with('\n') {
                break;
            }
            serde_json::from_str::<serde::de::IgnoredAny>(&line).map_err(|error| {
                Failure::new(format!("{}, line {}: {error}", path.display(), done + 1))
                    .hint("it is not a file of answers: give another --out")
            })?;
            (done, whole) = (done + 1, whole + read as u64);
        }
        if done > all {
            return Err(Failure::new(format!("{} has {done} answers, and there are {all} prompts", path.display()))
                .hint("it belongs to other prompts: give another --out"));
        }
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Answers { file, done })
    }

    fn write(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        self.file.write_all(line_of(record)?.as_bytes()).map_err(|error| Failure::new(format!("--out: {error}")))
    }
}

/// A conversation: lines of standard input, answers on standard output.
fn talk(args: &GenerateArgs, source: &OpenedModel, backend: &Backend, output: &Output) -> Result<Answer, Failure> {
    template(source)?;
    let length = args.max_length.unwrap_or_else(|| source.max_positions().min(4096));
    let mut engine = load(args, source, backend, 1, length)?;
    let mut messages = opening(args);
    let is_terminal = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock();
    loop {
        if is_terminal {
            eprint!("> ");
        }
        let mut line = String::new();
        let read = (&mut lines).take(MAX_LINE_BYTES).read_line(&mut line);
        if read.map_err(|error| Failure::new(format!("standard input: {error}")))? == 0 {
            return Ok(Answer::Yes);
        }
        let said = line.trim();
        if said.is_empty() {
            continue;
        }
        messages.push(message("user", said));
        let mut asked = Asked::new(source, said.to_string(), Some(&messages), Vec::new(), sampling(&args.sampling)?)?;
        let room = length.saturating_sub(asked.request.prompt.len());
        asked.request.sampling.max_tokens = asked.request.sampling.max_tokens.min(room);
        engine.add(asked.request.clone())?;
        while !engine.is_idle() {
            for event in engine.step()? {
                if !output.is_json() {
                    output.text(&event.text)?;
                }
                asked.take(event);
            }
        }
        match output.is_json() {
            true => output.text(&line_of(&asked.record(args, source))?)?,
            false => output.text("\n")?,
        }
        messages.push(message("assistant", &asked.text));
    }
}
