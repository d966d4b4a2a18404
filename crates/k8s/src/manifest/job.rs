//! The JobSet of slices with several hosts, the Job of one host, and what each does when a pod fails.

use serde_json::{Value, json};

use super::pod::{CONTAINER, template};
use super::{labels, metadata};
use crate::cluster_job::ClusterJob;

/// The name of the replicated job: pods are called `NAME-slice-SLICE-WORKER`.
const REPLICATED_JOB: &str = "slice";

/// The exit code that says: asked to stop, everything is saved.
const SAVED: i32 = 75;

/// The exit code that says: it ran, and the answer is no. It would be no again.
const ANSWER_IS_NO: i32 = 1;

/// One Job for each slice, which fail and start again together.
pub(super) fn job_set(workload: &ClusterJob) -> Value {
    let mut meta = metadata(workload, &workload.name);
    // One slice is one node pool, and one pool is one slice.
    meta["annotations"] = json!({ "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool" });
    queue(workload, &mut meta);
    let hosts = workload.hosts_per_slice();
    let mut spec = json!({
        "parallelism": hosts,
        "completions": hosts,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "podFailurePolicy": { "rules": [free_of_charge_condition(), failed_with(SAVED), failed_with(ANSWER_IS_NO)] },
        "template": template(workload),
    });
    deadline(workload, &mut spec);
    let mut rules = vec![
        json!({
            "name": "answer_is_no",
            "action": "FailJobSet",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [format!("exit code {ANSWER_IS_NO} matching")],
        }),
        json!({
            "name": "preempted_or_saved",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
        }),
    ];
    if workload.deadline_s.is_some() {
        rules.push(json!({
            "name": "deadline",
            "action": "FailJobSet",
            "onJobFailureReasons": ["DeadlineExceeded"],
        }));
    }
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {
            "network": { "enableDNSHostnames": true, "publishNotReadyAddresses": true, "subdomain": workload.name },
            "successPolicy": { "operator": "All" },
            "failurePolicy": {
                "maxRestarts": workload.restarts,
                // Two pods must not hold the same chips.
                "restartStrategy": "BlockingRecreate",
                "rules": rules,
            },
            "replicatedJobs": [{
                "name": REPLICATED_JOB,
                "replicas": workload.slice.num_slices(),
                "template": { "spec": spec },
            }],
        },
    })
}

/// One pod, which the Job starts again by itself.
pub(super) fn single(workload: &ClusterJob) -> Value {
    let mut meta = metadata(workload, &workload.name);
    queue(workload, &mut meta);
    let mut saved = failed_with(SAVED);
    saved["action"] = "Ignore".into();
    let mut preempted = free_of_charge_condition();
    preempted["action"] = "Ignore".into();
    let mut spec = json!({
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": workload.restarts,
        "podFailurePolicy": { "rules": [preempted, saved, failed_with(ANSWER_IS_NO)] },
        // A pod that is being deleted still holds the chips.
        "podReplacementPolicy": "Failed",
        "template": template(workload),
    });
    deadline(workload, &mut spec);
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec })
}

fn deadline(workload: &ClusterJob, spec: &mut Value) {
    if let Some(seconds) = workload.deadline_s {
        spec["activeDeadlineSeconds"] = seconds.into();
    }
}

/// Kueue holds the job back until its queue has room.
fn queue(workload: &ClusterJob, meta: &mut Value) {
    if let Some(queue) = &workload.queue {
        let mut labels = labels(workload);
        labels.insert("kueue.x-k8s.io/queue-name".into(), queue.clone().into());
        meta["labels"] = labels.into();
    }
}

/// A pod that was evicted, preempted or whose machine was taken away.
fn free_of_charge_condition() -> Value {
    json!({ "action": "FailJob", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] })
}

fn failed_with(code: i32) -> Value {
    json!({
        "action": "FailJob",
        "onExitCodes": { "containerName": CONTAINER, "operator": "In", "values": [code] },
    })
}
