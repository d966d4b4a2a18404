//! What is served at which path.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event as StreamEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::{self, Stream, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use telemetry::{Registry, TextFormat, to_text};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::chat::Message;
use crate::constraint::OutputFormat;
use crate::error::Error;
use crate::images::{MAX_PROMPT_IMAGES, PromptImage};
use crate::request::{Request, SamplingOptions, TokenEvent};
use crate::server::ServerOptions;
use crate::server::answers::{Api, Heading, OpenAnswer, Usage, log_probabilities};
use crate::server::asked::{ChatAsked, CompletionAsked, Prompts, Settings};
use crate::server::image_parts::take_images;
use crate::server::metrics::ServerMetrics;
use crate::server::tools::{ToolChoice, ToolReader, ToolSyntax};
use crate::server::worker::Order;
use crate::source::OpenedModel;

/// Tokens of a completion that does not say how many.
const DEFAULT_TOKENS: usize = 16;

/// What all connections share.
pub(crate) struct Shared {
    source: Arc<OpenedModel>,
    options: ServerOptions,
    /// `None` once nothing more is taken.
    orders: Mutex<Option<Sender<Order>>>,
    metrics: ServerMetrics,
    registry: Registry,
    /// Requests taken and not ended.
    open: Arc<AtomicUsize>,
    next: AtomicU64,
    has_failed: AtomicBool,
    /// Why the engine ended, and what helps.
    failure: Arc<OnceLock<String>>,
}

