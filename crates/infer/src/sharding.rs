//! An engine on several devices: which part of each parameter, and which KV heads, a device has.

use std::rc::Rc;
use std::sync::Arc;

use nn::{ShardingRules, Strategy};
use runtime::JitSharding;
use runtime::mesh::DeviceMesh;
use trace::{Leaf, LogicalAxisRules, Mesh, PartitionSpec, Role, Tree};
use train::{ParameterShapes, parameter_shapes};

use crate::error::Error;

/// What the axes of a KV cache are, as far as they are split; those of scales end before the last.
const CACHE_AXES: [&str; 5] = ["", "", "heads", "", ""];
/// The place of the model among the inputs of programs.
const MODEL: &str = "1";

/// How a model and its KV cache lie on the devices of a mesh.
#[derive(Clone)]
pub(crate) struct EngineSharding {
    mesh: Arc<DeviceMesh>,
    rules: MeshRules,
}

/// How a model lies on a mesh, whose devices need not be here.
#[derive(Clone)]
pub(crate) struct MeshRules {
    /// `None`: every device has the whole model.
    sharding: Option<ShardingRules>,
    logical_axes: LogicalAxisRules,
    parameters: Arc<ParameterShapes>,
}

impl MeshRules {
    /// Heads, feed-forwards and the vocabulary along `model`, experts along `expert`.
    pub(crate) fn new<M: Tree>(mesh: &Mesh, model: &M, site: &trace::Site) -> Result<MeshRules, Error> {
        let sharding = ShardingRules::new(mesh, Strategy::Hybrid)?;
        let parameters = parameter_shapes(model);
        sharding.check(&parameters, &[], site)?;
        let logical_axes = sharding.logical_axes().clone();
        Ok(MeshRules { sharding: Some(sharding), logical_axes, parameters: Arc::new(parameters) })
    }

    /// The whole model on every device.
    pub(crate) fn replicated<M: Tree>(mesh: &Mesh, model: &M) -> MeshRules {
        let logical_axes = LogicalAxisRules::new(mesh.clone());
        MeshRules { sharding: None, logical_axes, parameters: Arc::new(parameter_shapes(model)) }
    }

    /// Where a parameter lies.
    pub(crate) fn parameter(&self, path: &str, dims: &[usize]) -> Result<PartitionSpec, Error> {
        match &self.sharding {
            Some(sharding) => Ok(sharding.state(path, dims, &self.parameters)?),
            None => Ok(PartitionSpec::replicated(dims.len())),
        }
    }

    /// Where an array of a KV cache lies.
    pub(crate) fn cache(&self, dims: &[usize]) -> PartitionSpec {
        self.logical_axes.sharding(&CACHE_AXES[..dims.len().min(CACHE_AXES.len())], dims)
    }

    /// The mesh.
    pub(crate) fn mesh(&self) -> &Mesh {
        &self.logical_axes.mesh
    }

    /// An input or output of a program `(state, model, inputs) -> (state, results)`.
    fn leaf(&self, role: Role, leaf: &Leaf) -> Result<PartitionSpec, trace::Error> {
        let dims = &leaf.spec.dims;
        if leaf.path.split('.').any(|part| part == "cache") {
            return Ok(self.cache(dims));
        }
        match (role, leaf.path.split_once('.')) {
            (Role::Input, Some((MODEL, path))) if self.parameters.contains_key(path) => {
                self.parameter(path, dims).map_err(|error| trace::Error::Mesh(error.to_string()))
            }
            _ => Ok(PartitionSpec::replicated(dims.len())),
        }
    }
}

impl EngineSharding {
    /// On these devices, whose mesh is that of the rules.
    pub(crate) fn new(mesh: &Arc<DeviceMesh>, rules: MeshRules) -> EngineSharding {
        EngineSharding { mesh: mesh.clone(), rules }
    }

    /// The devices.
    pub(crate) fn mesh(&self) -> &Arc<DeviceMesh> {
        &self.mesh
    }

    /// How the model lies on them.
    pub(crate) fn rules(&self) -> &MeshRules {
        &self.rules
    }

    /// For every program of the engine.
    pub(crate) fn programs(&self) -> JitSharding {
        let (mesh, rules, of) = (self.mesh.clone(), self.rules.logical_axes.clone(), self.rules.clone());
        JitSharding { mesh, rules, of: Rc::new(move |role, leaf| of.leaf(role, leaf)) }
    }
}
