//! How long a program takes, and how far that is from what the device can do.

use std::time::{Duration, Instant};

use runtime::{Backend, DeviceArray, Error, LoadedProgram};
use serde::Serialize;

use crate::failure::Failure;
use crate::human;

/// Runs before the clock counts.
const WARM_UP: usize = 3;
/// Runs that are timed at least and at most.
const RUNS: std::ops::RangeInclusive<usize> = 5..=100_000;

/// Times of one run, results waited for.
#[derive(Serialize)]
pub(super) struct Timing {
    runs: usize,
    median_seconds: f64,
    /// A tenth of the runs was faster, and a tenth slower.
    p10_seconds: f64,
    p90_seconds: f64,
    /// As the compiler counts them.
    flops: Option<f64>,
    flops_per_second: Option<f64>,
    bytes: Option<f64>,
    bytes_per_second: Option<f64>,
    /// Share of the device's peak rate for bf16 matmuls, or of its memory, whichever is larger.
    fraction_of_peak: Option<f64>,
}

pub(super) fn run(
    backend: &Backend,
    model: &LoadedProgram,
    inputs: &[DeviceArray],
    seconds: f64,
) -> Result<Timing, Failure> {
    let once = || -> Result<Duration, Error> {
        let started = Instant::now();
        let results = model.run(inputs)?;
        results.iter().try_for_each(DeviceArray::wait)?;
        Ok(started.elapsed())
    };
    for _ in 0..WARM_UP {
        once()?;
    }
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < *RUNS.start() || (started.elapsed().as_secs_f64() < seconds && times.len() < *RUNS.end()) {
        times.push(once()?.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let costs = model.executable().loaded().executable().and_then(|executable| executable.cost_analysis());
    let costs = costs.unwrap_or_default();
    let cost = |name: &str| {
        let value = costs.iter().find(|(found, _)| found == name).map(|(_, value)| value)?;
        value.as_float().map(f64::from).or_else(|| value.as_int().map(|value| value as f64)).filter(|cost| *cost > 0.0)
    };
    let median = quantile(0.5);
    let (flops, bytes) = (cost("flops"), cost("bytes accessed"));
    let peak = backend.device().peak;
    let share = |cost: Option<f64>, peak: Option<f64>| Some(cost? / median / peak?);
    let shares = [share(flops, peak.bf16_flops), share(bytes, peak.memory_bytes_per_s)];
    Ok(Timing {
        runs: times.len(),
        median_seconds: median,
        p10_seconds: quantile(0.1),
        p90_seconds: quantile(0.9),
        flops,
        flops_per_second: flops.map(|flops| flops / median),
        bytes,
        bytes_per_second: bytes.map(|bytes| bytes / median),
        fraction_of_peak: shares.into_iter().flatten().reduce(f64::max),
    })
}

impl Timing {
    pub(super) fn text(&self) -> String {
        let micro = |seconds: f64| format!("{:.1} µs", seconds * 1e6);
        let time = |seconds: f64| if seconds < 0.01 { micro(seconds) } else { human::seconds(seconds) };
        let mut text = format!(
            "time      {} (a tenth below {}, a tenth above {}; {} runs)\n",
            time(self.median_seconds),
            time(self.p10_seconds),
            time(self.p90_seconds),
            self.runs
        );
        if let Some(rate) = self.flops_per_second {
            text.push_str(&format!("rate      {}FLOP/s\n", human::count(rate)));
        }
        if let Some(rate) = self.bytes_per_second {
            text.push_str(&format!("memory    {}B/s\n", human::count(rate)));
        }
        if let Some(share) = self.fraction_of_peak {
            text.push_str(&format!("of peak   {:.1} %\n", share * 100.0));
        }
        text
    }
}
