//! What goes wrong between the client and the API: lost answers, refusals, full zones, failed operations.

use fleet::provider::{Provider, ProviderError, SliceRequest, SliceState};
use serde_json::json;

use crate::stand::{Stand, ZONE, id, kind, request};

#[test]
fn the_same_request_is_the_same_slice() {
    let test = "the_same_request_is_the_same_slice";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    for _ in 0..3 {
        stand.cloud.create(&request("once")).unwrap();
    }
    stand.until_ready("once");
    stand.cloud.create(&request("once")).unwrap();
    assert_eq!(stand.lives("queued_resource").len(), 1);
    let other = SliceRequest { accelerator_type: "v5litepod-8".into(), ..request("once") };
    let error = stand.cloud.create(&other).unwrap_err();
    assert!(kind(&error) == "taken" && error.to_string().contains("another request"), "{error}");
    stand.delete("once");
    // Within the hour in which the API remembers ids: it is made again.
    stand.cloud.create(&request("once")).unwrap();
    stand.until_ready("once");
    stand.delete("once");
    assert_eq!((stand.left(), stand.lives("queued_resource").len()), (0, 2));
}

#[test]
fn a_slice_of_that_name_that_others_made_is_left_alone() {
    let test = "a_slice_of_that_name_that_others_made_is_left_alone";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    let body = r#"{"acceleratorType": "v5litepod-16", "runtimeVersion": "v2-alpha-tpuv5-lite"}"#;
    let path = format!("/v2/projects/test/locations/{ZONE}/nodes?nodeId=theirs");
    let (head, _) = stand.server.ask("POST", &path, body);
    assert!(head.contains(" 200 "), "{head}");
    let error = stand.cloud.create(&request("theirs")).unwrap_err();
    assert!(kind(&error) == "taken" && error.to_string().contains("not by tpubridge"), "{error}");
    assert_eq!(stand.left(), 1);
}

#[test]
fn lost_answers_make_no_second_slice() {
    let test = "lost_answers_make_no_second_slice";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    for (name, fault) in [("lost", json!({"lose": true, "times": 2})), ("dropped", json!({"drop": true, "times": 2}))] {
        let mut rule = json!({"method": "POST", "path": "/queuedResources"});
        rule.as_object_mut().unwrap().extend(fault.as_object().unwrap().clone());
        stand.tell("faults", rule);
        stand.cloud.create(&request(name)).unwrap();
        stand.until_ready(name);
    }
    assert_eq!(stand.lives("queued_resource").len(), 2);
    assert_eq!(stand.asked("POST", "/queuedResources").len(), 6);
    let ids: std::collections::BTreeSet<String> =
        stand.asked("POST", "/queuedResources").iter().map(|r| r["query"]["requestId"].to_string()).collect();
    assert_eq!(ids.len(), 2, "an id for each call, the same for its attempts");
    for method in ["DELETE", "GET"] {
        stand.tell("faults", json!({"method": method, "lose": true, "times": 2}));
    }
    stand.delete("lost");
    stand.delete("dropped");
    assert_eq!(stand.left(), 0);
}

#[test]
fn refusals_that_pass_are_waited_for() {
    let test = "refusals_that_pass_are_waited_for";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    let minute = "Quota exceeded for quota metric 'Write requests' and limit 'Write requests per minute'";
    stand.tell("faults", json!({"method": "POST", "status": "RESOURCE_EXHAUSTED", "message": minute, "times": 3}));
    stand.tell("faults", json!({"method": "POST", "status": "UNAVAILABLE", "times": 2}));
    stand.tell("faults", json!({"method": "POST", "http": 502, "times": 1}));
    stand.tell("faults", json!({"method": "GET", "status": "INTERNAL", "times": 2}));
    stand.tell("faults", json!({"method": "DELETE", "status": "UNAVAILABLE", "retry_after": 1, "times": 1}));
    stand.cloud.create(&request("patient")).unwrap();
    stand.until_ready("patient");
    assert_eq!(stand.asked("POST", "/queuedResources").len(), 7);
    stand.delete("patient");
    let deletes = stand.asked("DELETE", "/patient");
    // Ten virtual seconds are a real one: what the API asked for.
    let waited = deletes[1]["time"].as_f64().unwrap() - deletes[0]["time"].as_f64().unwrap();
    assert!(waited >= 9.9, "{waited}");
    assert_eq!((stand.left(), stand.lives("queued_resource").len()), (0, 1));
}

