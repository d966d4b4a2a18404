//! The chain of extensions: records a plugin adds beside its table, found by type.

use crate::abi::record;

record! {
    /// Head of every extension record: its size, its type and the next record or null.
    PJRT_Extension_Base {
        struct_size: usize,
        r#type: PJRT_Extension_Type,
        next: *mut PJRT_Extension_Base,
    }
}

/// Which extension a record is.
pub type PJRT_Extension_Type = u32;

/// A function of an extension these declarations do not describe.
pub type Unused = unsafe extern "C" fn();

macro_rules! extension_types {
    ($($value:literal $short:literal $name:ident,)*) => {
        $(
            #[doc = concat!("The ", $short, " extension.")]
            pub const $name: PJRT_Extension_Type = $value;
        )*

        /// Number and short name of every extension type known here.
        pub const EXTENSION_TYPES: &[(PJRT_Extension_Type, &str)] = &[$(($value, $short),)*];
    };
}

extension_types! {
    0 "GpuCustomCall" PJRT_Extension_Type_Gpu_Custom_Call,
    1 "Profiler" PJRT_Extension_Type_Profiler,
    2 "CustomPartitioner" PJRT_Extension_Type_Custom_Partitioner,
    3 "Stream" PJRT_Extension_Type_Stream,
    4 "Layouts" PJRT_Extension_Type_Layouts,
    5 "FFI" PJRT_Extension_Type_FFI,
    6 "MemoryDescriptions" PJRT_Extension_Type_MemoryDescriptions,
    7 "Triton" PJRT_Extension_Type_Triton,
    8 "RawBuffer" PJRT_Extension_Type_RawBuffer,
    9 "PhaseCompile" PJRT_Extension_Type_PhaseCompile,
    10 "Example" PJRT_Extension_Type_Example,
    11 "Unknown" PJRT_Extension_Type_Unknown,
    12 "CrossHostTransfers" PJRT_Extension_Type_CrossHostTransfers,
    13 "ExecutableMetadata" PJRT_Extension_Type_ExecutableMetadata,
    14 "Callback" PJRT_Extension_Type_Callback,
    15 "HostAllocator" PJRT_Extension_Type_HostAllocator,
    16 "TpuTopology" PJRT_Extension_Type_TpuTopology,
    17 "TpuExecutable" PJRT_Extension_Type_TpuExecutable,
    18 "Megascale" PJRT_Extension_Type_Megascale,
    19 "Shardings" PJRT_Extension_Type_Shardings,
    20 "AbiVersion" PJRT_Extension_Type_AbiVersion,
    21 "Collectives" PJRT_Extension_Type_Collectives,
    22 "MultiSlice" PJRT_Extension_Type_MultiSlice,
    23 "HostMemoryAllocator" PJRT_Extension_Type_HostMemoryAllocator,
    24 "XlaTransform" PJRT_Extension_Type_XlaTransform,
}
