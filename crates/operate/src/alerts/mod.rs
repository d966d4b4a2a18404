//! Alerts: rules over metrics in TOML, their states from pending to firing to resolved, and those who are told.
//!
//! ```
//! use operate::alerts::{AlertEngine, AlertsConfig};
//! use telemetry::Registry;
//!
//! let config = AlertsConfig::parse(
//!     r#"
//!     builtin = false
//!     [[alert]]
//!     name = "hot"
//!     metric = "temperature_celsius"
//!     when = "> 90"
//!     "#,
//! )?;
//! let mut engine = AlertEngine::new(config.rules());
//! let registry = Registry::new();
//! registry.gauge("temperature_celsius", "Temperature.", &[]).set(95.0);
//! let events = engine.evaluate(&registry.gather(), 1000.0);
//! assert_eq!(events[0].alert, "hot");
//! # Ok::<(), operate::alerts::RuleError>(())
//! ```

mod condition;
mod config;
mod deliver;
mod engine;
mod event;
mod history;
mod selector;
mod watch;

pub use condition::{AlertComparison, AlertReference, Condition};
pub use config::{AlertAction, AlertRule, AlertScope, AlertsConfig, HangAction, HangConfig, RuleError, Severity};
pub use deliver::{Backoff, Deliveries};
pub use engine::AlertEngine;
pub use event::{ALERTS_FILE, AlertEvent, AlertState};
pub use selector::MetricSelector;
pub use watch::{AlertOutlets, AlertWatch, FIRING_METRIC, PREDICTED_STEP_SECONDS};
