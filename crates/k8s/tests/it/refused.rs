//! What Kubernetes cannot do is told before anything is made, and what it does otherwise is noted.

use std::io;

use k8s::ClusterJob;

use crate::cases::{full, objects, plain, workload};

#[test]
fn what_cannot_run_is_refused_with_every_reason() {
    let refused = |job: &fleet::job::JobFile, parts: &[&str]| {
        let error = ClusterJob::of(job, &|_| Err(io::Error::from(io::ErrorKind::NotFound))).unwrap_err().to_string();
        parts.iter().for_each(|part| assert!(error.contains(part), "{part}: {error}"));
    };
    let mut job = full("type = 'tpu7x-128'", "train = 'a.toml'");
    job.kubernetes.placement_policy = None;
    job.run.data.push("data".into());
    job.run.plugin = Some("libtpu==0.0.51".into());
    job.labels.insert("team".into(), "-x".into());
    refused(&job, &["a.toml", "kubernetes.placement_policy", "run.data", "libtpu==0.0.51", "team = \"-x\""]);
    refused(&plain("type = 'v6e-8'\ncount = 2"), &["2 slices of one host", "one larger slice"]);
    let mut job = plain("type = 'v5p-128'\ncount = 2");
    job.name = "x".repeat(60);
    refused(&job, &["too long", "46 letters"]);
    job.kubernetes.service_account = Some("Me@project".into());
    refused(&job, &["too long", "kubernetes.service_account \"Me@project\""]);
    job.kubernetes.image = None;
    refused(&job, &["kubernetes.image"]);
}

#[test]
fn what_is_done_otherwise_is_noted() {
    let mut job = full("type = 'v5p-128'\ncount = 2\ncapacity = 'spot'", "train = 'a.toml'");
    job.limits.budget_usd = Some(100.0);
    job.slices.min_slices = 1;
    job.cloud.service_account = Some("me@project.iam.gserviceaccount.com".into());
    job.kubernetes.service_account = None;
    let workload = workload(&job);
    for part in ["limits.budget", "limits.deadline", "min_count", "me@project", "15 seconds"] {
        assert!(workload.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", workload.notes);
    }
    assert_eq!(workload.service_account, None);
    job.kubernetes.service_account = Some("trainer".into());
    let set = objects(&job).pop().unwrap();
    let pod = &set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "trainer");
}

#[test]
fn one_host_names_no_placement_policy() {
    let policy = |slices: &str| {
        let mut job = plain(slices);
        job.kubernetes.placement_policy = Some("p".into());
        objects(&job).pop().unwrap().to_string().contains("placement-policy-name")
    };
    assert_eq!((policy("type = 'tpu7x-8'"), policy("type = 'tpu7x-128'")), (false, true));
}

#[test]
fn a_training_answers_and_a_command_gets_its_bucket() {
    let slices = "type = 'v5p-128'\ncount = 2";
    let set = objects(&full(slices, "train = 'dir/llama.toml'")).pop().unwrap();
    let pod = &set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
    let words: Vec<&str> =
        pod["containers"][0]["command"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let expected = ["tpu", "train", "/job/llama.toml", "--folder", "gs://bucket/runs/job", "--metrics", "0.0.0.0:9464"];
    assert_eq!(words, expected);
    assert_eq!(pod["containers"][0]["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(set["spec"]["failurePolicy"]["rules"].as_array().unwrap().len(), 3);
    let set = objects(&full(slices, "command = ['python', 'train.py']")).pop().unwrap();
    let template = &set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"]["gke-gcsfuse/volumes"], "true");
    let environment = template["spec"]["containers"][0]["env"].as_array().unwrap();
    let of = |name: &str| environment.iter().find(|variable| variable["name"] == name).unwrap();
    assert_eq!(of("TPUBRIDGE_FOLDER")["value"], "/bucket/runs/job");
    assert_eq!(of("TPUBRIDGE_SECRET")["valueFrom"]["secretKeyRef"]["name"], "job-run");
    let volumes = template["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["csi"]["volumeAttributes"]["bucketName"] == "bucket"), "{volumes:?}");
    // A secret is not in the manifest of the job.
    assert!(!set.to_string().contains("0123456789abcdef"));
}
