//! Clients and their devices, descriptions and memories.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use pjrt_sys::*;

use super::call::{Failure, entries, give_text, handles, list, object};
use super::ledger::Ledger;
use super::named::{self, NamedList};
use super::processes::{Processes, Store};
use super::settings::Settings;
use super::topology::{Description, Topology};
use crate::engine::{Cpu, PartitionRuns};

/// Kinds of memory, the default first; the position is the kind's id.
pub(super) const MEMORY_KINDS: [&str; 3] = ["device", "pinned_host", "unpinned_host"];

/// Bytes of stack of the thread that runs programs: regions nest deeply.
const STACK_BYTES: usize = 256 << 20;

/// A client: devices, their memories, and the topology they form.
pub(crate) struct Client {
    /// Of all processes.
    pub(super) devices: Box<[Device]>,
    /// `[device][kind]`.
    pub(super) memories: Box<[Arena]>,
    pub(super) topology: Topology,
    pub(super) cpu: Arc<Cpu>,
    pub(super) partitions: PartitionRuns,
    /// `None` where there is one.
    pub(super) processes: Option<Processes>,
    /// The devices of this process.
    pub(super) local: Range<usize>,
    device_list: OnceLock<Vec<*mut PJRT_Device>>,
    memory_list: OnceLock<Vec<*mut PJRT_Memory>>,
}

// SAFETY: the pointers lead into the client's own boxes, which never move and are never written.
unsafe impl Send for Client {}
// SAFETY: as for `Send`.
unsafe impl Sync for Client {}

/// A device.
pub(crate) struct Device {
    pub(super) index: usize,
    client: Weak<Client>,
    pub(super) ledger: Arc<Ledger>,
    queue: OnceLock<mpsc::Sender<Task>>,
    /// Launches given to the thread that have not run.
    waiting: Arc<AtomicUsize>,
}

/// A launch that its device's thread has yet to run, as long as this lives.
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Work for a device's thread.
pub(super) type Task = Box<dyn FnOnce() + Send>;

/// A memory of a device. Newer clients read the head.
#[repr(C)]
pub(crate) struct Arena {
    head: PJRT_Memory,
    pub(super) index: usize,
    client: Weak<Client>,
    debug: String,
}

handles! {
    PJRT_Client => Client,
    PJRT_Device => Device,
    PJRT_Memory => Arena,
    PJRT_DeviceDescription => Description,
}

impl Client {
    fn new(settings: &Settings, processes: Option<Processes>) -> Result<Arc<Client>, Failure> {
        let cpu = Cpu::with_isa(settings.threads, settings.isa)?;
        let counts = processes.as_ref().map_or_else(|| vec![settings.num_devices], |all| all.counts().to_vec());
        let local = processes.as_ref().map_or(0..settings.num_devices, Processes::local);
        let num_devices = counts.iter().sum::<usize>();
        Ok(Arc::new_cyclic(|client: &Weak<Client>| Client {
            devices: (0..num_devices)
                .map(|index| Device {
                    index,
                    client: client.clone(),
                    ledger: Ledger::new(index, settings.limit_bytes),
                    queue: OnceLock::new(),
                    waiting: Arc::default(),
                })
                .collect(),
            memories: (0..num_devices * MEMORY_KINDS.len())
                .map(|index| Arena {
                    head: PJRT_Memory { vtable: std::ptr::null() },
                    index,
                    client: client.clone(),
                    debug: format!(
                        "{}(device {})",
                        MEMORY_KINDS[index % MEMORY_KINDS.len()],
                        index / MEMORY_KINDS.len()
                    ),
                })
                .collect(),
            topology: Topology::of_processes(settings, &counts),
            processes,
            local,
            cpu,
            partitions: settings.partitions,
            device_list: OnceLock::new(),
            memory_list: OnceLock::new(),
        }))
    }

