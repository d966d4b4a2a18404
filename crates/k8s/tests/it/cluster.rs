//! A job on a cluster: made once, looked at, read, deleted; what is another's stays.

use fleet::job::JobFile;
use k8s::cluster::{Cluster, ClusterError, ClusterJobState, ObjectChange};
use k8s::{ClusterJob, RunSecret};
use serde_json::{Value, json};

use crate::cases::{full, workload};
use crate::server::Server;

const JOB_SET: usize = 0;
const JOB: usize = 1;
const CONFIG_MAP: usize = 2;
const SECRET: usize = 3;
const POD: usize = 4;

fn two_slices() -> JobFile {
    full("type = 'v5p-128'\ncount = 2", "train = 'llama.toml'")
}

fn apply(cluster: &Cluster, workload: &ClusterJob, secret: &str) -> Result<Vec<ObjectChange>, ClusterError> {
    let changes = cluster.apply(workload, &RunSecret::new(secret))?;
    Ok(changes.into_iter().map(|object| object.change).collect())
}

fn delete(cluster: &Cluster, workload: &ClusterJob) -> Vec<ObjectChange> {
    cluster.delete(workload).unwrap().into_iter().map(|object| object.change).collect()
}

#[test]
fn a_job_is_made_once_and_deleted_whole() {
    use ObjectChange::{Absent, Created, Deleted, Unchanged};
    let server = Server::start();
    let cluster = Cluster::at(&server.address).unwrap();
    let workload = workload(&two_slices());
    assert_eq!(cluster.status(&workload).unwrap().state, ClusterJobState::Absent);
    assert_eq!(apply(&cluster, &workload, "first").unwrap(), [Created, Created, Created]);
    assert_eq!(server.object(SECRET, "job-run").unwrap()["stringData"]["secret"], "first");
    assert_eq!(server.object(CONFIG_MAP, "job-files").unwrap()["data"]["llama.toml"], "[model]\nname = \"x\"\n");
    let made = server.object(JOB_SET, "job").unwrap();
    // A second time nothing happens, and the secret of the processes that run stays.
    assert_eq!(apply(&cluster, &workload, "second").unwrap(), [Unchanged, Unchanged, Unchanged]);
    assert_eq!(server.object(SECRET, "job-run").unwrap()["stringData"]["secret"], "first");
    assert_eq!(server.object(JOB_SET, "job").unwrap(), made);
    // What runs is not changed.
    let mut other = two_slices();
    other.limits.restarts = 4;
    let error = apply(&cluster, &crate::cases::workload(&other), "third").unwrap_err();
    assert!(matches!(error, ClusterError::Differs { .. }) && error.remedy().contains("delete"), "{error}");
    assert_eq!(delete(&cluster, &workload), [Deleted, Deleted, Deleted]);
    assert_eq!(delete(&cluster, &workload), [Absent, Absent, Absent]);
    assert!(server.kept.lock().unwrap().objects.is_empty());
    // A plain Job has no secret.
    let one = crate::cases::workload(&full("type = 'v6e-8'", "train = 'llama.toml'"));
    assert_eq!(apply(&cluster, &one, "first").unwrap(), [Created, Created]);
    assert_eq!(server.object(JOB, "job").unwrap()["kind"], "Job");
    assert_eq!(delete(&cluster, &one), [Deleted, Deleted, Absent]);
}

#[test]
fn lost_answers_make_nothing_twice() {
    let server = Server::start();
    let cluster = Cluster::at(&server.address).unwrap();
    let workload = workload(&two_slices());
    for _ in 0..3 {
        server.kept.lock().unwrap().lose_answers = 1;
        let error = apply(&cluster, &workload, "a").unwrap_err();
        assert!(matches!(error, ClusterError::Api { .. }) && error.remedy().contains("try again"), "{error:?}");
    }
    // Each lost answer had its effect; the rest is there already.
    assert_eq!(apply(&cluster, &workload, "a").unwrap(), [ObjectChange::Unchanged; 3]);
    assert_eq!(server.kept.lock().unwrap().objects.len(), 3);
}

#[test]
fn what_somebody_else_made_stays() {
    let server = Server::start();
    let cluster = Cluster::at(&server.address).unwrap();
    let workload = workload(&two_slices());
    let foreign = |kind: &str, version: &str, name: &str| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name, "namespace": "training" } });
    for (collection, object) in [
        (JOB_SET, foreign("JobSet", "jobset.x-k8s.io/v1alpha2", "job")),
        (CONFIG_MAP, foreign("ConfigMap", "v1", "job-files")),
        (SECRET, foreign("Secret", "v1", "job-run")),
    ] {
        server.kept.lock().unwrap().objects.clear();
        server.put(collection, object.clone());
        let name = object["metadata"]["name"].as_str().unwrap();
        assert!(matches!(apply(&cluster, &workload, "a").unwrap_err(), ClusterError::NotOurs { .. }), "{name}");
        assert!(matches!(cluster.delete(&workload).unwrap_err(), ClusterError::NotOurs { .. }), "{name}");
        assert_eq!(server.object(collection, name), Some(object));
    }
}

fn pod(name: &str, job: &str, status: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "training", "labels": { "tpubridge/job": job } },
        "spec": { "nodeName": "node-1" }, "status": status,
    })
}

