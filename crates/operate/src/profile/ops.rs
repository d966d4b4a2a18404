//! The table of ops: what is known of each, under a number of its own, whoever ran it.

use super::record::CoreKind;
use std::collections::HashMap;

/// An op in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OpId(pub(super) u32);

/// What a profile says of an op, the same for all its executions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpFacts {
    pub(super) program: Program,
    pub(super) name: String,
    pub(super) core: CoreKind,
    pub(super) category: String,
    pub(super) expression: String,
    pub(super) scope: String,
    pub(super) source: String,
    pub(super) flops: f64,
    pub(super) hbm_bytes: f64,
    pub(super) bytes: f64,
}

/// Which program an op is of: by number where there is one, else by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Program {
    pub(super) id: Option<u64>,
    pub(super) name: String,
}

impl Program {
    /// From the name of an execution: `jit_step(1234)`.
    pub(super) fn of_run(name: &str) -> Program {
        if let Some((head, tail)) = name.rsplit_once('(')
            && let Some(Ok(id)) = tail.strip_suffix(')').map(str::parse)
        {
            return Program { id: Some(id), name: head.into() };
        }
        Program { id: None, name: name.into() }
    }

    pub(super) fn shown(&self) -> String {
        match self.id {
            Some(id) if self.name.is_empty() => format!("program {id}"),
            Some(id) => format!("{}({id})", self.name),
            None => self.name.clone(),
        }
    }
}

/// Time of an op, a name, or anything that is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) total_ps: u128,
    pub(super) self_ps: u128,
    pub(super) min_ps: u64,
    pub(super) max_ps: u64,
    pub(super) flops: f64,
    pub(super) hbm_bytes: f64,
}

impl Sum {
    pub(super) fn add(&mut self, count: u64, total_ps: u64, self_ps: u64) {
        self.min_ps = if self.count == 0 { total_ps } else { self.min_ps.min(total_ps) };
        self.max_ps = self.max_ps.max(total_ps);
        self.count = self.count.saturating_add(count);
        self.total_ps += u128::from(total_ps);
        self.self_ps += u128::from(self_ps);
    }

    pub(super) fn merge(&mut self, other: &Sum) {
        self.min_ps = if self.count == 0 { other.min_ps } else { self.min_ps.min(other.min_ps) };
        self.max_ps = self.max_ps.max(other.max_ps);
        self.count = self.count.saturating_add(other.count);
        self.total_ps += other.total_ps;
        self.self_ps += other.self_ps;
        self.flops += other.flops;
        self.hbm_bytes += other.hbm_bytes;
    }
}

/// Picoseconds as seconds.
pub(super) fn seconds(ps: u128) -> f64 {
    ps as f64 * 1e-12
}

/// Ops known at most; further ones are counted together.
const MOST_OPS: usize = 1 << 20;
/// Bytes of their texts at most.
const MOST_TEXT: usize = 256 << 20;
/// A text at most.
const LONGEST: usize = 2000;
const OTHERS: &str = "(further ops)";

type Key = (Option<u64>, String, String, CoreKind);

/// All ops of a profile.
#[derive(Default)]
pub(super) struct OpTable {
    ops: Vec<OpFacts>,
    by_key: HashMap<Key, OpId>,
    text_bytes: usize,
    pub(super) is_full: bool,
}

impl OpTable {
    /// The op's number; what was unknown of it so far is taken over.
    pub(super) fn intern(&mut self, mut facts: OpFacts) -> OpId {
        for text in [
            &mut facts.name,
            &mut facts.category,
            &mut facts.expression,
            &mut facts.scope,
            &mut facts.source,
            &mut facts.program.name,
        ] {
            cut(text, LONGEST);
        }
        // Producers name the program in one event and only number it in another.
        let program = if facts.program.id.is_some() { String::new() } else { facts.program.name.clone() };
        let key = (facts.program.id, program, facts.name.clone(), facts.core);
        if let Some(&id) = self.by_key.get(&key) {
            self.ops[id.0 as usize].complete(facts);
            return id;
        }
        let size = facts.name.len() * 2 + facts.expression.len() + facts.scope.len() + facts.source.len() + 400;
        if self.ops.len() >= MOST_OPS || self.text_bytes + size > MOST_TEXT {
            self.is_full = true;
            let others = OpFacts { name: OTHERS.into(), core: facts.core, ..OpFacts::default() };
            let key = (None, String::new(), OTHERS.to_string(), facts.core);
            if let Some(&id) = self.by_key.get(&key) {
                return id;
            }
            return self.push(key, others);
        }
        self.text_bytes += size;
        self.push(key, facts)
    }

