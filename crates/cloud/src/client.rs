//! The client: every call repeated until it has an answer, and no call that makes a second slice.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fleet::provider::{PaidTime, ProvidedSlice, Provider, ProviderError, SliceId, SliceRequest, SliceState};
use google_cloud_api_cloudquotas_v1::client::CloudQuotas;
use google_cloud_auth::credentials;
use google_cloud_gax::error::Error as ApiError;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_longrunning::model::{ListOperationsResponse, Operation};
use google_cloud_tpu_v2::client::Tpu;
use google_cloud_tpu_v2::model::{ListNodesResponse, ListQueuedResourcesResponse, Node, QueuedResource};
use tokio::runtime::Runtime;

use crate::failure::{Failure, causes, of_operation};
use crate::limits::{Waits, request_id};
use crate::paid::paid_time;
use crate::states::{Listed, has_nodes, label, last, node_ids, of_left, of_node, of_queued, zone_of};
use crate::{Account, Ask, Error, LABEL_REQUEST, RetryLimits, body, check_name};

const OPERATION_FIRST_POLL: Duration = Duration::from_millis(100);
const OPERATION_LONGEST_POLL: Duration = Duration::from_secs(2);
/// A list that goes on for longer than this many pages is not one.
const PAGES_MAX: usize = 10_000;
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// What time it is.
type Now = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Google's Cloud TPU API, for one project.
pub struct CloudTpu {
    pub(crate) account: Account,
    pub(crate) tpu: Tpu,
    pub(crate) quotas: CloudQuotas,
    runtime: Runtime,
    limits: RetryLimits,
    now: Now,
}

impl fmt::Debug for CloudTpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudTpu").field("account", &self.account).field("limits", &self.limits).finish()
    }
}

/// Slices, and the zones that could not be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The slices.
    pub slices: Vec<Listed>,
    /// Zones about which nothing is known now.
    pub unreachable: Vec<String>,
}

impl CloudTpu {
    /// A client, with the credentials that Google's libraries find on this machine.
    pub fn new(account: Account) -> Result<Self, Error> {
        Self::with_limits(account, RetryLimits::default())
    }

    /// A client that waits as it is told.
    pub fn with_limits(account: Account, limits: RetryLimits) -> Result<Self, Error> {
        account.check()?;
        // The one thing of a process that the TLS library wants; whoever came first has chosen.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Error::Client { what: error.to_string() })?;
        let found = if account.anonymous {
            credentials::anonymous::Builder::new().build()
        } else {
            let _inside = runtime.enter();
            let built = credentials::Builder::default().with_scopes([SCOPE]).build();
            built.map_err(|error| Error::Credentials { what: causes(&error) })?
        };
        let tpu = Tpu::builder()
            .with_endpoint(&account.endpoint)
            .with_credentials(found.clone())
            .with_retry_policy(NeverRetry)
            .with_attempt_timeout(limits.attempt);
        let tpu = runtime.block_on(tpu.build()).map_err(|error| Error::Client { what: causes(&error) })?;
        let quotas = CloudQuotas::builder()
            .with_endpoint(&account.quota_endpoint)
            .with_credentials(found)
            .with_retry_policy(NeverRetry)
            .with_attempt_timeout(limits.attempt);
        let quotas = runtime.block_on(quotas.build()).map_err(|error| Error::Client { what: causes(&error) })?;
        Ok(Self { account, tpu, quotas, runtime, limits, now: Arc::new(SystemTime::now) })
    }

