//! Everything that can go wrong in this crate, and who must act on it.

use std::fmt;

use fleet::ErrorFamily;
use fleet::provider::ProviderError;

/// A failure to reach the cloud, or of the cloud.
#[derive(Debug)]
pub enum Error {
    /// No project is named anywhere.
    NoProject,
    /// A project's id with characters that it cannot have.
    BadProject {
        /// The id.
        project: String,
    },
    /// Credentials would be sent in the clear.
    InsecureEndpoint {
        /// Where to.
        endpoint: String,
    },
    /// No credentials were found, or they cannot be used.
    Credentials {
        /// Why not.
        what: String,
    },
    /// The client could not be made.
    Client {
        /// Why not.
        what: String,
    },
    /// The cloud's own answer.
    Provider(ProviderError),
}

impl Error {
    /// Who must act.
    pub fn family(&self) -> ErrorFamily {
        match self {
            Self::NoProject | Self::BadProject { .. } | Self::InsecureEndpoint { .. } => ErrorFamily::Input,
            Self::Provider(ProviderError::Invalid(_) | ProviderError::Taken(_)) => ErrorFamily::Input,
            Self::Credentials { .. } | Self::Client { .. } | Self::Provider(_) => ErrorFamily::Machine,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> Option<String> {
        let text = match self {
            Self::NoProject => "give --project, set GOOGLE_CLOUD_PROJECT, or run `gcloud config set project PROJECT`",
            Self::BadProject { .. } => "give the project's id, such as my-project-123, not its name",
            Self::InsecureEndpoint { .. } => {
                "use https, or set CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true for a stand-in that needs none"
            }
            Self::Credentials { .. } => {
                "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
            }
            Self::Client { .. } => return None,
            Self::Provider(error) => match error {
                ProviderError::NoCapacity(_) => "try another zone, or wait in the queue (leave out --node)",
                ProviderError::Quota(_) => {
                    "delete what is dead (`tpu ls` shows it: lost and failed slices count), or ask for more quota"
                }
                ProviderError::Taken(_) => "choose another name, or delete the other slice with `tpu down`",
                ProviderError::Denied(_) => {
                    "give the account the role roles/tpu.admin, and check which account is active: `gcloud auth list`"
                }
                ProviderError::Invalid(_) => return None,
                ProviderError::Transient { .. } => "run the same command again",
                ProviderError::Unknown(_) => "run the same command again: it finds what was made and makes no second",
            },
        };
        Some(text.into())
    }
}

impl From<ProviderError> for Error {
    fn from(error: ProviderError) -> Self {
        Self::Provider(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProject => f.write_str("no Google Cloud project is given"),
            Self::BadProject { project } => write!(f, "{project:?} is not the id of a project"),
            Self::InsecureEndpoint { endpoint } => write!(f, "credentials are not sent to {endpoint}: it is not https"),
            Self::Credentials { what } => write!(f, "no credentials for Google Cloud: {what}"),
            Self::Client { what } => write!(f, "cannot make the client: {what}"),
            Self::Provider(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}
