//! Our manifests beside those of Google's `xpk`, field by field: what differs is in the table, and the guide shows the table.

use std::collections::{BTreeMap, BTreeSet};

use k8s::differences::{XPK_DIFFERENCES, table};
use serde_json::Value;
use testkit::repository;

use crate::cases::{SLICES, objects, plain};

/// What `crates/testkit/python/export_xpk.py` made.
const XPK: &str = include_str!("../data/xpk.json");

/// Fields of a Job or JobSet by the part they belong to, each with its value.
fn fields(object: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::from([("kind".to_string(), object["kind"].to_string())]);
    flatten("metadata", &object["metadata"], &mut found);
    let mut set = object["spec"].clone();
    let job = match object["kind"].as_str() {
        Some("JobSet") => {
            let mut replicated = set["replicatedJobs"][0].take();
            let job = replicated["template"]["spec"].take();
            set.as_object_mut().unwrap().remove("replicatedJobs");
            replicated.as_object_mut().unwrap().remove("template");
            flatten("set", &set, &mut found);
            flatten("set.replicatedJob", &replicated, &mut found);
            job
        }
        _ => set,
    };
    let mut job = job;
    let template = job["template"].take();
    job.as_object_mut().unwrap().remove("template");
    flatten("job", &job, &mut found);
    let mut pod = template["spec"].clone();
    let container = pod["containers"][0].take();
    pod.as_object_mut().unwrap().remove("containers");
    for part in ["labels", "annotations"] {
        flatten(&format!("pod.{part}"), &template["metadata"][part], &mut found);
    }
    flatten("pod", &pod, &mut found);
    flatten("container", &container, &mut found);
    found
}

fn flatten(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| flatten(&format!("{path}[{n}]"), item, found));
        }
        Value::Null => {}
        other => {
            found.insert(path.to_string(), other.to_string());
        }
    }
}

#[test]
fn what_differs_from_xpk_is_in_the_table_and_what_is_in_the_table_differs() {
    let xpk: Value = serde_json::from_str(XPK).unwrap();
    let mut used = BTreeSet::new();
    let mut strange = Vec::new();
    let mut equal = 0;
    for (name, slices) in SLICES {
        let theirs = fields(&xpk["cases"][name]);
        let ours = fields(objects(&plain(slices)).last().unwrap());
        let all: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
        for field in all {
            if theirs.get(field) == ours.get(field) {
                equal += 1;
                continue;
            }
            let is_meant = |place: &str| {
                field.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            match XPK_DIFFERENCES.iter().find(|row| is_meant(row.field)) {
                Some(row) => {
                    used.insert(row.field);
                }
                None => {
                    strange.push(format!("{name}: {field}: xpk {:?}, ours {:?}", theirs.get(field), ours.get(field)))
                }
            }
        }
        // What a slice is must be equal, but for the machine with eight chips.
        let same = [
            "pod.nodeSelector.cloud.google.com/gke-tpu-accelerator",
            "pod.nodeSelector.cloud.google.com/gke-tpu-topology",
        ];
        let same = same.into_iter().chain(
            ["container.resources.limits.google.com/tpu", "job.parallelism"]
                .into_iter()
                .filter(|_| name != "v5e-one-host"),
        );
        for field in same {
            assert!(theirs.contains_key(field), "{name}: {field}");
            assert_eq!(theirs.get(field), ours.get(field), "{name}: {field}");
        }
    }
    assert_eq!(strange, Vec::<String>::new());
    assert!(equal > 100, "{equal} fields are equal");
    let unused: Vec<&str> = XPK_DIFFERENCES.iter().map(|row| row.field).filter(|field| !used.contains(field)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "these do not differ any more");
}

#[test]
fn the_guide_has_the_table() {
    let guide = std::fs::read_to_string(repository().join("docs/howto/gke.md")).unwrap();
    assert!(guide.contains(&table()), "docs/howto/gke.md must have this table:\n{}", table());
}
