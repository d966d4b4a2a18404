//! The stand-in of the Cloud TPU API is what Google's own client takes it for.

use std::process::Command;

use testkit::{CloudTpuServer, Needed, repository, require};

#[test]
fn googles_client_creates_lists_and_deletes() {
    let test = "googles_client_creates_lists_and_deletes";
    // Short pages: lists are asked for in several requests.
    let Some(server) = CloudTpuServer::start(test, r#"{"page_size": 1, "scale": 10}"#) else { return };
    let Some(python) = require(test, Needed::FleetPython) else { return };
    let script = repository().join("crates/testkit/python/cloud_tpu_client.py");
    let output = Command::new(python).arg(script).arg(server.port().to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = concat!(
        r#"{"queued": "projects/test/locations/us-west4-a/queuedResources/peer", "active": true, "#,
        r#""listed": ["projects/test/locations/us-west4-a/queuedResources/peer"], "#,
        r#""node": ["READY", 4, {"made": "google"}, true], "single": "READY", "nodes": ["peer", "single"], "#,
        r#""types": ["v5litepod-1", "v5litepod-4", "v5litepod-8", "v5litepod-16", "v5litepod-32", "v5litepod-64", "#,
        r#""v5litepod-128", "v5litepod-256"], "zones": 1, "#,
        r#""again": "Conflict", "unforced": "BadRequest", "unknown": "NotFound", "left": 0}"#
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    let record = server.record();
    assert_eq!(record.matches(r#""deleted": null"#).count(), 0, "{record}");
    assert_eq!(record.matches(r#""kind": "#).count(), 3, "{record}");
}

#[test]
fn the_stand_in_of_the_tpu_api_names_what_it_does_not_know() {
    let test = "the_stand_in_of_the_tpu_api_names_what_it_does_not_know";
    let Some(server) = CloudTpuServer::start(test, "{}") else { return };
    let ask = |method, path, body| {
        let (head, answer) = server.ask(method, &format!("/v2/projects/test/locations/us-west4-a/{path}"), body);
        format!("{head} {answer}")
    };
    let node = r#"{"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite", "nodeSize": 3}"#;
    let answer = ask("POST", "nodes?nodeId=a", node);
    assert!(answer.contains("nodeSize") && answer.contains("400"), "{answer}");
    let answer = ask("GET", "nodes?show=all", "");
    assert!(answer.contains(r#"\"show\""#) && answer.contains("400"), "{answer}");
    let answer = ask("POST", "vms", "{}");
    assert!(answer.contains("No method POST"), "{answer}");
}
