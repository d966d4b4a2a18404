//! Gives out machine registers: one pass over the program in order (linear scan), whole lives in one place.

use super::program::{Class, Instruction, Item, Program, Virt, X};

/// Where a register lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A vector or mask register of this number.
    Reg(u8),
    /// A slot of the frame.
    Slot(u32),
}

/// Mask registers that are given out: 1 to 4. 5 and 6 serve operands in memory, 7 is the tail.
const MASKS: u32 = 0b1_1110;

/// The places of all registers of a program.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) places: Vec<Place>,
    pub(super) slots: u32,
    /// Vector registers that nothing uses.
    pub(super) unused: u32,
}

/// First and last item a register is live at.
#[derive(Clone, Copy)]
struct Life {
    start: u32,
    end: u32,
}

const UNBORN: Life = Life { start: u32::MAX, end: 0 };

fn lives<V: Instruction>(program: &Program<V>) -> Vec<Life> {
    let mut lives = vec![UNBORN; program.classes.len()];
    // Where each open loop starts, and the registers that live through it.
    let mut open: Vec<(u32, Vec<Virt>)> = Vec::new();
    for (at, item) in program.items.iter().enumerate() {
        let at = at as u32;
        match item {
            Item::Enter(_) => open.push((at, Vec::new())),
            Item::Leave(_) => {
                for virt in open.pop().map(|(_, through)| through).unwrap_or_default() {
                    let life = &mut lives[virt.0 as usize];
                    life.end = life.end.max(at);
                }
            }
            _ => {
                let [a, b, c] = item.sources();
                let result = item.result().map_or(X::None, X::Reg);
                for operand in [a, b, c, item.tied(), result] {
                    let X::Reg(virt) = operand else { continue };
                    let life = &mut lives[virt.0 as usize];
                    life.start = life.start.min(at);
                    life.end = life.end.max(at);
                    // The outermost loop that the register was born before: it lives to the end of that loop.
                    if let Some((_, through)) = open.iter_mut().find(|(start, _)| life.start < *start)
                        && through.last() != Some(&virt)
                    {
                        through.push(virt);
                    }
                }
            }
        }
    }
    lives
}

struct Scan<'a, V> {
    program: &'a Program<V>,
    lives: Vec<Life>,
    places: Vec<Place>,
    vectors: u32,
    masks: u32,
    used: u32,
    active: Vec<Virt>,
    slots: u32,
}

/// Places for the registers of a program, of which the first `vectors` vector registers are given out.
pub(super) fn allocate<V: Instruction>(program: &Program<V>, vectors: u32) -> Places {
    let lives = lives(program);
    let all = (1 << vectors) - 1;
    let unplaced = Place::Slot(u32::MAX);
    let mut scan = Scan {
        program,
        places: vec![unplaced; lives.len()],
        lives,
        vectors: all,
        masks: MASKS,
        used: 0,
        active: Vec::new(),
        slots: 0,
    };
    for (at, item) in program.items.iter().enumerate() {
        scan.item(at as u32, item);
    }
    Places { places: scan.places, slots: scan.slots, unused: !scan.used & all }
}

impl<V: Instruction> Scan<'_, V> {
    fn item(&mut self, at: u32, item: &Item<V>) {
        if let Item::Leave(_) = item {
            self.free_ended(at);
            return;
        }
        let Some(dst) = item.result() else {
            self.free_sources(at, item);
            return;
        };
        if self.lives[dst.0 as usize].start < at {
            self.free_sources(at, item);
            self.free(dst, at);
            return;
        }
        // A result that takes the place of an operand which ends here needs no copy.
        let reuse = item.reusable().into_iter().find_map(|operand| match operand {
            X::Reg(virt) if self.lives[virt.0 as usize].end == at => match self.places[virt.0 as usize] {
                Place::Reg(number) => Some((virt, number)),
                Place::Slot(_) => None,
            },
            _ => None,
        });
        if let Some((virt, number)) = reuse {
            self.active.retain(|&v| v != virt);
            self.places[dst.0 as usize] = Place::Reg(number);
            self.active.push(dst);
            self.free_sources_but(at, item, virt);
        } else if item.writes_early() {
            self.place(dst);
            self.free_sources(at, item);
        } else {
            self.free_sources(at, item);
            self.place(dst);
        }
        self.free(dst, at);
    }

    fn free_sources(&mut self, at: u32, item: &Item<V>) {
        self.free_sources_but(at, item, Virt(u32::MAX));
    }

    fn free_sources_but(&mut self, at: u32, item: &Item<V>, kept: Virt) {
        let [a, b, c] = item.sources();
        for operand in [a, b, c, item.tied()] {
            if let X::Reg(virt) = operand
                && virt != kept
            {
                self.free(virt, at);
            }
        }
    }

    fn free(&mut self, virt: Virt, at: u32) {
        if self.lives[virt.0 as usize].end <= at
            && let Some(position) = self.active.iter().position(|&v| v == virt)
        {
            self.active.swap_remove(position);
            self.give_back(virt);
        }
    }

    fn free_ended(&mut self, at: u32) {
        let (ended, active): (Vec<Virt>, Vec<Virt>) =
            self.active.iter().partition(|v| self.lives[v.0 as usize].end <= at);
        self.active = active;
        ended.into_iter().for_each(|virt| self.give_back(virt));
    }

    fn give_back(&mut self, virt: Virt) {
        if let Place::Reg(number) = self.places[virt.0 as usize] {
            match self.program.classes[virt.0 as usize] {
                Class::Mask => self.masks |= 1 << number,
                Class::Vector | Class::Accumulator => self.vectors |= 1 << number,
            }
        }
    }

    /// Finds a place for a new register; where none is free, what lives longest moves to the frame.
    fn place(&mut self, virt: Virt) {
        let mask = self.program.classes[virt.0 as usize] == Class::Mask;
        let free = if mask { &mut self.masks } else { &mut self.vectors };
        if *free != 0 {
            let number = free.trailing_zeros() as u8;
            *free &= *free - 1;
            if !mask {
                self.used |= 1 << number;
            }
            self.places[virt.0 as usize] = Place::Reg(number);
            self.active.push(virt);
            return;
        }
        let weight = |v: Virt| match self.program.classes[v.0 as usize] {
            Class::Accumulator => 0,
            _ => self.lives[v.0 as usize].end,
        };
        let victim = self
            .active
            .iter()
            .copied()
            .filter(|v| (self.program.classes[v.0 as usize] == Class::Mask) == mask)
            .max_by_key(|&v| weight(v));
        let slot = Place::Slot(self.slots);
        self.slots += 1;
        match victim {
            Some(victim) if weight(victim) > weight(virt) => {
                self.places[virt.0 as usize] = self.places[victim.0 as usize];
                self.places[victim.0 as usize] = slot;
                self.active.retain(|&v| v != victim);
                self.active.push(virt);
            }
            _ => self.places[virt.0 as usize] = slot,
        }
    }
}
