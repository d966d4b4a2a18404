//! Compiling for the devices of a backend, and remembering what was compiled.

mod cached;
mod stats;
mod stored;
mod warm_up;

pub use cached::BackendExecutable;
pub use stats::{CompilerStats, Recompilation};
pub use warm_up::{WarmUp, WarmUpStep};

use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use compile::{CacheUse, CompileError, Program, Recent, refusal, with_kernels};
use kernel::KernelTarget;
use pjrt::{Client, CompileOptions, DeviceAssignment, OptionOverride};
use tensor::Spec;

use self::cached::Key;
use self::stats::Counters;
use self::stored::Store;
use crate::config::Config;
use crate::device::Platform;
use crate::error::{Error, ValidationError};
use crate::log;
use crate::signature::Signature;

/// What XLA's GPU compiler is asked for. cuBLASLt runs our matmuls faster than generated code, and matmuls of one operand are not
/// joined: the results would have to be cut apart for cuDNN.
const CUDA_OPTIONS: &[(&str, &str)] =
    &[("xla_gpu_enable_triton_gemm", "False"), ("xla_gpu_dot_merger_threshold_mb", "0")];

/// Compiles programs for the devices of a client. Clones share what was compiled.
#[derive(Clone, Debug)]
pub struct Compiler {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    /// The device whose kernels are known.
    target: Option<KernelTarget>,
    options: CompileOptions,
    timeout: Duration,
    /// Whether compilations are told to whoever listens.
    log: bool,
    kept: Mutex<Recent<Key, Arc<BackendExecutable>>>,
    counters: Mutex<Counters>,
    store: OnceLock<Store>,
}

impl Compiler {
    /// A compiler for the devices of a client, as the configuration says.
    pub fn new(client: &Client, config: &Config) -> Result<Compiler, Error> {
        let capacity = if config.enable_cache { config.cache_max_size } else { 0 };
        Ok(Compiler {
            shared: Arc::new(Shared {
                client: client.clone(),
                target: kernel_target(client)?,
                options: options(client, config)?,
                log: config.log_compiles,
                timeout: config.compilation_timeout_seconds.get(),
                kept: Mutex::new(Recent::new(capacity)),
                counters: Mutex::default(),
                store: OnceLock::new(),
            }),
        })
    }

    /// Compiles a program, or takes what was compiled before. Samples, if given, must be what the program takes.
    pub fn compile(
        &self,
        program: &Arc<Program>,
        samples: &[Spec],
        cache: CacheUse,
    ) -> Result<Arc<BackendExecutable>, Error> {
        self.compile_on(program, samples, cache, None)
    }

