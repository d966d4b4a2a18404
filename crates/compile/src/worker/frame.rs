//! Frames on the pipe: a kind, a length, bytes.

use std::io::{self, Read, Write};

/// No frame is larger: bounds what a broken child can make the parent hold.
const MAX_FRAME_BYTES: u64 = 8 << 30;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The request, as JSON.
    Request,
    /// A named blob: the name, a zero byte, the bytes.
    Blob,
    /// A line of progress.
    Progress,
    /// The answer, as JSON; the last frame.
    Answer,
}

impl Kind {
    const ALL: [(Kind, u8); 4] =
        [(Kind::Request, b'Q'), (Kind::Blob, b'B'), (Kind::Progress, b'P'), (Kind::Answer, b'A')];

    fn byte(self) -> u8 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, byte)| *byte)
    }
}

pub(crate) fn write(out: &mut impl Write, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    out.write_all(&[kind.byte()])?;
    out.write_all(&(length as u64).to_le_bytes())?;
    parts.iter().try_for_each(|part| out.write_all(part))
}

/// The next frame, or `None` at the end of the stream between frames.
pub(crate) fn read(input: &mut impl Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let bad = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut first = [0];
    if input.read(&mut first)? == 0 {
        return Ok(None);
    }
    let kind = Kind::ALL.iter().find(|(_, byte)| *byte == first[0]).ok_or_else(|| bad("unknown frame"))?.0;
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_FRAME_BYTES {
        return Err(bad("frame too long"));
    }
    let mut bytes = Vec::new();
    if input.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind, bytes)))
}

/// Splits a blob frame into name and bytes.
pub(crate) fn split_blob(mut frame: Vec<u8>) -> Option<(String, Vec<u8>)> {
    let at = frame.iter().position(|&b| b == 0)?;
    let name = String::from_utf8(frame[..at].to_vec()).ok()?;
    frame.drain(..=at);
    Some((name, frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_pipe_and_cuts_are_noticed() {
        let mut pipe = Vec::new();
        write(&mut pipe, Kind::Blob, &[b"name", b"\0", b"bytes"]).unwrap();
        write(&mut pipe, Kind::Answer, &[b"{}"]).unwrap();
        let mut input = pipe.as_slice();
        let (kind, frame) = read(&mut input).unwrap().unwrap();
        assert_eq!((kind, split_blob(frame)), (Kind::Blob, Some(("name".to_string(), b"bytes".to_vec()))));
        assert_eq!(read(&mut input).unwrap(), Some((Kind::Answer, b"{}".to_vec())));
        assert_eq!(read(&mut input).unwrap(), None);
        for cut in 1..pipe.len() {
            let mut input = &pipe[..cut];
            let mut result = read(&mut input);
            if matches!(result, Ok(Some(_))) {
                result = read(&mut input);
            }
            assert!(!matches!(result, Ok(Some(_))), "cut at {cut}");
        }
    }

    #[test]
    fn a_hostile_length_is_refused_before_anything_is_held() {
        let mut pipe = vec![b'B'];
        pipe.extend(u64::MAX.to_le_bytes());
        assert!(read(&mut pipe.as_slice()).is_err());
    }
}
