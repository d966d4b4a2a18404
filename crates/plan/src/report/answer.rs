//! The page of an answer: what `fit` and `explain` found, as a page shows it.

use chips::Slice;

use super::input::{
    AdviceLine, Alive, CostLine, Fact, FixLine, MemoryClass, MemoryPart, Proof, ReportInput, StepPart, Verdict,
};
use super::live::LiveMemory;
use super::roofline::Roof;
use super::timeline::Timeline;
use crate::advice::Advice;
use crate::cost::Cost;
use crate::fit::Fit;
use crate::fix::Fix;
use crate::memory::{Held, Memory};

/// What only a page shows of a compiled program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// When what runs.
    pub timeline: Option<Timeline>,
    /// Live bytes over the schedule.
    pub live: Option<LiveMemory>,
}

impl ReportInput {
    /// A page of an answer, with the fixes that were tried.
    pub fn of(fit: &Fit, slice: &Slice, fixes: &[Fix]) -> ReportInput {
        let fact = |name: &str, value: String| Fact { name: name.into(), value };
        let mut facts = vec![
            fact("devices", fit.devices.to_string()),
            fact("partitions", fit.partitions.to_string()),
            fact("replicas", fit.replicas.to_string()),
        ];
        if !fit.plugin.is_empty() {
            facts.push(fact("compiler", fit.plugin.clone()));
        }
        ReportInput {
            title: fit.module.clone(),
            slice: fit.slice.clone(),
            facts,
            verdict: Some(verdict(fit)),
            memory: fit.memory.as_ref().map(|memory| memory_part(memory, fit.pictures.live.clone())),
            step: fit.estimate.as_ref().map(|estimate| StepPart {
                estimate: estimate.clone(),
                timeline: fit.pictures.timeline.clone(),
                roof: Roof::of(slice),
            }),
            cost: fit.cost.as_ref().map(cost_lines).unwrap_or_default(),
            fixes: fixes.iter().map(fix_line).collect(),
            advice: fit.advice.iter().map(advice_line).collect(),
            notes: fit.notes.clone(),
        }
    }
}

fn verdict(fit: &Fit) -> Verdict {
    if fit.verdict.fits {
        return Verdict::Fits;
    }
    Verdict::TooLarge { space: fit.verdict.space.clone(), message: fit.verdict.message.clone().unwrap_or_default() }
}

fn memory_part(memory: &Memory, live: Option<LiveMemory>) -> MemoryPart {
    let classes = memory.classes.iter().map(|class| MemoryClass {
        name: class.class.name().into(),
        bytes: class.bytes,
        padding_bytes: class.padding_bytes,
        buffers: class.buffers,
    });
    let alive = memory.peak.as_ref().map_or(&memory.largest, |peak| &peak.alive);
    MemoryPart {
        limit_bytes: memory.limit_bytes,
        total_bytes: memory.total_bytes,
        classes: classes.collect(),
        live,
        alive: alive.iter().map(alive_line).collect(),
    }
}

fn alive_line(held: &Held) -> Alive {
    Alive {
        name: held.name.clone(),
        class: held.class.name().into(),
        shape: held.shape.clone(),
        bytes: held.bytes,
        logical_bytes: held.logical_bytes,
        source: held.location.clone().unwrap_or_else(|| held.source.clone()),
    }
}

fn cost_lines(cost: &Cost) -> Vec<CostLine> {
    let line = |terms: &crate::cost::Terms| CostLine {
        terms: terms.name.into(),
        region: terms.region.clone(),
        date: terms.date.clone(),
        usd_per_chip_hour: terms.usd_per_chip_hour,
        usd_per_hour: terms.usd_per_hour,
        usd_per_step: Some(terms.usd_per_step),
        usd_per_million_tokens: terms.usd_per_million_tokens,
        usd_per_run: terms.usd_per_run,
    };
    cost.terms.iter().map(line).collect()
}

fn advice_line(advice: &Advice) -> AdviceLine {
    AdviceLine {
        title: advice.title.clone(),
        remedy: advice.remedy.clone(),
        gain_s: advice.gain_s,
        gain_bytes: advice.gain_bytes,
        proof: if advice.verified { Proof::Compiled } else { Proof::Predicted },
        places: advice.places.clone(),
    }
}

fn fix_line(fix: &Fix) -> FixLine {
    let verdict = match fix.fits {
        true => Verdict::Fits,
        false => Verdict::TooLarge { space: "HBM".into(), message: String::new() },
    };
    FixLine {
        title: fix.title.clone(),
        detail: fix.detail.clone(),
        verdict,
        needed_bytes: fix.hbm_bytes,
        step_s: fix.step_s,
        command: fix.options.join(" "),
    }
}
