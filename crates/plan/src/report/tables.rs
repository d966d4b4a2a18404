//! The tables of a page: operations, buffers, cost, fixes, advice, notes.

use super::charts::{bound_class, memory_class};
use super::input::{AdviceLine, CostLine, FixLine, MemoryPart, Proof, ReportVerdict};
use super::number::{bytes, dollars, percent, scaled, seconds, significant};
use super::text::{Text, tail, text};
use crate::estimate::Estimate;
use crate::pictures::Alive;

/// Operations listed.
const OPS: usize = 60;
/// Buffers listed.
const BUFFERS: usize = 40;
/// Sources listed.
const SOURCES: usize = 20;
/// Terms, fixes and advice listed.
const LINES: usize = 40;
/// Places of an advice listed.
const PLACES: usize = 6;
/// Notes listed, and how long each may be.
const NOTES: usize = 60;
const NOTE_LENGTH: usize = 600;
/// A message of the compiler, at most.
pub(super) const MESSAGE_LENGTH: usize = 4000;

/// Head of a table: names with a leading `#` stand over numbers.
pub(super) fn head(names: &[&str]) -> String {
    let mut html = String::from("<div class=\"wide\"><table class=\"sortable\"><thead><tr>");
    for name in names {
        let (class, name) = name.strip_prefix('#').map_or(("", *name), |name| (" class=\"n\"", name));
        html += &format!("<th scope=\"col\"{class}>{name}</th>");
    }
    html + "</tr></thead><tbody>\n"
}

pub(super) const FOOT: &str = "</tbody></table></div>\n";

/// A cell with a number, and what it is sorted by.
pub(super) fn number(shown: &str, value: f64) -> String {
    let value = if value.is_finite() { value } else { -1.0 };
    format!("<td class=\"n\" data-v=\"{value:e}\">{}</td>", text(shown))
}

pub(super) fn words(shown: &str) -> String {
    format!("<td>{}</td>", text(shown))
}

/// A cell with a long name: its end is shown, all of it is in the title.
pub(super) fn name(shown: &str, longest: usize) -> String {
    format!("<td class=\"name\" title=\"{}\">{}</td>", text(shown), text(&tail(shown, longest)))
}

/// What was left out of a list.
pub(super) fn rest(total: usize, listed: usize, what: &str) -> String {
    match total.saturating_sub(listed) {
        0 => String::new(),
        more => format!("<p class=\"dim\">… and {more} more {what}</p>\n"),
    }
}

pub(super) fn classes(memory: &MemoryPart) -> String {
    let mut html = head(&["Class", "#Bytes", "#Of the limit", "#Padding", "#Buffers"]);
    let share = |part: u64| part as f64 / memory.limit_bytes.max(1) as f64;
    for class in memory.classes.iter().take(LINES) {
        html += &format!(
            "<tr><td><i class=\"swatch {}\"></i>{}</td>{}{}{}{}</tr>\n",
            memory_class(&class.name),
            text(&class.name),
            number(&bytes(class.bytes), class.bytes as f64),
            number(&percent(share(class.bytes)), share(class.bytes)),
            number(&bytes(class.padding_bytes), class.padding_bytes as f64),
            number(&class.buffers.to_string(), class.buffers as f64),
        );
    }
    html + FOOT + &rest(memory.classes.len(), LINES, "classes")
}

pub(super) fn alive(buffers: &[Alive]) -> String {
    let mut html = head(&["Buffer", "Class", "#Bytes", "#Padding", "Shape", "Source"]);
    for buffer in buffers.iter().take(BUFFERS) {
        let padding = buffer.bytes.saturating_sub(buffer.logical_bytes);
        html += &format!(
            "<tr>{}<td><i class=\"swatch {}\"></i>{}</td>{}{}{}{}</tr>\n",
            name(&buffer.name, 34),
            memory_class(&buffer.class),
            text(&buffer.class),
            number(&bytes(buffer.bytes), buffer.bytes as f64),
            number(&if padding == 0 { "–".into() } else { bytes(padding) }, padding as f64),
            format_args!("<td class=\"name\">{}</td>", Text(&buffer.shape, 40)),
            name(&buffer.source, 30),
        );
    }
    html + FOOT + &rest(buffers.len(), BUFFERS, "buffers")
}

