//! Pages of the KV cache: which sequence has which, what earlier sequences left in them, and which is given up first.
//!
//! A full page is known by its tokens and all tokens before them (a chain of digests), so that prompts that begin alike share it.
//! Nobody writes into a shared page: a sequence that goes on within one gets a copy. A page that no sequence has any more keeps what is
//! in it until another needs the room, the one that was not used for longest first. It may then go to the host's memory, from where it
//! comes back when a text asks for it.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;

use serde::Serialize;

use crate::host_pages::{HostPages, PageContent, PageDigest, PageMove};

/// A page is copied for at least this share of its tokens; fewer are computed again.
const LEAST_COPIED: usize = 4;
/// Pages that are compared with a prompt that goes on within one.
const MAX_COMPARED: usize = 64;

/// What became of the pages of a KV cache so far. Without pages all numbers are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageCounts {
    /// Positions of a page.
    pub page_size: usize,
    /// Pages.
    pub total: usize,
    /// Pages that running requests have.
    pub used: usize,
    /// Pages of several running requests.
    pub shared: usize,
    /// Pages that no request has, with what earlier ones left.
    pub cached: usize,
    /// Pages with nothing in them.
    pub free: usize,
    /// Requests that found a part of their prompt.
    pub prefix_hits: u64,
    /// Tokens of prompts that were found and not computed.
    pub prefix_tokens: u64,
    /// Pages copied because their content goes on differently.
    pub copied: u64,
    /// Pages whose content was given up for others.
    pub evicted: u64,
    /// Pages in the host's memory.
    pub on_host: usize,
    /// Pages that went to the host's memory.
    pub offloaded: u64,
    /// Pages that came back from it.
    pub restored: u64,
    /// Requests that gave up their pages, to be computed again later.
    pub preempted: u64,
}

/// A page's place in the cache.
type PageId = u32;

/// Before the first page.
const NOTHING: PageDigest = (0, 0);

/// What is known of a page.
#[derive(Clone, Debug, Default)]
struct Page {
    /// Sequences that have it.
    users: usize,
    /// What is in it, once others may use it.
    content: Option<PageContent>,
    last_used: u64,
}

/// The pages of one sequence.
#[derive(Clone, Debug, Default)]
struct Sequence {
    table: Vec<PageId>,
    /// Tokens whose keys and values are in the pages.
    tokens: Vec<u32>,
    /// Of each page that is full.
    digests: Vec<PageDigest>,
}

/// PageContent of a page that is to be copied into another before anything else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageCopy {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A row given to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenRow {
    pub(crate) row: usize,
    pub(crate) copy: Option<PageCopy>,
}

/// There is no page left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPage;

/// All pages, and the sequences that have them.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    page_size: usize,
    pages: Vec<Page>,
    empty: Vec<PageId>,
    /// Pages that no sequence has and that have content, by when they were used.
    cached: BTreeSet<(u64, PageId)>,
    /// Full pages by all tokens up to their end.
    full: HashMap<PageDigest, PageId>,
    /// Pages with content by all tokens before them.
    after: HashMap<PageDigest, Vec<PageId>>,
    rows: Vec<Option<Sequence>>,
    hashers: [RandomState; 2],
    clock: u64,
    counts: PageCounts,
    host: HostPages,
    /// What goes to the host and comes from it, in this order, before anything else happens.
    moves: Vec<PageMove>,
}

impl Pages {
    pub(crate) fn new(rows: usize, pages: usize, page_size: usize) -> Pages {
        Pages {
            page_size: page_size.max(1),
            pages: vec![Page::default(); pages],
            // The first pages are given first.
            empty: (0..pages).rev().map(|page| page as PageId).collect(),
            cached: BTreeSet::new(),
            full: HashMap::new(),
            after: HashMap::new(),
            rows: vec![None; rows],
            hashers: [RandomState::new(), RandomState::new()],
            clock: 0,
            counts: PageCounts { page_size, total: pages, ..PageCounts::default() },
            host: HostPages::default(),
            moves: Vec::new(),
        }
    }