    fn push(&mut self, key: Key, facts: OpFacts) -> OpId {
        let id = OpId(self.ops.len() as u32);
        self.ops.push(facts);
        self.by_key.insert(key, id);
        id
    }

    pub(super) fn get(&self, id: OpId) -> &OpFacts {
        &self.ops[id.0 as usize]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpFacts> {
        self.ops.iter_mut()
    }
}

impl OpFacts {
    fn complete(&mut self, other: OpFacts) {
        for (mine, theirs) in [
            (&mut self.program.name, other.program.name),
            (&mut self.category, other.category),
            (&mut self.expression, other.expression),
            (&mut self.scope, other.scope),
            (&mut self.source, other.source),
        ] {
            if mine.is_empty() {
                *mine = theirs;
            }
        }
        for (mine, theirs) in
            [(&mut self.flops, other.flops), (&mut self.hbm_bytes, other.hbm_bytes), (&mut self.bytes, other.bytes)]
        {
            if *mine == 0.0 {
                *mine = theirs;
            }
        }
    }

    /// Whether it moves data between devices.
    pub(super) fn is_collective(&self) -> bool {
        is_collective(&self.category) || is_collective(&self.name)
    }

    /// The start or the end of an op that runs beside others.
    pub(super) fn is_start_or_done(&self) -> bool {
        [&self.category, &self.name].iter().any(|text| {
            let text = without_number(text);
            text.ends_with("-start") || text.ends_with("-done")
        })
    }
}

/// Names of collectives in HLO and in libraries of GPUs.
pub(crate) fn is_collective(text: &str) -> bool {
    const KINDS: [&str; 12] = [
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "collective-permute",
        "collective-broadcast",
        "ragged-all-to-all",
        "megacore-all-reduce",
        "async-collective",
        "nccl",
        "rccl",
        "collective",
    ];
    KINDS.iter().any(|kind| text.get(..kind.len()).is_some_and(|head| head.eq_ignore_ascii_case(kind)))
        || text.ends_with("all-reduce fusion")
        || text.ends_with("all-gather fusion")
        || text.ends_with("reduce-scatter fusion")
}

/// A name without the number that makes it unique: `fusion.12` as `fusion`.
pub(super) fn without_number(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((head, number)) if !head.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => head,
        _ => name,
    }
}

/// Cuts a text at a character.
pub(super) fn cut(text: &mut String, longest: usize) {
    if text.len() > longest {
        let mut at = longest;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text.push('…');
    }
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_number() {
        let program = Program::of_run("jit_step(12190760917235803885)");
        assert_eq!(program, Program { id: Some(12190760917235803885), name: "jit_step".into() });
        assert_eq!(program.shown(), "jit_step(12190760917235803885)");
        assert_eq!(Program::of_run("step(a)").id, None);
    }

    #[test]
    fn an_op_is_completed_by_what_comes_later() {
        let mut table = OpTable::default();
        let program = Program { id: Some(3), name: String::new() };
        let first = OpFacts { program: program.clone(), name: "dot.1".into(), ..OpFacts::default() };
        let id = table.intern(first.clone());
        let named = Program { name: "jit_f".into(), ..program };
        let again = table.intern(OpFacts { program: named, category: "dot".into(), flops: 7.0, ..first });
        assert_eq!(id, again);
        assert_eq!((table.get(id).program.name.as_str(), table.get(id).flops), ("jit_f", 7.0));
    }

    #[test]
    fn collectives_and_pairs_are_known_by_their_names() {
        for name in ["all-reduce.1", "all-gather-start", "ncclDevKernel_AllReduce", "AllReduce", "fusion", "reduce.3"] {
            assert_eq!(is_collective(name), ["all-", "nccl"].iter().any(|head| name.starts_with(head)), "{name}");
        }
        let done = OpFacts { name: "copy-done.4".into(), ..OpFacts::default() };
        assert!(done.is_start_or_done() && !done.is_collective());
        assert_eq!(without_number("broadcast_add_fusion.2"), "broadcast_add_fusion");
        assert_eq!(without_number("1.5"), "1");
    }
}
