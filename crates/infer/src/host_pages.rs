//! Which pages of the KV cache lie in the host's memory: those that were given up on the device and may be asked for again.

use std::collections::{BTreeSet, HashMap};

/// Stands for all tokens up to the end of a page. Its keys are drawn when the engine starts, so that nobody can make two texts meet.
pub(crate) type PageDigest = (u64, u64);

/// What is in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageContent {
    /// Of all tokens before.
    pub(crate) before: PageDigest,
    pub(crate) tokens: Vec<u32>,
}

/// A page that goes to the host's memory or comes from it, before anything else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageMove {
    /// From a page to a place.
    ToHost { page: usize, place: usize },
    /// From a place to a page.
    FromHost { place: usize, page: usize },
}

/// Places for pages in the host's memory, and what is in them. The page that was not used for longest is given up first.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostPages {
    free: Vec<usize>,
    /// By all tokens up to their end.
    known: HashMap<PageDigest, Known>,
    oldest: BTreeSet<(u64, PageDigest)>,
    clock: u64,
}

#[derive(Clone, Debug)]
struct Known {
    place: usize,
    content: PageContent,
    last_used: u64,
}

impl HostPages {
    pub(crate) fn new(places: usize) -> HostPages {
        HostPages { free: (0..places).rev().collect(), ..HostPages::default() }
    }

    /// Pages that are there.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// A place for a page; `None` where it is there already, or there are no places.
    pub(crate) fn put(&mut self, digest: PageDigest, content: PageContent) -> Option<usize> {
        self.clock += 1;
        if let Some(known) = self.known.get_mut(&digest) {
            self.oldest.remove(&(known.last_used, digest));
            known.last_used = self.clock;
            self.oldest.insert((self.clock, digest));
            return None;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let (_, digest) = self.oldest.pop_first()?;
                self.known.remove(&digest)?.place
            }
        };
        self.oldest.insert((self.clock, digest));
        self.known.insert(digest, Known { place, content, last_used: self.clock });
        Some(place)
    }

    /// The place of a page with this content, which is not known any more. It is free once [`HostPages::leave`] says so.
    pub(crate) fn take(&mut self, digest: PageDigest, content: &PageContent) -> Option<usize> {
        self.known.get(&digest).filter(|known| known.content == *content)?;
        let known = self.known.remove(&digest)?;
        self.oldest.remove(&(known.last_used, digest));
        Some(known.place)
    }

    /// A place is free.
    pub(crate) fn leave(&mut self, place: usize) {
        self.free.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_page_gives_up_its_place() {
        let mut host = HostPages::new(2);
        let content = |n: u32| PageContent { before: (0, 0), tokens: vec![n] };
        assert_eq!(host.put((1, 1), content(1)), Some(0));
        assert_eq!(host.put((2, 2), content(2)), Some(1));
        // It is there: now it is the newest.
        assert_eq!(host.put((1, 1), content(1)), None);
        assert_eq!(host.put((3, 3), content(3)), Some(1));
        assert_eq!(host.take((2, 2), &content(2)), None);
        assert_eq!(host.take((1, 1), &content(9)), None, "another text of the same digest");
        assert_eq!((host.take((1, 1), &content(1)), host.len()), (Some(0), 1));
        // Its place is in use until it is left.
        assert_eq!(host.put((4, 4), content(4)), Some(1));
        host.leave(0);
        assert_eq!(host.put((5, 5), content(5)), Some(0));
        assert_eq!(HostPages::new(0).put((1, 1), content(1)), None);
    }
}
