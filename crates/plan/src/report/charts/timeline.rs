//! The step on a time axis: loops, the core, and a lane for each kind of transfer.

use super::super::number::seconds;
use super::super::text::{Text, tail, text};
use super::{CHARACTER, CLOSE, WIDTH, bound_class, open, px, ticks};
use crate::op_time::Bound;
use crate::pictures::{LoopSpan, Span, SpanKind, Timeline, TransferWindow};

const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
const LOOP_ROW: f64 = 18.0;
/// Loops within loops shown, one row each.
const LOOP_ROWS: u32 = 3;
const CORE: f64 = 44.0;
const WINDOW_ROW: f64 = 9.0;
/// Transfers drawn beside each other on a lane.
const WINDOW_ROWS: usize = 5;
const BETWEEN: f64 = 10.0;
const LANES: [(Bound, &str); 3] = [(Bound::Ici, "chip links"), (Bound::Dcn, "DCN"), (Bound::Host, "host link")];

/// The chart.
pub(in super::super) fn timeline(timeline: &Timeline) -> String {
    let whole = timeline.seconds.max(1e-30);
    let x = |at: f64| LEFT + at / whole * (WIDTH - LEFT - RIGHT);
    let mut rows = String::new();
    let mut top = 4.0;
    let depth = timeline.loops.iter().map(|span| span.depth + 1).max().unwrap_or(0).min(LOOP_ROWS);
    if depth > 0 {
        rows += &label("loops", top + 13.0);
        for span in timeline.loops.iter().filter(|span| span.depth < LOOP_ROWS) {
            rows += &loop_row(span, &x, top + f64::from(span.depth) * LOOP_ROW);
        }
        top += f64::from(depth) * LOOP_ROW + BETWEEN / 2.0;
    }
    rows += &label("core", top + CORE / 2.0 + 4.0);
    for span in &timeline.spans {
        rows += &core_span(span, &x, top);
    }
    top += CORE + BETWEEN;
    for (lane, name) in LANES {
        let windows: Vec<&TransferWindow> = timeline.windows.iter().filter(|window| window.lane == lane).collect();
        if windows.is_empty() {
            continue;
        }
        let placed = place(&windows);
        let used = placed.iter().map(|row| row + 1).max().unwrap_or(1);
        let height = (used as f64 * WINDOW_ROW).max(16.0);
        rows += &label(name, top + height / 2.0 + 4.0);
        rows += &waits(timeline, lane, &x, top, height);
        for (window, row) in windows.iter().zip(&placed) {
            rows += &window_bar(window, &x, top + *row as f64 * WINDOW_ROW);
        }
        top += height + BETWEEN;
    }
    let mut svg = open(top + 22.0, "The step on a time axis");
    svg += PATTERN;
    for tick in ticks(whole, 8.0) {
        svg += &format!(
            "<line class=\"grid\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"{1}\"/><text class=\"dim\" x=\"{0}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>\n",
            px(x(tick)),
            px(top),
            px(top + 16.0),
            seconds(tick),
        );
    }
    svg + &rows + CLOSE
}

/// Stripes over what is waited for.
const PATTERN: &str = "<defs><pattern id=\"stripes\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"stripe\" width=\"2.6\" height=\"6\"/></pattern></defs>\n";

/// What the colours of the core mean.
pub(in super::super) fn legend(timeline: &Timeline) -> String {
    let mut html = String::from("<p class=\"legend\">");
    for bound in Bound::ALL {
        if timeline.spans.iter().any(|span| span.bound == bound && span.kind == SpanKind::Work) {
            html += &format!("<span><i class=\"swatch {}\"></i>{}</span>", bound_class(bound), text(bound.name()));
        }
    }
    if timeline.spans.iter().any(|span| span.kind == SpanKind::Wait) {
        html += "<span><i class=\"swatch striped\"></i>the core waits</span>";
    }
    html + "</p>\n"
}

fn label(name: &str, baseline: f64) -> String {
    let (at, baseline) = (px(LEFT - 8.0), px(baseline));
    format!("<text class=\"dim\" x=\"{at}\" y=\"{baseline}\" text-anchor=\"end\">{name}</text>\n")
}

