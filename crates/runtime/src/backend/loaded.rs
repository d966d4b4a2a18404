//! A model: a program compiled for a backend, with its parameters on the device.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use compile::optimize::{Level, ProgramOptimizer, TargetInfo};
use compile::{CacheUse, Program, flags};
use pjrt::{Argument, ExecuteOptions};
use sha2::{Digest, Sha256};
use telemetry::runtime_metrics::LaunchedProgram;
use tensor::{DType, Literal};
use trace::PartitionSpec;

use super::Backend;
use super::array::{DeviceArray, spec_of};
use super::data::first_not_finite;
use crate::compiler::BackendExecutable;
use crate::debug::{self, NonFiniteCheck};
use crate::device::Platform;
use crate::error::{Error, ValidationError};
use crate::memory::Owner;
use crate::mesh::{DeviceMesh, NamedSharding};
use crate::signature::{Port, Signature};

/// What a prepared model depends on.
pub(super) type ModelKey = ([u8; 32], [u8; 32]);

/// Parameters of a model. Clones share the arrays and the digest of their contents.
#[derive(Clone, Debug)]
pub struct Parameters {
    content: Arc<Content>,
}

#[derive(Debug)]
struct Content {
    by: By,
    digest: OnceLock<[u8; 32]>,
}

#[derive(Debug)]
enum By {
    Name(BTreeMap<String, Arc<Literal>>),
    Position(Vec<Arc<Literal>>),
}

impl Parameters {
    /// No parameters: everything is an input.
    pub fn none() -> Parameters {
        Parameters::leading(Vec::new())
    }

    /// Parameters by the names the program gives its arguments.
    pub fn named(parameters: BTreeMap<String, Arc<Literal>>) -> Parameters {
        Parameters { content: Arc::new(Content { by: By::Name(parameters), digest: OnceLock::new() }) }
    }

    /// Parameters that are the first arguments of the program, in order.
    pub fn leading(parameters: Vec<Arc<Literal>>) -> Parameters {
        Parameters { content: Arc::new(Content { by: By::Position(parameters), digest: OnceLock::new() }) }
    }

    /// A digest of names and contents, computed once.
    fn digest(&self) -> [u8; 32] {
        *self.content.digest.get_or_init(|| {
            let mut digest = Sha256::new();
            let mut add = |name: &str, literal: &Literal| {
                for part in [name.as_bytes(), literal.dtype().to_string().as_bytes(), literal.bytes()] {
                    digest.update((part.len() as u64).to_le_bytes());
                    digest.update(part);
                }
                literal.dims().iter().for_each(|size| digest.update((*size as u64).to_le_bytes()));
            };
            match &self.content.by {
                By::Name(parameters) => parameters.iter().for_each(|(name, literal)| add(name, literal)),
                By::Position(parameters) => parameters.iter().for_each(|literal| add("", literal)),
            }
            digest.finalize().into()
        })
    }

    /// The arguments that are parameters.
    pub(crate) fn positions(&self, signature: &Signature) -> Result<Vec<usize>, ValidationError> {
        let bound = self.bind(signature)?;
        Ok((0..bound.len()).filter(|&argument| bound[argument].is_some()).collect())
    }

    /// The parameter of each argument; `None` for inputs.
    fn bind(&self, signature: &Signature) -> Result<Vec<Option<Arc<Literal>>>, ValidationError> {
        let bound: Vec<Option<Arc<Literal>>> = match &self.content.by {
            By::Position(parameters) => {
                if parameters.len() > signature.arguments.len() {
                    let (expected, given) = (signature.arguments.len(), parameters.len());
                    return Err(ValidationError::InputCount { expected, given });
                }
                (0..signature.arguments.len()).map(|index| parameters.get(index).cloned()).collect()
            }
            By::Name(parameters) => {
                let names: Vec<&str> = signature.arguments.iter().map(|argument| argument.name.as_str()).collect();
                if let Some(name) = parameters.keys().find(|name| !names.contains(&name.as_str())) {
                    let similar = names.iter().filter(|known| flags::is_near(name, known));
                    let similar = similar.take(3).map(ToString::to_string).collect();
                    return Err(ValidationError::MissingParameter { name: name.clone(), similar });
                }
                names.iter().map(|name| parameters.get(*name).cloned()).collect()
            }
        };
        for (argument, parameter) in signature.arguments.iter().zip(&bound) {
            if let Some(parameter) = parameter {
                fits(argument, parameter.dtype(), parameter.dims())?;
            }
        }
        Ok(bound)
    }
}

