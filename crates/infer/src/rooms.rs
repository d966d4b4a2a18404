//! Rooms of the KV cache, in one of two layouts: a row for each sequence, or pages that sequences share.

use crate::host_pages::PageMove;
use crate::pages::{NoPage, PageCopy, PageCounts, Pages, TakenRow};
use crate::sizes::{CacheLayout, StepSizes};
use crate::slots::Slots;

/// What is copied within the cache: rows or pages, and how many positions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheCopy {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) positions: usize,
}

/// A row given to a request, and what is to be copied before anything else happens.
pub(crate) struct TakenRoom {
    pub(crate) row: usize,
    pub(crate) copy: Option<CacheCopy>,
}

/// Who has which part of the KV cache.
#[allow(clippy::large_enum_variant, reason = "an engine has one")]
pub(crate) enum Rooms {
    /// A row of the cache for each sequence.
    Rows(Slots),
    /// Pages of the cache for each sequence.
    Pages(Pages),
}

impl Rooms {
    /// With so many places for pages in the host's memory.
    pub(crate) fn new(sizes: &StepSizes, host_pages: usize) -> Rooms {
        match sizes.layout {
            CacheLayout::Rows => Rooms::Rows(Slots::new(sizes.rows)),
            CacheLayout::Pages { pages, page_size } => {
                Rooms::Pages(Pages::new(sizes.rows, pages, page_size).with_host(host_pages))
            }
        }
    }

    /// A row for a text; `None` where there is none, or too few pages. At least the last token is left to compute.
    pub(crate) fn take(&mut self, text: &[u32]) -> Option<TakenRoom> {
        match self {
            Rooms::Rows(slots) => {
                let taken = slots.take(text)?;
                let copy = |from: usize| CacheCopy { from, to: taken.slot, positions: taken.reused };
                Some(TakenRoom { row: taken.slot, copy: taken.copy_from.map(copy) })
            }
            Rooms::Pages(pages) => {
                let TakenRow { row, copy } = pages.take(text)?;
                let positions = pages.page_size();
                let copy = copy.map(|PageCopy { from, to }| CacheCopy { from, to, positions });
                Some(TakenRoom { row, copy })
            }
        }
    }

    /// Pages that go to the host's memory and come from it, before anything else happens.
    pub(crate) fn moves(&mut self) -> Vec<PageMove> {
        match self {
            Rooms::Rows(_) => Vec::new(),
            Rooms::Pages(pages) => pages.moves(),
        }
    }

    /// What others computed of a text since its row was taken need not be computed again.
    pub(crate) fn find_more(&mut self, row: usize, text: &[u32]) {
        if let Rooms::Pages(pages) = self {
            pages.find_more(row, text);
        }
    }

    /// Room for so many positions in a row.
    pub(crate) fn reserve(&mut self, row: usize, positions: usize) -> Result<(), NoPage> {
        match self {
            Rooms::Rows(_) => Ok(()),
            Rooms::Pages(pages) => pages.reserve(row, positions),
        }
    }

    /// More tokens are in a row.
    pub(crate) fn written(&mut self, row: usize, tokens: &[u32]) {
        match self {
            Rooms::Rows(slots) => slots.written(row, tokens),
            Rooms::Pages(pages) => pages.written(row, tokens),
        }
    }

    /// Positions filled of a row.
    pub(crate) fn filled(&self, row: usize) -> usize {
        match self {
            Rooms::Rows(slots) => slots.filled(row),
            Rooms::Pages(pages) => pages.filled(row),
        }
    }

    /// The pages of a row.
    pub(crate) fn table(&self, row: usize) -> &[u32] {
        match self {
            Rooms::Rows(_) => &[],
            Rooms::Pages(pages) => pages.table(row),
        }
    }

    /// A row is free; what is in it may be used again.
    pub(crate) fn release(&mut self, row: usize) {
        match self {
            Rooms::Rows(slots) => slots.release(row),
            Rooms::Pages(pages) => pages.release(row),
        }
    }

    /// A row is free, but its request is not done.
    pub(crate) fn preempt(&mut self, row: usize) {
        match self {
            Rooms::Rows(slots) => slots.release(row),
            Rooms::Pages(pages) => pages.preempt(row),
        }
    }

    /// What became of the pages.
    pub(crate) fn counts(&self) -> PageCounts {
        match self {
            Rooms::Rows(_) => PageCounts::default(),
            Rooms::Pages(pages) => pages.counts(),
        }
    }
}
