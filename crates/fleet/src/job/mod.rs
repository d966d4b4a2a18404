//! The job file: what to run, on which slices, where, for how much and until when.
//!
//! A [`JobFile`] is read from `job.toml`. Reading is strict and needs no network: every fault is told at once, each with
//! the nearest right value. What reads also writes itself: [`JobFile::to_toml`].
//!
//! ```
//! let job = fleet::job::JobFile::parse(
//!     "name = 'tiny'\nfolder = 'gs://bucket/tiny'\n[run]\ntrain = 'tiny.toml'\n[slices]\ntype = 'v6e-8'\nzones = ['us-east5-b']\n",
//! )?;
//! assert_eq!((job.slice().chips(), job.processes()), (8, 1));
//! assert_eq!(fleet::job::JobFile::parse(&job.to_toml())?, job);
//! # Ok::<(), fleet::job::JobFileError>(())
//! ```

mod check;
mod file;
mod keys;
mod read;
mod write;

pub use file::{
    JobCapacity, JobCloud, JobFile, JobHostKeys, JobKubernetes, JobLimits, JobPlatform, JobPlugin, JobProgram, JobRun,
    JobSlices,
};
pub use keys::{JobFault, JobFileError};
pub(crate) use read::small_file;
