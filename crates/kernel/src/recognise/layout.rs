//! Which axis of an attention each dimension of a value runs over, through transposes, reshapes and broadcasts.
//!
//! Axes are labels with sizes. A dimension is a list of labels, outermost first; one of size 1 has none. A reshape may join and cut
//! labels: a cut label has parts, and is read as those from then on. A label of a dimension that a value was broadcast along, or of
//! an array that is not known yet, is open: it becomes the label it first meets in the same place.

/// A label of an axis.
pub(super) type Label = usize;

/// For each dimension the labels it runs over.
pub(super) type Layout = Vec<Vec<Label>>;

#[derive(Clone, Debug)]
struct Axis {
    size: usize,
    /// What stands for it: the labels it was cut into, or the one it turned out to be.
    parts: Option<Vec<Label>>,
    is_open: bool,
}

/// The labels of one attention.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    axes: Vec<Axis>,
}

impl Labels {
    /// A dimension with a label of its own.
    pub(super) fn fresh(&mut self, size: usize) -> Vec<Label> {
        self.add(size, false)
    }

    /// A dimension whose label is found out later.
    pub(super) fn open(&mut self, size: usize) -> Vec<Label> {
        self.add(size, true)
    }

    fn add(&mut self, size: usize, is_open: bool) -> Vec<Label> {
        if size == 1 {
            return Vec::new();
        }
        self.axes.push(Axis { size, parts: None, is_open });
        vec![self.axes.len() - 1]
    }

    pub(super) fn size(&self, label: Label) -> usize {
        self.axes.get(label).map_or(1, |axis| axis.size)
    }

    /// Has one of so many equal parts of a label in its place.
    pub(super) fn divide(&mut self, label: Label, parts: usize) {
        if let Some(axis) = self.axes.get_mut(label) {
            axis.size /= parts.max(1);
        }
    }

    pub(super) fn is_open(&self, label: Label) -> bool {
        self.axes.get(label).is_some_and(|axis| axis.is_open)
    }

    /// The labels that stand for these now.
    pub(super) fn leaves(&self, labels: &[Label]) -> Vec<Label> {
        let mut found = Vec::new();
        let mut pending: Vec<Label> = labels.iter().rev().copied().collect();
        while let Some(label) = pending.pop() {
            match self.axes.get(label).and_then(|axis| axis.parts.as_ref()) {
                Some(parts) => pending.extend(parts.iter().rev()),
                None => found.push(label),
            }
        }
        found
    }

    /// All labels of a layout, outermost first.
    pub(super) fn flat(&self, layout: &Layout) -> Vec<Label> {
        layout.iter().flat_map(|labels| self.leaves(labels)).collect()
    }

    /// Cuts a label so that its outer part has a size; whether it can be.
    fn cut(&mut self, label: Label, outer: usize) -> bool {
        let (size, is_open) = (self.size(label), self.is_open(label));
        if outer < 2 || outer >= size || !size.is_multiple_of(outer) {
            return false;
        }
        let mut parts = self.add(outer, is_open);
        parts.extend(self.add(size / outer, is_open));
        if let Some(axis) = self.axes.get_mut(label) {
            axis.parts = Some(parts);
        }
        true
    }

    /// The layout after a reshape; `None` where it does not follow the axes.
    pub(super) fn reshaped(&mut self, layout: &Layout, dims: &[usize]) -> Option<Layout> {
        let mut rest: Vec<Label> = self.flat(layout);
        rest.reverse();
        let mut result = Vec::with_capacity(dims.len());
        for &size in dims {
            let (mut labels, mut have) = (Vec::new(), 1usize);
            while have < size {
                let label = rest.pop()?;
                let next = have.checked_mul(self.size(label))?;
                if next <= size {
                    labels.push(label);
                    have = next;
                } else {
                    if !size.is_multiple_of(have) || !self.cut(label, size / have) {
                        return None;
                    }
                    let mut parts = self.leaves(&[label]);
                    parts.reverse();
                    rest.extend(parts);
                }
            }
            if have != size {
                return None;
            }
            result.push(labels);
        }
        rest.is_empty().then_some(result)
    }

    /// Whether two layouts are the same, where open labels become those they meet.
    pub(super) fn unify(&mut self, a: &Layout, b: &Layout) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.unify_labels(a, b))
    }

    /// As [`Labels::unify`], for one dimension.
    pub(super) fn unify_labels(&mut self, a: &[Label], b: &[Label]) -> bool {
        loop {
            let (a, b) = (self.leaves(a), self.leaves(b));
            let Some((&x, &y)) = a.iter().zip(&b).find(|(x, y)| x != y) else { return a.len() == b.len() };
            let (of_x, of_y) = (self.size(x), self.size(y));
            let done = match of_x.cmp(&of_y) {
                std::cmp::Ordering::Equal if self.is_open(x) => self.alias(x, y),
                std::cmp::Ordering::Equal if self.is_open(y) => self.alias(y, x),
                std::cmp::Ordering::Equal => false,
                std::cmp::Ordering::Less => self.is_open(y) && self.cut(y, of_x),
                std::cmp::Ordering::Greater => self.is_open(x) && self.cut(x, of_y),
            };
            if !done {
                return false;
            }
        }
    }

    fn alias(&mut self, open: Label, label: Label) -> bool {
        match self.axes.get_mut(open) {
            Some(axis) => {
                axis.parts = Some(vec![label]);
                true
            }
            None => false,
        }
    }

    /// Whether two lists have the same labels, in any order.
    pub(super) fn same_set(&self, a: &[Label], b: &[Label]) -> bool {
        let (mut a, mut b) = (self.leaves(a), self.leaves(b));
        a.sort_unstable();
        b.sort_unstable();
        a == b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_join_and_cut_axes() {
        let mut labels = Labels::default();
        let (heads, rows) = (labels.fresh(12), labels.fresh(5));
        let layout = vec![heads.clone(), vec![], rows.clone()];
        let joined = labels.reshaped(&layout, &[60]).unwrap();
        assert_eq!(joined, [[heads[0], rows[0]]]);
        let cut = labels.reshaped(&joined, &[3, 4, 5, 1]).unwrap();
        assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 0]);
        assert_eq!(labels.flat(&layout), labels.flat(&cut));
        assert!(labels.reshaped(&layout, &[5, 12]).is_none(), "rows are no part of heads");
        assert!(labels.reshaped(&layout, &[59]).is_none());
    }

    #[test]
    fn open_axes_become_what_they_meet() {
        let mut labels = Labels::default();
        let (a, b, open) = (labels.fresh(4), labels.fresh(4), labels.open(4));
        assert!(!labels.unify_labels(&a, &b));
        assert!(labels.unify_labels(&open, &a));
        assert!(!labels.unify_labels(&open, &b));
        let (wide, other) = (labels.open(16), labels.fresh(4));
        let both = [a.clone(), other].concat();
        assert!(labels.unify_labels(&wide, &both));
        assert_eq!(labels.leaves(&wide), both);
    }
}
