//! Launches of a backend, counted for whoever asks.

use std::sync::Arc;

use telemetry::runtime_metrics::{Activity, LaunchedProgram};

use super::{Backend, LoadedProgram};

impl Backend {
    /// Counts what devices execute from the first call on; before, nothing is counted and nothing costs.
    pub fn activity(&self) -> &Activity {
        self.shared.activity.get_or_init(|| Activity::new(self.shared.devices.len()))
    }

    /// Peak operations per second of one device at the precision of the configuration, where they are known.
    pub fn peak_flops(&self) -> Option<f64> {
        let peak = self.device().peak;
        match self.config().precision {
            compile::optimize::ComputePrecision::F32 => peak.f32_flops.or(peak.bf16_flops),
            _ => peak.bf16_flops,
        }
    }
}

impl LoadedProgram {
    /// The program as its launches are told. Its costs are counted once.
    pub(super) fn launched_program(&self) -> &Arc<LaunchedProgram> {
        let inner = &*self.inner;
        inner.launched.get_or_init(|| {
            let program = inner.executable.program();
            // The program is that of all devices.
            let devices = inner.mesh.as_ref().map_or(1, |mesh| mesh.mesh().num_devices()).max(1);
            let flops = hlo::cost::cost(program.module()).flops / devices as f64;
            let (name, fingerprint) = (program.name().to_string(), self.fingerprint());
            Arc::new(LaunchedProgram { name, fingerprint, flops: Some(flops) })
        })
    }
}

/// A launch that is counted until it is done.
pub(super) struct CountedLaunch {
    activity: Activity,
    number: i64,
    /// Places of its devices in the backend's list.
    places: Vec<usize>,
}

impl LoadedProgram {
    /// Counts a launch that is about to begin, if anybody asked for it.
    pub(super) fn count_launch(&self) -> Option<CountedLaunch> {
        let activity = self.backend().shared.activity.get()?.clone();
        let places: Vec<usize> = match &self.inner.mesh {
            Some(mesh) => mesh.devices().iter().flatten().copied().collect(),
            None => vec![0],
        };
        let number = activity.launched(places.iter().copied(), self.launched_program());
        Some(CountedLaunch { activity, number, places })
    }
}

impl CountedLaunch {
    /// Counts its end on each device, when it comes; at once where it did not begin, or its end cannot be heard of.
    pub(super) fn until_done(self, launched: &Result<pjrt::Launch, pjrt::Error>) {
        let CountedLaunch { activity, number, places } = self;
        let done = match launched {
            Ok(launch) => launch.done.as_slice(),
            Err(error) => {
                places.iter().for_each(|place| activity.ended(*place, number, Some(error.to_string())));
                return;
            }
        };
        for (n, place) in places.into_iter().enumerate() {
            let theirs = activity.clone();
            let end = move |outcome: Result<(), pjrt::Error>| {
                theirs.ended(place, number, outcome.err().map(|error| error.to_string()));
            };
            match done.get(n).map(|event| event.on_ready(end)) {
                Some(Ok(())) => {}
                Some(Err(_)) | None => activity.ended(place, number, None),
            }
        }
    }
}
