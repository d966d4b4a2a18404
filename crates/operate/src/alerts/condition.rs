//! When a rule holds: `> 0.9`, `< 80% of median`, `> 1.2 of prediction`, `is NaN`, `older than 20 steps and 60s`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::watch::PREDICTED_STEP_SECONDS;

/// When a rule holds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Condition {
    /// The value against a number, or against a part of another one.
    Compares {
        /// How.
        comparison: AlertComparison,
        /// The number, or the factor of what it is compared with.
        factor: f64,
        /// What the factor is of.
        reference: AlertReference,
    },
    /// The value is NaN.
    IsNan,
    /// The value is NaN or infinite.
    IsNotFinite,
    /// There is no such series.
    IsAbsent,
    /// The value is a time, in seconds since 1970, that is further back.
    IsOlder {
        /// Than this.
        seconds: f64,
        /// And than so many median steps.
        steps: f64,
    },
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertComparison {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

/// What a factor is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertReference {
    /// Of nothing: it is the number.
    Number,
    /// Of the series' own median.
    Median,
    /// Of another metric.
    Metric(String),
}

/// Longest symbols first.
const COMPARISONS: [(&str, AlertComparison); 6] = [
    (">=", AlertComparison::AtLeast),
    ("<=", AlertComparison::AtMost),
    ("==", AlertComparison::Equal),
    ("!=", AlertComparison::NotEqual),
    (">", AlertComparison::Above),
    ("<", AlertComparison::Below),
];

impl AlertComparison {
    /// Whether the comparison holds; with NaN none does but `!=`.
    pub(super) fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            AlertComparison::Above => value > bound,
            AlertComparison::AtLeast => value >= bound,
            AlertComparison::Below => value < bound,
            AlertComparison::AtMost => value <= bound,
            AlertComparison::Equal => value == bound,
            AlertComparison::NotEqual => value != bound,
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let text = text.trim();
        if let Some(what) = text.strip_prefix("is ") {
            return match what.trim() {
                "NaN" => Ok(Condition::IsNan),
                "not finite" => Ok(Condition::IsNotFinite),
                "absent" => Ok(Condition::IsAbsent),
                other => Err(format!("`is {other}` is not known: there are `is NaN`, `is not finite` and `is absent`")),
            };
        }
        if let Some(than) = text.strip_prefix("older than ") {
            return older(than);
        }
        let Some((symbol, comparison)) = COMPARISONS.iter().find(|(symbol, _)| text.starts_with(symbol)) else {
            return Err(format!(
                "`{text}` is no condition: write `> 0.9`, `< 80% of median`, `is NaN` or `older than 2h`"
            ));
        };
        let rest = text.strip_prefix(symbol).unwrap_or_default().trim();
        let (factor, reference) = match rest.split_once(" of ") {
            None => (rest, AlertReference::Number),
            Some((factor, "median")) => (factor, AlertReference::Median),
            Some((factor, "prediction")) => (factor, AlertReference::Metric(PREDICTED_STEP_SECONDS.to_string())),
            Some((factor, metric)) if is_metric_name(metric.trim()) => {
                (factor, AlertReference::Metric(metric.trim().to_string()))
            }
            Some((_, other)) => {
                return Err(format!("`{other}` is neither `median`, `prediction` nor the name of a metric"));
            }
        };
        let factor = number(factor.trim())?;
        Ok(Condition::Compares { comparison: *comparison, factor, reference })
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Condition, String> {
        text.parse()
    }
}

/// `2h`, `20 steps`, or `20 steps and 60s`.
fn older(than: &str) -> Result<Condition, String> {
    let (mut seconds, mut steps) = (0.0, 0.0);
    for part in than.split(" and ").map(str::trim) {
        match part.strip_suffix("steps").or_else(|| part.strip_suffix("step")) {
            Some(count) => steps = number(count.trim())?,
            None => seconds = duration(part)?,
        }
    }
    Ok(Condition::IsOlder { seconds, steps })
}

pub(super) fn is_metric_name(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// A number, with `%` or a unit of time behind it or without.
fn number(text: &str) -> Result<f64, String> {
    if let Some(percent) = text.strip_suffix('%') {
        return plain(percent.trim()).map(|percent| percent / 100.0);
    }
    plain(text).or_else(|_| duration(text)).map_err(|_| format!("`{text}` is not a number"))
}

fn plain(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|number| number.is_finite());
    parsed.ok_or_else(|| format!("`{text}` is not a number"))
}

/// Units of time, longest names first.
const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// A time as `90s`, `5m`, `2h`, in seconds.
pub(super) fn duration(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let known = UNITS.iter().find_map(|(unit, seconds)| {
        let count = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
        (count.is_finite() && (0.0..=1e9).contains(&count)).then_some(count * seconds)
    });
    known.ok_or_else(|| format!("`{text}` is no time: write `500ms`, `90s`, `5m`, `2h` or `1d`"))
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Compares { comparison, factor, reference } => {
                let symbol = COMPARISONS.iter().find(|(_, known)| known == comparison).map_or("", |(symbol, _)| symbol);
                write!(f, "{symbol} {factor}")?;
                match reference {
                    AlertReference::Number => Ok(()),
                    AlertReference::Median => f.write_str(" of median"),
                    AlertReference::Metric(name) if name == PREDICTED_STEP_SECONDS => f.write_str(" of prediction"),
                    AlertReference::Metric(name) => write!(f, " of {name}"),
                }
            }
            Condition::IsNan => f.write_str("is NaN"),
            Condition::IsNotFinite => f.write_str("is not finite"),
            Condition::IsAbsent => f.write_str("is absent"),
            Condition::IsOlder { seconds, steps } if *steps == 0.0 => write!(f, "older than {seconds}s"),
            Condition::IsOlder { seconds, steps } => write!(f, "older than {steps} steps and {seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_printed() {
        let check = |text: &str, printed: &str| {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), printed, "{text}");
            assert_eq!(printed.parse::<Condition>().unwrap(), condition, "{text}");
        };
        check("> 0.9", "> 0.9");
        check(">=90%", ">= 0.9");
        check("< 80% of median", "< 0.8 of median");
        check("> 1.2 of prediction", "> 1.2 of prediction");
        check("> 0.97 of tpubridge_device_hbm_limit_bytes", "> 0.97 of tpubridge_device_hbm_limit_bytes");
        check("!= 0", "!= 0");
        check("> 5m", "> 300");
        check("is NaN", "is NaN");
        check(" is not finite ", "is not finite");
        check("is absent", "is absent");
        check("older than 2h", "older than 7200s");
        check("older than 20 steps", "older than 20 steps and 0s");
        check("older than 1m and 20 steps", "older than 20 steps and 60s");
    }

    #[test]
    fn what_is_no_condition_is_told() {
        let check = |text: &str, part: &str| {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("", "no condition");
        check("90", "no condition");
        check("> ", "`` is not a number");
        check("> x", "`x` is not a number");
        check("> inf", "not a number");
        check("< 1 of a mean", "neither");
        check("is none", "is NaN");
        check("older than", "no condition");
        check("older than tea", "`tea` is no time");
        check("older than x steps", "`x` is not a number");
    }
}
