//! Names that producers and readers of XSpace agree on: planes, lines and stats.

/// Plane of a TPU core, followed by its number.
pub const TPU_PLANE: &str = "/device:TPU:";
/// Plane of a GPU, followed by its number.
pub const GPU_PLANE: &str = "/device:GPU:";
/// Plane of a device that is neither, followed by its kind and number.
pub const CUSTOM_PLANE: &str = "/device:CUSTOM:";
/// Plane of the host's threads.
pub const HOST_PLANE: &str = "/host:CPU";
/// Plane whose event metadata hold the programs that ran, as `HloProto`.
pub const METADATA_PLANE: &str = "/host:metadata";
/// Plane with the time of the recording as stats.
pub const TASK_PLANE: &str = "Task Environment";

/// Line of executions of programs.
pub const MODULES_LINE: &str = "XLA Modules";
/// Line of ops, nested: loops and branches around what they run.
pub const OPS_LINE: &str = "XLA Ops";
/// Line of ops that run beside others: copies and collectives, from start to done.
pub const ASYNC_OPS_LINE: &str = "Async XLA Ops";
/// Line of steps.
pub const STEPS_LINE: &str = "Steps";

/// Stats by their names.
pub mod stat {
    /// Peak rate of the matrix units, on a plane.
    pub const PEAK_TERAFLOPS: &str = "peak_teraflops_per_second";
    /// Peak bandwidth of HBM, on a plane.
    pub const PEAK_HBM_GIGABYTES: &str = "peak_hbm_bw_gigabytes_per_second";
    /// Kind of a device, on a plane.
    pub const DEVICE_TYPE: &str = "device_type_string";
    /// Encoded `HloProto`, on event metadata of [`super::METADATA_PLANE`].
    pub const HLO_PROTO: &str = "Hlo Proto";
    /// Category of an op.
    pub const HLO_CATEGORY: &str = "hlo_category";
    /// Name of the op that an event is of.
    pub const HLO_OP: &str = "hlo_op";
    /// Name of the program that an event is of.
    pub const HLO_MODULE: &str = "hlo_module";
    /// Number of the program that an event is of.
    pub const PROGRAM_ID: &str = "program_id";
    /// Name of the op in the framework: the path of its scopes.
    pub const TF_OP: &str = "tf_op";
    /// Floating point operations of one execution.
    pub const FLOPS: &str = "flops";
    /// Bytes read and written by one execution.
    pub const BYTES_ACCESSED: &str = "bytes_accessed";
    /// Source file and line.
    pub const SOURCE: &str = "source";
    /// Number of a step, on markers that frameworks write.
    pub const STEP_NUM: &str = "step_num";
    /// Groups events of one step.
    pub const GROUP_ID: &str = "group_id";
    /// Ties a launch on the host to the run on the device.
    pub const RUN_ID: &str = "run_id";
    /// Ties a launch on the host to a kernel.
    pub const CORRELATION_ID: &str = "correlation_id";
    /// Ordinal of a device on its host.
    pub const DEVICE_ORDINAL: &str = "device_ordinal";
}