fn loop_row(span: &LoopSpan, x: &dyn Fn(f64) -> f64, top: f64) -> String {
    let (left, width) = (x(span.begin_s), x(span.end_s) - x(span.begin_s) - 1.0);
    if width < 2.0 {
        return String::new();
    }
    let words = span.trips.map_or_else(|| "unknown length, drawn once".to_string(), |trips| format!("× {trips}"));
    let mut svg = format!(
        "<rect class=\"track\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"><title>loop {words}: {}</title></rect>",
        px(left),
        px(top),
        px(width),
        px(LOOP_ROW - 3.0),
        seconds(span.end_s - span.begin_s),
    );
    if words.chars().count() as f64 * CHARACTER + 8.0 < width {
        let middle = px(left + width / 2.0);
        svg += &format!("<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{words}</text>", px(top + 11.5));
    }
    svg + "\n"
}

fn core_span(span: &Span, x: &dyn Fn(f64) -> f64, top: f64) -> String {
    let (left, right) = (x(span.begin_s), x(span.end_s));
    let width = (right - left - if right - left > 4.0 { 1.0 } else { 0.0 }).max(0.4);
    let took = seconds(span.end_s - span.begin_s);
    let others = if span.ops > 1 { format!(", {} ops", span.ops) } else { String::new() };
    let (doing, class) = match span.kind {
        SpanKind::Work => ("limited by", bound_class(span.bound)),
        SpanKind::Wait => ("waits for", "wait"),
    };
    let mut svg = format!(
        "<g class=\"{class}\"><rect class=\"mark\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{CORE}\"><title>{}: {took}{others}, {doing} {}</title></rect>",
        px(left),
        px(top),
        px(width),
        text(&tail(&span.name, 120)),
        span.bound.name(),
    );
    let room = ((width - 10.0) / CHARACTER) as usize;
    if room >= 6 && span.kind == SpanKind::Work {
        let (at, baseline) = (px(left + 5.0), px(top + CORE / 2.0 + 4.0));
        svg += &format!("<text class=\"on\" x=\"{at}\" y=\"{baseline}\">{}</text>", Text(&span.name, room - 1));
    }
    svg + "</g>\n"
}

/// Where the core waits for a lane.
fn waits(timeline: &Timeline, lane: Bound, x: &dyn Fn(f64) -> f64, top: f64, height: f64) -> String {
    let mut svg = String::new();
    for span in timeline.spans.iter().filter(|span| span.kind == SpanKind::Wait && span.bound == lane) {
        let (left, right) = (x(span.begin_s), x(span.end_s));
        svg += &format!(
            "<rect class=\"exposed\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
            px(left),
            px(top - 1.0),
            px((right - left).max(0.6)),
            px(height + 1.0),
        );
    }
    svg
}

fn window_bar(window: &TransferWindow, x: &dyn Fn(f64) -> f64, top: f64) -> String {
    let (left, right) = (x(window.begin_s), x(window.end_s));
    let many = if window.transfers > 1 { format!(", {} transfers", window.transfers) } else { String::new() };
    format!(
        "<g class=\"{}\"><rect class=\"mark\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"1.5\"><title>{}: {} from start to wait{many}</title></rect></g>\n",
        bound_class(window.lane),
        px(left),
        px(top),
        px((right - left - 0.5).max(0.8)),
        px(WINDOW_ROW - 2.0),
        text(&window.name),
        seconds(window.end_s - window.begin_s),
    )
}

/// The row of each window: the first that is free, the last where none is.
fn place(windows: &[&TransferWindow]) -> Vec<usize> {
    let mut free_at = [f64::MIN; WINDOW_ROWS];
    let mut rows = Vec::with_capacity(windows.len());
    for window in windows {
        let row = free_at.iter().position(|free| *free <= window.begin_s).unwrap_or(WINDOW_ROWS - 1);
        free_at[row] = free_at[row].max(window.end_s);
        rows.push(row);
    }
    rows
}
