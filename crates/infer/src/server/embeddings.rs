//! `/v1/embeddings`: a server of vectors, with keys, limits and a drain as that of texts.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runtime::Backend;
use serde::Deserialize;
use serde_json::{Value, json};
use telemetry::{Counter, Histogram, Registry, TextFormat, to_text};
use tokio::sync::oneshot;

use crate::embed::{EmbedOptions, Embedder, TextEmbedding};
use crate::error::Error;
use crate::server::asked::Prompts;
use crate::server::routes::{Refusal, has_key, json_response, parsed};

/// How often a server looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Texts that one request may have.
const MAX_INPUTS: usize = 2048;
const SECONDS: [f64; 8] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// What a server of vectors allows.
#[derive(Clone, Debug)]
pub struct EmbeddingServerOptions {
    /// How texts become vectors.
    pub embed: EmbedOptions,
    /// The name of the model in answers.
    pub model: String,
    /// Keys of which a request must have one; none: everybody may ask.
    pub api_keys: Vec<String>,
    /// Requests that may be open; more are refused with 429.
    pub max_waiting: usize,
    /// Bytes of the longest request.
    pub max_body_bytes: usize,
}

/// A server of vectors that is ready: its model is loaded and its address is bound.
pub struct EmbeddingServer {
    listener: TcpListener,
    shared: Arc<EmbeddingShared>,
    thread: JoinHandle<()>,
}

/// What the model's thread is asked for.
struct EmbeddingOrder {
    inputs: Prompts,
    answer: oneshot::Sender<Result<Vec<TextEmbedding>, Error>>,
}

struct EmbeddingShared {
    options: EmbeddingServerOptions,
    sizes: Sizes,
    /// `None` once nothing more is taken.
    orders: Mutex<Option<Sender<EmbeddingOrder>>>,
    open: AtomicUsize,
    registry: Registry,
    requests: Counter,
    refused: Counter,
    tokens: Counter,
    seconds: Histogram,
}

#[derive(Clone, Copy)]
struct Sizes {
    width: usize,
    max_length: usize,
}

impl EmbeddingServer {
    /// Loads a model and binds an address.
    pub fn start(
        backend: &Backend,
        folder: &Path,
        options: EmbeddingServerOptions,
        address: SocketAddr,
    ) -> Result<EmbeddingServer, Error> {
        let listener = TcpListener::bind(address).map_err(|error| {
            Error::setting(format!("{address}: {error}"), "give another --port, or end what listens there")
        })?;
        let (orders, taken) = mpsc::channel();
        let (told, ready) = mpsc::channel();
        let (backend, folder, embed) = (backend.clone(), PathBuf::from(folder), options.embed.clone());
        let thread = std::thread::Builder::new().name("embedder".into()).spawn(move || {
            match Embedder::open(&backend, &folder, &embed) {
                Ok(embedder) => {
                    let _ = told.send(Ok(Sizes { width: embedder.width(), max_length: embedder.max_length() }));
                    answer_all(embedder, &taken);
                }
                Err(error) => {
                    let _ = told.send(Err(error));
                }
            }
        });
        let thread = thread.map_err(|error| Error::setting(format!("a thread: {error}"), "end other processes"))?;
        let panicked = |_| Error::setting("the model's thread panicked while it was loaded", "report this");
        let sizes = ready.recv().map_err(panicked)??;
        let registry = Registry::new();
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let shared = EmbeddingShared {
            sizes,
            orders: Mutex::new(Some(orders)),
            open: AtomicUsize::new(0),
            requests: counter("tpubridge_serve_requests_total", "Requests taken."),
            refused: counter("tpubridge_serve_refused_total", "Requests refused."),
            tokens: counter("tpubridge_serve_prompt_tokens_total", "Tokens of prompts."),
            seconds: registry.histogram("tpubridge_serve_request_seconds", "Time of a whole request.", &[], &SECONDS),
            registry,
            options,
        };
        Ok(EmbeddingServer { listener, shared: Arc::new(shared), thread })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(|error| Error::setting(error.to_string(), "give another address"))
    }

    /// Tokens of the longest text.
    pub fn max_length(&self) -> usize {
        self.shared.sizes.max_length
    }

