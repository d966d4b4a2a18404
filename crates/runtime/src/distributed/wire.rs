//! What a process and the coordinator say to each other in the messages of a [`channel::Channel`].

use std::sync::Arc;

/// What the connection is for: no other can be taken for it.
pub(super) const CONTEXT: &[u8] = b"tpubridge coordinator";
/// Version of everything below.
pub(super) const VERSION: u32 = 2;
/// Bytes of a key at most.
pub(super) const MAX_KEY_BYTES: usize = 4 << 10;
/// Bytes of a value at most.
pub(super) const MAX_VALUE_BYTES: usize = 64 << 20;
/// Bytes of a message at most.
pub(super) const MAX_MESSAGE_BYTES: usize = MAX_KEY_BYTES + MAX_VALUE_BYTES + 64;
/// Bytes of a sign of life at most.
pub(super) const MAX_BEAT_BYTES: usize = 64;

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
    /// `run` is empty where the process has not heard of one.
    Hello {
        version: u32,
        process: u32,
        processes: u32,
        role: Role,
        run: String,
    },
    Get {
        timeout_ms: u64,
        key: String,
    },
    TryGet {
        key: String,
    },
    Put {
        key: String,
        value: Vec<u8>,
    },
    Beat,
    Bye,
}

/// What the coordinator answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Arc<Vec<u8>>),
    NotFound,
    TimedOut,
    /// The key has another value already.
    Exists,
    /// The run is over; another may begin here.
    Over,
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
            Request::Hello { version, process, processes, role, run } => {
                out.push(b'H');
                [version, process, processes].iter().for_each(|number| out.extend(number.to_le_bytes()));
                out.push(if *role == Role::Control { 0 } else { 1 });
                out.extend(run.as_bytes());
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

    pub(super) fn read(mut message: Vec<u8>) -> Option<Request> {
        let (&kind, rest) = message.split_first()?;
        let key = |bytes: &[u8]| {
            let is_good = !bytes.is_empty() && bytes.len() <= MAX_KEY_BYTES;
            is_good.then(|| std::str::from_utf8(bytes).ok().map(str::to_string)).flatten()
        };
        match kind {
            b'H' => {
                let (version, rest) = number(rest)?;
                let (process, rest) = number(rest)?;
                let (processes, rest) = number(rest)?;
                let (role, run) = match rest.split_first()? {
                    (0, run) => (Role::Control, run),
                    (1, run) => (Role::Requests, run),
                    _ => return None,
                };
                Some(Request::Hello { version, process, processes, role, run: String::from_utf8(run.to_vec()).ok()? })
            }
            b'G' => {
                let (timeout, rest) = rest.split_first_chunk::<8>()?;
                Some(Request::Get { timeout_ms: u64::from_le_bytes(*timeout), key: key(rest)? })
            }
            b'T' => Some(Request::TryGet { key: key(rest)? }),
            b'P' => {
                let (length, rest) = number(rest)?;
                let (name, value) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                let key = key(name).filter(|_| value.len() <= MAX_VALUE_BYTES)?;
                // The message becomes the value: no second copy of what may be large.
                message.drain(..message.len() - value.len());
                Some(Request::Put { key, value: message })
            }
            b'B' if rest.is_empty() => Some(Request::Beat),
            b'Y' if rest.is_empty() => Some(Request::Bye),
            _ => None,
        }
    }
}

impl Answer {
    /// The message in two parts: what comes before the value, and the value.
    pub(super) fn write(&self) -> (Vec<u8>, &[u8]) {
        let mut out = Vec::new();
        match self {
            Answer::Done(value) => return (vec![b'O'], value),
            Answer::NotFound => out.push(b'N'),
            Answer::TimedOut => out.push(b'T'),
            Answer::Exists => out.push(b'X'),
            Answer::Over => out.push(b'E'),
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
        (out, &[])
    }

    pub(super) fn read(mut message: Vec<u8>) -> Option<Answer> {
        let (&kind, rest) = message.split_first()?;
        match kind {
            b'O' => {
                message.remove(0);
                Some(Answer::Done(Arc::new(message)))
            }
            b'N' => Some(Answer::NotFound),
            b'T' => Some(Answer::TimedOut),
            b'X' => Some(Answer::Exists),
            b'E' => Some(Answer::Over),
            b'F' => {
                let (process, why) = number(rest)?;
                Some(Answer::Gone { process, why: String::from_utf8_lossy(why).into_owned() })
            }
            b'R' => Some(Answer::Refused(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }
}

/// What somebody says, as it may be shown: short, and no control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).filter(|c| c.is_ascii_graphic()).collect()
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_written() {
        let requests = [
            Request::Hello { version: VERSION, process: 3, processes: 4, role: Role::Control, run: "7".into() },
            Request::Get { timeout_ms: 5, key: "a/b".into() },
            Request::TryGet { key: "k".into() },
            Request::Put { key: "k".into(), value: vec![0, 1, 255] },
            Request::Beat,
            Request::Bye,
        ];
        for request in requests {
            assert_eq!(Request::read(request.write()), Some(request));
        }
        let answers = [
            Answer::Done(Arc::new(vec![1])),
            Answer::NotFound,
            Answer::TimedOut,
            Answer::Exists,
            Answer::Over,
            Answer::Gone { process: 2, why: "killed".into() },
            Answer::Refused("no".into()),
        ];
        for answer in answers {
            let (head, value) = answer.write();
            assert_eq!(Answer::read([&head, value].concat()), Some(answer));
        }
    }

    #[test]
    fn nonsense_is_neither_read_nor_a_panic() {
        let mut random = testkit::Random::new(7);
        for _ in 0..20_000 {
            let length = random.below(40);
            let mut frame: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            if let Some(first) = frame.first_mut() {
                *first = b"HGTPBYONFRXE"[random.below(12)];
            }
            if let Some(request) = Request::read(frame.clone()) {
                assert_eq!(Request::read(request.write()), Some(request));
            }
            let _ = Answer::read(frame);
        }
        let mut long = vec![b'P'];
        long.extend(u32::MAX.to_le_bytes());
        assert_eq!(Request::read(long), None);
    }
}