    /// [`Compiler::compile`] for these devices, by their ids: which one has which partition.
    pub fn compile_on(
        &self,
        program: &Arc<Program>,
        samples: &[Spec],
        cache: CacheUse,
        device_ids: Option<&[i64]>,
    ) -> Result<Arc<BackendExecutable>, Error> {
        let lower = tracing::debug_span!("lower", program = program.name()).entered();
        let signature = Signature::read(program.module())?;
        check_samples(&signature, samples)?;
        let options = self.options_for(program, device_ids)?;
        // What is compiled, and what results are kept by. Debugging runs the program as it was given.
        let given = program;
        let program = &self.with_kernels(program)?;
        let key = Key::new(program, &options);
        drop(lower);
        if cache == CacheUse::ReadWrite {
            let found = self.kept().get(&key);
            self.counters().looked_up(found.is_some());
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let _span = tracing::info_span!("compile", program = program.name(), key = %key).entered();
        let started = Instant::now();
        let store = self.shared.store.get().filter(|_| cache != CacheUse::Off);
        let stored = store.filter(|_| cache == CacheUse::ReadWrite);
        let executable = match stored.and_then(|store| store.load(&self.shared.client, program, &signature, &options)) {
            Some(loaded) => {
                let seconds = started.elapsed().as_secs_f64();
                tracing::debug!(seconds, "loaded");
                self.counters().loaded += 1;
                BackendExecutable::new(loaded, signature, given, seconds)?
            }
            None => {
                let loaded = self.run(program, options.clone())?;
                let seconds = started.elapsed().as_secs_f64();
                tracing::debug!(seconds, "compiled");
                let why = self.counters().compiled(program, seconds);
                if self.shared.log {
                    tracing::info!(target: log::COMPILES, program = program.name(), key = %key, seconds, why, "compiled");
                }
                if let Some(store) = store {
                    store.keep(&loaded, program, &options, seconds);
                }
                BackendExecutable::new(loaded, signature, given, seconds)?
            }
        };
        let executable = Arc::new(executable);
        if cache != CacheUse::Off {
            let evicted = self.kept().put(key, Arc::clone(&executable));
            self.counters().evictions += evicted;
        }
        Ok(executable)
    }

    /// Compilations, hits and evictions so far.
    pub fn stats(&self) -> CompilerStats {
        let kept = self.kept().len();
        self.counters().read(kept)
    }

    /// Forgets everything that was compiled.
    pub fn clear_cache(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Recent<Key, Arc<BackendExecutable>>> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> std::sync::MutexGuard<'_, Counters> {
        self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program as a device with kernels gets it; for others the program itself.
    fn with_kernels(&self, program: &Arc<Program>) -> Result<Arc<Program>, Error> {
        let Some(target) = self.shared.target else { return Ok(Arc::clone(program)) };
        let mut warnings = Vec::new();
        let lowered = with_kernels(program, target, &mut warnings)?;
        for warning in warnings {
            match target {
                KernelTarget::Tpu(_) => tracing::warn!("{warning}"),
                // What these do not take is compiled well as it is.
                KernelTarget::Cuda | KernelTarget::Cpu => tracing::debug!("{warning}"),
            }
        }
        Ok(lowered.map_or_else(|| Arc::clone(program), Arc::new))
    }

    /// The configuration's options for a program.
    fn options_for(&self, program: &Program, device_ids: Option<&[i64]>) -> Result<CompileOptions, Error> {
        let mut options = self.shared.options.clone();
        options.num_replicas = program.replicas().unwrap_or(1);
        options.num_partitions = program.partitions().unwrap_or(1);
        options.use_shardy_partitioner = program.uses_shardy();
        if let Some(ids) = device_ids {
            let (replicas, partitions) = (options.num_replicas as usize, options.num_partitions as usize);
            let assignment = DeviceAssignment::new(replicas, partitions, ids.to_vec());
            options.device_assignment = Some(assignment.map_err(Error::device("placing a program"))?);
        }
        Ok(options)
    }

    /// Runs the plugin's compiler on a thread of its own: a plugin cannot be interrupted, but it need not be waited for.
    fn run(&self, program: &Arc<Program>, options: CompileOptions) -> Result<pjrt::LoadedExecutable, Error> {
        let (answer, answered) = mpsc::channel();
        let (shared, program) = (Arc::clone(&self.shared), Arc::clone(program));
        let work = move || {
            let source = pjrt::EncodedProgram::mlir(program.bytes());
            // Nobody hears the answer of a compilation that took too long.
            let _ = answer.send(shared.client.compile(&source, &options));
        };
        let started = Instant::now();
        let spawned = std::thread::Builder::new().name("tpubridge-compile".into()).spawn(work);
        spawned.map_err(|error| CompileError::io("starting a thread", std::path::Path::new("compile"), error))?;
        match answered.recv_timeout(self.shared.timeout) {
            // Whether an answer came too late must not depend on when this thread got to wait for it.
            Ok(_) if started.elapsed() > self.shared.timeout => Err(CompileError::Timeout(self.shared.timeout).into()),
            Ok(Ok(loaded)) => Ok(loaded),
            Ok(Err(error)) => Err(refusal::of_plugin(error).into()),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(CompileError::Timeout(self.shared.timeout).into()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(CompileError::Crashed { how: "panic".into(), log: String::new() }.into())
            }
        }
    }
}

fn check_samples(signature: &Signature, samples: &[Spec]) -> Result<(), ValidationError> {
    if samples.is_empty() {
        return Ok(());
    }
    if samples.len() != signature.arguments.len() {
        return Err(ValidationError::InputCount { expected: signature.arguments.len(), given: samples.len() });
    }
    for (argument, sample) in signature.arguments.iter().zip(samples) {
        if argument.spec != *sample {
            let (expected, given) = (argument.spec.to_string(), sample.to_string());
            return Err(ValidationError::Input { name: argument.name.clone(), expected, given });
        }
    }
    Ok(())
}

/// The device whose kernels a client's programs get.
fn kernel_target(client: &Client) -> Result<Option<KernelTarget>, Error> {
    let asking = "asking for devices";
    let platform = Platform::from_name(&client.platform_name().map_err(Error::device(asking))?);
    match platform {
        Platform::Cuda => Ok(Some(KernelTarget::Cuda)),
        Platform::Cpu => Ok(Some(KernelTarget::Cpu)),
        _ => Ok(generation(client)?.map(KernelTarget::Tpu)),
    }
}

/// The generation of a client's TPUs; `None` for other devices.
fn generation(client: &Client) -> Result<Option<chips::Generation>, Error> {
    let asking = "asking for devices";
    if Platform::from_name(&client.platform_name().map_err(Error::device(asking))?) != Platform::Tpu {
        return Ok(None);
    }
    let devices = client.addressable_devices().map_err(Error::device(asking))?;
    let description = devices.first().map(|device| device.description()).transpose();
    let kind = description.map_err(Error::device(asking))?.map(|description| description.kind);
    Ok(kind.as_deref().and_then(chips::Generation::from_device_kind))
}

/// What the configuration means to the compiler of a client. Wishes only the TPU compiler can follow are warned about
/// elsewhere, and are errors where warnings are.
fn options(client: &Client, config: &Config) -> Result<CompileOptions, Error> {
    let asking = "asking for devices";
    let platform = Platform::from_name(&client.platform_name().map_err(Error::device(asking))?);
    if let Some(generation) = generation(client)? {
        let world = client.devices().map_err(Error::device(asking))?.len();
        return Ok(config.tpu_options(generation, u32::try_from(world).unwrap_or(u32::MAX))?.compile_options());
    }
    let unheard = config.tpu_only();
    if !unheard.is_empty() {
        let message = format!("only the compiler of a known TPU follows {}; this is {platform}", unheard.join(", "));
        if config.strict_validation {
            return Err(ValidationError::Strict(message).into());
        }
        tracing::warn!("{message}");
    }
    let mut options = config.any_compile_options();
    if platform == Platform::Cuda {
        // The user's own come first.
        let given = std::env::var("XLA_FLAGS").unwrap_or_default();
        for (name, value) in CUDA_OPTIONS.iter().filter(|(name, _)| !given.contains(name)) {
            options.overrides.insert((*name).to_owned(), OptionOverride::String((*value).to_owned()));
        }
    }
    Ok(options)
}
