//! Manifests of a workload, in the order in which they are created.

mod job;
mod pod;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::cluster_job::ClusterJob;

/// The annotation with a hash of the manifests of a job, its secret apart.
pub(crate) const MANIFEST: &str = "tpubridge/manifest";

/// The secret that the processes of a job prove to each other.
#[derive(Clone)]
pub struct RunSecret(String);

impl RunSecret {
    /// A secret of at least 32 characters, as `tpu config secret` makes it.
    pub fn new(text: &str) -> RunSecret {
        RunSecret(text.to_string())
    }
}

impl std::fmt::Debug for RunSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunSecret(…)")
    }
}

/// The name of the ConfigMap with the files of a job.
pub fn config_map_name(workload: &ClusterJob) -> String {
    format!("{}-files", workload.name)
}

/// The name of the Secret of a job's processes.
pub fn secret_name(workload: &ClusterJob) -> String {
    format!("{}-run", workload.name)
}

/// The manifests: ConfigMap and Secret where they are needed, and the JobSet or Job last.
pub fn manifests(workload: &ClusterJob, secret: &RunSecret) -> Vec<Value> {
    let mut objects = Vec::new();
    if !workload.files.is_empty() {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(workload, &config_map_name(workload)),
            "data": workload.files,
        }));
    }
    if workload.is_job_set() {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(workload, &secret_name(workload)),
            "type": "Opaque",
            "stringData": { "secret": secret.0 },
        }));
    }
    let mut job = match workload.is_job_set() {
        true => job::job_set(workload),
        false => job::single(workload),
    };
    job["metadata"]["annotations"][MANIFEST] = hash(workload, &job).into();
    objects.push(job);
    objects
}

fn hash(workload: &ClusterJob, job: &Value) -> String {
    let digest = Sha256::digest(json!([job, workload.files]).to_string());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Labels of everything that belongs to a job.
fn labels(workload: &ClusterJob) -> Map<String, Value> {
    let own = [("app.kubernetes.io/managed-by", "tpubridge"), ("tpubridge/job", &workload.name)];
    let own = own.map(|(key, value)| (key.to_string(), Value::from(value)));
    let given = workload.labels.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
    own.into_iter().chain(given).collect()
}

fn metadata(workload: &ClusterJob, name: &str) -> Value {
    json!({ "name": name, "namespace": workload.namespace, "labels": labels(workload) })
}