    /// The same with so many places in the host's memory.
    pub(crate) fn with_host(self, places: usize) -> Pages {
        Pages { host: HostPages::new(places), ..self }
    }

    /// What is to be moved before anything else happens.
    pub(crate) fn moves(&mut self) -> Vec<PageMove> {
        std::mem::take(&mut self.moves)
    }

    /// What became of the pages.
    pub(crate) fn counts(&self) -> PageCounts {
        let shared = self.pages.iter().filter(|page| page.users > 1).count();
        let used = self.pages.len() - self.available();
        let on_host = self.host.len();
        PageCounts { used, shared, cached: self.cached.len(), free: self.empty.len(), on_host, ..self.counts }
    }

    /// Positions of a page.
    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// A row with pages for a text and one token more, with those that begin as earlier ones; `None` where rows or pages are short.
    /// At least the last token is left to compute.
    pub(crate) fn take(&mut self, text: &[u32]) -> Option<TakenRow> {
        let row = self.rows.iter().position(Option::is_none)?;
        let usable = text.len().saturating_sub(1);
        let (shared, digests) = self.known(NOTHING, text.get(..usable).unwrap_or_default());
        let needed = (text.len() + 1).div_ceil(self.page_size).saturating_sub(shared.len());
        let unused = shared.iter().filter(|&&page| self.users(page) == 0).count();
        // Those that run may need one more each soon.
        let running = self.rows.iter().flatten().count();
        if needed + running > self.available().saturating_sub(unused) {
            return None;
        }
        let mut sequence = Sequence { tokens: text[..shared.len() * self.page_size].to_vec(), table: shared, digests };
        for &page in &sequence.table {
            self.hold(page);
        }
        self.come_back(&mut sequence, &text[..usable]);
        let copy = self.go_on_within(&mut sequence, &text[..usable]);
        while sequence.table.len() < (text.len() + 1).div_ceil(self.page_size) {
            let Ok(page) = self.new_page() else {
                sequence.table.iter().rev().for_each(|&page| self.let_go(page));
                return None;
            };
            sequence.table.push(page);
        }
        self.counts.prefix_tokens += sequence.tokens.len() as u64;
        self.counts.prefix_hits += u64::from(!sequence.tokens.is_empty());
        self.rows[row] = Some(sequence);
        Some(TakenRow { row, copy })
    }

    /// Pages of a text that others computed since the row was taken, in the place of pages of its own; only between two pages.
    pub(crate) fn find_more(&mut self, row: usize, text: &[u32]) {
        let Some(mut sequence) = self.rows.get_mut(row).and_then(Option::take) else { return };
        let filled = sequence.tokens.len();
        let usable = text.len().saturating_sub(1);
        if filled == sequence.digests.len() * self.page_size && filled < usable {
            let before = sequence.digests.last().copied().unwrap_or(NOTHING);
            let (shared, digests) = self.known(before, &text[filled..usable]);
            for (page, digest) in shared.into_iter().zip(digests) {
                let place = sequence.digests.len();
                let Some(own) = sequence.table.get_mut(place) else { break };
                let own = std::mem::replace(own, page);
                self.hold(page);
                self.let_go(own);
                let end = (place + 1) * self.page_size;
                sequence.tokens.extend_from_slice(&text[place * self.page_size..end]);
                sequence.digests.push(digest);
            }
            let found = sequence.tokens.len() - filled;
            self.counts.prefix_tokens += found as u64;
            self.counts.prefix_hits += u64::from(found > 0 && filled == 0);
        }
        self.rows[row] = Some(sequence);
    }

    /// Makes sure that a row has pages for so many positions.
    pub(crate) fn reserve(&mut self, row: usize, positions: usize) -> Result<(), NoPage> {
        let needed = positions.div_ceil(self.page_size);
        while self.rows.get(row).and_then(Option::as_ref).is_some_and(|sequence| sequence.table.len() < needed) {
            let page = self.new_page()?;
            if let Some(sequence) = self.rows.get_mut(row).and_then(Option::as_mut) {
                sequence.table.push(page);
            }
        }
        Ok(())
    }

