//! The roofline: operations per second against operations per byte, both logarithmic, under the machine's roofs.

use super::super::number::{percent, scaled, seconds, significant};
use super::super::roofline::Roof;
use super::super::text::{tail, text};
use super::{CLOSE, WIDTH, bound_class, decades, open, px};
use crate::estimate::OpLine;

const LEFT: f64 = 96.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 20.0;
const PLOT: f64 = 320.0;
/// Ops drawn.
const POINTS: usize = 120;
/// Ops nearer than this, in powers of ten, are drawn as one.
const NEAR: f64 = 0.03;

/// The chart; `flops` and `whole_s` are of the whole step. Numbers in circles are those of the table of operations.
pub(in super::super) fn roofline(ops: &[OpLine], flops: f64, whole_s: f64, roof: &Roof) -> String {
    let points = joined(ops.iter().enumerate().filter_map(Point::of).take(POINTS));
    let ridge = roof.bf16_flops_per_s / roof.hbm_bytes_per_s.max(1.0);
    let highest = roof.narrow.as_ref().map_or(roof.bf16_flops_per_s, |(_, rate)| *rate);
    let least_x = points.iter().map(|point| point.intensity).fold(ridge / 10.0, f64::min).max(1e-4);
    let most_x = points.iter().map(|point| point.intensity).fold(ridge * 10.0, f64::max).min(1e9);
    let least_y = points.iter().map(|point| point.rate).fold(highest / 100.0, f64::min).max(highest / 1e6);
    let ((x0, x1), (y0, _)) = (decades(least_x, most_x), decades(least_y, highest));
    // Room for a label above the highest roof, and no empty decade.
    let top_power = (highest.max(1e-30) * 2.0).log10().max(f64::from(y0) + 1.0);
    let bottom = TOP + PLOT;
    let x = |value: f64| {
        let share = (value.max(1e-30).log10() - f64::from(x0)) / f64::from(x1 - x0);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    };
    let y = |value: f64| {
        let share = (value.max(1e-30).log10() - f64::from(y0)) / (top_power - f64::from(y0));
        bottom - share.clamp(0.0, 1.0) * PLOT
    };
    let mut svg = open(bottom + 42.0, "Operations per second against operations per byte of device memory");
    let right = px(WIDTH - RIGHT);
    for power in x0..=x1 {
        let at = px(x(10f64.powi(power)));
        svg += &format!("<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        let words = if power < 0 { format!("{}", 10f64.powi(power)) } else { scaled_power(power) };
        svg += &format!(
            "<text class=\"dim\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{words}</text>\n",
            px(bottom + 16.0)
        );
    }
    for power in y0..=(top_power.floor() as i32).min(y0 + 24) {
        let at = y(10f64.powi(power));
        svg += &format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0}\" y2=\"{0}\"/>", px(at));
        svg += &format!(
            "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}FLOP/s</text>\n",
            px(LEFT - 8.0),
            px(at + 4.0),
            scaled_power(power)
        );
    }
    svg += &format!(
        "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">FLOPs of matmuls for each byte of HBM traffic</text>\n",
        px((LEFT + WIDTH - RIGHT) / 2.0),
        px(bottom + 34.0)
    );
    let flat = |rate: f64, class: &str, words: &str| {
        let (from, at) = (x(rate / roof.hbm_bytes_per_s.max(1.0)), y(rate));
        format!(
            "<line class=\"{class}\" x1=\"{0}\" x2=\"{right}\" y1=\"{1}\" y2=\"{1}\"/><text class=\"strong\" x=\"{right}\" y=\"{2}\" text-anchor=\"end\">{3} {4}</text>\n",
            px(from),
            px(at),
            px(at - 6.0),
            text(words),
            scaled(rate, "FLOP/s"),
        )
    };
    // The slope begins where it enters the plot, at the left or at the bottom.
    let enters = 10f64.powi(x0).max(10f64.powi(y0) / roof.hbm_bytes_per_s.max(1.0));
    svg += &format!(
        "<line class=\"roof\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
        px(x(enters)),
        px(y(enters * roof.hbm_bytes_per_s)),
        px(x(highest / roof.hbm_bytes_per_s.max(1.0))),
        px(y(highest)),
    );
    let beside = (enters * ridge).sqrt();
    svg += &format!(
        "<text class=\"strong\" x=\"{}\" y=\"{}\" text-anchor=\"end\">HBM {}</text>\n",
        px((x(beside) - 12.0).max(LEFT + 110.0)),
        px(y(beside * roof.hbm_bytes_per_s)),
        scaled(roof.hbm_bytes_per_s, "B/s"),
    );
    svg += &flat(roof.bf16_flops_per_s, "roof", "bf16");
    if let Some((names, rate)) = &roof.narrow {
        svg += &flat(*rate, "roof narrow", names);
    }
    let whole = whole_s.max(1e-30);
    for point in &points {
        svg += &point.draw(x(point.intensity), y(point.rate), whole, roof);
    }
    let moved: f64 = ops.iter().map(|op| op.hbm_bytes).sum();
    if flops > 0.0 && moved > 0.0 {
        svg += &step_mark(x(flops / moved), y(flops / whole), flops / moved, flops / whole);
    }
    svg + CLOSE
}

