//! A connection of two processes that know the same secret: the exchange at its beginning, then sealed messages.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::keys::{Direction, Ephemeral, Keys, PUBLIC_BYTES, TAG_BYTES};
use crate::secret::Secret;

/// What a connection begins with; the number is the version of all that follows.
const MAGIC: &[u8; 8] = b"tpuchan1";
/// Bytes that a caller sends before it has proved anything.
pub const MAX_HANDSHAKE_BYTES: usize = MAGIC.len() + PUBLIC_BYTES;
const HEADER_BYTES: usize = 4;
/// Bytes of a message in one record at most.
const RECORD_BYTES: usize = 128 << 10;
/// A buffer that is larger than this is given back after the message.
const KEPT_BYTES: usize = 4 << 10;

/// How long an operation on a connection waits.
pub enum Wait<'a> {
    /// Until then, however many bytes come meanwhile.
    Until(Instant),
    /// As long as this says `Ok`: it is asked whenever nothing happened for the [pace](Channel::set_pace) of the connection.
    While(&'a mut dyn FnMut() -> io::Result<()>),
}

/// Why there is no connection.
#[derive(Debug)]
pub enum HandshakeError {
    /// The network.
    Io(io::Error),
    /// The other side speaks something else, or another version.
    Foreign,
    /// The other side does not know our secret, or the connection is for something else.
    WrongSecret,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Io(error) => error.fmt(f),
            HandshakeError::Foreign => f.write_str("the other side is no tpubridge process of this version"),
            HandshakeError::WrongSecret => f.write_str(
                "the other side has another secret: give all processes the same TPUBRIDGE_SECRET_FILE or TPUBRIDGE_SECRET",
            ),
        }
    }
}

impl std::error::Error for HandshakeError {}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        HandshakeError::Io(error)
    }
}

/// A connection whose sides know the same secret. One thread may send while another receives.
pub struct Channel {
    stream: TcpStream,
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("stream", &self.stream).finish_non_exhaustive()
    }
}

struct Sending {
    direction: Direction,
    buffer: Vec<u8>,
}

struct Receiving {
    direction: Direction,
    /// The record under way; the first `taken` bytes of `opened` were given out.
    buffer: Vec<u8>,
    opened: std::ops::Range<usize>,
}

impl Channel {
    /// The caller's side. On return the listener has proved that it knows the secret.
    pub fn connect(
        stream: TcpStream,
        secret: &Secret,
        context: &[u8],
        deadline: Instant,
    ) -> Result<Channel, HandshakeError> {
        stream.set_nodelay(true)?;
        let mine = Ephemeral::new()?;
        let public = mine.public;
        let mut hello = [0; MAX_HANDSHAKE_BYTES];
        hello[..MAGIC.len()].copy_from_slice(MAGIC);
        hello[MAGIC.len()..].copy_from_slice(&public);
        write(&stream, &hello, &mut Wait::Until(deadline))?;
        let mut theirs = [0; PUBLIC_BYTES];
        // A listener of another kind answers something else, or ends the connection.
        read(&stream, &mut theirs, &mut Wait::Until(deadline)).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => HandshakeError::Foreign,
            _ => HandshakeError::Io(error),
        })?;
        let Keys { of_caller, of_listener } = mine.agree(&theirs, &public, &theirs, secret, context)?;
        let channel = Channel::new(stream, of_caller, of_listener);
        match channel.receive(0, &mut Wait::Until(deadline)) {
            Ok(_) => Ok(channel),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(HandshakeError::WrongSecret),
            Err(error) => Err(HandshakeError::Io(error)),
        }
    }

    /// The listener's side. The caller has proved nothing until its first message is [received](Self::receive): until then it
    /// is a stranger, and sends [`MAX_HANDSHAKE_BYTES`] and that one message at most.
    pub fn accept(
        stream: TcpStream,
        secret: &Secret,
        context: &[u8],
        deadline: Instant,
    ) -> Result<Channel, HandshakeError> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let mut hello = [0; MAX_HANDSHAKE_BYTES];
        // What is not ours is turned away at the first wrong byte it can be known by.
        read(&stream, &mut hello[..MAGIC.len()], &mut Wait::Until(deadline))?;
        if hello[..MAGIC.len()] != MAGIC[..] {
            return Err(HandshakeError::Foreign);
        }
        let mut theirs = [0; PUBLIC_BYTES];
        read(&stream, &mut theirs, &mut Wait::Until(deadline))?;
        let mine = Ephemeral::new()?;
        let public = mine.public;
        let Keys { of_caller, of_listener } = mine.agree(&theirs, &theirs, &public, secret, context)?;
        write(&stream, &public, &mut Wait::Until(deadline))?;
        let channel = Channel::new(stream, of_listener, of_caller);
        channel.send(&[], &mut Wait::Until(deadline))?;
        Ok(channel)
    }

    fn new(stream: TcpStream, sending: Direction, receiving: Direction) -> Channel {
        Channel {
            stream,
            sending: Mutex::new(Sending { direction: sending, buffer: Vec::new() }),
            receiving: Mutex::new(Receiving { direction: receiving, buffer: Vec::new(), opened: 0..0 }),
        }
    }

    /// How long [`Wait::While`] waits before it asks whether to go on.
    pub fn set_pace(&self, pace: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(pace))?;
        self.stream.set_write_timeout(Some(pace))
    }

    /// The connection below.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Ends the connection; threads that wait on it get an error.
    pub fn close(&self) {
        // One that has ended already needs nothing.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends a message: the parts, one after the other. After an error the connection is of no use.
    pub fn send(&self, parts: &[&[u8]], wait: &mut Wait<'_>) -> io::Result<()> {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let Sending { direction, buffer } = &mut *sending;
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = parts.iter().flat_map(|part| part.chunks(RECORD_BYTES)).filter(|chunk| !chunk.is_empty());
        let mut chunk: &[u8] = &[];
        loop {
            let length = left.min(RECORD_BYTES);
            left -= length;
            let header = ((length as u32) << 1 | u32::from(left > 0)).to_le_bytes();
            buffer.clear();
            buffer.extend(header);
            while buffer.len() < HEADER_BYTES + length {
                if chunk.is_empty() {
                    chunk = bytes.next().ok_or(ErrorKind::UnexpectedEof)?;
                }
                let (now, later) = chunk.split_at(chunk.len().min(HEADER_BYTES + length - buffer.len()));
                buffer.extend(now);
                chunk = later;
            }
            let tag = direction.seal(&header, &mut buffer[HEADER_BYTES..])?;
            buffer.extend(tag);
            write(&self.stream, buffer, wait)?;
            if left == 0 {
                break;
            }
        }
        if buffer.capacity() > KEPT_BYTES {
            *buffer = Vec::new();
        }
        Ok(())
    }

    /// Receives a message of at most `most` bytes.
    pub fn receive(&self, most: usize, wait: &mut Wait<'_>) -> io::Result<Vec<u8>> {
        self.receive_counted(most, wait, &mut |_| true)
    }

    /// As [`receive`](Self::receive); `grow` is told the bytes that the message is about to take beside those before, and says
    /// whether there is room. A message without room is read to its end, so that the connection can go on, and is an error of
    /// kind [`ErrorKind::OutOfMemory`].
    pub fn receive_counted(
        &self,
        most: usize,
        wait: &mut Wait<'_>,
        grow: &mut dyn FnMut(usize) -> bool,
    ) -> io::Result<Vec<u8>> {
        let mut receiving = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut message, mut seen) = (Some(Vec::new()), 0);
        loop {
            let more = receiving.next(&self.stream, most - seen, wait)?;
            let opened = receiving.opened.clone();
            seen += opened.len();
            message = message.filter(|_| grow(opened.len()));
            if let Some(message) = &mut message {
                message.extend_from_slice(&receiving.buffer[opened]);
            }
            receiving.done();
            if !more {
                return message.ok_or_else(|| ErrorKind::OutOfMemory.into());
            }
        }
    }

    /// Fills a buffer with the next bytes, of however many messages.
    pub fn read(&self, mut into: &mut [u8], wait: &mut Wait<'_>) -> io::Result<()> {
        let mut receiving = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        while !into.is_empty() {
            if receiving.opened.is_empty() {
                receiving.next(&self.stream, RECORD_BYTES, wait)?;
            }
            let opened = receiving.opened.clone();
            let now = opened.len().min(into.len());
            let (filled, rest) = into.split_at_mut(now);
            filled.copy_from_slice(&receiving.buffer[opened.start..opened.start + now]);
            into = rest;
            receiving.opened.start += now;
        }
        if receiving.opened.is_empty() {
            receiving.done();
        }
        Ok(())
    }
}