    /// More tokens are in the pages of a row.
    pub(crate) fn written(&mut self, row: usize, tokens: &[u32]) {
        let Some(mut sequence) = self.rows.get_mut(row).and_then(Option::take) else { return };
        sequence.tokens.extend_from_slice(tokens);
        while (sequence.digests.len() + 1) * self.page_size <= sequence.tokens.len() {
            let place = sequence.digests.len();
            let before = sequence.digests.last().copied().unwrap_or(NOTHING);
            let of_page = &sequence.tokens[place * self.page_size..(place + 1) * self.page_size];
            let digest = self.digest(before, of_page);
            if let Some(&page) = sequence.table.get(place)
                && !self.full.contains_key(&digest)
            {
                self.full.insert(digest, page);
                self.publish(page, PageContent { before, tokens: of_page.to_vec() });
            }
            sequence.digests.push(digest);
        }
        self.rows[row] = Some(sequence);
    }

    /// Positions filled of a row.
    pub(crate) fn filled(&self, row: usize) -> usize {
        self.sequence(row).map_or(0, |sequence| sequence.tokens.len())
    }

    /// The pages of a row.
    pub(crate) fn table(&self, row: usize) -> &[PageId] {
        self.sequence(row).map_or(&[], |sequence| &sequence.table)
    }

    /// A row is free; what is in its pages may be used again.
    pub(crate) fn release(&mut self, row: usize) {
        let Some(sequence) = self.rows.get_mut(row).and_then(Option::take) else { return };
        let place = sequence.digests.len();
        let rest = &sequence.tokens[place * self.page_size..];
        if let Some(&page) = sequence.table.get(place).filter(|_| !rest.is_empty()) {
            let before = sequence.digests.last().copied().unwrap_or(NOTHING);
            self.publish(page, PageContent { before, tokens: rest.to_vec() });
        }
        // The last page is given up first: without it the others are still of use.
        for &page in sequence.table.iter().rev() {
            self.let_go(page);
        }
    }

    /// A row is free, but its request is not done.
    pub(crate) fn preempt(&mut self, row: usize) {
        self.release(row);
        self.counts.preempted += 1;
    }

    fn sequence(&self, row: usize) -> Option<&Sequence> {
        self.rows.get(row).and_then(Option::as_ref)
    }

    fn users(&self, page: PageId) -> usize {
        self.pages.get(page as usize).map_or(0, |page| page.users)
    }

    fn content(&self, page: PageId) -> Option<&PageContent> {
        self.pages.get(page as usize)?.content.as_ref()
    }

    /// Pages that a sequence may have: empty ones, and those of nobody.
    fn available(&self) -> usize {
        self.empty.len() + self.cached.len()
    }

    fn digest(&self, before: PageDigest, tokens: &[u32]) -> PageDigest {
        let of = |state: &RandomState| state.hash_one((before, tokens));
        (of(&self.hashers[0]), of(&self.hashers[1]))
    }

    /// Full pages that have the first of these tokens, after those of `before`.
    fn known(&self, before: PageDigest, tokens: &[u32]) -> (Vec<PageId>, Vec<PageDigest>) {
        let (mut pages, mut digests, mut before) = (Vec::new(), Vec::new(), before);
        for tokens in tokens.chunks_exact(self.page_size) {
            let digest = self.digest(before, tokens);
            let page = self.full.get(&digest).copied();
            let is_it = |content: &PageContent| content.before == before && content.tokens == tokens;
            let Some(page) = page.filter(|&page| self.content(page).is_some_and(is_it)) else { break };
            pages.push(page);
            digests.push(digest);
            before = digest;
        }
        (pages, digests)
    }

