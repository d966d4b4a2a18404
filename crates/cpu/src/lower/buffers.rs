//! Where every slot lies: memory is reused as soon as nobody needs what is in it.

use std::collections::{BTreeMap, BTreeSet};

use super::block::{Origin, SlotData};
use crate::error::Error;
use crate::memory::ALIGN;
use crate::program::{Place, Slot, Step, Work};

/// Places for all slots, and bytes of working memory.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) places: Vec<Place>,
    pub(crate) arena_bytes: usize,
    /// For each result, the argument whose memory it takes over.
    pub(crate) reused: Vec<Option<usize>>,
}

/// When a slot is needed, in steps counted through all regions.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: usize,
    last: usize,
}

struct Planner<'p> {
    slots: &'p [SlotData],
    lives: Vec<Option<Life>>,
    /// Slots that share memory: union-find.
    parent: Vec<usize>,
    /// Arguments the program may write to.
    owned: &'p [bool],
    time: usize,
    /// Slots in the order in which they are touched.
    touched: Vec<usize>,
}

/// Plans the memory of a program whose results are in `results`, each in a slot of its own. Slots that share memory become
/// one slot in the steps, so that loops which exchange two slots exchange all that lies there.
pub(crate) fn plan(steps: &mut [Step], slots: &[SlotData], results: &[Slot], owned: &[bool]) -> Result<Layout, Error> {
    let mut planner = Planner {
        slots,
        lives: vec![None; slots.len()],
        parent: (0..slots.len()).collect(),
        owned,
        time: 0,
        touched: Vec::new(),
    };
    for (n, slot) in slots.iter().enumerate() {
        if matches!(slot.origin, Origin::Argument(_) | Origin::Constant(_)) {
            planner.lives[n] = Some(Life { first: 0, last: 0 });
        }
    }
    planner.time = 1;
    planner.measure(steps);
    let end = planner.time;
    for slot in results {
        planner.touch(slot.0 as usize, end);
    }
    planner.time = 1;
    planner.share(steps);
    let layout = planner.place(results)?;
    let roots: Vec<Slot> = (0..slots.len()).map(|n| Slot(planner.root(n) as u32)).collect();
    unify(steps, &roots);
    Ok(layout)
}

/// Names every slot by the one that stands for its memory.
fn unify(steps: &mut [Step], roots: &[Slot]) {
    let name = |slot: &mut Slot| *slot = roots[slot.0 as usize];
    for step in steps {
        step.inputs.iter_mut().for_each(name);
        step.outputs.iter_mut().for_each(name);
        match &mut step.work {
            Work::Kernel(_) => {}
            Work::While(body) => {
                name(&mut body.answer);
                for (slot, next, _) in &mut body.rotate {
                    name(slot);
                    name(next);
                }
                unify(&mut body.condition, roots);
                unify(&mut body.body, roots);
            }
            Work::Case(case) => {
                name(&mut case.index);
                case.branches.iter_mut().for_each(|branch| unify(branch, roots));
            }
        }
    }
}

