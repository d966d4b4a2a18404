//! The API's words for states in ours: what is ready, what is lost, and what only says that it is ready.

use std::collections::BTreeMap;
use std::time::SystemTime;

use fleet::provider::{Capacity, ProvidedSlice, SliceId, SliceState, Worker};
use google_cloud_tpu_v2::model::node::{Health, State as NodeState};
use google_cloud_tpu_v2::model::queued_resource::Tier;
use google_cloud_tpu_v2::model::queued_resource::queueing_policy::StartTimingConstraints;
use google_cloud_tpu_v2::model::queued_resource_state::State;
use google_cloud_tpu_v2::model::{Node, QueuedResource};
use google_cloud_wkt::Timestamp;

/// What a slice is to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
    /// A place in the queue, with its nodes once they are there.
    QueuedResource,
    /// A node by itself.
    Node,
}

/// A slice with what a list shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What any provider says of a slice.
    pub slice: ProvidedSlice,
    /// What it is to the API.
    pub kind: ListedKind,
    /// The cloud's name of the slice, such as `v5litepod-16`.
    pub accelerator_type: String,
    /// The image of its machines.
    pub runtime_version: String,
    /// Slices that were asked for together.
    pub slices: u32,
    /// How it is paid for.
    pub capacity: Capacity,
    /// The ids of its nodes, by slice, that are there or will be.
    pub nodes: Vec<String>,
}

/// The last part of a resource's name.
pub(crate) fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// The zone in a resource's name.
pub(crate) fn zone_of(name: &str) -> &str {
    name.split('/').nth(3).unwrap_or_default()
}

fn time(timestamp: Option<&Timestamp>) -> Option<SystemTime> {
    timestamp.and_then(|t| SystemTime::try_from(*t).ok())
}

/// The ids of a queued resource's nodes.
pub(crate) fn node_ids(queued: &QueuedResource) -> Vec<String> {
    let specs = queued.tpu().map(|tpu| tpu.node_spec.as_slice()).unwrap_or_default();
    let mut ids = Vec::new();
    for spec in specs {
        match (spec.node_id(), spec.multislice_params()) {
            (Some(id), _) => ids.push(id.clone()),
            (None, Some(many)) => {
                let prefix = if many.node_id_prefix.is_empty() { last(&queued.name) } else { &many.node_id_prefix };
                ids.extend((0..many.node_count.clamp(0, 4096)).map(|n| format!("{prefix}-{n}")));
            }
            (None, None) => {}
        }
    }
    ids
}

/// Whether it may have nodes: not in the queue, nor after them.
pub(crate) fn has_nodes(queued: &QueuedResource) -> bool {
    let state = queued.state.as_ref().map(|state| &state.state);
    let is_without = |state: &State| {
        matches!(
            state,
            State::Creating | State::Accepted | State::WaitingForResources | State::Failed | State::Suspended
        )
    };
    !state.is_some_and(is_without)
}

/// The fingerprint that a queued resource was made with.
pub(crate) fn label<'a>(queued: &'a QueuedResource, key: &str) -> Option<&'a str> {
    let spec = queued.tpu()?.node_spec.first()?;
    spec.node.as_ref()?.labels.get(key).map(String::as_str)
}

/// A queued resource, with those of its nodes that are there.
pub(crate) fn of_queued(queued: &QueuedResource, nodes: &[Node], now: SystemTime) -> Listed {
    let ids = node_ids(queued);
    let spec = queued.tpu().and_then(|tpu| tpu.node_spec.first());
    let asked = spec.and_then(|spec| spec.node.clone()).unwrap_or_default();
    let nodes: Vec<Option<&Node>> = ids.iter().map(|id| nodes.iter().find(|node| last(&node.name) == id)).collect();
    let (state, detail) = queued_state(queued, &nodes, now);
    let capacity = match &queued.tier {
        Some(Tier::Spot(_)) => Capacity::Spot,
        Some(Tier::Guaranteed(_)) => {
            let name = last(&queued.reservation_name);
            Capacity::Reserved { reservation: (!name.is_empty()).then(|| name.to_owned()) }
        }
        _ => capacity(&asked),
    };
    let slice = ProvidedSlice {
        id: SliceId { zone: zone_of(&queued.name).into(), name: last(&queued.name).into() },
        workers: workers(&nodes),
        state,
        labels: asked.labels.into_iter().collect(),
        created: time(queued.create_time.as_ref()),
        detail,
    };
    Listed {
        slice,
        kind: ListedKind::QueuedResource,
        accelerator_type: asked.accelerator_type,
        runtime_version: asked.runtime_version,
        slices: ids.len() as u32,
        capacity,
        nodes: ids,
    }
}

