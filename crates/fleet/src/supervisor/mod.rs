//! The supervisor of a job: from a request for slices to a finished run, through preemptions, crashes, hangs and its own death.
//!
//! - [`JobState`] is everything it knows. It lies in the job's folder or bucket as one record ([`Journal`]) that changes by
//!   conditional puts, so that any other process can go on from it, and two never both write.
//! - [`decide`] is pure: state, what was observed, and the time give the next state and [`Action`]s. The next state is
//!   written before an action is done: a slice is in the journal before it is asked for.
//! - [`Supervisor::tick`] observes, decides, writes and acts, once.
//! - [`JobBill`] is what was paid: seconds of each slice while it was ready, and what of it restarts wasted.
//!
//! A copy of the program is started only when every process of the one before has ended, or its machines are gone.
//!
//! ```
//! use fleet::job::JobFile;
//! use fleet::supervisor::{Action, JobState, Seen, decide};
//!
//! let job = "name = 'a'\nfolder = 'gs://b/a'\n[run]\ntrain = 't.toml'\n[slices]\ntype = 'v6e-8'\nzones = ['us-east5-a', 'us-east5-b']\n";
//! let job = JobFile::parse(job)?;
//! let mut state = JobState::new(&job, "run1", 0);
//! // Nothing is there yet: it asks in both zones at once.
//! let actions = decide(&job, &mut state, &Seen::nothing_in(&job), 1_000).actions;
//! let asked = actions.iter().filter(|action| matches!(action, Action::Create(_)));
//! assert_eq!((asked.count(), state.units.len()), (2, 2));
//! # Ok::<(), fleet::job::JobFileError>(())
//! ```

mod attempt;
mod bill;
mod capacity;
mod decide;
mod journal;
mod state;
mod tick;

pub use bill::{BilledSlice, JobBill};
pub use decide::{Action, Decision, Seen, StopHow, WorkerSeen, ZoneLook, decide};
pub use journal::{JobOwner, Journal, LEASE_MS, Records};
pub use state::{
    AttemptPhase, EndedAttempt, Ending, JobAttempt, JobState, Place, StopCause, Unit, UnitFate, ZoneTrouble,
};
pub use tick::{JobWorkers, Supervisor, SupervisorError, Tick};
