//! Connections between processes: who may connect, and reading and writing that notices when a process is gone.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pjrt_sys::{PJRT_Error_Code_CANCELLED, PJRT_Error_Code_UNAVAILABLE};

use crate::plugin::call::Failure;

/// What a connection begins with; the number is the version of what follows.
const MAGIC: &[u8; 8] = b"tpucpux1";
/// Bytes of a [`Token`].
pub(super) const TOKEN_BYTES: usize = 16;
const HELLO_BYTES: usize = MAGIC.len() + TOKEN_BYTES + 4;
/// How long a connection may be silent before somebody looks whether its process still is.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a process must know to connect: it was told through the store, so a stray connection is turned away.
pub(super) type Token = [u8; TOKEN_BYTES];

pub(super) fn new_token() -> Token {
    let draw = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish().to_le_bytes()
    };
    let mut token = [0; TOKEN_BYTES];
    token[..8].copy_from_slice(&draw());
    token[8..].copy_from_slice(&draw());
    token
}

/// Connects to a process and says who we are.
pub(super) fn connect(
    to: SocketAddr,
    token: &Token,
    me: usize,
    deadline: Instant,
    check: &dyn Fn() -> Result<(), Failure>,
) -> Result<TcpStream, Failure> {
    let stream = loop {
        match TcpStream::connect_timeout(&to, CONNECT_TIMEOUT) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => return Err(unavailable(&error)),
            // A network that is just coming up; the other process listens already.
            Err(_) => {
                check()?;
                std::thread::sleep(LOOK_EVERY);
            }
        }
    };
    let mut hello = Vec::with_capacity(HELLO_BYTES);
    hello.extend(MAGIC);
    hello.extend(token);
    hello.extend((me as u32).to_le_bytes());
    prepare(&stream).map_err(|error| unavailable(&error))?;
    (&stream).write_all(&hello).map_err(|error| unavailable(&error))?;
    Ok(stream)
}

/// Takes the next connection, if there is one; `None` also for one that does not know the token.
pub(super) fn accept(listener: &TcpListener, token: &Token) -> Option<(usize, TcpStream)> {
    listener.set_nonblocking(true).ok()?;
    let Ok((stream, _)) = listener.accept() else {
        std::thread::sleep(Duration::from_millis(10));
        return None;
    };
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(HELLO_TIMEOUT)).ok()?;
    let mut hello = [0; HELLO_BYTES];
    (&stream).read_exact(&mut hello).ok()?;
    let (magic, rest) = hello.split_at(MAGIC.len());
    let (theirs, id) = rest.split_at(TOKEN_BYTES);
    if magic != MAGIC || theirs != token {
        return None;
    }
    prepare(&stream).ok()?;
    Some((u32::from_le_bytes(id.try_into().ok()?) as usize, stream))
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(LOOK_EVERY))
}

fn unavailable(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(PJRT_Error_Code_UNAVAILABLE, error.to_string())
}

/// Waiting that was given up because another connection failed.
pub(super) fn given_up() -> Failure {
    Failure::new(PJRT_Error_Code_CANCELLED, "given up")
}

/// Reads until `buffer` is full. `look` is asked now and then while nothing comes, and ends the wait with its error.
pub(super) fn read(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    look: &dyn Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(unavailable(&"it closed its connection")),
            Ok(count) => filled += count,
            Err(error) if is_wait(&error) => look()?,
            Err(error) => return Err(unavailable(&error)),
        }
    }
    Ok(())
}

/// Writes all of `bytes`, with `look` as for [`read`].
pub(super) fn write(
    mut stream: &TcpStream,
    bytes: &[u8],
    look: &dyn Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return Err(unavailable(&"it closed its connection")),
            Ok(count) => written += count,
            Err(error) if is_wait(&error) => look()?,
            Err(error) => return Err(unavailable(&error)),
        }
    }
    Ok(())
}

fn is_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
