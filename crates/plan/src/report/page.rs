//! The page: head, verdict, and one section for each part of the answer that is known.

use std::collections::HashSet;

use super::charts::{self, Segment, bound_class, memory_class, stacked};
use super::input::{MemoryPart, ReportInput, ReportVerdict, StepPart};
use super::number::{bytes, dollars, percent, scaled, seconds};
use super::tables::{self, MESSAGE_LENGTH};
use super::text::{Text, tail, text};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Facts shown below the title.
const FACTS: usize = 12;

/// The page as one file. It loads nothing and sends nothing, follows the reader's choice of light or dark, and says
/// everything without scripts; scripts only sort tables and bring details nearer.
pub fn html(input: &ReportInput) -> String {
    let mut page = header(input);
    if let Some(memory) = &input.memory {
        page += &section("memory", "Device memory", &memory_section(memory));
        if memory.live.is_some() || !memory.alive.is_empty() {
            page += &section("peak", "MemoryBreakdown over the step", &peak_section(memory));
        }
    }
    if !input.fixes.is_empty() {
        page += &section("fixes", "What makes it fit", &tables::fixes(&input.fixes));
    }
    if let Some(step) = &input.step {
        page += &section("step", "The step", &step_section(step));
        page += &section("roofline", "Roofline", &roofline_section(step));
        page += &section("operations", "Operations", &tables::ops(&step.estimate));
    }
    if !input.cost.is_empty() {
        page += &section("cost", "RunCost", &tables::cost(&input.cost));
    }
    if !input.advice.is_empty() {
        let step_s = input.step.as_ref().map(|step| step.estimate.step.seconds);
        page += &section("advice", "Advice", &tables::advice(&input.advice, step_s));
    }
    let from_step = input.step.iter().flat_map(|step| &step.estimate.notes);
    let mut seen = HashSet::new();
    let notes: Vec<&str> =
        input.notes.iter().chain(from_step).map(String::as_str).filter(|note| seen.insert(*note)).collect();
    if !notes.is_empty() {
        page += &section("notes", "Notes", &tables::notes(&notes));
    }
    shell(&input.title, &input.slice, &page)
}

/// The file around the body of a page.
pub(super) fn shell(title: &str, subject: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} on {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {body}</main>\n<div id=\"tip\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        text(title),
        text(subject),
    )
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

fn header(input: &ReportInput) -> String {
    let mut html = format!("<header>\n<h1 title=\"{}\">{}</h1>\n", text(&input.title), text(&tail(&input.title, 80)));
    html += &format!("<p class=\"facts\"><b>{}</b>", text(&input.slice));
    for fact in input.facts.iter().take(FACTS) {
        html += &format!("<span>{} {}</span>", text(&fact.name), text(&fact.value));
    }
    html += "</p>\n<div class=\"tiles\">\n";
    match &input.verdict {
        Some(ReportVerdict::Fits) => html += &tile("good", "verdict", "✓ fits", &headroom(input.memory.as_ref())),
        Some(ReportVerdict::TooLarge { space, .. }) => {
            let over = input.memory.as_ref().map_or_else(String::new, |memory| {
                match memory.total_bytes.saturating_sub(memory.limit_bytes) {
                    0 => String::new(),
                    over => format!(" by {}", bytes(over)),
                }
            });
            html += &tile("bad", "verdict", "✗ does not fit", &format!("{space} overflows{over}"));
        }
        None => {}
    }
    if let Some(StepPart { estimate, .. }) = &input.step {
        let step = &estimate.step;
        let range = format!("{} to {}", seconds(step.low_s), seconds(step.high_s));
        html += &tile("", "a step", &seconds(step.seconds), &range);
        let flops = format!("{} a device", scaled(estimate.flops, "FLOP"));
        match estimate.mfu {
            Some(mfu) => html += &tile("", "MFU", &percent(mfu), &format!("HFU {}", percent(estimate.hfu))),
            None => html += &tile("", "HFU", &percent(estimate.hfu), &flops),
        }
        if let Some(rate) = estimate.tokens_per_s {
            let each = format!("{} a device", scaled(rate / estimate.devices.max(1) as f64, ""));
            html += &tile("", "tokens a second", &scaled(rate, ""), &each);
        }
        if let Some(first) = estimate.shares.first() {
            html += &tile("", "limited most by", first.bound.name(), &format!("{} of the step", percent(first.share)));
        }
    }
    let cheapest = input.cost.iter().min_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour));
    if let (Some(first), Some(cheapest)) = (input.cost.first(), cheapest) {
        let (shown, per) = match (first.usd_per_run, first.usd_per_million_tokens) {
            (Some(run), _) => (dollars(run), "a run"),
            (None, Some(tokens)) => (dollars(tokens), "a million tokens"),
            (None, None) => (dollars(first.usd_per_hour), "an hour"),
        };
        let lowest = format!("{}; from {} an hour {}", first.terms, dollars(cheapest.usd_per_hour), cheapest.terms);
        html += &tile("", per, &shown, if input.cost.len() > 1 { &lowest } else { &first.terms });
    }
    html += "</div>\n";
    if let Some(ReportVerdict::TooLarge { message, .. }) = &input.verdict
        && !message.is_empty()
    {
        html +=
            &format!("<details open><summary>The compiler says</summary><pre>{}</pre></details>\n", lines_of(message));
    }
    html + "</header>\n"
}

