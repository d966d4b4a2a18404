//! Numbers as people read them.

/// Bytes of a whole, as `12.1/15.7 GiB`.
pub(super) fn bytes_of(used: Option<u64>, total: Option<u64>) -> String {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    match (used, total) {
        (Some(used), Some(total)) => format!("{:.2}/{:.1} GiB", gib(used), gib(total)),
        (Some(used), None) => format!("{:.2} GiB", gib(used)),
        (None, Some(total)) => format!("?/{:.1} GiB", gib(total)),
        (None, None) => "-".into(),
    }
}

/// A share, as `97 %`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0))
}

/// A time, in the unit that fits.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds.abs() {
        small if small < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        small if small < 1.0 => format!("{:.1} ms", seconds * 1e3),
        middle if middle < 120.0 => format!("{seconds:.1} s"),
        middle if middle < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

/// A number with few digits, as `12.3k`.
pub(super) fn short(number: f64) -> String {
    match number.abs() {
        large if large >= 1e9 => format!("{:.1}G", number / 1e9),
        large if large >= 1e6 => format!("{:.1}M", number / 1e6),
        large if large >= 1e4 => format!("{:.1}k", number / 1e3),
        _ => format!("{number:.0}"),
    }
}

/// Values as a line of bars, the newest at the right, between `low` and `high`; `None` for their own bounds.
pub(super) fn sparkline(values: &[f64], width: usize, bounds: Option<(f64, f64)>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let finite = || shown.iter().copied().filter(|value| value.is_finite());
    let (low, high) =
        bounds.unwrap_or((finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max)));
    let bar = |value: &f64| match value.is_finite() {
        true if high > low => BARS[(((value - low) / (high - low)).clamp(0.0, 1.0) * 7.0).round() as usize],
        true => BARS[0],
        false => ' ',
    };
    shown.iter().map(bar).collect()
}

/// A bar of so many characters, filled by a share.
pub(super) fn bar(share: f64, width: usize) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let filled = (share * width as f64).round() as usize;
    "█".repeat(filled) + &"░".repeat(width - filled.min(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(bytes_of(Some(1 << 30), Some(16 << 30)), "1.00/16.0 GiB");
        assert_eq!((percent(Some(0.968)), percent(None)), ("97 %".to_string(), "-".to_string()));
        let times: Vec<String> = [2e-5, 0.0123, 3.0, 600.0, 7e5].into_iter().map(seconds).collect();
        assert_eq!(times, ["20 µs", "12.3 ms", "3.0 s", "10 min", "194 h"]);
        assert_eq!([1.0, 12345.0, 2.5e6].map(short), ["1", "12.3k", "2.5M"]);
    }

    #[test]
    fn lines_and_bars_stay_in_their_bounds() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], 8, Some((0.0, 1.0))), "▁▅█");
        assert_eq!(sparkline(&[1.0, 2.0, 3.0], 2, None), "▁█");
        assert_eq!(sparkline(&[5.0, f64::NAN, 5.0], 8, None), "▁ ▁");
        assert_eq!(sparkline(&[], 8, None), "");
        assert_eq!((bar(0.5, 4), bar(9.0, 4), bar(f64::NAN, 2)), ("██░░".into(), "████".into(), "░░".into()));
    }
}
