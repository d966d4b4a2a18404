//! Devices of a host, put together from metrics that each tell one thing of all of them.

use std::collections::BTreeMap;

use serde::Serialize;
use telemetry::HistogramBuckets;
use telemetry::runtime_metrics::{CoreState, DeviceSample, HostMetrics, MetricValue, names};

/// Devices of a host at most.
const MAX_DEVICES: usize = 1024;

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRecord {
    /// What its metrics tell.
    #[serde(flatten)]
    pub sample: DeviceSample,
    /// Use of the memory's bandwidth, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hbm_bandwidth: Option<f64>,
    /// Median time of its programs in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_p50_seconds: Option<f64>,
    /// Fingerprint of the program it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_fingerprint: Option<String>,
    /// Number of the launch that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_id: Option<i32>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The devices that a host's metrics tell of.
pub fn devices(host: &HostMetrics) -> Vec<DeviceRecord> {
    let mut devices: BTreeMap<u32, DeviceRecord> = BTreeMap::new();
    for name in [names::HBM_TOTAL, names::HBM_USAGE] {
        for device in values(host, name).keys().take(MAX_DEVICES) {
            devices.entry(*device).or_insert_with(|| DeviceRecord {
                sample: DeviceSample { device: *device, ..DeviceSample::default() },
                ..DeviceRecord::default()
            });
        }
    }
    let is_memory_told = !devices.is_empty();
    let mut set = |name: &str, put: &dyn Fn(&mut DeviceRecord, &MetricValue)| {
        for (device, value) in spread(values(host, name), devices.len()) {
            if is_memory_told && !devices.contains_key(&device) || devices.len() >= MAX_DEVICES {
                continue;
            }
            let record = devices.entry(device).or_default();
            record.sample.device = device;
            put(record, value);
        }
    };
    set(names::HBM_TOTAL, &|device, value| device.sample.hbm_total_bytes = bytes(value));
    set(names::HBM_USAGE, &|device, value| device.sample.hbm_used_bytes = bytes(value));
    set(names::DUTY_CYCLE, &|device, value| device.sample.duty_cycle = share(value));
    set(names::TENSORCORE_UTILIZATION, &|device, value| device.sample.tensorcore_utilization = share(value));
    set(names::HBM_UTILIZATION, &|device, value| device.hbm_bandwidth = share(value));
    set(names::IDLE_DURATION, &|device, value| device.sample.idle_seconds = number(value));
    set(names::HLO_QUEUE, &|device, value| device.sample.queue_size = number(value).map(|number| number as u64));
    set(names::HLO_TIMING, &|device, value| {
        if let MetricValue::Distribution(distribution) = value {
            device.sample.execution_times = distribution.buckets.clone();
            let median = distribution.p50.or_else(|| distribution.buckets.as_ref().and_then(median));
            device.execution_p50_seconds = median.filter(|median| median.is_finite()).map(|median| median / 1e6);
        }
    });
    let mut devices: Vec<DeviceRecord> = devices.into_values().collect();
    if let Some(status) = &host.status {
        add_cores(&mut devices, &status.cores);
    }
    devices
}

fn median(buckets: &HistogramBuckets) -> Option<f64> {
    buckets.quantile(0.5)
}

/// Values of a metric by device; of several with the same device the first, which is that of the TensorCore.
fn values<'a>(host: &'a HostMetrics, name: &str) -> BTreeMap<u32, &'a MetricValue> {
    let mut values = BTreeMap::new();
    let series = host.metric(name).map_or(&[][..], |metric| metric.series.as_slice());
    for series in series {
        let is_core = series.labels.iter().all(|(key, value)| key != "core_type" || is_tensor_core(value));
        if let Some(device) = series.device.filter(|_| is_core) {
            values.entry(device).or_insert(&series.value);
        }
    }
    values
}

fn is_tensor_core(text: &str) -> bool {
    text.to_ascii_lowercase().replace(['_', '-', ' '], "").contains("tensorcore")
}

/// v2 and v3 tell the duty cycle of chips, and memory of their two devices each: a chip's value is that of both.
fn spread(values: BTreeMap<u32, &MetricValue>, devices: usize) -> Vec<(u32, &MetricValue)> {
    let is_of_chips = !values.is_empty() && values.len() * 2 == devices;
    if !is_of_chips {
        return values.into_iter().collect();
    }
    values.into_values().zip(0u32..).flat_map(|(value, chip)| [(2 * chip, value), (2 * chip + 1, value)]).collect()
}