    /// Serves until `stop` is set; then nothing new is taken, and what is running ends within `drain`.
    pub fn run(self, stop: &Arc<AtomicBool>, drain: Duration) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::setting(format!("the server: {error}"), "start it again");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
        let shared = self.shared;
        let app = routes(shared.clone());
        self.listener.set_nonblocking(true).map_err(failed)?;
        let stopped = |stop: Arc<AtomicBool>| async move {
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let until = stopped(stop.clone());
            let ended = async {
                stopped(stop.clone()).await;
                tokio::time::sleep(drain).await;
            };
            tokio::select! {
                served = axum::serve(listener, app).with_graceful_shutdown(until) => served,
                () = ended => Ok(()),
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        shared.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(shared);
        self.thread.join().map_err(|_| Error::setting("the model's thread panicked", "report this"))?;
        served.map_err(failed)
    }
}

fn answer_all(mut embedder: Embedder, orders: &Receiver<EmbeddingOrder>) {
    for order in orders {
        if order.answer.is_closed() {
            continue;
        }
        let vectors = match order.inputs {
            Prompts::Text(text) => embedder.embed(&[text]),
            Prompts::Texts(texts) => embedder.embed(&texts),
            Prompts::Tokens(tokens) => embedder.embed_tokens(vec![tokens]),
            Prompts::TokenLists(lists) => embedder.embed_tokens(lists),
        };
        let _ = order.answer.send(vectors);
    }
}

/// `/v1/embeddings`.
#[derive(Deserialize)]
struct EmbeddingsAsked {
    input: Prompts,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    encoding_format: Option<String>,
    #[serde(default)]
    dimensions: Option<usize>,
}

/// How vectors are written.
#[derive(Clone, Copy)]
enum VectorFormat {
    Floats,
    Base64,
}

async fn embeddings(State(shared): State<Arc<EmbeddingShared>>, body: Bytes) -> Result<Response, Refusal> {
    let asked: EmbeddingsAsked = parsed(&body)?;
    let refuse = |status: StatusCode, message: String| Err(Refusal::new(status, message));
    if let Some(model) = asked.model.filter(|model| *model != shared.options.model) {
        let served = &shared.options.model;
        return refuse(StatusCode::NOT_FOUND, format!("the model {model} is not served here; {served} is"));
    }
    let format = match asked.encoding_format.as_deref() {
        None | Some("float") => VectorFormat::Floats,
        Some("base64") => VectorFormat::Base64,
        Some(other) => {
            let message = format!("encoding_format {other} is not known; give float or base64");
            return refuse(StatusCode::BAD_REQUEST, message);
        }
    };
    let width = shared.sizes.width;
    let dimensions = asked.dimensions.unwrap_or(width);
    if dimensions == 0 || dimensions > width {
        let message = format!("dimensions is {dimensions}; the model has {width}");
        return refuse(StatusCode::BAD_REQUEST, message);
    }
    let inputs = match &asked.input {
        Prompts::Texts(texts) => texts.len(),
        Prompts::TokenLists(lists) => lists.len(),
        Prompts::Text(_) | Prompts::Tokens(_) => 1,
    };
    if inputs == 0 || inputs > MAX_INPUTS {
        return refuse(StatusCode::BAD_REQUEST, format!("{inputs} inputs; give from 1 to {MAX_INPUTS}"));
    }
    let vectors = shared.ask(asked.input).await?;
    let tokens: usize = vectors.iter().map(|one| one.tokens).sum();
    shared.tokens.add(tokens as f64);
    let data: Vec<Value> = vectors
        .into_iter()
        .enumerate()
        .map(|(index, one)| {
            let vector = shortened(one.vector, dimensions);
            let written = match format {
                VectorFormat::Floats => json!(vector),
                VectorFormat::Base64 => {
                    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                    json!(STANDARD.encode(bytes))
                }
            };
            json!({"object": "embedding", "index": index, "embedding": written})
        })
        .collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    let answer = json!({"object": "list", "model": shared.options.model, "data": data, "usage": usage});
    Ok(json_response(StatusCode::OK, &answer))
}

/// The first features of a vector, with length 1.
fn shortened(mut vector: Vec<f32>, dimensions: usize) -> Vec<f32> {
    if dimensions < vector.len() {
        vector.truncate(dimensions);
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector
}

impl EmbeddingShared {
    fn sender(&self) -> Result<Sender<EmbeddingOrder>, Refusal> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.clone().ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"))
    }

    /// Gives texts to the model's thread.
    async fn ask(&self, inputs: Prompts) -> Result<Vec<TextEmbedding>, Refusal> {
        /// Counts a request as open until it is dropped.
        struct OpenRequest<'a>(&'a AtomicUsize);
        impl Drop for OpenRequest<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let before = self.open.fetch_add(1, Ordering::AcqRel);
        let _open = OpenRequest(&self.open);
        let most = self.options.max_waiting;
        if before >= most {
            let message = format!("{most} requests are open already; try again later");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let gone = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the model's thread ended");
        let (answer, vectors) = oneshot::channel();
        let begun = Instant::now();
        self.sender()?.send(EmbeddingOrder { inputs, answer }).map_err(|_| gone())?;
        let vectors = vectors.await.map_err(|_| gone())??;
        self.requests.increment();
        self.seconds.observe(begun.elapsed().as_secs_f64());
        Ok(vectors)
    }
}

async fn models(State(shared): State<Arc<EmbeddingShared>>) -> Response {
    let model = json!({"id": shared.options.model, "object": "model", "created": 0, "owned_by": "tpubridge",
        "max_model_len": shared.sizes.max_length});
    json_response(StatusCode::OK, &json!({"object": "list", "data": [model]}))
}

async fn health(State(shared): State<Arc<EmbeddingShared>>) -> Result<Response, Refusal> {
    shared.sender()?;
    Ok(json_response(StatusCode::OK, &json!({"status": "ok"})))
}

async fn metrics(State(shared): State<Arc<EmbeddingShared>>) -> Response {
    let text = to_text(&shared.registry.gather(), TextFormat::Prometheus);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn nowhere() -> Refusal {
    let paths = "/v1/embeddings, /v1/models, /health and /metrics are";
    Refusal::new(StatusCode::NOT_FOUND, format!("nothing is served there; {paths}"))
}

/// Lets requests with a key through; `/health` needs none.
async fn guard(State(shared): State<Arc<EmbeddingShared>>, request: HttpRequest, next: Next) -> Response {
    let response = if has_key(&shared.options.api_keys, &request) {
        next.run(request).await
    } else {
        Refusal::new(StatusCode::UNAUTHORIZED, "the API key is missing or unknown").into_response()
    };
    if !response.status().is_success() {
        shared.refused.increment();
    }
    response
}

fn routes(shared: Arc<EmbeddingShared>) -> Router {
    Router::new()
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(nowhere)
        .layer(DefaultBodyLimit::max(shared.options.max_body_bytes))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}
