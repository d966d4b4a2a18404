//! What passes between the command and the process that holds a plugin: a line of JSON, then the bytes it announces.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Bounds what a broken process can make the other one hold.
const MAX_LINE_BYTES: u64 = 16 << 20;
const MAX_PAYLOAD_BYTES: u64 = 8 << 30;

/// To the plugin's process: run the program whose bytes follow.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    bytes: u64,
}

/// From the plugin's process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The plugin is loaded; its first device in words. Said once, before anything is asked.
    Ready(String),
    /// The results, whose bytes follow one after the other.
    Results(Vec<Shape>),
    /// The plugin answered with an error.
    Failed(String),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    /// As HLO spells it.
    element_type: String,
    dims: Vec<i64>,
    bytes: u64,
}

/// One result: dense, the last dimension fastest, elements smaller than a byte in a whole one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) element_type: String,
    pub(super) dims: Vec<i64>,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn write_request(out: &mut impl Write, program: &[u8]) -> io::Result<()> {
    write_line(out, &Request { bytes: program.len() as u64 })?;
    out.write_all(program)?;
    out.flush()
}

/// The next program, or `None` when no more come.
pub(super) fn read_request(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    match read_line::<Request>(input)? {
        Some(request) => read_payload(input, request.bytes).map(Some),
        None => Ok(None),
    }
}

pub(super) fn write_answer(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    write_line(out, answer)?;
    out.flush()
}

pub(super) fn write_results(out: &mut impl Write, outputs: &[Output]) -> io::Result<()> {
    let shape = |output: &Output| Shape {
        element_type: output.element_type.clone(),
        dims: output.dims.clone(),
        bytes: output.bytes.len() as u64,
    };
    write_line(out, &Answer::Results(outputs.iter().map(shape).collect()))?;
    outputs.iter().try_for_each(|output| out.write_all(&output.bytes))?;
    out.flush()
}

/// The next answer with the results it announces, or `None` at the end of the stream.
pub(super) fn read_answer(input: &mut impl BufRead) -> io::Result<Option<(Answer, Vec<Output>)>> {
    let Some(mut answer) = read_line::<Answer>(input)? else { return Ok(None) };
    let mut outputs = Vec::new();
    if let Answer::Results(shapes) = &mut answer {
        for Shape { element_type, dims, bytes } in shapes.drain(..) {
            outputs.push(Output { element_type, dims, bytes: read_payload(input, bytes)? });
        }
    }
    Ok(Some((answer, outputs)))
}

fn write_line(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)
}

fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    input.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

fn read_payload(input: &mut impl BufRead, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too many bytes announced"));
    }
    let mut payload = Vec::new();
    if input.take(bytes).read_to_end(&mut payload)? as u64 != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_pipe_and_cuts_are_noticed() {
        let output = |bytes: &[u8]| Output { element_type: "u8".into(), dims: vec![2], bytes: bytes.into() };
        let mut pipe = Vec::new();
        write_request(&mut pipe, b"a\nprogram").unwrap();
        write_request(&mut pipe, b"").unwrap();
        let mut input = pipe.as_slice();
        assert_eq!(read_request(&mut input).unwrap().as_deref(), Some(&b"a\nprogram"[..]));
        assert_eq!(read_request(&mut input).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(read_request(&mut input).unwrap(), None);

        let mut pipe = Vec::new();
        write_results(&mut pipe, &[output(b"\n\n"), output(b"xy")]).unwrap();
        for cut in 1..pipe.len() {
            assert!(read_answer(&mut &pipe[..cut]).is_err(), "cut at {cut}");
        }
        write_answer(&mut pipe, &Answer::Failed("why".into())).unwrap();
        let mut input = pipe.as_slice();
        let results = (Answer::Results(Vec::new()), vec![output(b"\n\n"), output(b"xy")]);
        assert_eq!(read_answer(&mut input).unwrap(), Some(results));
        assert_eq!(read_answer(&mut input).unwrap(), Some((Answer::Failed("why".into()), Vec::new())));
        assert_eq!(read_answer(&mut input).unwrap(), None);
    }

    #[test]
    fn a_hostile_length_is_refused_before_anything_is_held() {
        let mut line = format!("{{\"bytes\":{}}}\n", u64::MAX).into_bytes();
        line.push(0);
        assert!(read_request(&mut line.as_slice()).is_err());
    }
}
