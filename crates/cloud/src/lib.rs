//! Google's Cloud TPU: slices asked for, listed, described and deleted through Google's own clients.
//!
//! - [`CloudTpu`] is a [`fleet::provider::Provider`] over the Cloud TPU API v2: queued resources, and single nodes.
//! - [`requests`] are the requests it would make, for `--dry-run`.
//! - [`Offers`] is what a zone has: accelerator types, runtime versions and quotas.
//! - [`ssh`] reaches the workers of a slice with the system's ssh.
//! - [`Account`] is whose TPUs: the project, the zone and the addresses, as `gcloud` is configured.
//!
//! A name is an identity: the same request again, after a lost answer or from another machine, is the same slice.
//!
//! ```
//! use cloud::{Account, Ask, requests};
//! use fleet::provider::{Capacity, SliceId, SliceRequest};
//!
//! let account = Account::new("my-project");
//! let request = SliceRequest {
//!     id: SliceId { zone: "us-west4-a".into(), name: "first".into() },
//!     accelerator_type: "v5litepod-16".into(),
//!     runtime_version: "v2-alpha-tpuv5-lite".into(),
//!     slices: 1,
//!     capacity: Capacity::Spot,
//!     ..cloud::plain_request()
//! };
//! let asked = requests::to_create(&account, &request, &Ask::default())?;
//! assert_eq!(asked[0].method, "POST");
//! assert!(asked[0].url.starts_with("https://tpu.googleapis.com/v2/projects/my-project/locations/us-west4-a/queuedResources?"));
//! assert_eq!(asked[0].body.as_ref().unwrap()["tpu"]["nodeSpec"][0]["nodeId"], "first");
//! # Ok::<(), fleet::provider::ProviderError>(())
//! ```

mod account;
mod body;
mod client;
mod error;
mod failure;
mod limits;
mod offers;
mod paid;
pub mod requests;
pub mod ssh;
mod states;

pub use account::Account;
pub use body::{Ask, LABEL_MADE_BY, LABEL_REQUEST, MADE_BY, check_name, plain_request};
pub use client::{CloudTpu, Listing};
pub use error::Error;
pub use fleet::ErrorFamily;
pub use limits::RetryLimits;
pub use offers::{Offers, Quota};
pub use states::{Listed, ListedKind};
