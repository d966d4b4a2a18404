//! The PJRT C ABI as declarations, sizes and offsets held by tests.
//!
//! Names are those of the C header (API 0.114), so that its documentation applies. Every argument struct opens with its
//! size: `new()` fills that in with [`STRUCT_SIZE`](PJRT_Program::STRUCT_SIZE) and leaves the rest zero. In struct
//! declarations `// out` marks what the plugin writes.
//!
//! C enums are integer types with constants, never Rust enums: a newer plugin may answer a value unknown here.
//!
//! A table may be shorter than [`PJRT_Api`] (older plugin) or longer (newer plugin). A client holds `*const PJRT_Api`,
//! never a reference, and looks functions up with [`slot`], which compares with the size the table states. Extension
//! records work the same way.
//!
//! ```
//! use pjrt_sys::PJRT_Client_Create_Args;
//!
//! let args = PJRT_Client_Create_Args::new();
//! assert_eq!(args.struct_size, PJRT_Client_Create_Args::STRUCT_SIZE);
//! ```

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod abi;
mod api;
mod buffer;
mod client;
mod device;
mod error;
mod event;
mod executable;
mod execute;
mod extension;
pub mod extensions;
mod key_value;
mod memory;
mod named_value;
mod plugin;
mod topology;
mod transfer;

pub use abi::Slot;
pub use api::*;
pub use buffer::*;
pub use client::*;
pub use device::*;
pub use error::*;
pub use event::*;
pub use executable::*;
pub use execute::*;
pub use extension::*;
pub use key_value::*;
pub use memory::*;
pub use named_value::*;
pub use plugin::*;
pub use topology::*;
pub use transfer::*;