/// Nodes whose request is gone: they cost, and belong to nobody until they are deleted. None where there are none.
pub(crate) fn of_left(nodes: &[Node]) -> Option<Listed> {
    let mut listed = of_node(nodes.first()?);
    listed.slice.id.name = last(&nodes.first()?.queued_resource).into();
    let is_deleting = nodes.iter().all(|node| node.state == NodeState::Deleting);
    listed.slice.state = if is_deleting { SliceState::Deleting } else { SliceState::Lost };
    listed.slice.detail = format!("{}, its request is gone", listed.slice.detail);
    listed.slice.workers = workers(&nodes.iter().map(Some).collect::<Vec<_>>());
    listed.slices = nodes.len() as u32;
    listed.nodes = nodes.iter().map(|node| last(&node.name).to_owned()).collect();
    Some(listed)
}

/// A node by itself.
pub(crate) fn of_node(node: &Node) -> Listed {
    let slice = ProvidedSlice {
        id: SliceId { zone: zone_of(&node.name).into(), name: last(&node.name).into() },
        state: node_state(Some(node)),
        workers: workers(&[Some(node)]),
        labels: node.labels.clone().into_iter().collect::<BTreeMap<_, _>>(),
        created: time(node.create_time.as_ref()),
        detail: node_detail(Some(node)),
    };
    Listed {
        slice,
        kind: ListedKind::Node,
        accelerator_type: node.accelerator_type.clone(),
        runtime_version: node.runtime_version.clone(),
        slices: 1,
        capacity: capacity(node),
        nodes: vec![last(&node.name).into()],
    }
}

fn capacity(node: &Node) -> Capacity {
    match &node.scheduling_config {
        Some(config) if config.spot || config.preemptible => Capacity::Spot,
        Some(config) if config.reserved => Capacity::Reserved { reservation: None },
        _ => Capacity::OnDemand,
    }
}

fn workers(nodes: &[Option<&Node>]) -> Vec<Worker> {
    let mut workers = Vec::new();
    for (slice, node) in (0..).zip(nodes) {
        let endpoints = node.map(|node| node.network_endpoints.as_slice()).unwrap_or_default();
        for (number, endpoint) in (0..).zip(endpoints) {
            // An address that is not one belongs to a machine that is not there yet.
            let Ok(internal) = endpoint.ip_address.parse() else { continue };
            let external = endpoint.access_config.as_ref().and_then(|access| access.external_ip.parse().ok());
            workers.push(Worker { slice, number, internal, external });
        }
    }
    workers
}

fn queued_state(queued: &QueuedResource, nodes: &[Option<&Node>], now: SystemTime) -> (SliceState, String) {
    let said = queued.state.clone().unwrap_or_default();
    let word = said.state.name().map(str::to_owned).unwrap_or_else(|| {
        // A number or a word that came after this client.
        said.state.value().map_or_else(|| "a state without a name".into(), |n| format!("state {n}"))
    });
    let state = match said.state {
        State::Creating | State::Accepted | State::WaitingForResources => match valid_until(queued) {
            Some(until) if until < now => {
                SliceState::Failed { why: "expired in the queue: nobody filled it in time".into() }
            }
            _ => SliceState::Waiting,
        },
        State::Provisioning => SliceState::Creating,
        State::Failed => {
            let data = said.failed_data().and_then(|data| data.error.as_ref());
            let why = data.map(|error| error.message.clone()).filter(|text| !text.is_empty());
            SliceState::Failed { why: why.unwrap_or_else(|| "the API does not say why".into()) }
        }
        State::Deleting => SliceState::Deleting,
        // Whatever its nodes still say: they are being deleted, and it is never filled again.
        State::Suspending | State::Suspended => SliceState::Lost,
        State::Active => nodes.iter().map(|node| node_state(*node)).fold(SliceState::Ready, worst),
        // Not known: nothing is claimed that would start a job on it or give it up.
        _ if nodes.iter().any(Option::is_some) => SliceState::Creating,
        _ => SliceState::Waiting,
    };
    let mut detail = word;
    if matches!(said.state, State::Active) {
        let odd = nodes.iter().map(|node| node_detail(*node)).find(|text| text != "READY");
        detail = odd.map_or(detail.clone(), |text| format!("{detail}, node {text}"));
    }
    (state, detail)
}

