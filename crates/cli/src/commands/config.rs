//! `tpu config`: every option, its value, and where the value came from.

use runtime::config::{OPTIONS, Setting, Sources};
use serde::Serialize;

use crate::args::{ConfigArgs, ConfigCommand};
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

pub(crate) fn run(args: &ConfigArgs, output: &Output) -> Result<Answer, Failure> {
    match &args.command {
        ConfigCommand::Show { config } => {
            let mut sources = Sources::from_environment();
            if let Some(file) = &config.config {
                sources.file = Some(file.clone());
            }
            for setting in &config.set {
                let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
                sources.command_line.push((name.to_string(), value.to_string()));
            }
            let effective = sources.resolve().map_err(runtime::Error::from)?;
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
    }
}
