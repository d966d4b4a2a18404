//! Fills a report from the answers of `fit` and `explain`.

use chips::Slice;

use super::input::{
    AdviceLine, CostLine, Fact, FixLine, MemoryClass, MemoryPart, Proof, ReportInput, ReportVerdict, StepPart,
};
use super::roofline::Roof;
use crate::advice::Advice;
use crate::cost::Terms;
use crate::explain::Explanation;
use crate::fit::Fit;
use crate::fix::Fix;
use crate::memory::{Held, MemoryBreakdown};
use crate::pictures::{Alive, LiveMemory, Pictures};

impl ReportInput {
    /// The report of an answer.
    pub fn of_fit(fit: &Fit, slice: &Slice, pictures: Pictures) -> ReportInput {
        let fact = |name: &str, value: String| Fact { name: name.into(), value };
        let mut facts = vec![fact("devices", fit.devices.to_string()), fact("partitions", fit.partitions.to_string())];
        if fit.replicas > 1 {
            facts.push(fact("replicas", fit.replicas.to_string()));
        }
        if !fit.plugin.is_empty() {
            facts.push(fact("compiler", fit.plugin.clone()));
        }
        ReportInput {
            title: fit.module.clone(),
            slice: fit.slice.clone(),
            facts,
            verdict: Some(match fit.verdict.fits {
                true => ReportVerdict::Fits,
                false => ReportVerdict::TooLarge {
                    space: fit.verdict.space.clone(),
                    message: fit.verdict.message.clone().unwrap_or_default(),
                },
            }),
            memory: fit.memory.as_ref().map(|memory| memory_part(memory, pictures.live)),
            step: fit.estimate.as_ref().map(|estimate| StepPart {
                estimate: estimate.clone(),
                timeline: pictures.timeline,
                roof: Roof::of(slice),
            }),
            cost: fit.cost.iter().flat_map(|cost| &cost.terms).map(CostLine::from).collect(),
            fixes: Vec::new(),
            advice: fit.advice.iter().map(AdviceLine::from).collect(),
            notes: fit.notes.iter().chain(fit.cost.iter().flat_map(|cost| &cost.note)).cloned().collect(),
        }
    }

    /// The report of an explanation.
    pub fn of_explanation(explanation: &Explanation, slice: &Slice, pictures: Pictures) -> ReportInput {
        let fixes = explanation.fixes.iter().map(FixLine::from).collect();
        ReportInput { fixes, ..ReportInput::of_fit(&explanation.fit, slice, pictures) }
    }
}

fn memory_part(memory: &MemoryBreakdown, live: Option<LiveMemory>) -> MemoryPart {
    let class = |row: &crate::memory::ClassBytes| MemoryClass {
        name: row.class.name().into(),
        bytes: row.bytes,
        padding_bytes: row.padding_bytes,
        buffers: row.buffers,
    };
    MemoryPart {
        limit_bytes: memory.limit_bytes,
        total_bytes: memory.total_bytes,
        classes: memory.classes.iter().map(class).collect(),
        live,
        alive: memory.peak.as_ref().map_or(&memory.largest, |peak| &peak.alive).iter().map(Alive::from).collect(),
    }
}

impl From<&Held> for Alive {
    fn from(held: &Held) -> Alive {
        Alive {
            name: held.name.clone(),
            class: held.class.name().into(),
            shape: held.shape.clone(),
            bytes: held.bytes,
            logical_bytes: held.logical_bytes,
            source: held.location.clone().unwrap_or_else(|| held.source.clone()),
        }
    }
}

impl From<&Terms> for CostLine {
    fn from(terms: &Terms) -> CostLine {
        CostLine {
            terms: terms.name.into(),
            region: terms.region.clone(),
            date: terms.date.clone(),
            usd_per_chip_hour: terms.usd_per_chip_hour,
            usd_per_hour: terms.usd_per_hour,
            usd_per_step: Some(terms.usd_per_step),
            usd_per_million_tokens: terms.usd_per_million_tokens,
            usd_per_run: terms.usd_per_run,
        }
    }
}

impl From<&Advice> for AdviceLine {
    fn from(advice: &Advice) -> AdviceLine {
        AdviceLine {
            title: advice.title.clone(),
            remedy: advice.remedy.clone(),
            gain_s: advice.gain_s,
            gain_bytes: advice.gain_bytes,
            proof: if advice.verified { Proof::Compiled } else { Proof::Predicted },
            places: advice.places.clone(),
        }
    }
}

impl From<&Fix> for FixLine {
    fn from(fix: &Fix) -> FixLine {
        FixLine {
            title: fix.title.clone(),
            detail: fix.detail.clone(),
            verdict: match fix.fits {
                true => ReportVerdict::Fits,
                false => ReportVerdict::TooLarge { space: "HBM".into(), message: String::new() },
            },
            needed_bytes: fix.hbm_bytes,
            step_s: fix.step_s,
            command: fix.options.join(" "),
        }
    }
}
