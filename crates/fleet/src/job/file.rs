//! What a job file says, as types.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use chips::{PriceKind, Slice};

use crate::provider::Capacity;

/// A job: one program on all workers of one or several slices, until it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Its name: lower-case letters, digits and dashes. Names of slices and labels begin with it.
    pub name: String,
    /// Where the run lives: a folder that all workers see, or a bucket. Checkpoints, the journal and logs are in it.
    pub folder: String,
    /// Where slices come from.
    pub platform: JobPlatform,
    /// What runs.
    pub run: JobRun,
    /// On what.
    pub slices: JobSlices,
    /// How much, how long, how often.
    pub limits: JobLimits,
    /// The project and its network.
    pub cloud: JobCloud,
    /// What only Kubernetes needs.
    pub kubernetes: JobKubernetes,
    /// Labels of everything that is made, beside those of the job itself.
    pub labels: BTreeMap<String, String>,
}

/// Where slices come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPlatform {
    /// Machines of the Cloud TPU API, reached by ssh.
    #[default]
    TpuVm,
    /// Google Kubernetes Engine.
    Gke,
}

/// What runs on every worker.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRun {
    /// The program.
    pub program: JobProgram,
    /// Files and folders that are copied to every worker before it starts.
    pub code: Vec<PathBuf>,
    /// Files and folders of data to copy too. What lies in a bucket is read from there and is not listed here.
    pub data: Vec<PathBuf>,
    /// Variables of the environment of every process.
    pub environment: BTreeMap<String, String>,
    /// The PJRT plugin: `libtpu` of the machine's image if absent; a package (`libtpu==0.0.51`), a file, or `cpu`.
    /// [`JobRun::plugin`] says which.
    pub plugin: Option<String>,
    /// A shell command that each worker runs once before the program starts.
    pub setup: Option<String>,
}

/// The PJRT plugin of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobPlugin {
    /// The CPU device of this program.
    Cpu,
    /// A package that every worker gets as `tpu setup` does, once.
    Package {
        /// Its name.
        name: String,
        /// Its version; the one that this release was tested with if absent.
        version: Option<String>,
    },
    /// A file of this machine, copied to every worker.
    File(PathBuf),
}

impl JobRun {
    /// The plugin that is named; none where that of the machine's image is meant.
    pub fn plugin(&self) -> Option<JobPlugin> {
        let text = self.plugin.as_deref()?;
        if text == "cpu" {
            return Some(JobPlugin::Cpu);
        }
        if text.contains('/') || text.ends_with(".so") {
            return Some(JobPlugin::File(text.into()));
        }
        let (name, version) = text.split_once("==").map_or((text, None), |(name, version)| (name, Some(version)));
        Some(JobPlugin::Package { name: name.into(), version: version.map(str::to_string) })
    }
}

/// The program of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobProgram {
    /// `tpu train FILE ARGUMENTS`: folder, processes, ids, coordinator and secret are added.
    Train {
        /// The training file, copied to every worker.
        file: PathBuf,
        /// More arguments of `tpu train`.
        arguments: Vec<String>,
    },
    /// Any command. It finds its place in the environment: `TPUBRIDGE_*` and `JAX_*`.
    Command(Vec<String>),
}

/// The slices of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSlices {
    /// All of them: the slice, times their number.
    pub slice: Slice,
    /// The plan that the slice is read from (`tpu plan --json`), where the file names one.
    pub plan: Option<PathBuf>,
    /// The fewest slices to go on with when some are lost (elastic); as many as there are if it is not elastic.
    pub min_slices: u32,
    /// Zones to ask in, the first to give wins.
    pub zones: Vec<String>,
    /// Regions that zones must be in; empty: any.
    pub regions: Vec<String>,
    /// Zones that are in no table here are taken as they are.
    pub unlisted_zones: bool,
    /// How it is paid for.
    pub capacity: JobCapacity,
    /// The reservation, where capacity is reserved; none: any of the project's.
    pub reservation: Option<String>,
    /// The image of the machines; the usual one of the generation if absent.
    pub runtime_version: Option<String>,
}

/// How capacity is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobCapacity {
    /// On demand.
    #[default]
    OnDemand,
    /// May be taken away.
    Spot,
    /// From a reservation.
    Reserved,
}

/// Where a job ends.
#[derive(Clone, Debug, PartialEq)]
pub struct JobLimits {
    /// US dollars for all slices of all attempts; the job saves and stops before it would cost more.
    pub budget_usd: Option<f64>,
    /// Seconds from the first start of the job after which it saves and stops.
    pub deadline_s: Option<u64>,
    /// Failures of the program or a worker after which it is started again. Preemptions are not counted.
    pub restarts: u32,
    /// Seconds to wait for capacity, counted from each request; no end if absent.
    pub wait_s: Option<u64>,
    /// Seconds without a sign of life of the program after which it counts as hung.
    pub hang_s: u64,
    /// Seconds that a program has to save and end when it is asked to.
    pub grace_s: u64,
}

impl Default for JobLimits {
    fn default() -> Self {
        JobLimits { budget_usd: None, deadline_s: None, restarts: 10, wait_s: None, hang_s: 1800, grace_s: 120 }
    }
}

/// The project, its network and the rights of machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobCloud {
    /// The project; the one of the credentials if absent.
    pub project: Option<String>,
    /// The network, `default` if absent.
    pub network: Option<String>,
    /// The subnetwork.
    pub subnetwork: Option<String>,
    /// Machines have addresses of their own on the internet, and are reached by them.
    pub external_ips: bool,
    /// The account that machines act as.
    pub service_account: Option<String>,
    /// Network tags.
    pub tags: Vec<String>,
    /// Data disks to attach: `projects/P/zones/Z/disks/D`.
    pub disks: Vec<String>,
    /// The user that ssh logs in as; the local one if absent.
    pub ssh_user: Option<String>,
    /// The private key for ssh; what ssh itself would take if absent.
    pub ssh_key: Option<PathBuf>,
    /// The public half of that key, which machines let in where the user is named: the file beside it that ends with `.pub`.
    pub ssh_public_key: Option<String>,
    /// Which keys of workers' ssh servers are believed.
    pub host_keys: JobHostKeys,
}

