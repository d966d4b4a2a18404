//! Which series a rule is about: `name`, or `name{label="value"}`; `*` in a name is any text.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use telemetry::{Labels, MetricFamily, Sample};

use super::condition::is_metric_name;

/// Series of one metric, those with certain labels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct MetricSelector {
    /// The metric.
    pub name: String,
    /// Labels that a series must have; it may have more.
    pub labels: Labels,
}

impl MetricSelector {
    /// The families it names.
    pub fn families<'a>(&self, families: &'a [MetricFamily]) -> impl Iterator<Item = &'a MetricFamily> {
        families.iter().filter(move |family| is_like(&self.name, &family.name))
    }

    /// Whether a series has the labels.
    pub fn matches(&self, sample: &Sample) -> bool {
        self.labels.iter().all(|wanted| sample.labels.contains(wanted))
    }
}

/// Whether a name is as a pattern says.
fn is_like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl FromStr for MetricSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricSelector, String> {
        let text = text.trim();
        let (name, labels) = match text.split_once('{') {
            None => (text, None),
            Some((name, rest)) => {
                let labels = rest.strip_suffix('}').ok_or_else(|| format!("`{text}` has `{{` without `}}`"))?;
                (name, Some(labels))
            }
        };
        if !is_metric_name(&name.replace('*', "_")) {
            return Err(format!("`{name}` is no name of a metric"));
        }
        let mut rest = labels.unwrap_or_default().trim();
        let mut labels = Labels::new();
        while !rest.is_empty() {
            let wrong = || format!("`{text}`: labels are written as `{{device=\"0\",host=\"a\"}}`");
            let (label, value) = rest.split_once("=\"").ok_or_else(wrong)?;
            let (value, after) = value.split_once('"').ok_or_else(wrong)?;
            if !is_metric_name(label.trim()) {
                return Err(wrong());
            }
            labels.push((label.trim().to_string(), value.to_string()));
            rest = match after.trim().strip_prefix(',') {
                Some(after) => after.trim(),
                None if after.trim().is_empty() => "",
                None => return Err(wrong()),
            };
        }
        Ok(MetricSelector { name: name.to_string(), labels })
    }
}

impl TryFrom<String> for MetricSelector {
    type Error = String;

    fn try_from(text: String) -> Result<MetricSelector, String> {
        text.parse()
    }
}

impl fmt::Display for MetricSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        if labels.is_empty() { Ok(()) } else { write!(f, "{{{}}}", labels.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
        };
        check("a_b", "a_b", true);
        check("a_b", "a_bc", false);
        check("a*", "a", true);
        check("*b", "a_b", true);
        check("a*c*e", "abcde", true);
        check("a*c*e", "abde", false);
        check("a*bb", "ab", false);
        check("**", "", true);
    }

    #[test]
    fn selectors_are_read_and_printed() {
        for text in ["a", "a{b=\"c\"}", "a{b=\"c\",d=\"e f, g\"}", "a{b=\"\"}"] {
            assert_eq!(text.parse::<MetricSelector>().unwrap().to_string(), text);
        }
        assert_eq!(" a{ b=\"c\" , } ".parse::<MetricSelector>().unwrap().to_string(), "a{b=\"c\"}");
        for wrong in ["", "7", "a b", "a{", "a{b}", "a{b=c}", "a{b=\"c}", "a{b=\"c\"d=\"e\"}", "a{1=\"c\"}"] {
            assert!(wrong.parse::<MetricSelector>().is_err(), "{wrong}");
        }
    }
}
