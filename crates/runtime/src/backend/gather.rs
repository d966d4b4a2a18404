//! Arrays whose parts are in several processes, brought together on the host.

use std::rc::Rc;

use tensor::Literal;
use trace::{Donate, Layout, Leaf, Role, Sharding, Tensor};

use super::{Backend, DeviceArray};
use crate::error::Error;
use crate::jit::{Jit, OnMesh};

impl Backend {
    /// Copies an array to the host, with the parts that are in other processes. All processes must call this, for the same
    /// arrays in the same order: the devices themselves bring the parts together, so that it is as fast as their network.
    pub fn gather(&self, array: &DeviceArray) -> Result<Literal, Error> {
        let Some(placed) = array.placed().filter(|_| !matches!(array.is_here(), Ok(true))) else {
            return array.to_host();
        };
        let (split, rank) = (placed.sharding.clone(), array.spec().dims.len());
        let of = move |role: Role, _: &Leaf| match role {
            Role::Input => Ok(split.clone()),
            Role::Output => Ok(Sharding::replicated(rank)),
        };
        let layout = Layout::new(placed.mesh.mesh().clone());
        let on = OnMesh { mesh: placed.mesh.clone(), layout, of: Rc::new(of) };
        let whole = Sharding::replicated(rank);
        let mut jit = Jit::new(self, "gather", Donate::Nothing, move |x: &Tensor| x.with_sharding(&whole)).on(Some(on));
        let gathered = jit.call(&Tensor::of(array.spec().clone()), std::slice::from_ref(array))?;
        match gathered.arrays() {
            [whole] => whole.to_host(),
            _ => Err(Error::Distributed("gathering gave no array".into())),
        }
    }
}
