//! What a compilation for a slice says, in numbers.

use serde::{Deserialize, Serialize};

/// Version of the record that `--json` prints and the cache stores.
pub const REPORT_VERSION: u32 = 1;

/// How much of the compiler ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompileMode {
    /// Partitioning, scheduling and memory planning only: no executable.
    Quick,
    /// Everything, down to the executable.
    #[default]
    Full,
}

/// Memory of one device, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportMemory {
    /// What the compiler may use.
    pub limit: u64,
    /// Program arguments: parameters, optimizer state, inputs.
    pub arguments: u64,
    /// Program results.
    pub outputs: u64,
    /// Results that take the place of donated arguments (counted in both of the above).
    pub aliased: u64,
    /// Everything alive only inside the program.
    pub temporaries: u64,
    /// Constants kept in device memory.
    pub constants: Option<u64>,
    /// Machine code (full mode).
    pub code: Option<u64>,
    /// The most that is alive at once, as the compiler reports it.
    pub peak: Option<u64>,
    /// What is held against the limit.
    pub total: u64,
    /// Temporaries placed in host memory.
    pub host_temporaries: Option<u64>,
}

/// One kind of collective over a whole step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportCollective {
    /// As in `all-reduce`.
    pub kind: String,
    /// Instructions in the program.
    pub instructions: u64,
    /// Executions in a step, loops counted.
    pub executions: u64,
    /// Bytes each device hands to them in a step.
    pub bytes: u64,
    /// Devices in a group, the largest of them.
    pub group_size: u64,
}

/// A buffer that fills memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportBuffer {
    /// The instruction that defines it.
    pub instruction: String,
    /// Its shape.
    pub shape: String,
    /// Bytes with padding.
    pub bytes: u64,
    /// Name the source gave it, if the program carries one.
    pub source: Option<String>,
}

/// What a compilation says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// Module name.
    pub module: String,
    /// Slice, in canonical form.
    pub slice: String,
    /// Topology, as the compiler was told.
    pub topology: String,
    /// Devices of the slice.
    pub devices: u64,
    /// Data-parallel copies of the program.
    pub replicas: u64,
    /// Devices each copy is partitioned over.
    pub partitions: u64,
    /// How much of the compiler ran.
    pub mode: CompileMode,
    /// The compiler.
    pub plugin: String,
    /// Memory of one device.
    pub memory: ReportMemory,
    /// FLOPs of matmuls on one device in a step, loops counted.
    pub dot_flops: Option<f64>,
    /// The compiler's own count, which takes each loop body once.
    pub compiler_flops: Option<f64>,
    /// Bytes accessed, by the compiler's own count.
    pub bytes_accessed: Option<f64>,
    /// Collectives by kind.
    pub collectives: Vec<ReportCollective>,
    /// Largest buffers, where the buffer assignment is known.
    pub largest_buffers: Vec<ReportBuffer>,
    /// Size of the serialized executable (full mode).
    pub executable_bytes: Option<u64>,
    /// Fingerprint of the executable, in hexadecimal (full mode).
    pub fingerprint: Option<String>,
    /// Seconds the compiler took.
    pub compile_seconds: f64,
    /// Remarks: what could not be read, what was assumed.
    pub notes: Vec<String>,
}

impl Report {
    /// Bytes left below the limit; negative when it does not fit.
    pub fn headroom(&self) -> i64 {
        self.memory.limit as i64 - self.memory.total as i64
    }
}