fn valid_until(queued: &QueuedResource) -> Option<SystemTime> {
    let created = time(queued.create_time.as_ref());
    match queued.queueing_policy.as_ref()?.start_timing_constraints.as_ref()? {
        StartTimingConstraints::ValidUntilTime(until) => time(Some(until)),
        StartTimingConstraints::ValidUntilDuration(seconds) => {
            Some(created? + std::time::Duration::from_secs(u64::try_from(seconds.seconds()).ok()?))
        }
        StartTimingConstraints::ValidInterval(interval) => time(interval.end_time.as_ref()),
        _ => None,
    }
}

/// Of two, the one that decides what all of them together are.
fn worst(a: SliceState, b: SliceState) -> SliceState {
    let weight = |state: &SliceState| match state {
        SliceState::Ready => 0,
        SliceState::Waiting => 1,
        SliceState::Creating => 2,
        SliceState::Deleting => 3,
        SliceState::Failed { .. } => 4,
        SliceState::Lost => 5,
    };
    if weight(&b) > weight(&a) { b } else { a }
}

/// A node of an active request, or a node by itself; none where there should be one.
fn node_state(node: Option<&Node>) -> SliceState {
    let Some(node) = node else { return SliceState::Lost };
    match node.state {
        // Some preempted nodes say so only in words.
        NodeState::Ready if node.health_description.to_lowercase().contains("preempt") => SliceState::Lost,
        NodeState::Ready => SliceState::Ready,
        NodeState::Deleting => SliceState::Deleting,
        // Preempted nodes do not always say PREEMPTED. None of these comes back by itself.
        NodeState::Preempted
        | NodeState::Terminated
        | NodeState::Stopped
        | NodeState::Stopping
        | NodeState::Hiding
        | NodeState::Hidden => SliceState::Lost,
        // Coming, coming back, or a word that came after this client: not ready.
        _ => SliceState::Creating,
    }
}