fn fits(argument: &Port, dtype: tensor::DType, dims: &[usize]) -> Result<(), ValidationError> {
    if argument.spec.dtype == dtype && argument.spec.dims == dims {
        return Ok(());
    }
    let given = tensor::Spec::new(dtype, dims).to_string();
    Err(ValidationError::Input { name: argument.name.clone(), expected: argument.spec.to_string(), given })
}

/// How an argument or result lies on the program's mesh; what says nothing is whole everywhere.
fn sharding_of(port: &Port) -> PartitionSpec {
    port.sharding.clone().unwrap_or_else(|| PartitionSpec::replicated(port.spec.dims.len()))
}

/// An input of a model.
#[derive(Clone, Debug)]
pub enum Input {
    /// The array stays usable.
    Keep(DeviceArray),
    /// The program may take the array's memory for a result.
    Donate(DeviceArray),
}

impl Input {
    fn array(&self) -> &DeviceArray {
        match self {
            Input::Keep(array) | Input::Donate(array) => array,
        }
    }
}

impl From<DeviceArray> for Input {
    fn from(array: DeviceArray) -> Input {
        Input::Keep(array)
    }
}

/// A program compiled for a backend, with its parameters on the device. Clones are the same program.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    backend: Backend,
    pub(super) executable: Arc<BackendExecutable>,
    /// The parameter of each argument; `None` where an input goes.
    parameters: Vec<Option<DeviceArray>>,
    /// The type of each argument as exported; parameters may be in bf16 on the device.
    exported: Vec<DType>,
    num_inputs: usize,
    /// The devices it runs on, if they are several.
    pub(super) mesh: Option<Arc<DeviceMesh>>,
    results: Owner,
    result_bytes: Vec<u64>,
    /// How its launches are told, once they are counted.
    pub(super) launched: OnceLock<Arc<LaunchedProgram>>,
}

impl Backend {
    /// Rewrites a program as `optimization` and `precision` say, compiles it, sends its parameters, and keeps both: the same
    /// program with the same parameters is prepared once. Inputs and results keep their types; with precision bf16,
    /// parameters that the rewritten program reads in bf16 alone are rounded and kept in bf16.
    pub fn prepare_program(&self, program: &Arc<Program>, parameters: &Parameters) -> Result<LoadedProgram, Error> {
        let key = (program.digest(), parameters.digest());
        if let Some(model) = self.models().get(&key) {
            return Ok(model);
        }
        let model = match self.config().optimization {
            Level::None if !self.config().gradient_checkpointing.is_asked_for() => {
                self.prepare_as_written(program, parameters, CacheUse::ReadWrite)?
            }
            level => {
                let exported = Signature::read(program.module())?;
                let bound = parameters.positions(&exported)?;
                let rewritten = self.rewrite(program, level, |optimizer| optimizer.parameters(bound))?;
                self.prepare_rewritten(&rewritten, &exported, parameters, CacheUse::ReadWrite)?
            }
        };
        self.models().put(key, model.clone());
        Ok(model)
    }

    /// Compiles a program of several devices as it is, for those of a mesh. Everything is an input, laid out as the program
    /// says.
    pub fn prepare_on(&self, program: &Arc<Program>, mesh: &Arc<DeviceMesh>) -> Result<LoadedProgram, Error> {
        let ids: Vec<i64> = mesh.ids().to_vec();
        let executable = self.compiler().compile_on(program, &[], CacheUse::ReadWrite, Some(&ids))?;
        let needed = mesh.num_local();
        if executable.num_devices() != needed {
            let present = executable.num_devices();
            return Err(ValidationError::DeviceCount { needed, present }.into());
        }
        let exported = executable.signature().arguments.clone();
        Ok(self.model_on(executable, vec![None; exported.len()], &exported, Some(mesh.clone())))
    }

    /// What rewrites must know of the first device.
    pub fn rewrite_target(&self) -> TargetInfo {
        match (self.device().generation, self.platform()) {
            (Some(generation), _) => TargetInfo::tpu(generation),
            (None, Platform::Cuda) => TargetInfo::gpu(),
            (None, Platform::Cpu) => TargetInfo::cpu(),
            (None, _) => TargetInfo::UNKNOWN,
        }
    }

