//! Facts about TPUs: generations, slices, hosts, memory, rates, prices; and about the GPUs they are compared with.
//!
//! A table: nothing here talks to a device, a network or a file. Every figure carries the place it was read from, and
//! where two places disagree the note beside the figure says so.
//!
//! ```
//! let slice: chips::Slice = "v4-8".parse()?;
//! assert_eq!((slice.chips(), slice.cores(), slice.devices()), (4, 8, 4));
//! assert_eq!(slice.topology_request().name, "v4:2x2x1");
//! # Ok::<(), chips::Error>(())
//! ```

mod accelerator;
mod egress;
mod error;
mod figure;
mod generation;
mod generations;
mod gpu;
mod overrides;
mod parse;
mod price;
pub mod quantity;
mod shape;
mod slice;
mod source;
mod spec;
mod zones;

pub use accelerator::{Accelerator, ComputeBoundBatch};
pub use egress::{BucketCloud, EgressPrice};
pub use error::{Error, ShapeFault};
pub use figure::Figure;
pub use generation::{Generation, PciId};
pub use gpu::Gpu;
pub use overrides::{Overrides, Quantity};
pub use price::{Price, PriceKind};
pub use shape::{ShapeRule, TwistRule, WrapRule};
pub use slice::{DeviceIds, MachineCount, Slice, TopologyRequest, Twist};
pub use spec::{
    ChipSpec, Cores, CountUnit, HostCount, HostSpec, MachineType, MemorySpec, Names, NetworkSpec, PowerWatts, Rates,
    RuntimeReserve,
};
pub use zones::{nearest_word, regions, zones};
