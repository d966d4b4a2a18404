//! What commands on Cloud TPU slices share: the client, a slice by its name, its workers, and what is shown of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use cloud::requests::ApiRequest;
use cloud::ssh::{HostKeys, Shell, WorkerReach, known_hosts, reaches};
use cloud::{Account, CloudTpu, Listed, ListedKind};
use fleet::System;
use fleet::managed::Home;
use fleet::provider::{Capacity, ProviderError, SliceId, SliceState};
use serde::Serialize;

use crate::args::{ProjectArgs, ShellArgs, SliceArgs, WorkersArgs};
use crate::failure::Failure;
use crate::output::Output;

/// Version of the records.
pub(crate) const VERSION: u32 = 1;

impl From<cloud::Error> for Failure {
    fn from(error: cloud::Error) -> Self {
        let hint = error.remedy();
        let failure = Failure::new(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        cloud::Error::from(error).into()
    }
}

pub(crate) fn account(args: &ProjectArgs) -> Result<Account, Failure> {
    Ok(Account::of(&System::host(), args.project.as_deref())?)
}

/// `KEY=VALUE` as pairs.
pub(crate) fn pairs(option: &str, texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let read = |text: &String| {
        let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| Failure::new(format!("--{option}: {text:?} is not KEY=VALUE")))
    };
    texts.iter().map(read).collect()
}

/// A slice by its name, in its zone or wherever it is; none where it is nowhere.
pub(crate) fn look_for(cloud: &CloudTpu, name: &str, args: &SliceArgs) -> Result<Option<Listed>, Failure> {
    cloud::check_name(name)?;
    if let Some(zone) = &args.zone {
        return Ok(cloud.describe(&SliceId { zone: zone.clone(), name: name.into() })?);
    }
    let listing = cloud.list_all("-")?;
    let mut found: Vec<Listed> = listing.slices.into_iter().filter(|one| one.slice.id.name == name).collect();
    if found.is_empty() && !listing.unreachable.is_empty() {
        let what = format!("{name} was not found, and {} could not be asked", listing.unreachable.join(", "));
        return Err(Failure::new(what).hint("name the zone with --zone, or try again later"));
    }
    if found.len() > 1 {
        let zones: Vec<&str> = found.iter().map(|one| one.slice.id.zone.as_str()).collect();
        return Err(Failure::new(format!("{name} is in several zones")).hint(format!("--zone {}", zones.join(" or "))));
    }
    Ok(found.pop())
}

/// What a program reads of a slice.
#[derive(Debug, Serialize)]
pub(crate) struct SliceRecord {
    name: String,
    zone: String,
    kind: &'static str,
    accelerator_type: String,
    runtime_version: String,
    slices: u32,
    capacity: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    detail: String,
    labels: BTreeMap<String, String>,
    created_unix: Option<u64>,
    workers: Vec<WorkerRecord>,
}

#[derive(Debug, Serialize)]
struct WorkerRecord {
    slice: u32,
    worker: u32,
    internal: String,
    external: Option<String>,
}

pub(crate) fn state_word(state: &SliceState) -> &'static str {
    match state {
        SliceState::Waiting => "waiting",
        SliceState::Creating => "creating",
        SliceState::Ready => "ready",
        SliceState::Lost => "lost",
        SliceState::Failed { .. } => "failed",
        SliceState::Deleting => "deleting",
    }
}

pub(crate) fn capacity_word(capacity: &Capacity) -> &'static str {
    match capacity {
        Capacity::OnDemand => "on demand",
        Capacity::Spot => "spot",
        Capacity::Reserved { .. } => "reserved",
    }
}

impl SliceRecord {
    pub(crate) fn new(listed: &Listed) -> Self {
        let slice = &listed.slice;
        let why = match &slice.state {
            SliceState::Failed { why } => Some(why.clone()),
            _ => None,
        };
        let created = slice.created.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let workers = slice.workers.iter().map(|worker| WorkerRecord {
            slice: worker.slice,
            worker: worker.number,
            internal: worker.internal.to_string(),
            external: worker.external.map(|address| address.to_string()),
        });
        SliceRecord {
            name: slice.id.name.clone(),
            zone: slice.id.zone.clone(),
            kind: match listed.kind {
                ListedKind::QueuedResource => "queued resource",
                ListedKind::Node => "node",
            },
            accelerator_type: listed.accelerator_type.clone(),
            runtime_version: listed.runtime_version.clone(),
            slices: listed.slices,
            capacity: capacity_word(&listed.capacity),
            state: state_word(&slice.state),
            why,
            detail: slice.detail.clone(),
            labels: slice.labels.clone(),
            created_unix: created.map(|since| since.as_secs()),
            workers: workers.collect(),
        }
    }
}

