//! Version of the PJRT API that a plugin has.

use std::fmt;

/// Version of the interface a plugin was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Changes with every incompatible change.
    pub major: i32,
    /// Grows with every addition.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
