//! A cluster: what is made there, looked at, read and deleted, through its API.
//!
//! Every call may be repeated. What is there and is not ours is never changed or deleted.

mod error;
mod logs;
mod status;

pub use error::ClusterError;
pub use status::{ClusterJobState, ClusterJobStatus, PodStatus};

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::cluster_job::ClusterJob;
use crate::manifest::{MANIFEST, RunSecret, config_map_name, manifests, secret_name};

/// Who writes fields, as the API server remembers it.
const MANAGER: &str = "tpubridge";

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a cluster.
pub struct Cluster {
    client: Client,
    runtime: Runtime,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectChange {
    /// It was not there.
    Created,
    /// It is ours, and is now as the manifest says.
    Changed,
    /// It was there already, as the manifest says.
    Unchanged,
    /// It is deleted, or being deleted.
    Deleted,
    /// There was nothing to delete.
    Absent,
}

/// An object, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedObject {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What became of it.
    pub change: ObjectChange,
}

impl Cluster {
    /// The cluster of kubectl: `$KUBECONFIG`, `~/.kube/config`, or that of the pod this runs in. `context` names another
    /// context of the file.
    pub fn connect(context: Option<&str>) -> Result<Cluster, ClusterError> {
        let runtime = runtime()?;
        let config = runtime.block_on(async {
            match context {
                None => Config::infer().await.map_err(ClusterError::config),
                Some(context) => {
                    let options =
                        kube::config::KubeConfigOptions { context: Some(context.into()), ..Default::default() };
                    Config::from_kubeconfig(&options).await.map_err(ClusterError::config)
                }
            }
        })?;
        Cluster::with(runtime, config)
    }

    /// The API server at an address, without credentials.
    pub fn at(address: &str) -> Result<Cluster, ClusterError> {
        let address = address.parse().map_err(ClusterError::config)?;
        Cluster::with(runtime()?, Config::new(address))
    }

    fn with(runtime: Runtime, mut config: Config) -> Result<Cluster, ClusterError> {
        config.connect_timeout = Some(PATIENCE);
        let entered = runtime.enter();
        let client = Client::try_from(config).map_err(ClusterError::config)?;
        drop(entered);
        Ok(Cluster { client, runtime })
    }

    /// Makes everything that a workload needs, and the workload. A job of the same name that is there already must be the
    /// same: what runs is not changed.
    pub fn apply(&self, workload: &ClusterJob, secret: &RunSecret) -> Result<Vec<ChangedObject>, ClusterError> {
        let mut objects = manifests(workload, secret);
        let Some(job) = objects.pop() else { return Ok(Vec::new()) };
        self.runtime.block_on(async {
            let mut changes = Vec::new();
            let jobs = self.objects(&job, &workload.namespace);
            let is_there = match jobs.get_opt(&workload.name).await.map_err(doing("looking for", &job))? {
                None => false,
                Some(found) => {
                    ours(&found, &job, workload)?;
                    let hash = |annotations: Option<&str>| annotations.map(ToString::to_string);
                    let known =
                        hash(found.metadata.annotations.as_ref().and_then(|all| all.get(MANIFEST)).map(String::as_str));
                    if known != hash(job["metadata"]["annotations"][MANIFEST].as_str()) {
                        return Err(ClusterError::Differs { kind: kind(&job), name: workload.name.clone() });
                    }
                    true
                }
            };
            for object in &objects {
                changes.push(self.make(object, workload, is_there).await?);
            }
            changes.push(match is_there {
                true => changed(&job, ObjectChange::Unchanged),
                false => self.create(&job, workload).await?,
            });
            Ok(changes)
        })
    }

