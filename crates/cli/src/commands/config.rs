//! `tpu config`: every option, its value, and where the value came from; what libtpu needs; a new secret; the compiler's flags.

use compile::optimize::Level;
use runtime::Variable;
use runtime::config::{Config, Effective, Host, Mode, OPTIONS, Setting, SettingSource, Sources};
use runtime::distributed::{Given, MultiHostConfig, Secret};
use serde::Serialize;

use crate::args::{ConfigArgs, ConfigCommand, ConfigFileArgs};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};

#[derive(Serialize)]
struct Record {
    version: u32,
    options: Vec<OptionRecord>,
}

#[derive(Serialize)]
struct OptionRecord {
    name: &'static str,
    value: String,
    source: String,
    what: &'static str,
}

#[derive(Serialize)]
struct EnvironmentRecord {
    version: u32,
    variables: Vec<Variable>,
}

#[derive(Serialize)]
struct SecretRecord {
    version: u32,
    secret: String,
}

#[derive(Serialize)]
struct FlagsRecord {
    version: u32,
    flags: Vec<&'static str>,
}

pub(crate) fn run(args: &ConfigArgs, output: &Output) -> Result<Answer, Failure> {
    match &args.command {
        ConfigCommand::Show { config } => show(&resolve(config, None)?, output),
        ConfigCommand::Environment { config, processes, process_id, coordinator } => {
            let given = Given { processes: *processes, process_id: *process_id, coordinator: coordinator.clone() };
            environment(&resolve(config, None)?.config, MultiHostConfig::from_environment(&given)?, output)
        }
        ConfigCommand::Secret => secret(output),
        ConfigCommand::Flags { filter } => flags(filter.as_deref().unwrap_or(""), output),
    }
}

/// The configuration of a command: defaults for inference, a file, the environment, and what the command line sets.
pub(crate) fn resolve(args: &ConfigFileArgs, device: Option<&str>) -> Result<Effective, Failure> {
    let mut sources = Sources { program: Some(Config::new(Mode::Inference)), ..Sources::from_environment() };
    if let Some(file) = &args.config {
        sources.file = Some(file.clone());
    }
    for setting in &args.set {
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            Failure::new(format!("`--set {setting}` has no value")).hint("write it as --set NAME=VALUE")
        })?;
        sources.command_line.push((name.to_string(), value.to_string()));
    }
    if let Some(device) = device {
        sources.command_line.push(("device".into(), device.into()));
    }
    Ok(sources.resolve().map_err(runtime::Error::from)?)
}

/// The configuration for programs that run as they are written, unless `optimization` was chosen: what they compute is
/// their own affair.
pub(crate) fn as_written(args: &ConfigFileArgs, device: Option<&str>) -> Result<Config, Failure> {
    let effective = resolve(args, device)?;
    let is_chosen = effective.source("optimization") != SettingSource::Default;
    let mut config = effective.config;
    if !is_chosen {
        config.optimization = Level::None;
    }
    Ok(config)
}

fn show(effective: &Effective, output: &Output) -> Result<Answer, Failure> {
    let mode = OptionRecord {
        name: "mode",
        value: effective.config.mode.show(),
        source: effective.source("mode").to_string(),
        what: "What the process is for; sets the defaults of the others.",
    };
    let options = OPTIONS.iter().map(|option| OptionRecord {
        name: option.name,
        value: (option.show)(&effective.config),
        source: effective.source(option.name).to_string(),
        what: option.doc.trim(),
    });
    let record = Record { version: 1, options: std::iter::once(mode).chain(options).collect() };
    output.record(&record, || {
        let mut table = Table::new(&[Align::Left; 4]);
        table.row(["option", "value", "from", "what it does"]);
        for option in &record.options {
            table.row([option.name, &option.value, &option.source, option.what]);
        }
        table.render()
    })?;
    Ok(Answer::Yes)
}

fn environment(config: &Config, together: Option<MultiHostConfig>, output: &Output) -> Result<Answer, Failure> {
    let host = Host { together: together.map(|config| config.tpu_environment), ..Host::here() };
    let record = EnvironmentRecord { version: 1, variables: config.environment_on(&host) };
    output.record(&record, || {
        let line =
            |variable: &Variable| format!("# {}\nexport {}={}\n", variable.why, variable.name, quoted(&variable.value));
        record.variables.iter().map(line).collect()
    })?;
    Ok(Answer::Yes)
}

/// Only to standard output: a file with it has the rights the shell gives it.
fn secret(output: &Output) -> Result<Answer, Failure> {
    let record = SecretRecord { version: 1, secret: Secret::generate().map_err(Failure::new)? };
    output.record(&record, || format!("{}\n", record.secret))?;
    Ok(Answer::Yes)
}

/// A value as a shell reads it.
pub(crate) fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:/=".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_string();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

fn flags(filter: &str, output: &Output) -> Result<Answer, Failure> {
    let flags: Vec<&str> = compile::flags::known().filter(|flag| flag.contains(filter)).collect();
    let answer = if flags.is_empty() { Answer::No } else { Answer::Yes };
    let record = FlagsRecord { version: 1, flags };
    output.record(&record, || record.flags.iter().map(|flag| format!("{flag}\n")).collect())?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_are_safe_in_a_shell() {
        assert_eq!(quoted("a,b=1"), "a,b=1");
        assert_eq!(quoted("--a=1 --b=2"), "'--a=1 --b=2'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$HOME"), "'$HOME'");
        assert_eq!(quoted(""), "''");
    }
}
