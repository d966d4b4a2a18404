//! Trainings on several devices: how the state, the batch and the step of a model are sharded over a mesh.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use nn::{ShardingRules, Strategy};
use runtime::mesh::{DeviceMesh, NamedSharding};
use runtime::{Backend, DeviceArray, JitSharding, LeafValue, ValidationError};
use tensor::Literal;
use trace::{Leaf, Mesh, PartitionSpec, Role, Site, Spec, Tree};
use weights::TensorRegion;

use crate::config::MeshConfig;
use crate::data::Shard;
use crate::error::Error;
use crate::frozen::FROZEN;

/// Shapes of a model's parameters, by their paths.
pub type ParameterShapes = BTreeMap<String, Vec<usize>>;

/// Shapes of the parameters of a model, by their paths.
pub fn parameter_shapes<M: Tree>(model: &M) -> ParameterShapes {
    model.paths().into_iter().zip(model.specs().into_iter().map(|spec| spec.dims)).collect()
}

/// Shapes of all that is sharded as parameters are: what is trained, and a frozen model beside it.
pub(crate) fn sharded_shapes<M: Tree, X: Tree>(params: &M, carried: &X) -> ParameterShapes {
    let mut shapes = parameter_shapes(params);
    let frozen = parameter_shapes(carried).into_iter();
    shapes.extend(frozen.filter_map(|(path, dims)| {
        let (field, rest) = path.split_once('.')?;
        (field == FROZEN).then(|| (rest.to_string(), dims))
    }));
    shapes
}

/// What the command line says of a mesh, in place of the training file.
#[derive(Clone, Debug, Default)]
pub struct MeshChoice {
    /// Axes, as in `data=4,model=2`.
    pub axes: Option<String>,
    /// The strategy.
    pub strategy: Option<String>,
    /// Microbatches of a pipeline.
    pub microbatches: Option<usize>,
    /// Devices of the slice it is for: `batch_size_per_chip` counts them where there is no mesh.
    pub devices: Option<usize>,
}

/// The rules of a training file, with what the caller says in its place; `None` on one device.
pub fn sharding_rules(config: &MeshConfig, choice: &MeshChoice) -> Result<Option<ShardingRules>, Error> {
    let strategy = match (&choice.strategy, config.strategy) {
        (Some(text), _) => Some(text.parse::<Strategy>()?),
        (None, strategy) => strategy,
    };
    let Some(axes) = choice.axes.as_ref().or(config.axes.as_ref()) else {
        return match strategy {
            Some(strategy) => Err(Error::new(format!("the strategy {strategy} needs a mesh"))
                .hint("give one, as in --mesh data=4,model=2")),
            None if choice.microbatches.is_some() => Err(Error::new("microbatches need a mesh with pipeline stages")
                .hint("give one, as in --mesh stage=4,data=2")),
            None => Ok(None),
        };
    };
    let mesh: Mesh =
        axes.parse().map_err(|error| Error::new(format!("{error}")).hint("a mesh is written as data=4,model=2"))?;
    let mut rules = ShardingRules::new(&mesh, strategy.unwrap_or(Strategy::Hybrid))?;
    for (path, axes) in &config.rules {
        rules = rules.with_rule(path, axes.clone());
    }
    // A file's number is for its own mesh: another one on the command line may have no stages.
    let of_file = config.microbatches.filter(|_| rules.num_stages() > 1 || choice.axes.is_none());
    if let Some(count) = choice.microbatches.or(of_file) {
        rules = rules.with_microbatches(count)?;
    }
    Ok(Some(rules))
}

/// The sharding of each leaf of a step `(state, batch) -> (state, scalars)`, whether it is run or exported.
pub fn step_leaves(
    rules: &ShardingRules,
    parameters: &ParameterShapes,
) -> impl Fn(Role, &Leaf) -> Result<PartitionSpec, trace::Error> + use<> {
    let (rules, parameters) = (rules.clone(), parameters.clone());
    move |role, leaf| {
        let dims = &leaf.spec.dims;
        let sharding = match (role, leaf.path.split_once('.')) {
            (_, Some(("0", path))) => rules.state(path, dims, &parameters),
            (Role::Input, Some((_, number))) => rules.batch(&array_name(number), dims),
            _ => Ok(PartitionSpec::replicated(dims.len())),
        };
        sharding.map_err(in_trace)
    }
}

