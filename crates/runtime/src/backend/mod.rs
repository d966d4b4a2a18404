//! A backend: devices of one plugin, a compiler for them, and the memory they have. The same code runs on TPU, GPU and CPU.
//!
//! ```
//! use std::sync::Arc;
//!
//! use runtime::config::{Config, Mode, Target};
//! use compile::Program;
//! use runtime::{Backend, Parameters};
//! use tensor::{DType, Literal};
//!
//! let backend = Backend::auto(&Config::new(Mode::Development).device(Target::Cpu))?;
//! let program = Program::read(
//!     b"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %y = stablehlo.add %x, %x : tensor<2xf32> return %y : tensor<2xf32> }".to_vec(),
//! )?;
//! let model = backend.prepare_program(&Arc::new(program), &Parameters::none())?;
//! let x = Literal::new(DType::F32, [2], [1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect()).unwrap();
//! let outputs = model.run(&[backend.send(&Arc::new(x))?])?;
//! assert_eq!(outputs[0].to_host()?.bytes()[..4], 2f32.to_le_bytes());
//! # Ok::<(), runtime::Error>(())
//! ```

mod activity;
mod array;
mod builtin;
mod choose;
mod data;
mod files;
mod loaded;
mod pool;
mod topology;

pub use array::DeviceArray;
pub use choose::{Choice, Surroundings};
pub(crate) use data::first_not_finite;
pub use data::{Feed, Nested, NestedArrays, NestedLiterals};
pub use files::{Extras, MemoryStats};
pub use loaded::{Input, LoadedProgram, Parameters};
pub use pool::{Pool, PoolStats};
pub use topology::{GlobalTopology, SliceDevices};

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use compile::Recent;
use compile::cache::{Cache, CacheConfig};
use pjrt::{Client, Device, Event};
use telemetry::runtime_metrics::Activity;
use tensor::{Literal, Spec};
use trace::{Mesh, PartitionSpec, Site};

use self::loaded::ModelKey;
use self::pool::Pools;
use crate::compiler::Compiler;
use crate::config::Config;
use crate::device::{DeviceInfo, Platform};
use crate::distributed::Session;
use crate::element::element_type;
use crate::error::Error;
use crate::log;
use crate::memory::{MemoryManager, Owner};
use crate::mesh::{DeviceMesh, NamedSharding};
use crate::profile::BackendProfiler;

/// Launches that are remembered before finished ones are forgotten.
const REMEMBERED_LAUNCHES: usize = 64;

/// Devices, their compiler and their memory. Clones are the same backend.
#[derive(Clone, Debug)]
pub struct Backend {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    client: Client,
    platform: Platform,
    choice: Choice,
    devices: Vec<Device>,
    infos: Vec<DeviceInfo>,
    topology: GlobalTopology,
    rank: usize,
    compiler: Compiler,
    memory: MemoryManager,
    /// Owner of arrays that nobody named.
    data: Owner,
    pools: Pools,
    models: Mutex<Recent<ModelKey, LoadedProgram>>,
    running: Mutex<Vec<Event>>,
    profiler: BackendProfiler,
    /// Counted once somebody asks.
    activity: OnceLock<Activity>,
    /// The processes the devices are shared with. After the client, which talks through it until it ends.
    session: Option<Session>,
}

impl Backend {
    /// The best device of this machine: a TPU, else a GPU, else the built-in CPU device; or the one the configuration
    /// names. [`Backend::choice`] says which and why.
    ///
    /// A plugin is loaded into this process.
    pub fn auto(config: &Config) -> Result<Backend, Error> {
        Backend::within(&Surroundings::host(), config)
    }

    /// As [`auto`](Self::auto), with everything that is looked at given by the caller.
    pub fn within(around: &Surroundings, config: &Config) -> Result<Backend, Error> {
        let (client, choice) = choose::choose(&config.device, config.cpu_devices, around)?;
        Backend::create(client, choice, config, around.session.clone())
    }

    /// As [`auto`](Self::auto), with the devices of all processes of a session. Every process makes its backends in the same
    /// order and runs the same programs in the same order.
    pub fn in_session(session: &Session, config: &Config) -> Result<Backend, Error> {
        Backend::within(&Surroundings { session: Some(session.clone()), ..Surroundings::host() }, config)
    }

    /// The devices of a client that exists already.
    pub fn on(client: &Client, config: &Config) -> Result<Backend, Error> {
        let choice = Choice { wanted: config.device.clone(), plugin: None, passed_over: Vec::new() };
        Backend::create(client.clone(), choice, config, None)
    }

