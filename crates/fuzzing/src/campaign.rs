//! One program for each seed, and a count of what became of them.

use std::fmt;

use hlo::Module;

use crate::bounded;
use crate::broad;
use crate::mutate::mutate;
use crate::numbers::Numbers;
use crate::oracle::{FuzzVerdict, Subject};

/// Where the programs of a campaign come from.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// Written programs that are mutated.
    pub written: Vec<Module>,
}

impl Campaign {
    /// The program of a seed: made at random, or a mutation of one that was made or written.
    pub fn subject(&self, seed: u64) -> Subject {
        self.choose(Numbers::new(seed))
    }

    /// The program of these choices.
    pub fn choose(&self, mut choices: Numbers) -> Subject {
        let text = match choices.below(8) {
            0 | 1 => return bounded::generate(choices),
            2 => return broad::generate(choices),
            3 => bounded::generate(choices.clone()).text,
            4 | 5 => broad::generate(choices.clone()).text,
            _ if !self.written.is_empty() => {
                let module = &self.written[choices.below(self.written.len())];
                return Subject::of(mutate(module, &mut choices));
            }
            _ => broad::generate(choices.clone()).text,
        };
        // What does not parse is left as it is.
        match hlo::text::parse(&text) {
            Ok(module) => Subject::of(mutate(&module, &mut choices)),
            Err(_) => Subject::of(text),
        }
    }
}

/// What became of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub programs: u64,
    /// No programs: the parser or the verifier refused them.
    pub refused: u64,
    /// Too large, or stopped by a limit.
    pub limited: u64,
    /// The device refused them, or both engines failed.
    pub failed: u64,
    /// Compiled, and run to their end: plainly, again, and in fenced memory.
    pub compiled: u64,
    /// Run to their end by the interpreter alone.
    pub interpreted: u64,
    /// Results that were compared.
    pub compared: u64,
    /// Results that could not be: open by the specification, or decided by the last bit of a float.
    pub open: u64,
    /// Something was wrong.
    pub wrong: u64,
}

impl Tally {
    /// Adds a verdict.
    pub fn add(&mut self, verdict: &FuzzVerdict) {
        self.programs += 1;
        match verdict {
            FuzzVerdict::Refused => self.refused += 1,
            FuzzVerdict::Limited => self.limited += 1,
            FuzzVerdict::Failed => self.failed += 1,
            FuzzVerdict::Agreed(agreed) => {
                *(if agreed.is_compiled { &mut self.compiled } else { &mut self.interpreted }) += 1;
                self.compared += agreed.compared as u64;
                self.open += agreed.open as u64;
            }
            FuzzVerdict::Wrong(_) => self.wrong += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { programs, refused, limited, failed, compiled, interpreted, compared, open, wrong } = self;
        write!(
            f,
            "{programs} programs: {compiled} compiled and run, {interpreted} interpreted only, {refused} refused, \
             {limited} over a limit, {failed} failed; {compared} results compared, {open} open; {wrong} wrong"
        )
    }
}