/// A message that keeps its lines.
fn lines_of(message: &str) -> String {
    let cut: String = message.chars().take(MESSAGE_LENGTH).collect();
    let lines: Vec<String> = cut.lines().map(|line| Text(line, MESSAGE_LENGTH).to_string()).collect();
    let more = if message.chars().nth(MESSAGE_LENGTH).is_some() { "…" } else { "" };
    lines.join("\n") + more
}

pub(super) fn tile(class: &str, name: &str, value: &str, below: &str) -> String {
    format!(
        "<div class=\"tile {class}\"><span class=\"dim\">{}</span><strong>{}</strong><span class=\"dim\">{}</span></div>\n",
        text(name),
        text(value),
        text(below),
    )
}

fn headroom(memory: Option<&MemoryPart>) -> String {
    memory.map_or_else(String::new, |memory| {
        format!(
            "{} of {} left",
            bytes(memory.limit_bytes.saturating_sub(memory.total_bytes)),
            bytes(memory.limit_bytes)
        )
    })
}

fn memory_section(memory: &MemoryPart) -> String {
    let share = memory.total_bytes as f64 / memory.limit_bytes.max(1) as f64;
    let mut html = format!(
        "<p>{} of {} on each device, {}.</p>\n",
        bytes(memory.total_bytes),
        bytes(memory.limit_bytes),
        percent(share)
    );
    let segment = |class: &super::input::MemoryClass| Segment {
        class: memory_class(&class.name),
        name: class.name.clone(),
        value: class.bytes as f64,
        shown: bytes(class.bytes),
    };
    let segments: Vec<Segment> = memory.classes.iter().take(MOST_CLASSES).map(segment).collect();
    let limit =
        (memory.limit_bytes > 0).then(|| (memory.limit_bytes as f64, format!("limit {}", bytes(memory.limit_bytes))));
    html += &stacked("Device memory by class", &segments, limit);
    html + &tables::classes(memory)
}

/// Classes drawn.
const MOST_CLASSES: usize = 40;

fn peak_section(memory: &MemoryPart) -> String {
    let mut html = String::new();
    if let Some(live) = &memory.live {
        html += "<p class=\"legend\"><span><i class=\"swatch c6\"></i>temporaries</span><span><i class=\"swatch c1 soft\"></i>alive throughout: arguments, results, constants</span></p>\n";
        html += &charts::live(live, memory.limit_bytes);
        if let Some(point) = live.points.get(live.peak) {
            html += &format!(
                "<p>Fullest during <code>{}</code>{}: {} of temporaries; the compiler sets aside {} for them.</p>\n",
                Text(&point.instruction, 80),
                if point.source.is_empty() { String::new() } else { format!(" ({})", text(&tail(&point.source, 100))) },
                bytes(point.bytes),
                bytes(live.reserved_bytes),
            );
        }
    }
    if !memory.alive.is_empty() {
        html += "<h3>Alive at the fullest moment</h3>\n";
        html += &tables::alive(&memory.alive);
    }
    html
}

fn step_section(step: &StepPart) -> String {
    let estimate = &step.estimate;
    let segment = |share: &crate::estimate::Share| Segment {
        class: bound_class(share.bound),
        name: share.bound.name().into(),
        value: share.seconds,
        shown: percent(share.share),
    };
    let segments: Vec<Segment> = estimate.shares.iter().map(segment).collect();
    let mut html = stacked("Share of the step by what limits it", &segments, None);
    html += &tables::shares(estimate);
    if let Some(timeline) = &step.timeline {
        html += "<h3>In order</h3>\n";
        html += &charts::legend(timeline);
        html += &charts::timeline(timeline);
        html += "<p class=\"dim\">A loop is drawn once, as long as all its iterations together. A transfer is drawn from the op that starts it to the op that waits for it; stripes mark where the core waits.";
        if timeline.left_out > 0 {
            html += &format!(" {} short transfers and loops are left out.", timeline.left_out);
        }
        html += "</p>\n";
    }
    if !estimate.sources.is_empty() {
        html += "<h3>By source</h3>\n";
        html += &tables::sources(estimate);
    }
    html
}

fn roofline_section(step: &StepPart) -> String {
    let estimate = &step.estimate;
    let ridge = step.roof.bf16_flops_per_s / step.roof.hbm_bytes_per_s.max(1.0);
    format!(
        "<p>A device needs {ridge:.0} operations for each byte of device memory to be limited by its matrix units. Circles are operations, as large as the time they take and numbered as below; the diamond is the whole step.</p>\n{}",
        charts::roofline(&estimate.ops, estimate.flops, estimate.step.seconds, &step.roof)
    )
}
