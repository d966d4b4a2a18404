//! What must hold between the values of a job file.

use chips::{nearest_word, regions, zones};

use super::file::{JobCapacity, JobFile, JobPlatform, JobPlugin, JobProgram, region_of};
use super::keys::{Faults, fault};

/// Longest name: names of slices add an attempt, a zone and a slice, and Kubernetes counts 63 letters.
const MAX_NAME: usize = 28;
/// Longest key or value of a label.
const MAX_LABEL: usize = 63;
/// Labels that are the supervisor's own begin so.
pub(crate) const OWN_LABELS: &str = "tpubridge";

pub(super) fn check(job: &JobFile, faults: &mut Faults) {
    name(job, faults);
    folder(job, faults);
    slices(job, faults);
    places(job, faults);
    labels(job, faults);
    environment(job, faults);
    platform(job, faults);
}

fn note(faults: &mut Faults, key: &str, what: impl Into<String>, instead: impl Into<String>) {
    fault(faults, key, what, Some(instead.into()));
}

fn name(job: &JobFile, faults: &mut Faults) {
    let is_right = |name: &str| {
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        name.len() <= MAX_NAME
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
            && name.chars().all(known)
    };
    if job.name.is_empty() || is_right(&job.name) {
        return;
    }
    let kept = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let near: String = job.name.to_ascii_lowercase().chars().map(kept).collect();
    let near = near.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let near = near.chars().take(MAX_NAME).collect::<String>();
    let near = near.trim_end_matches('-');
    let near = if near.is_empty() { "job" } else { near };
    let what = format!("`{}` is not 1 to {MAX_NAME} lower-case letters, digits and dashes, a letter first", job.name);
    note(faults, "name", what, format!("name = \"{near}\""));
}

fn folder(job: &JobFile, faults: &mut Faults) {
    if let Some((scheme, rest)) = job.folder.split_once("://") {
        let known = ["gs", "s3", "file"];
        if !known.contains(&scheme) {
            let near = nearest_word(scheme, known).unwrap_or("gs");
            note(faults, "folder", format!("no store is called `{scheme}`"), format!("folder = \"{near}://{rest}\""));
        } else if rest.trim_matches('/').is_empty() {
            note(faults, "folder", "it names no bucket", format!("folder = \"{scheme}://BUCKET/{}\"", job.name));
        }
    } else if job.platform == JobPlatform::Gke && !job.folder.is_empty() && !job.folder.starts_with('/') {
        let what = format!("`{}` is a folder of this machine, which pods do not see", job.folder);
        note(faults, "folder", what, format!("folder = \"gs://BUCKET/{}\", or a path below /data", job.name));
    }
}

fn slices(job: &JobFile, faults: &mut Faults) {
    let (count, fewest) = (job.slice().num_slices(), job.slices.min_slices);
    if fewest == 0 || fewest > count {
        let what = format!("{fewest} is not between 1 and the {count} of slices.count");
        note(faults, "slices.min_count", what, format!("min_count = {}", fewest.clamp(1, count)));
    }
    if job.slices.capacity != JobCapacity::Reserved && job.slices.reservation.is_some() {
        let what = format!("a reservation is named, and capacity is {}", job.slices.capacity);
        note(faults, "slices.reservation", what, "capacity = \"reserved\"");
    }
    if job.limits.budget_usd.is_some() {
        let zone = job.slices.zones.first().map_or("", String::as_str);
        if job.usd_per_slice_hour(zone).is_none() {
            let what = format!("no price of {} is known, so that dollars cannot be counted", job.slice().generation());
            note(faults, "limits.budget", what, "a limits.deadline instead");
        }
    }
}

fn places(job: &JobFile, faults: &mut Faults) {
    let generation = job.slice().generation();
    for (number, region) in job.slices.regions.iter().enumerate() {
        if !regions().contains(&region.as_str()) && !job.slices.unlisted_zones {
            let near = nearest_word(region, regions().iter().copied()).unwrap_or("us-central1");
            let what = format!("no region `{region}` is known");
            note(faults, &format!("slices.regions[{number}]"), what, near);
        }
    }
    for (number, zone) in job.slices.zones.iter().enumerate() {
        let key = format!("slices.zones[{number}]");
        let region = region_of(zone);
        let is_region = regions().contains(&zone.as_str());
        let has_form = zone.rsplit_once('-').is_some_and(|(region, letter)| {
            letter.len() == 1
                && letter.chars().all(|c| c.is_ascii_lowercase())
                && region.ends_with(|c: char| c.is_ascii_digit())
        });
        if job.slices.zones[..number].contains(zone) {
            note(faults, &key, format!("{zone} is listed twice"), "it once");
        } else if is_region || !has_form {
            let what = match is_region {
                true => format!("{zone} is a region, and a zone is asked"),
                false => format!("`{zone}` is not a zone"),
            };
            let near = nearest_word(zone, zones(generation).iter().copied()).unwrap_or("us-central1-a");
            note(faults, &key, what, near);
        } else if !job.slices.unlisted_zones
            && !zones(generation).is_empty()
            && !zones(generation).contains(&zone.as_str())
        {
            let what = format!("no {generation} is known in {zone}");
            let near = nearest_word(zone, zones(generation).iter().copied()).unwrap_or(zones(generation)[0]);
            note(faults, &key, what, format!("{near}, or set slices.unlisted_zones = true if you know better"));
        } else if !job.slices.regions.is_empty() && !job.slices.regions.iter().any(|allowed| allowed == region) {
            let what = format!("{zone} is in none of slices.regions ({})", job.slices.regions.join(", "));
            let inside = |zone: &&&str| job.slices.regions.iter().any(|allowed| allowed == region_of(zone));
            let near = zones(generation)
                .iter()
                .find(inside)
                .map_or_else(|| format!("{region} among slices.regions"), |zone| (*zone).to_string());
            note(faults, &key, what, near);
        }
    }
}

