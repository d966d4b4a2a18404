//! How object stores are reached: credentials and endpoints by the usual names, and how long to insist.

use std::time::Duration;

/// How object stores are reached.
///
/// Options have the names of the usual environment variables in lower case: `aws_access_key_id`,
/// `aws_secret_access_key`, `aws_session_token`, `aws_region`, `aws_endpoint_url`, `aws_allow_http`,
/// `google_application_credentials`, `google_base_url`, `google_skip_signature` and the others the `object_store` crate
/// knows, and `storage_emulator_host`.
#[derive(Clone)]
pub struct Access {
    /// Options by name; of equal names the last one counts.
    pub options: Vec<(String, String)>,
    /// How often a failed request is repeated.
    pub max_retries: usize,
    /// How long after its first try a request is still repeated.
    pub retry_for: Duration,
    /// The pause before the first repetition; it grows with each one.
    pub first_pause: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
}

impl Default for Access {
    fn default() -> Access {
        Access {
            options: Vec::new(),
            max_retries: 6,
            retry_for: Duration::from_secs(120),
            first_pause: Duration::from_millis(200),
            request_timeout: Duration::from_secs(120),
        }
    }
}

impl Access {
    /// What the environment says: `AWS_*`, `GOOGLE_*` and `STORAGE_EMULATOR_HOST`.
    pub fn from_environment() -> Access {
        let text =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let known = text.filter(|(name, _)| {
            name.starts_with("AWS_") || name.starts_with("GOOGLE_") || name == "STORAGE_EMULATOR_HOST"
        });
        let options = known.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        Access { options, ..Access::default() }
    }

    /// Adds an option.
    pub fn with(mut self, name: &str, value: &str) -> Access {
        self.options.push((name.to_ascii_lowercase(), value.to_string()));
        self
    }

    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Values are left out: some are secrets.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.options.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Access")
            .field("options", &names)
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed_and_later_options_count() {
        let access = Access::default().with("AWS_SECRET_ACCESS_KEY", "first").with("aws_secret_access_key", "hunter2");
        assert_eq!(access.option("aws_secret_access_key"), Some("hunter2"));
        let printed = format!("{access:?}");
        assert!(printed.contains("aws_secret_access_key") && !printed.contains("hunter2"), "{printed}");
    }
}
