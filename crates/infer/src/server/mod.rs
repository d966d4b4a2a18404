//! An HTTP server with OpenAI's API: completions and chats, whole or streamed, with keys, limits, metrics, and a drain at the end.

mod answers;
mod asked;
mod embeddings;
mod image_parts;
mod metrics;
mod routes;
mod tools;
mod worker;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::Backend;
use telemetry::Registry;

pub use self::embeddings::{EmbeddingServer, EmbeddingServerOptions};

use crate::error::Error;
use crate::options::InferenceOptions;
use crate::server::metrics::ServerMetrics;
use crate::server::routes::{Shared, routes};
use crate::server::worker::Worker;
use crate::source::OpenedModel;

/// How often a server looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What a server allows.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Sizes of the engine.
    pub engine: InferenceOptions,
    /// The name of the model in answers.
    pub model: String,
    /// Keys of which a request must have one; none: everybody may ask.
    pub api_keys: Vec<String>,
    /// Requests that may wait for a row; more are refused with 429.
    pub max_waiting: usize,
    /// Bytes of the longest request.
    pub max_body_bytes: usize,
    /// Whether programs are compiled before the first request.
    pub is_warmed_up: bool,
}

/// A server that is ready: its model is loaded and its address is bound.
pub struct InferenceServer {
    listener: TcpListener,
    shared: Arc<Shared>,
    worker: Worker,
}

impl InferenceServer {
    /// Loads a model and binds an address. `progress` is told what is being done.
    pub fn start(
        backend: &Backend,
        source: OpenedModel,
        options: ServerOptions,
        address: SocketAddr,
        progress: &mut dyn FnMut(&str),
    ) -> Result<InferenceServer, Error> {
        // Before the model is loaded: an address that is taken is known at once.
        let listener = TcpListener::bind(address).map_err(|error| {
            Error::setting(format!("{address}: {error}"), "give another --port, or end what listens there")
        })?;
        let registry = Registry::new();
        let metrics = ServerMetrics::new(&registry);
        let source = Arc::new(source);
        let worker = Worker::start(backend, &source, &options, metrics.clone(), progress)?;
        let shared = Shared::new(source, options, (worker.orders(), worker.failure()), metrics, registry);
        Ok(InferenceServer { listener, shared: Arc::new(shared), worker })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(|error| Error::setting(error.to_string(), "give another address"))
    }

    /// Serves until `stop` is set; then nothing new is taken, and what is running ends within `drain`.
    pub fn run(self, stop: &Arc<AtomicBool>, drain: Duration) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::setting(format!("the server: {error}"), "start it again");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
        let (shared, worker) = (self.shared, self.worker);
        let app = routes(shared.clone());
        self.listener.set_nonblocking(true).map_err(failed)?;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let until = {
                let (stop, shared) = (stop.clone(), shared.clone());
                async move {
                    while !stop.load(Ordering::Relaxed) && !shared.has_failed() {
                        tokio::time::sleep(LOOK).await;
                    }
                    shared.drain();
                }
            };
            let ended = {
                let (stop, shared) = (stop.clone(), shared.clone());
                async move {
                    while !stop.load(Ordering::Relaxed) && !shared.has_failed() {
                        tokio::time::sleep(LOOK).await;
                    }
                    tokio::time::sleep(drain).await;
                }
            };
            tokio::select! {
                served = axum::serve(listener, app).with_graceful_shutdown(until) => served,
                () = ended => Ok(()),
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        drop(shared);
        worker.finish()?;
        served.map_err(failed)
    }
}
