//! Keys as unsigned integers: what sorts before is smaller.
#![allow(unsafe_code)]

use tensor::DType;

use super::{Direction, Nans, SortOrder, Ties, Transform};
use crate::kernels::loops::ir::Lane;
use crate::kernels::scalar::{self, Program};

/// How the bits of an element become a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The bits as they are.
    Unsigned,
    /// The sign bit flipped.
    Signed,
    /// `totalOrder`: all bits flipped of negative numbers, the sign of others.
    Real,
}

/// Which bits of an element are flipped to make its key.
#[derive(Clone, Copy, Debug)]
struct Flip {
    /// Of every element: the sign, all of a descending key.
    always: u64,
    /// Of elements with the highest bit set.
    if_high: u64,
    /// Where the highest bit is.
    top: u32,
}

impl Flip {
    #[inline(always)]
    fn key(self, bits: u64) -> u64 {
        bits ^ self.always ^ (self.if_high & (bits >> self.top & 1).wrapping_neg())
    }
}

/// The way back from a key to the bits of its element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inverter(Flip);

impl Inverter {
    #[inline(always)]
    pub(super) fn element(self, key: u64) -> u64 {
        let bits = key ^ self.0.always;
        // Only the highest bit decides, and `if_high` leaves it as it is.
        bits ^ (self.0.if_high & (bits >> self.0.top & 1).wrapping_neg())
    }
}

#[derive(Clone, Debug)]
struct Part {
    operand: usize,
    source: DType,
    transform: Transform,
    form: Form,
    /// Bits of the key.
    bits: u32,
    flip: Flip,
    nans: Nans,
}

/// An order, ready to make keys.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Groups of at most 64 bits, the most significant first.
    groups: Vec<Vec<Part>>,
    ties: Ties,
}

/// What was seen while keys were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// An element that is not its key: a -0 or a NaN that the key does not tell from others.
    pub(super) lossy: bool,
    /// A NaN that has no place in the order.
    pub(super) unordered: bool,
}

impl Order {
    pub(super) fn new(order: SortOrder, dtypes: &[DType]) -> Option<Order> {
        let mut groups: Vec<Vec<Part>> = Vec::new();
        let mut room = 0;
        for key in order.keys {
            let source = *dtypes.get(key.operand)?;
            let (bits, form) = match &key.transform {
                // A small real type that is not the upper part of a wider one goes through f32.
                Transform::None | Transform::Canonical if source.is_float() && source.bits() < 16 => (32, Form::Real),
                Transform::None | Transform::Canonical => (source.size_bytes() as u32 * 8, form(source)?),
                Transform::Program(program) => match program.results[..] {
                    [(result, _)] if program.arguments == [source] => lane_form(result)?,
                    _ => return None,
                },
            };
            let (all, sign) = (u64::MAX >> (64 - bits), 1 << (bits - 1));
            let flip = if key.direction == Direction::Descending { all } else { 0 };
            let (always, if_high) = match form {
                Form::Unsigned => (flip, 0),
                Form::Signed => (flip ^ sign, 0),
                Form::Real => (flip ^ sign, all ^ sign),
            };
            let part = Part {
                operand: key.operand,
                source,
                transform: key.transform,
                form,
                bits,
                flip: Flip { always, if_high, top: bits - 1 },
                nans: key.nans,
            };
            if part.bits > room {
                groups.push(Vec::new());
                room = 64;
            }
            room -= part.bits;
            groups.last_mut()?.push(part);
        }
        (!groups.is_empty()).then_some(Order { groups, ties: order.ties })
    }

