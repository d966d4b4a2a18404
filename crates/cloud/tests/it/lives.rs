//! Lives of slices: asked for, filled, taken away, deleted, and what the API says meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use cloud::{Ask, ListedKind, requests};
use fleet::provider::{Capacity, Provider, SliceId, SliceRequest, SliceState};
use serde_json::{Value, json};

use crate::stand::{Stand, ZONE, id, kind, request};

#[test]
fn a_slice_comes_is_listed_and_goes() {
    let test = "a_slice_comes_is_listed_and_goes";
    let Some(stand) = Stand::start(test, json!({"page_size": 1})) else { return };
    stand.cloud.create(&request("one")).unwrap();
    let slice = stand.until_ready("one");
    assert_eq!(slice.workers.len(), 4);
    assert_eq!(slice.workers.iter().map(|w| (w.slice, w.number)).collect::<Vec<_>>(), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    assert!(slice.workers.iter().all(|worker| worker.external.is_some()));
    assert_eq!(slice.labels["job"], "test");
    let age = SystemTime::now().duration_since(slice.created.unwrap() - Duration::from_secs(600));
    assert!(age.is_ok());

    // A second one, on two slices without addresses on the internet; lists have several pages.
    let two = SliceRequest { slices: 2, external_ips: false, accelerator_type: "v5litepod-4".into(), ..request("two") };
    stand.cloud.create(&two).unwrap();
    let slice = stand.until_ready("two");
    assert_eq!(slice.workers.iter().map(|w| (w.slice, w.number)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    assert!(slice.workers.iter().all(|worker| worker.external.is_none()));
    let names = |labels: &[(&str, &str)]| {
        let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let found = stand.cloud.list(ZONE, &labels).unwrap();
        found.into_iter().map(|slice| slice.id.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&[("job", "test")]), ["one", "two"]);
    assert_eq!(names(&[("made-by", "tpubridge")]), ["one", "two"]);
    assert_eq!(names(&[("job", "other")]), [""; 0]);
    let listed = stand.cloud.list_all("-").unwrap().slices;
    assert_eq!(listed[1].nodes, ["two-0", "two-1"]);
    assert_eq!((listed[1].slices, listed[0].capacity.clone()), (2, Capacity::Spot));

    stand.delete("one");
    stand.delete("two");
    stand.delete("never-there");
    assert_eq!(stand.left(), 0);
    assert_eq!(stand.lives("node").len(), 3);
}

#[test]
fn everything_that_can_be_asked_for_is_asked_for() {
    let test = "everything_that_can_be_asked_for_is_asked_for";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    let until = SystemTime::now() + Duration::from_secs(3600);
    let full = SliceRequest {
        capacity: Capacity::Reserved { reservation: Some("ours".into()) },
        valid_until: Some(until),
        network: Some("net".into()),
        subnetwork: Some("sub".into()),
        service_account: Some("runner@test.iam.gserviceaccount.com".into()),
        tags: vec!["ssh".into()],
        metadata: BTreeMap::from([("startup-script".into(), "#! /bin/sh\necho \"hi\"".into())]),
        disks: vec!["projects/test/zones/us-west4-a/disks/data".into()],
        ..request("full")
    };
    let ask = Ask { valid_after: Some(until - Duration::from_secs(3600)), ..Ask::default() };
    let planned = requests::to_create(stand.cloud.account(), &full, &ask).unwrap();
    stand.cloud.create_as(&full, &ask).unwrap();
    let sent = &stand.asked("POST", "/queuedResources")[0];
    let body: Value = serde_json::from_str(sent["body"].as_str().unwrap()).unwrap();
    // A dry run shows what is sent: the same body, and the same address but for the random id.
    assert_eq!(planned[0].body.as_ref().unwrap(), &body);
    let start =
        format!("{}{}?queuedResourceId=full&requestId=", stand.server.endpoint(), sent["path"].as_str().unwrap());
    assert!(planned[0].url.starts_with(&start), "{}", planned[0].url);
    assert!(planned[0].url.ends_with("&$alt=json;enum-encoding=int"), "{}", planned[0].url);
    assert_eq!(sent["query"]["$alt"], "json;enum-encoding=int");

    let node = &body["tpu"]["nodeSpec"][0]["node"];
    assert_eq!(body["reservationName"], "projects/test/locations/us-west4-a/reservations/ours");
    assert_eq!(body["guaranteed"], json!({}));
    assert_eq!(node["schedulingConfig"], json!({"reserved": true}));
    assert_eq!(node["networkConfig"], json!({"network": "net", "subnetwork": "sub", "enableExternalIps": true}));
    assert_eq!(node["serviceAccount"]["email"], "runner@test.iam.gserviceaccount.com");
    assert_eq!(node["tags"], json!(["ssh"]));
    assert_eq!(node["metadata"]["startup-script"], "#! /bin/sh\necho \"hi\"");
    assert_eq!(node["dataDisks"][0]["sourceDisk"], "projects/test/zones/us-west4-a/disks/data");
    assert!(body["queueingPolicy"]["validInterval"]["endTime"].is_string());
    let listed = stand.cloud.describe(&id("full")).unwrap().unwrap();
    assert_eq!(listed.capacity, full.capacity);
    stand.delete("full");

    // And a deletion and a list are the requests that a dry run shows.
    let shown = |request: &requests::ApiRequest| {
        let url = request.url.strip_prefix(&stand.server.endpoint()).unwrap();
        (request.method.to_owned(), url.split('?').next().unwrap().to_owned())
    };
    let before = stand.record()["requests"].as_array().unwrap().len();
    stand.cloud.list_all(ZONE).unwrap();
    stand.cloud.delete(&id("none")).unwrap();
    let record = stand.record();
    let sent: Vec<(String, String)> = record["requests"].as_array().unwrap()[before..]
        .iter()
        .map(|r| (r["method"].as_str().unwrap().to_owned(), r["path"].as_str().unwrap().to_owned()))
        .collect();
    let mut planned = requests::to_list(stand.cloud.account(), ZONE);
    planned.extend(requests::to_delete(stand.cloud.account(), &id("none")).unwrap());
    planned.pop(); // The node that is not there.
    assert_eq!(sent, planned.iter().map(shown).collect::<Vec<_>>());
}

#[test]
fn a_single_node_comes_and_goes() {
    let test = "a_single_node_comes_and_goes";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    let ask = Ask { as_node: true, ..Ask::default() };
    stand.cloud.create_as(&request("single"), &ask).unwrap();
    stand.cloud.create_as(&request("single"), &ask).unwrap();
    stand.until_ready("single");
    let listed = stand.cloud.list_all(ZONE).unwrap().slices;
    assert_eq!((listed.len(), listed[0].kind, listed[0].capacity.clone()), (1, ListedKind::Node, Capacity::Spot));
    let other = SliceRequest { accelerator_type: "v5litepod-8".into(), ..request("single") };
    assert_eq!(kind(&stand.cloud.create_as(&other, &ask).unwrap_err()), "taken");
    stand.tell("preempt", json!({"name": "single", "how": "TERMINATED"}));
    assert_eq!(stand.get("single").unwrap().state, SliceState::Lost);
    stand.delete("single");
    assert_eq!((stand.left(), stand.lives("node").len()), (0, 1));
}

#[test]
fn preempted_slices_are_seen_whatever_they_say() {
    let test = "preempted_slices_are_seen_whatever_they_say";
    // Slow to suspend: what is seen is what the nodes say.
    let Some(stand) = Stand::start(test, json!({"delays": {"suspend": 300}})) else { return };
    for how in ["PREEMPTED", "TERMINATED", "STOPPED", "HIDDEN", "vanish", "suspend"] {
        let name = format!("a-{}", how.to_lowercase());
        stand.cloud.create(&request(&name)).unwrap();
        stand.until_ready(&name);
        stand.tell("preempt", json!({"name": name, "how": how}));
        let lost = stand.get(&name).unwrap();
        assert_eq!(lost.state, SliceState::Lost, "{how}: {}", lost.detail);
    }
    // Suspended for good: still there, and still in the quota, until it is deleted.
    stand.tell("advance", json!({"seconds": 600}));
    let lost = stand.get("a-preempted").unwrap();
    assert_eq!((lost.state, lost.detail.as_str()), (SliceState::Lost, "SUSPENDED"));
    let all = stand.cloud.list(ZONE, &BTreeMap::new()).unwrap();
    assert_eq!(all.iter().filter(|slice| slice.state == SliceState::Lost).count(), 6);
    for slice in all {
        stand.delete(&slice.id.name);
    }
    assert_eq!(stand.left(), 0);
}

#[test]
fn states_that_came_later_are_not_ready_and_can_be_deleted() {
    let test = "states_that_came_later_are_not_ready_and_can_be_deleted";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    stand.cloud.create(&request("odd")).unwrap();
    stand.until_ready("odd");
    stand.tell("state", json!({"name": "odd", "text": "HIBERNATING"}));
    let odd = stand.get("odd").unwrap();
    assert_eq!((odd.state, odd.detail.as_str()), (SliceState::Creating, "HIBERNATING"));
    stand.delete("odd");
    assert_eq!(stand.left(), 0);
}

#[test]
fn a_request_expires_in_the_queue() {
    let test = "a_request_expires_in_the_queue";
    for says in ["FAILED", "nothing"] {
        let Some(mut stand) = Stand::start(test, json!({"stock": {ZONE: 0}, "expired_says": says})) else { return };
        let until = SystemTime::now() + Duration::from_secs(1000);
        stand.cloud.create(&SliceRequest { valid_until: Some(until), ..request("late") }).unwrap();
        stand.until("late", |state| state == Some(&SliceState::Waiting));
        stand.tell("advance", json!({"seconds": 2000}));
        stand.cloud = stand.cloud.with_clock(|| SystemTime::now() + Duration::from_secs(2000));
        stand.tell("settings", json!({"stock": {ZONE: 1000}}));
        let late = stand.get("late").unwrap();
        assert!(matches!(&late.state, SliceState::Failed { why } if !why.is_empty()), "{says}: {late:?}");
        stand.delete("late");
        assert_eq!((stand.left(), stand.lives("node").len()), (0, 0));
    }
}

#[test]
fn an_abandoned_request_is_filled_later_and_found() {
    let test = "an_abandoned_request_is_filled_later_and_found";
    let Some(stand) = Stand::start(test, json!({"zone_delays": {ZONE: {"queue": 4200}}})) else { return };
    stand.cloud.create(&request("forgotten")).unwrap();
    assert_eq!(stand.get("forgotten").unwrap().state, SliceState::Waiting);
    stand.tell("advance", json!({"seconds": 4210}));
    // 70 minutes later it costs money, and the list by label shows it.
    let labels = BTreeMap::from([("job".to_string(), "test".to_string())]);
    let found = stand.cloud.list(ZONE, &labels).unwrap();
    assert_eq!((found.len(), &found[0].state, found[0].workers.len()), (1, &SliceState::Ready, 4));
    stand.delete("forgotten");
    // One that was deleted in the queue is not filled.
    stand.cloud.create(&request("deleted")).unwrap();
    stand.delete("deleted");
    stand.tell("advance", json!({"seconds": 4210}));
    assert_eq!((stand.left(), stand.lives("node").len()), (0, 1));
}

#[test]
fn nodes_that_a_request_left_behind_are_found_and_deleted() {
    let test = "nodes_that_a_request_left_behind_are_found_and_deleted";
    let Some(stand) = Stand::start(test, json!({})) else { return };
    stand.cloud.create(&SliceRequest { slices: 3, ..request("left") }).unwrap();
    stand.until_ready("left");
    stand.tell("forget", json!({"name": "left"}));
    let labels = BTreeMap::from([("job".to_string(), "test".to_string())]);
    let listed = stand.cloud.list(ZONE, &labels).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].id, &listed[0].state), (&id("left"), &SliceState::Lost));
    assert_eq!(stand.get("left").unwrap().detail, "READY, its request is gone");
    stand.delete("left");
    assert_eq!((stand.left(), stand.lives("node").len()), (0, 3));
}

