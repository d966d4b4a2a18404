//! Numbers as people read them; what is not a number is a dash.

/// Bytes with a binary unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{} {}", significant(value), UNITS[unit]) }
}

/// A count with a decimal prefix and what is counted: `3.41 TFLOP`.
pub fn scaled(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if !value.is_finite() {
        return "–".into();
    }
    let (mut value, mut prefix) = (value, 0);
    while value.abs() >= 1000.0 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    format!("{} {}{unit}", significant(value), PREFIXES[prefix]).trim_end().to_string()
}

/// Seconds with a fitting unit.
pub fn seconds(value: f64) -> String {
    match value {
        v if !v.is_finite() => "–".into(),
        v if v.abs() < 0.5e-9 => "0 s".into(),
        v if v.abs() < 1e-6 => format!("{} ns", significant(v * 1e9)),
        v if v.abs() < 1e-3 => format!("{} µs", significant(v * 1e6)),
        v if v.abs() < 1.0 => format!("{} ms", significant(v * 1e3)),
        v if v.abs() < 120.0 => format!("{} s", significant(v)),
        v if v.abs() < 7200.0 => format!("{} min", significant(v / 60.0)),
        v => format!("{} h", significant(v / 3600.0)),
    }
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "–".into() }
}

/// US dollars: cents where they matter, more digits below.
pub(super) fn dollars(value: f64) -> String {
    match value {
        v if !v.is_finite() => "–".into(),
        v if v.abs() >= 1000.0 => format!("${}", grouped(v)),
        v if v.abs() >= 0.1 || v == 0.0 => format!("${v:.2}"),
        v if v.abs() >= 1e-6 => format!("${}", plain(v)),
        v => format!("${v:.1e}"),
    }
}

/// Three significant digits.
pub(super) fn significant(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "–".into(),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Three significant digits of a small number, written out.
fn plain(value: f64) -> String {
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs().min(1e18));
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([bytes(0), bytes(1023), bytes(16_909_334_528)], ["0 B", "1023 B", "15.7 GiB"]);
        assert_eq!([scaled(3.4106e12, "FLOP/s"), scaled(12.0, "")], ["3.41 TFLOP/s", "12.0"]);
        assert_eq!(
            [seconds(4.2e-3), seconds(1.5), seconds(3e-9), seconds(0.0)],
            ["4.20 ms", "1.50 s", "3.00 ns", "0 s"]
        );
        assert_eq!([dollars(1234567.0), dollars(1.375), dollars(0.000418)], ["$1,234,567", "$1.38", "$0.000418"]);
        assert_eq!(percent(0.4321), "43.2 %");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!([seconds(value), percent(value), dollars(value), scaled(value, "B")], ["–"; 4]);
        }
    }
}