    pub(super) fn ties(&self) -> Ties {
        self.ties
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Bits of a group's key.
    pub(super) fn bits(&self, group: usize) -> u32 {
        self.groups[group].iter().map(|part| part.bits).sum()
    }

    /// Whether a row may have no order.
    pub(super) fn may_fail(&self) -> bool {
        self.groups.iter().flatten().any(|part| part.nans == Nans::Unordered)
    }

    /// The operand the only key is made of, where the elements can be told from their keys.
    pub(super) fn invertible(&self) -> Option<usize> {
        match &self.groups[..] {
            [group] => match &group[..] {
                [part] if !matches!(part.transform, Transform::Program(_)) && part.bits == part.source.bits() => {
                    Some(part.operand)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The way back from keys, where they are invertible.
    pub(super) fn inverter(&self) -> Inverter {
        Inverter(self.groups[0][0].flip)
    }

    /// Gives the key of each element of a row to `put`, in the order of `places` (element `i` lies at `base + i·stride`).
    ///
    /// # Safety
    /// `reads` are the operands; every place is one of the row.
    #[inline(always)]
    pub(super) unsafe fn keys<P: Iterator<Item = usize> + Clone>(
        &self,
        group: usize,
        reads: &[*const u8],
        base: usize,
        stride: usize,
        places: P,
        mut put: impl FnMut(usize, u64),
    ) -> Seen {
        if let [part] = &self.groups[group][..] {
            // SAFETY: the places are the caller's.
            return unsafe { part.keys(reads, base, stride, places, put) };
        }
        let mut keys: Vec<u64> = Vec::new();
        let mut seen = Seen::default();
        for part in &self.groups[group] {
            let bits = part.bits;
            keys.resize(places.clone().count(), 0);
            // SAFETY: the places are the caller's.
            let of_part = unsafe {
                part.keys(reads, base, stride, places.clone(), |n, key| {
                    keys[n] = if bits == 64 { key } else { keys[n] << bits | key };
                })
            };
            seen = Seen { lossy: true, unordered: seen.unordered | of_part.unordered };
        }
        keys.into_iter().enumerate().for_each(|(n, key)| put(n, key));
        seen
    }
}

fn form(dtype: DType) -> Option<Form> {
    Some(if dtype.is_signed_integer() {
        Form::Signed
    } else if dtype.is_float() {
        Form::Real
    } else if dtype.is_complex() {
        return None;
    } else {
        Form::Unsigned
    })
}

fn lane_form(dtype: DType) -> Option<(u32, Form)> {
    Some(match Lane::of(dtype)? {
        Lane::F32 => (32, Form::Real),
        Lane::F64 => (64, Form::Real),
        Lane::I32 => (32, form(dtype)?),
        Lane::I64 => (64, form(dtype)?),
        Lane::Mask => (8, Form::Unsigned),
    })
}

impl Part {
    /// # Safety
    /// As for [`Order::keys`].
    #[inline(always)]
    unsafe fn keys<P: Iterator<Item = usize>>(
        &self,
        reads: &[*const u8],
        base: usize,
        stride: usize,
        places: P,
        put: impl FnMut(usize, u64),
    ) -> Seen {
        let read = reads[self.operand];
        // SAFETY: every index is of an element of the operand, by the caller's promise.
        unsafe {
            if stride == 1 {
                self.keys_at(read, places.map(|i| base + i), put)
            } else {
                self.keys_at(read, places.map(|i| base + i * stride), put)
            }
        }
    }

    /// # Safety
    /// Every index is of an element of the operand.
    #[inline(always)]
    unsafe fn keys_at(&self, read: *const u8, at: impl Iterator<Item = usize>, put: impl FnMut(usize, u64)) -> Seen {
        let (wide, half) = (read.cast::<u64>(), read.cast::<u16>());
        let word = read.cast::<u32>();
        // SAFETY: the caller vouches for the indices, and the widths are the type's.
        unsafe {
            match &self.transform {
                Transform::Program(program) => {
                    self.computed(program, at.map(|i| scalar::load(self.source, read, i)), put)
                }
                _ => match self.bits {
                    64 => self.plain::<{ Bits::F64 }>(at.map(|i| wide.add(i).read()), put),
                    32 if self.source.bits() == 32 => {
                        self.plain::<{ Bits::F32 }>(at.map(|i| u64::from(word.add(i).read())), put)
                    }
                    32 => self.plain::<{ Bits::F32 }>(at.map(|i| scalar::load(self.source, read, i)), put),
                    16 if self.source == DType::F16 => {
                        self.plain::<{ Bits::F16 }>(at.map(|i| u64::from(half.add(i).read())), put)
                    }
                    16 => self.plain::<{ Bits::BF16 }>(at.map(|i| u64::from(half.add(i).read())), put),
                    _ => self.plain::<{ Bits::NONE }>(at.map(|i| u64::from(read.add(i).read())), put),
                },
            }
        }
    }

    /// Keys of elements given by their bits; `INFINITY` is the pattern above which magnitudes are NaN.
    #[inline(always)]
    fn plain<const INFINITY: u64>(&self, bits: impl Iterator<Item = u64>, mut put: impl FnMut(usize, u64)) -> Seen {
        let mut seen = Seen::default();
        // A copy, so that what `put` writes cannot be thought to change it.
        let flip = self.flip;
        let by_value = self.nans == Nans::Unordered;
        let canonical = self.form == Form::Real && (self.transform == Transform::Canonical || by_value);
        let sign = 1 << (self.bits - 1);
        // The quiet NaN has the highest bit of the mantissa set, the lowest one of its infinity's exponent shifted down.
        let quiet = INFINITY | (INFINITY & INFINITY.wrapping_neg()) >> 1;
        if !canonical {
            bits.enumerate().for_each(|(n, bits)| put(n, flip.key(bits)));
            return seen;
        }
        let (mut zeros, mut nans, mut strange) = (false, false, false);
        for (n, bits) in bits.enumerate() {
            let is_nan = bits & !sign > INFINITY;
            let is_zero = bits == sign;
            zeros |= is_zero;
            nans |= is_nan;
            strange |= is_nan & (bits != quiet);
            let bits = if is_zero { 0 } else { bits };
            put(n, flip.key(if is_nan { quiet } else { bits }));
        }
        seen.lossy = zeros | strange;
        seen.unordered = by_value & nans;
        seen
    }

    fn computed(&self, program: &Program, bits: impl Iterator<Item = u64>, mut put: impl FnMut(usize, u64)) -> Seen {
        let mut registers = program.registers();
        let mut result = [0];
        let by_value = self.nans == Nans::Unordered;
        let (sign, infinity) = (1 << (self.bits - 1), if self.bits == 64 { Bits::F64 } else { Bits::F32 });
        let mut seen = Seen { lossy: true, unordered: false };
        for (n, bits) in bits.enumerate() {
            program.eval(&mut registers, &[bits], &mut result);
            let [mut bits] = result;
            if by_value {
                seen.unordered |= bits & !sign > infinity;
                bits = if bits == sign { 0 } else { bits };
            }
            put(n, self.flip.key(bits));
        }
        seen
    }
}

/// The bit patterns of infinity.
struct Bits;

impl Bits {
    const F64: u64 = 0x7ff0_0000_0000_0000;
    const F32: u64 = 0x7f80_0000;
    const F16: u64 = 0x7c00;
    const BF16: u64 = 0x7f80;
    /// No element is NaN.
    const NONE: u64 = u64::MAX;
}