    /// What the manifest's kind is called in the API.
    fn objects(&self, manifest: &Value, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(manifest))
    }

    /// Makes what a job reads. The secret of a job that is there stays: its processes have it.
    async fn make(&self, object: &Value, workload: &ClusterJob, keep: bool) -> Result<ChangedObject, ClusterError> {
        let api = self.objects(object, &workload.namespace);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match api.get_opt(name).await.map_err(doing("looking for", object))? {
            None => self.create(object, workload).await,
            Some(found) => {
                ours(&found, object, workload)?;
                if keep || kind(object) == "Secret" {
                    return Ok(changed(object, ObjectChange::Unchanged));
                }
                let how = PatchParams::apply(MANAGER).force();
                api.patch(name, &how, &Patch::Apply(object)).await.map_err(doing("changing", object))?;
                Ok(changed(object, ObjectChange::Changed))
            }
        }
    }

    async fn create(&self, object: &Value, workload: &ClusterJob) -> Result<ChangedObject, ClusterError> {
        let api = self.objects(object, &workload.namespace);
        let dynamic: DynamicObject =
            serde_json::from_value(object.clone()).map_err(|source| ClusterError::Encode { source })?;
        let how = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match api.create(&how, &dynamic).await {
            Ok(_) => Ok(changed(object, ObjectChange::Created)),
            // The answer to an earlier request was lost, or somebody was quicker.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let found = api.get(name).await.map_err(doing("looking for", object))?;
                ours(&found, object, workload)?;
                Ok(changed(object, ObjectChange::Unchanged))
            }
            Err(error) => Err(doing("creating", object)(error)),
        }
    }

    /// Deletes the workload and everything made for it. Pods get their grace period.
    pub fn delete(&self, workload: &ClusterJob) -> Result<Vec<ChangedObject>, ClusterError> {
        let named = |api: &str, kind: &str, name: String| serde_json::json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name } });
        let job = match workload.is_job_set() {
            true => named("jobset.x-k8s.io/v1alpha2", "JobSet", workload.name.clone()),
            false => named("batch/v1", "Job", workload.name.clone()),
        };
        let objects =
            [job, named("v1", "ConfigMap", config_map_name(workload)), named("v1", "Secret", secret_name(workload))];
        self.runtime.block_on(async {
            let mut changes = Vec::new();
            for object in &objects {
                let api = self.objects(object, &workload.namespace);
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let change = match api.get_opt(name).await.map_err(doing("looking for", object))? {
                    None => ObjectChange::Absent,
                    Some(found) => {
                        ours(&found, object, workload)?;
                        // The job stays until its pods are gone: `status` shows that.
                        match api.delete(name, &DeleteParams::foreground()).await {
                            Ok(_) => ObjectChange::Deleted,
                            Err(kube::Error::Api(status)) if status.code == 404 => ObjectChange::Absent,
                            Err(error) => return Err(doing("deleting", object)(error)),
                        }
                    }
                };
                changes.push(changed(object, change));
            }
            Ok(changes)
        })
    }
}

fn runtime() -> Result<Runtime, ClusterError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ClusterError::config)
}

fn kind(object: &Value) -> String {
    object["kind"].as_str().unwrap_or_default().to_string()
}

fn resource(object: &Value) -> ApiResource {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind(object)))
}

fn changed(object: &Value, change: ObjectChange) -> ChangedObject {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    ChangedObject { kind: kind(object), name: name.to_string(), change }
}

fn doing(what: &'static str, object: &Value) -> impl FnOnce(kube::Error) -> ClusterError {
    let name = format!("{} {}", kind(object), object["metadata"]["name"].as_str().unwrap_or_default());
    move |error| ClusterError::api(what, name, error)
}

/// Refuses an object that another made.
fn ours(found: &DynamicObject, object: &Value, workload: &ClusterJob) -> Result<(), ClusterError> {
    let label = found.metadata.labels.as_ref().and_then(|labels| labels.get("tpubridge/job"));
    match label == Some(&workload.name) {
        true => Ok(()),
        false => Err(ClusterError::NotOurs {
            kind: kind(object),
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_string(),
        }),
    }
}
