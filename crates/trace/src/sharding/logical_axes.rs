//! Partition specs of tensors, and logical axis rules: which mesh axes the logical axes of activations are sharded along.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::Error;
use crate::sharding::Mesh;

/// Which mesh axes each axis of a tensor is split along.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionSpec {
    /// One entry for each axis of the tensor, slowest mesh axis first; `None` leaves the axis to the compiler.
    pub dims: Vec<Option<Vec<Arc<str>>>>,
}

impl PartitionSpec {
    /// Whole on every device.
    pub fn replicated(rank: usize) -> PartitionSpec {
        PartitionSpec { dims: vec![Some(Vec::new()); rank] }
    }

    /// Split along these mesh axes, axis by axis; an empty list is whole.
    pub fn new<'a>(dims: impl IntoIterator<Item = &'a [&'a str]>) -> PartitionSpec {
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.into()).collect());
        PartitionSpec { dims: dims.into_iter().map(names).collect() }
    }

    /// Whether every device has the whole tensor.
    pub fn is_replicated(&self) -> bool {
        self.dims.iter().all(|axes| axes.as_ref().is_some_and(Vec::is_empty))
    }

    /// All mesh axes it is split along.
    pub fn axes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.dims.iter().flatten().flatten()
    }

    /// Parts along each axis. Fails where an axis is unknown, used twice, or does not divide the tensor.
    pub fn parts(&self, mesh: &Mesh, dims: &[usize]) -> Result<Vec<usize>, Error> {
        if self.dims.len() != dims.len() {
            let message = format!("a sharding of {} axes for a tensor of {}", self.dims.len(), dims.len());
            return Err(Error::Mesh(message));
        }
        let mut seen: Vec<&str> = Vec::new();
        for name in self.axes() {
            if seen.contains(&&**name) {
                return Err(Error::Mesh(format!("{self} is sharded along `{name}` twice")));
            }
            if mesh.size_of(name).is_none() {
                return Err(Error::Mesh(format!("the mesh {mesh} has no axis `{name}`")));
            }
            seen.push(name);
        }
        let part = |(axes, &size): (&Option<Vec<Arc<str>>>, &usize)| {
            let along = axes.iter().flatten().map(|name| &**name);
            let parts = mesh.size_along(along).unwrap_or(1);
            if size.is_multiple_of(parts) {
                return Ok(parts);
            }
            Err(Error::Mesh(format!("{dims:?} sharded as {self}: {size} is not a multiple of {parts}")))
        };
        self.dims.iter().zip(dims).map(part).collect()
    }

    /// Sizes of what one device has.
    pub fn part_dims(&self, mesh: &Mesh, dims: &[usize]) -> Result<Vec<usize>, Error> {
        Ok(self.parts(mesh, dims)?.iter().zip(dims).map(|(parts, size)| size / parts).collect())
    }

    /// The place of a device's part along each axis, counted in parts. The sharding fits the mesh.
    pub fn part_of(&self, mesh: &Mesh, device: usize) -> Vec<usize> {
        let place = mesh.place_of(device);
        let at = |name: &Arc<str>| {
            let axis = mesh.axes().iter().position(|axis| axis.name == *name);
            axis.map_or((0, 1), |n| (place[n], mesh.axes()[n].size))
        };
        let along =
            |axes: &Option<Vec<Arc<str>>>| axes.iter().flatten().map(at).fold(0, |place, (at, size)| place * size + at);
        self.dims.iter().map(along).collect()
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |axes: &Option<Vec<Arc<str>>>| match axes {
            None => "?".to_string(),
            Some(axes) if axes.is_empty() => "-".to_string(),
            Some(axes) => axes.join("+"),
        };
        write!(f, "[{}]", self.dims.iter().map(dim).collect::<Vec<_>>().join(", "))
    }
}

/// How shardings are written into programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// As Shardy has them, which all current compilers read.
    #[default]
    Shardy,
    /// As attributes of GSPMD, for older compilers.
    Gspmd,
}

/// A mesh, and along which of its axes the axes of activations are split, by what they mean: `batch`, `heads`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalAxisRules {
    /// The mesh.
    pub mesh: Mesh,
    /// Mesh axes of each logical axis; what is not named is whole.
    pub axes: BTreeMap<String, Vec<Arc<str>>>,
    /// Parts that a batch is taken in where layers are split along the logical axis `stages`; by rule if absent.
    pub microbatches: Option<usize>,
    /// How it is written.
    pub dialect: Dialect,
}

impl LogicalAxisRules {
    /// A mesh on which nothing but arguments and results is laid out.
    pub fn new(mesh: Mesh) -> LogicalAxisRules {
        LogicalAxisRules { mesh, axes: BTreeMap::new(), microbatches: None, dialect: Dialect::default() }
    }

