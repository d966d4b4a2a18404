//! Walks over nested dimensions that keep a place on two sides at once.

/// A dimension of a copy: its size and the distance between neighbours on both sides, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) count: usize,
    pub(crate) from: isize,
    pub(crate) to: isize,
}

/// Joins neighbours that are one longer dimension on both sides.
pub(crate) fn merged(dims: Vec<Dim>) -> Vec<Dim> {
    let mut result: Vec<Dim> = Vec::with_capacity(dims.len());
    for dim in dims.into_iter().filter(|dim| dim.count != 1) {
        let count = dim.count as isize;
        match result.last_mut() {
            Some(outer) if outer.from == dim.from.wrapping_mul(count) && outer.to == dim.to.wrapping_mul(count) => {
                *outer = Dim { count: outer.count.saturating_mul(dim.count), ..dim };
            }
            _ => result.push(dim),
        }
    }
    result
}

const INLINE_RANK: usize = 8;

/// A position in nested dimensions, the last one fastest.
pub(crate) struct Walk<'d> {
    dims: &'d [Dim],
    inline: [usize; INLINE_RANK],
    /// Indices of more dimensions than fit inline.
    spilled: Vec<usize>,
    from: isize,
    to: isize,
}

impl<'d> Walk<'d> {
    /// The position of a row-major number. No dimension is empty.
    #[inline]
    pub(crate) fn new(dims: &'d [Dim], number: usize) -> Walk<'d> {
        let spilled = if dims.len() > INLINE_RANK { vec![0; dims.len()] } else { Vec::new() };
        let mut walk = Walk { dims, inline: [0; INLINE_RANK], spilled, from: 0, to: 0 };
        if number > 0 {
            walk.seek(number);
        }
        walk
    }

    fn seek(&mut self, mut number: usize) {
        for (d, dim) in self.dims.iter().enumerate().rev() {
            let index = number % dim.count;
            number /= dim.count;
            *self.index(d) = index;
            self.from += index as isize * dim.from;
            self.to += index as isize * dim.to;
        }
    }

    #[inline(always)]
    fn index(&mut self, d: usize) -> &mut usize {
        if self.dims.len() > INLINE_RANK { &mut self.spilled[d] } else { &mut self.inline[d] }
    }

    /// Bytes from the start on the side read.
    #[inline(always)]
    pub(crate) fn from(&self) -> isize {
        self.from
    }

    /// Bytes from the start on the side written.
    #[inline(always)]
    pub(crate) fn to(&self) -> isize {
        self.to
    }

    /// Goes to the next position, from the last one to the first.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        for d in (0..self.dims.len()).rev() {
            let Dim { count, from, to } = self.dims[d];
            let index = self.index(d);
            *index += 1;
            if *index < count {
                self.from += from;
                self.to += to;
                return;
            }
            *index = 0;
            self.from -= from * (count as isize - 1);
            self.to -= to * (count as isize - 1);
        }
    }
}