/// An answer that says what is wrong.
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into() }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let status = match error {
            Error::Runtime(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        let remedy = error.remedy().map_or(String::new(), |remedy| format!("; {remedy}"));
        Refusal::new(status, format!("{error}{remedy}"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let body = json!({"error": {"message": self.message, "type": kind, "param": null, "code": null}});
        let mut response = json_response(self.status, &body);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Counts a request as open until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A request that the engine took.
struct Taken {
    events: UnboundedReceiver<TokenEvent>,
    begun: Instant,
    reader: Option<ToolReader>,
    _open: Open,
}

/// A prompt as tokens, with its images.
#[derive(Default)]
struct AskedPrompt {
    tokens: Vec<u32>,
    images: Vec<PromptImage>,
}

/// What an answer has beside its text.
#[derive(Clone, Copy, Debug, Default)]
struct Extras {
    log_probabilities: bool,
    /// Calls of functions are read, as the model writes them.
    tools: Option<ToolSyntax>,
}

impl Shared {
    pub(crate) fn new(
        source: Arc<OpenedModel>,
        options: ServerOptions,
        (orders, failure): (Sender<Order>, Arc<OnceLock<String>>),
        metrics: ServerMetrics,
        registry: Registry,
    ) -> Shared {
        Shared {
            source,
            options,
            orders: Mutex::new(Some(orders)),
            metrics,
            registry,
            open: Arc::default(),
            next: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failure,
        }
    }

    /// Whether the engine ended.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// What is said to those whose requests were running when the engine ended.
    fn ended(&self) -> Refusal {
        self.has_failed.store(true, Ordering::Relaxed);
        let why = self.failure.get().map_or(String::new(), |why| format!(": {why}"));
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the engine ended{why}"))
    }

    /// Takes nothing more.
    pub(crate) fn drain(&self) {
        self.orders.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }

    fn sender(&self) -> Result<Sender<Order>, Refusal> {
        let orders = self.orders.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        orders.clone().ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"))
    }

    fn heading(&self, api: Api) -> Heading {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let kind = if api == Api::Chat { "chatcmpl" } else { "cmpl" };
        Heading { id: format!("{kind}-{created:x}-{number}"), created, model: self.options.model.clone(), api }
    }

    /// Gives a request to the engine.
    async fn ask(
        &self,
        request: Request,
        images: Vec<PromptImage>,
        tools: Option<ToolSyntax>,
    ) -> Result<Taken, Refusal> {
        let most = self.options.engine.rows + self.options.max_waiting;
        let open = Open(self.open.clone());
        if self.open.fetch_add(1, Ordering::AcqRel) >= most {
            return Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("{most} requests are open already; try again later"),
            ));
        }
        let gone = || self.ended();
        let prompt = request.prompt.len();
        let ((to, events), (refused, answer)) = (unbounded_channel(), oneshot::channel());
        let begun = Instant::now();
        self.sender()?.send(Order { request, images, to, refused }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())??;
        self.metrics.taken(prompt);
        let reader = tools.map(|syntax| ToolReader::new(syntax, self.source.tokenizer()));
        Ok(Taken { events, begun, reader, _open: open })
    }

    /// Refuses a form that cannot be followed, on a thread that may take its time: the engine finds the grammar ready.
    async fn prepare(&self, format: &OutputFormat) -> Result<(), Refusal> {
        if *format == OutputFormat::Text {
            return Ok(());
        }
        let (constraints, format) = (self.source.constraints().clone(), format.clone());
        let prepared = tokio::task::spawn_blocking(move || constraints.guide(&format).map(drop)).await;
        let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the schema could not be read");
        Ok(prepared.map_err(failed)??)
    }

    /// Answers a request whose prompts are tokens: as a whole, or as it comes.
    async fn answer(
        self: &Arc<Self>,
        api: Api,
        prompts: Vec<AskedPrompt>,
        settings: &Settings,
        sampling: &SamplingOptions,
        extras: Extras,
    ) -> Result<Response, Refusal> {
        let choices = settings.choices()?;
        self.prepare(&sampling.format).await?;
        let heading = self.heading(api);
        let mut prompt_tokens = 0;
        let mut taken = Vec::new();
        for AskedPrompt { tokens: prompt, images } in prompts {
            prompt_tokens += prompt.len();
            for n in 0..choices {
                let seed = sampling.seed.wrapping_add(n as u32);
                let request =
                    Request { prompt: prompt.clone(), sampling: SamplingOptions { seed, ..sampling.clone() } };
                taken.push(self.ask(request, images.clone(), extras.tools).await?);
            }
        }
        if settings.is_streamed() {
            let usage = settings.includes_usage().then_some(prompt_tokens);
            let parts = self.clone().stream(heading, taken, usage, extras);
            return Ok(Sse::new(parts).keep_alive(KeepAlive::default()).into_response());
        }
        let mut answers = Vec::new();
        let mut generated = 0;
        for mut one in taken {
            let mut answer = OpenAnswer::default();
            while answer.finish.is_none() {
                let Some(event) = one.events.recv().await else { return Err(self.ended()) };
                if answer.tokens.is_empty() {
                    self.metrics.first_token(one.begun.elapsed());
                }
                answer.take(event, one.reader.as_mut());
            }
            self.metrics.whole(one.begun.elapsed());
            generated += answer.tokens.len();
            let logprobs = self.log_probabilities(api, extras.log_probabilities, &answer);
            answers.push((answer, logprobs));
        }
        Ok(json_response(StatusCode::OK, &heading.whole(&answers, Usage::new(prompt_tokens, generated))))
    }

    fn log_probabilities(&self, api: Api, is_asked: bool, answer: &OpenAnswer) -> Value {
        match self.source.tokenizer().filter(|_| is_asked) {
            Some(tokenizer) => log_probabilities(api, tokenizer, &answer.tokens),
            None => Value::Null,
        }
    }

    /// Parts of answers as they come. A client that goes away drops this, and with it the request.
    fn stream(
        self: Arc<Self>,
        heading: Heading,
        taken: Vec<Taken>,
        usage: Option<usize>,
        extras: Extras,
    ) -> impl Stream<Item = Result<StreamEvent, Infallible>> {
        let opening: Vec<Value> = match heading.api {
            Api::Chat => (0..taken.len()).map(|index| heading.opening(index)).collect(),
            Api::Completions => Vec::new(),
        };
        let generated = Arc::new(AtomicUsize::new(0));
        let streams = taken.into_iter().enumerate().map(|(index, taken)| {
            let (shared, heading, generated) = (self.clone(), heading.clone(), generated.clone());
            Box::pin(stream::unfold((taken, true, false, 0), move |(mut taken, is_first, is_done, calls)| {
                let (shared, heading, generated) = (shared.clone(), heading.clone(), generated.clone());
                async move {
                    if is_done {
                        return None;
                    }
                    let Some(event) = taken.events.recv().await else {
                        let value = json!({"error": {"message": shared.ended().message, "type": "server_error"}});
                        return Some((value, (taken, false, true, calls)));
                    };
                    if is_first {
                        shared.metrics.first_token(taken.begun.elapsed());
                    }
                    let finish = event.finish;
                    if finish.is_some() {
                        shared.metrics.whole(taken.begun.elapsed());
                    }
                    generated.fetch_add(usize::from(event.token.is_some()), Ordering::Relaxed);
                    let mut part = OpenAnswer::default();
                    part.take(event, taken.reader.as_mut());
                    let logprobs = shared.log_probabilities(heading.api, extras.log_probabilities, &part);
                    let value = heading.part(index, &part, logprobs, calls);
                    Some((value, (taken, false, finish.is_some(), calls + part.calls.len())))
                }
            }))
        });
        let parts = stream::select_all(streams);
        let last = stream::once(async move {
            let usage = usage.map(|prompt| heading.usage(Usage::new(prompt, generated.load(Ordering::Relaxed))));
            let texts = usage.map(|usage| usage.to_string()).into_iter().chain(["[DONE]".to_string()]);
            stream::iter(texts.collect::<Vec<_>>())
        });
        let texts = stream::iter(opening).chain(parts).map(|value| value.to_string());
        texts.chain(last.flatten()).map(|text| Ok(StreamEvent::default().data(text)))
    }
}

pub(crate) fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, format!("the request: {error}")))
}