#[test]
fn what_a_zone_has_is_asked() {
    let test = "what_a_zone_has_is_asked";
    let Some(stand) = Stand::start(test, json!({"page_size": 2, "quota": {ZONE: 32}})) else { return };
    let zones = stand.cloud.zones().unwrap();
    assert!(zones.len() == 9 && zones.contains(&ZONE.to_string()), "{zones:?}");
    let offers = stand.cloud.offers(ZONE).unwrap();
    assert_eq!(offers.accelerator_types.len(), 8);
    assert!(offers.check(ZONE, "v5litepod-16", "v2-alpha-tpuv5-lite").is_ok());
    let error = offers.check(ZONE, "v5p-16", "v2-alpha-tpuv5").unwrap_err().to_string();
    assert!(error.contains("v5litepod-"), "{error}");
    let quotas = stand.cloud.quotas().unwrap();
    let here: Vec<_> = quotas.iter().filter(|quota| quota.location.as_deref() == Some(ZONE)).collect();
    assert!(here.len() == 2 && here.iter().all(|quota| quota.limit == 32), "{here:?}");
    assert_eq!(kind(&stand.cloud.offers("us-nowhere1-a").unwrap_err()), "invalid");
    let nowhere = SliceId { zone: "us-nowhere1-a".into(), name: "a".into() };
    assert_eq!(kind(&stand.cloud.create(&SliceRequest { id: nowhere, ..request("a") }).unwrap_err()), "invalid");
}