    /// A program as a level makes it for this device.
    pub(crate) fn rewrite(
        &self,
        program: &Arc<Program>,
        level: Level,
        with: impl FnOnce(ProgramOptimizer) -> ProgramOptimizer,
    ) -> Result<Arc<Program>, Error> {
        let _span = tracing::info_span!("optimize", program = program.name(), level = level.name()).entered();
        let optimizer = ProgramOptimizer::new(level, self.rewrite_target(), self.config().precision)
            .gradient_checkpointing(self.config().gradient_checkpointing);
        let (rewritten, _) = with(optimizer).rewrite(program)?;
        Ok(Arc::new(rewritten))
    }

    /// Compiles a program as it is and sends its parameters.
    pub(crate) fn prepare_as_written(
        &self,
        program: &Arc<Program>,
        parameters: &Parameters,
        cache: CacheUse,
    ) -> Result<LoadedProgram, Error> {
        let exported = Signature::read(program.module())?;
        self.prepare_rewritten(program, &exported, parameters, cache)
    }

    /// Compiles a program as it is; its parameters are those of the program as exported.
    fn prepare_rewritten(
        &self,
        program: &Arc<Program>,
        exported: &Signature,
        parameters: &Parameters,
        cache: CacheUse,
    ) -> Result<LoadedProgram, Error> {
        let executable = self.compiler().compile(program, &[], cache)?;
        if self.config().log_device_placement {
            let (program, device) = (program.name(), self.device());
            tracing::info!(target: crate::log::PLACEMENT, program, device = device.id, kind = %device.kind, "placed");
        }
        if executable.num_devices() != 1 {
            let present = self.devices().len();
            return Err(ValidationError::DeviceCount { needed: executable.num_devices(), present }.into());
        }
        let parameters = self.send_parameters(program.name(), parameters, exported, executable.signature())?;
        Ok(self.model_of(executable, parameters, &exported.arguments))
    }

    /// Sends the parameters of a program as it takes them: one array for each argument that is a parameter. They fit the
    /// program as exported.
    pub(crate) fn send_parameters(
        &self,
        program: &str,
        parameters: &Parameters,
        exported: &Signature,
        taken: &Signature,
    ) -> Result<Vec<Option<DeviceArray>>, Error> {
        let owner = self.memory().owner(&format!("parameters of {program}"));
        let bound = parameters.bind(exported)?;
        let sent = bound.iter().zip(&taken.arguments).map(|(parameter, port)| {
            let parameter = parameter.as_ref().map(|literal| compile::optimize::narrowed(literal, port.spec.dtype));
            parameter.map(|literal| self.send_for(&owner, &literal)).transpose()
        });
        sent.collect()
    }

    /// A compiled program with parameters that are on the device already; they fit its signature.
    pub(crate) fn model_of(
        &self,
        executable: Arc<BackendExecutable>,
        parameters: Vec<Option<DeviceArray>>,
        exported: &[Port],
    ) -> LoadedProgram {
        self.model_on(executable, parameters, exported, None)
    }

    fn model_on(
        &self,
        executable: Arc<BackendExecutable>,
        parameters: Vec<Option<DeviceArray>>,
        exported: &[Port],
        mesh: Option<Arc<DeviceMesh>>,
    ) -> LoadedProgram {
        let name = executable.program().name().to_string();
        let bytes = |port: &Port| match &mesh {
            // What one device has of it.
            Some(mesh) => {
                let sharding = sharding_of(port);
                let dims = sharding.part_dims(mesh.mesh(), &port.spec.dims).unwrap_or_else(|_| port.spec.dims.clone());
                tensor::Spec::new(port.spec.dtype, dims).bytes()
            }
            None => port.spec.bytes(),
        };
        LoadedProgram {
            inner: Arc::new(Inner {
                backend: self.clone(),
                num_inputs: parameters.iter().filter(|parameter| parameter.is_none()).count(),
                parameters,
                exported: exported.iter().map(|port| port.spec.dtype).collect(),
                results: self.memory().owner(&format!("results of {name}")),
                result_bytes: executable.signature().results.iter().map(bytes).collect(),
                mesh,
                launched: OnceLock::new(),
                executable,
            }),
        }
    }
}

