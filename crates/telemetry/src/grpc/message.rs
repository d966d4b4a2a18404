//! Messages on a stream: each has a flag and its length in front; sending waits for the other side to make room.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use tokio::time::timeout;

use super::FRAME_BYTES;
use super::status::{GrpcCode, GrpcStatus};

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A message as it is sent; `None` if it is longer than its length can say.
pub(super) fn framed(message: &[u8]) -> Result<Bytes, GrpcStatus> {
    let length = u32::try_from(message.len());
    let length = length.map_err(|_| GrpcStatus::new(GrpcCode::ResourceExhausted, "a message of more than 4 GiB"))?;
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(length);
    framed.put_slice(message);
    Ok(framed.freeze())
}

/// Messages out of the bytes that arrive.
#[derive(Debug)]
pub(super) struct Messages {
    buffer: BytesMut,
    limit: usize,
}

impl Messages {
    pub(super) fn new(limit: usize) -> Messages {
        Messages { buffer: BytesMut::new(), limit }
    }

    /// The next message that is complete. One that is too long is refused as soon as its length is known.
    fn take(&mut self) -> Result<Option<Vec<u8>>, GrpcStatus> {
        if self.buffer.len() < PREFIX {
            return Ok(None);
        }
        let length = (&self.buffer[1..PREFIX]).get_u32() as usize;
        if length > self.limit {
            let message = format!("a message of {length} bytes, more than {}", self.limit);
            return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
        }
        if self.buffer[0] != 0 {
            return Err(GrpcStatus::new(GrpcCode::Unimplemented, "the message is compressed; send it as it is"));
        }
        if self.buffer.len() - PREFIX < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).to_vec()))
    }

    /// The next message of a stream; `None` at its end.
    pub(super) async fn next(&mut self, stream: &mut RecvStream) -> Result<Option<Vec<u8>>, GrpcStatus> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let Some(data) = stream.data().await else {
                return match self.buffer.len() {
                    0 => Ok(None),
                    left => Err(GrpcStatus::new(
                        GrpcCode::Internal,
                        format!("the stream ended within a message: {left} bytes"),
                    )),
                };
            };
            let data = data.map_err(|error| broken(&error))?;
            self.buffer.extend_from_slice(&data);
            stream.flow_control().release_capacity(data.len()).map_err(|error| broken(&error))?;
        }
    }
}

/// Sends bytes as fast as the other side takes them, and no faster.
pub(super) async fn send(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    is_last: bool,
    patience: Duration,
) -> Result<(), GrpcStatus> {
    while data.has_remaining() {
        stream.reserve_capacity(data.len().min(FRAME_BYTES));
        let room = timeout(patience, poll_fn(|context| stream.poll_capacity(context))).await;
        let stalled = |_| GrpcStatus::new(GrpcCode::DeadlineExceeded, "the other side takes nothing of what is sent");
        let room = match room.map_err(stalled)? {
            Some(room) => room.map_err(|error| broken(&error))?,
            None => return Err(GrpcStatus::new(GrpcCode::Cancelled, "the other side has ended the call")),
        };
        let part = data.split_to(room.min(data.len()));
        let ends = is_last && data.is_empty();
        stream.send_data(part, ends).map_err(|error| broken(&error))?;
    }
    Ok(())
}

/// A connection or stream that failed.
pub(super) fn broken(error: &h2::Error) -> GrpcStatus {
    let code = match error.reason() {
        Some(h2::Reason::CANCEL) => GrpcCode::Cancelled,
        Some(h2::Reason::REFUSED_STREAM) => GrpcCode::Unavailable,
        Some(h2::Reason::ENHANCE_YOUR_CALM) => GrpcCode::ResourceExhausted,
        _ if error.is_io() => GrpcCode::Unavailable,
        _ => GrpcCode::Internal,
    };
    GrpcStatus::new(code, format!("the connection failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_of_any_pieces() {
        let sent: Vec<u8> = [&b"one"[..], b"", b"three"].iter().flat_map(|m| framed(m).unwrap()).collect();
        for size in 1..=sent.len() {
            let mut messages = Messages::new(5);
            let mut got = Vec::new();
            for piece in sent.chunks(size) {
                messages.buffer.extend_from_slice(piece);
                while let Some(message) = messages.take().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, [b"one".to_vec(), Vec::new(), b"three".to_vec()], "pieces of {size}");
        }
    }

    #[test]
    fn a_long_or_compressed_message_is_refused_by_its_first_bytes() {
        let code = |limit: usize, bytes: &[u8]| {
            let mut messages = Messages::new(limit);
            messages.buffer.extend_from_slice(bytes);
            messages.take().map_err(|status| status.code)
        };
        assert_eq!(code(4, &[0, 0, 0, 0, 5]), Err(GrpcCode::ResourceExhausted));
        assert_eq!(code(4, &[0, 255, 255, 255, 255]), Err(GrpcCode::ResourceExhausted));
        assert_eq!(code(4, &[1, 0, 0, 0, 1]), Err(GrpcCode::Unimplemented));
        assert_eq!(code(4, &[0, 0, 0, 0]), Ok(None));
        assert_eq!(code(4, &[0, 0, 0, 0, 4]), Ok(None));
    }
}
