//! Stacked layers of a model: one stack, or several one after the other where layers differ in form.

use std::ops::Range;

use trace::{Path, RematPolicy, Tensor, Tree};

use crate::models::language::PartCut;
use crate::quant::{InputAxis, MapWeights, Weight};
use crate::stacked::{Stages, concatenated, range_word};

/// Layers in segments, each stacked along a first axis. Layers of equal form are one segment, and most models have only one. With
/// several, paths have the range of layers in them: `layers.0-3.attention.query.weight`.
#[derive(Clone, Debug)]
pub struct LayerStack<L> {
    first: LayerSegment<L>,
    rest: Vec<LayerSegment<L>>,
}

/// Neighbouring layers, stacked.
#[derive(Clone, Debug)]
struct LayerSegment<L> {
    /// Numbers of the layers.
    numbers: Range<usize>,
    stacked: L,
}

impl<L> LayerSegment<L> {
    fn with<M>(&self, stacked: M) -> LayerSegment<M> {
        LayerSegment { numbers: self.numbers.clone(), stacked }
    }
}

impl<L> LayerStack<L> {
    /// So many layers in one segment.
    pub fn new(layers: usize, stacked: L) -> LayerStack<L> {
        LayerStack { first: LayerSegment { numbers: 0..layers, stacked }, rest: Vec::new() }
    }

    /// Neighbouring layers in segments, in order, each of as many layers as stacked.
    pub(crate) fn of_segments(first: (Range<usize>, L), rest: Vec<(Range<usize>, L)>) -> LayerStack<L> {
        let of = |(numbers, stacked): (Range<usize>, L)| LayerSegment { numbers, stacked };
        LayerStack { first: of(first), rest: rest.into_iter().map(of).collect() }
    }

    /// Segments in order: numbers of layers, and the layers stacked.
    pub fn segments(&self) -> impl Iterator<Item = (Range<usize>, &L)> {
        self.all().map(|segment| (segment.numbers.clone(), &segment.stacked))
    }

    /// The first segment.
    pub fn first(&self) -> &L {
        &self.first.stacked
    }

    fn all(&self) -> impl Iterator<Item = &LayerSegment<L>> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Every segment replaced, with the path of each.
    fn map_segments<M>(&self, path: &mut Path, f: &mut dyn FnMut(&mut Path, &L) -> M) -> LayerStack<M> {
        if self.rest.is_empty() {
            return LayerStack { first: self.first.with(f(path, &self.first.stacked)), rest: Vec::new() };
        }
        let mut of = |segment: &LayerSegment<L>| {
            let stacked = path.within(&range_word(&segment.numbers), |path| f(path, &segment.stacked));
            segment.with(stacked)
        };
        LayerStack { first: of(&self.first), rest: self.rest.iter().map(of).collect() }
    }
}

impl<L: Tree> LayerStack<L> {
    /// Runs segments one after the other. `run` takes what is carried, a segment and the numbers of its layers, and returns the next
    /// carry and stacked results; the results are those of all layers.
    #[track_caller]
    pub fn run<C: Tree, Y: Tree>(&self, carried: &C, mut run: impl FnMut(&C, &L, Range<usize>) -> (C, Y)) -> (C, Y) {
        let (mut x, result) = run(carried, &self.first.stacked, self.first.numbers.clone());
        if self.rest.is_empty() {
            return (x, result);
        }
        if Stages::here().is_some() {
            trace::refuse(format!(
                "layers have {} forms one after the other (weights of other bits, or experts in some layers only): pipeline stages cannot share them; \
                 choose a mesh without `stage`",
                self.rest.len() + 1
            ));
        }
        let mut results = vec![result];
        for segment in &self.rest {
            let (next, result) = run(&x, &segment.stacked, segment.numbers.clone());
            x = next;
            results.push(result);
        }
        (x, concatenated(&results))
    }

    /// The policy of a segment: a policy for several layers at a time is one for each layer where they do not divide a segment.
    pub fn remat_of(&self, policy: &RematPolicy, numbers: &Range<usize>) -> RematPolicy {
        match policy {
            RematPolicy::EveryLayers(count) if !self.rest.is_empty() && !numbers.len().is_multiple_of(*count) => {
                RematPolicy::Full
            }
            _ => policy.clone(),
        }
    }