    /// The same client with another clock, which tells it what has expired.
    pub fn with_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.now = Arc::new(now);
        self
    }

    /// Whose TPUs.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Asks for a slice in a way of its own. The same request again is the same slice.
    pub fn create_as(&self, request: &SliceRequest, ask: &Ask) -> Result<(), ProviderError> {
        self.runtime.block_on(self.make(request, ask))
    }

    /// Every slice of a zone, or of all zones for `-`, with those that were not made here.
    pub fn list_all(&self, zone: &str) -> Result<Listing, ProviderError> {
        self.runtime.block_on(self.list_slices(zone))
    }

    /// One slice with everything that is known of it.
    pub fn describe(&self, id: &SliceId) -> Result<Option<Listed>, ProviderError> {
        self.runtime.block_on(self.look(id))
    }

    /// The keys by which a worker of a node proves who it is, as `known_hosts` writes them. None where they are not published.
    pub fn host_keys(&self, zone: &str, node: &str, worker: u32) -> Result<Vec<String>, ProviderError> {
        let name = format!("{}/nodes/{node}", self.account.area(zone));
        let found = self.runtime.block_on(self.patiently(async || {
            let ask = self.tpu.get_guest_attributes().set_name(&name).set_query_path("hostkeys/");
            ask.set_worker_ids([worker.to_string()]).send().await
        }));
        let found = match found {
            Ok(found) => found,
            Err(Failure::NotFound(_) | Failure::Precondition(_)) => return Ok(Vec::new()),
            Err(failure) => return Err(failure.into_error()),
        };
        let values = found.guest_attributes.into_iter().filter_map(|one| one.query_value);
        let items = values.flat_map(|value| value.items).filter(|item| item.namespace == "hostkeys");
        // They go into a file with a key in a line.
        let is_plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        let mut keys: Vec<String> = items
            .filter(|item| is_plain(&item.key) && is_plain(&item.value))
            .map(|item| format!("{} {}", item.key, item.value))
            .collect();
        keys.sort();
        Ok(keys)
    }

    pub(crate) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// Asks until there is an answer that asking again would not change.
    pub(crate) async fn patiently<T>(&self, ask: impl AsyncFn() -> Result<T, ApiError>) -> Result<T, Failure> {
        let mut waits = Waits::new(self.limits);
        loop {
            let failure = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => Failure::from(&error),
            };
            if !failure.is_passing() {
                return Err(failure);
            }
            match waits.next(failure.retry_after()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(failure),
            }
        }
    }

    async fn queued(&self, id: &SliceId) -> Result<Option<QueuedResource>, ProviderError> {
        let name = format!("{}/queuedResources/{}", self.account.area(&id.zone), id.name);
        found(self.patiently(async || self.tpu.get_queued_resource().set_name(&name).send().await).await)
    }

    async fn node(&self, zone: &str, id: &str) -> Result<Option<Node>, ProviderError> {
        let name = format!("{}/nodes/{id}", self.account.area(zone));
        found(self.patiently(async || self.tpu.get_node().set_name(&name).send().await).await)
    }

    async fn make(&self, request: &SliceRequest, ask: &Ask) -> Result<(), ProviderError> {
        let area = self.account.area(&request.id.zone);
        let name = request.id.name.as_str();
        let queued = if ask.as_node { None } else { Some(body::queued_resource(&self.account, request, ask)?) };
        let node = if ask.as_node { Some(body::single_node(request, ask)?) } else { None };
        // One id for all attempts of this call: the API knows them as one. Another call has another, because the API remembers an
        // id for an hour, and a slice may be deleted and made again within it.
        let request_id = request_id();
        let mut waits = Waits::new(self.limits);
        let mut may_be_there = false;
        loop {
            let answer = match (&queued, &node) {
                (Some(queued), _) => {
                    let ask = self.tpu.create_queued_resource().set_parent(&area).set_queued_resource_id(name);
                    ask.set_request_id(&request_id).set_queued_resource(queued.clone()).send().await
                }
                (None, Some(node)) => {
                    self.tpu.create_node().set_parent(&area).set_node_id(name).set_node(node.clone()).send().await
                }
                (None, None) => return Err(ProviderError::Invalid("nothing is asked for".into())),
            };
            let failure = match answer {
                Ok(operation) => {
                    let failed = operation.error().map(|error| of_operation(error.code, &error.message));
                    return self.follow(&operation.name, operation.done, failed).await;
                }
                Err(error) => Failure::from(&error),
            };
            let (failure, retry_after) = match failure {
                Failure::Exists(what) => match self.compare(request, ask, &what).await? {
                    // It went away between the two questions, or is about to.
                    None => (Failure::Other(ProviderError::Transient { what, retry_after: None }), None),
                    Some(is_same) => return is_same,
                },
                failure => {
                    may_be_there |= matches!(failure, Failure::Other(ProviderError::Unknown(_)));
                    let retry_after = failure.retry_after();
                    (failure, retry_after)
                }
            };
            if !failure.is_passing() {
                return Err(failure.into_error());
            }
            match waits.next(retry_after) {
                Some(wait) => tokio::time::sleep(wait).await,
                None if may_be_there => return Err(ProviderError::Unknown(failure.into_error().to_string())),
                None => return Err(failure.into_error()),
            }
        }
    }

    /// Whether what has the name is what was asked for; none where there is nothing (any more) to compare.
    async fn compare(
        &self,
        request: &SliceRequest,
        ask: &Ask,
        what: &str,
    ) -> Result<Option<Result<(), ProviderError>>, ProviderError> {
        let wanted = body::fingerprint(request, ask);
        let id = &request.id;
        let (found, state) = match self.queued(id).await? {
            Some(queued) => {
                let state = of_queued(&queued, &[], (self.now)()).slice.state;
                (label(&queued, LABEL_REQUEST).map(str::to_owned), state)
            }
            None => match self.node(&id.zone, &id.name).await? {
                Some(node) => (node.labels.get(LABEL_REQUEST).cloned(), of_node(&node).slice.state),
                None => return Ok(None),
            },
        };
        if state == SliceState::Deleting {
            return Ok(None);
        }
        if found.as_ref() == Some(&wanted) {
            return Ok(Some(Ok(())));
        }
        let by = if found.is_some() { "by another request" } else { "not by tpubridge" };
        Ok(Some(Err(ProviderError::Taken(format!("{id} was made {by} ({what})")))))
    }

    /// Waits for a long-running operation, not for ever: one that takes longer is seen by looking.
    async fn follow(&self, name: &str, mut done: bool, mut failed: Option<Failure>) -> Result<(), ProviderError> {
        let ends = Instant::now() + self.limits.operation;
        let mut wait = OPERATION_FIRST_POLL;
        while !done && Instant::now() + wait < ends {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(OPERATION_LONGEST_POLL);
            match self.patiently(async || self.tpu.get_operation().set_name(name).send().await).await {
                Ok(operation) => {
                    done = operation.done;
                    failed = operation.error().map(|error| of_operation(error.code, &error.message));
                }
                // Operations are forgotten after a while.
                Err(Failure::NotFound(_)) => return Ok(()),
                // The request was accepted: looking tells what became of it.
                Err(failure) if failure.is_passing() => return Ok(()),
                Err(failure) => return Err(failure.into_error()),
            }
        }
        failed.map_or(Ok(()), |failure| Err(failure.into_error()))
    }

    async fn look(&self, id: &SliceId) -> Result<Option<Listed>, ProviderError> {
        check_name(&id.name)?;
        if let Some(queued) = self.queued(id).await? {
            let mut nodes = Vec::new();
            if has_nodes(&queued) {
                for node in node_ids(&queued) {
                    nodes.extend(self.node(&id.zone, &node).await?);
                }
            }
            return Ok(Some(of_queued(&queued, &nodes, (self.now)())));
        }
        if let Some(node) = self.node(&id.zone, &id.name).await?
            && node.queued_resource.is_empty()
        {
            return Ok(Some(of_node(&node)));
        }
        // A request that is gone may have left the nodes of its slices behind.
        let (mut nodes, _) = self.all_nodes(&id.zone).await?;
        nodes.retain(|node| last(&node.queued_resource) == id.name);
        Ok(of_left(&nodes))
    }

    async fn list_slices(&self, zone: &str) -> Result<Listing, ProviderError> {
        let (queued, mut unreachable) = self.all_queued(zone).await?;
        let (nodes, more) = self.all_nodes(zone).await?;
        unreachable.extend(more);
        unreachable.sort();
        unreachable.dedup();
        let mut of: HashMap<String, Vec<Node>> = HashMap::new();
        for node in nodes {
            of.entry(node.queued_resource.clone()).or_default().push(node);
        }
        let now = (self.now)();
        let mut slices = Vec::new();
        for one in &queued {
            slices.push(of_queued(one, &of.remove(&one.name).unwrap_or_default(), now));
        }
        slices.extend(of.remove("").unwrap_or_default().iter().map(of_node));
        for (name, nodes) in of {
            // Left behind by a request that is gone, or of one that came between the two lists.
            let id = SliceId { zone: zone_of(&name).into(), name: last(&name).into() };
            match self.queued(&id).await? {
                Some(queued) => slices.push(of_queued(&queued, &nodes, now)),
                None => slices.extend(of_left(&nodes)),
            }
        }
        slices.sort_by(|a, b| a.slice.id.cmp(&b.slice.id));
        Ok(Listing { slices, unreachable })
    }

    /// Every page of a list: what asks for one by its token, and what takes it and gives the next token.
    pub(crate) async fn pages<P>(
        &self,
        ask: impl AsyncFn(&str) -> Result<P, ApiError>,
        mut take: impl FnMut(P) -> String,
    ) -> Result<(), ProviderError> {
        let mut token = String::new();
        for _ in 0..PAGES_MAX {
            let page = self.patiently(async || ask(&token).await).await.map_err(Failure::into_error)?;
            let next = take(page);
            if next.is_empty() {
                return Ok(());
            }
            if next == token {
                break;
            }
            token = next;
        }
        Err(ProviderError::Invalid("a list of the API does not end".into()))
    }

    async fn all_queued(&self, zone: &str) -> Result<(Vec<QueuedResource>, Vec<String>), ProviderError> {
        let area = self.account.area(zone);
        let (mut items, mut unreachable) = (Vec::new(), Vec::new());
        let ask =
            async |token: &str| self.tpu.list_queued_resources().set_parent(&area).set_page_token(token).send().await;
        let take = |page: ListQueuedResourcesResponse| {
            items.extend(page.queued_resources);
            unreachable.extend(page.unreachable);
            page.next_page_token
        };
        self.pages(ask, take).await?;
        Ok((items, unreachable))
    }

    async fn all_nodes(&self, zone: &str) -> Result<(Vec<Node>, Vec<String>), ProviderError> {
        let area = self.account.area(zone);
        let (mut items, mut unreachable) = (Vec::new(), Vec::new());
        let ask = async |token: &str| self.tpu.list_nodes().set_parent(&area).set_page_token(token).send().await;
        let take = |page: ListNodesResponse| {
            items.extend(page.nodes);
            unreachable.extend(page.unreachable);
            page.next_page_token
        };
        self.pages(ask, take).await?;
        Ok((items, unreachable))
    }

    async fn all_operations(&self, zone: &str) -> Result<Vec<Operation>, ProviderError> {
        let area = self.account.area(zone);
        let mut items = Vec::new();
        let ask = async |token: &str| self.tpu.list_operations().set_name(&area).set_page_token(token).send().await;
        let take = |page: ListOperationsResponse| {
            items.extend(page.operations);
            page.next_page_token
        };
        self.pages(ask, take).await?;
        Ok(items)
    }

    async fn remove(&self, id: &SliceId) -> Result<(), ProviderError> {
        check_name(&id.name)?;
        let name = format!("{}/queuedResources/{}", self.account.area(&id.zone), id.name);
        let mut waits = Waits::new(self.limits);
        loop {
            let delete = async || self.tpu.delete_queued_resource().set_name(&name).set_force(true).send().await;
            match self.patiently(delete).await {
                Ok(operation) => {
                    if let Some(error) = operation.error() {
                        return Err(of_operation(error.code, &error.message).into_error());
                    }
                    // Its nodes are deleted with it.
                    return Ok(());
                }
                Err(Failure::NotFound(_)) => break,
                Err(Failure::Precondition(what)) => {
                    let queued = self.queued(id).await?;
                    match queued.map(|queued| of_queued(&queued, &[], (self.now)()).slice.state) {
                        None => break,
                        Some(SliceState::Deleting) => return Ok(()),
                        // Too early: one that is just being made cannot be deleted for a moment.
                        Some(_) => match waits.next(None) {
                            Some(wait) => tokio::time::sleep(wait).await,
                            None => return Err(ProviderError::Transient { what, retry_after: None }),
                        },
                    }
                }
                Err(failure) => return Err(failure.into_error()),
            }
        }
        // No request of that name: a node by itself, or what a request left behind.
        for node in self.all_nodes(&id.zone).await?.0 {
            let is_of_it = last(&node.queued_resource) == id.name;
            if (is_of_it || last(&node.name) == id.name && node.queued_resource.is_empty())
                && of_node(&node).slice.state != SliceState::Deleting
            {
                let delete = async || self.tpu.delete_node().set_name(&node.name).send().await;
                match self.patiently(delete).await {
                    Ok(_) | Err(Failure::NotFound(_)) => {}
                    Err(Failure::Precondition(what)) => {
                        return Err(ProviderError::Transient { what, retry_after: None });
                    }
                    Err(failure) => return Err(failure.into_error()),
                }
            }
        }
        Ok(())
    }
}

