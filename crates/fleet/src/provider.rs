//! A provider of slices: what the supervisor asks of a cloud, and nothing more.
//!
//! A provider is slow, forgets to answer and changes its mind. Every call may be repeated: the name of a slice is its
//! identity, so that a request whose answer was lost is asked again without making a second slice.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

/// The identity of a slice, or of a group of slices that come and go together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId {
    /// The zone, such as `us-central2-b`.
    pub zone: String,
    /// The name in that zone.
    pub name: String,
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.zone, self.name)
    }
}

/// How capacity is paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// On demand.
    OnDemand,
    /// May be taken away with 30 seconds' notice.
    Spot,
    /// From a reservation.
    Reserved {
        /// The reservation's name; none: any of the project's.
        reservation: Option<String>,
    },
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceRequest {
    /// The identity it will have.
    pub id: SliceId,
    /// The cloud's name of the slice, such as `v5litepod-16`.
    pub accelerator_type: String,
    /// The image of its machines, such as `v2-alpha-tpuv5-lite`.
    pub runtime_version: String,
    /// Slices that are given together or not at all.
    pub slices: u32,
    /// How it is paid for.
    pub capacity: Capacity,
    /// A request that was not filled until then is dropped.
    pub valid_until: Option<SystemTime>,
    /// The network, the project's default if none.
    pub network: Option<String>,
    /// The subnetwork.
    pub subnetwork: Option<String>,
    /// Machines have addresses of their own on the internet.
    pub external_ips: bool,
    /// The account its machines act as.
    pub service_account: Option<String>,
    /// Network tags.
    pub tags: Vec<String>,
    /// Labels: the owner, the job and the attempt are among them.
    pub labels: BTreeMap<String, String>,
    /// Metadata, such as `startup-script` and `ssh-keys`.
    pub metadata: BTreeMap<String, String>,
    /// Data disks to attach: `projects/P/zones/Z/disks/D`, read-only where several machines share one.
    pub disks: Vec<String>,
}

/// Where a slice is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceState {
    /// Asked for; no capacity yet.
    Waiting,
    /// Capacity was given; machines are being made.
    Creating,
    /// All machines are there.
    Ready,
    /// Taken away, or about to be: it never comes back and still counts against the quota until it is deleted.
    Lost,
    /// It could not be made.
    Failed {
        /// What the provider says.
        why: String,
    },
    /// Being deleted.
    Deleting,
}

/// One machine of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its slice among those of the request, from 0.
    pub slice: u32,
    /// Its number in the slice, from 0.
    pub number: u32,
    /// Its address in the network.
    pub internal: IpAddr,
    /// Its address on the internet.
    pub external: Option<IpAddr>,
}

/// What the provider says of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedSlice {
    /// Which.
    pub id: SliceId,
    /// Where it is in its life.
    pub state: SliceState,
    /// Its workers, by slice and number; empty until they are known.
    pub workers: Vec<Worker>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was asked for.
    pub created: Option<SystemTime>,
    /// The provider's own word for its state, for people.
    pub detail: String,
}

/// A time for which a slice is paid, as the provider has recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaidTime {
    /// When capacity was given; none where the provider does not say, so that what was seen counts.
    pub from: Option<SystemTime>,
    /// When it was taken or given back; none while it is there, or where the provider does not say.
    pub until: Option<SystemTime>,
}

/// Why a provider did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderError {
    /// No capacity in this zone now: try another, or later.
    NoCapacity(String),
    /// More than the quota allows: nothing changes until something is deleted or the quota is raised.
    Quota(String),
    /// There is a slice of that name that was made by another request.
    Taken(String),
    /// The credentials do not allow it.
    Denied(String),
    /// The request is wrong and will never be right.
    Invalid(String),
    /// It may work later, at the earliest after these seconds.
    Transient {
        /// What happened.
        what: String,
        /// Seconds that the provider asks to wait.
        retry_after: Option<u64>,
    },
    /// The answer was lost: it may or may not have been done. Look, or ask again.
    Unknown(String),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCapacity(what) => write!(f, "no capacity: {what}"),
            Self::Quota(what) => write!(f, "quota exceeded: {what}"),
            Self::Taken(what) => write!(f, "name is taken: {what}"),
            Self::Denied(what) => write!(f, "permission denied: {what}"),
            Self::Invalid(what) => write!(f, "invalid request: {what}"),
            Self::Transient { what, .. } => write!(f, "try again later: {what}"),
            Self::Unknown(what) => write!(f, "the answer was lost: {what}"),
        }
    }
}

impl std::error::Error for ProviderError {}

/// A cloud, a stand-in, or a simulation.
pub trait Provider: Send + Sync {
    /// Asks for a slice. The same request again is the same slice, never a second one.
    fn create(&self, request: &SliceRequest) -> Result<(), ProviderError>;

    /// Every slice in a zone that has all these labels, whatever its state.
    fn list(&self, zone: &str, labels: &BTreeMap<String, String>) -> Result<Vec<ProvidedSlice>, ProviderError>;

    /// One slice; none when it does not exist (any more).
    fn get(&self, id: &SliceId) -> Result<Option<ProvidedSlice>, ProviderError>;

    /// Deletes a slice in any state, its machines and its request. One that does not exist is deleted.
    /// It is gone when `get` says so.
    fn delete(&self, id: &SliceId) -> Result<(), ProviderError>;

    /// The times for which a slice is or was paid, also after it is gone; empty where the provider keeps no such record. Then
    /// what the supervisor itself saw counts.
    fn paid(&self, _id: &SliceId) -> Result<Vec<PaidTime>, ProviderError> {
        Ok(Vec::new())
    }
}
