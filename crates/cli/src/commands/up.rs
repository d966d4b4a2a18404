//! `tpu up`: ask for a slice and wait for it; the same command again finds the same slice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use chips::Slice;
use cloud::{Account, Ask, CloudTpu, Listed, requests};
use fleet::provider::{Capacity, Provider, ProviderError, SliceId, SliceRequest, SliceState};
use serde_json::json;

use super::slices::{SliceRecord, VERSION, account, capacity_word, pairs, show_requests, state_word};
use crate::args::UpArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::{quantity, stop};

/// Time between two looks at a slice that is waited for: short at first, because some come at once.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// A start-up script is metadata, of which a machine has 256 KB at most.
const SCRIPT_LIMIT_BYTES: u64 = 256 << 10;

pub(crate) fn run(args: &UpArgs, output: &Output) -> Result<Answer, Failure> {
    let account = account(&args.project)?;
    let zones = match (args.zone.as_slice(), &account.zone) {
        ([], Some(zone)) => vec![zone.clone()],
        ([], None) => {
            let hint = "give --zone, or run `gcloud config set compute/zone ZONE`; `tpu ls zones` lists them";
            return Err(Failure::new("no zone is given").hint(hint));
        }
        (zones, _) => zones.to_vec(),
    };
    let (plain, ask) = request(args)?;
    let in_zone =
        |zone: &String| SliceRequest { id: SliceId { zone: zone.clone(), name: args.name.clone() }, ..plain.clone() };
    if args.dry_run {
        return dry_run(&account, &zones.iter().map(in_zone).collect::<Vec<_>>(), &ask, output);
    }
    // Before anything is asked of the network.
    requests::to_create(&account, &in_zone(&zones[0]), &ask)?;
    let cloud = CloudTpu::new(account)?;
    let stop = stop::on_signal();
    // Where an earlier command made it, whichever zone that was.
    let mut zones = zones;
    for zone in &zones {
        if cloud.describe(&in_zone(zone).id)?.is_some() {
            zones = vec![zone.clone()];
            break;
        }
    }
    let last = zones.len() - 1;
    for (place, zone) in zones.iter().enumerate() {
        match try_zone(&cloud, &in_zone(zone), &ask, args.no_wait, &stop) {
            Ok(Outcome::Given(listed)) => {
                let word = state_word(&listed.slice.state);
                let record = json!({"version": VERSION, "slice": SliceRecord::new(&listed)});
                output.record(&record, || format!("{} is {word}\n{}", listed.slice.id, addresses(&listed)))?;
                return Ok(Answer::Yes);
            }
            Ok(Outcome::Interrupted) => {
                let name = &args.name;
                eprintln!(
                    "{name} stays as it is: the same command waits on, `tpu down {name} --zone {zone}` deletes it"
                );
                return Ok(Answer::Preempted);
            }
            Ok(Outcome::Dead(listed)) => {
                let id = &listed.slice.id;
                eprintln!("{id} is {}: {}", state_word(&listed.slice.state), why(&listed));
                if place == last {
                    eprintln!(
                        "hint: `tpu down {} --zone {}` deletes it; it counts against the quota until then",
                        id.name, id.zone
                    );
                    let record = json!({"version": VERSION, "slice": SliceRecord::new(&listed)});
                    output.record(&record, String::new)?;
                    return Ok(Answer::No);
                }
                cloud.delete(id)?;
            }
            Err(ProviderError::NoCapacity(what) | ProviderError::Quota(what)) if place < last => {
                eprintln!("{zone}: {what}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Answer::No)
}

fn why(listed: &Listed) -> &str {
    match &listed.slice.state {
        SliceState::Failed { why } => why,
        _ => &listed.slice.detail,
    }
}

fn addresses(listed: &Listed) -> String {
    let line = |worker: &fleet::provider::Worker| {
        let external = worker.external.map(|address| format!("  {address}")).unwrap_or_default();
        format!("  slice {} worker {}  {}{external}\n", worker.slice, worker.number, worker.internal)
    };
    listed.slice.workers.iter().map(line).collect()
}

enum Outcome {
    /// Ready, or asked for where nobody waits.
    Given(Listed),
    /// Failed or lost.
    Dead(Listed),
    Interrupted,
}

fn try_zone(
    cloud: &CloudTpu,
    request: &SliceRequest,
    ask: &Ask,
    no_wait: bool,
    stop: &AtomicBool,
) -> Result<Outcome, ProviderError> {
    let id = &request.id;
    cloud.offers(&id.zone)?.check(&id.zone, &request.accelerator_type, &request.runtime_version)?;
    cloud.create_as(request, ask)?;
    let (what, paid) = (&request.accelerator_type, capacity_word(&request.capacity));
    eprintln!("{id}: asked for {} x {what}, {paid}", request.slices);
    let (mut wait, mut said) = (FIRST_LOOK, String::new());
    loop {
        if let Some(listed) = cloud.describe(id)? {
            if listed.slice.detail != said {
                said = listed.slice.detail.clone();
                eprintln!("{id}: {} ({said})", state_word(&listed.slice.state));
            }
            match listed.slice.state {
                SliceState::Ready => return Ok(Outcome::Given(listed)),
                SliceState::Lost | SliceState::Failed { .. } => return Ok(Outcome::Dead(listed)),
                _ if no_wait => return Ok(Outcome::Given(listed)),
                SliceState::Waiting | SliceState::Creating => {}
                SliceState::Deleting => {
                    return Err(ProviderError::Transient { what: format!("{id} is being deleted"), retry_after: None });
                }
            }
        } else {
            let what = format!("{id} was deleted by somebody else");
            return Err(ProviderError::Transient { what, retry_after: None });
        }
        let until = Instant::now() + wait;
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Ok(Outcome::Interrupted);
            }
            std::thread::sleep((until - Instant::now()).min(Duration::from_millis(50)));
        }
        wait = (wait * 3 / 2).min(LONGEST_LOOK);
    }
}

fn dry_run(account: &Account, all: &[SliceRequest], ask: &Ask, output: &Output) -> Result<Answer, Failure> {
    let mut shown = Vec::new();
    for request in all {
        shown.extend(requests::to_check(account, &request.id.zone));
        shown.extend(requests::to_create(account, request, ask)?);
    }
    show_requests(&shown, output)?;
    Ok(Answer::Yes)
}

/// What is asked for, in a zone that is not said yet.
fn request(args: &UpArgs) -> Result<(SliceRequest, Ask), Failure> {
    // A name that is not ours may be one of the cloud's: it answers with the nearest.
    let slice = Slice::parse(&args.slice).ok();
    if let Some(slice) = &slice {
        if slice.spec().names.tpu_api_type.value.is_none() {
            let what = format!("the Cloud TPU API does not have {}", args.slice);
            return Err(Failure::new(what).hint("it is to be had on Google Kubernetes Engine: `tpu k8s`"));
        }
        if !slice.is_default_shape() {
            let what = format!("{} is not the shape that the Cloud TPU API gives for its size", args.slice);
            return Err(Failure::new(what).hint(format!("ask for {}", slice.accelerator_type())));
        }
    }
    let accelerator_type = slice.as_ref().map_or_else(|| args.slice.clone(), Slice::accelerator_type);
    let known = slice.as_ref().and_then(|slice| slice.spec().names.runtime_version.as_ref());
    let runtime_version = args.runtime_version.clone().or_else(|| known.map(|figure| figure.value.to_owned()));
    let runtime_version = runtime_version.ok_or_else(|| {
        let what = format!("the runtime version for {} is not known here", args.slice);
        Failure::new(what).hint("give --runtime-version; `tpu ls versions --zone ZONE` lists them")
    })?;
    let mut metadata = pairs("metadata", &args.metadata)?;
    if let Some(path) = &args.startup_script {
        metadata.insert("startup-script".into(), read(path)?);
    }
    // By these the machines tell the API the keys of their ssh servers.
    metadata.entry("enable-guest-attributes".into()).or_insert_with(|| "TRUE".into());
    if let Some(path) = &args.ssh_key {
        let key = read(path)?;
        let key = key.trim();
        if !key.starts_with("ssh-") && !key.starts_with("ecdsa-") || key.lines().count() != 1 {
            let what = format!("{} is not a public key of ssh", path.display());
            return Err(Failure::new(what).hint("give the file that ends in .pub"));
        }
        let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
        let user = user.map_err(|_| Failure::new("--ssh-key: who you are is not known").hint("set USER"))?;
        metadata.insert("ssh-keys".into(), format!("{user}:{key}"));
    }
    let time = |option: &str, text: &Option<String>| -> Result<Option<SystemTime>, Failure> {
        let seconds = quantity::seconds(option, text.as_deref())?;
        Ok(seconds.map(|seconds| SystemTime::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9))))
    };
    let capacity = match (args.spot, args.reserved) {
        (true, _) => Capacity::Spot,
        (false, true) => Capacity::Reserved { reservation: args.reservation.clone() },
        (false, false) => Capacity::OnDemand,
    };
    let slices = args.slices.saturating_mul(slice.as_ref().map_or(1, Slice::num_slices));
    let labels: BTreeMap<String, String> = pairs("label", &args.labels)?;
    let request = SliceRequest {
        accelerator_type,
        runtime_version,
        slices,
        capacity,
        valid_until: time("valid-for", &args.valid_for)?,
        network: args.network.clone(),
        subnetwork: args.subnetwork.clone(),
        external_ips: !args.internal_ips,
        service_account: args.service_account.clone(),
        tags: args.tags.clone(),
        labels,
        metadata,
        disks: args.disks.clone(),
        ..cloud::plain_request()
    };
    Ok((request, Ask { as_node: args.node, valid_after: time("valid-after", &args.valid_after)? }))
}

fn read(path: &std::path::Path) -> Result<String, Failure> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(SCRIPT_LIMIT_BYTES + 1).read_to_string(&mut text));
    file.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    if text.len() as u64 > SCRIPT_LIMIT_BYTES {
        let what = format!("{} has more than 256 KB", path.display());
        return Err(Failure::new(what).hint("let a short script fetch the rest from a bucket"));
    }
    Ok(text)
}