/// Requests that are not made: for people with their bodies indented, for programs as a record.
pub(crate) fn show_requests(requests: &[ApiRequest], output: &Output) -> Result<(), Failure> {
    let record = serde_json::json!({"version": VERSION, "requests": requests});
    output.record(&record, || {
        let mut text = String::new();
        for request in requests {
            text.push_str(&format!("{} {}\n", request.method, request.url));
            if let Some(body) = &request.body {
                text.push_str(&format!("{body:#}\n"));
            }
        }
        text
    })
}

/// The workers that are meant, and how they are spoken to.
pub(crate) struct Reached {
    pub(crate) shell: Shell,
    pub(crate) workers: Vec<WorkerReach>,
    pub(crate) slices: u32,
}

pub(crate) fn reach(name: &str, args: &ShellArgs, which: &WorkersArgs) -> Result<Reached, Failure> {
    let cloud = CloudTpu::new(account(&args.slice.project)?)?;
    let absent = || Failure::new(format!("there is no slice called {name}")).hint("`tpu ls` shows what there is");
    let listed = look_for(&cloud, name, &args.slice)?.ok_or_else(absent)?;
    if listed.slice.state != SliceState::Ready {
        let what = format!("{name} is {}: {}", state_word(&listed.slice.state), listed.slice.detail);
        return Err(Failure::new(what).hint(match listed.slice.state {
            SliceState::Waiting | SliceState::Creating => "wait for it with the `tpu up` that asked for it",
            _ => "delete it with `tpu down`, and ask for it again with `tpu up`",
        }));
    }
    let mut workers = reaches(&listed, &cloud.account().project, args.internal_ip);
    let (hosts, slices) = (workers.len(), listed.slices);
    if !which.all {
        workers.retain(|worker| worker.number == which.worker && worker.slice == which.slice_number);
    }
    if workers.is_empty() {
        let what = format!("{name} has no worker {} in slice {}", which.worker, which.slice_number);
        return Err(Failure::new(what).hint(format!("it has {hosts} workers in {slices} slices; both count from 0")));
    }
    let (known_hosts, host_keys) = keep_keys(&cloud, &listed, &workers)?;
    let (user, key, options) = (args.user.clone(), args.identity.clone(), args.options.clone());
    Ok(Reached { shell: Shell { user, key, options, known_hosts, host_keys }, workers, slices })
}

/// Writes down by which keys the workers are known, as the API says.
fn keep_keys(cloud: &CloudTpu, listed: &Listed, workers: &[WorkerReach]) -> Result<(PathBuf, HostKeys), Failure> {
    let SliceId { zone, name } = &listed.slice.id;
    let folder = Home::of(&System::host())?.path().join("ssh").join(&cloud.account().project).join(zone);
    let refused = |error: std::io::Error| {
        let what = format!("{}: {error}", folder.display());
        Failure::new(what).hint("set TPUBRIDGE_HOME to a folder you may write to")
    };
    std::fs::create_dir_all(&folder).map_err(refused)?;
    let mut keys = Vec::new();
    for worker in workers {
        let found = cloud.host_keys(zone, &worker.node, worker.number)?;
        if found.is_empty() {
            eprintln!("warning: {name} does not publish its keys; the first that answers is believed and remembered");
            return Ok((folder.join(format!("{name}.first")), HostKeys::First));
        }
        keys.push((worker.alias.clone(), found));
    }
    // Two commands at once that mean different workers have different files; those that mean the same write the same.
    let path = match workers {
        [one] => folder.join(format!("{name}.{}-{}", one.slice, one.number)),
        _ => folder.join(format!("{name}.all")),
    };
    let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(refused)?;
    std::io::Write::write_all(&mut file, known_hosts(&keys).as_bytes()).map_err(refused)?;
    file.persist(&path).map_err(|error| refused(error.error))?;
    Ok((path, HostKeys::Known))
}
