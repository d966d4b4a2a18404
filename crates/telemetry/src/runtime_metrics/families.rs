//! Devices as metrics that Prometheus reads: one set of names for a training and for a monitor of many hosts.

use super::service::DeviceSample;
use crate::family::{Labels, MetricFamily, MetricKind};

/// Reads a value of a device.
type Reads = fn(&DeviceSample) -> Option<f64>;

/// Name, meaning and value of each family.
const FAMILIES: [(&str, &str, Reads); 6] = [
    ("tpubridge_device_hbm_used_bytes", "Memory of the device in use.", |device| {
        device.hbm_used_bytes.map(|bytes| bytes as f64)
    }),
    ("tpubridge_device_hbm_limit_bytes", "Memory of the device.", |device| {
        device.hbm_total_bytes.map(|bytes| bytes as f64)
    }),
    ("tpubridge_device_duty_cycle_ratio", "Share of the time in which the device executes.", |device| {
        device.duty_cycle
    }),
    ("tpubridge_device_tensorcore_utilization_ratio", "Operations over the peak rate of the device.", |device| {
        device.tensorcore_utilization
    }),
    ("tpubridge_device_idle_seconds", "Time since the device executed last.", |device| device.idle_seconds),
    ("tpubridge_device_queue_size", "Programs that wait for the one that runs.", |device| {
        device.queue_size.map(|size| size as f64)
    }),
];

/// Devices as families, each with the labels it is given and its number.
pub fn device_families(devices: &[(Labels, DeviceSample)]) -> Vec<MetricFamily> {
    let family = |(name, help, value): (&str, &str, Reads)| {
        let mut family = MetricFamily::new(name, help, MetricKind::Gauge);
        for (labels, device) in devices {
            if let Some(value) = value(device) {
                let number = ("device".to_string(), device.device.to_string());
                family.push(labels.iter().cloned().chain([number]).collect(), value);
            }
        }
        family
    };
    FAMILIES.map(family).into_iter().filter(|family| !family.samples.is_empty()).collect()
}