    /// The layers with these numbers, which they keep; `None` where there are none of them.
    pub(crate) fn part(&self, path: &mut Path, layers: &Range<usize>, cut: &mut PartCut<'_>) -> Option<LayerStack<L>> {
        let overlap = |of: &Range<usize>| of.start.max(layers.start)..of.end.min(layers.end);
        let several = !self.rest.is_empty();
        let mut parts = Vec::new();
        for LayerSegment { numbers, stacked } in self.all().filter(|segment| !overlap(&segment.numbers).is_empty()) {
            let kept = overlap(numbers);
            let within = kept.start - numbers.start..kept.end - numbers.start;
            let mut of = |path: &mut Path| stacked.map(path, &mut |path, leaf| cut(path, leaf, Some(within.clone())));
            let stacked = if several { path.within(&range_word(numbers), of) } else { of(path) };
            parts.push(LayerSegment { numbers: kept, stacked });
        }
        let mut parts = parts.into_iter();
        Some(LayerStack { first: parts.next()?, rest: parts.collect() })
    }

    /// The same in more segments, each of the layers from one of `starts` to the next. A stack that has several already stays as it is.
    #[track_caller]
    fn cut(&self, starts: &[usize]) -> LayerStack<L> {
        let LayerSegment { numbers, stacked } = &self.first;
        let mut starts: Vec<usize> = starts.iter().copied().filter(|start| (1..numbers.end).contains(start)).collect();
        starts.sort_unstable();
        starts.dedup();
        if !self.rest.is_empty() || starts.is_empty() {
            return self.map_segments(&mut Path::default(), &mut |_, stacked| stacked.map_leaves(Tensor::clone));
        }
        let ends = starts.iter().copied().skip(1).chain([numbers.end]);
        let of = |numbers: Range<usize>| LayerSegment {
            stacked: stacked.map_leaves(|leaf| leaf.slice(0, numbers.clone())),
            numbers: numbers.clone(),
        };
        let rest = starts.iter().copied().zip(ends).map(|(start, end)| of(start..end)).collect();
        LayerStack { first: of(0..starts[0]), rest }
    }
}

impl<L: Tree> Tree for LayerStack<L> {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        if self.rest.is_empty() {
            return self.first.stacked.visit(path, f);
        }
        for segment in self.all() {
            path.within(&range_word(&segment.numbers), |path| segment.stacked.visit(path, f));
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        self.map_segments(path, &mut |path, stacked| stacked.map(path, f))
    }
}

impl<L: Tree + MapWeights> MapWeights for LayerStack<L> {
    fn map_weights_at(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Weight, InputAxis) -> Weight) -> Self {
        self.map_segments(path, &mut |path, stacked| stacked.map_weights_at(path, f))
    }

    fn in_segments_at(&self, path: &mut Path, starts: &mut dyn FnMut(&Path) -> Vec<usize>) -> Self {
        self.cut(&starts(path))
    }
}

#[cfg(test)]
mod tests {
    use tensor::DType;
    use trace::Spec;

    use super::*;

    fn stack(layers: usize) -> LayerStack<Tensor> {
        LayerStack::new(layers, Tensor::of(Spec::new(DType::F32, [layers, 2])))
    }

    fn ranges(stack: &LayerStack<Tensor>) -> Vec<(Range<usize>, usize)> {
        stack.segments().map(|(numbers, stacked)| (numbers, stacked.dim(0))).collect()
    }

    #[test]
    fn segments_have_ranges_in_their_paths() {
        let whole = stack(6);
        assert_eq!(whole.paths(), [""]);
        let cut = trace::shapes_of(&whole, |whole| whole.cut(&[4, 1, 4, 0, 9])).unwrap();
        assert_eq!(cut.paths(), ["0-0", "1-3", "4-5"]);
        assert_eq!(ranges(&cut), [(0..1, 1), (1..4, 3), (4..6, 2)]);
        // What is cut stays so.
        let again = trace::shapes_of(&cut, |cut| cut.cut(&[2])).unwrap();
        assert_eq!(ranges(&again), ranges(&cut));
        assert_eq!(ranges(&trace::shapes_of(&whole, |whole| whole.cut(&[])).unwrap()), [(0..6, 6)]);
    }

    #[test]
    fn a_policy_for_several_layers_fits_its_segment() {
        let cut = trace::shapes_of(&stack(6), |whole| whole.cut(&[4])).unwrap();
        let every = RematPolicy::EveryLayers(4);
        assert_eq!(cut.remat_of(&every, &(0..4)), every);
        assert_eq!(cut.remat_of(&every, &(4..6)), RematPolicy::Full);
        assert_eq!(stack(6).remat_of(&every, &(0..6)), every);
    }
}