pub(super) fn shares(estimate: &Estimate) -> String {
    let mut html = head(&["What takes the time", "#Seconds", "#Of the step", "#Under way", "#Waited for"]);
    for share in estimate.shares.iter().filter(|share| share.share >= 0.0005) {
        let transfer = estimate.transfers.iter().find(|transfer| transfer.lane == share.bound);
        html += &format!(
            "<tr><td><i class=\"swatch {}\"></i>{}</td>{}{}{}{}</tr>\n",
            bound_class(share.bound),
            text(share.bound.name()),
            number(&seconds(share.seconds), share.seconds),
            number(&percent(share.share), share.share),
            transfer.map_or_else(|| number("–", -1.0), |t| number(&seconds(t.seconds), t.seconds)),
            transfer.map_or_else(|| number("–", -1.0), |t| number(&seconds(t.exposed_s), t.exposed_s)),
        );
    }
    for transfer in &estimate.transfers {
        // Wholly hidden: it has no share of the step, and is worth seeing for that.
        if transfer.seconds > 0.0 && !estimate.shares.iter().any(|s| s.bound == transfer.lane && s.share >= 0.0005) {
            html += &format!(
                "<tr><td><i class=\"swatch {}\"></i>{}, hidden</td>{}{}{}{}</tr>\n",
                bound_class(transfer.lane),
                text(transfer.lane.name()),
                number("–", -1.0),
                number("–", -1.0),
                number(&seconds(transfer.seconds), transfer.seconds),
                number(&seconds(transfer.exposed_s), transfer.exposed_s),
            );
        }
    }
    html + FOOT
}

/// Time by source, each with a bar of its share.
pub(super) fn sources(estimate: &Estimate) -> String {
    let whole = estimate.step.seconds.max(1e-30);
    let most = estimate.sources.first().map_or(1.0, |(_, s)| *s).max(1e-30);
    let mut html = head(&["Source", "#Seconds", "#Of the step", ""]);
    for (source, took) in estimate.sources.iter().take(SOURCES) {
        let share = took / most;
        let width = if share.is_finite() { (share * 100.0).clamp(0.0, 100.0) } else { 0.0 };
        html += &format!(
            "<tr>{}{}{}<td class=\"bar\"><i style=\"width:{width:.1}%\"></i></td></tr>\n",
            name(source, 80),
            number(&seconds(*took), *took),
            number(&percent(took / whole), *took),
        );
    }
    html + FOOT + &rest(estimate.sources.len(), SOURCES, "sources")
}

pub(super) fn ops(estimate: &Estimate) -> String {
    let whole = estimate.step.seconds.max(1e-30);
    let columns =
        ["##", "Operation", "#Time", "#Share", "#Runs", "Limited by", "#FLOP", "#HBM", "#FLOP/B", "Source", "Shape"];
    let mut html = head(&columns);
    for (at, op) in estimate.ops.iter().take(OPS).enumerate() {
        let intensity = op.flops / op.hbm_bytes;
        let intensity_shown =
            if intensity.is_finite() && intensity > 0.0 { significant(intensity) } else { "–".into() };
        html += &format!(
            "<tr>{}{}{}{}{}<td><i class=\"swatch {}\"></i>{}</td>{}{}{}{}{}</tr>\n",
            number(&(at + 1).to_string(), at as f64),
            name(&op.name, 26),
            number(&seconds(op.seconds), op.seconds),
            number(&percent(op.seconds / whole), op.seconds),
            number(&count(op.executions), op.executions),
            bound_class(op.bound),
            text(op.bound.name()),
            number(&if op.flops > 0.0 { scaled(op.flops, "") } else { "–".into() }, op.flops),
            number(&if op.hbm_bytes > 0.0 { bytes(op.hbm_bytes as u64) } else { "–".into() }, op.hbm_bytes),
            number(&intensity_shown, intensity),
            name(&op.source, 30),
            format_args!("<td class=\"name\">{}</td>", Text(&op.shape, 40)),
        );
    }
    html + FOOT + &rest(estimate.ops.len(), OPS, "operations")
}

fn count(value: f64) -> String {
    if value.is_finite() && value.fract() == 0.0 && value < 1e6 { format!("{value:.0}") } else { scaled(value, "") }
}

/// A figure that not every line has.
type Figure = fn(&CostLine) -> Option<f64>;