#[test]
fn states_reasons_and_logs_are_told() {
    let server = Server::start();
    let cluster = Cluster::at(&server.address).unwrap();
    let workload = workload(&full("type = 'v5litepod-16'", "train = 'llama.toml'"));
    apply(&cluster, &workload, "a").unwrap();
    let terminated = json!({ "phase": "Failed", "containerStatuses": [{ "state": { "terminated": { "reason": "Error", "exitCode": 137 } } }] });
    server.put(POD, pod("job-slice-0-0", "job", json!({ "phase": "Running" })));
    server.put(POD, pod("job-slice-0-1", "job", terminated));
    let condition =
        json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/8 nodes" }]);
    server.put(POD, pod("job-slice-0-2", "job", json!({ "phase": "Pending", "conditions": condition })));
    server.put(POD, pod("job-slice-0-3", "job", json!({ "phase": "Running" })));
    server.put(POD, pod("other", "other", json!({ "phase": "Running" })));
    let status = cluster.status(&workload).unwrap();
    assert_eq!((status.state, status.expected_pods, status.pods.len()), (ClusterJobState::Waiting, 4, 4));
    assert_eq!((status.pods[1].exit_code, status.pods[1].reason.as_deref()), (Some(137), Some("Error")));
    assert_eq!(status.pods[2].reason.as_deref(), Some("0/8 nodes"));
    let with = |status: Value, deletion: Value| {
        let mut set = server.object(JOB_SET, "job").unwrap();
        set["status"] = status;
        set["metadata"]["deletionTimestamp"] = deletion;
        server.put(JOB_SET, set);
        cluster.status(&workload).unwrap()
    };
    for name in ["job-slice-0-1", "job-slice-0-2"] {
        server.put(POD, pod(name, "job", json!({ "phase": "Running" })));
    }
    assert_eq!(
        with(json!({ "restarts": 5, "restartsCountTowardsMax": 2 }), Value::Null).state,
        ClusterJobState::Running
    );
    let condition = |kind: &str| json!({ "restarts": 5, "restartsCountTowardsMax": 2, "conditions": [{ "type": kind, "status": "True", "message": "m" }] });
    for (kind, state) in [
        ("Completed", ClusterJobState::Completed),
        ("Failed", ClusterJobState::Failed),
        ("Suspended", ClusterJobState::Suspended),
    ] {
        let status = with(condition(kind), Value::Null);
        assert_eq!((status.state, status.restarts, status.counted_restarts), (state, 5, 2));
        assert_eq!(status.message.as_deref(), Some("m"));
    }
    assert_eq!(with(condition("Failed"), "2026-11-17T11:00:00Z".into()).state, ClusterJobState::Deleting);
    // Logs of those that have some; the others say why not.
    for (name, text) in [("job-slice-0-0", "one\ntwo\n"), ("job-slice-0-3", "last")] {
        server.kept.lock().unwrap().logs.insert(name.into(), text.into());
    }
    let mut said = Vec::new();
    assert_eq!(cluster.logs(&workload, 10, false, &mut said).unwrap(), 4);
    let mut lines: Vec<String> = String::from_utf8(said).unwrap().lines().map(String::from).collect();
    lines.sort();
    let waiting = |pod: &str| format!("[{pod}] (container \"worker\" is waiting to start)");
    let expected = [
        "[job-slice-0-0] one".to_string(),
        "[job-slice-0-0] two".into(),
        waiting("job-slice-0-1"),
        waiting("job-slice-0-2"),
        "[job-slice-0-3] last".into(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn refusals_have_remedies() {
    let server = Server::start();
    let cluster = Cluster::at(&server.address).unwrap();
    let workload = workload(&two_slices());
    for (code, part) in [(403, "rights"), (422, "field"), (500, "try again")] {
        server.kept.lock().unwrap().refuse = Some(code);
        let error = cluster.status(&workload).unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(error.remedy().contains(part), "{code}: {}", error.remedy());
    }
    assert!(Cluster::at("not an address").is_err());
    let nobody = Cluster::at("http://127.0.0.1:1").unwrap().status(&workload).unwrap_err();
    assert_eq!(nobody.code(), None);
}

/// The same on a real API server with the CRD of JobSet and a namespace `training`, where one is named.
#[test]
fn a_real_api_server_takes_the_job() {
    let Ok(address) = std::env::var("TPUBRIDGE_KUBE_APISERVER") else {
        eprintln!("a_real_api_server_takes_the_job did not run: TPUBRIDGE_KUBE_APISERVER names no API server");
        return;
    };
    let cluster = Cluster::at(&address).unwrap();
    for slices in ["type = 'v5p-128'\ncount = 2", "type = 'v6e-8'"] {
        let workload = workload(&full(slices, "train = 'llama.toml'"));
        cluster.delete(&workload).unwrap();
        assert!(
            apply(&cluster, &workload, &"a".repeat(64)).unwrap().iter().all(|change| *change == ObjectChange::Created)
        );
        assert!(apply(&cluster, &workload, "b").unwrap().iter().all(|change| *change == ObjectChange::Unchanged));
        assert_ne!(cluster.status(&workload).unwrap().state, ClusterJobState::Absent);
        cluster.delete(&workload).unwrap();
    }
}
