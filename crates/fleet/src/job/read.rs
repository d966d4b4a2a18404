//! Reads a job file.

use std::path::{Path, PathBuf};

use chips::{Generation, Slice};
use serde_json::Value as Json;
use toml::Table;

use super::check;
use super::file::{
    JobCapacity, JobCloud, JobFile, JobHostKeys, JobKubernetes, JobLimits, JobPlatform, JobProgram, JobRun, JobSlices,
};
use super::keys::{Faults, JobFault, JobFileError, Keys};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

impl JobFile {
    /// Reads a file, with its paths made absolute.
    pub fn read(path: &Path) -> Result<JobFile, JobFileError> {
        let at = |mut error: JobFileError| {
            error.path = Some(path.to_path_buf());
            error
        };
        let text = small_file(path).map_err(|what| at(only(what)))?;
        let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = std::path::absolute(beside).map_err(|error| at(only(error.to_string())))?;
        let mut job = read(&text, &beside).map_err(at)?;
        job.resolve(&beside);
        job.cloud.ssh_public_key = job.cloud.ssh_key.as_deref().and_then(public_key);
        Ok(job)
    }

    /// Reads a text. Paths stay as they are; a plan is looked for in the current folder.
    pub fn parse(text: &str) -> Result<JobFile, JobFileError> {
        read(text, Path::new(""))
    }
}

/// The public half of a private key, where it lies beside it.
fn public_key(private: &Path) -> Option<String> {
    let mut path = private.as_os_str().to_owned();
    path.push(".pub");
    let text = small_file(Path::new(&path)).ok()?;
    let key = text.trim();
    let is_key = ["ssh-", "ecdsa-", "sk-"].iter().any(|kind| key.starts_with(kind)) && key.lines().count() == 1;
    is_key.then(|| key.to_string())
}

fn only(what: String) -> JobFileError {
    JobFileError { path: None, faults: vec![JobFault { key: String::new(), what, instead: None }] }
}

/// The text of a file that people write.
pub(crate) fn small_file(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("it cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    if metadata.len() > MAX_BYTES {
        return Err(format!("it has {} bytes; at most {MAX_BYTES} are read", metadata.len()));
    }
    std::fs::read_to_string(path).map_err(|error| format!("it cannot be read: {error}"))
}

fn read(text: &str, beside: &Path) -> Result<JobFile, JobFileError> {
    let table: Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => return Err(only(error.to_string().trim_end().to_string())),
    };
    let mut faults = Faults::new();
    let mut keys = Keys::new("", table, &mut faults);
    let name = keys.needed("name", "llama-8b");
    let folder = keys.needed("folder", "gs://BUCKET/llama-8b");
    let platform = keys.word("platform", &JobPlatform::ALL.map(|one| (one.word(), one))).unwrap_or_default();
    let [run, slices, limits, cloud, kubernetes] =
        ["run", "slices", "limits", "cloud", "kubernetes"].map(|key| keys.table(key));
    let labels = keys.map("labels");
    keys.end();
    let run = run_table(run, &mut faults);
    let slices = slices_table(slices, beside, &mut faults);
    let limits = limits_table(limits, &mut faults);
    let cloud = cloud_table(cloud, &mut faults);
    let kubernetes = kubernetes_table(kubernetes, &mut faults);
    if let (Some(run), Some(slices)) = (run, slices) {
        let job = JobFile { name, folder, platform, run, slices, limits, cloud, kubernetes, labels };
        check::check(&job, &mut faults);
        if faults.is_empty() {
            return Ok(job);
        }
    }
    Err(JobFileError { path: None, faults })
}

fn run_table(table: Table, faults: &mut Faults) -> Option<JobRun> {
    let mut keys = Keys::new("run", table, faults);
    let train = keys.text("train", "train.toml");
    let arguments = keys.texts("arguments", "--metrics=metrics");
    let command = keys.texts("command", "python3");
    let code = keys.paths("code", "src");
    let data = keys.paths("data", "tokens.bin");
    let environment = keys.map("environment");
    let plugin = keys.text("plugin", "libtpu==0.0.51");
    let setup = keys.text("setup", "pip install -r requirements.txt");
    let program = match (train, command.is_empty()) {
        (Some(file), true) => Some(JobProgram::Train { file: file.into(), arguments }),
        (None, false) if !arguments.is_empty() => {
            keys.fault("arguments", "they are those of run.train; a command has its own", Some("command = […]".into()));
            None
        }
        (None, false) => Some(JobProgram::Command(command)),
        (Some(_), false) => {
            keys.fault("command", "there is run.train too, and a job runs one program", Some("one of them".into()));
            None
        }
        (None, true) => {
            keys.fault(
                "train",
                "nothing is to be run",
                Some("train = \"train.toml\" or command = [\"python3\", \"train.py\"]".into()),
            );
            None
        }
    };
    keys.end();
    program.map(|program| JobRun { program, code, data, environment, plugin, setup })
}