    /// Full pages of a text that are in the host's memory, behind those that a sequence has.
    fn come_back(&mut self, sequence: &mut Sequence, text: &[u32]) {
        while let Some(tokens) = text.get(sequence.tokens.len()..sequence.tokens.len() + self.page_size) {
            let before = sequence.digests.last().copied().unwrap_or(NOTHING);
            let digest = self.digest(before, tokens);
            let content = PageContent { before, tokens: tokens.to_vec() };
            let on_device = self.full.get(&digest).copied();
            let page = match on_device.filter(|&page| self.content(page) == Some(&content)) {
                Some(page) => {
                    self.hold(page);
                    page
                }
                None => {
                    let Some(place) = self.host.take(digest, &content) else { return };
                    // The place is not free yet: what is given up for this page goes to another.
                    let page = self.new_page();
                    if let Ok(page) = page {
                        self.moves.push(PageMove::FromHost { place, page: page as usize });
                    }
                    self.host.leave(place);
                    let Ok(page) = page else { return };
                    self.counts.restored += 1;
                    self.full.insert(digest, page);
                    self.publish(page, content);
                    page
                }
            };
            sequence.tokens.extend_from_slice(tokens);
            sequence.table.push(page);
            sequence.digests.push(digest);
        }
    }

    /// The page in which a text goes on after full ones, as far as another has the same tokens: that page itself where nobody has it
    /// and nothing else is in it, else a copy.
    fn go_on_within(&mut self, sequence: &mut Sequence, text: &[u32]) -> Option<PageCopy> {
        let before = sequence.digests.last().copied().unwrap_or(NOTHING);
        let rest = &text[sequence.tokens.len()..];
        let common = |tokens: &[u32]| tokens.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let known = self.after.get(&before).into_iter().flatten().rev().take(MAX_COMPARED);
        let known = known.filter_map(|&page| Some((page, common(&self.content(page)?.tokens))));
        // The last pages of those that run are not known yet.
        let running = self.rows.iter().flatten().filter_map(|other| {
            let place = other.digests.len();
            let is_next = other.digests.last().copied().unwrap_or(NOTHING) == before;
            let page = other.table.get(place).copied().filter(|_| is_next)?;
            Some((page, common(&other.tokens[place * self.page_size..])))
        });
        let (page, count) = known.chain(running).max_by_key(|&(page, count)| (count, std::cmp::Reverse(page)))?;
        let is_whole = self
            .content(page)
            .is_some_and(|content| content.tokens.len() == count && count < self.page_size && self.users(page) == 0);
        if is_whole && count > 0 {
            self.hold(page);
            self.forget(page);
            sequence.table.push(page);
            sequence.tokens.extend_from_slice(&rest[..count]);
            return None;
        }
        if count * LEAST_COPIED < self.page_size {
            return None;
        }
        // The page must not be given up for its own copy.
        self.hold(page);
        let copy = self.new_page();
        self.let_go(page);
        let to = copy.ok()?;
        sequence.table.push(to);
        sequence.tokens.extend_from_slice(&rest[..count]);
        self.counts.copied += 1;
        Some(PageCopy { from: page as usize, to: to as usize })
    }

    /// One more sequence has a page.
    fn hold(&mut self, page: PageId) {
        let Some(of) = self.pages.get_mut(page as usize) else { return };
        if of.users == 0 {
            self.cached.remove(&(of.last_used, page));
        }
        of.users += 1;
    }

    /// One sequence less has a page.
    fn let_go(&mut self, page: PageId) {
        self.clock += 1;
        let Some(of) = self.pages.get_mut(page as usize) else { return };
        of.users = of.users.saturating_sub(1);
        of.last_used = self.clock;
        if of.users > 0 {
            return;
        }
        match of.content {
            Some(_) => _ = self.cached.insert((self.clock, page)),
            None => self.empty.push(page),
        }
    }

    /// A page that one sequence has: an empty one, or the one of nobody that was not used for longest.
    fn new_page(&mut self) -> Result<PageId, NoPage> {
        let page = match self.empty.pop() {
            Some(page) => page,
            None => {
                let (_, page) = self.cached.pop_first().ok_or(NoPage)?;
                self.offload(page);
                self.forget(page);
                self.counts.evicted += 1;
                page
            }
        };
        if let Some(of) = self.pages.get_mut(page as usize) {
            of.users = 1;
        }
        Ok(page)
    }

