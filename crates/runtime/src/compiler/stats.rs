//! What a compiler did: how often, for how long, and why again.

use std::collections::BTreeMap;

use compile::Program;
use serde::Serialize;

/// Recompilations that are remembered.
const MAX_RECOMPILATIONS: usize = 1000;

/// What a compiler did so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompilerStats {
    /// Programs compiled.
    pub compilations: u64,
    /// Programs loaded from the cache on disk instead of compiled.
    pub loaded: u64,
    /// Look-ups that found a compiled program.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Programs that left to make room.
    pub evictions: u64,
    /// Programs kept now.
    pub kept: usize,
    /// Seconds spent compiling.
    pub seconds: f64,
    /// Programs of a name that was compiled before, and what was different.
    pub recompilations: Vec<Recompilation>,
}

impl CompilerStats {
    /// Hits among look-ups, from 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            lookups => self.hits as f64 / lookups as f64,
        }
    }
}

/// A program that was compiled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recompilation {
    /// The program's name.
    pub program: String,
    /// What is different from the last one of that name.
    pub reason: String,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    compilations: u64,
    pub(super) loaded: u64,
    hits: u64,
    misses: u64,
    pub(super) evictions: u64,
    seconds: f64,
    recompilations: Vec<Recompilation>,
    /// Arguments of the last program of each name.
    last: BTreeMap<String, Vec<String>>,
}

impl Counters {
    pub(super) fn looked_up(&mut self, found: bool) {
        *if found { &mut self.hits } else { &mut self.misses } += 1;
    }

    /// Counts a compilation; answers why it was needed.
    pub(super) fn compiled(&mut self, program: &Program, seconds: f64) -> String {
        self.compilations += 1;
        self.seconds += seconds;
        let name = program.name().to_string();
        let types = |entry: &hlo::Func| entry.inputs.iter().map(ToString::to_string).collect::<Vec<_>>();
        let arguments = program.module().entry().map(types).unwrap_or_default();
        let mut why = "the first of this name".to_string();
        if let Some(before) = self.last.get(&name) {
            let changed = before.iter().zip(&arguments).enumerate().find(|(_, (one, other))| one != other);
            let reason = match changed {
                Some((index, (one, other))) => format!("argument {index} was {one} and is {other}"),
                None if before.len() != arguments.len() => {
                    format!("it took {} arguments and takes {}", before.len(), arguments.len())
                }
                None => "its body changed, or it was no longer kept".to_string(),
            };
            why.clone_from(&reason);
            if self.recompilations.len() < MAX_RECOMPILATIONS {
                self.recompilations.push(Recompilation { program: name.clone(), reason });
            }
        }
        self.last.insert(name, arguments);
        why
    }

    pub(super) fn read(&self, kept: usize) -> CompilerStats {
        CompilerStats {
            compilations: self.compilations,
            loaded: self.loaded,
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
            kept,
            seconds: self.seconds,
            recompilations: self.recompilations.clone(),
        }
    }
}