impl Receiving {
    /// Reads and opens the next record, of at most `most` bytes; whether more of the message follows.
    fn next(&mut self, stream: &TcpStream, most: usize, wait: &mut Wait<'_>) -> io::Result<bool> {
        let mut header = [0; HEADER_BYTES];
        read(stream, &mut header, wait)?;
        let number = u32::from_le_bytes(header);
        let (length, more) = ((number >> 1) as usize, number & 1 == 1);
        // A full record before others, so that empty ones cannot come without end.
        if length > most.min(RECORD_BYTES) || more && length != RECORD_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "a record of more bytes than are allowed"));
        }
        self.buffer.clear();
        self.buffer.resize(length + TAG_BYTES, 0);
        read(stream, &mut self.buffer, wait)?;
        self.direction.open(&header, &mut self.buffer)?;
        self.opened = 0..length;
        Ok(more)
    }

    fn done(&mut self) {
        self.opened = 0..0;
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }
}

/// What is left until a deadline; an error where nothing is.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn read(mut stream: &TcpStream, buffer: &mut [u8], wait: &mut Wait<'_>) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        if let Wait::Until(deadline) = wait {
            stream.set_read_timeout(Some(left(*deadline)?))?;
        }
        match (stream.read(&mut buffer[filled..]), &mut *wait) {
            (Ok(0), _) => return Err(ErrorKind::UnexpectedEof.into()),
            (Ok(count), _) => filled += count,
            (Err(error), _) if error.kind() == ErrorKind::Interrupted => {}
            (Err(error), Wait::While(look)) if is_wait(&error) => look()?,
            (Err(error), _) if is_wait(&error) => {}
            (Err(error), _) => return Err(error),
        }
    }
    Ok(())
}

fn write(mut stream: &TcpStream, bytes: &[u8], wait: &mut Wait<'_>) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        if let Wait::Until(deadline) = wait {
            stream.set_write_timeout(Some(left(*deadline)?))?;
        }
        match (stream.write(&bytes[written..]), &mut *wait) {
            (Ok(0), _) => return Err(ErrorKind::WriteZero.into()),
            (Ok(count), _) => written += count,
            (Err(error), _) if error.kind() == ErrorKind::Interrupted => {}
            (Err(error), Wait::While(look)) if is_wait(&error) => look()?,
            (Err(error), _) if is_wait(&error) => {}
            (Err(error), _) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
