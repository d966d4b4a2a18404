//! A host that runs a pipeline stage for an engine on another one.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use channel::{Channel, Gate, Secret, Wait};
use runtime::Backend;
use runtime::mesh::DeviceMesh;
use serde_json::Value;
use trace::Mesh;

use super::link::{self, CONTEXT, FIRST, HelloAnswer, MAX_HELLO_BYTES, QUEUED, StageHello};
use super::message::StageReply;
use super::stage::{StageEnds, StageJob, run_stage};
use super::{config_value, parts_of};
use crate::error::Error;
use crate::options::{STAGE, StageHosts};
use crate::sizes::{CacheLayout, StepSizes};
use crate::source::{ModelSource, OpenedModel};

/// Longest wait for the second message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Most sequences at once, tokens of a chunk, and pages.
const MAX_ROWS: usize = 1 << 16;
const MAX_CHUNK: usize = 1 << 20;
const MAX_PAGES: usize = 1 << 24;
const MAX_PAGE_SIZE: usize = 1 << 12;

/// Runs a pipeline stage of a model for engines on other hosts, one after the other.
pub struct StageServer {
    gate: Gate,
}

/// What a host has.
struct StageHost {
    backend: Backend,
    source: ModelSource,
    mesh: Option<Arc<DeviceMesh>>,
    secret: Secret,
    /// Held while an engine uses the host.
    serving: Mutex<()>,
    /// Told what happens, for people.
    told: Box<dyn Fn(&str) + Send + Sync>,
}

impl StageServer {
    /// Listens at `HOST:PORT`. Which layers are loaded is said by the engine that connects; the devices are those of the mesh, or one.
    /// `told` gets a line for each engine that comes and goes.
    pub fn start(
        backend: &Backend,
        source: &OpenedModel,
        mesh: Option<&Mesh>,
        (address, secret): (&str, &Secret),
        told: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<StageServer, Error> {
        if mesh.and_then(|mesh| mesh.size_of(STAGE)).is_some_and(|stages| stages > 1) {
            return Err(Error::setting(
                "a host has one pipeline stage",
                "give a mesh without `stage`; the first host of the engine may have several",
            ));
        }
        let cannot =
            |why: String| Error::setting(format!("listening at {address}: {why}"), "give HOST:PORT of this host");
        let resolved = address.to_socket_addrs().map_err(|error| cannot(error.to_string()))?.next();
        let resolved = resolved.ok_or_else(|| cannot("the name has no address".into()))?;
        if !secret.allows(resolved.ip()) {
            return Err(link::needs_secret(address));
        }
        let listener = TcpListener::bind(resolved).map_err(|error| cannot(error.to_string()))?;
        let host = StageHost {
            backend: backend.clone(),
            source: source.weights(),
            mesh: mesh.map(|mesh| backend.mesh(mesh)).transpose()?,
            secret: secret.clone(),
            serving: Mutex::new(()),
            told: Box::new(told),
        };
        let gate = Gate::open(listener, secret, CONTEXT, move |channel, first| host.serve(channel, &first));
        Ok(StageServer { gate: gate.map_err(|error| cannot(error.to_string()))? })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.gate.address()
    }

    /// Connections that did not know the secret, so far.
    pub fn turned_away(&self) -> usize {
        self.gate.turned_away()
    }
}

impl StageHost {
    fn serve(&self, channel: Channel, first: &[u8]) {
        let deadline = Instant::now() + HELLO_TIMEOUT;
        let answer = |answer: &HelloAnswer| {
            let text = serde_json::to_vec(answer).unwrap_or_default();
            channel.send(&[&text], &mut Wait::Until(deadline)).is_ok()
        };
        let refuse = |why: String| {
            (self.told)(&format!("refused an engine: {why}"));
            answer(&HelloAnswer::Refused(why));
        };
        let Ok(text) = channel.receive(MAX_HELLO_BYTES, &mut Wait::Until(deadline)) else { return };
        if first != FIRST {
            return refuse("it speaks another version of the protocol".into());
        }
        let _serving = match self.serving.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return refuse("it runs a stage of another engine".into()),
        };
        let (replies, replied) = mpsc::channel::<StageReply>();
        let mut threads = Vec::new();
        let hello: Result<StageHello, _> = serde_json::from_slice(&text);
        let prepared = hello.map_err(|error| error.to_string()).and_then(|hello| {
            let job = self.job(&hello)?;
            let hosts = StageHosts { addresses: hello.later.clone(), secret: self.secret.clone() };
            let later = StageHello { stage: hello.stage + 1, ..hello };
            let next = link::connect(&hosts, &later, &replies, &mut threads).map_err(|error| error.to_string())?;
            Ok((job, next))
        });
        let (job, next) = match prepared {
            Ok(prepared) => prepared,
            Err(why) => return refuse(why),
        };
        if !answer(&HelloAnswer::Welcome) {
            return;
        }
        let part = &job.part;
        (self.told)(&format!(
            "stage {}: layers {} to {} of {}",
            job.stage,
            part.layers.start,
            part.layers.end - 1,
            part.of
        ));
        self.run(&job, channel, next, (replies, replied));
        threads.into_iter().for_each(|thread| drop(thread.join()));
        (self.told)(&format!("stage {}: the engine is gone", job.stage));
    }

