//! Slices of ours that are paid for and do nothing, for `tpu cost --idle`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use chips::{PriceKind, Slice};
use cloud::{CloudTpu, LABEL_MADE_BY, Listed, Listing, MADE_BY};
use fleet::cost::{IdleSlice, SliceUse, idle_slices};
use fleet::provider::{Capacity, ProvidedSlice, SliceId};
use fleet::supervisor::JobState;

use super::slices::account;
use crate::args::CostArgs;
use crate::failure::Failure;
use crate::{log, quantity};

/// Slices of the project that do nothing, as far as these jobs tell.
pub(crate) fn find(args: &CostArgs, jobs: &[JobState]) -> Result<Vec<IdleSlice>, Failure> {
    let after = quantity::seconds("idle-after", Some(&args.idle_after))?.unwrap_or_default();
    let after = Duration::from_secs_f64(after.clamp(0.0, 1e9));
    let now = SystemTime::now();
    let cloud = CloudTpu::new(account(&args.project)?)?;
    let Listing { slices, unreachable } = cloud.list_all("-")?;
    for zone in &unreachable {
        log::say(&format!("warning: {zone} could not be asked; what is idle there is not shown"));
    }
    let (mine, others) = known(slices, jobs);
    if !others.is_empty() {
        let names = others.into_iter().collect::<Vec<_>>().join(", ");
        log::say(&format!("slices of jobs whose files were not given are not judged: {names}"));
    }
    let mut used = BTreeMap::new();
    for job in jobs {
        used.extend(SliceUse::of_job(job, silence(job, now)));
    }
    let listed: BTreeMap<SliceId, &Listed> = mine.iter().map(|one| (one.slice.id.clone(), one)).collect();
    let provided: Vec<ProvidedSlice> = mine.iter().map(|one| one.slice.clone()).collect();
    let price = |slice: &ProvidedSlice| listed.get(&slice.id).and_then(|one| usd_per_hour(one));
    Ok(idle_slices(&provided, &used, now, after, price))
}

/// Slices that were made here, without those of jobs that nothing is known of; and the names of these.
fn known(slices: Vec<Listed>, jobs: &[JobState]) -> (Vec<Listed>, BTreeSet<String>) {
    let mut others = BTreeSet::new();
    let is_known = |one: &Listed| {
        let label = |name: &str| one.slice.labels.get(name).map(String::as_str);
        if label(LABEL_MADE_BY) != Some(MADE_BY) {
            return false;
        }
        let Some(job) = label("tpubridge-job") else { return true };
        let is_given = jobs.iter().any(|state| state.job == job && Some(state.run.as_str()) == label("tpubridge-run"));
        if !is_given {
            others.insert(job.to_string());
        }
        is_given
    };
    let mine = slices.into_iter().filter(is_known).collect();
    (mine, others)
}

/// How long ago a job that trains last kept something; none where it does not train.
fn silence(job: &JobState, now: SystemTime) -> Option<Duration> {
    let attempt = job.attempt.as_ref()?;
    let last = attempt.kept_ms.or(attempt.running_ms)?;
    now.duration_since(SystemTime::UNIX_EPOCH + Duration::from_millis(last)).ok()
}

fn usd_per_hour(listed: &Listed) -> Option<f64> {
    let slice: Slice = listed.accelerator_type.parse().ok()?;
    let kind = match listed.capacity {
        Capacity::Spot => PriceKind::Spot,
        Capacity::OnDemand | Capacity::Reserved { .. } => PriceKind::OnDemand,
    };
    let zone = &listed.slice.id.zone;
    let region = zone.rsplit_once('-').map_or(zone.as_str(), |(region, _)| region);
    let chip = slice.spec().price(kind, Some(region))?.usd_per_chip_hour;
    Some(chip * f64::from(slice.chips_per_slice()) * f64::from(listed.slices))
}
