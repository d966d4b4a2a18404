//! Trainings on several devices: the mesh and the strategy that a file and the command line name.

use std::collections::BTreeMap;
use std::rc::Rc;

use nn::{Placement, Strategy};
use runtime::trainer::{Task, TrainMesh, array_name, batch_shapes};
use runtime::{Backend, Program};
use trace::{Donate, Leaf, Mesh, ModelPlacement, Role, Sharding, Site, Spec, Tensor, Tree};

use super::config::MeshConfig;
use super::task::ModelTask;
use crate::args::TrainArgs;
use crate::failure::Failure;

/// Where a model lies; `None` on one device.
pub(super) fn placement(config: &MeshConfig, args: &TrainArgs) -> Result<Option<Placement>, Failure> {
    let strategy = match (&args.strategy, config.strategy) {
        (Some(text), _) => Some(text.parse::<Strategy>().map_err(|error| hinted(&error))?),
        (None, strategy) => strategy,
    };
    let Some(axes) = args.mesh.as_ref().or(config.axes.as_ref()) else {
        return match strategy {
            Some(strategy) => Err(Failure::new(format!("the strategy {strategy} needs a mesh"))
                .hint("give one, as in --mesh data=4,model=2")),
            None if args.microbatches.is_some() => {
                Err(Failure::new("microbatches are for the stages of a mesh")
                    .hint("give one, as in --mesh stage=4,data=2"))
            }
            None => Ok(None),
        };
    };
    let mesh: Mesh =
        axes.parse().map_err(|error| Failure::new(format!("{error}")).hint("a mesh is written as data=4,model=2"))?;
    let mut placement = Placement::new(&mesh, strategy.unwrap_or(Strategy::Hybrid)).map_err(|error| hinted(&error))?;
    for (path, axes) in &config.rules {
        placement = placement.with_rule(path, axes.clone());
    }
    // A file's number is for its own mesh: another one on the command line may have no stages.
    let of_file = config.microbatches.filter(|_| placement.num_stages() > 1 || args.mesh.is_none());
    if let Some(count) = args.microbatches.or(of_file) {
        placement = placement.with_microbatches(count).map_err(|error| hinted(&error))?;
    }
    Ok(Some(placement))
}

pub(super) fn hinted(error: &nn::Error) -> Failure {
    Failure::new(error.to_string()).hint(error.remedy())
}

/// Shapes of the parameters, by their paths.
pub(super) fn parameters<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    task: &ModelTask<M, X>,
) -> Result<BTreeMap<String, Vec<usize>>, runtime::Error> {
    let state = trace::shapes_of(&(), |()| task.init())?;
    let shapes = state.params.specs().into_iter().map(|spec| spec.dims);
    Ok(state.params.paths().into_iter().zip(shapes).collect())
}

/// A training on the devices of a backend.
pub(super) fn train_mesh<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    backend: &Backend,
    task: &ModelTask<M, X>,
    placement: &Placement,
    batch: &[Spec],
) -> Result<TrainMesh, runtime::Error> {
    TrainMesh::new(backend, Rc::new(placement.clone()), parameters(task)?, batch)
}

/// The training step as a program for devices that need not be here; and the number of parameters.
pub(super) fn step_program<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    task: &ModelTask<M, X>,
    placement: Option<&Placement>,
    batch: &[Spec],
    site: &Site,
) -> Result<(Program, u64), runtime::Error> {
    let state = trace::shapes_of(&(), |()| task.init())?;
    let count = state.params.num_parameters();
    let donate = Donate::Leading(state.specs().len());
    let inputs = (state, batch.iter().cloned().map(Tensor::of).collect::<Vec<_>>());
    let step = |(state, batch): &(<ModelTask<M, X> as Task>::State, Vec<Tensor>)| task.step(state, batch);
    let traced = match placement {
        None => trace::trace("train_step", &inputs, donate, step),
        Some(placement) => {
            let parameters = parameters(task)?;
            let placement: &dyn ModelPlacement = placement;
            placement.check(&parameters, &batch_shapes(batch), site)?;
            let of = |role: Role, leaf: &Leaf| match (role, leaf.path.split_once('.')) {
                (_, Some(("0", path))) => placement.state(path, &leaf.spec.dims, &parameters),
                (Role::Input, Some((_, name))) => placement.batch(&array_name(name), &leaf.spec.dims),
                _ => Ok(Sharding::replicated(leaf.spec.dims.len())),
            };
            let placed = trace::Placed { layout: placement.layout(), of: &of };
            trace::trace_on(&placed, "train_step", &inputs, donate, step)
        }
    };
    Ok((Program::from_module(traced?.0.module), count))
}