/// Whether a model and the arrays of its batch can lie on these devices. The error names a mesh on which all of it can.
pub(crate) fn check(
    rules: &ShardingRules,
    parameters: &ParameterShapes,
    batch: &[Spec],
    site: &Site,
) -> Result<(), Error> {
    let shapes: Vec<_> = batch.iter().enumerate().map(|(n, spec)| (array_name(n), spec.dims.clone())).collect();
    Ok(rules.check(parameters, &shapes, site).map_err(in_trace)?)
}

/// How the state of a training is sharded over the devices of a backend.
#[derive(Clone)]
pub struct StateSharding {
    mesh: Arc<DeviceMesh>,
    rules: ShardingRules,
    parameters: ParameterShapes,
}

impl StateSharding {
    /// A model with these parameters on the devices of a backend. `batch` has the arrays of a batch where they are known: what
    /// cannot be sharded so is refused with a mesh on which all of it can.
    pub fn new(
        backend: &Backend,
        rules: &ShardingRules,
        parameters: ParameterShapes,
        batch: &[Spec],
    ) -> Result<StateSharding, Error> {
        check(rules, &parameters, batch, &backend.site())?;
        Ok(StateSharding { mesh: backend.mesh(&rules.logical_axes().mesh)?, rules: rules.clone(), parameters })
    }

    /// The devices.
    pub fn mesh(&self) -> &Arc<DeviceMesh> {
        &self.mesh
    }

    /// The sharding of a tensor of the state, by its path.
    pub fn state(&self, path: &str, spec: &Spec) -> Result<PartitionSpec, trace::Error> {
        self.rules.state(path, &spec.dims, &self.parameters).map_err(in_trace)
    }

    /// For a [`Jit`](runtime::Jit) of `(state, batch)` that gives `(state, scalars)`.
    pub fn step(&self) -> JitSharding {
        self.of(step_leaves(&self.rules, &self.parameters))
    }

    /// For a [`Jit`](runtime::Jit) that gives a state.
    pub fn init(&self) -> JitSharding {
        let (rules, parameters) = (self.rules.clone(), self.parameters.clone());
        self.of(move |_, leaf| rules.state(&leaf.path, &leaf.spec.dims, &parameters).map_err(in_trace))
    }

    /// For a [`Jit`](runtime::Jit) of `(state, batch)` that gives scalars.
    pub fn evaluation(&self) -> JitSharding {
        let step = step_leaves(&self.rules, &self.parameters);
        self.of(move |role, leaf| match role {
            Role::Input => step(role, leaf),
            Role::Output => Ok(PartitionSpec::replicated(leaf.spec.dims.len())),
        })
    }

    fn of(&self, of: impl Fn(Role, &Leaf) -> Result<PartitionSpec, trace::Error> + 'static) -> JitSharding {
        JitSharding { mesh: self.mesh.clone(), rules: self.rules.logical_axes().clone(), of: Rc::new(of) }
    }

    /// Sends the arrays of a batch, each device of this process its part.
    pub fn send_batch(&self, backend: &Backend, batch: &[Arc<Literal>]) -> Result<Vec<DeviceArray>, Error> {
        let specs: Vec<Spec> = batch.iter().map(|array| Spec::new(array.dtype(), array.dims())).collect();
        let sharded = self.batch(&specs)?;
        batch.iter().enumerate().map(|(n, literal)| Ok(sharded.send(backend, n, literal)?)).collect()
    }

