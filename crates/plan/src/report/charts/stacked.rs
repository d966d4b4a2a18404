//! One bar made of parts, with a limit if there is one.

use super::super::text::{Text, text};
use super::{CHARACTER, CLOSE, WIDTH, open, px};

/// A part of the bar.
pub(in super::super) struct Segment {
    /// Class of its colour.
    pub(in super::super) class: &'static str,
    /// What it is.
    pub(in super::super) name: String,
    /// How much, as a number.
    pub(in super::super) value: f64,
    /// How much, in words.
    pub(in super::super) shown: String,
}

/// Room for the words of the limit.
const ABOVE: f64 = 22.0;
const HEIGHT: f64 = 34.0;
/// Between two parts.
const GAP: f64 = 2.0;

/// A bar. `limit` is where the line stands, and what it says.
pub(in super::super) fn stacked(label: &str, segments: &[Segment], limit: Option<(f64, String)>) -> String {
    let total: f64 = segments.iter().map(|segment| segment.value.max(0.0)).sum();
    let top = if limit.is_some() { ABOVE } else { 2.0 };
    let most = limit.as_ref().map_or(total, |(limit, _)| total.max(*limit)).max(1e-30);
    let x = |value: f64| value / most * (WIDTH - 2.0) + 1.0;
    let mut svg = open(top + HEIGHT + 6.0, label);
    svg += &format!(
        "<rect class=\"track\" x=\"1\" y=\"{top}\" width=\"{}\" height=\"{HEIGHT}\" rx=\"3\"/>\n",
        px(WIDTH - 2.0)
    );
    let mut from = 0.0;
    for segment in segments.iter().filter(|segment| segment.value > 0.0) {
        let (left, right) = (x(from), x(from + segment.value));
        from += segment.value;
        let width = (right - left - GAP).max(0.8);
        svg += &format!(
            "<g class=\"{}\"><rect class=\"mark\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{HEIGHT}\" rx=\"2\"><title>{}: {}</title></rect>",
            segment.class,
            px(left),
            px(width),
            text(&segment.name),
            text(&segment.shown),
        );
        let room = ((width - 12.0) / CHARACTER) as usize;
        let name_length = segment.name.chars().count();
        let words = match room {
            room if room >= name_length + segment.shown.chars().count() + 2 => {
                format!("{}  {}", segment.name, segment.shown)
            }
            room if room >= name_length => segment.name.clone(),
            room if room >= segment.shown.chars().count() => segment.shown.clone(),
            _ => String::new(),
        };
        if !words.is_empty() {
            let (at, baseline) = (px(left + 7.0), px(top + HEIGHT / 2.0 + 4.0));
            svg += &format!("<text class=\"on\" x=\"{at}\" y=\"{baseline}\">{}</text>", Text(&words, 80));
        }
        svg += "</g>\n";
    }
    if let Some((limit, words)) = limit {
        let at = x(limit);
        let (anchor, shift) = if at > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        svg += &format!(
            "<line class=\"limit\" x1=\"{0}\" x2=\"{0}\" y1=\"4\" y2=\"{1}\"/><text class=\"strong\" x=\"{2}\" y=\"14\" text-anchor=\"{anchor}\">{3}</text>\n",
            px(at),
            px(top + HEIGHT + 5.0),
            px(at + shift),
            text(&words),
        );
    }
    svg + CLOSE
}
