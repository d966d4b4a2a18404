//! What a job file means on Kubernetes: a command in an image on every host of its slices.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use chips::{Generation, Slice};
use fleet::job::{JobFile, JobProgram};
use fleet::provider::Capacity;

/// Where files of a job are in its pods.
pub(crate) const FILES: &str = "/job";
/// Where a claim is mounted.
pub(crate) const CLAIM: &str = "/data";
/// Where the bucket of a job's folder is mounted for programs that want files.
pub(crate) const BUCKET: &str = "/bucket";
/// The port where a training answers what it is asked.
pub(crate) const METRICS_PORT: u16 = 9464;
/// Bytes that a ConfigMap may hold, less what its other fields take.
const MAX_FILES_BYTES: usize = 1_000_000;
/// Letters of a name of a pod, which is that of the JobSet with the numbers of slice and worker and five random letters.
const MAX_POD_NAME: usize = 63;
/// Seconds that pods have on a Spot machine: a longer grace is of no use there.
const SPOT_GRACE_S: u64 = 15;

/// A command in an image on every host of one or several slices.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterJob {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Variables of the environment.
    pub environment: BTreeMap<String, String>,
    /// All slices.
    pub slice: Slice,
    /// How they are paid for.
    pub capacity: Capacity,
    /// The Kueue queue.
    pub queue: Option<String>,
    /// The priority class.
    pub priority: Option<String>,
    /// The placement policy of the node pools.
    pub placement_policy: Option<String>,
    /// The Kubernetes service account of the pods.
    pub service_account: Option<String>,
    /// Files, which pods see in `/job`.
    pub files: BTreeMap<String, String>,
    /// A claim that is mounted at `/data`.
    pub volume_claim: Option<String>,
    /// A bucket that is mounted for programs that want files.
    pub bucket: Option<BucketMount>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Failures after which it is started again.
    pub restarts: u32,
    /// Seconds that one attempt may take.
    pub deadline_s: Option<u64>,
    /// Seconds between the request to stop and the kill.
    pub grace_s: u64,
    /// Whether the program answers at the port of metrics.
    pub answers: bool,
    /// What the job file asks for and Kubernetes does otherwise or not at all.
    pub notes: Vec<String>,
}

/// A bucket as a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketMount {
    /// Its name.
    pub bucket: String,
}

/// Why a job cannot run on Kubernetes; every reason, each with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterJobError {
    /// The reasons, at least one.
    pub reasons: Vec<String>,
}

impl fmt::Display for ClusterJobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the job cannot run on Kubernetes: {}", self.reasons.join("\n  and "))
    }
}

impl std::error::Error for ClusterJobError {}