    /// The shardings of a batch's arrays.
    pub(crate) fn batch(&self, specs: &[Spec]) -> Result<BatchSharding, Error> {
        let shardings = specs.iter().enumerate().map(|(n, spec)| self.rules.batch(&array_name(n), &spec.dims));
        let shardings = shardings.collect::<Result<_, _>>().map_err(in_trace)?;
        Ok(BatchSharding { mesh: self.mesh.clone(), shardings, specs: specs.to_vec() })
    }
}

/// How the arrays of a batch are sharded.
pub(crate) struct BatchSharding {
    mesh: Arc<DeviceMesh>,
    shardings: Vec<PartitionSpec>,
    specs: Vec<Spec>,
}

impl BatchSharding {
    pub(crate) fn send(
        &self,
        backend: &Backend,
        n: usize,
        array: &Arc<Literal>,
    ) -> Result<DeviceArray, runtime::Error> {
        backend.send_on(&self.mesh, self.sharding(n)?.0, array)
    }

    fn sharding(&self, n: usize) -> Result<(&PartitionSpec, &Spec), runtime::Error> {
        let unknown = || ValidationError::Other(format!("a batch with an array {n} that nobody announced"));
        Ok(self.shardings.get(n).zip(self.specs.get(n)).ok_or_else(unknown)?)
    }

    /// The rows of an array that devices of this process need; an array without rows needs none.
    pub(crate) fn local_rows(&self, n: usize, spec: &Spec) -> Result<Vec<Range<usize>>, runtime::Error> {
        let placed = NamedSharding { mesh: self.mesh.clone(), sharding: self.sharding(n)?.0.clone() };
        let rows = |region: &TensorRegion| Some(*region.start.first()?..region.start.first()? + region.size.first()?);
        Ok(placed.local_regions(spec)?.iter().filter_map(|(_, region)| rows(region)).collect())
    }

    /// Sends an array of which runs of rows are here: at least those that the devices of this process need.
    pub(crate) fn send_rows(
        &self,
        backend: &Backend,
        n: usize,
        runs: &[(Shard, &Arc<Literal>)],
    ) -> Result<DeviceArray, runtime::Error> {
        let (sharding, spec) = self.sharding(n)?;
        if let [(Shard::WHOLE, array)] = runs {
            return self.send(backend, n, array);
        }
        let missing = || ValidationError::Other(format!("rows of array {n} of the batch are missing"));
        backend.send_parts(&self.mesh, sharding, spec, &mut |region| {
            let part = runs.iter().find_map(|(shard, array)| {
                let first = array.dims().first()?.checked_mul(shard.index)?;
                let mut own = region.clone();
                let start = own.start.first_mut()?;
                *start = start.checked_sub(first)?;
                own.cut(array)
            });
            Ok(Arc::new(part.ok_or_else(missing)?))
        })
    }
}

/// A model on the devices of a mesh.
pub struct WrappedModel<M> {
    /// Its parameters on the devices, whole or sharded as the rules say.
    pub parameters: M,
    /// How states, batches and steps of the model are sharded: [`StateSharding::step`] is for [`Jit::on`](runtime::Jit::on).
    pub sharding: StateSharding,
}

/// Sends a model's parameters to the devices of a mesh, whole to each or sharded, as the rules say. `host` gives the value of each
/// path; `model` may be known by types and shapes only.
pub fn wrap_model<M: Tree>(
    backend: &Backend,
    model: &M,
    rules: &ShardingRules,
    host: LeafValue<'_>,
) -> Result<WrappedModel<M>, Error> {
    let sharding = StateSharding::new(backend, rules, parameter_shapes(model), &[])?;
    let parameters = {
        let mut of = |path: &str, spec: &Spec| Ok(sharding.state(path, spec)?);
        backend.place_on(&sharding.mesh, model, &mut of, host)?
    };
    Ok(WrappedModel { parameters, sharding })
}

/// What an array of a batch is called in errors.
fn array_name(place: impl std::fmt::Display) -> String {
    format!("array {place} of the batch")
}

fn in_trace(error: nn::Error) -> trace::Error {
    trace::Error::Mesh(error.to_string())
}