    pub(super) fn device_list(&self) -> &[*mut PJRT_Device] {
        self.device_list.get_or_init(|| self.devices.iter().map(Device::raw).collect())
    }

    fn memory_list(&self) -> &[*mut PJRT_Memory] {
        self.memory_list.get_or_init(|| self.memories.iter().map(Arena::raw).collect())
    }

    /// Number of this process.
    fn process(&self) -> usize {
        self.processes.as_ref().map_or(0, Processes::node)
    }

    /// Refuses a device of another process.
    fn must_be_local(&self, device: usize) -> Result<(), Failure> {
        if self.local.contains(&device) {
            return Ok(());
        }
        let process = self.topology.descriptions.get(device).map_or(0, |description| description.process);
        Err(Failure::invalid(format!("device {device} is of process {process}, this is process {}", self.process())))
    }

    pub(super) fn device(&self, id: i64) -> Result<&Device, Failure> {
        let device = usize::try_from(id).ok().and_then(|id| self.devices.get(id));
        device
            .ok_or_else(|| Failure::invalid(format!("there is no device {id}; the client has {}", self.devices.len())))
    }
}

impl Device {
    pub(super) fn raw(&self) -> *mut PJRT_Device {
        (&raw const *self).cast_mut().cast()
    }

    pub(super) fn client(&self) -> Result<Arc<Client>, Failure> {
        self.client.upgrade().ok_or_else(gone)
    }

    /// The memory new buffers are in.
    pub(super) fn default_memory(&self) -> usize {
        self.index * MEMORY_KINDS.len()
    }

    /// Counts a launch for the device's thread.
    pub(super) fn waiting(&self) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.waiting.clone())
    }

    /// Whether everything given to the device's thread has run.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Runs a task after those given before.
    pub(super) fn enqueue(&self, task: Task) -> Result<(), Failure> {
        let start = || {
            let (sender, receiver) = mpsc::channel::<Task>();
            let thread = std::thread::Builder::new().name(format!("device-{}", self.index)).stack_size(STACK_BYTES);
            // Without a thread the receiver is dropped, and sending tells.
            let _ = thread.spawn(move || receiver.into_iter().for_each(|task| task()));
            sender
        };
        let sent = self.queue.get_or_init(start).send(task);
        sent.map_err(|_| {
            Failure::new(
                PJRT_Error_Code_UNAVAILABLE,
                format!("the thread of device {} could not be started", self.index),
            )
        })
    }
}

impl Arena {
    pub(super) fn raw(&self) -> *mut PJRT_Memory {
        (&raw const *self).cast_mut().cast()
    }

    pub(super) fn client(&self) -> Result<Arc<Client>, Failure> {
        self.client.upgrade().ok_or_else(gone)
    }

    pub(super) fn device_index(&self) -> usize {
        self.index / MEMORY_KINDS.len()
    }

    pub(super) fn kind(&self) -> &'static str {
        MEMORY_KINDS[self.index % MEMORY_KINDS.len()]
    }
}

fn gone() -> Failure {
    Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, "the client is gone")
}

/// Backs the answer of `PJRT_Device_GetAttributes`.
unsafe extern "C" fn free_attributes(raw: *mut PJRT_Device_Attributes) {
    if !raw.is_null() {
        // SAFETY: made by `PJRT_Device_GetAttributes` and freed once.
        drop(unsafe { Box::from_raw(raw.cast::<NamedList>()) });
    }
}