pub(super) fn cost(lines: &[CostLine]) -> String {
    let has = |field: Figure| lines.iter().any(|line| field(line).is_some());
    let mut names = vec!["Terms", "Region", "Read", "#Chip-hour", "#Slice-hour"];
    let optional: [(&str, Figure); 3] = [
        ("#Step", |line| line.usd_per_step),
        ("#Million tokens", |line| line.usd_per_million_tokens),
        ("#Run", |line| line.usd_per_run),
    ];
    let shown: Vec<_> = optional.into_iter().filter(|(_, field)| has(*field)).collect();
    names.extend(shown.iter().map(|(name, _)| *name));
    let mut html = head(&names);
    for line in lines.iter().take(LINES) {
        html += &format!(
            "<tr>{}{}{}{}{}",
            words(&line.terms),
            words(&line.region),
            words(if line.date.is_empty() { "given" } else { &line.date }),
            number(&dollars(line.usd_per_chip_hour), line.usd_per_chip_hour),
            number(&dollars(line.usd_per_hour), line.usd_per_hour),
        );
        for (_, field) in &shown {
            html += &field(line).map_or_else(|| number("–", -1.0), |usd| number(&dollars(usd), usd));
        }
        html += "</tr>\n";
    }
    html + FOOT + &rest(lines.len(), LINES, "terms")
}

pub(super) fn fixes(lines: &[FixLine]) -> String {
    let mut html = String::from("<ol class=\"cards\">\n");
    for fix in lines.iter().take(LINES) {
        let (mark, class) = match &fix.verdict {
            ReportVerdict::Fits => ("✓ fits", "good"),
            ReportVerdict::TooLarge { .. } => ("✗ still too large", "bad"),
        };
        html += &format!("<li><h3>{} <span class=\"tag {class}\">{mark}</span></h3>", text(&fix.title));
        html += &format!("<p>{}</p>", Text(&fix.detail, NOTE_LENGTH));
        let mut after = Vec::new();
        after.extend(fix.needed_bytes.map(|needed| format!("then needs {}", bytes(needed))));
        after.extend(fix.step_s.map(|step| format!("a step takes {}", seconds(step))));
        if !after.is_empty() {
            html += &format!("<p class=\"dim\">{}</p>", after.join(", "));
        }
        if !fix.command.is_empty() {
            html += &format!("<pre>{}</pre>", Text(&fix.command, NOTE_LENGTH));
        }
        html += "</li>\n";
    }
    html + "</ol>\n" + &rest(lines.len(), LINES, "fixes")
}

pub(super) fn advice(lines: &[AdviceLine], step_s: Option<f64>) -> String {
    let mut html = String::from("<ol class=\"cards\">\n");
    for advice in lines.iter().take(LINES) {
        let mut gains = Vec::new();
        if advice.gain_s > 0.0 {
            let share = step_s.filter(|step| *step > 0.0).map(|step| format!(" ({})", percent(advice.gain_s / step)));
            gains.push(format!("−{}{}", seconds(advice.gain_s), share.unwrap_or_default()));
        }
        if advice.gain_bytes > 0 {
            gains.push(format!("−{}", bytes(advice.gain_bytes)));
        }
        let proof = match advice.proof {
            Proof::Predicted => "predicted",
            Proof::Compiled => "compiled",
        };
        html += &format!("<li><h3>{}", text(&advice.title));
        if !gains.is_empty() {
            html += &format!(" <span class=\"tag\">{} {proof}</span>", gains.join(", "));
        }
        html += &format!("</h3><p>{}</p>", Text(&advice.remedy, NOTE_LENGTH));
        if !advice.places.is_empty() {
            html += "<ul class=\"places\">";
            for place in advice.places.iter().take(PLACES) {
                html += &format!("<li>{}</li>", text(place));
            }
            html += "</ul>";
            html += &rest(advice.places.len(), PLACES, "places");
        }
        html += "</li>\n";
    }
    html + "</ol>\n" + &rest(lines.len(), LINES, "pieces of advice")
}

pub(super) fn notes(lines: &[&str]) -> String {
    let mut html = String::from("<ul class=\"notes\">\n");
    for note in lines.iter().take(NOTES) {
        html += &format!("<li>{}</li>\n", Text(note, NOTE_LENGTH));
    }
    html + "</ul>\n" + &rest(lines.len(), NOTES, "notes")
}
