//! Safe client of any PJRT plugin: find, load, compile, transfer, execute, topology.
//!
//! A [`Plugin`] is a loaded library. It gives [`Topology`] descriptions and compiles for them without a device, and it
//! makes a [`Client`] where devices are present. Everything is a value: there is no registry and no default device, and
//! two plugins can be used side by side.
//!
//! What a plugin can do is asked at run time. A call the plugin does not have is [`Error::Unsupported`], an extension it
//! does not have is `None`.
//!
//! Every handle keeps what it depends on alive: a [`Buffer`] keeps its [`Client`], a client its plugin. Libraries are
//! never unloaded, because plugins start threads that do not end.
//!
//! ```
//! use pjrt::discover::{Discovery, plugins};
//!
//! let search = Discovery { explicit: Some("no-such-plugin.so".into()), ..Discovery::from_environment() };
//! let found = plugins(&search);
//! assert_eq!(found.rejected[0].path.to_str(), Some("no-such-plugin.so"));
//! ```

mod api;
mod attribute;
mod buffer;
mod buffer_type;
mod client;
mod compile_options;
mod device;
pub mod discover;
mod error;
mod event;
mod executable;
pub mod extension;
mod handle;
mod key_value;
mod libtpu;
mod loaded;
mod memory;
mod plugin;
mod program;
mod topology;
mod transfer;
mod version;

pub use attribute::AttributeValue;
pub use buffer::{Buffer, HostRead};
pub use buffer_type::BufferType;
pub use client::{Client, ClientOptions, HostSource, Placement};
pub use compile_options::{CompileOptions, DeviceAssignment, Effort, OptionOverride};
pub use device::{Device, DeviceDescription, DeviceMemoryStats};
pub use error::{Code, Error, ErrorFamily, Payload};
pub use event::Event;
pub use executable::{CompiledMemoryStats, Executable};
pub use handle::SharedBytes;
pub use key_value::{KeyValueError, KeyValueStore};
pub use libtpu::libtpu_environment;
pub use loaded::{Argument, ExecuteOptions, Launch, LoadedExecutable, LogicalDevice};
pub use memory::Memory;
pub use pjrt_sys::slot;
pub use plugin::{ExtensionId, Plugin};
pub use program::{EncodedProgram, Format};
pub use topology::Topology;
pub use transfer::{BufferSpec, ChunkPosition, TransferManager};
pub use version::ApiVersion;
