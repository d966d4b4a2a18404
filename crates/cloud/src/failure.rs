//! What an answer of the API means for the one who asked.

use fleet::provider::ProviderError;
use google_cloud_gax::error::Error;
use google_cloud_gax::error::rpc::{Code, StatusDetails};

/// An answer that is not the one hoped for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no such thing.
    NotFound(String),
    /// There is one of that name already.
    Exists(String),
    /// Not in the state that it is in.
    Precondition(String),
    /// Anything else.
    Other(ProviderError),
}

impl Failure {
    /// Asking again may help.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Other(ProviderError::Transient { .. } | ProviderError::Unknown(_)))
    }

    /// Seconds that the API asks to wait.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Other(ProviderError::Transient { retry_after, .. }) => *retry_after,
            _ => None,
        }
    }

    /// For a caller who can do nothing about it.
    pub(crate) fn into_error(self) -> ProviderError {
        match self {
            Self::NotFound(what) | Self::Precondition(what) => ProviderError::Invalid(what),
            Self::Exists(what) => ProviderError::Taken(what),
            Self::Other(error) => error,
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let header = error.http_headers().and_then(|headers| headers.get("retry-after"));
        let retry_after = header.and_then(|value| value.to_str().ok()).and_then(|text| text.trim().parse().ok());
        if let Some(status) = error.status() {
            let is_rate = status.details.iter().any(|detail| match detail {
                StatusDetails::ErrorInfo(info) => info.reason == "RATE_LIMIT_EXCEEDED",
                _ => false,
            });
            return of_status(status.code, &status.message, is_rate || retry_after.is_some(), retry_after);
        }
        if let Some(http) = error.http_status_code() {
            // Not the API's own words: something between answered.
            let what = format!("HTTP {http} from between here and the API");
            return Self::Other(match http {
                401 | 403 | 407 => ProviderError::Denied(what),
                408 | 429 | 500.. => ProviderError::Transient { what, retry_after },
                _ => ProviderError::Invalid(format!("{what}: is the address right?")),
            });
        }
        let what = causes(error);
        Self::Other(if error.is_authentication() {
            ProviderError::Denied(what)
        } else if error.is_connect() {
            ProviderError::Transient { what, retry_after: None }
        } else if error.is_binding() || error.is_serialization() {
            ProviderError::Invalid(what)
        } else {
            // Broken connections, timeouts, and answers that cannot be read: the effect may be there.
            ProviderError::Unknown(what)
        })
    }
}

/// An error with everything that caused it, each once.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}

/// The same of an operation's error, whose code is a number.
pub(crate) fn of_operation(code: i32, message: &str) -> Failure {
    of_status(Code::from(code), message, false, None)
}

fn of_status(code: Code, message: &str, is_rate: bool, retry_after: Option<u64>) -> Failure {
    let what = message.to_owned();
    let lower = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    Failure::Other(match code {
        Code::NotFound => return Failure::NotFound(what),
        Code::AlreadyExists => return Failure::Exists(what),
        Code::FailedPrecondition => return Failure::Precondition(what),
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => ProviderError::Invalid(what),
        Code::PermissionDenied | Code::Unauthenticated => ProviderError::Denied(what),
        Code::ResourceExhausted if has(&["no more capacity", "no available", "stockout", "enough resources"]) => {
            ProviderError::NoCapacity(what)
        }
        // One word for two things: too many requests in a minute, which passes, and too many chips, which does not.
        Code::ResourceExhausted if is_rate || has(&["per minute", "rate", "requests"]) => {
            ProviderError::Transient { what, retry_after }
        }
        Code::ResourceExhausted if has(&["quota"]) => ProviderError::Quota(what),
        _ => ProviderError::Transient { what, retry_after },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: Code, message: &str, expected: fn(String) -> ProviderError) {
        assert_eq!(of_status(code, message, false, None).into_error(), expected(message.into()));
    }

    #[test]
    fn exhausted_is_three_things() {
        let full = "There is no more capacity in the zone \"us-west4-a\"; you can try in another zone.";
        check(Code::ResourceExhausted, full, ProviderError::NoCapacity);
        let quota =
            "Quota limit 'TPUV5sLitepodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-west4-a.";
        check(Code::ResourceExhausted, quota, ProviderError::Quota);
        let minute = "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute'";
        check(Code::ResourceExhausted, minute, |what| ProviderError::Transient { what, retry_after: None });
        assert!(of_status(Code::ResourceExhausted, quota, true, Some(3)).is_passing());
    }

    #[test]
    fn what_will_never_be_right_is_not_asked_again() {
        for code in [Code::InvalidArgument, Code::PermissionDenied, Code::NotFound, Code::AlreadyExists] {
            assert!(!of_status(code, "no", false, None).is_passing(), "{code:?}");
        }
        for code in [Code::Unavailable, Code::Internal, Code::Aborted, Code::Unknown, Code::DeadlineExceeded] {
            assert!(of_status(code, "later", false, None).is_passing(), "{code:?}");
        }
    }
}