/// Ops that would lie on each other as one, most time first so that small ones lie above large ones.
fn joined<'a>(points: impl Iterator<Item = Point<'a>>) -> Vec<Point<'a>> {
    let is_near = |a: f64, b: f64| (a / b).log10().abs() < NEAR;
    let mut kept: Vec<Point<'a>> = Vec::new();
    for point in points {
        let same = kept.iter_mut().find(|other| {
            is_near(other.intensity, point.intensity)
                && is_near(other.rate, point.rate)
                && other.op.bound == point.op.bound
        });
        match same {
            Some(other) => {
                other.seconds += point.seconds;
                other.others += 1;
            }
            None => kept.push(point),
        }
    }
    kept.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    kept
}

/// An op with matmuls and bytes, and others like it.
struct Point<'a> {
    seconds: f64,
    others: u64,
    number: usize,
    op: &'a OpLine,
    intensity: f64,
    rate: f64,
}

impl<'a> Point<'a> {
    fn of((at, op): (usize, &'a OpLine)) -> Option<Point<'a>> {
        let (intensity, rate) = (op.flops / op.hbm_bytes, op.flops / op.seconds);
        let is_shown = intensity.is_finite() && rate.is_finite() && intensity > 0.0 && rate > 0.0;
        is_shown.then_some(Point { seconds: op.seconds, others: 0, number: at + 1, op, intensity, rate })
    }

    fn draw(&self, x: f64, y: f64, whole: f64, roof: &Roof) -> String {
        let share = (self.seconds / whole).clamp(0.0, 1.0);
        let others = if self.others > 0 { format!(" and {} like it", self.others) } else { String::new() };
        let radius = 4.0 + 32.0 * share.sqrt();
        let allowed = (self.intensity * roof.hbm_bytes_per_s).min(roof.bf16_flops_per_s);
        let name = if self.op.source.is_empty() { &self.op.name } else { &self.op.source };
        let mut svg = format!(
            "<g class=\"{}\"><circle class=\"mark point\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}. {}{others}: {}, {} of the step; {} FLOP/B, {}, {} of the bf16 roof there</title></circle>",
            bound_class(self.op.bound),
            px(x),
            px(y),
            px(radius),
            self.number,
            text(&tail(name, 90)),
            seconds(self.seconds),
            percent(share),
            significant(self.intensity),
            scaled(self.rate, "FLOP/s"),
            percent(self.rate / allowed.max(1.0)),
        );
        if radius >= 8.5 {
            let (at, baseline) = (px(x), px(y + 4.0));
            svg += &format!(
                "<text class=\"on\" x=\"{at}\" y=\"{baseline}\" text-anchor=\"middle\">{}</text>",
                self.number
            );
        }
        svg + "</g>\n"
    }
}

/// The whole step, as a diamond.
fn step_mark(x: f64, y: f64, intensity: f64, rate: f64) -> String {
    format!(
        "<path class=\"step\" d=\"M{0} {1} l8 8 l-8 8 l-8 -8 z\"><title>the whole step: {2} FLOP/B, {3}</title></path>\n",
        px(x),
        px(y - 8.0),
        significant(intensity),
        scaled(rate, "FLOP/s"),
    )
}

/// `10^power` with a prefix.
fn scaled_power(power: i32) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if power < 0 {
        return format!("1e{power} ");
    }
    let prefix = ((power / 3) as usize).min(PREFIXES.len() - 1);
    let rest = power - 3 * prefix as i32;
    format!("{} {}", 10f64.powi(rest), PREFIXES[prefix])
}