#[test]
fn patience_ends_and_says_what_is_not_known() {
    let test = "patience_ends_and_says_what_is_not_known";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    let patience = cloud::RetryLimits {
        request: std::time::Duration::from_millis(500),
        first_wait: std::time::Duration::from_millis(50),
        ..cloud::RetryLimits::default()
    };
    let hasty = cloud::CloudTpu::with_limits(stand.cloud.account().clone(), patience).unwrap();
    stand.tell("faults", json!({"method": "POST", "status": "UNAVAILABLE", "retry_after": 7, "times": 1}));
    let error = hasty.create(&request("later")).unwrap_err();
    assert_eq!(error, ProviderError::Transient { what: "injected".into(), retry_after: Some(7) });
    stand.tell("faults", json!({"lose": true, "times": 1000}));
    assert_eq!(kind(&hasty.create(&request("lost")).unwrap_err()), "unknown");
    assert_eq!(kind(&hasty.get(&id("lost")).unwrap_err()), "unknown");
    drop(stand.server);
    assert_eq!(kind(&hasty.get(&id("lost")).unwrap_err()), "transient");
}

#[test]
fn full_zones_and_spent_quotas_are_told_apart() {
    let test = "full_zones_and_spent_quotas_are_told_apart";
    let Some(stand) = Stand::start(test, json!({"stock": {ZONE: 16}, "quota": {ZONE: 32}})) else { return };
    stand.cloud.create(&request("first")).unwrap();
    stand.until_ready("first");
    // The queue waits; a node by itself does not.
    stand.cloud.create(&request("second")).unwrap();
    stand.until("second", |state| state == Some(&SliceState::Waiting));
    let ask = cloud::Ask { as_node: true, ..cloud::Ask::default() };
    stand.tell("settings", json!({"quota": {ZONE: 48}}));
    assert_eq!(kind(&stand.cloud.create_as(&request("third"), &ask).unwrap_err()), "no capacity");
    stand.tell("settings", json!({"quota": {ZONE: 32}}));
    assert_eq!(kind(&stand.cloud.create(&request("fourth")).unwrap_err()), "quota");
    stand.tell("settings", json!({"quota_fails_later": true}));
    stand.cloud.create(&request("fifth")).unwrap();
    let fifth = stand.until("fifth", |state| matches!(state, Some(SliceState::Failed { .. }))).unwrap();
    assert!(matches!(&fifth.state, SliceState::Failed { why } if why.contains("Quota limit")), "{fifth:?}");
    // A dead slice holds no machines and all of its quota; deleted, the next in the queue is filled.
    stand.tell("preempt", json!({"name": "first"}));
    stand.delete("first");
    stand.until_ready("second");
    stand.delete("second");
    stand.delete("fifth");
    assert_eq!(stand.left(), 0);
}

#[test]
fn failed_operations_are_told_or_seen() {
    let test = "failed_operations_are_told_or_seen";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    let fails = |method: &str, message: &str| {
        let status = if message.contains("capacity") { "RESOURCE_EXHAUSTED" } else { "INTERNAL" };
        stand.tell("faults", json!({"method": method, "operation": {"status": status, "message": message}}));
    };
    fails("POST", "There is no more capacity in the zone");
    assert_eq!(kind(&stand.cloud.create(&request("full")).unwrap_err()), "no capacity");
    fails("POST", "Internal error");
    assert_eq!(kind(&stand.cloud.create(&request("broken")).unwrap_err()), "transient");
    for name in ["full", "broken"] {
        assert!(matches!(stand.get(name).unwrap().state, SliceState::Failed { .. }));
        stand.delete(name);
    }
    // A deletion that fails: it is there, and deleting goes on.
    stand.cloud.create(&request("tough")).unwrap();
    stand.until_ready("tough");
    fails("DELETE", "Internal error");
    assert_eq!(kind(&stand.cloud.delete(&id("tough")).unwrap_err()), "transient");
    assert_eq!(stand.get("tough").unwrap().state, SliceState::Ready);
    stand.delete("tough");
    assert_eq!(stand.left(), 0);
}

#[test]
fn what_credentials_do_not_allow_is_not_repeated() {
    let test = "what_credentials_do_not_allow_is_not_repeated";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    stand.tell("faults", json!({"status": "PERMISSION_DENIED", "message": "tpu.nodes.create denied", "times": 1000}));
    assert_eq!(kind(&stand.cloud.create(&request("a")).unwrap_err()), "denied");
    assert_eq!(kind(&stand.cloud.get(&id("a")).unwrap_err()), "denied");
    assert_eq!(stand.record()["requests"].as_array().unwrap().len(), 2);
}

#[test]
fn zones_that_could_not_be_asked_are_not_empty() {
    let test = "zones_that_could_not_be_asked_are_not_empty";
    let Some(stand) = Stand::start(test, json!({"unreachable": ["us-east5-b"]})) else { return };
    assert_eq!(stand.cloud.list_all("-").unwrap().unreachable, ["us-east5-b"]);
    assert_eq!(kind(&stand.cloud.list("-", &Default::default()).unwrap_err()), "transient");
    assert!(stand.cloud.list(ZONE, &Default::default()).unwrap().is_empty());
}
