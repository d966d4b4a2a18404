//! Collectives outside of a program: sums over processes, values from one to all, barriers.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use tensor::{DType, Literal};
use trace::{Donate, Leaf, LogicalAxisRules, Mesh, Over, PartitionSpec, Reduction, Role, Spec, Tensor, shard_map};

use crate::backend::{Backend, DeviceArray};
use crate::device::DeviceInfo;
use crate::device_manager::DeviceManager;
use crate::error::{Error, ValidationError};
use crate::jit::{Jit, JitSharding};
use crate::mesh::{DeviceMesh, NamedSharding};

/// Mesh axes of [`Distributed::process_mesh`].
const PROCESS: &str = "process";
const LOCAL: &str = "local";

/// The processes of a program, seen from one of them: one alone, or those of the backend's [`Session`](crate::distributed::Session).
///
/// What it does runs on the devices, as programs that are compiled once for each type and shape. All processes must call the
/// same functions in the same order, with values of the same types and shapes.
pub struct Distributed {
    backend: Backend,
    devices: DeviceManager,
    process_mesh: Arc<DeviceMesh>,
    compiled: RefCell<HashMap<Key, Jit<Tensor, Tensor>>>,
}

/// What a compiled function depends on beside types and shapes.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    mesh: Mesh,
    ids: Vec<i64>,
    sharding: PartitionSpec,
    over: Vec<Arc<str>>,
    action: Action,
}

/// What devices do with their parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Reduce(Reduction),
    Gather,
    /// The part of the device at this place along the axes goes to all.
    Take(usize),
}

impl Distributed {
    /// The processes that share a backend's devices. Fails where they have different numbers of devices.
    pub fn new(backend: &Backend) -> Result<Distributed, Error> {
        let devices = DeviceManager::new(backend);
        let mut by_process: BTreeMap<i32, Vec<DeviceInfo>> = BTreeMap::new();
        for device in devices.devices() {
            by_process.entry(device.process_index).or_default().push(device.clone());
        }
        let local = devices.num_addressable();
        if let Some((process, theirs)) = by_process.iter().find(|(_, theirs)| theirs.len() != local) {
            return Err(Error::Distributed(format!(
                "process {process} has {} devices and this one {local}: give all processes as many",
                theirs.len()
            )));
        }
        let mesh = Mesh::new([(PROCESS, by_process.len()), (LOCAL, local)])?;
        let ordered: Vec<DeviceInfo> = by_process.into_values().flatten().collect();
        let process_mesh = Arc::new(DeviceMesh::in_order(&mesh, &ordered, devices.addressable())?);
        Ok(Distributed { backend: backend.clone(), devices, process_mesh, compiled: RefCell::default() })
    }

    /// The devices.
    pub fn devices(&self) -> &DeviceManager {
        &self.devices
    }