fn node_detail(node: Option<&Node>) -> String {
    let Some(node) = node else { return "is not there".into() };
    let word = node.state.name().map(str::to_owned);
    let word = word.or_else(|| node.state.value().map(|n| format!("state {n}"))).unwrap_or_else(|| "state ?".into());
    let health = match node.health {
        Health::Healthy | Health::Unspecified => None,
        ref other => other.name(),
    };
    let said = Some(node.health_description.as_str()).filter(|text| !text.is_empty());
    match (health, said) {
        (None, None) => word,
        (Some(health), None) => format!("{word}, {health}"),
        (None, Some(said)) => format!("{word} ({said})"),
        (Some(health), Some(said)) => format!("{word}, {health} ({said})"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use google_cloud_tpu_v2::model::QueuedResourceState;
    use google_cloud_tpu_v2::model::queued_resource::tpu::NodeSpec;
    use google_cloud_tpu_v2::model::queued_resource::{QueueingPolicy, Tpu};

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn queued(state: impl Into<State>) -> QueuedResource {
        let spec = NodeSpec::new().set_node_id("a");
        QueuedResource::new()
            .set_name("projects/p/locations/z/queuedResources/a")
            .set_tpu(Tpu::new().set_node_spec([spec]))
            .set_state(QueuedResourceState::new().set_state(state))
    }

    fn node(state: impl Into<NodeState>) -> Node {
        Node::new().set_name("projects/p/locations/z/nodes/a").set_state(state)
    }

    fn check(queued: QueuedResource, nodes: &[Node], state: SliceState, detail: &str) {
        let found = of_queued(&queued, nodes, NOW).slice;
        assert_eq!((found.state, found.detail.as_str()), (state, detail));
    }

    #[test]
    fn every_state_of_a_request_is_known() {
        check(queued(State::Creating), &[], SliceState::Waiting, "CREATING");
        check(queued(State::Accepted), &[], SliceState::Waiting, "ACCEPTED");
        check(queued(State::WaitingForResources), &[], SliceState::Waiting, "WAITING_FOR_RESOURCES");
        check(queued(State::Provisioning), &[node(NodeState::Creating)], SliceState::Creating, "PROVISIONING");
        check(queued(State::Active), &[node(NodeState::Ready)], SliceState::Ready, "ACTIVE");
        check(queued(State::Deleting), &[node(NodeState::Ready)], SliceState::Deleting, "DELETING");
        let why = "the API does not say why".into();
        check(queued(State::Failed), &[], SliceState::Failed { why }, "FAILED");
    }

    #[test]
    fn lost_slices_say_many_things() {
        check(queued(State::Suspending), &[node(NodeState::Ready)], SliceState::Lost, "SUSPENDING");
        check(queued(State::Suspended), &[], SliceState::Lost, "SUSPENDED");
        check(queued(State::Active), &[node(NodeState::Preempted)], SliceState::Lost, "ACTIVE, node PREEMPTED");
        check(queued(State::Active), &[node(NodeState::Terminated)], SliceState::Lost, "ACTIVE, node TERMINATED");
        check(queued(State::Active), &[node(NodeState::Stopped)], SliceState::Lost, "ACTIVE, node STOPPED");
        check(queued(State::Active), &[node(NodeState::Hidden)], SliceState::Lost, "ACTIVE, node HIDDEN");
        check(queued(State::Active), &[], SliceState::Lost, "ACTIVE, node is not there");
        let ready = node(NodeState::Ready).set_health_description("The instance was preempted.");
        check(queued(State::Active), &[ready], SliceState::Lost, "ACTIVE, node READY (The instance was preempted.)");
    }

    #[test]
    fn what_comes_back_and_what_is_not_known_is_not_ready() {
        for state in [NodeState::Repairing, NodeState::Restarting, NodeState::Unknown, NodeState::from(99)] {
            assert_eq!(of_queued(&queued(State::Active), &[node(state)], NOW).slice.state, SliceState::Creating);
        }
        check(queued(99), &[node(NodeState::Ready)], SliceState::Creating, "state 99");
        check(queued("HIBERNATING"), &[], SliceState::Waiting, "HIBERNATING");
        assert_eq!(of_node(&node("HIBERNATING")).slice.detail, "HIBERNATING");
        let sick = node(NodeState::Ready).set_health(Health::UnhealthyMaintenance);
        check(queued(State::Active), &[sick], SliceState::Ready, "ACTIVE, node READY, UNHEALTHY_MAINTENANCE");
    }

    #[test]
    fn a_request_that_nobody_filled_in_time_has_failed() {
        let until = |seconds| QueueingPolicy::new().set_valid_until_time(Timestamp::clamp(seconds, 0));
        let late = queued(State::WaitingForResources).set_queueing_policy(until(-1));
        let found = of_queued(&late, &[], NOW).slice.state;
        assert!(matches!(found, SliceState::Failed { ref why } if why.contains("expired")), "{found:?}");
        let early = queued(State::WaitingForResources).set_queueing_policy(until(1));
        assert_eq!(of_queued(&early, &[], NOW).slice.state, SliceState::Waiting);
        assert_eq!(of_queued(&early, &[], NOW + Duration::from_secs(2)).slice.state, found);
        let given = queued(State::Active).set_queueing_policy(until(-1));
        assert_eq!(of_queued(&given, &[node(NodeState::Ready)], NOW).slice.state, SliceState::Ready);
    }
}