impl LoadedProgram {
    /// The backend it is loaded on.
    pub fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    /// The compiled program.
    pub fn executable(&self) -> &Arc<BackendExecutable> {
        &self.inner.executable
    }

    /// What the program is known by: the same on all processes that run the same program.
    pub fn fingerprint(&self) -> String {
        let digest = self.inner.executable.program().digest();
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What the model takes beside its parameters.
    pub fn inputs(&self) -> impl Iterator<Item = &Port> {
        let arguments = &self.inner.executable.signature().arguments;
        arguments.iter().zip(&self.inner.parameters).filter(|(_, parameter)| parameter.is_none()).map(|(port, _)| port)
    }

    /// Parameters as they are on the device, by the names the program gives them: with precision bf16 some are in bf16.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &DeviceArray)> {
        let arguments = &self.inner.executable.signature().arguments;
        let bound = arguments.iter().zip(&self.inner.parameters);
        bound.filter_map(|(port, parameter)| Some((port.name.as_str(), parameter.as_ref()?)))
    }

    /// Copies the parameters to the host, each in the type that the program was exported with. What bf16 dropped is gone.
    pub fn read_parameters(&self) -> Result<BTreeMap<String, Literal>, Error> {
        let inner = &*self.inner;
        let arguments = inner.executable.signature().arguments.iter().zip(&inner.exported).zip(&inner.parameters);
        let bound = arguments.filter_map(|((port, dtype), parameter)| Some((port, *dtype, parameter.as_ref()?)));
        bound
            .map(|(port, dtype, array)| Ok((port.name.clone(), compile::optimize::widened(array.to_host()?, dtype))))
            .collect()
    }

    /// Starts the model; results are there when they are waited for or read.
    pub fn run<I: Clone + Into<Input>>(&self, inputs: &[I]) -> Result<Vec<DeviceArray>, Error> {
        let inputs: Vec<Input> = inputs.iter().cloned().map(Into::into).collect();
        let config = self.inner.backend.config();
        let check = NonFiniteCheck { nan: config.debug_nans, infinity: config.debug_infs };
        if config.interpret || check.nan || check.infinity {
            self.run_watched(&inputs, check)
        } else {
            self.launch(&inputs)
        }
    }

    /// Runs with every mistake in sight, at the cost of speed: op by op if the configuration says so, and with results
    /// that are not finite traced to the op that made the first of them.
    fn run_watched(&self, inputs: &[Input], check: NonFiniteCheck) -> Result<Vec<DeviceArray>, Error> {
        let inner = &*self.inner;
        self.check(inputs)?;
        let program = inner.executable.program();
        // Before the run: a donated input is gone afterwards.
        let arguments = self.arguments(inputs).map(|array| Ok(Arc::new(array.to_host()?)));
        let arguments = arguments.collect::<Result<Vec<_>, Error>>()?;
        let outputs = if inner.backend.config().interpret {
            let _span = tracing::debug_span!("execute", program = program.name(), interpreted = true).entered();
            let results = debug::interpret(program, &arguments, |_| {})?;
            let sent = results.into_iter().map(|literal| inner.backend.send_for(&inner.results, &Arc::new(literal)));
            sent.collect::<Result<Vec<_>, Error>>()?
        } else {
            self.launch(inputs)?
        };
        for output in &outputs {
            if (check.nan || check.infinity)
                && first_not_finite(&output.to_host()?).is_some()
                && let Some(fault) = debug::find_not_finite(program, &arguments, check)?
            {
                let op = format!("{} ({} at element {} of {:?})", fault.op, fault.found, fault.index, fault.shape);
                return Err(ValidationError::NotFiniteResult { op, location: fault.location }.into());
            }
        }
        Ok(outputs)
    }

    fn check(&self, inputs: &[Input]) -> Result<(), Error> {
        let expected = self.inner.num_inputs;
        if inputs.len() != expected {
            return Err(ValidationError::InputCount { expected, given: inputs.len() }.into());
        }
        self.inputs().zip(inputs).try_for_each(|(port, input)| {
            let spec = input.array().spec();
            fits(port, spec.dtype, &spec.dims)?;
            self.lies(port, input.array())?;
            Ok(input.array().must_be_here()?)
        })
    }

