//! What can go wrong with a cluster, and what to do about it.

use std::fmt;

/// A failure of a cluster, or to reach it.
#[derive(Debug)]
pub enum ClusterError {
    /// No cluster is configured, or its configuration is wrong.
    Config {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API server refused, or did not answer.
    Api {
        /// What was being done.
        doing: &'static str,
        /// To what.
        object: String,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// An object of that name belongs to somebody else.
    NotOurs {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A job of that name is there, and is another.
    Differs {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A log cannot be read or written.
    Log {
        /// Why not.
        source: std::io::Error,
    },
    /// A manifest of ours is not an object.
    Encode {
        /// Why not.
        source: serde_json::Error,
    },
}

impl ClusterError {
    pub(super) fn config(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClusterError {
        ClusterError::Config { source: source.into() }
    }

    pub(super) fn api(doing: &'static str, object: String, source: kube::Error) -> ClusterError {
        ClusterError::Api { doing, object, source: Box::new(source) }
    }

    /// The status that the API server gave, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            ClusterError::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            ClusterError::Config { .. } => {
                "`kubectl get nodes` must work first: `gcloud container clusters get-credentials CLUSTER` configures it"
                    .into()
            }
            ClusterError::Api { .. } => match self.code() {
                Some(404) => "the cluster does not know this kind: install JobSet v0.12 or newer".into(),
                Some(401 | 403) => {
                    "ask for the rights to do this in the namespace; `kubectl auth can-i` tells them".into()
                }
                Some(400 | 422) => "the message says which field; versions of JobSet before v0.12 know fewer".into(),
                _ => "try again: whatever was done already is not done twice".into(),
            },
            ClusterError::NotOurs { .. } => "give the job another name, or delete the object yourself".into(),
            ClusterError::Differs { .. } => "`tpu k8s delete` it first, or give the job another name".into(),
            ClusterError::Log { .. } => "try again, with a pod that runs".into(),
            ClusterError::Encode { .. } => "report this: the manifest is ours".into(),
        }
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Config { .. } => f.write_str("no cluster can be reached"),
            ClusterError::Api { doing, object, .. } => write!(f, "{doing} {object} failed"),
            ClusterError::NotOurs { kind, name } => write!(f, "{kind} {name} is there and was made by somebody else"),
            ClusterError::Differs { kind, name } => {
                write!(f, "{kind} {name} is there, and was made from another job file; what runs is not changed")
            }
            ClusterError::Log { .. } => f.write_str("a log cannot be read"),
            ClusterError::Encode { .. } => f.write_str("a manifest is not an object"),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClusterError::Config { source } => Some(source.as_ref()),
            ClusterError::Api { source, .. } => Some(source.as_ref()),
            ClusterError::Log { source } => Some(source),
            ClusterError::Encode { source } => Some(source),
            ClusterError::NotOurs { .. } | ClusterError::Differs { .. } => None,
        }
    }
}
