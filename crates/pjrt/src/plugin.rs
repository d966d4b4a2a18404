//! A loaded plugin: opening, checking, initializing, and what can be asked of it without a device.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{Api, TableHead, chars};
use crate::attribute::{self, AttributeValue, Encoded};
use crate::client::{Client, ClientOptions};
use crate::compile_options::CompileOptions;
use crate::error::Error;
use crate::executable::Executable;
use crate::extension::{
    Layouts, Megascale, MemoryDescriptions, PhaseCompile, Profiler, Shardings, TpuExecutable, TpuTopology,
};
use crate::program::EncodedProgram;
use crate::topology::Topology;
use crate::version::ApiVersion;

/// A table that ends before this cannot even be initialized.
const MIN_TABLE_BYTES: usize = offset_of!(PJRT_Api, PJRT_Plugin_Initialize) + size_of::<usize>();

/// No table is this long: a larger size means that the symbol answered something else.
const MAX_TABLE_BYTES: usize = 1 << 16;

/// Which extension a plugin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtensionId(pub u32);

impl ExtensionId {
    /// The extension's name, if it is known.
    pub fn name(self) -> Option<&'static str> {
        EXTENSION_TYPES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }
}

impl fmt::Display for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "extension {}", self.0),
        }
    }
}

/// A loaded and initialized plugin. Clones are the same plugin.
#[derive(Clone)]
pub struct Plugin {
    pub(crate) api: Arc<Api>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("path", &self.api.path).field("version", &self.api.version).finish()
    }
}

impl Plugin {
    /// Opens a plugin and initializes it. The library stays in the process for good.
    ///
    /// Opening runs the library's own code: load only files you would execute. What a plugin reads from the environment
    /// must be set before; for libtpu see [`libtpu_environment`](crate::libtpu_environment).
    pub fn load(path: &Path) -> Result<Self, Error> {
        // The loader looks a bare name up in system folders; a file of that name in the current folder is what is meant.
        let bare = path.parent().is_some_and(|parent| parent.as_os_str().is_empty());
        let file = if bare && path.exists() { Path::new(".").join(path) } else { path.to_path_buf() };
        // SAFETY: initializers of the library run here. That they are sound is the contract of a plugin file, and the
        // documentation above says so to the caller.
        let library = unsafe { libloading::Library::new(&file) };
        let library = library.map_err(|source| Error::Open { path: path.into(), source })?;
        // SAFETY: `GetPjrtApi` has this type in every plugin.
        let symbol = unsafe { library.get::<GetPjrtApi>(b"GetPjrtApi\0") };
        let get_api = *symbol.map_err(|source| Error::NotAPlugin { path: path.into(), source })?;
        // Plugins start threads that never end, so the code must stay mapped.
        std::mem::forget(library);
        // SAFETY: the symbol takes nothing and returns the table.
        let table = unsafe { get_api() };
        // SAFETY: the table belongs to a library that stays mapped.
        unsafe { Self::from_table(table, Some(path)) }
    }

    /// Uses a table that is linked into this program, and initializes it.
    ///
    /// # Safety
    /// `table` is null or points to a table that stays valid for the rest of the process, begins with its size in bytes,
    /// and whose functions follow the C header as far as that size reaches.
    pub unsafe fn from_api(table: *const PJRT_Api) -> Result<Self, Error> {
        // SAFETY: as the caller promises.
        unsafe { Self::from_table(table, None) }
    }

    /// # Safety
    /// As for [`Plugin::from_api`].
    unsafe fn from_table(table: *const PJRT_Api, path: Option<&Path>) -> Result<Self, Error> {
        let path = path.map(Path::to_path_buf);
        let unusable = |what: String| Error::Table { path: path.clone(), what };
        if table.is_null() {
            return Err(unusable("GetPjrtApi answered null".into()));
        }
        // SAFETY: a table begins with its size.
        let struct_size = unsafe { table.cast::<usize>().read() };
        if struct_size > MAX_TABLE_BYTES {
            return Err(unusable(format!("it states a size of {struct_size} bytes")));
        }
        if struct_size < MIN_TABLE_BYTES {
            return Err(unusable(format!(
                "it is {struct_size} bytes long and needs {MIN_TABLE_BYTES}; the plugin is too old"
            )));
        }
        // SAFETY: the table is longer than its head.
        let head = unsafe { table.cast::<TableHead>().read() };
        debug_assert_eq!(head.struct_size, struct_size);
        let version = ApiVersion { major: head.version.major_version, minor: head.version.minor_version };
        if version.major != PJRT_API_MAJOR {
            return Err(Error::Version { path, found: version });
        }
        let api = Api { table, path, version };
        // SAFETY: the arguments hold nothing but their size.
        unsafe { api.call(slot::PJRT_Plugin_Initialize, &mut PJRT_Plugin_Initialize_Args::new())? };
        Ok(Self { api: Arc::new(api) })
    }

    /// The version of the interface the plugin was built with.
    pub fn api_version(&self) -> ApiVersion {
        self.api.version
    }

    /// The file, unless the plugin is linked into this program.
    pub fn path(&self) -> Option<&Path> {
        self.api.path.as_deref()
    }

