//! Operate a run: see where its time goes.
//!
//! - [`profile`] says what a profile measured, beside what was predicted.
//!
//! ```
//! // What is no profile is told.
//! let error = operate::profile::read("/nowhere".as_ref(), Default::default(), None).unwrap_err();
//! assert_eq!(error.to_string(), "/nowhere cannot be read");
//! ```

pub mod profile;
