//! Copies that go on beside the core: what is under way may be read by nobody, and arrives when it is awaited.

use super::array::{Array, Data};
use super::body::Machine;
use crate::error::Error;
use crate::ir::{Part, Transfer};
use tensor::Spec;

/// Where a part lies: memory, first elements, sizes with those that are left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    memory: usize,
    begins: Vec<usize>,
    dims: Vec<usize>,
}

impl Span {
    fn overlaps(&self, other: &Span) -> bool {
        let apart = |n: usize| {
            let (a, b) = (self.begins[n], other.begins[n]);
            a + self.dims[n] <= b || b + other.dims[n] <= a
        };
        self.memory == other.memory && !(0..self.dims.len()).any(apart)
    }
}

/// A copy under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    from: Span,
    to: Span,
    rows: Option<Span>,
    semaphore: Span,
    /// Numbers of rows as they were at the beginning.
    numbers: Vec<i64>,
}

impl Machine<'_> {
    /// Begins a copy: its destination is poison until it is awaited.
    pub(super) fn start(&mut self, transfer: &Transfer) -> Result<(), Error> {
        let copy = self.copy(transfer)?;
        if let Some(other) = self.copies.iter().find(|other| {
            other.semaphore == copy.semaphore || other.to.overlaps(&copy.to) || other.to.overlaps(&copy.from)
        }) {
            return self.out_of_range(format!("a copy to {:?} begins before one to {:?} ends", copy.to, other.to));
        }
        let poison = Array::poison(&self.part_spec(&copy.to));
        self.memory[copy.to.memory].set_block(&copy.to.begins, &poison);
        self.copies.push(copy);
        Ok(())
    }

    /// Ends a copy, which must be one that was begun. What rows are named is read now.
    pub(super) fn finish(&mut self, transfer: &Transfer) -> Result<(), Error> {
        let asked = self.copy(transfer)?;
        let same = |copy: &Copy| {
            copy.semaphore == asked.semaphore
                && copy.to == asked.to
                && copy.from == asked.from
                && copy.rows == asked.rows
        };
        let Some(at) = self.copies.iter().position(same) else {
            return self.out_of_range(format!("a copy to {:?} is awaited that was not begun", asked.to));
        };
        let copy = self.copies.swap_remove(at);
        if copy.numbers != asked.numbers {
            return self.out_of_range("numbers of rows change before the copy ends".to_owned());
        }
        let moved = match &copy.rows {
            None => self.read(&copy.from),
            Some(_) => self.gathered(&copy)?,
        };
        let moved = Array { spec: self.part_spec(&copy.to), data: moved.data };
        self.memory[copy.to.memory].set_block(&copy.to.begins, &moved);
        Ok(())
    }

    fn gathered(&self, copy: &Copy) -> Result<Array, Error> {
        let mut all = self.part_spec(&copy.to);
        let axis = all.rank() - copy.from.dims.len();
        let mut row = copy.from.clone();
        row.dims[0] = 1;
        let mut floats = Vec::new();
        let mut ints = Vec::new();
        for &number in &copy.numbers {
            let inside = usize::try_from(number).ok().filter(|&n| n < copy.from.dims[0]);
            let Some(number) = inside else {
                return self.out_of_range(format!("row {number} of {} is gathered", copy.from.dims[0]));
            };
            row.begins[0] = copy.from.begins[0] + number;
            match self.read(&row).data {
                Data::Float(values) => floats.extend(values),
                Data::Int(values) => ints.extend(values),
            }
        }
        all.dims[axis] = copy.numbers.len();
        let data = if ints.is_empty() { Data::Float(floats) } else { Data::Int(ints) };
        Ok(Array { spec: all, data })
    }

    fn read(&self, span: &Span) -> Array {
        self.memory[span.memory].block(&span.begins, Array::poison(&self.part_spec(span)))
    }

    fn part_spec(&self, span: &Span) -> Spec {
        Spec::new(self.memory[span.memory].spec.dtype, span.dims.clone())
    }

    fn copy(&self, transfer: &Transfer) -> Result<Copy, Error> {
        let rows = transfer.rows.as_ref().map(|rows| self.span(rows)).transpose()?;
        let numbers = match &rows {
            Some(rows) => match self.read(rows).data {
                Data::Int(values) => values.into_iter().map(i64::from).collect(),
                Data::Float(_) => return Err(Error::Internal("rows are numbered by floats".into())),
            },
            None => Vec::new(),
        };
        let (from, to) = (self.span(&transfer.from)?, self.span(&transfer.to)?);
        Ok(Copy { from, to, rows, semaphore: self.span(&transfer.semaphore)?, numbers })
    }

    fn span(&self, part: &Part) -> Result<Span, Error> {
        let Some(reference) = self.kernel.reference(part.memory) else {
            return Err(Error::Internal("memory of another kernel".into()));
        };
        let whole = &reference.block.dims;
        let mut dims = vec![1; whole.len().saturating_sub(part.dims.len())];
        dims.extend(&part.dims);
        let mut begins = Vec::with_capacity(dims.len());
        for (&id, (&size, &all)) in part.at.iter().zip(dims.iter().zip(whole)) {
            let begin = self.index(id)?;
            let inside = usize::try_from(begin).ok().filter(|b| b.checked_add(size).is_some_and(|end| end <= all));
            let Some(begin) = inside else {
                return self.out_of_range(format!("{begin}..+{size} of {}, which has {all}", reference.name));
            };
            begins.push(begin);
        }
        Ok(Span { memory: part.memory.0 as usize, begins, dims })
    }
}
