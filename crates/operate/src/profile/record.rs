//! What a profile says, as plain data: the record that `--json` prints and that tables and pages show.

use serde::Serialize;

/// A measured profile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProfileReport {
    /// Files that were read.
    pub files: Vec<String>,
    /// Hosts that were recorded, where the files name them.
    pub hosts: Vec<String>,
    /// All devices together.
    pub totals: ProfileTotals,
    /// Devices: cores, chips or GPUs, as the producer splits them.
    pub devices: Vec<MeasuredDevice>,
    /// Steps, where they were marked.
    pub steps: Option<MeasuredSteps>,
    /// Programs that ran.
    pub programs: Vec<MeasuredProgram>,
    /// Ops, most self time first.
    pub ops: Vec<MeasuredOp>,
    /// The same time by category.
    pub categories: Vec<TimeGroup>,
    /// By source line.
    pub sources: Vec<TimeGroup>,
    /// By scope: the name stack of the framework.
    pub scopes: Vec<TimeGroup>,
    /// Collectives.
    pub collectives: MeasuredCollectives,
    /// Ops that ran beside others, from start to done.
    pub transfers: Vec<MeasuredTransfer>,
    /// What devices waited for, outside of ops.
    pub device_waits: Vec<TimeGroup>,
    /// What the host did, by kind.
    pub host_kinds: Vec<TimeGroup>,
    /// What the host did, most self time first.
    pub host: Vec<HostEvent>,
    /// Memory of devices, where allocations were recorded.
    pub memory: Vec<MeasuredMemory>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Sums over all devices. Time is device time: two devices for one second are two seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProfileTotals {
    /// From the first to the last event of a device, summed over devices.
    pub device_s: f64,
    /// Of these, with an op running.
    pub busy_s: f64,
    /// Of these, without.
    pub idle_s: f64,
    /// Time of ops without the ops inside them.
    pub self_s: f64,
    /// Floating point operations, as the profile states them.
    pub flops: f64,
    /// Bytes of HBM, as the profile states them.
    pub hbm_bytes: f64,
    /// Share of the peak rate of the matrix units over the whole time, where the profile has peaks.
    pub flops_share: Option<f64>,
    /// Share of the peak bandwidth of HBM over the whole time, where the profile has peaks.
    pub hbm_share: Option<f64>,
    /// Matrix unit utilization by hardware counters, in percent, where they were read.
    pub counted_matrix_percent: Option<f64>,
    /// HBM utilization by hardware counters, in percent, where they were read.
    pub counted_hbm_percent: Option<f64>,
    /// Waiting for input: infeed ops.
    pub infeed_s: f64,
    /// Handing out results: outfeed ops.
    pub outfeed_s: f64,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredDevice {
    /// Name of its plane.
    pub name: String,
    /// Place of its file in the list of files.
    pub file: usize,
    /// What does the work.
    pub core: CoreKind,
    /// Chip or GPU, as the profile names it.
    pub device_type: String,
    /// Peak rate of its matrix units.
    pub peak_flops_per_s: Option<f64>,
    /// Peak bandwidth of its HBM.
    pub peak_hbm_bytes_per_s: Option<f64>,
    /// From its first to its last event.
    pub span_s: f64,
    /// With an op running.
    pub busy_s: f64,
    /// Without.
    pub idle_s: f64,
    /// Ops that ran.
    pub events: u64,
}

/// What does the work of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreKind {
    /// The TensorCore of a TPU, or any device with a line of XLA ops.
    #[default]
    TensorCore,
    /// A SparseCore of a TPU.
    SparseCore,
    /// A GPU.
    Gpu,
    /// The host's CPU, as XLA's device.
    Cpu,
}

/// Steps by their markers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredSteps {
    /// Who marked them: `device` or `host`.
    pub marked_by: &'static str,
    /// How many.
    pub count: u64,
    /// Mean length.
    pub mean_s: f64,
    /// Shortest.
    pub min_s: f64,
    /// Longest.
    pub max_s: f64,
    /// Standard deviation.
    pub deviation_s: f64,
    /// The steps in order, the first thousand.
    pub steps: Vec<ProfileStep>,
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProfileStep {
    /// Its number or name.
    pub name: String,
    /// Length: of the device that took longest.
    pub seconds: f64,
}

/// A program that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredProgram {
    /// Name.
    pub name: String,
    /// Number, where the profile has one.
    pub id: Option<u64>,
    /// Executions on all devices.
    pub executions: u64,
    /// Mean length of one.
    pub mean_s: f64,
    /// Shortest.
    pub min_s: f64,
    /// Longest.
    pub max_s: f64,
    /// Whether the file holds its HLO.
    pub has_hlo: bool,
    /// What is predicted for one execution, where the HLO is inside and the chip is known.
    pub predicted_s: Option<f64>,
    /// The slice the prediction is for.
    pub predicted_for: Option<String>,
    /// HBM that the compiler set aside on each device.
    pub hbm_bytes: Option<u64>,
}