fn check_model(shared: &Shared, settings: &Settings) -> Result<(), Refusal> {
    match &settings.model {
        Some(model) if *model != shared.options.model => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("the model {model} is not served here; {} is", shared.options.model),
        )),
        _ => Ok(()),
    }
}

async fn chat(State(shared): State<Arc<Shared>>, body: Bytes) -> Result<Response, Refusal> {
    let asked: ChatAsked = parsed(&body)?;
    check_model(&shared, &asked.settings)?;
    let Some(template) = shared.source.chat() else {
        let message = "the model has no chat template; use /v1/completions";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    };
    let choice = ToolChoice::of(asked.tool_choice.as_ref(), asked.tools.as_ref())?;
    let tools = asked.tools.as_ref().filter(|_| choice != ToolChoice::None);
    let mut messages: Vec<Message> = asked.messages.into_iter().map(with_arguments).collect();
    let images = read_images(&shared, take_images(&mut messages)?).await?;
    let text = template.render(&messages, tools)?;
    // A template writes the tokens that begin a text itself.
    let prompt = shared.source.needed_tokenizer()?.encode(&text).map_err(Error::from)?;
    let prompt = shared.source.with_image_tokens(prompt, images.len())?;
    let room = shared.options.engine.max_length.saturating_sub(prompt.len());
    let log_probabilities = asked.logprobs == Some(true);
    let count = if log_probabilities { asked.top_logprobs.unwrap_or(0) } else { 0 };
    let mut sampling = asked.settings.sampling(room, count)?;
    let tools = match choice {
        ToolChoice::None => None,
        ToolChoice::Auto => Some(ToolSyntax::of(template.text())),
        ToolChoice::Forced(_) if sampling.format != OutputFormat::Text => {
            let message = "tool_choice and response_format are both given; leave one of them out";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
        }
        ToolChoice::Forced(schema) => {
            sampling.format = OutputFormat::JsonSchema(schema);
            Some(ToolSyntax::Bare)
        }
    };
    let extras = Extras { log_probabilities, tools };
    shared.answer(Api::Chat, vec![AskedPrompt { tokens: prompt, images }], &asked.settings, &sampling, extras).await
}

