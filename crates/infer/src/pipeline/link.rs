//! Pipeline stages on other hosts: a connection whose sides share a secret, and threads that carry tasks and answers over it.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use channel::{Channel, HandshakeError, Secret, Wait};
use nn::models::{ModelPart, RunOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{MAX_REPLY_BYTES, StageReply, StageTask};
use crate::error::Error;
use crate::fit::PagePool;
use crate::options::StageHosts;
use crate::sizes::StepSizes;

/// What the connections are for.
pub(super) const CONTEXT: &[u8] = b"tpubridge pipeline stage";
/// The first message: the version of all that follow.
pub(super) const FIRST: &[u8] = b"tpubridge stage 1";
/// Bytes of the second message, and of its answer, at most.
pub(super) const MAX_HELLO_BYTES: usize = 1 << 20;
/// Tasks that wait for a stage.
pub(super) const QUEUED: usize = 2;
/// How often a side that has nothing to say says so.
const BEAT: Duration = Duration::from_secs(3);
/// A side that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the answer to the second message: the stage connects to the stages after it first.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// What a host is asked to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StageHello {
    /// Of the command.
    pub(super) version: String,
    pub(super) platform: String,
    pub(super) stage: usize,
    pub(super) parts: Vec<ModelPart>,
    /// Sizes of the model.
    pub(super) config: Value,
    pub(super) run: RunOptions,
    pub(super) sizes: StepSizes,
    pub(super) pool: PagePool,
    /// Hosts of the stages after it.
    pub(super) later: Vec<String>,
}

/// What a host says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum HelloAnswer {
    Welcome,
    Refused(String),
}

/// Why a stage is not reached.
fn unreached(address: &str, why: impl std::fmt::Display, remedy: impl Into<String>) -> Error {
    Error::setting(format!("the pipeline stage at {address}: {why}"), remedy)
}

/// Connects to the host of a stage, which connects to those after it. Tasks go into what is given back; answers come to `replies`.
pub(super) fn connect(
    hosts: &StageHosts,
    hello: &StageHello,
    replies: &Sender<StageReply>,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Option<SyncSender<StageTask>>, Error> {
    let Some((address, later)) = hosts.addresses.split_first() else { return Ok(None) };
    let hello = StageHello { later: later.to_vec(), ..hello.clone() };
    let channel = Arc::new(greeted(address, &hosts.secret, &hello)?);
    let (tasks, taken) = mpsc::sync_channel(QUEUED);
    let (stage, name) = (hello.stage, address.clone());
    let (sending, receiving) = (channel.clone(), channel);
    let (said, heard) = (replies.clone(), replies.clone());
    threads.push(thread("tpubridge-stage-out", move || {
        if let Err(error) = send_tasks(&taken, &sending) {
            let _ = said.send(gone(stage, &name, &error));
        }
        sending.close();
    })?);
    let name = address.clone();
    threads.push(thread("tpubridge-stage-in", move || {
        let error = receive_replies(&receiving, &heard);
        let _ = heard.send(gone(stage, &name, &error));
        receiving.close();
    })?);
    Ok(Some(tasks))
}

/// A thread by that name.
pub(super) fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let started = std::thread::Builder::new().name(name.into()).spawn(run);
    started.map_err(|error| Error::setting(format!("a thread: {error}"), "end other processes"))
}

fn gone(stage: usize, address: &str, error: &io::Error) -> StageReply {
    let message = format!("pipeline stage {stage} at {address} is gone: {error}");
    let remedy = "look at the output of `tpu stage` there, and start it and this command again".to_string();
    StageReply::Failed { stage, message, remedy: Some(remedy) }
}