    fn run(
        &self,
        job: &StageJob,
        channel: Channel,
        next: Option<mpsc::SyncSender<super::message::StageTask>>,
        (replies, replied): (mpsc::Sender<StageReply>, mpsc::Receiver<StageReply>),
    ) {
        let channel = &channel;
        // Before the model is loaded no more pages are known than were asked for.
        let limits = job.limits(job.sizes);
        let (tasks, taken) = mpsc::sync_channel(QUEUED);
        let failed = replies.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if let Err(error) =
                    link::receive_tasks(channel, limits.max_bytes(), &|bytes| limits.decode(bytes), &tasks)
                {
                    let message = format!("pipeline stage {}: {error}", job.stage);
                    let _ = failed.send(StageReply::Failed { stage: job.stage, message, remedy: error.remedy() });
                }
            });
            let sending = scope.spawn(move || {
                let _ = link::send_replies(&replied, channel);
                channel.close();
            });
            // Its ends are dropped when it returns: then the last answers are sent.
            run_stage(job, StageEnds { tasks: taken, next, replies });
            let _ = sending.join();
        });
    }

    /// What an engine asks for; or why not.
    fn job(&self, hello: &StageHello) -> Result<StageJob, String> {
        let StageHello { version, platform, stage, parts, config, run, sizes, pool, later } = hello;
        let differs = |what: &str, theirs: &dyn std::fmt::Display, ours: &dyn std::fmt::Display| {
            Err(format!("{what} is {theirs} on the first host, and {ours} here"))
        };
        if version != VERSION {
            return differs("the version of tpubridge", version, &VERSION);
        }
        let here = self.backend.platform().to_string();
        if *platform != here {
            return differs("the platform", platform, &here);
        }
        // As text, as theirs came: numbers may change in their last bit.
        let own = config_value(self.source.config()).to_string();
        let own: Value = serde_json::from_str(&own).map_err(|error| error.to_string())?;
        if let Some((key, theirs, ours)) = difference("", config, &own) {
            return differs(&format!("`{key}` of the model"), &theirs, &ours);
        }
        let expected = parts_of(self.source.config(), parts.len()).map_err(|error| error.to_string())?;
        if expected != *parts || *stage == 0 || *stage >= parts.len() || later.len() + stage + 1 != parts.len() {
            return Err("the layers are shared among the stages in another way".into());
        }
        run.check()?;
        check_sizes(sizes, self.source.config().max_positions())?;
        let run = nn::models::RunOptions { longest_sequence: Some(sizes.max_length), ..run.clone() };
        Ok(StageJob {
            stage: *stage,
            part: parts[*stage].clone(),
            backend: self.backend.clone(),
            source: self.source.clone(),
            run,
            mesh: self.mesh.clone(),
            sizes: *sizes,
            pool: *pool,
            given_width: None,
        })
    }
}

/// Of the command.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Refuses sizes that no engine has.
fn check_sizes(sizes: &StepSizes, most: usize) -> Result<(), String> {
    let StepSizes { rows, max_length, chunk, least_batch, layout, .. } = *sizes;
    let is_good = (1..=MAX_ROWS).contains(&rows)
        && (2..=most).contains(&max_length)
        && chunk.is_power_of_two()
        && chunk <= MAX_CHUNK
        && least_batch <= MAX_ROWS
        && match layout {
            CacheLayout::Rows => false,
            CacheLayout::Pages { pages, page_size } => {
                page_size.is_power_of_two() && page_size <= MAX_PAGE_SIZE && (1..=MAX_PAGES).contains(&pages)
            }
        };
    match is_good {
        true => Ok(()),
        false => Err(format!("sizes that no engine has: {sizes:?}")),
    }
}

/// The first key whose values differ, and both.
fn difference(key: &str, theirs: &Value, ours: &Value) -> Option<(String, String, String)> {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let keys = ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
            keys.into_iter().find_map(|name| {
                let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                let of = |all: &serde_json::Map<String, Value>| all.get(name).cloned().unwrap_or(Value::Null);
                difference(&below, &of(theirs), &of(ours))
            })
        }
        _ if theirs == ours => None,
        _ => {
            // What a stranger sends is not repeated at length.
            let short = |value: &Value| value.to_string().chars().take(80).collect::<String>();
            Some((key.chars().take(80).collect(), short(theirs), short(ours)))
        }
    }
}