    fn create(client: Client, choice: Choice, config: &Config, session: Option<Session>) -> Result<Backend, Error> {
        let asking = "asking for devices";
        let platform = Platform::from_name(&client.platform_name().map_err(Error::device(asking))?);
        let devices = client.addressable_devices().map_err(Error::device(asking))?;
        let overrides = config.chip_overrides();
        let describe = |device: &Device| DeviceInfo::read(device, &platform, &overrides);
        let infos = devices.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
        let world = client.devices().map_err(Error::device(asking))?;
        let topology = GlobalTopology::of(world.iter().map(describe).collect::<Result<Vec<_>, _>>()?)?;
        if let Some(session) = &session {
            must_be_all(&topology, session.config().processes)?;
        }
        let rank = client.process_index().map_err(Error::device(asking))?;
        let limit = infos.first().and_then(|info| info.memory_bytes);
        let limit = limit.map(|bytes| (bytes as f64 * config.memory_fraction.get()) as u64);
        let memory = MemoryManager::new(limit, config.allocation_history_retention_seconds.get());
        let profiler = BackendProfiler::new(client.profiler());
        if config.profiling {
            profiler.start()?;
        }
        tracing::info!(%platform, devices = devices.len(), %choice, "backend");
        let backend = Backend {
            shared: Arc::new(Shared {
                compiler: Compiler::new(&client, config)?,
                data: memory.owner("data"),
                config: config.clone(),
                client,
                platform,
                choice,
                devices,
                infos,
                topology,
                rank: usize::try_from(rank).unwrap_or_default(),
                memory,
                pools: Pools::default(),
                models: Mutex::new(Recent::new(if config.enable_cache { config.cache_max_size } else { 0 })),
                running: Mutex::default(),
                profiler,
                activity: OnceLock::new(),
                session,
            }),
        };
        if let Some(folder) = config.executables_dir.as_ref().filter(|_| config.enable_cache) {
            let cache = CacheConfig { folder: Some(folder.clone()), ..CacheConfig::default() };
            backend.keep_executables(Cache::open(&cache)?)?;
        }
        Ok(backend)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// What kind of device this is.
    pub fn platform(&self) -> &Platform {
        &self.shared.platform
    }

    /// What functions for its devices are traced for.
    pub fn compile_target(&self) -> trace::CompileTarget {
        match self.platform() {
            Platform::Cuda => trace::CompileTarget::Cuda,
            Platform::Cpu => trace::CompileTarget::Cpu,
            Platform::Tpu | Platform::Other(_) => trace::CompileTarget::Any,
        }
    }

    /// Which device was chosen, and why.
    pub fn choice(&self) -> &Choice {
        &self.shared.choice
    }

    /// Devices of this process.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.shared.infos
    }

    /// The device that arrays and programs of one device go to.
    pub fn device(&self) -> &DeviceInfo {
        &self.shared.infos[0]
    }

    /// Devices of all processes.
    pub fn world_size(&self) -> usize {
        self.shared.topology.num_devices()
    }

    /// Devices of all processes by slice, with their places.
    pub fn topology(&self) -> &GlobalTopology {
        &self.shared.topology
    }

    /// Number of this process.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// The session it was made in, where there are several processes.
    pub fn session(&self) -> Option<&Session> {
        self.shared.session.as_ref()
    }

    /// Whether devices are in more than one process.
    pub fn is_multi_process(&self) -> bool {
        self.shared.topology.processes.len() > 1
    }

    /// Whether there is more than one device.
    pub fn is_distributed(&self) -> bool {
        self.world_size() > 1
    }

    /// The plugin's client.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The profiler of these devices.
    pub fn profiler(&self) -> &BackendProfiler {
        &self.shared.profiler
    }

    /// Stops the profile that option `profiling` began and writes it to `profile_dir`; `None` where none is recorded.
    ///
    /// A backend that is dropped while it records writes its profile too, but can only warn when that fails.
    pub fn finish_profile(&self) -> Result<Option<std::path::PathBuf>, Error> {
        if !self.shared.config.profiling {
            return Ok(None);
        }
        self.synchronize()?;
        self.shared.finish_profile()
    }

    /// The compiler for these devices.
    pub fn compiler(&self) -> &Compiler {
        &self.shared.compiler
    }

    /// The books of device memory.
    pub fn memory(&self) -> &MemoryManager {
        &self.shared.memory
    }

    /// Sends an array to the first device.
    pub fn send(&self, literal: &Arc<Literal>) -> Result<DeviceArray, Error> {
        self.send_for(&self.shared.data, literal)
    }

    /// Sends an array on behalf of an owner.
    pub fn send_for(&self, owner: &Owner, literal: &Arc<Literal>) -> Result<DeviceArray, Error> {
        let shared = &self.shared;
        let sent = DeviceArray::send(&shared.client, &shared.devices[0], &shared.memory, owner, literal)?;
        if shared.config.log_device_placement {
            let (device, owner) = (&shared.infos[0], sent.owner());
            tracing::info!(target: log::PLACEMENT, array = %sent.spec(), owner, device = device.id, kind = %device.kind, "placed");
        }
        Ok(sent)
    }

    /// Sends each device of a mesh that is of this process its part of an array.
    pub fn send_on(
        &self,
        mesh: &Arc<DeviceMesh>,
        sharding: &PartitionSpec,
        literal: &Arc<Literal>,
    ) -> Result<DeviceArray, Error> {
        let spec = Spec::new(literal.dtype(), literal.dims());
        let does_not_fit = || NamedSharding { mesh: mesh.clone(), sharding: sharding.clone() }.does_not_fit(&spec);
        self.send_parts(mesh, sharding, &spec, &mut |region| match region.size == literal.dims() {
            true => Ok(Arc::clone(literal)),
            false => Ok(Arc::new(region.cut(literal).ok_or_else(does_not_fit)?)),
        })
    }