fn found<T>(answer: Result<T, Failure>) -> Result<Option<T>, ProviderError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Failure::NotFound(_)) => Ok(None),
        Err(failure) => Err(failure.into_error()),
    }
}

impl Provider for CloudTpu {
    fn create(&self, request: &SliceRequest) -> Result<(), ProviderError> {
        self.create_as(request, &Ask::default())
    }

    fn list(&self, zone: &str, labels: &BTreeMap<String, String>) -> Result<Vec<ProvidedSlice>, ProviderError> {
        let Listing { slices, unreachable } = self.list_all(zone)?;
        // What is not listed might be taken for deleted.
        if !unreachable.is_empty() {
            let what = format!("{} could not be asked", unreachable.join(", "));
            return Err(ProviderError::Transient { what, retry_after: None });
        }
        let has_all = |slice: &ProvidedSlice| labels.iter().all(|(key, value)| slice.labels.get(key) == Some(value));
        Ok(slices.into_iter().map(|listed| listed.slice).filter(has_all).collect())
    }

    fn get(&self, id: &SliceId) -> Result<Option<ProvidedSlice>, ProviderError> {
        Ok(self.describe(id)?.map(|listed| listed.slice))
    }

    fn delete(&self, id: &SliceId) -> Result<(), ProviderError> {
        self.runtime.block_on(self.remove(id))
    }

    fn paid(&self, id: &SliceId) -> Result<Vec<PaidTime>, ProviderError> {
        check_name(&id.name)?;
        self.runtime.block_on(async {
            let operations = self.all_operations(&id.zone).await?;
            Ok(paid_time(&self.account.area(&id.zone), &id.name, &operations).into_iter().collect())
        })
    }
}