fn labels(job: &JobFile, faults: &mut Faults) {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    for (key, value) in &job.labels {
        let is_right = |text: &str| text.len() <= MAX_LABEL && text.chars().all(known);
        let place = format!("labels.{key}");
        if key.starts_with(OWN_LABELS) {
            note(
                faults,
                &place,
                format!("labels that begin with {OWN_LABELS} are the supervisor's own"),
                "another name",
            );
        } else if !is_right(key) || !key.starts_with(|c: char| c.is_ascii_lowercase()) || !is_right(value) {
            let near = |text: &str| -> String {
                let kept = |c: char| if known(c) { c } else { '-' };
                text.to_ascii_lowercase().chars().map(kept).take(MAX_LABEL).collect()
            };
            let what = "labels have lower-case letters, digits, `-` and `_`, a letter first, at most 63";
            note(faults, &place, what, format!("{} = \"{}\"", near(key), near(value)));
        }
    }
}

fn environment(job: &JobFile, faults: &mut Faults) {
    for name in job.run.environment.keys() {
        let place = format!("run.environment.{name}");
        let known = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(known) || name.starts_with(|c: char| c.is_ascii_digit()) {
            let near: String = name.chars().map(|c| if known(c) { c } else { '_' }).collect();
            note(faults, &place, "it is not a name of a variable", near);
        } else if SUPERVISED.contains(&name.as_str()) {
            note(faults, &place, "the supervisor sets it", "nothing");
        }
    }
    if let Some(JobPlugin::Package { name, version }) = job.run.plugin() {
        let known = crate::setup::package_names();
        if !known.contains(&name.as_str()) {
            let near = chips::nearest_word(&name, known.iter().copied().chain(["cpu"])).unwrap_or("libtpu");
            let what = format!("no plugin is called `{name}`; a file has a `/` or ends with .so");
            note(faults, "run.plugin", what, format!("plugin = \"{near}\""));
        } else if !version.as_deref().is_none_or(crate::setup::is_version) {
            let what = format!("`{}` is not a version", version.unwrap_or_default());
            note(faults, "run.plugin", what, format!("plugin = \"{name}==0.0.51\""));
        }
    }
    if let JobProgram::Train { arguments, .. } = &job.run.program {
        for argument in arguments {
            let option = argument.split('=').next().unwrap_or_default();
            if SUPERVISED_OPTIONS.contains(&option) {
                let what = format!("`{option}` is what the job itself gives to `tpu train`");
                let instead = if option == "--folder" { "folder = \"…\" of the job" } else { "nothing" };
                note(faults, "run.arguments", what, instead);
            }
        }
    }
}

/// Variables of a process that the supervisor gives.
const SUPERVISED: [&str; 9] = [
    "TPUBRIDGE_PROCESSES",
    "TPUBRIDGE_PROCESS_ID",
    "TPUBRIDGE_COORDINATOR",
    "TPUBRIDGE_SECRET",
    "TPUBRIDGE_SECRET_FILE",
    "TPUBRIDGE_RUN_ID",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "JAX_COORDINATOR_ADDRESS",
];

/// Options of `tpu train` that the supervisor gives.
const SUPERVISED_OPTIONS: [&str; 5] = ["--folder", "--processes", "--process-id", "--coordinator", "--restarts"];

fn platform(job: &JobFile, faults: &mut Faults) {
    let spec = job.slice().spec();
    match job.platform {
        JobPlatform::TpuVm => {
            if spec.names.tpu_api_type.value.is_none() {
                let what = format!("the Cloud TPU API has no {}", job.slice().generation());
                note(faults, "platform", what, "platform = \"gke\"");
            } else if job.runtime_version().is_none() {
                let what = format!("no image is known for {}", job.slice().generation());
                note(
                    faults,
                    "slices.runtime_version",
                    what,
                    "the one that `gcloud compute tpus tpu-vm versions list` shows",
                );
            }
            if job.slices.zones.is_empty() {
                let generation = job.slice().generation();
                let inside = |zone: &&&str| {
                    job.slices.regions.is_empty() || job.slices.regions.iter().any(|region| region == region_of(zone))
                };
                let known: Vec<String> =
                    zones(generation).iter().filter(inside).take(3).map(|zone| format!("\"{zone}\"")).collect();
                note(faults, "slices.zones", "no zone is named", format!("zones = [{}]", known.join(", ")));
            }
        }
        JobPlatform::Gke => {
            if job.kubernetes.image.is_none() {
                note(
                    faults,
                    "kubernetes.image",
                    "pods need an image",
                    "image = \"us-docker.pkg.dev/PROJECT/images/tpubridge:0.1.0\"",
                );
            }
            if spec.names.gke_accelerator.is_none() {
                let what = format!("GKE has no {}", job.slice().generation());
                note(faults, "platform", what, "platform = \"tpu-vm\"");
            }
        }
    }
}
