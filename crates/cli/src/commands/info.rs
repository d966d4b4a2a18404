//! `tpu info`: plugins and devices found, or why there are none.

use std::time::Duration;

use compile::worker::{PluginProbe, WorkerLimits};
use compile::{Devices, probe};
use cpu::CpuIsa;
use serde::Serialize;

use crate::args::InfoArgs;
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{human, plugins, stop};

/// How long a plugin may take to load and find its devices.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct Record {
    version: u32,
    plugins: Vec<PluginRecord>,
    built_in: BuiltIn,
    looked_in_vain: Vec<Vain>,
}

/// The CPU device that is part of this program.
#[derive(Serialize)]
struct BuiltIn {
    /// The tier of instruction sets it uses.
    isa: String,
    /// The tiers of this CPU.
    available: Vec<String>,
}

#[derive(Serialize)]
struct PluginRecord {
    name: String,
    path: String,
    origin: String,
    package_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded: Option<PluginProbe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Vain {
    path: String,
    origin: String,
    why: String,
}

pub(crate) fn run(args: &InfoArgs, output: &Output) -> Result<Answer, Failure> {
    let search = plugins::search(args.plugin.plugin.as_deref());
    let stop = stop::on_signal();
    let launch = plugins::launch()?;
    let limits = WorkerLimits { time: PATIENCE, memory_bytes: None };
    let progress = Progress::start();
    let available = CpuIsa::available().iter().map(CpuIsa::to_string).collect();
    let built_in = BuiltIn { isa: plugins::forced_isa()?.unwrap_or_else(CpuIsa::detect).to_string(), available };
    let mut record = Record { version: 1, plugins: Vec::new(), built_in, looked_in_vain: Vec::new() };
    for found in &search.found {
        progress.step(&format!("loading {}", found.name));
        let (loaded, error) = if args.no_load {
            (None, None)
        } else {
            let mut launch = launch.clone();
            // Off Google Compute libtpu would wait for the metadata server; on it, the server answers before that matters.
            launch.env.extend(plugins::environment(&found.name));
            match probe(&found.path, Devices::Ask, &launch, &limits, &stop) {
                Ok(probe) => (Some(probe), None),
                Err(compile::CompileError::Interrupted) => return Err(compile::CompileError::Interrupted.into()),
                Err(error) => (None, Some(error.to_string())),
            }
        };
        record.plugins.push(PluginRecord {
            name: found.name.clone(),
            path: found.path.display().to_string(),
            origin: found.origin.to_string(),
            package_version: found.version.clone(),
            loaded,
            error,
        });
    }
    drop(progress);
    record.looked_in_vain = search
        .rejected
        .iter()
        .map(|r| Vain { path: r.path.display().to_string(), origin: r.origin.to_string(), why: r.why.clone() })
        .collect();
    output.record(&record, || text(&record))?;
    Ok(if record.plugins.is_empty() { Answer::No } else { Answer::Yes })
}

fn text(record: &Record) -> String {
    let mut text = String::new();
    for plugin in &record.plugins {
        let version = plugin.package_version.as_deref().unwrap_or("version unknown");
        text.push_str(&format!("{} {version}\n", plugin.name));
        let mut table = Table::new(&[Align::Left, Align::Left]);
        table.row(["path", &plugin.path]);
        table.row(["found by", &plugin.origin]);
        if let Some(error) = &plugin.error {
            table.row(["not usable", error]);
        }
        if let Some(loaded) = &plugin.loaded {
            table.row(["PJRT interface", &loaded.api_version]);
            if let Some(platform) = &loaded.platform {
                table.row(["platform", platform]);
            }
            if let Some(version) = loaded.platform_version.as_deref().and_then(|version| version.lines().next()) {
                table.row(["platform version", version]);
            }
            table.row(["extensions", &loaded.extensions.join(", ")]);
            match &loaded.no_devices {
                Some(why) => table.row(["devices", &format!("none here: {}", why.lines().next().unwrap_or(""))]),
                None => table.row(["devices", &loaded.devices.len().to_string()]),
            }
        }
        text.push_str(&table.render());
        if let Some(loaded) = plugin.loaded.as_ref().filter(|l| !l.devices.is_empty()) {
            let mut table = Table::new(&[Align::Right, Align::Left, Align::Right]);
            for device in &loaded.devices {
                let memory = device.memory_bytes.and_then(|b| u64::try_from(b).ok()).map(human::bytes);
                table.row([device.id.to_string(), device.kind.clone(), memory.unwrap_or_default()]);
            }
            text.push_str(&table.render());
        }
        text.push('\n');
    }
    if record.plugins.is_empty() {
        text.push_str("no plugin found; `tpu setup` gets libtpu, the TPU compiler\n");
    }
    let BuiltIn { isa, available } = &record.built_in;
    text.push_str(&format!("built-in CPU device: {isa} (this CPU has {})\n", available.join(", ")));
    if !record.looked_in_vain.is_empty() {
        text.push_str("not found at:\n");
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
        for vain in &record.looked_in_vain {
            table.row([&vain.path, &vain.origin, &vain.why]);
        }
        text.push_str(&table.render());
    }
    text
}
