//! Operate a run: its hosts and chips, where its time goes, alerts, a dashboard, what slows it, who hangs.
//!
//! - [`monitor`] asks hosts for what their devices do, and shows it as a table, JSON, Prometheus text or a live view.
//! - [`profile`] says what a profile measured, beside what was predicted.
//! - [`alerts`] has rules over metrics, and tells those who should know.
//! - [`dashboard`] shows runs side by side in a browser, live.
//! - [`diagnose`] names what makes a run slow, how much that is, and what to do.
//! - [`hang`] asks all processes where they are, and names who holds the others up.
//! - [`otlp`] is the way to an OpenTelemetry collector.
//!
//! ```
//! // What is no profile is told.
//! let error = operate::profile::read("/nowhere".as_ref(), Default::default(), None).unwrap_err();
//! assert_eq!(error.to_string(), "/nowhere cannot be read");
//! ```

pub mod alerts;
pub mod ask;
pub mod dashboard;
pub mod diagnose;
pub mod hang;
pub mod monitor;
pub mod otlp;
pub mod processes;
pub mod profile;