    /// The same, with axes of one logical axis split along these mesh axes.
    #[must_use]
    pub fn with<'a>(mut self, logical_axis: &str, axes: impl IntoIterator<Item = &'a str>) -> LogicalAxisRules {
        self.axes.insert(logical_axis.into(), axes.into_iter().map(Into::into).collect());
        self
    }

    /// The same where nothing is split along these mesh axes any more.
    pub(crate) fn without(&self, axes: &[Arc<str>]) -> LogicalAxisRules {
        let mut rules = self.clone();
        for names in rules.axes.values_mut() {
            names.retain(|name| !axes.contains(name));
        }
        rules
    }

    /// The sharding of a tensor whose axes mean this; each mesh axis is used once, and only where it divides.
    pub fn sharding(&self, logical_axes: &[&str], dims: &[usize]) -> PartitionSpec {
        let mut used: Vec<Arc<str>> = Vec::new();
        let along = |(logical_axis, &size): (&&str, &usize)| {
            let mut axes = Vec::new();
            let mut parts = 1;
            for name in self.axes.get(*logical_axis).into_iter().flatten() {
                let Some(more) = self.mesh.size_of(name) else { continue };
                if more > 1 && !used.contains(name) && size.is_multiple_of(parts * more) {
                    parts *= more;
                    used.push(name.clone());
                    axes.push(name.clone());
                }
            }
            Some(axes)
        };
        PartitionSpec { dims: logical_axes.iter().zip(dims).map(along).collect() }
    }
}

thread_local! {
    static RULES: RefCell<Option<Rc<LogicalAxisRules>>> = const { RefCell::new(None) };
    /// Mesh axes along which the examples of the batch being written lie.
    static LANES: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
}

/// Mesh axes along which the examples of the batch being written lie: those of [`crate::vmap_along`], else none.
pub(crate) fn lane_axes() -> Vec<Arc<str>> {
    LANES.with_borrow(Clone::clone)
}

/// Writes what runs for a batch whose examples lie along these mesh axes.
pub(crate) fn with_lane_axes<T>(axes: &[Arc<str>], f: impl FnOnce() -> T) -> T {
    struct Restore(Vec<Arc<str>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LANES.set(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(LANES.replace(axes.to_vec()));
    f()
}

/// The sharding of a batch of tensors of this sharding. `None` if the examples' axes are used already.
pub(crate) fn with_lanes(sharding: &PartitionSpec, axes: &[Arc<str>]) -> Option<PartitionSpec> {
    if sharding.axes().any(|name| axes.contains(name)) {
        return None;
    }
    let mut dims = vec![Some(axes.to_vec())];
    dims.extend(sharding.dims.iter().cloned());
    Some(PartitionSpec { dims })
}

/// The rules of the function being traced.
pub fn current_rules() -> Option<Rc<LogicalAxisRules>> {
    RULES.with_borrow(Option::clone)
}

/// Runs `f` with rules, or without one where tensors are parts of one device.
pub(crate) fn with_rules<T>(rules: Option<Rc<LogicalAxisRules>>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Rc<LogicalAxisRules>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            RULES.set(self.0.take());
        }
    }
    let _restore = Restore(RULES.replace(rules));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_tensor() {
        let mesh = Mesh::new([("data", 4), ("model", 2)]).unwrap();
        let sharding = PartitionSpec::new([&["data"][..], &[], &["model"]]);
        assert_eq!(sharding.part_dims(&mesh, &[8, 3, 6]).unwrap(), [2, 3, 3]);
        assert_eq!(sharding.part_of(&mesh, 5), [2, 0, 1]);
        assert_eq!(PartitionSpec::new([&["model", "data"][..]]).part_of(&mesh, 5), [6]);
        let error = |sharding: &PartitionSpec, dims: &[usize]| sharding.parts(&mesh, dims).unwrap_err().to_string();
        assert!(error(&sharding, &[8, 3, 5]).contains("5 is not a multiple of 2"));
        assert!(error(&sharding, &[8, 3]).contains("3 axes for a tensor of 2"));
        assert!(error(&PartitionSpec::new([&["x"][..]]), &[8]).contains("no axis `x`"));
        assert!(error(&PartitionSpec::new([&["data"][..], &["data"]]), &[8, 8]).contains("twice"));
    }

    #[test]
    fn rules_take_each_mesh_axis_once_and_where_it_divides() {
        let mesh = Mesh::new([("data", 4), ("model", 2)]).unwrap();
        let rules = LogicalAxisRules::new(mesh).with("batch", ["data", "model"]).with("heads", ["model"]);
        let of = |dims: &[usize]| rules.sharding(&["batch", "sequence", "heads"], dims).to_string();
        assert_eq!(of(&[8, 16, 4]), "[data+model, -, -]");
        assert_eq!(of(&[4, 16, 4]), "[data, -, model]");
        assert_eq!(of(&[3, 16, 3]), "[-, -, -]");
    }
}
