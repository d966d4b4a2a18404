//! What is asked for, in Google's types, with the marks by which it is found again.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::time::SystemTime;

use fleet::provider::{Capacity, ProviderError, SliceId, SliceRequest};
use google_cloud_tpu_v2::model;
use google_cloud_tpu_v2::model::queued_resource::tpu::NodeSpec;
use google_cloud_tpu_v2::model::queued_resource::tpu::node_spec::MultisliceParams;
use google_cloud_tpu_v2::model::queued_resource::{Guaranteed, QueueingPolicy, Spot, Tpu};
use google_cloud_type::model::Interval;
use google_cloud_wkt::Timestamp;
use sha2::{Digest, Sha256};

use crate::Account;

/// The label of everything that is made here.
pub const LABEL_MADE_BY: &str = "made-by";
/// Its value.
pub const MADE_BY: &str = "tpubridge";
/// The label with the fingerprint of the request: the same name with another one is another slice.
pub const LABEL_REQUEST: &str = "tpubridge-request";

const NAME_MAX: usize = 63;
const LABELS_MAX: usize = 64;

/// How a slice is asked for, beside what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// A single node at once or not at all, instead of a place in the queue.
    pub as_node: bool,
    /// Not before then.
    pub valid_after: Option<SystemTime>,
}

/// A request for nothing in particular: what remains when a caller has said what matters.
pub fn plain_request() -> SliceRequest {
    SliceRequest {
        id: SliceId { zone: String::new(), name: String::new() },
        accelerator_type: String::new(),
        runtime_version: String::new(),
        slices: 1,
        capacity: Capacity::OnDemand,
        valid_until: None,
        network: None,
        subnetwork: None,
        external_ips: true,
        service_account: None,
        tags: Vec::new(),
        labels: BTreeMap::new(),
        metadata: BTreeMap::new(),
        disks: Vec::new(),
    }
}

/// A name as Google has them: lower-case letters, digits and hyphens, a letter first, at most 63.
pub fn check_name(name: &str) -> Result<(), ProviderError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_right = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_plain)
        && !name.ends_with('-')
        && name.len() <= NAME_MAX;
    if is_right {
        return Ok(());
    }
    let mut nearest: String = name.to_lowercase().chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    nearest = nearest.trim_start_matches(|c: char| !c.is_ascii_lowercase()).chars().take(NAME_MAX).collect();
    let nearest = nearest.trim_end_matches('-');
    let nearest = if nearest.is_empty() { "slice" } else { nearest };
    let rule = "a name has lower-case letters, digits and hyphens, begins with a letter, and has at most 63 characters";
    Err(ProviderError::Invalid(format!("{name:?} cannot be the name of a slice: {rule}; such as {nearest:?}")))
}

