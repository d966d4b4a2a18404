//! Arrays laid out anew on their mesh, and brought together on the host where their parts are in several processes.

use std::rc::Rc;

use tensor::Literal;
use trace::{Donate, Leaf, LogicalAxisRules, PartitionSpec, Role, Tensor};

use crate::backend::{Backend, DeviceArray};
use crate::error::{Error, ValidationError};
use crate::jit::{Jit, JitSharding};

impl Backend {
    /// The same array, split otherwise over its mesh: the devices exchange parts among themselves. All processes must call
    /// this, for the same arrays in the same order.
    pub fn reshard(&self, array: &DeviceArray, sharding: &PartitionSpec) -> Result<DeviceArray, Error> {
        let Some(placed) = array.named_sharding() else {
            let message = format!("{} is an array of one device: send it to a mesh to split it", array.spec());
            return Err(ValidationError::Mesh(message).into());
        };
        if placed.sharding == *sharding {
            return Ok(array.clone());
        }
        sharding.parts(placed.mesh.mesh(), &array.spec().dims)?;
        let (before, after) = (placed.sharding.clone(), sharding.clone());
        let of = move |role: Role, _: &Leaf| Ok(if role == Role::Input { before.clone() } else { after.clone() });
        let rules = LogicalAxisRules::new(placed.mesh.mesh().clone());
        let on = JitSharding { mesh: placed.mesh.clone(), rules, of: Rc::new(of) };
        let after = sharding.clone();
        let mut jit = Jit::new(self, "reshard", Donate::Nothing, move |x: &Tensor| x.with_sharding_constraint(&after))
            .on(Some(on));
        let laid = jit.call(Tensor::from(array.clone()))?;
        laid.device_value().cloned().ok_or_else(|| Error::Distributed("laying out anew gave no array".into()))
    }

    /// Copies an array to the host, with the parts that are in other processes. All processes must call this, for the same
    /// arrays in the same order: the devices themselves bring the parts together, so that it is as fast as their network.
    pub fn gather(&self, array: &DeviceArray) -> Result<Literal, Error> {
        if array.is_here()? {
            return array.to_host();
        }
        self.reshard(array, &PartitionSpec::replicated(array.spec().dims.len()))?.to_host()
    }
}