fn slices_table(table: Table, beside: &Path, faults: &mut Faults) -> Option<JobSlices> {
    let mut keys = Keys::new("slices", table, faults);
    let named = keys.text("type", "v6e-8");
    let plan = keys.text("plan", "plan.json");
    let count = keys.count("count", 1);
    let min_slices = keys.count("min_count", 1);
    let zones = keys.texts("zones", "us-east5-b");
    let regions = keys.texts("regions", "us-east5");
    let unlisted_zones = keys.is_set("unlisted_zones");
    let capacity = keys.word("capacity", &JobCapacity::ALL.map(|one| (one.word(), one))).unwrap_or_default();
    let reservation = keys.text("reservation", "my-reservation");
    let runtime_version = keys.text("runtime_version", "v2-alpha-tpuv6e");
    let slice = match (&named, &plan) {
        (Some(name), None) => one_slice(&mut keys, name),
        (None, Some(plan)) => match planned(&beside.join(plan)) {
            Ok(slice) => Some(slice),
            Err(what) => {
                keys.fault("plan", what, Some("what `tpu plan --json` prints into that file, or slices.type".into()));
                None
            }
        },
        (Some(_), Some(_)) => {
            keys.fault("plan", "there is slices.type too, and both say which slice", Some("one of them".into()));
            None
        }
        (None, None) => {
            keys.fault("type", "no slice is named", Some("type = \"v6e-8\" or plan = \"plan.json\"".into()));
            None
        }
    };
    let slice = slice.and_then(|slice| times(&mut keys, slice, count));
    keys.end();
    let slice = slice?;
    let plan = plan.map(PathBuf::from);
    let min_slices = min_slices.unwrap_or(slice.num_slices());
    Some(JobSlices { slice, plan, min_slices, zones, regions, unlisted_zones, capacity, reservation, runtime_version })
}

fn one_slice(keys: &mut Keys<'_>, name: &str) -> Option<Slice> {
    match name.parse::<Slice>() {
        Ok(slice) => Some(slice),
        Err(error) => {
            let near = match &error {
                chips::Error::NoSuchSize { smaller, larger, .. }
                | chips::Error::NoSuchShape { smaller, larger, .. } => smaller.clone().or(larger.clone()),
                _ => {
                    let all = Generation::ALL.into_iter().flat_map(Slice::defaults).map(|slice| slice.to_string());
                    let all: Vec<String> = all.collect();
                    chips::nearest_word(name, all.iter().map(String::as_str)).map(str::to_string)
                }
            };
            let near = near.unwrap_or_else(|| "v6e-8".into());
            keys.fault("type", error.to_string(), Some(format!("type = \"{near}\"")));
            None
        }
    }
}

/// The number of slices may be in their name (`2xv6e-256`) or beside it.
fn times(keys: &mut Keys<'_>, slice: Slice, count: Option<u32>) -> Option<Slice> {
    let Some(count) = count else { return Some(slice) };
    if slice.num_slices() > 1 && slice.num_slices() != count {
        let what = format!("{slice} names {} slices", slice.num_slices());
        keys.fault("count", what, Some(format!("count = {}", slice.num_slices())));
        return None;
    }
    match slice.times(count) {
        Ok(slice) => Some(slice),
        Err(error) => {
            keys.fault("count", error.to_string(), Some(format!("count = {}", count.clamp(1, Slice::MAX_SLICES))));
            None
        }
    }
}

/// The slice that a plan recommends.
fn planned(path: &Path) -> Result<Slice, String> {
    let at = |what: String| format!("{}: {what}", path.display());
    let text = small_file(path).map_err(at)?;
    let plan: Json = serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
    let slice = plan.pointer("/recommended/slice").and_then(Json::as_str);
    let slice = slice.ok_or_else(|| at("it recommends no slice".into()))?;
    slice.parse().map_err(|error: chips::Error| at(error.to_string()))
}

fn limits_table(table: Table, faults: &mut Faults) -> JobLimits {
    let mut keys = Keys::new("limits", table, faults);
    let usual = JobLimits::default();
    let limits = JobLimits {
        budget_usd: keys.dollars("budget", "$500"),
        deadline_s: keys.seconds("deadline", "3d"),
        restarts: keys.count("restarts", usual.restarts).unwrap_or(usual.restarts),
        wait_s: keys.seconds("wait", "2h"),
        hang_s: keys.seconds("hang", "30m").unwrap_or(usual.hang_s),
        grace_s: keys.seconds("grace", "2m").unwrap_or(usual.grace_s),
    };
    keys.end();
    limits
}

fn cloud_table(table: Table, faults: &mut Faults) -> JobCloud {
    let mut keys = Keys::new("cloud", table, faults);
    let cloud = JobCloud {
        project: keys.text("project", "my-project"),
        network: keys.text("network", "default"),
        subnetwork: keys.text("subnetwork", "default"),
        external_ips: keys.is_set("external_ips"),
        service_account: keys.text("service_account", "trainer@my-project.iam.gserviceaccount.com"),
        tags: keys.texts("tags", "trainer"),
        disks: keys.texts("disks", "projects/P/zones/Z/disks/D"),
        ssh_user: keys.text("ssh_user", "me"),
        ssh_key: keys.text("ssh_key", "~/.ssh/id_ed25519").map(PathBuf::from),
        ssh_public_key: None,
        host_keys: keys.word("host_keys", &JobHostKeys::ALL.map(|one| (one.word(), one))).unwrap_or_default(),
    };
    keys.end();
    cloud
}

fn kubernetes_table(table: Table, faults: &mut Faults) -> JobKubernetes {
    let mut keys = Keys::new("kubernetes", table, faults);
    let kubernetes = JobKubernetes {
        image: keys.text("image", "us-docker.pkg.dev/PROJECT/images/tpubridge:0.1.0"),
        namespace: keys.text("namespace", "default"),
        queue: keys.text("queue", "tpu-queue"),
        priority: keys.text("priority", "high"),
        service_account: keys.text("service_account", "trainer"),
        placement_policy: keys.text("placement_policy", "tpu7x-128-policy"),
        volume_claim: keys.text("volume_claim", "datasets"),
        grace_s: keys.seconds("grace", "30s"),
    };
    keys.end();
    kubernetes
}