    /// As [`send_on`](Self::send_on), for an array that is nowhere whole: `part_of` gives each part that the devices of this
    /// process need, once.
    pub fn send_parts(
        &self,
        mesh: &Arc<DeviceMesh>,
        sharding: &PartitionSpec,
        spec: &Spec,
        part_of: &mut dyn FnMut(&weights::TensorRegion) -> Result<Arc<Literal>, Error>,
    ) -> Result<DeviceArray, Error> {
        let shared = &self.shared;
        let placed = NamedSharding { mesh: mesh.clone(), sharding: sharding.clone() };
        let part = sharding.part_dims(mesh.mesh(), &spec.dims).map_err(|_| placed.does_not_fit(spec))?;
        let allocation = shared.memory.reserve(&shared.data, Spec::new(spec.dtype, part).bytes())?;
        DeviceArray::send_parts(&shared.client, &shared.devices, allocation, spec.clone(), placed, part_of)
    }

    /// The devices of a mesh, in an order that follows the torus where there is one.
    pub fn mesh(&self, mesh: &Mesh) -> Result<Arc<DeviceMesh>, Error> {
        let world: Vec<DeviceInfo> = self.shared.topology.devices().cloned().collect();
        Ok(Arc::new(DeviceMesh::new(mesh, &world, &self.shared.infos)?))
    }

    /// The devices of all processes, as those a mesh is for.
    pub fn site(&self) -> Site {
        let world: Vec<DeviceInfo> = self.shared.topology.devices().cloned().collect();
        crate::mesh::site_here(&world, self.platform())
    }

    /// An array with unspecified contents, to be written by programs it is donated to.
    pub fn uninitialized(&self, owner: &Owner, spec: &Spec) -> Result<DeviceArray, Error> {
        let shared = &self.shared;
        let allocation = shared.memory.reserve(owner, spec.bytes())?;
        let dims: Vec<i64> = spec.dims.iter().map(|&size| size as i64).collect();
        let placement = pjrt::Placement::Device(&shared.devices[0]);
        let made = shared.client.uninitialized_buffer(element_type(spec.dtype), &dims, placement);
        Ok(DeviceArray::new(made.map_err(Error::device("making an array"))?, spec.clone(), allocation))
    }

    /// Pools of arrays of this backend.
    pub(crate) fn pool_list(&self) -> &Pools {
        &self.shared.pools
    }

    /// What the first device says of its memory.
    pub(crate) fn first_device_memory(&self) -> Option<pjrt::DeviceMemoryStats> {
        self.device_memory(0)
    }

    /// What a device of this process says of its memory, by its place in the list.
    pub(crate) fn device_memory(&self, place: usize) -> Option<pjrt::DeviceMemoryStats> {
        self.shared.devices.get(place)?.memory_stats().ok()
    }

    /// Waits until everything that was started is done.
    pub fn synchronize(&self) -> Result<(), Error> {
        let started = Instant::now();
        let running = std::mem::take(&mut *self.running());
        for event in running {
            let waited = || started.elapsed();
            event.wait().map_err(|source| Error::Synchronization { waited: waited(), source: Some(source) })?;
        }
        Ok(())
    }

    /// Forgets prepared models and compiled programs. Models in use stay usable.
    pub fn clear_cache(&self) {
        self.models().clear();
        self.shared.compiler.clear_cache();
    }

    fn models(&self) -> MutexGuard<'_, Recent<ModelKey, LoadedProgram>> {
        self.shared.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Vec<Event>> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a launch until it is done.
    fn started(&self, events: Vec<Event>) {
        let mut running = self.running();
        if running.len() >= REMEMBERED_LAUNCHES {
            // An event that cannot be asked stays, so that waiting for it reports why.
            running.retain(|event| !matches!(event.is_ready(), Ok(true)));
        }
        running.extend(events);
    }
}

/// Fails where the devices are not those of all processes of a session: a plugin then knows another number of them.
fn must_be_all(topology: &GlobalTopology, processes: usize) -> Result<(), Error> {
    let known = topology.processes.len();
    if known == processes {
        return Ok(());
    }
    Err(Error::Distributed(format!(
        "the device knows {known} processes, the session has {processes}: `tpu config environment` says what libtpu must find"
    )))
}

impl Shared {
    fn finish_profile(&self) -> Result<Option<std::path::PathBuf>, Error> {
        let profile = self.profiler.finish()?;
        // Named by the time, so that later ones are listed later.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        profile.map(|profile| profile.write(&self.config.profile_dir, &now.as_secs().to_string())).transpose()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.config.profiling {
            return;
        }
        match self.finish_profile() {
            Ok(Some(path)) => tracing::info!(path = %path.display(), "profile"),
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "the profile is lost"),
            Ok(None) => {}
        }
    }
}
