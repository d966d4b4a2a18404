//! libtpu's `RuntimeMetricService`: a client that reads any version of it, and a server that tells the same of devices that
//! our own runtime uses.
//!
//! libtpu serves it on port 8431 of every host whose chips are in use: memory, duty cycle, queues, latencies, and what every
//! core does. Which metrics there are depends on libtpu: they are listed by the service, not here.

mod activity;
mod client;
mod families;
mod messages;
mod reading;
mod service;
mod status;

pub use activity::{Activity, DeviceActivity, InFlight, LaunchedProgram};
pub use client::{HostMetrics, Patience, StatusFailure, read_host, read_status};
pub use families::device_families;
pub use reading::{Distribution, ListedMetric, MetricReading, MetricValue, Series};
pub use service::{DeviceSample, RuntimeMetricService, RuntimeSource};
pub use status::{CoreState, QueuedProgram, RuntimeStatus, Sequencer};

/// The port of the service where nobody names one.
pub const DEFAULT_PORT: u16 = 8431;

/// Names of metrics that are known.
pub mod names {
    /// Memory of a device.
    pub const HBM_TOTAL: &str = "tpu.runtime.hbm.memory.total.bytes";
    /// Memory in use.
    pub const HBM_USAGE: &str = "tpu.runtime.hbm.memory.usage.bytes";
    /// Share of the time in which a TensorCore executes.
    pub const DUTY_CYCLE: &str = "tpu.runtime.tensorcore.dutycycle.percent";
    /// Operations over the peak rate. libtpu tells it by other means; this is our name.
    pub const TENSORCORE_UTILIZATION: &str = "tpu.runtime.tensorcore.utilization.percent";
    /// Use of the memory's bandwidth.
    pub const HBM_UTILIZATION: &str = "tpu.runtime.hbm.utilization.percent";
    /// Seconds since a TensorCore executed last.
    pub const IDLE_DURATION: &str = "tpu.runtime.tensorcore.idle_duration.seconds";
    /// Seconds since the runtime started.
    pub const UPTIME: &str = "tpu.runtime.uptime.seconds.gauge";
    /// Programs that wait for a core.
    pub const HLO_QUEUE: &str = "hlo.queue.size.gauge";
    /// Execution times of programs.
    pub const HLO_TIMING: &str = "hlo.execution.timing.distribution.microseconds";
    /// How much a chip is throttled, from 0, which is not at all, to 10. As libtpu's SDK lists it.
    pub const THROTTLE_SCORE: &str = "tpu_throttle_score";
    /// How a link between chips is, from 0, which is well, to 10, which cannot be used. As libtpu's SDK lists it.
    pub const ICI_LINK_HEALTH: &str = "ici_link_health";
    /// What is asked for where a service does not list its metrics. One that it does not have is an answer too.
    pub const KNOWN: [&str; 16] = [
        HBM_TOTAL,
        HBM_USAGE,
        DUTY_CYCLE,
        HBM_UTILIZATION,
        IDLE_DURATION,
        UPTIME,
        HLO_QUEUE,
        HLO_TIMING,
        "megascale.dcn_transfer_latencies.microsecond.cumulative.distribution",
        "megascale.dcn_inbound_transfer_latencies.microsecond.cumulative.distribution",
        "megascale.host_to_device_transfer_latencies.microsecond.cumulative.distribution",
        "megascale.device_to_host_transfer_latencies.microsecond.cumulative.distribution",
        "megascale.collective_end_to_end_latencies.microsecond.cumulative.distribution",
        "megascale.mxla_compute_latencies.microsecond.cumulative.distribution",
        "megascale.grpc_tcp_min_rtt.microsecond.cumulative.distribution",
        "megascale.grpc_tcp_delivery_rate.Mbps.cumulative.distribution",
    ];
}

/// Paths of the methods.
const GET: &str = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric";
const LIST: &str = "/tpu.monitoring.runtime.RuntimeMetricService/ListSupportedMetrics";
const STATUS: &str = "/tpu.monitoring.runtime.RuntimeMetricService/GetTpuRuntimeStatus";