    /// Number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.backend.rank()
    }

    /// Number of processes.
    pub fn num_processes(&self) -> usize {
        self.process_mesh.mesh().size_of(PROCESS).unwrap_or(1)
    }

    /// Devices of all processes, as [`Backend::world_size`] has it.
    pub fn world_size(&self) -> usize {
        self.backend.world_size()
    }

    /// Devices of this process.
    pub fn local_devices(&self) -> &[DeviceInfo] {
        self.devices.addressable()
    }

    /// Whether this is the process that speaks and writes for all.
    pub fn is_main(&self) -> bool {
        self.rank() == 0
    }

    /// Whether there is more than one device.
    pub fn is_distributed(&self) -> bool {
        self.backend.is_distributed()
    }

    /// All devices by process: the axes are `process` and `local`.
    pub fn process_mesh(&self) -> &Arc<DeviceMesh> {
        &self.process_mesh
    }

    /// Waits until the devices of this process are done, and until all processes are here.
    pub fn barrier(&self) -> Result<(), Error> {
        self.backend.synchronize()?;
        let one = literal(DType::U32, &[], 1u32.to_le_bytes().to_vec())?;
        let here = self.all_reduce(&Arc::new(one), Reduction::Sum)?;
        let expected = u32::try_from(self.num_processes()).unwrap_or(u32::MAX).to_le_bytes();
        if here.bytes() == expected {
            return Ok(());
        }
        Err(Error::Distributed(format!("a barrier counted {:?} processes, there are {:?}", here.bytes(), expected)))
    }

    /// Combines the values of all processes; the result is the same in all of them.
    pub fn all_reduce(&self, value: &Arc<Literal>, reduction: Reduction) -> Result<Literal, Error> {
        can_reduce(value.dtype(), reduction)?;
        if self.num_processes() == 1 || value.bytes().is_empty() {
            return Ok((**value).clone());
        }
        let combined = self.run(&self.sent_by_process(value)?, &PROCESS, Action::Reduce(reduction))?.to_host()?;
        literal(value.dtype(), value.dims(), combined.bytes().to_vec())
    }

    /// The values of all processes, by their numbers; the same in all of them, to the bit.
    pub fn all_gather(&self, value: &Arc<Literal>) -> Result<Vec<Literal>, Error> {
        if self.num_processes() == 1 || value.bytes().is_empty() {
            return Ok(vec![(**value).clone(); self.num_processes()]);
        }
        let words = Arc::new(as_words(value)?);
        let gathered = self.run(&self.sent_by_process(&words)?, &PROCESS, Action::Gather)?.to_host()?;
        gathered.bytes().chunks(words.bytes().len()).map(|bytes| from_words(bytes, value)).collect()
    }

    /// The value of one process, in all of them, to the bit. The values of the others only say its type and shape.
    pub fn broadcast(&self, value: &Arc<Literal>, from: usize) -> Result<Literal, Error> {
        let count = self.num_processes();
        if from >= count {
            let message = format!("there is no process {from}: there are {count}, numbered from 0");
            return Err(ValidationError::Other(message).into());
        }
        if count == 1 || value.bytes().is_empty() {
            return Ok((**value).clone());
        }
        // Bits of one process and zeros of the others: their sum is exact, and moves as much as a sum does.
        let words = as_words(value)?;
        let words = if from == self.rank() { words } else { zeros_like(&words)? };
        let words = self.all_reduce(&Arc::new(words), Reduction::Sum)?;
        from_words(words.bytes(), value)
    }

    /// Combines the parts that the devices along mesh axes have of an array. The result has the size of one part along these
    /// axes, and is the same on all their devices; an array that is whole on each device keeps its size.
    pub fn all_reduce_parts(
        &self,
        array: &DeviceArray,
        over: impl Over,
        reduction: Reduction,
    ) -> Result<DeviceArray, Error> {
        can_reduce(array.spec().dtype, reduction)?;
        self.run(array, &over, Action::Reduce(reduction))
    }

    /// The part of the device at one place along mesh axes, on all of them: as [`all_reduce_parts`](Self::all_reduce_parts),
    /// to the bit.
    pub fn broadcast_part(&self, array: &DeviceArray, over: impl Over, from: usize) -> Result<DeviceArray, Error> {
        let placed = placed(array)?;
        let names = over.names();
        let count = placed.mesh.mesh().size_along(names.iter().map(|name| &**name)).unwrap_or(1);
        if from >= count {
            let message = format!("there is no place {from} along {names:?} of the mesh {}", placed.mesh.mesh());
            return Err(ValidationError::Mesh(message).into());
        }
        self.run(array, &over, Action::Take(from))
    }

    /// The same array, whole on every device of its mesh. [`Backend::gather`] brings it to the host.
    pub fn all_gather_parts(&self, array: &DeviceArray) -> Result<DeviceArray, Error> {
        self.backend.reshard(array, &PartitionSpec::replicated(array.spec().dims.len()))
    }

    /// An array with a row for each process, this one's on its devices.
    fn sent_by_process(&self, value: &Arc<Literal>) -> Result<DeviceArray, Error> {
        let row: Vec<usize> = std::iter::once(1).chain(value.dims().iter().copied()).collect();
        let row = Arc::new(literal(value.dtype(), &row, value.bytes().to_vec())?);
        let mut dims = row.dims().to_vec();
        dims[0] = self.num_processes();
        let mut sharding = PartitionSpec::replicated(dims.len());
        sharding.dims[0] = Some(vec![PROCESS.into()]);
        let spec = Spec::new(value.dtype(), dims);
        self.backend.send_parts(&self.process_mesh, &sharding, &spec, &mut |_| Ok(row.clone()))
    }

    /// Runs what each device does with its part.
    fn run(&self, array: &DeviceArray, over: &impl Over, action: Action) -> Result<DeviceArray, Error> {
        let NamedSharding { mesh, sharding } = placed(array)?;
        let over = over.names();
        if let Some(name) = over.iter().find(|name| mesh.mesh().size_of(name).is_none()) {
            return Err(ValidationError::Mesh(format!("the mesh {} has no axis `{name}`", mesh.mesh())).into());
        }
        let key = Key {
            mesh: mesh.mesh().clone(),
            ids: mesh.ids().to_vec(),
            sharding: sharding.clone(),
            over: over.clone(),
            action,
        };
        let mut compiled = self.compiled.borrow_mut();
        let jit = compiled.entry(key).or_insert_with(|| self.function(mesh, sharding, over, action));
        let result = jit.call(Tensor::from(array.clone()))?;
        result.device_value().cloned().ok_or_else(|| Error::Distributed("a collective gave no array".into()))
    }

    fn function(
        &self,
        mesh: &Arc<DeviceMesh>,
        before: &PartitionSpec,
        over: Vec<Arc<str>>,
        action: Action,
    ) -> Jit<Tensor, Tensor> {
        let without = |axes: &Option<Vec<Arc<str>>>| {
            Some(axes.iter().flatten().filter(|name| !over.contains(name)).cloned().collect())
        };
        let after = PartitionSpec { dims: before.dims.iter().map(without).collect() };
        let (input, output) = (before.clone(), after.clone());
        let of = move |role: Role, _: &Leaf| Ok(if role == Role::Input { input.clone() } else { output.clone() });
        let on = JitSharding { mesh: mesh.clone(), rules: LogicalAxisRules::new(mesh.mesh().clone()), of: Rc::new(of) };
        let before = before.clone();
        let name = match action {
            Action::Reduce(_) => "all_reduce",
            Action::Gather => "all_gather",
            Action::Take(_) => "broadcast",
        };
        let f = move |x: &Tensor| {
            let names: Vec<&str> = over.iter().map(|name| &**name).collect();
            shard_map(x, std::slice::from_ref(&before), std::slice::from_ref(&after), |part: &Tensor| match action {
                Action::Reduce(reduction) => part.all_reduce(&names[..], reduction),
                Action::Gather => part.all_gather(0, &names[..]),
                Action::Take(from) => part.expand(0).all_gather(0, &names[..]).slice(0, from..from + 1).squeeze(0),
            })
        };
        Jit::new(&self.backend, name, Donate::Nothing, f).on(Some(on))
    }
}

