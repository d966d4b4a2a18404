//! How a job is: its state, its restarts, and each of its pods with the reason it gives.

use kube::api::ListParams;
use serde::Serialize;
use serde_json::Value;

use super::{Cluster, ClusterError, doing};
use crate::cluster_job::ClusterJob;

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterJobState {
    /// It is not there.
    Absent,
    /// Kueue, or a person, holds it back.
    Suspended,
    /// Its pods are not all running.
    Waiting,
    /// All pods run.
    Running,
    /// It is done.
    Completed,
    /// It is given up.
    Failed,
    /// It is being deleted.
    Deleting,
}

/// A pod of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodStatus {
    /// Its name.
    pub name: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: String,
    /// The node it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why it waits or ended, as Kubernetes says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The exit code of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

/// A job as the cluster has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterJobStatus {
    /// How far it is.
    pub state: ClusterJobState,
    /// What the last condition says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often it was started again.
    pub restarts: u64,
    /// Of these, those that counted against the limit.
    pub counted_restarts: u64,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Pods that all slices have together.
    pub expected_pods: u32,
    /// Its pods, by name.
    pub pods: Vec<PodStatus>,
}

impl Cluster {
    /// How a job is.
    pub fn status(&self, workload: &ClusterJob) -> Result<ClusterJobStatus, ClusterError> {
        let job = named(workload);
        self.runtime.block_on(async {
            let found = self.objects(&job, &workload.namespace).get_opt(&workload.name).await;
            let found = found.map_err(doing("looking for", &job))?;
            let pods = self.pods(workload).await?;
            let object = found.map(|found| serde_json::to_value(&found)).transpose();
            let object = object.map_err(|source| ClusterError::Encode { source })?;
            Ok(status(object.as_ref(), &pods, workload))
        })
    }

    /// The pods of a job, by name.
    pub(super) async fn pods(&self, workload: &ClusterJob) -> Result<Vec<Value>, ClusterError> {
        let pod = serde_json::json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": workload.name } });
        let chosen = ListParams::default().labels(&format!("tpubridge/job={}", workload.name));
        let list =
            self.objects(&pod, &workload.namespace).list(&chosen).await.map_err(doing("listing pods of", &pod))?;
        let pods: Result<Vec<Value>, _> = list.items.iter().map(serde_json::to_value).collect();
        let mut pods = pods.map_err(|source| ClusterError::Encode { source })?;
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(ToString::to_string));
        Ok(pods)
    }
}

fn named(workload: &ClusterJob) -> Value {
    let (api, kind) = if workload.is_job_set() { ("jobset.x-k8s.io/v1alpha2", "JobSet") } else { ("batch/v1", "Job") };
    serde_json::json!({ "apiVersion": api, "kind": kind, "metadata": { "name": workload.name } })
}

fn status(object: Option<&Value>, pods: &[Value], workload: &ClusterJob) -> ClusterJobStatus {
    let null = Value::Null;
    let object_status = object.map_or(&null, |object| &object["status"]);
    let conditions = object_status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is = |kind: &str| conditions.iter().find(|found| found["type"] == kind && found["status"] == "True");
    let expected_pods = workload.hosts_per_slice() * workload.slice.num_slices();
    let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
    let ends = [
        (is("Completed").or(is("Complete")), ClusterJobState::Completed),
        (is("Failed"), ClusterJobState::Failed),
        (is("Suspended"), ClusterJobState::Suspended),
    ];
    let end = ends.into_iter().find_map(|(condition, state)| Some((condition?, state)));
    let state = match (object, end) {
        (None, _) => ClusterJobState::Absent,
        (Some(object), _) if !object["metadata"]["deletionTimestamp"].is_null() => ClusterJobState::Deleting,
        (Some(_), Some((_, state))) => state,
        (Some(_), None) if running as u64 >= u64::from(expected_pods) => ClusterJobState::Running,
        (Some(_), None) => ClusterJobState::Waiting,
    };
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    // A plain Job counts its failed pods.
    let failed = number(&object_status["failed"]);
    ClusterJobStatus {
        state,
        message: end.and_then(|(condition, _)| condition["message"].as_str().map(ToString::to_string)),
        restarts: number(&object_status["restarts"]).max(failed),
        counted_restarts: number(&object_status["restartsCountTowardsMax"]).max(failed),
        created: object.and_then(|object| object["metadata"]["creationTimestamp"].as_str().map(ToString::to_string)),
        expected_pods,
        pods: pods.iter().map(pod).collect(),
    }
}

fn pod(pod: &Value) -> PodStatus {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(ToString::to_string);
    let container = &pod["status"]["containerStatuses"][0]["state"];
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let disrupted = conditions.iter().find(|found| found["type"] == "DisruptionTarget" && found["status"] == "True");
    let unscheduled = conditions.iter().find(|found| found["type"] == "PodScheduled" && found["status"] == "False");
    let why = [
        disrupted.and_then(|condition| text(&condition["reason"])),
        text(&container["waiting"]["reason"]),
        text(&container["terminated"]["reason"]),
        unscheduled.and_then(|condition| text(&condition["message"]).or(text(&condition["reason"]))),
        text(&pod["status"]["reason"]),
    ];
    PodStatus {
        name: text(&pod["metadata"]["name"]).unwrap_or_default(),
        phase: text(&pod["status"]["phase"]).unwrap_or_else(|| "Unknown".into()),
        node: text(&pod["spec"]["nodeName"]),
        reason: why.into_iter().flatten().next(),
        exit_code: container["terminated"]["exitCode"].as_i64(),
    }
}