/// A connection to a host that runs what it is asked to.
fn greeted(address: &str, secret: &Secret, hello: &StageHello) -> Result<Channel, Error> {
    let start = "start `tpu stage FOLDER --listen ADDRESS` there first, and let its port through the network";
    let resolved: Vec<SocketAddr> = match address.to_socket_addrs() {
        Ok(all) => all.collect(),
        Err(error) => return Err(unreached(address, error, "give HOST:PORT")),
    };
    let mut last = None;
    for to in &resolved {
        if !secret.allows(to.ip()) {
            return Err(needs_secret(address));
        }
        match TcpStream::connect_timeout(to, CONNECT_TIMEOUT) {
            Ok(stream) => return greet(stream, address, secret, hello),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or("the name has no address".to_string(), |error| error.to_string());
    Err(unreached(address, why, start))
}

/// Why an address is refused without a secret.
pub(super) fn needs_secret(address: &str) -> Error {
    Error::setting(
        format!("{address} is not on the loopback interface, and there is no secret"),
        format!("make one with `tpu config secret > FILE`, and set {}=FILE on every host", channel::SECRET_FILE),
    )
}

fn greet(stream: TcpStream, address: &str, secret: &Secret, hello: &StageHello) -> Result<Channel, Error> {
    let same = "run the same version of tpubridge on all hosts";
    let channel =
        Channel::connect(stream, secret, CONTEXT, Instant::now() + CONNECT_TIMEOUT).map_err(|error| match error {
            HandshakeError::WrongSecret => unreached(
                address,
                error,
                format!("give all hosts the same {} or {}", channel::SECRET_FILE, channel::SECRET),
            ),
            other => unreached(address, other, same),
        })?;
    let mut wait = Wait::Until(Instant::now() + HELLO_TIMEOUT);
    let broken = |error: io::Error| unreached(address, error, "look at the output of `tpu stage` there");
    let text = serde_json::to_vec(hello).map_err(|error| unreached(address, error, "report this"))?;
    channel.send(&[FIRST], &mut wait).map_err(broken)?;
    channel.send(&[&text], &mut wait).map_err(broken)?;
    let answer = channel.receive(MAX_HELLO_BYTES, &mut wait).map_err(broken)?;
    match serde_json::from_slice(&answer) {
        Ok(HelloAnswer::Welcome) => Ok(channel),
        Ok(HelloAnswer::Refused(why)) => {
            Err(unreached(address, format!("refused: {why}"), "give it the same model and the same version"))
        }
        Err(error) => Err(unreached(address, error, same)),
    }
}

/// Sends tasks until nobody has more.
fn send_tasks(tasks: &Receiver<StageTask>, channel: &Channel) -> io::Result<()> {
    loop {
        let task = match tasks.recv_timeout(BEAT) {
            Ok(task) => task,
            Err(RecvTimeoutError::Timeout) => StageTask::new(super::message::StageOrder::Alive),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let order = task.encode().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let states = task.hidden.as_ref().map_or(&[][..], tensor::Literal::bytes);
        channel.send(&[&order, states], &mut Wait::Until(Instant::now() + SILENCE))?;
    }
}

/// Receives answers until there are no more; says why.
fn receive_replies(channel: &Channel, replies: &Sender<StageReply>) -> io::Error {
    loop {
        let received = channel.receive(MAX_REPLY_BYTES, &mut Wait::Until(Instant::now() + SILENCE));
        let reply = received.and_then(|bytes| Ok(serde_json::from_slice::<StageReply>(&bytes)?));
        match reply {
            Ok(StageReply::Alive) => {}
            Ok(reply) => {
                if replies.send(reply).is_err() {
                    return io::ErrorKind::NotConnected.into();
                }
            }
            Err(error) => return error,
        }
    }
}

/// The other end of [`send_tasks`]: `decode` reads a message of at most `most` bytes.
pub(super) fn receive_tasks(
    channel: &Channel,
    most: usize,
    decode: &dyn Fn(&[u8]) -> Result<StageTask, Error>,
    tasks: &SyncSender<StageTask>,
) -> Result<(), Error> {
    loop {
        // The engine is gone: there is nobody to tell.
        let Ok(bytes) = channel.receive(most, &mut Wait::Until(Instant::now() + SILENCE)) else { return Ok(()) };
        if tasks.send(decode(&bytes)?).is_err() {
            return Ok(());
        }
    }
}

/// The other end of [`receive_replies`].
pub(super) fn send_replies(replies: &Receiver<StageReply>, channel: &Channel) -> io::Result<()> {
    loop {
        let reply = match replies.recv_timeout(BEAT) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => StageReply::Alive,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let bytes = serde_json::to_vec(&reply)?;
        channel.send(&[&bytes], &mut Wait::Until(Instant::now() + SILENCE))?;
    }
}
