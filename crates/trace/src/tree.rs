//! Structures of tensors: visited and rebuilt leaf by leaf, with stable dotted paths.

use std::collections::BTreeMap;

use crate::Spec;
use crate::tensor::Tensor;

/// A dotted path, as in `blocks.0.attention.query.weight`.
#[derive(Clone, Debug, Default)]
pub struct Path {
    text: String,
}

impl Path {
    /// Runs `f` with `name` appended.
    pub fn within<T>(&mut self, name: &str, f: impl FnOnce(&mut Path) -> T) -> T {
        let length = self.text.len();
        if length > 0 {
            self.text.push('.');
        }
        self.text.push_str(name);
        let result = f(self);
        self.text.truncate(length);
        result
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A structure whose leaves are tensors: a layer, a model, optimizer state, a batch, or a tuple of them.
///
/// Derived with `#[derive(Tree)]`: fields are visited in order under their names; `#[tree(skip)]` marks a field that is
/// no tensor and is cloned.
pub trait Tree: Sized {
    /// Calls `f` with every leaf and its path.
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor));

    /// The same structure with every leaf replaced by what `f` makes of it.
    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self;

    /// The leaves in order.
    fn leaves(&self) -> Vec<Tensor> {
        let mut leaves = Vec::new();
        self.visit(&mut Path::default(), &mut |_, leaf| leaves.push(leaf.clone()));
        leaves
    }

    /// Paths of the leaves, in order.
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.visit(&mut Path::default(), &mut |path, _| paths.push(path.as_str().to_owned()));
        paths
    }

    /// Types and shapes of the leaves, in order.
    fn specs(&self) -> Vec<Spec> {
        self.leaves().iter().map(|leaf| leaf.spec().clone()).collect()
    }

    /// The same structure with these leaves, in order. Leaves that are missing stay as they are.
    fn with_leaves(&self, leaves: impl IntoIterator<Item = Tensor>) -> Self {
        let mut leaves = leaves.into_iter();
        self.map(&mut Path::default(), &mut |_, leaf| leaves.next().unwrap_or_else(|| leaf.clone()))
    }

    /// The same structure with every leaf replaced.
    fn map_leaves(&self, mut f: impl FnMut(&Tensor) -> Tensor) -> Self {
        self.map(&mut Path::default(), &mut |_, leaf| f(leaf))
    }

    /// The same structure, made of this one's leaves and another's at the same place.
    fn zip(&self, other: &Self, mut f: impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self {
        let mut others = other.leaves().into_iter();
        self.map_leaves(|leaf| match others.next() {
            Some(other) => f(leaf, &other),
            None => leaf.clone(),
        })
    }

    /// The same structure known by types and shapes only.
    fn shapes(&self) -> Self {
        self.map_leaves(|leaf| Tensor::of(leaf.spec().clone()))
    }

    /// Number of elements of all leaves.
    fn num_parameters(&self) -> u64 {
        self.leaves().iter().map(|leaf| leaf.num_elements() as u64).sum()
    }
}

impl Tree for Tensor {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        f(path, self);
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        f(path, self)
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        for (n, item) in self.iter().enumerate() {
            path.within(&n.to_string(), |path| item.visit(path, f));
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        self.iter().enumerate().map(|(n, item)| path.within(&n.to_string(), |path| item.map(path, f))).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        for (n, item) in self.iter().enumerate() {
            path.within(&n.to_string(), |path| item.visit(path, f));
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        std::array::from_fn(|n| path.within(&n.to_string(), |path| self[n].map(path, f)))
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        if let Some(item) = self {
            item.visit(path, f);
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        self.as_ref().map(|item| item.map(path, f))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        (**self).visit(path, f);
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        Box::new((**self).map(path, f))
    }
}

impl<T: Tree> Tree for BTreeMap<String, T> {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        for (name, item) in self {
            path.within(name, |path| item.visit(path, f));
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        self.iter().map(|(name, item)| (name.clone(), path.within(name, |path| item.map(path, f)))).collect()
    }
}

macro_rules! tuples {
    ($($name:ident $at:tt),*) => {
        impl<$($name: Tree),*> Tree for ($($name,)*) {
            #[allow(unused_variables)]
            fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
                $(path.within(stringify!($at), |path| self.$at.visit(path, f));)*
            }

            #[allow(unused_variables, clippy::unused_unit)]
            fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
                ($(path.within(stringify!($at), |path| self.$at.map(path, f)),)*)
            }
        }
    };
}

tuples!();
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
