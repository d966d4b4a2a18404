//! Topologies: the devices a program may be compiled for, and the plugin's own attributes.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::OnceLock;

use pjrt_sys::*;

use super::call::{Failure, bytes, entries, give_bytes, give_text, handles, object};
use super::client::MEMORY_KINDS;
use super::named::{self, Named, NamedList};
use super::settings::Settings;
use crate::kernels::isa::CpuIsa;

/// What a serialized topology begins with; the number is the format's version.
const MAGIC: &str = "tpubridge-cpu-topology 1 ";

/// A device that need not be present.
pub(crate) struct Description {
    pub(super) id: usize,
    /// The process it belongs to.
    pub(super) process: usize,
    pub(super) text: String,
    pub(super) attributes: NamedList,
}

/// Devices of one or more processes.
pub(crate) struct Topology {
    pub(super) platform_name: String,
    /// With the tier of instruction sets.
    pub(super) platform_version: String,
    pub(super) isa: CpuIsa,
    pub(super) descriptions: Box<[Description]>,
    list: Vec<*mut PJRT_DeviceDescription>,
    attributes: NamedList,
}

// SAFETY: `list` leads into `descriptions`, which is never written and does not move.
unsafe impl Send for Topology {}
// SAFETY: as for `Send`.
unsafe impl Sync for Topology {}

handles! { PJRT_TopologyDescription => Topology, }

impl Topology {
    pub(super) fn new(settings: &Settings) -> Topology {
        Topology::of_processes(settings, &[settings.num_devices])
    }

    /// Devices of processes that have so many each.
    pub(super) fn of_processes(settings: &Settings, counts: &[usize]) -> Topology {
        let num_devices: usize = counts.iter().sum();
        let owners = counts.iter().enumerate().flat_map(|(process, &count)| std::iter::repeat_n(process, count));
        let isa = settings.isa.unwrap_or_else(CpuIsa::detect);
        let describe = |(id, process)| Description {
            id,
            process,
            text: format!("CpuDevice(id={id})"),
            attributes: NamedList::new(vec![("isa".into(), Named::Text(isa.to_string()))]),
        };
        let descriptions: Box<[Description]> = owners.enumerate().map(describe).collect();
        let list = descriptions.iter().map(|d| (&raw const *d).cast_mut().cast()).collect();
        let attributes = NamedList::new(vec![("num_devices".into(), Named::Int(num_devices as i64))]);
        let platform_version = format!("{} ({isa})", super::PLATFORM_VERSION);
        Topology {
            platform_name: settings.platform_name.clone(),
            platform_version,
            isa,
            descriptions,
            list,
            attributes,
        }
    }

    pub(super) fn description(&self, index: usize) -> *mut PJRT_DeviceDescription {
        self.list[index]
    }

    fn into_raw(self) -> *mut PJRT_TopologyDescription {
        Box::into_raw(Box::new(self)).cast()
    }
}

/// What this plugin says about itself.
fn plugin_attributes() -> &'static NamedList {
    static ATTRIBUTES: OnceLock<NamedList> = OnceLock::new();
    ATTRIBUTES.get_or_init(|| {
        NamedList::new(vec![
            ("stablehlo_current_version".into(), Named::Ints(super::STABLEHLO_CURRENT.to_vec())),
            ("stablehlo_minimum_version".into(), Named::Ints(super::STABLEHLO_MINIMUM.to_vec())),
        ])
    })
}

entries! {
    fn PJRT_Plugin_Initialize(args: PJRT_Plugin_Initialize_Args) {
        let _ = args;
        Ok(())
    }

    fn PJRT_Plugin_Attributes(args: PJRT_Plugin_Attributes_Args) {
        let attributes = plugin_attributes();
        (args.attributes, args.num_attributes) = (attributes.as_ptr(), attributes.len());
        Ok(())
    }

    fn PJRT_TopologyDescription_Create(args: PJRT_TopologyDescription_Create_Args) {
        let settings = Settings::read(named::decode(args.create_options, args.num_options))?;
        args.topology = Topology::new(&settings).into_raw();
        Ok(())
    }

    fn PJRT_TopologyDescription_Destroy(args: PJRT_TopologyDescription_Destroy_Args) {
        if !args.topology.is_null() {
            drop(Box::from_raw(args.topology.cast::<Topology>()));
        }
        Ok(())
    }

    fn PJRT_TopologyDescription_PlatformName(args: PJRT_TopologyDescription_PlatformName_Args) {
        give_text!(args.platform_name, platform_name_size = &object(args.topology)?.platform_name)
    }

    fn PJRT_TopologyDescription_PlatformVersion(args: PJRT_TopologyDescription_PlatformVersion_Args) {
        give_text!(args.platform_version, platform_version_size = &object(args.topology)?.platform_version)
    }

    fn PJRT_TopologyDescription_GetDeviceDescriptions(args: PJRT_TopologyDescription_GetDeviceDescriptions_Args) {
        let list = &object(args.topology)?.list;
        (args.descriptions, args.num_descriptions) = (list.as_ptr(), list.len());
        Ok(())
    }

    fn PJRT_TopologyDescription_Attributes(args: PJRT_TopologyDescription_Attributes_Args) {
        let attributes = &object(args.topology)?.attributes;
        (args.attributes, args.num_attributes) = (attributes.as_ptr(), attributes.len());
        Ok(())
    }

    fn PJRT_TopologyDescription_Serialize(args: PJRT_TopologyDescription_Serialize_Args) {
        let text = format!("{MAGIC}{}", object(args.topology)?.descriptions.len());
        give_bytes!(args.serialized_topology, serialized_topology_deleter = text.into_bytes())
    }

    fn PJRT_TopologyDescription_Deserialize(args: PJRT_TopologyDescription_Deserialize_Args) {
        let bytes = bytes(args.serialized_topology, args.serialized_topology_size);
        let count = std::str::from_utf8(bytes).ok().and_then(|t| t.strip_prefix(MAGIC)).and_then(|n| n.parse::<i64>().ok());
        let count = count.ok_or_else(|| Failure::invalid("these bytes are not a topology of this plugin"))?;
        let settings = Settings::read(vec![("cpu_device_count".into(), Named::Int(count))])?;
        args.topology = Topology::new(&settings).into_raw();
        Ok(())
    }

    fn PJRT_TopologyDescription_GetMemorySpaceKindIds(args: PJRT_TopologyDescription_GetMemorySpaceKindIds_Args) {
        // A kind's id is its position among `MEMORY_KINDS`.
        static KIND_IDS: [c_int; MEMORY_KINDS.len()] = [0, 1, 2];
        object(args.topology)?;
        (args.memory_space_kind_ids, args.num_memory_space_kind_ids) = (KIND_IDS.as_ptr(), KIND_IDS.len());
        Ok(())
    }

    fn PJRT_TopologyDescription_Fingerprint(args: PJRT_TopologyDescription_Fingerprint_Args) {
        args.fingerprint = object(args.topology)?.descriptions.len() as u64;
        Ok(())
    }
}