/// The cores of devices, in order. A device of two cores has the first.
fn add_cores(devices: &mut [DeviceRecord], cores: &[CoreState]) {
    let cores: Vec<&CoreState> = cores.iter().filter(|core| core.is_tensor_core).collect();
    let per_device = match devices.len() {
        0 => return,
        count if cores.len().is_multiple_of(count) => cores.len() / count,
        _ => return,
    };
    for (device, cores) in devices.iter_mut().zip(cores.chunks(per_device.max(1))) {
        let Some(first) = cores.first() else { continue };
        device.program_fingerprint = first.program_fingerprint.clone();
        device.launch_id = first.launch_id;
        device.error = cores.iter().find_map(|core| core.error.clone());
    }
}

fn bytes(value: &MetricValue) -> Option<u64> {
    match value {
        MetricValue::Integer(bytes) => u64::try_from(*bytes).ok(),
        other => number(other).map(|bytes| bytes as u64),
    }
}

fn number(value: &MetricValue) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A share from a percentage.
fn share(value: &MetricValue) -> Option<f64> {
    number(value).map(|percent| percent / 100.0)
}

#[cfg(test)]
mod tests {
    use telemetry::runtime_metrics::{MetricReading, RuntimeStatus, Series};

    use super::*;

    fn metric(name: &str, values: &[(u32, MetricValue)]) -> MetricReading {
        let series = |(device, value): &(u32, MetricValue)| Series {
            device: Some(*device),
            labels: Vec::new(),
            time: None,
            value: value.clone(),
        };
        let series = values.iter().map(series).collect();
        MetricReading { name: name.into(), description: String::new(), series, unreadable: 0 }
    }

    fn ints(numbers: &[i64]) -> Vec<(u32, MetricValue)> {
        (0..).zip(numbers.iter().map(|number| MetricValue::Integer(*number))).collect()
    }

    fn doubles(numbers: &[f64]) -> Vec<(u32, MetricValue)> {
        (0..).zip(numbers.iter().map(|number| MetricValue::Number(*number))).collect()
    }

    #[test]
    fn metrics_of_one_thing_each_become_devices() {
        let core = |n: i32, error: Option<&str>| CoreState {
            core: n,
            is_tensor_core: true,
            launch_id: Some(n),
            error: error.map(Into::into),
            ..CoreState::default()
        };
        let host = HostMetrics {
            metrics: vec![
                metric(names::HBM_TOTAL, &ints(&[100, 100])),
                metric(names::HBM_USAGE, &ints(&[40, -1])),
                metric(names::DUTY_CYCLE, &doubles(&[50.0, f64::NAN])),
            ],
            // Two cores a device, as on v4, and others that are no TensorCores.
            status: Some(RuntimeStatus {
                cores: vec![core(0, None), core(1, Some("halted")), core(2, None), core(3, None), CoreState::default()],
                ..RuntimeStatus::default()
            }),
            ..HostMetrics::default()
        };
        let devices = devices(&host);
        assert_eq!(devices.len(), 2);
        assert_eq!(devices[0].sample.hbm_used_bytes, Some(40));
        assert_eq!((devices[0].sample.duty_cycle, devices[1].sample.duty_cycle), (Some(0.5), None));
        assert_eq!(devices[1].sample.hbm_used_bytes, None);
        assert_eq!((devices[0].launch_id, devices[1].launch_id), (Some(0), Some(2)));
        assert_eq!(devices[0].error.as_deref(), Some("halted"));
    }

    #[test]
    fn the_duty_cycle_of_a_chip_is_that_of_its_devices() {
        let duty = |told: &[f64]| {
            let host = HostMetrics {
                metrics: vec![metric(names::HBM_TOTAL, &ints(&[1; 8])), metric(names::DUTY_CYCLE, &doubles(told))],
                ..HostMetrics::default()
            };
            devices(&host)
                .iter()
                .map(|device| (device.sample.duty_cycle.unwrap_or(-1.0) * 100.0).round())
                .collect::<Vec<_>>()
        };
        // v3: four chips of two devices. TPU7x tells all eight.
        assert_eq!(duty(&[10.0, 20.0, 30.0, 40.0]), [10.0, 10.0, 20.0, 20.0, 30.0, 30.0, 40.0, 40.0]);
        assert_eq!(duty(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        // A part is a part.
        assert_eq!(duty(&[1.0]), [1.0, -100.0, -100.0, -100.0, -100.0, -100.0, -100.0, -100.0]);
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(devices(&HostMetrics::default()), []);
        let many = metric(names::HBM_TOTAL, &ints(&vec![1; 5000]));
        let host = HostMetrics { metrics: vec![many], ..HostMetrics::default() };
        assert_eq!(devices(&host).len(), MAX_DEVICES);
    }
}