impl ClusterJob {
    /// What a job file means. `read` gives the text of a file that pods need.
    pub fn of(job: &JobFile, read: &dyn Fn(&Path) -> io::Result<String>) -> Result<ClusterJob, ClusterJobError> {
        let mut reasons = Vec::new();
        let mut notes = Vec::new();
        let mut files = BTreeMap::new();
        let mut add = |path: &Path, reasons: &mut Vec<String>| -> String {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match read(path) {
                Ok(text) => {
                    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                        reasons.push(format!(
                            "the name {name:?} is not one for a ConfigMap: use letters, digits, -, _ and ."
                        ));
                    }
                    if files.insert(name.clone(), text).is_some() {
                        reasons.push(format!("two files are called {name}: rename one"));
                    }
                }
                Err(error) => reasons.push(format!(
                    "{} cannot be read as text: {error}; build folders and large files into the image",
                    path.display()
                )),
            }
            format!("{FILES}/{name}")
        };
        let slice = job.slice();
        let (mut command, answers) = match &job.run.program {
            JobProgram::Command(command) => (command.clone(), false),
            JobProgram::Train { file, arguments } => {
                let file = add(file, &mut reasons);
                let fixed = ["tpu", "train", &file, "--folder", &job.folder].map(String::from);
                let answers = !arguments.iter().any(|argument| argument == "--metrics");
                let metrics = ["--metrics".to_string(), format!("0.0.0.0:{METRICS_PORT}")];
                let metrics = metrics.into_iter().filter(|_| answers);
                (fixed.into_iter().chain(metrics).chain(arguments.iter().cloned()).collect(), answers)
            }
        };
        for path in &job.run.code {
            add(path, &mut reasons);
        }
        if files.values().map(String::len).sum::<usize>() > MAX_FILES_BYTES {
            reasons.push("its files are more than a ConfigMap holds (1 MB): build them into the image".into());
        }
        if !job.run.data.is_empty() {
            reasons.push("run.data is copied to virtual machines only: put it into a bucket or a volume claim".into());
        }
        match job.run.plugin.as_deref() {
            None => {}
            Some("cpu") if answers => command.extend(["-d".into(), "cpu".into()]),
            Some(plugin) => {
                reasons.push(format!("run.plugin {plugin:?} is not installed in pods: build it into the image"))
            }
        }
        if let Some(setup) = &job.run.setup {
            let wrapped = ["/bin/sh", "-c", &format!("{setup}\nexec \"$0\" \"$@\"")].map(String::from);
            command = wrapped.into_iter().chain(command).collect();
        }
        let Some(image) = job.kubernetes.image.clone() else {
            reasons.push("no image is named: kubernetes.image = \"REGISTRY/tpubridge:VERSION\"".into());
            return Err(ClusterJobError { reasons });
        };
        let mut environment = job.run.environment.clone();
        let bucket = job.folder.strip_prefix("gs://").filter(|_| matches!(job.run.program, JobProgram::Command(_)));
        let bucket = bucket.map(|folder| {
            let (bucket, path) = folder.split_once('/').unwrap_or((folder, ""));
            let path = format!("{BUCKET}/{path}");
            environment.entry("TPUBRIDGE_FOLDER".into()).or_insert(path.trim_end_matches('/').into());
            BucketMount { bucket: bucket.into() }
        });
        if slice.spec().names.gke_accelerator.is_none() {
            reasons.push(format!("Kubernetes Engine has no {}: take v4 or newer", slice.generation()));
        }
        let hosts = job.workers_per_slice();
        if hosts == 1 && slice.num_slices() > 1 {
            reasons.push(format!(
                "{slice} is {} slices of one host, and node pools of one host cannot be joined: take one larger slice",
                slice.num_slices()
            ));
        }
        if hosts > 1 && slice.generation() == Generation::Tpu7x && job.kubernetes.placement_policy.is_none() {
            reasons
                .push("TPU7x slices of several hosts need kubernetes.placement_policy, that of their node pool".into());
        }
        let last_pod = format!("{}-slice-{}-{}-00000", job.name, slice.num_slices() - 1, hosts - 1);
        if last_pod.len() > MAX_POD_NAME {
            let longest = MAX_POD_NAME.saturating_sub(last_pod.len() - job.name.len());
            reasons
                .push(format!("the name {:?} is too long for names of pods: take {longest} letters at most", job.name));
        }
        let is_label = |text: &str| {
            let at_ends = [text.chars().next(), text.chars().last()];
            text.len() <= 63 && at_ends.into_iter().flatten().all(|c| c.is_ascii_alphanumeric())
        };
        for (key, value) in job.labels.iter().filter(|(key, value)| !is_label(key) || !is_label(value)) {
            reasons
                .push(format!("the label {key} = {value:?} must begin and end with a letter or digit on Kubernetes"));
        }
        let is_name = |account: &String| {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            !account.is_empty() && account.len() <= 253 && account.chars().all(is_plain)
        };
        if let Some(account) = job.kubernetes.service_account.as_ref().filter(|account| !is_name(account)) {
            reasons.push(format!(
                "kubernetes.service_account {account:?} is not a name of Kubernetes: lower-case letters, digits, dashes and dots"
            ));
        }
        let service_account = job.kubernetes.service_account.clone();
        if let (Some(account), None) = (&job.cloud.service_account, &service_account) {
            notes.push(format!(
                "cloud.service_account {account} is of virtual machines: bind it to a Kubernetes service account and name that one in \
                 kubernetes.service_account"
            ));
        }
        if job.limits.budget_usd.is_some() {
            notes.push(
                "limits.budget is not enforced on Kubernetes: `tpu k8s status` shows the time, not the money".into(),
            );
        }
        if job.limits.deadline_s.is_some() {
            notes.push("limits.deadline counts from the start of each attempt on Kubernetes".into());
        }
        if job.is_elastic() {
            notes.push("slices.min_count is ignored: a JobSet runs with all of its slices or waits".into());
        }
        if !job.slices.zones.is_empty() {
            notes.push("slices.zones is ignored: node pools of the cluster say where pods run".into());
        }
        let grace_s = job.kubernetes.grace_s.unwrap_or(job.limits.grace_s);
        if matches!(job.capacity(), Capacity::Spot) && grace_s > SPOT_GRACE_S {
            notes.push(format!(
                "on Spot machines pods have {SPOT_GRACE_S} seconds to save, whatever the grace period of {grace_s} s says, \
                 unless the node pool allows up to 120"
            ));
        }
        if !reasons.is_empty() {
            return Err(ClusterJobError { reasons });
        }
        Ok(ClusterJob {
            name: job.name.clone(),
            namespace: job.kubernetes.namespace.clone().unwrap_or_else(|| "default".into()),
            image,
            command,
            environment,
            slice,
            capacity: job.capacity(),
            queue: job.kubernetes.queue.clone(),
            priority: job.kubernetes.priority.clone(),
            placement_policy: job.kubernetes.placement_policy.clone().filter(|_| hosts > 1),
            service_account,
            files,
            volume_claim: job.kubernetes.volume_claim.clone(),
            bucket,
            labels: job.labels.clone(),
            restarts: job.limits.restarts,
            deadline_s: job.limits.deadline_s,
            grace_s,
            answers,
            notes,
        })
    }

    /// Hosts of one slice: pods of one Job.
    pub fn hosts_per_slice(&self) -> u32 {
        (self.slice.hosts() / self.slice.num_slices()).max(1)
    }

    /// Chips of one host: what a pod asks for.
    pub fn chips_per_host(&self) -> u32 {
        self.slice.chips_per_slice() / self.hosts_per_slice()
    }

    /// Whether it is a JobSet: several hosts must start, fail and be placed together.
    pub fn is_job_set(&self) -> bool {
        self.hosts_per_slice() > 1
    }
}
