//! The thread of the engine: it takes orders between steps, and sends tokens to those who asked.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use runtime::Backend;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::Error;
use crate::images::PromptImage;
use crate::request::{Request, RequestId, TokenEvent};
use crate::server::ServerOptions;
use crate::server::metrics::ServerMetrics;
use crate::source::OpenedModel;

/// The stack of the engine's thread: grammars of strangers are followed there.
const STACK_BYTES: usize = 16 << 20;

/// What the engine's thread is told.
pub(crate) struct Order {
    pub(crate) request: Request,
    pub(crate) images: Vec<PromptImage>,
    /// Takes the tokens; closed by whoever no longer wants them.
    pub(crate) to: UnboundedSender<TokenEvent>,
    /// Why the request is refused, if it is.
    pub(crate) refused: oneshot::Sender<Result<(), Error>>,
}

/// What the engine's thread tells while it starts.
enum Told {
    Doing(String),
    Ready,
    Failed(Error),
}

/// The thread that has the engine.
pub(crate) struct Worker {
    orders: Sender<Order>,
    /// Why the engine ended, and what helps.
    failure: Arc<OnceLock<String>>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Worker {
    /// Starts the thread; returns when the model is ready.
    pub(crate) fn start(
        backend: &Backend,
        source: &Arc<OpenedModel>,
        options: &ServerOptions,
        metrics: ServerMetrics,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Worker, Error> {
        let (orders, taken) = mpsc::channel();
        let (told, steps) = mpsc::channel::<Told>();
        let (backend, source, options) = (backend.clone(), source.clone(), options.clone());
        let failure = Arc::new(OnceLock::new());
        let theirs = failure.clone();
        let thread = std::thread::Builder::new().name("engine".into()).stack_size(STACK_BYTES).spawn(move || {
            let engine = match ready(&backend, &source, &options, &told) {
                Ok(engine) => engine,
                Err(error) => {
                    let _ = told.send(Told::Failed(error));
                    return Ok(());
                }
            };
            metrics.ready(&engine);
            let _ = told.send(Told::Ready);
            serve(engine, &taken, &metrics, &theirs)
        });
        let thread = thread.map_err(|error| Error::setting(format!("a thread: {error}"), "end other processes"))?;
        loop {
            match steps.recv() {
                Ok(Told::Doing(step)) => progress(&step),
                Ok(Told::Ready) => return Ok(Worker { orders, failure, thread }),
                Ok(Told::Failed(error)) => return Err(error),
                Err(_) => return Err(Error::setting("the engine panicked while it was loaded", "report this")),
            }
        }
    }

    pub(crate) fn orders(&self) -> Sender<Order> {
        self.orders.clone()
    }

    /// Why the engine ended, if it did.
    pub(crate) fn failure(&self) -> Arc<OnceLock<String>> {
        self.failure.clone()
    }

    /// Ends the thread, after the others dropped their senders.
    pub(crate) fn finish(self) -> Result<(), Error> {
        drop(self.orders);
        self.thread.join().unwrap_or_else(|_| Err(Error::setting("the engine panicked", "report this")))
    }
}

/// An engine that has its model and, where asked for, its programs.
fn ready(
    backend: &Backend,
    source: &OpenedModel,
    options: &ServerOptions,
    told: &Sender<Told>,
) -> Result<Engine, Error> {
    let _ = told.send(Told::Doing("loading the model".into()));
    let mut engine = Engine::load(backend, source, &options.engine)?;
    if options.is_warmed_up {
        engine.warm_up(&mut |done, all| {
            let _ = told.send(Told::Doing(format!("compiling programs, {done} of {all}")));
        })?;
    }
    Ok(engine)
}

fn serve(
    mut engine: Engine,
    orders: &Receiver<Order>,
    metrics: &ServerMetrics,
    failure: &OnceLock<String>,
) -> Result<(), Error> {
    // Said before those who ask are left alone.
    let failed = |error: &Error| {
        let remedy = error.remedy().map_or(String::new(), |remedy| format!("; {remedy}"));
        let _ = failure.set(format!("{error}{remedy}"));
    };
    let mut asking: HashMap<RequestId, UnboundedSender<TokenEvent>> = HashMap::new();
    loop {
        // Without anything to do, the thread sleeps until it is told something.
        let mut next = match engine.is_idle() {
            true => match orders.recv() {
                Ok(order) => Some(order),
                Err(_) => return Ok(()),
            },
            false => None,
        };
        loop {
            let order = match next.take() {
                Some(order) => order,
                None => match orders.try_recv() {
                    Ok(order) => order,
                    Err(TryRecvError::Empty) => break,
                    // Nobody is left who could read an answer.
                    Err(TryRecvError::Disconnected) => return Ok(()),
                },
            };
            match engine.add_with_images(order.request, order.images) {
                Ok(id) => {
                    asking.insert(id, order.to);
                    let _ = order.refused.send(Ok(()));
                }
                Err(error) => {
                    let _ = order.refused.send(Err(error));
                }
            }
        }
        let gone: Vec<RequestId> = asking.iter().filter(|(_, to)| to.is_closed()).map(|(id, _)| *id).collect();
        for id in gone {
            asking.remove(&id);
            engine.cancel(id);
            metrics.cancelled();
        }
        for event in engine.step().inspect_err(failed)? {
            let (id, is_last) = (event.id, event.finish.is_some());
            metrics.token(&event);
            if let Some(to) = asking.get(&id) {
                let _ = to.send(event);
            }
            if is_last {
                asking.remove(&id);
            }
        }
        metrics.load(&engine);
    }
}
