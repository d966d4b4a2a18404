//! The child's side: read one request, answer it, end.

use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Instant;

use pjrt::extension::PartialProgram;
use pjrt::{
    AttributeValue, ClientOptions, CompileOptions, DeviceAssignment, Effort, EncodedProgram, OptionOverride, Plugin,
    Topology,
};

use super::frame::{self, Kind};
use super::message::{Answer, Compile, Compiled, Failure, MemoryStats, PluginProbe, ProbedDevice, Request};
use crate::blob;
use crate::error::with_causes;
use crate::report::CompileMode;

/// The first phase of the TPU compiler: everything before code is generated.
const QUICK_PHASE: &str = "phase1_hlo_opts";

/// Programs with more arguments take them as one tuple.
const MAX_PLAIN_ARGUMENTS: usize = 2000;

type Out = BufWriter<std::fs::File>;

/// Serves one request from standard input and answers on standard output. For the process that [`super::WorkerCommand`] starts.
pub fn serve() -> ExitCode {
    match serve_once() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compile worker: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve_once() -> io::Result<()> {
    // The parent's death ends the compile: nobody waits for it any more.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Answers go to the real standard output; what the plugin prints there goes to standard error.
    let answers = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    let mut out = BufWriter::new(std::fs::File::from(answers));

    let mut input = BufReader::new(io::stdin().lock());
    let Some((Kind::Request, request)) = frame::read(&mut input)? else {
        return Err(io::Error::other("no request on standard input; this mode is for the tpu command itself"));
    };
    let request: Request = serde_json::from_slice(&request)?;
    let answer = match request {
        Request::Probe { plugin, devices } => probe(&plugin, devices).map(Answer::Probed),
        Request::Compile(request) => {
            let program = match frame::read(&mut input)? {
                Some((Kind::Blob, frame)) => frame::split_blob(frame).map(|(_, bytes)| bytes),
                _ => None,
            };
            match program {
                Some(program) => compile(&request, program, &mut out).map(|c| Answer::Compiled(Box::new(c))),
                None => Err(Failure::Request("the program did not arrive".into())),
            }
        }
    };
    let answer = answer.unwrap_or_else(Answer::Failed);
    frame::write(&mut out, Kind::Answer, &[&serde_json::to_vec(&answer)?])?;
    out.flush()
}

pub(crate) fn failure(error: pjrt::Error) -> Failure {
    match error {
        pjrt::Error::Pjrt { call, code, message, .. } => {
            Failure::Status { call: call.to_string(), code: code.name().to_string(), message }
        }
        other => Failure::Plugin(with_causes(&other)),
    }
}

fn probe(path: &std::path::Path, devices: bool) -> Result<PluginProbe, Failure> {
    let plugin = Plugin::load(path).map_err(failure)?;
    let version = plugin.api_version();
    let mut probe = PluginProbe {
        api_version: format!("{}.{}", version.major, version.minor),
        platform: None,
        platform_version: None,
        attributes: plugin
            .attributes()
            .map(|list| list.into_iter().map(|(name, value)| (name, value.to_string())).collect())
            .unwrap_or_default(),
        extensions: plugin
            .extensions()
            .into_iter()
            .map(|id| id.name().map_or_else(|| format!("extension {}", id.0), str::to_string))
            .collect(),
        devices: Vec::new(),
        no_devices: None,
    };
    if !devices {
        return Ok(probe);
    }
    match plugin.client(&ClientOptions::default()) {
        Err(error) => probe.no_devices = Some(with_causes(&error)),
        Ok(client) => {
            probe.platform = client.platform_name().ok();
            probe.platform_version = client.platform_version().ok();
            for device in client.addressable_devices().map_err(failure)? {
                let description = device.description().map_err(failure)?;
                probe.devices.push(ProbedDevice {
                    id: i64::from(description.id),
                    kind: description.kind,
                    process: i64::from(description.process_index),
                    memory_bytes: device.memory_stats().ok().and_then(|stats| stats.bytes_limit),
                });
            }
        }
    }
    Ok(probe)
}

fn compile(request: &Compile, program: Vec<u8>, out: &mut Out) -> Result<Compiled, Failure> {
    if let Some(limit) = request.data_limit_bytes {
        let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
        // Refused only when a smaller hard limit is already in force.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Data, limit);
    }
    let mut progress = |text: &str| {
        let _ = frame::write(out, Kind::Progress, &[text.as_bytes()]).and_then(|()| out.flush());
    };
    progress("loading the compiler");
    let plugin = Plugin::load(&request.plugin).map_err(failure)?;
    // libtpu 0.0.51 crashes in its first phase on a topology of several slices. One slice and a configuration that says how many there
    // are give the same partitioned program.
    let is_joined = request.mode == CompileMode::Quick && request.num_slices > 1;
    let topology = topology(&plugin, request, if is_joined { 1 } else { request.num_slices })?;
    let mut options = options(request)?;
    if is_joined {
        options.serialized_multi_slice_config = several_slices(&plugin, &topology, request.num_slices)?;
    }
    let slices = if is_joined { request.num_slices as u64 } else { 1 };
    let mut compiled = Compiled {
        devices: topology.device_count().map_err(failure)? as u64 * slices,
        hbm_limit_bytes: hbm_limit(&topology),
        platform_version: topology.platform_version().map_err(failure)?,
        ..Compiled::default()
    };
    match request.mode {
        CompileMode::Quick => {
            progress("partitioning, scheduling, planning memory");
            quick(&plugin, &topology, &options, program, &mut compiled, out)?;
        }
        CompileMode::Full => {
            progress("compiling");
            full(&plugin, &topology, &options, program, &mut compiled, out)?;
        }
    }
    Ok(compiled)
}

/// What tells the compiler that a program spans several slices like this one.
fn several_slices(plugin: &Plugin, topology: &Topology, slices: i64) -> Result<Vec<u8>, Failure> {
    let megascale = plugin.megascale().ok_or_else(|| {
        Failure::Plugin("the plugin has no megascale extension, which the quick mode needs for several slices".into())
    })?;
    let slices = i32::try_from(slices).map_err(|_| Failure::Request(format!("{slices} slices")))?;
    megascale.compile_config(topology, slices).map_err(failure)
}

fn topology(plugin: &Plugin, request: &Compile, num_slices: i64) -> Result<Topology, Failure> {
    let mut options = vec![
        ("chips_per_host_bounds", AttributeValue::Ints(request.chips_per_host_bounds.to_vec())),
        ("wrap", AttributeValue::Ints(request.wrap.to_vec())),
        ("chip_config_name", AttributeValue::String(request.chip_config_name.clone())),
    ];
    if num_slices > 1 {
        options.push(("num_slices", AttributeValue::Int(num_slices)));
    }
    plugin.topology(&request.topology_name, &options).map_err(failure)
}

/// The budget the out-of-memory check uses; the same on every device of a slice.
fn hbm_limit(topology: &Topology) -> Option<i64> {
    let name = "device_memory_bytes_limit";
    let find =
        |list: Vec<(String, AttributeValue)>| list.into_iter().find(|(n, _)| n == name).and_then(|(_, v)| v.as_int());
    topology.attributes().ok().and_then(find).or_else(|| {
        let devices = topology.devices().ok()?;
        devices.into_iter().next().and_then(|device| find(device.attributes))
    })
}

fn options(request: &Compile) -> Result<CompileOptions, Failure> {
    let effort =
        |level: Option<u8>| level.map(|n| [Effort::O0, Effort::O1, Effort::O2, Effort::O3][usize::from(n.min(3))]);
    let device_assignment = match &request.device_ids {
        None => None,
        Some(ids) => Some(
            DeviceAssignment::new(request.replicas as usize, request.partitions as usize, ids.clone())
                .map_err(|error| Failure::Request(error.to_string()))?,
        ),
    };
    let value = |text: &String| match text.as_str() {
        "true" => OptionOverride::Bool(true),
        "false" => OptionOverride::Bool(false),
        other => OptionOverride::String(other.to_string()),
    };
    Ok(CompileOptions {
        num_replicas: request.replicas,
        num_partitions: request.partitions,
        use_shardy_partitioner: request.shardy,
        allow_sharding_propagation_to_parameters: request.free_arguments.clone(),
        allow_sharding_propagation_to_outputs: request.free_results.clone(),
        device_assignment,
        // What JAX does, so that figures agree: many arguments are passed as one tuple.
        parameter_is_tupled_arguments: request.free_arguments.len() > MAX_PLAIN_ARGUMENTS,
        optimization_level: effort(request.optimization_level),
        memory_fitting_level: effort(request.memory_fitting_level),
        overrides: request.flags.iter().map(|(name, text)| (name.clone(), value(text))).collect(),
        ..CompileOptions::default()
    })
}

fn send(out: &mut Out, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    frame::write(out, Kind::Blob, &[name.as_bytes(), b"\0", bytes])
        .map_err(|error| Failure::Plugin(format!("sending the result: {error}")))
}

fn quick(
    plugin: &Plugin,
    topology: &Topology,
    options: &CompileOptions,
    program: Vec<u8>,
    compiled: &mut Compiled,
    out: &mut Out,
) -> Result<(), Failure> {
    let phases = plugin.phase_compile().ok_or_else(|| {
        Failure::Plugin("the plugin has no phase-compile extension, which the quick mode needs".into())
    })?;
    let started = Instant::now();
    let input = vec![PartialProgram::mlir(program, QUICK_PHASE)];
    let outputs = phases.run(topology, &[QUICK_PHASE], input, options).map_err(failure)?;
    compiled.compile_seconds = started.elapsed().as_secs_f64();
    for (name, blob) in [("opt_hlo", blob::HLO_ZSTD), ("buffer_assignment", blob::BUFFERS_ZSTD)] {
        let found = outputs.iter().find(|output| output.program_name == name);
        let found = found.ok_or_else(|| Failure::Plugin(format!("the compiler's first phase gave no `{name}`")))?;
        send(out, blob, &found.program)?;
    }
    Ok(())
}

fn full(
    plugin: &Plugin,
    topology: &Topology,
    options: &CompileOptions,
    program: Vec<u8>,
    compiled: &mut Compiled,
    out: &mut Out,
) -> Result<(), Failure> {
    let started = Instant::now();
    let executable = plugin.compile(topology, &EncodedProgram::mlir(program), options, None).map_err(failure)?;
    compiled.compile_seconds = started.elapsed().as_secs_f64();
    let mut note = |what: &str, error: pjrt::Error| compiled.notes.push(format!("{what}: {}", with_causes(&error)));
    match executable.memory_stats() {
        Ok(stats) => {
            compiled.memory = Some(MemoryStats {
                code: stats.generated_code_bytes,
                arguments: stats.argument_bytes,
                outputs: stats.output_bytes,
                aliased: stats.alias_bytes,
                temporaries: stats.temp_bytes,
                host_temporaries: stats.host_temp_bytes,
                peak: stats.peak_memory_bytes,
                total_allocation: stats.total_allocation_bytes,
            });
        }
        Err(error) => note("memory statistics", error),
    }
    match executable.cost_analysis() {
        Ok(costs) => {
            let cost = |name: &str| {
                costs
                    .iter()
                    .find(|(n, _)| n == name)
                    .and_then(|(_, v)| v.as_float())
                    .map(f64::from)
                    .filter(|v| *v >= 0.0)
            };
            compiled.flops = cost("flops");
            compiled.bytes_accessed = cost("bytes accessed");
        }
        Err(error) => note("cost analysis", error),
    }
    match executable.fingerprint() {
        Ok(bytes) => compiled.fingerprint = Some(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        Err(error) => note("fingerprint", error),
    }
    match executable.code_size_bytes() {
        Ok(bytes) => compiled.code_bytes = Some(bytes),
        Err(error) => note("code size", error),
    }
    match executable.optimized_program() {
        Ok(program) => send(out, blob::HLO, &program.bytes)?,
        Err(error) => note("optimized program", error),
    }
    let serialized = executable.serialize().map_err(failure)?;
    send(out, blob::EXECUTABLE, &serialized)
}
