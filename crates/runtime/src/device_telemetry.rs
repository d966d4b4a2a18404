//! What the devices of a backend do, as libtpu's metric service tells it: programs in flight, duty cycle, memory.

use telemetry::MetricFamily;
use telemetry::runtime_metrics::{
    CoreState, DeviceActivity, DeviceSample, QueuedProgram, RuntimeSource, RuntimeStatus, Sequencer,
};

use crate::backend::Backend;
use crate::device::Platform;
use crate::device_manager::DeviceManager;
use crate::host;

/// libtpu's number of a TensorCore's sequencer.
const TENSOR_CORE_SEQUENCER: i32 = 1;

/// Other metrics of a process, as those of its training.
pub type OtherMetrics = dyn Fn() -> Vec<MetricFamily> + Send + Sync;

/// The devices of a backend as libtpu's metric service tells them.
pub struct DeviceTelemetry {
    devices: DeviceManager,
    backend: Backend,
    others: Box<OtherMetrics>,
    /// Of one device, for what a plugin does not say.
    machine_bytes: Option<u64>,
    peak_flops: Option<f64>,
}

impl DeviceTelemetry {
    /// Begins to count what the devices do. Other metrics are told too, under their own names.
    pub fn new(backend: &Backend, others: Box<OtherMetrics>) -> DeviceTelemetry {
        backend.activity();
        let machine_bytes = (*backend.platform() == Platform::Cpu).then(host::memory_bytes).flatten();
        DeviceTelemetry {
            devices: DeviceManager::new(backend),
            backend: backend.clone(),
            others,
            machine_bytes,
            peak_flops: backend.peak_flops(),
        }
    }

    fn activity(&self, place: usize) -> Option<DeviceActivity> {
        self.backend.activity().sample(place)
    }
}

impl RuntimeSource for DeviceTelemetry {
    fn devices(&self) -> Vec<DeviceSample> {
        let books = self.backend.memory().used_bytes();
        let sample = |(place, info): (usize, &crate::DeviceInfo)| {
            let memory = self.devices.memory_of(info);
            let activity = self.activity(place);
            let utilization = |activity: &DeviceActivity| {
                let rate = activity.flops_per_second?;
                Some((activity.duty_cycle * rate / self.peak_flops?).clamp(0.0, 1.0))
            };
            DeviceSample {
                device: u32::try_from(place).unwrap_or(u32::MAX),
                hbm_total_bytes: memory.limit_bytes.or(self.machine_bytes),
                hbm_used_bytes: Some(memory.used_bytes.unwrap_or(books)),
                tensorcore_utilization: activity.as_ref().and_then(utilization),
                duty_cycle: activity.as_ref().map(|activity| activity.duty_cycle),
                idle_seconds: activity.as_ref().map(|activity| activity.idle_seconds),
                queue_size: activity.as_ref().map(|activity| activity.queue_size() as u64),
                execution_times: activity.map(|activity| activity.times),
            }
        };
        self.backend.devices().iter().enumerate().map(sample).collect()
    }

    fn status(&self, hlo: bool) -> RuntimeStatus {
        let core = |(place, info): (usize, &crate::DeviceInfo)| {
            let activity = self.activity(place);
            let (running, queued) = match activity.as_ref().map(|activity| activity.in_flight.as_slice()) {
                Some([running, queued @ ..]) => (Some(running), queued),
                Some([]) | None => (None, &[][..]),
            };
            let per_chip = info.generation.map_or(1, |generation| generation.spec().cores.devices_per_chip.value);
            let place = i32::try_from(place).unwrap_or(i32::MAX);
            let per_chip = i32::try_from(per_chip).unwrap_or(1).max(1);
            let sequencer = running.map(|running| Sequencer {
                kind: TENSOR_CORE_SEQUENCER,
                run_id: running.launch,
                hlo_location: hlo.then(|| running.program.name.clone()),
                ..Sequencer::default()
            });
            CoreState {
                core: info.id,
                chip: Some(place / per_chip),
                core_on_chip: Some(place % per_chip),
                is_tensor_core: true,
                program_fingerprint: running.map(|running| running.program.fingerprint.clone()),
                // As libtpu counts: in 32 bits, from the start again beyond.
                launch_id: running.map(|running| running.launch as i32),
                sequencers: sequencer.into_iter().collect(),
                queued: queued
                    .iter()
                    .map(|queued| QueuedProgram {
                        run_id: queued.launch,
                        launch_id: queued.launch,
                        program_fingerprint: queued.program.fingerprint.clone(),
                    })
                    .collect(),
                error: activity.and_then(|activity| activity.error),
            }
        };
        RuntimeStatus {
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            cores: self.backend.devices().iter().enumerate().map(core).collect(),
            unreadable: 0,
        }
    }

    fn uptime_seconds(&self) -> f64 {
        self.backend.activity().uptime_seconds()
    }

    fn families(&self) -> Vec<MetricFamily> {
        (self.others)()
    }
}
