//! The jobs of the tests: eight slices, as in the data of `xpk`, and more that use every field.

use fleet::job::JobFile;
use k8s::{ClusterJob, RunSecret, manifests};
use serde_json::Value;

/// Names of the slices with the lines of their job files.
pub(crate) const SLICES: [(&str, &str); 8] = [
    ("v5e-one-host", "type = 'v5litepod-8'"),
    ("v5e-several-hosts", "type = 'v5litepod-16'"),
    ("v5p-one-host", "type = 'v5p-8'"),
    ("v5p-two-slices", "type = 'v5p-128'\ncount = 2"),
    ("v6e-several-hosts", "type = 'v6e-64'"),
    ("v6e-two-slices-spot", "type = 'v6e-256'\ncount = 2\ncapacity = 'spot'"),
    ("tpu7x-one-host", "type = 'tpu7x-8'"),
    ("tpu7x-two-slices", "type = 'tpu7x-128'\ncount = 2"),
];

/// The job of a slice, as plain as it can be.
pub(crate) fn plain(slices: &str) -> JobFile {
    let policy = match slices.contains("tpu7x") {
        true => "placement_policy = 'tpu7x-128-4x4x4-placement-policy'\n",
        false => "",
    };
    let text = format!(
        "name = 'job'\nfolder = '/data/job'\nplatform = 'gke'\n[run]\ncommand = ['python', 'train.py']\n[slices]\n{slices}\n\
         [kubernetes]\nimage = 'example/image:1'\n{policy}"
    );
    JobFile::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The job of a slice with everything a job file can say.
pub(crate) fn full(slices: &str, program: &str) -> JobFile {
    let text = format!(
        "name = 'job'\nfolder = 'gs://bucket/runs/job'\nplatform = 'gke'\n[run]\n{program}\n\
         environment = {{ A = 'b c', N = 1 }}\n[slices]\n{slices}\n\
         [limits]\nrestarts = 3\ndeadline = '2d'\n\
         [kubernetes]\nimage = 'example/image:1'\nnamespace = 'training'\nqueue = 'tpu-queue'\npriority = 'high'\nservice_account = 'trainer'\n\
         placement_policy = 'policy'\nvolume_claim = 'claim'\ngrace = '30s'\n[labels]\nteam = 'language'\n"
    );
    JobFile::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The workload of a job whose files all have one text.
pub(crate) fn workload(job: &JobFile) -> ClusterJob {
    ClusterJob::of(job, &|_| Ok("[model]\nname = \"x\"\n".into())).unwrap()
}

pub(crate) fn objects(job: &JobFile) -> Vec<Value> {
    manifests(&workload(job), &RunSecret::new("0123456789abcdef0123456789abcdef"))
}

/// Every job of the tests, by name.
pub(crate) fn all() -> Vec<(String, JobFile)> {
    let mut jobs = Vec::new();
    for (name, slices) in SLICES {
        jobs.push((name.to_string(), plain(slices)));
        jobs.push((format!("{name}-train"), full(slices, "train = 'llama.toml'\narguments = ['--mesh', 'fsdp=8']")));
        jobs.push((format!("{name}-command"), full(slices, "command = ['python', 'train.py']\nsetup = 'echo $HOME'")));
    }
    for slices in ["type = 'v4-16'", "type = 'v4-8'", "type = 'v5p-64'\ncapacity = 'reserved'\nreservation = 'mine'"] {
        jobs.push((slices.replace('\n', " "), plain(slices)));
    }
    jobs
}