    /// Whether an array lies on the devices as the program takes it.
    fn lies(&self, port: &Port, array: &DeviceArray) -> Result<(), ValidationError> {
        let given = array.named_sharding();
        let wanted =
            self.inner.mesh.as_ref().map(|mesh| NamedSharding { mesh: mesh.clone(), sharding: sharding_of(port) });
        if given == wanted.as_ref() {
            return Ok(());
        }
        let text = |placed: Option<&NamedSharding>| placed.map_or("one device".to_string(), ToString::to_string);
        let (expected, given) = (text(wanted.as_ref()), text(given));
        Err(ValidationError::Input { name: port.name.clone(), expected, given })
    }

    /// What goes to each argument of the program. The inputs were counted.
    fn arguments<'a>(&'a self, inputs: &'a [Input]) -> impl Iterator<Item = &'a DeviceArray> {
        let mut inputs = inputs.iter();
        self.inner.parameters.iter().filter_map(move |parameter| match parameter {
            Some(parameter) => Some(parameter),
            None => inputs.next().map(Input::array),
        })
    }

    /// Inputs whose memory the program takes.
    fn taken<'a>(&'a self, inputs: &'a [Input]) -> impl Iterator<Item = &'a DeviceArray> {
        self.inputs().zip(inputs).filter_map(|(port, input)| match input {
            Input::Donate(array) if port.is_taken => Some(array),
            _ => None,
        })
    }

    fn launch(&self, inputs: &[Input]) -> Result<Vec<DeviceArray>, Error> {
        let inner = &*self.inner;
        let _span = tracing::debug_span!("execute", program = inner.executable.program().name()).entered();
        self.check(inputs)?;
        let memory = inner.backend.memory();
        // Results in the memory of donated inputs need none of their own.
        let given: u64 = self.taken(inputs).map(DeviceArray::bytes).sum();
        let reserved = memory.reserve_all(&inner.results, &inner.result_bytes, given)?;
        let donated = inputs;
        let num_devices = inner.mesh.as_ref().map_or(1, |mesh| mesh.num_local());
        let of_device = |device: usize| -> Vec<Argument<'_>> {
            let mut inputs = donated.iter();
            let arguments = inner.parameters.iter().filter_map(|parameter| match parameter {
                Some(parameter) => parameter.buffers().get(device).map(Argument::Keep),
                None => inputs.next().and_then(|input| match input {
                    Input::Keep(array) => array.buffers().get(device).map(Argument::Keep),
                    Input::Donate(array) => array.buffers().get(device).map(Argument::Donate),
                }),
            });
            arguments.collect()
        };
        let arguments: Vec<Vec<Argument<'_>>> = (0..num_devices).map(of_device).collect();
        let counted = self.count_launch();
        let launched = inner.executable.loaded().execute(&arguments, &ExecuteOptions::default());
        if let Some(counted) = counted {
            counted.until_done(&launched);
        }
        let launch = launched.map_err(|error| match error {
            pjrt::Error::Input { .. } => Error::Validation(ValidationError::ForeignArray),
            error => Error::Device { doing: "running a program", source: error },
        })?;
        inner.backend.started(launch.done);
        self.taken(donated).for_each(DeviceArray::memory_was_taken);
        let ports = &inner.executable.signature().results;
        let mut outputs: Vec<_> = launch.outputs.into_iter().map(Vec::into_iter).collect();
        if let Some(list) = outputs.iter().find(|list| list.len() != ports.len()) {
            let message = format!("the device gave {} results instead of {}", list.len(), ports.len());
            return Err(ValidationError::Other(message).into());
        }
        let arrays = reserved.into_iter().zip(ports).map(|(allocation, port)| {
            let mut parts: Vec<_> = outputs.iter_mut().filter_map(Iterator::next).collect();
            match (&inner.mesh, parts.len()) {
                (Some(mesh), _) => {
                    let placed = NamedSharding { mesh: mesh.clone(), sharding: sharding_of(port) };
                    Ok(DeviceArray::of_parts(parts, port.spec.clone(), placed, allocation))
                }
                (None, 1) => {
                    let buffer = parts.swap_remove(0);
                    debug_assert_eq!(spec_of(&buffer).ok().as_ref(), Some(&port.spec));
                    Ok(DeviceArray::new(buffer, port.spec.clone(), allocation))
                }
                (None, count) => {
                    let message = format!("the device gave {count} parts of {} instead of one", port.name);
                    Err(ValidationError::Other(message).into())
                }
            }
        });
        arrays.collect()
    }
}
