//! Quantities as people write them: `1T` tokens, `30d`, `$50k`.

use std::fmt;

/// A quantity that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    text: String,
    expected: &'static str,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl std::error::Error for QuantityError {}

/// A count with a decimal unit: `300B`, `1T`, `2.5e9`, `500k`.
pub fn count(text: &str) -> Result<f64, QuantityError> {
    positive(text, "a count such as 300B, 1T or 2.5e9", |unit| {
        Some(match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "b" | "B" | "g" | "G" => 1e9,
            "t" | "T" => 1e12,
            "q" | "Q" | "p" | "P" => 1e15,
            _ => return None,
        })
    })
}

/// Seconds: `30d`, `12h`, `20m`, `90s`, `2w`.
pub fn seconds(text: &str) -> Result<f64, QuantityError> {
    positive(text, "a time such as 30d, 12h, 20m or 90s", |unit| {
        Some(match unit {
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "w" => 7.0 * 86400.0,
            _ => return None,
        })
    })
}

/// US dollars: `$50000`, `50k`, `$1.5M`.
pub fn dollars(text: &str) -> Result<f64, QuantityError> {
    let amount = text.trim().strip_prefix('$').unwrap_or(text.trim()).replace([',', '_'], "");
    let expected = "an amount of US dollars such as $50000, 50k or 1.5M";
    positive(&amount, expected, |unit| {
        Some(match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            _ => return None,
        })
    })
    .map_err(|_| QuantityError { text: text.to_string(), expected })
}

fn positive(text: &str, expected: &'static str, unit: impl Fn(&str) -> Option<f64>) -> Result<f64, QuantityError> {
    let trimmed = text.trim();
    // An exponent (`1e9`) is part of the number; a unit is what follows its last digit or point.
    let split = trimmed.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |at| at + 1);
    let (number, suffix) = trimmed.split_at(split);
    let value = number.parse::<f64>().ok().zip(unit(suffix.trim())).map(|(number, scale)| number * scale);
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| QuantityError { text: text.to_string(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_written() {
        let check = |read: fn(&str) -> Result<f64, QuantityError>, text: &str, expected: Option<f64>| {
            assert_eq!(read(text).ok(), expected, "{text}");
        };
        check(count, "1T", Some(1e12));
        check(count, "300B", Some(3e11));
        check(count, "2.5e9", Some(2.5e9));
        check(count, " 15 M ", Some(1.5e7));
        check(count, "many", None);
        check(count, "0", None);
        check(count, "-3B", None);
        check(count, "1X", None);
        check(count, "", None);
        check(seconds, "30d", Some(30.0 * 86400.0));
        check(seconds, "1.5h", Some(5400.0));
        check(seconds, "20m", Some(1200.0));
        check(seconds, "30", None);
        check(dollars, "$50k", Some(5e4));
        check(dollars, "$50,000", Some(5e4));
        check(dollars, "1.5M", Some(1.5e6));
        check(dollars, "€5", None);
        check(dollars, "1e999", None);
        assert_eq!(
            dollars("$x").unwrap_err().to_string(),
            "`$x` is not an amount of US dollars such as $50000, 50k or 1.5M"
        );
    }
}