/// All executions of one op of one program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeasuredOp {
    /// Name of the program, with its number.
    pub program: String,
    /// Name of the instruction, or of the kernel.
    pub name: String,
    /// Category, as the compiler names it.
    pub category: String,
    /// What ran it.
    pub core: CoreKind,
    /// HLO text, cut.
    pub expression: String,
    /// Scope and name in the framework.
    pub scope: String,
    /// Source file and line.
    pub source: String,
    /// Executions on all devices.
    pub occurrences: u64,
    /// Devices that ran it.
    pub devices: u64,
    /// Time, with the ops inside.
    pub total_s: f64,
    /// Time without them.
    pub self_s: f64,
    /// Shortest execution.
    pub min_s: f64,
    /// Longest execution.
    pub max_s: f64,
    /// Self time as a share of device time.
    pub share: f64,
    /// Floating point operations of all executions.
    pub flops: f64,
    /// Bytes of HBM of all executions.
    pub hbm_bytes: f64,
    /// Where it stands under the roofline, where that is known.
    pub roofline: Option<MeasuredRoofline>,
    /// Self time of one execution as predicted, where the HLO is inside and the chip is known.
    pub predicted_s: Option<f64>,
    /// What the prediction says it is limited by.
    pub predicted_bound: Option<&'static str>,
    /// What it does, where the HLO is inside and the chip is known.
    #[serde(skip)]
    pub work: Option<plan::OpWork>,
}

impl MeasuredOp {
    /// One execution beside its price. Of a collective the shortest execution counts: the others wait for devices that come late.
    pub fn profiled(&self) -> plan::accuracy::ProfiledOp {
        let times = self.occurrences.max(1) as f64;
        let mean = self.self_s / times;
        plan::accuracy::ProfiledOp {
            name: self.name.clone(),
            text: self.expression.clone(),
            executions: self.occurrences,
            measured_s: if super::is_collective(&self.category) { mean.min(self.min_s) } else { mean },
            stated: plan::StatedWork { flops: self.flops / times, bytes: self.hbm_bytes / times },
            work: self.work.clone(),
        }
    }
}

/// An op under the roofline of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredRoofline {
    /// Floating point operations per byte of HBM.
    pub intensity: f64,
    /// Floating point operations per second.
    pub flops_per_s: f64,
    /// Bytes of HBM per second.
    pub hbm_bytes_per_s: f64,
    /// Share of what the roof allows at this intensity.
    pub share_of_roof: f64,
    /// Which roof: `compute` or `HBM`.
    pub bound: &'static str,
}

/// Time by something ops or events have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeGroup {
    /// What.
    pub name: String,
    /// Events.
    pub occurrences: u64,
    /// Self time.
    pub self_s: f64,
    /// Share of device time, or of all such time for the host.
    pub share: f64,
    /// Floating point operations.
    pub flops: f64,
    /// Bytes of HBM.
    pub hbm_bytes: f64,
}

/// Collectives: how long they took, and how much of that nothing else ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredCollectives {
    /// Executions.
    pub occurrences: u64,
    /// Time under way, hidden or not, summed over devices.
    pub total_s: f64,
    /// Time the device did nothing else.
    pub exposed_s: f64,
    /// The exposed time as a share of device time.
    pub exposed_share: f64,
    /// Bytes that devices sent to others, where the HLO is inside.
    pub sent_bytes: Option<f64>,
    /// Those over the time under way: bandwidth of the links of one device, one way.
    pub sent_bytes_per_s: Option<f64>,
}

/// Ops of one kind that ran beside others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredTransfer {
    /// Name of the op that starts it.
    pub name: String,
    /// Name of the program, with its number.
    pub program: String,
    /// Category.
    pub category: String,
    /// Whether it moves data to or from the host's memory.
    pub is_host: bool,
    /// How often.
    pub occurrences: u64,
    /// Time from start to done, waiting for others included.
    pub total_s: f64,
    /// Bytes moved by all.
    pub bytes: f64,
}

/// What a host did under one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostEvent {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: &'static str,
    /// How often.
    pub occurrences: u64,
    /// Time.
    pub total_s: f64,
    /// Time without what is inside.
    pub self_s: f64,
    /// Longest.
    pub max_s: f64,
}

/// Memory of one allocator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredMemory {
    /// Name of the allocator.
    pub allocator: String,
    /// Allocations recorded.
    pub allocations: u64,
    /// Frees recorded.
    pub frees: u64,
    /// Most bytes in use while recording.
    pub peak_bytes: u64,
    /// Most bytes in use since the process began, as the allocator says.
    pub lifetime_peak_bytes: u64,
    /// Bytes free at the fullest moment.
    pub free_at_peak_bytes: u64,
}