    /// What is in a page goes to the host's memory, where there is room for it and it is full.
    fn offload(&mut self, page: PageId) {
        let Some(content) = self.content(page).filter(|content| content.tokens.len() == self.page_size).cloned() else {
            return;
        };
        let digest = self.digest(content.before, &content.tokens);
        if let Some(place) = self.host.put(digest, content) {
            self.moves.push(PageMove::ToHost { page: page as usize, place });
            self.counts.offloaded += 1;
        }
    }

    /// Others may use what is in a page.
    fn publish(&mut self, page: PageId, content: PageContent) {
        self.after.entry(content.before).or_default().push(page);
        if let Some(of) = self.pages.get_mut(page as usize) {
            of.content = Some(content);
        }
    }

    /// Nobody may use any more what is in a page.
    fn forget(&mut self, page: PageId) {
        let Some(content) = self.pages.get_mut(page as usize).and_then(|of| of.content.take()) else { return };
        if content.tokens.len() == self.page_size {
            let digest = self.digest(content.before, &content.tokens);
            if self.full.get(&digest) == Some(&page) {
                self.full.remove(&digest);
            }
        }
        if let Some(pages) = self.after.get_mut(&content.before) {
            pages.retain(|other| *other != page);
            if pages.is_empty() {
                self.after.remove(&content.before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every page is of somebody, kept for its content, or empty, and never two of these.
    fn check(pages: &Pages) {
        let mut users = vec![0; pages.pages.len()];
        for sequence in pages.rows.iter().flatten() {
            assert!(sequence.tokens.len() <= sequence.table.len() * pages.page_size);
            for &page in &sequence.table {
                users[page as usize] += 1;
            }
        }
        for (n, page) in pages.pages.iter().enumerate() {
            assert_eq!(page.users, users[n], "page {n}");
            let is_cached = pages.cached.contains(&(page.last_used, n as PageId));
            let is_empty = pages.empty.contains(&(n as PageId));
            assert_eq!(is_cached, page.users == 0 && page.content.is_some(), "page {n}");
            assert_eq!(is_empty, page.users == 0 && page.content.is_none(), "page {n}");
        }
        let counts = pages.counts();
        assert_eq!(counts.used + counts.cached + counts.free, counts.total);
        for (digest, &page) in &pages.full {
            let content = pages.content(page).unwrap();
            assert_eq!(pages.digest(content.before, &content.tokens), *digest);
        }
    }

    fn run(pages: &mut Pages, text: &[u32]) -> TakenRow {
        let taken = pages.take(text).unwrap();
        let filled = pages.filled(taken.row);
        pages.written(taken.row, &text[filled..]);
        check(pages);
        taken
    }

    #[test]
    fn prompts_that_begin_alike_share_pages() {
        let mut pages = Pages::new(4, 12, 32);
        let long: Vec<u32> = (0..90).collect();
        assert_eq!(run(&mut pages, &long), TakenRow { row: 0, copy: None });
        assert_eq!(pages.table(0), [0, 1, 2]);
        // Two pages are shared, and the third goes on within a copy.
        let taken = run(&mut pages, &long);
        assert_eq!(taken, TakenRow { row: 1, copy: Some(PageCopy { from: 2, to: 3 }) });
        assert_eq!(pages.table(1), [0, 1, 3]);
        let counts = pages.counts();
        assert_eq!((counts.prefix_hits, counts.prefix_tokens, counts.shared, counts.copied), (1, 89, 2, 1));
        // A text that ends with a page computes its last token in a page of its own.
        let taken = pages.take(&long[..64]).unwrap();
        assert_eq!((pages.filled(taken.row), taken.copy), (63, Some(PageCopy { from: 1, to: 4 })));
        pages.release(taken.row);
        pages.release(1);
        pages.release(0);
        check(&pages);
        // Nobody has the third page any more: a longer text goes on in it.
        let longer: Vec<u32> = (0..100).collect();
        let taken = pages.take(&longer).unwrap();
        assert_eq!((pages.filled(taken.row), taken.copy), (90, None));
        check(&pages);
        // Another text shares nothing, whatever its tokens.
        let other = [vec![7], long[..89].to_vec()].concat();
        let taken = pages.take(&other).unwrap();
        assert_eq!(pages.filled(taken.row), 0);
        check(&pages);
    }

    #[test]
    fn pages_of_nobody_are_given_up_the_oldest_first() {
        let mut pages = Pages::new(3, 6, 4);
        let text = |first: u32| (first..first + 8).collect::<Vec<u32>>();
        for first in [100, 200] {
            let row = run(&mut pages, &text(first)).row;
            pages.release(row);
        }
        // Of six pages four are kept: those of the last tokens go first, and the older text before the newer.
        assert_eq!((pages.counts().cached, pages.counts().free), (4, 2));
        let row = run(&mut pages, &text(300)).row;
        assert_eq!(pages.counts().evicted, 1);
        let (known, _) = pages.known(NOTHING, &text(100));
        assert_eq!(known.len(), 1);
        assert_eq!(pages.known(NOTHING, &text(200)).0.len(), 2);
        // Three more are there for one that grows, then there is none.
        assert_eq!(pages.reserve(row, 24), Ok(()));
        assert_eq!(pages.reserve(row, 25), Err(NoPage));
        check(&pages);
        assert_eq!(pages.take(&[1]), None);
        pages.preempt(row);
        assert_eq!(pages.counts().preempted, 1);
        // What it computed is found again.
        let taken = pages.take(&text(300)).unwrap();
        assert_eq!((pages.filled(taken.row), taken.copy.is_some()), (7, true));
        check(&pages);
    }

    #[test]
    fn pages_come_back_from_the_host() {
        let mut pages = Pages::new(1, 4, 4).with_host(3);
        let text = |first: u32| (first..first + 14).collect::<Vec<u32>>();
        let row = run(&mut pages, &text(100)).row;
        pages.release(row);
        assert_eq!(pages.moves(), []);
        // Another text needs all four: three full ones go to the host, the last tokens first.
        let row = run(&mut pages, &text(200)).row;
        let went = pages.moves();
        let to_host = |&(page, place): &(usize, usize)| PageMove::ToHost { page, place };
        assert_eq!(went, [(2, 0), (1, 1), (0, 2)].iter().map(to_host).collect::<Vec<_>>());
        assert_eq!((pages.counts().on_host, pages.counts().offloaded), (3, 3));
        pages.release(row);
        // The first comes back, and what is given up for it takes no place that is still read.
        let taken = pages.take(&text(100)).unwrap();
        assert_eq!((pages.filled(taken.row), pages.counts().restored), (12, 3));
        let moves = pages.moves();
        let mut unread: Vec<usize> = vec![2, 1, 0];
        for moved in moves {
            match moved {
                PageMove::FromHost { place, .. } => assert_eq!(unread.pop(), Some(2 - place)),
                PageMove::ToHost { place, .. } => assert!(!unread.contains(&(2 - place)), "{place}"),
            }
        }
        check(&pages);
        pages.release(taken.row);
        check(&pages);
    }

    #[test]
    fn texts_that_are_read_at_the_same_time_meet() {
        let mut pages = Pages::new(2, 10, 4);
        let text: Vec<u32> = (0..13).collect();
        let (first, second) = (pages.take(&text).unwrap().row, pages.take(&text).unwrap().row);
        pages.written(first, &text[..9]);
        pages.find_more(second, &text);
        assert_eq!(pages.filled(second), 8);
        assert_eq!(pages.table(first)[..2], pages.table(second)[..2]);
        assert_eq!((pages.counts().prefix_hits, pages.counts().shared), (1, 2));
        pages.written(second, &text[8..9]);
        // Not within a page.
        pages.written(first, &text[9..]);
        pages.find_more(second, &text);
        assert_eq!(pages.filled(second), 9);
        check(&pages);
        pages.release(first);
        pages.release(second);
        check(&pages);
    }
}