    /// What the plugin says about itself, such as `xla_version` and `stablehlo_current_version`.
    pub fn attributes(&self) -> Result<Vec<(String, AttributeValue)>, Error> {
        let mut args = PJRT_Plugin_Attributes_Args::new();
        // SAFETY: the arguments hold nothing but their size.
        unsafe { self.api.call(slot::PJRT_Plugin_Attributes, &mut args)? };
        // SAFETY: attributes live as long as the process.
        Ok(unsafe { attribute::decode(args.attributes, args.num_attributes) })
    }

    /// The extensions the plugin has, in its order.
    pub fn extensions(&self) -> Vec<ExtensionId> {
        self.api.extensions().into_iter().map(|(id, _)| ExtensionId(id)).collect()
    }

    /// Whether the plugin has a function of the table.
    pub fn has<F: Copy>(&self, slot: Slot<PJRT_Api, F>) -> bool {
        // SAFETY: `api.table` is a checked table.
        unsafe { slot.read(self.api.table) }.is_some()
    }

    /// Functions of the table this crate knows and the plugin lacks.
    pub fn missing_calls(&self) -> Vec<&'static str> {
        let lacks = |offset: usize| {
            // SAFETY: a checked table begins with its size.
            let struct_size = unsafe { self.api.table.cast::<usize>().read() };
            // SAFETY: read only within the stated size, where every slot is one pointer.
            offset + size_of::<usize>() > struct_size
                || unsafe { self.api.table.byte_add(offset).cast::<usize>().read() } == 0
        };
        SLOTS.iter().filter(|(_, offset)| lacks(*offset)).map(|(name, _)| *name).collect()
    }

    /// A topology by name, such as `v5e:2x2`, present or not. What options there are depends on the plugin.
    pub fn topology<S: AsRef<str>>(&self, name: &str, options: &[(S, AttributeValue)]) -> Result<Topology, Error> {
        let options = Encoded::new(options)?;
        let mut args = PJRT_TopologyDescription_Create_Args::new();
        args.topology_name = chars(name.as_bytes());
        args.topology_name_size = name.len();
        args.create_options = options.as_ptr();
        args.num_options = options.len();
        // SAFETY: name and options are borrowed for the call.
        unsafe { self.api.call(slot::PJRT_TopologyDescription_Create, &mut args)? };
        Topology::owned(&self.api, args.topology, slot::PJRT_TopologyDescription_Create.name())
    }

    /// A topology from what [`Topology::serialize`] gave.
    pub fn deserialize_topology(&self, serialized: &[u8]) -> Result<Topology, Error> {
        let mut args = PJRT_TopologyDescription_Deserialize_Args::new();
        args.serialized_topology = chars(serialized);
        args.serialized_topology_size = serialized.len();
        // SAFETY: the bytes are borrowed for the call.
        unsafe { self.api.call(slot::PJRT_TopologyDescription_Deserialize, &mut args)? };
        Topology::owned(&self.api, args.topology, slot::PJRT_TopologyDescription_Deserialize.name())
    }

    /// Compiles for a topology, with or without devices. A client lets the compiler measure on it.
    ///
    /// A compiler may end the process on a bad program; callers that cannot afford this compile in a child process.
    pub fn compile(
        &self,
        topology: &Topology,
        program: &EncodedProgram,
        options: &CompileOptions,
        client: Option<&Client>,
    ) -> Result<Executable, Error> {
        self.api.same(topology.api())?;
        let options = options.to_bytes();
        let program = program.raw();
        let mut args = PJRT_Compile_Args::new();
        args.topology = topology.raw();
        args.program = &program.raw;
        args.compile_options = chars(&options);
        args.compile_options_size = options.len();
        if let Some(client) = client {
            self.api.same(client.api())?;
            args.client = client.raw();
        }
        // SAFETY: topology, program, options and client are borrowed for the call and belong to this plugin.
        unsafe { self.api.call(slot::PJRT_Compile, &mut args)? };
        Executable::owned(&self.api, args.executable, None, slot::PJRT_Compile.name())
    }

    /// Connects to the plugin's devices.
    pub fn client(&self, options: &ClientOptions) -> Result<Client, Error> {
        Client::create(&self.api, options)
    }

    /// The phase compile extension, if the plugin has it.
    pub fn phase_compile(&self) -> Option<PhaseCompile> {
        PhaseCompile::find(&self.api)
    }

    /// The plugin's profiler, if it has one.
    pub fn profiler(&self) -> Option<Profiler> {
        Profiler::find(&self.api)
    }

    /// The layouts extension, if the plugin has it.
    pub fn layouts(&self) -> Option<Layouts> {
        Layouts::find(&self.api)
    }

    /// The memory descriptions extension, if the plugin has it.
    pub fn memory_descriptions(&self) -> Option<MemoryDescriptions> {
        MemoryDescriptions::find(&self.api)
    }

    /// The shardings extension, if the plugin has it.
    pub fn shardings(&self) -> Option<Shardings> {
        Shardings::find(&self.api)
    }

    /// The TPU topology extension, if the plugin has it.
    pub fn tpu_topology(&self) -> Option<TpuTopology> {
        TpuTopology::find(&self.api)
    }

    /// The TPU executable extension, if the plugin has it.
    pub fn tpu_executable(&self) -> Option<TpuExecutable> {
        TpuExecutable::find(&self.api)
    }

    /// The multi-slice extensions, if the plugin has both.
    pub fn megascale(&self) -> Option<Megascale> {
        Megascale::find(&self.api)
    }
}
