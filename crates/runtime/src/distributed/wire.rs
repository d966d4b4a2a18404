//! What a process and the coordinator say to each other: frames of a length and bytes, bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// What the first frame of a connection begins with.
const MAGIC: &[u8; 8] = b"tpucoord";
/// Version of everything below.
pub(super) const VERSION: u32 = 1;
/// Bytes of a key at most.
pub(super) const MAX_KEY_BYTES: usize = 4 << 10;
/// Bytes of a value at most.
pub(super) const MAX_VALUE_BYTES: usize = 64 << 20;
const MAX_FRAME_BYTES: usize = MAX_KEY_BYTES + MAX_VALUE_BYTES + 64;
/// The first frame of a connection is small, whoever sent it.
pub(super) const MAX_HELLO_BYTES: usize = 64;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Signs of life; it lives as long as the process.
    Control,
    /// Requests.
    Requests,
}

/// What a process says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Hello { version: u32, process: u32, processes: u32, role: Role },
    Get { timeout_ms: u64, key: String },
    TryGet { key: String },
    Put { key: String, value: Vec<u8> },
    Beat,
    Bye,
}

/// What the coordinator answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Vec<u8>),
    NotFound,
    TimedOut,
    /// A process is gone.
    Gone {
        process: u32,
        why: String,
    },
    Refused(String),
}

impl Request {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Request::Hello { version, process, processes, role } => {
                out.push(b'H');
                out.extend(MAGIC);
                [version, process, processes].iter().for_each(|number| out.extend(number.to_le_bytes()));
                out.push(if *role == Role::Control { 0 } else { 1 });
            }
            Request::Get { timeout_ms, key } => {
                out.push(b'G');
                out.extend(timeout_ms.to_le_bytes());
                out.extend(key.as_bytes());
            }
            Request::TryGet { key } => {
                out.push(b'T');
                out.extend(key.as_bytes());
            }
            Request::Put { key, value } => {
                out.push(b'P');
                out.extend((key.len() as u32).to_le_bytes());
                out.extend(key.as_bytes());
                out.extend(value);
            }
            Request::Beat => out.push(b'B'),
            Request::Bye => out.push(b'Y'),
        }
        out
    }

    pub(super) fn read(frame: &[u8]) -> Option<Request> {
        let (&kind, rest) = frame.split_first()?;
        let key = |bytes: &[u8]| {
            let is_good = !bytes.is_empty() && bytes.len() <= MAX_KEY_BYTES;
            is_good.then(|| std::str::from_utf8(bytes).ok().map(str::to_string)).flatten()
        };
        match kind {
            b'H' => {
                let rest = rest.strip_prefix(MAGIC)?;
                let (version, rest) = number(rest)?;
                let (process, rest) = number(rest)?;
                let (processes, rest) = number(rest)?;
                let role = match rest {
                    [0] => Role::Control,
                    [1] => Role::Requests,
                    _ => return None,
                };
                Some(Request::Hello { version, process, processes, role })
            }
            b'G' => {
                let (timeout, rest) = rest.split_first_chunk::<8>()?;
                Some(Request::Get { timeout_ms: u64::from_le_bytes(*timeout), key: key(rest)? })
            }
            b'T' => Some(Request::TryGet { key: key(rest)? }),
            b'P' => {
                let (length, rest) = number(rest)?;
                let (name, value) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                let is_good = value.len() <= MAX_VALUE_BYTES;
                is_good.then(|| Some(Request::Put { key: key(name)?, value: value.to_vec() })).flatten()
            }
            b'B' if rest.is_empty() => Some(Request::Beat),
            b'Y' if rest.is_empty() => Some(Request::Bye),
            _ => None,
        }
    }
}

impl Answer {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Answer::Done(value) => {
                out.push(b'O');
                out.extend(value);
            }
            Answer::NotFound => out.push(b'N'),
            Answer::TimedOut => out.push(b'T'),
            Answer::Gone { process, why } => {
                out.push(b'F');
                out.extend(process.to_le_bytes());
                out.extend(why.as_bytes());
            }
            Answer::Refused(why) => {
                out.push(b'R');
                out.extend(why.as_bytes());
            }
        }
        out
    }

    pub(super) fn read(frame: &[u8]) -> Option<Answer> {
        let (&kind, rest) = frame.split_first()?;
        match kind {
            b'O' => Some(Answer::Done(rest.to_vec())),
            b'N' => Some(Answer::NotFound),
            b'T' => Some(Answer::TimedOut),
            b'F' => {
                let (process, why) = number(rest)?;
                Some(Answer::Gone { process, why: String::from_utf8_lossy(why).into_owned() })
            }
            b'R' => Some(Answer::Refused(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// Writes a frame.
pub(super) fn send(mut stream: &TcpStream, payload: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| std::io::Error::new(ErrorKind::InvalidInput, "too much for one frame"))?;
    let mut frame = Vec::with_capacity(payload.len() + 4);
    frame.extend(length.to_le_bytes());
    frame.extend(payload);
    stream.write_all(&frame)
}

/// Reads a frame of at most `limit` bytes. Whenever the stream's read timeout passes without a byte, `on_silence` says
/// whether to go on waiting.
pub(super) fn receive(
    stream: &TcpStream,
    limit: usize,
    on_silence: &mut dyn FnMut() -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    fill(stream, &mut length, on_silence)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > limit.min(MAX_FRAME_BYTES) {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "a frame that is too long"));
    }
    // Memory grows with what has come, not with what was announced.
    let mut payload = Vec::new();
    let mut chunk = vec![0; length.min(64 << 10)];
    while payload.len() < length {
        let part = (length - payload.len()).min(chunk.len());
        fill(stream, &mut chunk[..part], on_silence)?;
        payload.extend_from_slice(&chunk[..part]);
    }
    Ok(payload)
}

/// A frame of the usual size.
pub(super) fn receive_any(
    stream: &TcpStream,
    on_silence: &mut dyn FnMut() -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    receive(stream, MAX_FRAME_BYTES, on_silence)
}

fn fill(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    on_silence: &mut dyn FnMut() -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => on_silence()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_written() {
        let requests = [
            Request::Hello { version: VERSION, process: 3, processes: 4, role: Role::Control },
            Request::Get { timeout_ms: 5, key: "a/b".into() },
            Request::TryGet { key: "k".into() },
            Request::Put { key: "k".into(), value: vec![0, 1, 255] },
            Request::Beat,
            Request::Bye,
        ];
        for request in requests {
            let frame = request.write();
            assert_eq!(Request::read(&frame), Some(request));
        }
        let answers = [
            Answer::Done(vec![1]),
            Answer::NotFound,
            Answer::TimedOut,
            Answer::Gone { process: 2, why: "killed".into() },
            Answer::Refused("no".into()),
        ];
        for answer in answers {
            let frame = answer.write();
            assert_eq!(Answer::read(&frame), Some(answer));
        }
    }

    #[test]
    fn nonsense_is_neither_read_nor_a_panic() {
        let mut random = testkit::Random::new(7);
        for _ in 0..20_000 {
            let length = random.below(40);
            let mut frame: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            if let Some(first) = frame.first_mut() {
                *first = b"HGTPBYONFR"[random.below(10)];
            }
            if let Some(request) = Request::read(&frame) {
                assert_eq!(Request::read(&request.write()), Some(request));
            }
            let _ = Answer::read(&frame);
        }
        let mut long = vec![b'P'];
        long.extend(u32::MAX.to_le_bytes());
        assert_eq!(Request::read(&long), None);
    }
}
