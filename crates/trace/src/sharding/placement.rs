//! Where the tensors of a model lie: what the runtime asks of a strategy.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::sharding::{Layout, Sharding, Site};

/// Where the tensors of a model lie on a mesh.
pub trait ModelPlacement {
    /// The mesh, and where activations lie on it.
    fn layout(&self) -> &Layout;

    /// Whether parameters and the arrays of a batch, shapes by names, can lie so on these devices. The error says which cannot,
    /// and names the nearest mesh on which all of them can.
    fn check(
        &self,
        parameters: &BTreeMap<String, Vec<usize>>,
        batch: &[(String, Vec<usize>)],
        site: &Site,
    ) -> Result<(), Error>;

    /// Where a leaf of a training's state lies: a parameter, or the optimizer's state of one. `parameters` has the shapes
    /// of all parameters by their paths.
    fn state(&self, path: &str, dims: &[usize], parameters: &BTreeMap<String, Vec<usize>>) -> Result<Sharding, Error>;

    /// Where an array of a batch lies.
    fn batch(&self, name: &str, dims: &[usize]) -> Result<Sharding, Error>;
}
