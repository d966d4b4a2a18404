//! Connections between processes: [`channel::Channel`]s, and reading and writing that notices when a process is gone.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use channel::{Channel, Gate, HANDSHAKE_TIMEOUT, HandshakeError, Secret, Wait};
use pjrt_sys::{PJRT_Error_Code_CANCELLED, PJRT_Error_Code_UNAVAILABLE};

use crate::plugin::call::Failure;

/// What a connection is for; the number is the version of what is said on it.
const CONTEXT: &str = "tpubridge cpu link 2";
/// How long a connection may be silent before somebody looks whether its process still is.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Both know the secret and the token of the one that listens, which it gave to the store: so they are of one run.
fn context(token: &str) -> Vec<u8> {
    format!("{CONTEXT} {token}").into_bytes()
}

/// Connects to a process and says who we are.
pub(super) fn connect(
    to: SocketAddr,
    secret: &Secret,
    token: &str,
    me: usize,
    deadline: Instant,
    check: &dyn Fn() -> Result<(), Failure>,
) -> Result<Channel, Failure> {
    let connect = || -> Result<Channel, HandshakeError> {
        let stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)?;
        let soon = Instant::now() + HANDSHAKE_TIMEOUT;
        let channel = Channel::connect(stream, secret, &context(token), soon)?;
        channel.send(&[&(me as u32).to_le_bytes()], &mut Wait::Until(soon))?;
        channel.set_pace(LOOK_EVERY)?;
        Ok(channel)
    };
    loop {
        match connect() {
            Ok(channel) => return Ok(channel),
            // A network that is just coming up, or loses packets; the other process listens already.
            Err(HandshakeError::Io(_)) if Instant::now() < deadline => {
                check()?;
                std::thread::sleep(LOOK_EVERY);
            }
            Err(error) => return Err(unavailable(&error)),
        }
    }
}

/// A listener for the other processes.
pub(super) struct Listening {
    came: mpsc::Receiver<(usize, Channel)>,
    _gate: Gate,
}

impl Listening {
    /// Lets in processes that know the secret and the token.
    pub(super) fn start(listener: TcpListener, secret: &Secret, token: &str) -> io::Result<Listening> {
        let (sender, came) = mpsc::channel();
        let sender = Mutex::new(sender);
        let gate = Gate::open(listener, secret, &context(token), move |channel, first| {
            let Ok(id) = <[u8; 4]>::try_from(&first[..]) else { return };
            if channel.set_pace(LOOK_EVERY).is_ok() {
                // Where nobody listens any more, the connection ends here.
                let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let _ = sender.send((u32::from_le_bytes(id) as usize, channel));
            }
        })?;
        Ok(Listening { came, _gate: gate })
    }

    /// The next process that connects, if one comes soon.
    pub(super) fn next(&self) -> Option<(usize, Channel)> {
        self.came.recv_timeout(LOOK_EVERY).ok()
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(PJRT_Error_Code_UNAVAILABLE, error.to_string())
}

/// Waiting that was given up because another connection failed.
pub(super) fn given_up() -> Failure {
    Failure::new(PJRT_Error_Code_CANCELLED, "given up")
}

/// Waits on a connection. `look` is asked now and then while nothing happens, and ends the wait with its error.
fn waiting(
    look: &dyn Fn() -> Result<(), Failure>,
    act: impl FnOnce(&mut Wait<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut said = None;
    let mut ask = || {
        look().map_err(|failure| {
            said = Some(failure);
            io::Error::from(ErrorKind::ConnectionAborted)
        })
    };
    let done = act(&mut Wait::While(&mut ask));
    done.map_err(|error| match (said, error.kind()) {
        (Some(failure), _) => failure,
        (None, ErrorKind::UnexpectedEof) => unavailable(&"it closed its connection"),
        (None, _) => unavailable(&error),
    })
}

/// Reads until `buffer` is full, with `look` as in [`waiting`].
pub(super) fn read(link: &Channel, buffer: &mut [u8], look: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    waiting(look, |wait| link.read(buffer, wait))
}

/// Writes all of the parts, with `look` as in [`waiting`].
pub(super) fn write(link: &Channel, parts: &[&[u8]], look: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    waiting(look, |wait| link.send(parts, wait))
}
