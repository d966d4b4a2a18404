//! A plugin may end its process. So a command that loads one runs in a process of its own, and this one tells the tale.

use runtime::config::{Config, Host, Target};
use runtime::distributed::MultiHostConfig;

use super::is_built_in;
use crate::child::{self, Parent};
use crate::failure::{Answer, Failure};

/// Set in the process that loads the plugin.
const INSIDE: &str = "TPUBRIDGE_RUN_INSIDE";

/// Whether the command must run in a process of its own, and this is not yet it. The first process of a container has
/// orphans to reap beside, whatever the device.
pub(crate) fn must_isolate(target: &Target) -> Result<bool, Failure> {
    if std::env::var_os(INSIDE).is_some() {
        child::end_with_parent()?;
        return Ok(false);
    }
    Ok(!is_built_in(target) || child::is_first_of_container())
}

/// Runs this command again, with the same words, in a process of its own.
pub(crate) fn again() -> Result<Answer, Failure> {
    again_with(crate::plugins::environment("libtpu"))
}

/// As [`again`], for one of several processes: libtpu finds its place among them in the environment.
pub(crate) fn again_among(config: &Config, together: &MultiHostConfig) -> Result<Answer, Failure> {
    let host = Host { together: Some(together.tpu_environment.clone()), ..Host::here() };
    let variables = config.environment_on(&host).into_iter();
    again_with(variables.map(|variable| (variable.name.to_string(), variable.value)).collect())
}

fn again_with(environment: Vec<(String, String)>) -> Result<Answer, Failure> {
    let mut parent = Parent::new()?;
    let mut command = Parent::again()?;
    command.env(INSIDE, "1").envs(environment);
    let ended = parent.run(&mut command)?;
    match (ended.code, ended.signal) {
        (Some(0), _) => Ok(Answer::Yes),
        (Some(1), _) => Ok(Answer::No),
        // It has said why.
        (Some(code), _) => std::process::exit(code),
        // Asked to stop before it had anything to save.
        (None, Some(signal)) if parent.told() == Some(signal) => std::process::exit(128 + signal),
        (None, signal) => Err(Failure::new(format!(
            "the plugin ended its process{}",
            signal.map_or_else(String::new, |signal| format!(" by signal {signal}"))
        ))
        .hint("nothing was written; the program runs with --device cpu, and `tpu doctor` checks the device")),
    }
}