/// Reads images on a thread that may take its time; no more of them than a sequence has room for.
async fn read_images(shared: &Arc<Shared>, files: Vec<Vec<u8>>) -> Result<Vec<PromptImage>, Refusal> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let each = shared.source.needed_images()?.num_tokens();
    let most = shared.options.engine.max_length;
    if files.len() > MAX_PROMPT_IMAGES || files.len().saturating_mul(each) >= most {
        let message = format!("{} images of {each} tokens do not fit a sequence of {most}", files.len());
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    }
    let source = shared.source.clone();
    let read = tokio::task::spawn_blocking(move || {
        let reader = source.needed_images()?;
        files.iter().map(|file| reader.read(file)).collect::<Result<Vec<_>, Error>>()
    });
    let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the images could not be read");
    Ok(read.await.map_err(failed)??)
}

/// A message whose calls of functions have arguments as templates want them: as objects, not as JSON in a text.
fn with_arguments(mut message: Message) -> Message {
    for call in message.rest.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        if let Some(parsed) = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            *arguments = parsed;
        }
    }
    message
}

async fn completions(State(shared): State<Arc<Shared>>, body: Bytes) -> Result<Response, Refusal> {
    let asked: CompletionAsked = parsed(&body)?;
    check_model(&shared, &asked.settings)?;
    if asked.echo == Some(true) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "echo is not supported; leave it out"));
    }
    let prompts = match asked.prompt {
        Prompts::Text(text) => vec![shared.source.encode(&text)?],
        Prompts::Texts(texts) => texts.iter().map(|text| shared.source.encode(text)).collect::<Result<_, Error>>()?,
        Prompts::Tokens(tokens) => vec![tokens],
        Prompts::TokenLists(lists) => lists,
    };
    let prompts = prompts.into_iter().map(|tokens| AskedPrompt { tokens, ..AskedPrompt::default() }).collect();
    let sampling = asked.settings.sampling(DEFAULT_TOKENS, asked.logprobs.unwrap_or(0))?;
    let extras = Extras { log_probabilities: asked.logprobs.is_some(), tools: None };
    shared.answer(Api::Completions, prompts, &asked.settings, &sampling, extras).await
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let model = json!({"id": shared.options.model, "object": "model", "created": 0, "owned_by": "tpubridge",
        "max_model_len": shared.options.engine.max_length});
    json_response(StatusCode::OK, &json!({"object": "list", "data": [model]}))
}

async fn health(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    if shared.has_failed() {
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the engine ended"));
    }
    shared.sender()?;
    Ok(json_response(StatusCode::OK, &json!({"status": "ok"})))
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = to_text(&shared.registry.gather(), TextFormat::Prometheus);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn nowhere() -> Refusal {
    let paths = "/v1/chat/completions, /v1/completions, /v1/models, /health and /metrics are";
    Refusal::new(StatusCode::NOT_FOUND, format!("nothing is served there; {paths}"))
}

/// Lets requests with a key through; `/health` needs none.
async fn guard(State(shared): State<Arc<Shared>>, request: HttpRequest, next: Next) -> Response {
    if has_key(&shared.options.api_keys, &request) {
        let response = next.run(request).await;
        if !response.status().is_success() {
            shared.metrics.refused();
        }
        return response;
    }
    shared.metrics.refused();
    Refusal::new(StatusCode::UNAUTHORIZED, "the API key is missing or unknown").into_response()
}

/// Whether a request has one of the keys, or needs none.
pub(crate) fn has_key(keys: &[String], request: &HttpRequest) -> bool {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("");
    let is_open = keys.is_empty() || request.uri().path() == "/health";
    is_open || keys.iter().fold(false, |found, key| found | is_same(key.as_bytes(), given.as_bytes()))
}

/// Compares in a time that does not depend on where they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    let limit = DefaultBodyLimit::max(shared.options.max_body_bytes);
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(nowhere)
        .layer(limit)
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}