impl Planner<'_> {
    fn touch(&mut self, slot: usize, time: usize) {
        let life = self.lives[slot].get_or_insert(Life { first: time, last: time });
        life.first = life.first.min(time);
        life.last = life.last.max(time);
        self.touched.push(slot);
    }

    /// Finds when each slot is needed.
    fn measure(&mut self, steps: &[Step]) {
        for step in steps {
            let start = self.time;
            self.time += 1;
            for slot in step.inputs.iter().chain(&step.outputs) {
                self.touch(slot.0 as usize, start);
            }
            match &step.work {
                Work::Kernel(_) => {}
                Work::While(body) => {
                    let before = self.touched.len();
                    self.measure(&body.condition);
                    self.touch(body.answer.0 as usize, self.time);
                    self.measure(&body.body);
                    let end = self.time;
                    self.time += 1;
                    // What was written before the loop and is used in it is used in every iteration.
                    let mut inside = self.touched.split_off(before);
                    inside.sort_unstable();
                    inside.dedup();
                    for slot in inside {
                        if self.lives[slot].is_some_and(|life| life.first < start) {
                            self.touch(slot, end);
                        } else {
                            self.touched.push(slot);
                        }
                    }
                    // What the loop uses from outside, or hands on, is there in every iteration.
                    for slot in step.inputs.iter().chain(&step.outputs) {
                        self.touch(slot.0 as usize, end);
                    }
                    for (_, next, _) in &body.rotate {
                        self.touch(next.0 as usize, start);
                        self.touch(next.0 as usize, end);
                    }
                }
                Work::Case(case) => {
                    for branch in &case.branches {
                        self.measure(branch);
                    }
                    let end = self.time;
                    self.time += 1;
                    for slot in step.inputs.iter().chain(&step.outputs) {
                        self.touch(slot.0 as usize, end);
                    }
                }
            }
        }
    }

    fn root(&self, mut slot: usize) -> usize {
        while self.parent[slot] != slot {
            slot = self.parent[slot];
        }
        slot
    }

    /// Whether the program may write to a slot's memory.
    fn is_writable(&self, root: usize) -> bool {
        match self.slots[root].origin {
            Origin::Argument(n) => self.owned[n],
            Origin::Constant(_) | Origin::Part(_) => false,
            Origin::Step => true,
        }
    }

    /// Lets outputs lie where inputs end.
    fn share(&mut self, steps: &[Step]) {
        for step in steps {
            let now = self.time;
            self.time += 1;
            match &step.work {
                Work::Kernel(kernel) => {
                    for (n, output) in step.outputs.iter().enumerate() {
                        self.share_output(step, &**kernel, n, self.root(output.0 as usize), now);
                    }
                }
                Work::While(body) => {
                    self.share(&body.condition);
                    self.share(&body.body);
                    self.time += 1;
                }
                Work::Case(case) => {
                    for branch in &case.branches {
                        self.share(branch);
                    }
                    self.time += 1;
                }
            }
        }
    }

    fn share_output(&mut self, step: &Step, kernel: &dyn crate::program::Kernel, n: usize, output: usize, now: usize) {
        let Some(life) = self.lives[output] else { return };
        // A copy into memory that was there before (the next value of a loop, the result of a branch) may come from
        // memory that is written earlier, as long as nobody reads the target in between: loops and branches see to that.
        let is_new = life.first == now;
        for (k, input) in step.inputs.iter().enumerate() {
            let input = self.root(input.0 as usize);
            if input == output || self.slots[input].bytes != self.slots[output].bytes || !self.is_writable(input) {
                continue;
            }
            let Some(other) = self.lives[input] else { continue };
            let is_inner = step.inputs.len() == 1 && other.first > life.first && kernel.is_identity();
            if other.last != now || !(is_new || is_inner) || self.slots[output].origin != Origin::Step {
                continue;
            }
            let all = step.inputs.iter().enumerate().filter(|(_, slot)| self.root(slot.0 as usize) == input);
            let is_free = all.clone().all(|(j, _)| kernel.may_share(j, n));
            // Another output must not lie there too.
            let is_taken =
                step.outputs.iter().enumerate().any(|(m, slot)| m != n && self.root(slot.0 as usize) == input);
            if !is_free || is_taken || !kernel.may_share(k, n) {
                continue;
            }
            self.parent[output] = input;
            self.lives[input] = Some(Life { first: life.first.min(other.first), last: life.last.max(other.last) });
            return;
        }
    }

    fn place(&mut self, results: &[Slot]) -> Result<Layout, Error> {
        let mut result_of: BTreeMap<usize, usize> = BTreeMap::new();
        let mut reused = vec![None; results.len()];
        for (n, slot) in results.iter().enumerate() {
            let root = self.root(slot.0 as usize);
            if result_of.insert(root, n).is_some() {
                return Err(Error::Internal("two results in one place".into()));
            }
            if let Origin::Argument(argument) = self.slots[root].origin {
                reused[n] = Some(argument);
            }
        }
        let mut arena: Vec<(Life, usize)> = Vec::new();
        for (n, slot) in self.slots.iter().enumerate() {
            if self.parent[n] == n
                && slot.origin == Origin::Step
                && !result_of.contains_key(&n)
                && let Some(life) = self.lives[n]
            {
                arena.push((life, n));
            }
        }
        arena.sort_by_key(|(life, n)| (life.first, *n));
        let (offsets, arena_bytes) = assign(&arena, self.slots)?;
        let mut is_shared = vec![false; self.slots.len()];
        for n in 0..self.slots.len() {
            let root = self.root(n);
            is_shared[root] |= n != root;
        }
        let taken: BTreeSet<usize> = reused.iter().flatten().copied().collect();
        let place = |n: usize| {
            let root = self.root(n);
            match (self.slots[root].origin.clone(), result_of.get(&root)) {
                (Origin::Argument(a), _) if self.owned[a] && (taken.contains(&a) || is_shared[root]) => {
                    Place::OwnedArgument(a)
                }
                (Origin::Argument(a), _) => Place::Argument(a),
                (Origin::Constant(c), _) => Place::Constant(c),
                (Origin::Part(a), _) => Place::Part(a),
                (Origin::Step, Some(&result)) => Place::Result(result),
                (Origin::Step, None) => Place::Arena(offsets.get(&root).copied().unwrap_or(0)),
            }
        };
        let places = (0..self.slots.len()).map(place).collect();
        Ok(Layout { places, arena_bytes, reused })
    }
}

