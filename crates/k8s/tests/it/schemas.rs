//! Manifests against the published schemas of Kubernetes and JobSet; the YAML is read by a reader that is not ours.

use std::io::Write;
use std::process::{Command, Stdio};

use k8s::yaml;
use serde_json::{Value, json};
use testkit::{Needed, repository, require};

use crate::cases::{all, objects};

/// What the checker says of manifests: one line for each fault.
fn faults(python: &std::path::Path, schemas: &std::path::Path, documents: &[Value]) -> Vec<String> {
    let mut command = Command::new(python);
    command.arg(repository().join("crates/testkit/python/check_manifests.py")).arg(schemas);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = json!({ "yaml": yaml(documents), "json": documents }).to_string();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let (last, faults) =
        text.lines().collect::<Vec<_>>().split_last().map(|(last, all)| (*last, all.to_vec())).unwrap();
    assert_eq!(last, format!("{} documents", documents.len()));
    faults.into_iter().map(String::from).collect()
}

#[test]
fn every_manifest_is_what_the_published_schemas_want() {
    let test = "every_manifest_is_what_the_published_schemas_want";
    let (Some(python), Some(schemas)) = (require(test, Needed::FleetPython), require(test, Needed::KubernetesSchemas))
    else {
        return;
    };
    let mut documents = Vec::new();
    all().iter().for_each(|(_, job)| documents.extend(objects(job)));
    assert!(documents.len() > 50, "{}", documents.len());
    assert_eq!(faults(&python, &schemas, &documents), Vec::<String>::new());
    // The checker sees what is wrong.
    let set = documents.iter().find(|object| object["kind"] == "JobSet").unwrap();
    let mut wrong = vec![
        set.clone(),
        set.clone(),
        set.clone(),
        documents.iter().find(|object| object["kind"] == "Job").unwrap().clone(),
    ];
    wrong[0]["spec"]["failurePolicy"]["rules"][0].as_object_mut().unwrap().remove("name");
    wrong[1]["spec"]["replicatedJobs"][0]["template"]["spec"]["paralelism"] = 3.into();
    wrong[2]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] =
        "x".into();
    wrong[3]["spec"]["template"]["spec"]["hostNetwork"] = "yes".into();
    let found = faults(&python, &schemas, &wrong);
    for (number, part) in ["name", "paralelism", "ports", "hostNetwork"].iter().enumerate() {
        let is_told = found.iter().any(|fault| fault.starts_with(&format!("{number}: ")) && fault.contains(part));
        assert!(is_told, "{part}: {found:?}");
    }
}