entries! {
    fn PJRT_Client_Create(args: PJRT_Client_Create_Args) {
        let settings = Settings::read(named::decode(args.create_options, args.num_options))?;
        let processes = match settings.node()? {
            None => None,
            Some(node) => {
                let store = Store::of(args).ok_or_else(|| {
                    Failure::invalid("several processes (num_nodes) need a key-value store: register its callbacks")
                })?;
                Some(Processes::join(&settings, &node, store)?)
            }
        };
        args.client = Arc::into_raw(Client::new(&settings, processes)?).cast_mut().cast();
        Ok(())
    }

    fn PJRT_Client_Destroy(args: PJRT_Client_Destroy_Args) {
        if !args.client.is_null() {
            let client = Arc::from_raw(args.client.cast::<Client>());
            // Launches may hold the client longer, but the caller's store is gone after this.
            if let Some(processes) = &client.processes {
                processes.close();
            }
        }
        Ok(())
    }

    fn PJRT_Client_PlatformName(args: PJRT_Client_PlatformName_Args) {
        give_text!(args.platform_name, platform_name_size = &object(args.client)?.topology.platform_name)
    }

    fn PJRT_Client_ProcessIndex(args: PJRT_Client_ProcessIndex_Args) {
        args.process_index = object(args.client)?.process() as i32;
        Ok(())
    }

    fn PJRT_Client_PlatformVersion(args: PJRT_Client_PlatformVersion_Args) {
        give_text!(args.platform_version, platform_version_size = &object(args.client)?.topology.platform_version)
    }

    fn PJRT_Client_TopologyDescription(args: PJRT_Client_TopologyDescription_Args) {
        args.topology = (&raw const object(args.client)?.topology).cast_mut().cast();
        Ok(())
    }

    fn PJRT_Client_Devices(args: PJRT_Client_Devices_Args) {
        let devices = object(args.client)?.device_list();
        (args.devices, args.num_devices) = (devices.as_ptr(), devices.len());
        Ok(())
    }

    fn PJRT_Client_AddressableDevices(args: PJRT_Client_AddressableDevices_Args) {
        let client = object(args.client)?;
        let devices = &client.device_list()[client.local.clone()];
        (args.addressable_devices, args.num_addressable_devices) = (devices.as_ptr(), devices.len());
        Ok(())
    }

    fn PJRT_Client_LookupDevice(args: PJRT_Client_LookupDevice_Args) {
        args.device = object(args.client)?.device(args.id.into())?.raw();
        Ok(())
    }

    fn PJRT_Client_LookupAddressableDevice(args: PJRT_Client_LookupAddressableDevice_Args) {
        let client = object(args.client)?;
        let id = i64::from(args.local_hardware_id);
        let device = usize::try_from(id).ok().filter(|id| *id < client.local.len()).map(|id| client.local.start + id);
        let device = device.and_then(|id| client.devices.get(id));
        let count = client.local.len();
        args.addressable_device =
            device.ok_or_else(|| Failure::invalid(format!("there is no device {id}; this process has {count}")))?.raw();
        Ok(())
    }

    fn PJRT_Client_AddressableMemories(args: PJRT_Client_AddressableMemories_Args) {
        let client = object(args.client)?;
        let kinds = MEMORY_KINDS.len();
        let memories = &client.memory_list()[client.local.start * kinds..client.local.end * kinds];
        (args.addressable_memories, args.num_addressable_memories) = (memories.as_ptr(), memories.len());
        Ok(())
    }

    fn PJRT_Client_UpdateGlobalProcessInfo(args: PJRT_Client_UpdateGlobalProcessInfo_Args) {
        object(args.client)?;
        Ok(())
    }

    fn PJRT_Client_DefaultDeviceAssignment(args: PJRT_Client_DefaultDeviceAssignment_Args) {
        let client = object(args.client)?;
        let count = i64::from(args.num_replicas) * i64::from(args.num_partitions);
        let fits = args.num_replicas > 0 && args.num_partitions > 0 && count <= client.devices.len() as i64;
        if !fits || args.default_assignment.is_null() || args.default_assignment_size < count as usize {
            return Err(Failure::invalid(format!(
                "{} replicas of {} partitions do not fit on {} devices",
                args.num_replicas, args.num_partitions, client.devices.len()
            )));
        }
        for n in 0..count as usize {
            args.default_assignment.add(n).write(n as i32);
        }
        Ok(())
    }

    fn PJRT_Client_DmaMap(args: PJRT_Client_DmaMap_Args) {
        object(args.client)?;
        Ok(())
    }

    fn PJRT_Client_DmaUnmap(args: PJRT_Client_DmaUnmap_Args) {
        object(args.client)?;
        Ok(())
    }

    fn PJRT_DeviceDescription_Id(args: PJRT_DeviceDescription_Id_Args) {
        args.id = object(args.device_description)?.id as i32;
        Ok(())
    }

    fn PJRT_DeviceDescription_ProcessIndex(args: PJRT_DeviceDescription_ProcessIndex_Args) {
        args.process_index = object(args.device_description)?.process as i32;
        Ok(())
    }

    fn PJRT_DeviceDescription_Attributes(args: PJRT_DeviceDescription_Attributes_Args) {
        let description = object(args.device_description)?;
        (args.attributes, args.num_attributes) = (description.attributes.as_ptr(), description.attributes.len());
        Ok(())
    }

    fn PJRT_DeviceDescription_Kind(args: PJRT_DeviceDescription_Kind_Args) {
        object(args.device_description)?;
        give_text!(args.device_kind, device_kind_size = super::DEVICE_KIND)
    }

    fn PJRT_DeviceDescription_DebugString(args: PJRT_DeviceDescription_DebugString_Args) {
        give_text!(args.debug_string, debug_string_size = &object(args.device_description)?.text)
    }

    fn PJRT_DeviceDescription_ToString(args: PJRT_DeviceDescription_ToString_Args) {
        give_text!(args.to_string, to_string_size = &object(args.device_description)?.text)
    }

    fn PJRT_Device_GetDescription(args: PJRT_Device_GetDescription_Args) {
        let device = object(args.device)?;
        args.device_description = device.client()?.topology.description(device.index);
        Ok(())
    }

    fn PJRT_Device_IsAddressable(args: PJRT_Device_IsAddressable_Args) {
        let device = object(args.device)?;
        args.is_addressable = device.client()?.local.contains(&device.index);
        Ok(())
    }

    fn PJRT_Device_LocalHardwareId(args: PJRT_Device_LocalHardwareId_Args) {
        let device = object(args.device)?;
        let local = device.client()?.local.clone();
        // The interface's number for one that is not of this process.
        args.local_hardware_id = if local.contains(&device.index) { (device.index - local.start) as i32 } else { -1 };
        Ok(())
    }

    fn PJRT_Device_AddressableMemories(args: PJRT_Device_AddressableMemories_Args) {
        let device = object(args.device)?;
        let client = device.client()?;
        let first = device.default_memory();
        let memories = &client.memory_list()[first..first + MEMORY_KINDS.len()];
        (args.memories, args.num_memories) = (memories.as_ptr(), memories.len());
        Ok(())
    }

    fn PJRT_Device_DefaultMemory(args: PJRT_Device_DefaultMemory_Args) {
        let device = object(args.device)?;
        args.memory = device.client()?.memories[device.default_memory()].raw();
        Ok(())
    }

    fn PJRT_Device_MemoryStats(args: PJRT_Device_MemoryStats_Args) {
        let ledger = &object(args.device)?.ledger;
        let statistics = ledger.statistics();
        args.bytes_in_use = statistics.bytes_in_use as i64;
        (args.peak_bytes_in_use, args.peak_bytes_in_use_is_set) = (statistics.peak_bytes_in_use as i64, true);
        (args.num_allocs, args.num_allocs_is_set) = (statistics.num_allocs as i64, true);
        (args.largest_alloc_size, args.largest_alloc_size_is_set) = (statistics.largest_alloc_bytes as i64, true);
        let limit = ledger.limit_bytes();
        (args.bytes_limit, args.bytes_limit_is_set) = (limit.map_or(0, |n| n as i64), limit.is_some());
        args.bytes_reserved_is_set = false;
        args.peak_bytes_reserved_is_set = false;
        args.bytes_reservable_limit_is_set = false;
        args.largest_free_block_bytes_is_set = false;
        args.pool_bytes_is_set = false;
        args.peak_pool_bytes_is_set = false;
        args.peak_allocated_bytes_is_set = false;
        Ok(())
    }

    fn PJRT_Device_ClearMemoryStats(args: PJRT_Device_ClearMemoryStats_Args) {
        object(args.device)?.ledger.clear();
        Ok(())
    }

    fn PJRT_Device_GetAttributes(args: PJRT_Device_GetAttributes_Args) {
        object(args.device)?;
        let attributes = Box::new(NamedList::new(Vec::new()));
        (args.attributes, args.num_attributes) = (attributes.as_ptr(), attributes.len());
        args.device_attributes = Box::into_raw(attributes).cast();
        args.attributes_deleter = Some(free_attributes);
        Ok(())
    }

    fn PJRT_Device_CreateAsyncTrackingEvent(args: PJRT_Device_CreateAsyncTrackingEvent_Args) {
        object(args.device)?;
        // Nothing here shows what is in flight: the event only lives.
        args.event = Box::into_raw(Box::new(0u8)).cast();
        Ok(())
    }

    fn PJRT_AsyncTrackingEvent_Destroy(args: PJRT_AsyncTrackingEvent_Destroy_Args) {
        if !args.event.is_null() {
            drop(Box::from_raw(args.event.cast::<u8>()));
        }
        Ok(())
    }

    fn PJRT_Memory_Id(args: PJRT_Memory_Id_Args) {
        args.id = object(args.memory)?.index as i32;
        Ok(())
    }

    fn PJRT_Memory_Kind(args: PJRT_Memory_Kind_Args) {
        give_text!(args.kind, kind_size = object(args.memory)?.kind())
    }

    fn PJRT_Memory_Kind_Id(args: PJRT_Memory_Kind_Id_Args) {
        args.kind_id = (object(args.memory)?.index % MEMORY_KINDS.len()) as i32;
        Ok(())
    }

    fn PJRT_Memory_DebugString(args: PJRT_Memory_DebugString_Args) {
        give_text!(args.debug_string, debug_string_size = &object(args.memory)?.debug)
    }

    fn PJRT_Memory_ToString(args: PJRT_Memory_ToString_Args) {
        give_text!(args.to_string, to_string_size = &object(args.memory)?.debug)
    }

    fn PJRT_Memory_AddressableByDevices(args: PJRT_Memory_AddressableByDevices_Args) {
        let memory = object(args.memory)?;
        let client = memory.client()?;
        let device = &client.device_list()[memory.device_index()..=memory.device_index()];
        (args.devices, args.num_devices) = (device.as_ptr(), device.len());
        Ok(())
    }
}

/// The client and memory a caller names by device or memory; memory wins.
///
/// # Safety
/// Both are null or handles of this plugin.
pub(super) unsafe fn place(
    device: *mut PJRT_Device,
    memory: *mut PJRT_Memory,
) -> Result<(Arc<Client>, usize), Failure> {
    // SAFETY: by the contract above.
    unsafe {
        if memory.is_null() {
            let device = object(device)?;
            let client = device.client()?;
            client.must_be_local(device.index)?;
            Ok((client, device.default_memory()))
        } else {
            let memory = object(memory)?;
            let client = memory.client()?;
            client.must_be_local(memory.device_index())?;
            Ok((client, memory.index))
        }
    }
}

/// Dimensions a caller passes.
///
/// # Safety
/// `dims` is null or points to `num_dims` readable numbers.
pub(super) unsafe fn sizes(dims: *const i64, num_dims: usize) -> Result<Vec<usize>, Failure> {
    // SAFETY: by the contract above.
    let dims = unsafe { list(dims, num_dims) };
    dims.iter().map(|&d| usize::try_from(d).map_err(|_| Failure::invalid(format!("a dimension of {d}")))).collect()
}