fn placed(array: &DeviceArray) -> Result<&NamedSharding, Error> {
    array.named_sharding().ok_or_else(|| {
        let message = format!("{} is an array of one device: devices combine arrays of a mesh", array.spec());
        ValidationError::Mesh(message).into()
    })
}

/// Whether values of a type can be combined so.
fn can_reduce(dtype: DType, reduction: Reduction) -> Result<(), Error> {
    let is_complex = dtype.is_complex();
    let can = match reduction {
        Reduction::Sum => dtype != DType::Bool,
        Reduction::Mean => dtype.is_float() || is_complex,
        Reduction::Max | Reduction::Min => !is_complex,
    };
    if can {
        return Ok(());
    }
    Err(ValidationError::Other(format!("{dtype} has no {reduction:?} over devices: convert it first")).into())
}

fn literal(dtype: DType, dims: &[usize], bytes: Vec<u8>) -> Result<Literal, Error> {
    let odd = || ValidationError::Other(format!("a value of other bytes than {dtype}{dims:?} has")).into();
    Literal::new(dtype, dims, bytes).ok_or_else(odd)
}

/// The bits of a value as whole words, which every device moves and adds without loss.
fn as_words(value: &Literal) -> Result<Literal, Error> {
    let mut bytes = value.bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    literal(DType::U32, &[bytes.len() / 4], bytes)
}

fn from_words(words: &[u8], like: &Literal) -> Result<Literal, Error> {
    let bytes = words.get(..like.bytes().len()).unwrap_or_default().to_vec();
    literal(like.dtype(), like.dims(), bytes)
}

fn zeros_like(value: &Literal) -> Result<Literal, Error> {
    literal(value.dtype(), value.dims(), vec![0; value.bytes().len()])
}
