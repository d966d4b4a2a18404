//! Where our manifests differ from those of `xpk`, and why: what a test allows, and what the guide shows.

/// A field that is not as `xpk` 1.16 writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XpkDifference {
    /// The field, from `metadata`, `set` (the JobSet), `job` (the Job of a slice), `pod` or `container`. What is below it
    /// is meant too.
    pub field: &'static str,
    /// What `xpk` writes.
    pub xpk: &'static str,
    /// What we write.
    pub ours: &'static str,
    /// Why.
    pub why: &'static str,
}

const fn differs(field: &'static str, xpk: &'static str, ours: &'static str, why: &'static str) -> XpkDifference {
    XpkDifference { field, xpk, ours, why }
}

/// All of them; fields that are not here are equal.
pub const XPK_DIFFERENCES: &[XpkDifference] = &[
    differs("kind", "JobSet", "Job, for one host", "nothing has to start or fail together"),
    differs("metadata.namespace", "that of the context", "that of the job", "one command, one place"),
    differs("metadata.labels", "its own, a fixed queue", "the job's, and its queue", "each tool finds what it made"),
    differs(
        "metadata.annotations",
        "exclusive topology",
        "a hash of the manifest; no topology for one host",
        "`apply` knows a job by it; one pod cannot straddle pools",
    ),
    differs("set.ttlSecondsAfterFinished", "12 hours", "none", "the end and its reason stay until `tpu k8s delete`"),
    differs("set.network", "the default", "written", "processes find each other by these names"),
    differs("set.successPolicy", "the default", "written: all", "the same, said"),
    differs("set.failurePolicy.restartStrategy", "Recreate", "BlockingRecreate", "two pods never want the same chips"),
    differs(
        "set.failurePolicy.rules",
        "no name; exit codes but 42 and 127 to 255 end the job",
        "named; 1 ends the job, 75 and disruptions restart it without being counted",
        "the schema wants names; our codes say whether a restart helps",
    ),
    differs("set.failurePolicy.maxRestarts", "restarts", "backoffLimit, for one host", "the Job counts by itself"),
    differs("set.replicatedJob.name", "slice-job", "slice", "names of pods have 63 letters"),
    differs("set.replicatedJob.replicas", "1", "none, for one host", "a plain Job"),
    differs("job.completionMode", "the default of JobSets", "Indexed", "the same, said"),
    differs("job.backoffLimit", "0", "restarts, for one host", "the Job starts its pod again by itself"),
    differs("job.podReplacementPolicy", "none", "Failed, for one host", "a pod that is being deleted holds the chips"),
    differs("job.podFailurePolicy", "one rule", "disruptions, 75 and 1", "what the rules of the set look at"),
    differs(
        "job.parallelism",
        "2 hosts of 4 chips for v5e-8",
        "1 host of 8",
        "the machine with 8 chips needs no network",
    ),
    differs("job.completions", "2 for v5e-8", "1", "as above"),
    differs("container.resources", "4 chips for v5e-8", "8", "as above"),
    differs("pod.labels", "its own", "the job's", "`tpu k8s logs` and `tpu hang --selector` find pods by them"),
    differs("pod.schedulerName", "the default", "none", "the same"),
    differs("pod.imagePullSecrets", "a secret called None", "none", "a mistake of xpk's"),
    differs("pod.priorityClassName", "medium", "that of the job, if any", "clusters without xpk have no such class"),
    differs(
        "pod.nodeSelector.cloud.google.com/gke-spot",
        "none",
        "true, for spot",
        "on-demand nodes are not taken by it",
    ),
    differs(
        "pod.tolerations",
        "any effect",
        "NoSchedule; spot as well",
        "a tainted node that is being drained stays so",
    ),
    differs("pod.volumes", "dshm-2", "dshm, and those of the job", "names"),
    differs("container.name", "jax-tpu", "worker", "a name"),
    differs("container.command", "bash around the command", "the command", "signals and exit codes arrive as they are"),
    differs("container.env", "empty", "the job's; secret and attempt", "processes prove that they belong together"),
    differs("container.ports", "none", "those in use, by name", "probes, Prometheus and people see them"),
    differs("container.securityContext", "privileged", "and user 0", "our image has another user; chips are root's"),
    differs("container.volumeMounts", "dshm-2", "dshm, and those of the job", "names"),
];

/// The table of the guide.
pub fn table() -> String {
    let head = "| field | xpk 1.16 | ours | why |\n|---|---|---|---|\n".to_string();
    XPK_DIFFERENCES
        .iter()
        .fold(head, |text, row| text + &format!("| `{}` | {} | {} | {} |\n", row.field, row.xpk, row.ours, row.why))
}
