//! Numbers as people read them.

/// Bytes with a binary unit, three significant digits: `15.7 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value >= 100.0 => format!("{value:.0} {}", UNITS[unit]),
        _ if value >= 10.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.2} {}", UNITS[unit]),
    }
}

/// A count with a decimal unit: `3.41 T`.
pub(crate) fn count(value: f64) -> String {
    const UNITS: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0}") } else { format!("{value:.2}{}", UNITS[unit]) }
}

/// Seconds with a fitting unit.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 0.001 => format!("{:.0} µs", v * 1e6),
        v if v < 1.0 => format!("{:.0} ms", v * 1e3),
        v if v < 120.0 => format!("{v:.1} s"),
        v if v < 7200.0 => format!("{:.1} min", v / 60.0),
        v => format!("{:.1} h", v / 3600.0),
    }
}

/// Share of a whole in percent.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(16_909_334_528), "15.7 GiB");
        assert_eq!(bytes(5 << 20), "5.00 MiB");
        assert_eq!(count(3.4106e12), "3.41 T");
        assert_eq!(count(12.0), "12");
        assert_eq!(seconds(0.0042), "4 ms");
        assert_eq!(seconds(90.0), "90.0 s");
        assert_eq!(percent(1, 4), "25.0 %");
    }
}
