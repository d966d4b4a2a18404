//! How a call ended: a code of gRPC and a message.

use std::fmt;

use http::{HeaderMap, HeaderValue};

/// Bytes of a message that are sent: headers are bounded on the other side too.
const MESSAGE_BYTES: usize = 4 << 10;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// A code of gRPC.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum GrpcCode { $($(#[$doc])* $name = $number,)* }

        impl GrpcCode {
            /// The code with this number; unknown numbers are `Unknown`, as the protocol says.
            pub fn from_number(number: u32) -> GrpcCode {
                match number { $($number => GrpcCode::$name,)* _ => GrpcCode::Unknown }
            }

            /// As gRPC writes it.
            pub fn name(self) -> &'static str {
                match self { $(GrpcCode::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// No error.
    Ok = 0, "OK";
    /// The caller gave up.
    Cancelled = 1, "CANCELLED";
    /// An error without a code.
    Unknown = 2, "UNKNOWN";
    /// The request makes no sense.
    InvalidArgument = 3, "INVALID_ARGUMENT";
    /// It took too long.
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED";
    /// What is asked for does not exist.
    NotFound = 5, "NOT_FOUND";
    /// What should be made exists.
    AlreadyExists = 6, "ALREADY_EXISTS";
    /// The caller may not.
    PermissionDenied = 7, "PERMISSION_DENIED";
    /// A limit is reached.
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED";
    /// The state does not allow it.
    FailedPrecondition = 9, "FAILED_PRECONDITION";
    /// It was given up on the other side.
    Aborted = 10, "ABORTED";
    /// Past the valid range.
    OutOfRange = 11, "OUT_OF_RANGE";
    /// There is no such method.
    Unimplemented = 12, "UNIMPLEMENTED";
    /// A fault on the other side.
    Internal = 13, "INTERNAL";
    /// The other side cannot be reached now.
    Unavailable = 14, "UNAVAILABLE";
    /// Data is lost.
    DataLoss = 15, "DATA_LOSS";
    /// The caller is unknown.
    Unauthenticated = 16, "UNAUTHENTICATED";
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcStatus {
    /// The kind of failure.
    pub code: GrpcCode,
    /// What happened.
    pub message: String,
}

impl GrpcStatus {
    /// A failure.
    pub fn new(code: GrpcCode, message: impl Into<String>) -> GrpcStatus {
        GrpcStatus { code, message: message.into() }
    }

    /// There is no such method.
    pub fn unimplemented(method: &str) -> GrpcStatus {
        GrpcStatus::new(GrpcCode::Unimplemented, format!("there is no method {method}"))
    }

    /// As trailers say it; `None` for success.
    pub(super) fn trailers(outcome: Result<(), &GrpcStatus>) -> HeaderMap {
        let code = outcome.map_or_else(|status| status.code, |()| GrpcCode::Ok);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(code as u16));
        if let Err(status) = outcome
            && let Ok(message) = HeaderValue::from_str(&escaped(&status.message))
        {
            trailers.insert("grpc-message", message);
        }
        trailers
    }

    /// What trailers say; `None` where they say nothing of a status.
    pub(super) fn from_trailers(trailers: &HeaderMap) -> Option<Result<(), GrpcStatus>> {
        let number = trailers.get("grpc-status")?.to_str().ok().and_then(|text| text.parse().ok());
        let code = number.map_or(GrpcCode::Unknown, GrpcCode::from_number);
        if code == GrpcCode::Ok {
            return Some(Ok(()));
        }
        let message = trailers.get("grpc-message").map_or_else(String::new, |text| unescaped(text.as_bytes()));
        Some(Err(GrpcStatus { code, message }))
    }
}

impl fmt::Display for GrpcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "{}", self.code.name()),
            message => write!(f, "{message} ({})", self.code.name()),
        }
    }
}

impl std::error::Error for GrpcStatus {}

/// The message as a header holds it: bytes that are no printable ASCII, and `%`, as `%XX`.
fn escaped(message: &str) -> String {
    let mut text = String::new();
    for &byte in message.as_bytes() {
        if text.len() + 3 > MESSAGE_BYTES {
            break;
        }
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digit = |n: usize| text.get(at + n).and_then(|&digit| char::from(digit).to_digit(16));
        match (byte, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_headers() {
        for message in ["", "plain", "100 % of größe\nnext line", "%41", "日本"] {
            let status = GrpcStatus::new(GrpcCode::Aborted, message);
            let trailers = GrpcStatus::trailers(Err(&status));
            assert_eq!(GrpcStatus::from_trailers(&trailers), Some(Err(status)));
        }
        assert_eq!(GrpcStatus::from_trailers(&GrpcStatus::trailers(Ok(()))), Some(Ok(())));
        assert_eq!(GrpcStatus::from_trailers(&HeaderMap::new()), None);
    }

    #[test]
    fn what_others_send_is_read_as_far_as_it_makes_sense() {
        let mut trailers = HeaderMap::new();
        for (number, code) in [
            ("99", GrpcCode::Unknown),
            ("-1", GrpcCode::Unknown),
            ("x", GrpcCode::Unknown),
            ("14", GrpcCode::Unavailable),
        ] {
            trailers.insert("grpc-status", HeaderValue::from_static(number));
            let Some(Err(status)) = GrpcStatus::from_trailers(&trailers) else { panic!("{number}") };
            assert_eq!(status.code, code, "{number}");
        }
        assert_eq!(unescaped(b"%"), "%");
        assert_eq!(unescaped(b"%zz%4"), "%zz%4");
        assert!(unescaped(b"%ff").contains('\u{fffd}'));
        assert!(escaped(&"ü".repeat(1 << 20)).len() <= MESSAGE_BYTES);
    }
}
