//! Live bytes over the schedule, with the fullest moment, the limit, and the loops below.

use super::super::number::bytes;
use super::super::text::{Text, tail, text};
use super::{CHARACTER, CLOSE, WIDTH, open, px, ticks};
use crate::pictures::LiveMemory;

const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const PLOT: f64 = 190.0;
const BAND: f64 = 16.0;
/// A limit this many times above the fullest moment would leave no room for what is below it.
const FAR_LIMIT: f64 = 3.0;

/// The chart; `limit_bytes` is what the compiler may use.
pub(in super::super) fn live(memory: &LiveMemory, limit_bytes: u64) -> String {
    let (limit, peak) = (limit_bytes as f64, memory.peak_bytes() as f64);
    let shows_limit = limit > 0.0 && limit <= FAR_LIMIT * peak;
    let most = if shows_limit { limit.max(peak) } else { peak }.max(1.0) * 1.04;
    let count = memory.points.len().max(1) as f64;
    let bottom = TOP + PLOT;
    let x = |part: f64| LEFT + part / count * (WIDTH - LEFT - RIGHT);
    let y = |bytes: f64| bottom - bytes / most * PLOT;
    let right = WIDTH - RIGHT;
    let mut svg = open(bottom + BAND + 30.0, "Live bytes of device memory over the schedule");
    let unit = unit_below(most);
    for tick in ticks(most / unit, 5.0) {
        let at = y(tick * unit);
        svg += &format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0}\" y2=\"{0}\"/><text class=\"dim\" x=\"{1}\" y=\"{2}\" text-anchor=\"end\">{3}</text>\n",
            px(at),
            px(LEFT - 8.0),
            px(at + 4.0),
            bytes((tick * unit) as u64),
        );
    }
    let held = memory.held_bytes as f64;
    svg += &format!(
        "<g class=\"c1\"><rect class=\"mark soft\" x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>alive throughout: {}</title></rect></g>\n",
        px(y(held)),
        px(right - LEFT),
        px(bottom - y(held)),
        bytes(memory.held_bytes),
    );
    let mut path = format!("M{LEFT} {}", px(y(held)));
    for (part, point) in memory.points.iter().enumerate() {
        let at = px(y(held + point.bytes as f64));
        path += &format!(" L{} {at} L{} {at}", px(x(part as f64)), px(x(part as f64 + 1.0)));
    }
    svg += &format!("<g class=\"c6\"><path class=\"mark\" d=\"{path} L{right} {} Z\"/></g>\n", px(y(held)));
    for (part, point) in memory.points.iter().enumerate() {
        svg += &format!(
            "<rect class=\"hover\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{PLOT}\"><title>{} in all, {} of temporaries, during {} ({})</title></rect>\n",
            px(x(part as f64)),
            px(x(part as f64 + 1.0) - x(part as f64)),
            bytes(memory.held_bytes.saturating_add(point.bytes)),
            bytes(point.bytes),
            Text(&point.instruction, 60),
            text(&tail(&point.source, 80)),
        );
    }
    if shows_limit {
        svg += &format!(
            "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0}\" y2=\"{0}\"/><text class=\"strong\" x=\"{1}\" y=\"{2}\" text-anchor=\"end\">limit {3}</text>\n",
            px(y(limit)),
            px(right - 6.0),
            px(y(limit) - 6.0),
            bytes(limit_bytes),
        );
    }
    svg += &peak_mark(x(memory.peak as f64 + 0.5), y(peak), bottom, memory.peak_bytes());
    svg += &bands(memory, &x, bottom + 5.0);
    let words = if shows_limit || limit_bytes == 0 {
        "first op of the schedule".to_string()
    } else {
        format!("first op of the schedule; the limit of {} lies far above", bytes(limit_bytes))
    };
    svg += &format!(
        "<text class=\"dim\" x=\"{LEFT}\" y=\"{0}\">{1}</text><text class=\"dim\" x=\"{right}\" y=\"{0}\" text-anchor=\"end\">last op</text>\n",
        px(bottom + BAND + 22.0),
        words,
    );
    svg + CLOSE
}

fn peak_mark(x: f64, y: f64, bottom: f64, peak_bytes: u64) -> String {
    // At the far right stands the limit.
    let (anchor, shift) = if x > WIDTH * 0.7 { ("end", -10.0) } else { ("start", 10.0) };
    format!(
        "<line class=\"peak\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/><circle class=\"dot\" cx=\"{0}\" cy=\"{1}\" r=\"4\"/><text class=\"strong\" x=\"{3}\" y=\"{4}\" text-anchor=\"{anchor}\">fullest: {5}</text>\n",
        px(x),
        px(y),
        px(bottom),
        px(x + shift),
        px(y - 6.0),
        bytes(peak_bytes),
    )
}

/// Loops and other computations below the axis.
fn bands(memory: &LiveMemory, x: &dyn Fn(f64) -> f64, top: f64) -> String {
    let mut svg = String::new();
    for band in &memory.bands {
        let Some(trips) = band.trips else { continue };
        let (left, width) = (x(band.begin as f64), x(band.end as f64) - x(band.begin as f64) - 2.0);
        if width < 3.0 {
            continue;
        }
        svg += &format!(
            "<rect class=\"track\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BAND}\" rx=\"3\"><title>loop of {trips} iterations: {}</title></rect>",
            px(left),
            px(top),
            px(width),
            text(&band.name),
        );
        let words = format!("loop × {trips}");
        if words.chars().count() as f64 * CHARACTER + 8.0 < width {
            let middle = px(left + width / 2.0);
            svg += &format!("<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{words}</text>", px(top + 12.0));
        }
        svg.push('\n');
    }
    svg
}

/// The largest binary unit below a number of bytes.
fn unit_below(most: f64) -> f64 {
    let mut unit = 1.0;
    while unit * 1024.0 <= most && unit < 1e15 {
        unit *= 1024.0;
    }
    unit
}
