//! Counts, times and amounts on the command line: read in one way by all commands, refused with an example.

use chips::quantity::{self, QuantityError};

use crate::failure::Failure;

/// A count: tokens, steps, FLOPs.
pub(crate) fn count(option: &str, text: Option<&str>) -> Result<Option<f64>, Failure> {
    read(option, text, quantity::count, "1T")
}

/// A time, in seconds.
pub(crate) fn seconds(option: &str, text: Option<&str>) -> Result<Option<f64>, Failure> {
    read(option, text, quantity::seconds, "30d")
}

/// US dollars.
pub(crate) fn dollars(option: &str, text: Option<&str>) -> Result<Option<f64>, Failure> {
    read(option, text, quantity::dollars, "$50k")
}

fn read(
    option: &str,
    text: Option<&str>,
    read: fn(&str) -> Result<f64, QuantityError>,
    example: &str,
) -> Result<Option<f64>, Failure> {
    let value = text.map(read).transpose();
    value.map_err(|error| Failure::new(format!("--{option}: {error}")).hint(format!("as in --{option} {example}")))
}