/// Offsets by best fit, in the order in which slots are needed first.
fn assign(arena: &[(Life, usize)], slots: &[SlotData]) -> Result<(BTreeMap<usize, usize>, usize), Error> {
    let mut offsets = BTreeMap::new();
    // Free runs by offset; the run at the end has no end.
    let mut free: BTreeMap<usize, usize> = BTreeMap::new();
    let mut end = 0usize;
    let mut busy: BTreeSet<(usize, usize, usize)> = BTreeSet::new();
    for (life, n) in arena {
        while let Some(&(last, offset, size)) = busy.first()
            && last < life.first
        {
            busy.pop_first();
            release(&mut free, offset, size);
        }
        let size = slots[*n].bytes.max(1).checked_next_multiple_of(ALIGN);
        let size = size.ok_or_else(|| Error::Exhausted("an array is too large".into()))?;
        let best = free.iter().filter(|(_, length)| **length >= size).min_by_key(|(_, length)| **length);
        let offset = match best.map(|(&offset, &length)| (offset, length)) {
            Some((offset, length)) => {
                free.remove(&offset);
                if length > size {
                    free.insert(offset + size, length - size);
                }
                offset
            }
            None => {
                // The last free run, where it ends the arena, is made longer.
                let tail = free.last_key_value().map(|(&o, &l)| (o, l)).filter(|(o, l)| o + l == end);
                let offset = tail.map_or(end, |(o, _)| o);
                free.remove(&offset);
                end = offset
                    .checked_add(size)
                    .filter(|&n| isize::try_from(n).is_ok())
                    .ok_or_else(|| Error::Exhausted("the program needs too much memory".into()))?;
                offset
            }
        };
        offsets.insert(*n, offset);
        busy.insert((life.last, offset, size));
    }
    Ok((offsets, end))
}

fn release(free: &mut BTreeMap<usize, usize>, mut offset: usize, mut size: usize) {
    if let Some((&before, &length)) = free.range(..offset).next_back()
        && before + length == offset
    {
        free.remove(&before);
        (offset, size) = (before, length + size);
    }
    if let Some(length) = free.remove(&(offset + size)) {
        size += length;
    }
    free.insert(offset, size);
}