/// Which keys of workers' ssh servers are believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobHostKeys {
    /// Published ones; of a worker that publishes none the first that it shows, with a warning, and no other after it.
    #[default]
    First,
    /// Published ones only.
    Published,
}

impl JobHostKeys {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::First, Self::Published];

    /// Its word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Published => "published",
        }
    }
}

/// What only Kubernetes needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobKubernetes {
    /// The image that workers run; required on GKE.
    pub image: Option<String>,
    /// The namespace, `default` if absent.
    pub namespace: Option<String>,
    /// The Kueue queue.
    pub queue: Option<String>,
    /// The priority class.
    pub priority: Option<String>,
    /// The Kubernetes service account of the pods.
    pub service_account: Option<String>,
    /// The placement policy, which TPU7x slices of several hosts need.
    pub placement_policy: Option<String>,
    /// A claim that is mounted at `/data`.
    pub volume_claim: Option<String>,
    /// Seconds between the notice and the end of a pod.
    pub grace_s: Option<u64>,
}

impl JobPlatform {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::TpuVm, Self::Gke];

    /// Its word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::TpuVm => "tpu-vm",
            Self::Gke => "gke",
        }
    }
}

impl JobCapacity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OnDemand, Self::Spot, Self::Reserved];

    /// Its word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
        }
    }
}

impl fmt::Display for JobPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for JobCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl JobFile {
    /// A job with everything else as usual.
    pub fn new(name: &str, folder: &str, program: JobProgram, slice: Slice) -> JobFile {
        JobFile {
            name: name.to_string(),
            folder: folder.to_string(),
            platform: JobPlatform::TpuVm,
            run: JobRun {
                program,
                code: Vec::new(),
                data: Vec::new(),
                environment: BTreeMap::new(),
                plugin: None,
                setup: None,
            },
            slices: JobSlices {
                slice,
                plan: None,
                min_slices: slice.num_slices(),
                zones: Vec::new(),
                regions: Vec::new(),
                unlisted_zones: false,
                capacity: JobCapacity::OnDemand,
                reservation: None,
                runtime_version: None,
            },
            limits: JobLimits::default(),
            cloud: JobCloud::default(),
            kubernetes: JobKubernetes::default(),
            labels: BTreeMap::new(),
        }
    }

    /// All slices of the job.
    pub fn slice(&self) -> Slice {
        self.slices.slice
    }

    /// Workers of one slice: machines, each of which runs one process.
    pub fn workers_per_slice(&self) -> u32 {
        (self.slice().hosts() / self.slice().num_slices()).max(1)
    }

    /// Processes of the job when it has all of its slices.
    pub fn processes(&self) -> u32 {
        self.workers_per_slice() * self.slice().num_slices()
    }

    /// Whether it goes on with fewer slices.
    pub fn is_elastic(&self) -> bool {
        self.slices.min_slices < self.slice().num_slices()
    }

    /// How its capacity is asked for.
    pub fn capacity(&self) -> Capacity {
        match self.slices.capacity {
            JobCapacity::OnDemand => Capacity::OnDemand,
            JobCapacity::Spot => Capacity::Spot,
            JobCapacity::Reserved => Capacity::Reserved { reservation: self.slices.reservation.clone() },
        }
    }

    /// The image of its machines; none where neither the file nor `chips` knows one.
    pub fn runtime_version(&self) -> Option<&str> {
        let known = self.slice().spec().names.runtime_version;
        self.slices.runtime_version.as_deref().or(known.map(|version| version.value))
    }

    /// US dollars for one slice of the job in a zone for one hour. Where the region has no published price, the highest
    /// published one; none where there is none at all. A reservation is paid whether it is used or not: its price is that
    /// on demand.
    pub fn usd_per_slice_hour(&self, zone: &str) -> Option<f64> {
        let kind = match self.slices.capacity {
            JobCapacity::Spot => PriceKind::Spot,
            JobCapacity::OnDemand | JobCapacity::Reserved => PriceKind::OnDemand,
        };
        let spec = self.slice().spec();
        let region = region_of(zone);
        let highest = || spec.prices.iter().filter(|price| price.kind == kind).map(|price| price.usd_per_chip_hour);
        let chip = match spec.price(kind, Some(region)) {
            Some(price) => price.usd_per_chip_hour,
            None => highest().max_by(f64::total_cmp)?,
        };
        Some(chip * f64::from(self.slice().chips_per_slice()))
    }

    /// Paths of the file made absolute: they are written as seen from its folder.
    pub fn resolve(&mut self, beside: &Path) {
        let at = |path: &mut PathBuf| *path = beside.join(&*path);
        if let JobProgram::Train { file, .. } = &mut self.run.program {
            at(file);
        }
        self.run.code.iter_mut().for_each(at);
        self.run.data.iter_mut().for_each(at);
        self.cloud.ssh_key.iter_mut().for_each(at);
        if let Some(JobPlugin::File(path)) = self.run.plugin() {
            self.run.plugin = Some(beside.join(path).display().to_string());
        }
        if !self.folder.contains("://") {
            self.folder = beside.join(&self.folder).display().to_string();
        }
    }
}

/// The region of a zone: `us-east5` of `us-east5-b`.
pub(crate) fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}
