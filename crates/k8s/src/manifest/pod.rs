//! The pod of a host: where it may run, what it may use, what it sees, and how it is asked whether it lives.

use fleet::provider::Capacity;
use serde_json::{Map, Value, json};

use super::{config_map_name, labels, secret_name};
use crate::cluster_job::{BUCKET, CLAIM, ClusterJob, FILES, METRICS_PORT};

/// The name of the container.
pub(super) const CONTAINER: &str = "worker";

/// What chips are called among resources.
const CHIPS: &str = "google.com/tpu";

/// The label by which a JobSet counts its starts: processes of an earlier one are refused.
const ATTEMPT: &str = "metadata.labels['jobset.sigs.k8s.io/restart-attempt']";

/// Ports that other hosts use: JAX's and our coordinator, libtpu between hosts, and between slices.
const PORTS: [(&str, u16); 5] =
    [("coordinator", 8476), ("libtpu", 8471), ("libtpu-metrics", 8431), ("megascale", 8080), ("jax", 8482)];

pub(super) fn template(workload: &ClusterJob) -> Value {
    let mut meta = json!({ "labels": labels(workload) });
    let mut annotations = Map::new();
    if workload.bucket.is_some() {
        annotations.insert("gke-gcsfuse/volumes".into(), "true".into());
        // No limits: what is read at once is the program's own business.
        for resource in ["cpu", "memory", "ephemeral-storage"] {
            annotations.insert(format!("gke-gcsfuse/{resource}-limit"), "0".into());
        }
    }
    if workload.answers {
        annotations.insert("prometheus.io/scrape".into(), "true".into());
        annotations.insert("prometheus.io/port".into(), METRICS_PORT.to_string().into());
    }
    if !annotations.is_empty() {
        meta["annotations"] = annotations.into();
    }
    let mut spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": workload.grace_s,
        "hostNetwork": true,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": selector(workload),
        "tolerations": tolerations(workload),
        "containers": [container(workload)],
        "volumes": volumes(workload).into_iter().map(|(_, volume)| volume).collect::<Vec<_>>(),
    });
    if let Some(priority) = &workload.priority {
        spec["priorityClassName"] = priority.clone().into();
    }
    if let Some(account) = &workload.service_account {
        spec["serviceAccountName"] = account.clone().into();
    }
    json!({ "metadata": meta, "spec": spec })
}

/// Labels that a node must have.
fn selector(workload: &ClusterJob) -> Map<String, Value> {
    let mut selector = Map::new();
    if let Some(accelerator) = workload.slice.spec().names.gke_accelerator {
        selector.insert("cloud.google.com/gke-tpu-accelerator".into(), accelerator.value.into());
    }
    selector.insert("cloud.google.com/gke-tpu-topology".into(), workload.slice.topology().into());
    if let Some(policy) = &workload.placement_policy {
        selector.insert("cloud.google.com/placement-policy-name".into(), policy.clone().into());
    }
    match &workload.capacity {
        Capacity::Spot => {
            selector.insert("cloud.google.com/gke-spot".into(), "true".into());
        }
        Capacity::Reserved { reservation: Some(name) } => {
            // The name alone: a reservation of another project is written with its path.
            let name = name.rsplit('/').next().unwrap_or(name);
            selector.insert("cloud.google.com/reservation-name".into(), name.into());
        }
        _ => {}
    }
    selector
}

fn tolerations(workload: &ClusterJob) -> Vec<Value> {
    let mut tolerations = vec![json!({ "key": CHIPS, "operator": "Exists", "effect": "NoSchedule" })];
    if matches!(workload.capacity, Capacity::Spot) {
        let key = "cloud.google.com/gke-spot";
        tolerations.push(json!({ "key": key, "operator": "Equal", "value": "true", "effect": "NoSchedule" }));
    }
    tolerations
}

fn container(workload: &ClusterJob) -> Value {
    let mut ports: Vec<(&str, u16)> = if workload.is_job_set() { PORTS.to_vec() } else { Vec::new() };
    if workload.answers {
        ports.push(("metrics", METRICS_PORT));
    }
    let ports = ports.into_iter().map(|(name, port)| json!({ "name": name, "containerPort": port, "protocol": "TCP" }));
    let mut container = json!({
        "name": CONTAINER,
        "image": workload.image,
        "command": workload.command,
        "env": environment(workload),
        "ports": ports.collect::<Vec<_>>(),
        "resources": { "limits": { CHIPS: workload.chips_per_host() } },
        // Chips are devices of the host that belong to root.
        "securityContext": { "privileged": true, "runAsUser": 0, "runAsNonRoot": false },
        "volumeMounts": volumes(workload).into_iter().map(|(mount, _)| mount).collect::<Vec<_>>(),
    });
    if workload.answers {
        let probe = json!({ "path": "/healthz", "port": "metrics" });
        // Five minutes until it answers; then two of silence are the end.
        container["startupProbe"] = json!({ "httpGet": probe, "periodSeconds": 5, "failureThreshold": 60 });
        container["livenessProbe"] =
            json!({ "httpGet": probe, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6 });
    }
    container
}

fn environment(workload: &ClusterJob) -> Vec<Value> {
    let given = workload.environment.iter().map(|(name, value)| json!({ "name": name, "value": value }));
    let mut environment: Vec<Value> = given.collect();
    if workload.is_job_set() {
        let secret = json!({ "secretKeyRef": { "name": secret_name(workload), "key": "secret" } });
        environment.push(json!({ "name": "TPUBRIDGE_SECRET", "valueFrom": secret }));
        environment.push(json!({ "name": "TPUBRIDGE_RUN_ID", "valueFrom": { "fieldRef": { "fieldPath": ATTEMPT } } }));
    }
    environment
}

/// Volumes, each with where it is mounted.
fn volumes(workload: &ClusterJob) -> Vec<(Value, Value)> {
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
    let mut volumes = vec![(
        // libtpu keeps what hosts share here, and the usual 64 MB are too few.
        mount("dshm", "/dev/shm"),
        json!({ "name": "dshm", "emptyDir": { "medium": "Memory" } }),
    )];
    if !workload.files.is_empty() {
        let source = json!({ "name": "files", "configMap": { "name": config_map_name(workload) } });
        volumes.push((json!({ "name": "files", "mountPath": FILES, "readOnly": true }), source));
    }
    if let Some(claim) = &workload.volume_claim {
        let source = json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim } });
        volumes.push((mount("data", CLAIM), source));
    }
    if let Some(bucket) = &workload.bucket {
        let attributes = json!({ "bucketName": bucket.bucket, "mountOptions": "implicit-dirs" });
        let driver = json!({ "driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes });
        volumes.push((mount("bucket", BUCKET), json!({ "name": "bucket", "csi": driver })));
    }
    volumes
}