fn check(request: &SliceRequest, ask: &Ask) -> Result<(), ProviderError> {
    let invalid = |what: String| Err(ProviderError::Invalid(what));
    check_name(&request.id.name)?;
    if request.slices == 0 {
        return invalid("0 slices are asked for; ask for 1 or more".into());
    }
    if request.slices > 1 {
        let last = format!("{}-{}", request.id.name, request.slices - 1);
        check_name(&last)?;
    }
    if ask.as_node && request.slices > 1 {
        return invalid(format!("{} slices together need the queue, not single nodes", request.slices));
    }
    if ask.as_node && (request.valid_until.is_some() || ask.valid_after.is_some()) {
        return invalid("a single node is given at once: only the queue knows times".into());
    }
    if let (Some(after), Some(until)) = (ask.valid_after, request.valid_until)
        && after >= until
    {
        return invalid("the request is to be filled after a time that is not before its last".into());
    }
    if ask.as_node && matches!(request.capacity, Capacity::Reserved { reservation: Some(_) }) {
        return invalid("a named reservation needs the queue, not a single node".into());
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    for (key, value) in &request.labels {
        let starts = key.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || !(key.chars().chain(value.chars())).all(is_plain) || key.len() > 63 || value.len() > 63 {
            let rule = "lower-case letters, digits, - and _, at most 63, the key beginning with a letter";
            return invalid(format!("{key}={value} cannot be a label: {rule}"));
        }
    }
    if request.labels.len() + 2 > LABELS_MAX {
        return invalid(format!("{} labels are asked for; {} fit", request.labels.len(), LABELS_MAX - 2));
    }
    for disk in &request.disks {
        let parts: Vec<&str> = disk.split('/').collect();
        if !matches!(parts[..], ["projects", _, "zones", _, "disks", _]) {
            return invalid(format!("{disk:?} is not a disk; write projects/PROJECT/zones/ZONE/disks/DISK"));
        }
    }
    Ok(())
}

/// 16 hexadecimal digits of everything that makes a slice what it is. The time until which it is waited for does not: a repeated
/// command has a later one.
pub(crate) fn fingerprint(request: &SliceRequest, ask: &Ask) -> String {
    let SliceRequest { id, accelerator_type, runtime_version, slices, capacity, .. } = request;
    let SliceRequest { network, subnetwork, external_ips, service_account, tags, labels, metadata, disks, .. } =
        request;
    let what = (id.to_string(), accelerator_type, runtime_version, slices, capacity, ask.as_node);
    let how = (network, subnetwork, external_ips, service_account, tags, labels, metadata, disks);
    let mut text = String::new();
    for byte in Sha256::digest(format!("{what:?} {how:?}")).iter().take(8) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// One node of the request.
pub(crate) fn node(request: &SliceRequest, ask: &Ask) -> model::Node {
    let network = model::NetworkConfig::new()
        .set_network(request.network.clone().unwrap_or_default())
        .set_subnetwork(request.subnetwork.clone().unwrap_or_default())
        .set_enable_external_ips(request.external_ips);
    let mut labels: HashMap<String, String> = request.labels.clone().into_iter().collect();
    labels.insert(LABEL_MADE_BY.into(), MADE_BY.into());
    labels.insert(LABEL_REQUEST.into(), fingerprint(request, ask));
    let metadata: HashMap<String, String> = request.metadata.clone().into_iter().collect();
    let disks = request.disks.iter().map(|disk| {
        // Several machines can only share a disk that none of them writes to.
        model::AttachedDisk::new().set_source_disk(disk).set_mode(model::attached_disk::DiskMode::ReadOnly)
    });
    let mut node = model::Node::new()
        .set_accelerator_type(&request.accelerator_type)
        .set_runtime_version(&request.runtime_version)
        .set_network_config(network)
        .set_labels(labels)
        .set_metadata(metadata)
        .set_tags(request.tags.clone())
        .set_data_disks(disks);
    if let Some(email) = &request.service_account {
        let scope = ["https://www.googleapis.com/auth/cloud-platform"];
        node = node.set_service_account(model::ServiceAccount::new().set_email(email).set_scope(scope));
    }
    let scheduling = model::SchedulingConfig::new();
    match request.capacity {
        // In the queue the request is spot, and the API marks its nodes.
        Capacity::Spot if ask.as_node => node = node.set_scheduling_config(scheduling.set_spot(true)),
        Capacity::Reserved { .. } => node = node.set_scheduling_config(scheduling.set_reserved(true)),
        Capacity::Spot | Capacity::OnDemand => {}
    }
    node
}

/// The request as a queued resource.
pub(crate) fn queued_resource(
    account: &Account,
    request: &SliceRequest,
    ask: &Ask,
) -> Result<model::QueuedResource, ProviderError> {
    check(request, ask)?;
    let area = account.area(&request.id.zone);
    let spec = NodeSpec::new().set_parent(area.clone()).set_node(node(request, ask));
    let spec = if request.slices == 1 {
        spec.set_node_id(&request.id.name)
    } else {
        let count = i32::try_from(request.slices).map_err(|_| ProviderError::Invalid("too many slices".into()))?;
        spec.set_multislice_params(MultisliceParams::new().set_node_count(count).set_node_id_prefix(&request.id.name))
    };
    let mut queued = model::QueuedResource::new().set_tpu(Tpu::new().set_node_spec([spec]));
    match &request.capacity {
        Capacity::OnDemand => {}
        Capacity::Spot => queued = queued.set_spot(Spot::new()),
        Capacity::Reserved { reservation } => {
            queued = queued.set_guaranteed(Guaranteed::new());
            if let Some(name) = reservation {
                let full = if name.contains('/') { name.clone() } else { format!("{area}/reservations/{name}") };
                queued = queued.set_reservation_name(full);
            }
        }
    }
    let time = |time: SystemTime| {
        Timestamp::try_from(time).map_err(|error| ProviderError::Invalid(format!("a time that cannot be: {error}")))
    };
    let policy = QueueingPolicy::new();
    let policy = match (ask.valid_after, request.valid_until) {
        (None, None) => None,
        (None, Some(until)) => Some(policy.set_valid_until_time(time(until)?)),
        (Some(after), None) => Some(policy.set_valid_after_time(time(after)?)),
        (Some(after), Some(until)) => {
            let interval = Interval::new().set_start_time(time(after)?).set_end_time(time(until)?);
            Some(policy.set_valid_interval(interval))
        }
    };
    Ok(queued.set_or_clear_queueing_policy(policy))
}

/// The request as a single node.
pub(crate) fn single_node(request: &SliceRequest, ask: &Ask) -> Result<model::Node, ProviderError> {
    check(request, ask)?;
    Ok(node(request, ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_with_the_nearest_right_one() {
        for good in ["a", "job-1", &"a".repeat(63)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let cases = [
            ("Job_1", "job-1"),
            ("1st", "st"),
            ("a-", "a"),
            ("", "slice"),
            ("--", "slice"),
            ("ß", "slice"),
            ("a b", "a-b"),
        ];
        for (bad, nearest) in cases {
            let error = check_name(bad).unwrap_err().to_string();
            assert!(error.ends_with(&format!("such as {nearest:?}")), "{error}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }

    #[test]
    fn requests_that_cannot_be_are_not_sent() {
        let good = SliceRequest { id: SliceId { zone: "z".into(), name: "a".into() }, ..plain_request() };
        assert_eq!(check(&good, &Ask::default()), Ok(()));
        let node = Ask { as_node: true, ..Ask::default() };
        let time = SystemTime::UNIX_EPOCH;
        let late = Ask { valid_after: Some(time), ..Ask::default() };
        let label = |key: &str| BTreeMap::from([(key.to_owned(), String::new())]);
        let reserved = Capacity::Reserved { reservation: Some("r".into()) };
        let cases = [
            (SliceRequest { slices: 0, ..good.clone() }, Ask::default(), "0 slices"),
            (SliceRequest { slices: 2, ..good.clone() }, node.clone(), "need the queue"),
            (SliceRequest { valid_until: Some(time), ..good.clone() }, node.clone(), "only the queue"),
            (SliceRequest { valid_until: Some(time), ..good.clone() }, late, "after a time"),
            (SliceRequest { capacity: reserved, ..good.clone() }, node, "reservation"),
            (SliceRequest { labels: label("A"), ..good.clone() }, Ask::default(), "label"),
            (SliceRequest { disks: vec!["d".into()], ..good.clone() }, Ask::default(), "not a disk"),
        ];
        for (request, ask, expected) in cases {
            let error = check(&request, &ask).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_fingerprint_is_of_all_but_the_time() {
        let one = SliceRequest { id: SliceId { zone: "z".into(), name: "a".into() }, ..plain_request() };
        let print = |request: &SliceRequest| fingerprint(request, &Ask::default());
        let later = SliceRequest { valid_until: Some(SystemTime::now()), ..one.clone() };
        assert_eq!(print(&one), print(&later));
        let others = [
            SliceRequest { accelerator_type: "v6e-8".into(), ..one.clone() },
            SliceRequest { capacity: Capacity::Spot, ..one.clone() },
            SliceRequest { tags: vec!["t".into()], ..one.clone() },
            SliceRequest { labels: BTreeMap::from([("attempt".into(), "2".into())]), ..one.clone() },
            SliceRequest { external_ips: false, ..one.clone() },
        ];
        for other in others {
            assert_ne!(print(&one), print(&other), "{other:?}");
        }
    }
}
