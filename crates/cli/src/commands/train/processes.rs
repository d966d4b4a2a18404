//! Trainings in several processes: how many, which one this is, and what each has of the mesh.

use nn::ShardingRules;
use runtime::distributed::{Given, MultiHostConfig, Session};

use crate::args::TrainArgs;
use crate::failure::Failure;
use crate::log;

/// The processes that the command line and the environment name; `None` for one.
pub(super) fn configured(args: &TrainArgs) -> Result<Option<MultiHostConfig>, Failure> {
    if args.export.is_some() {
        return Ok(None);
    }
    let given = Given { processes: args.processes, process_id: args.process_id, coordinator: args.coordinator.clone() };
    Ok(MultiHostConfig::from_environment(&given)?)
}

/// Devices the CPU device has to pretend in this process; `None` without a mesh.
pub(super) fn devices_here(
    sharding: Option<&ShardingRules>,
    together: Option<&MultiHostConfig>,
) -> Result<Option<usize>, Failure> {
    let devices = sharding.map(|sharding| sharding.logical_axes().mesh.num_devices());
    let Some(config) = together else { return Ok(devices) };
    let processes = config.processes;
    match devices {
        None => Err(Failure::new(format!("{processes} processes need a mesh"))
            .hint(format!("give a mesh over all of their devices, as in --mesh data={processes}"))),
        Some(devices) if devices % processes != 0 => {
            Err(Failure::new(format!("a mesh of {devices} devices cannot be shared by {processes} processes"))
                .hint("all processes have the same number of devices: choose a multiple of the number of processes"))
        }
        Some(devices) => Ok(Some(devices / processes)),
    }
}

/// Waits for all processes.
pub(super) fn join(config: &MultiHostConfig) -> Result<Session, Failure> {
    log::say(&format!("process {} of {}: waiting for the others", config.process_id, config.processes));
    Ok(Session::join(config)?)
}
