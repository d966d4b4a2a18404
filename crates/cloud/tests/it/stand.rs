//! A stand-in, a client of it, and what both remember.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cloud::{Account, CloudTpu, RetryLimits, plain_request};
use fleet::provider::{Capacity, ProvidedSlice, Provider, ProviderError, SliceId, SliceRequest, SliceState};
use serde_json::{Value, json};
use testkit::CloudTpuServer;

pub(crate) const ZONE: &str = "us-west4-a";
/// What no stand-in takes: it ends a test that would hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Both, with a virtual second in a tenth of a real one.
pub(crate) struct Stand {
    pub(crate) server: CloudTpuServer,
    pub(crate) cloud: CloudTpu,
}

impl Stand {
    pub(crate) fn start(test: &str, settings: Value) -> Option<Stand> {
        let mut all = json!({"scale": 10});
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let server = CloudTpuServer::start(test, &all.to_string())?;
        let patience = RetryLimits {
            request: Duration::from_secs(20),
            first_wait: Duration::from_millis(20),
            longest_wait: Duration::from_millis(200),
            ..RetryLimits::default()
        };
        let cloud = CloudTpu::with_limits(Account::at("test", server.endpoint()), patience).unwrap();
        Some(Stand { server, cloud })
    }

    pub(crate) fn tell(&self, what: &str, json: Value) -> Value {
        serde_json::from_str(&self.server.tell(what, &json.to_string())).unwrap()
    }

    pub(crate) fn record(&self) -> Value {
        serde_json::from_str(&self.server.record()).unwrap()
    }

    /// Everything that was ever made of a kind, `node` or `queued_resource`.
    pub(crate) fn lives(&self, kind: &str) -> Vec<Value> {
        let record = self.record();
        record["lives"].as_array().unwrap().iter().filter(|life| life["kind"] == kind).cloned().collect()
    }

    pub(crate) fn left(&self) -> usize {
        let record = self.record();
        record["lives"].as_array().unwrap().iter().filter(|life| life["deleted"].is_null()).count()
    }

    /// Requests with a method whose path ends so.
    pub(crate) fn asked(&self, method: &str, end: &str) -> Vec<Value> {
        let record = self.record();
        let is_it = |r: &&Value| r["method"] == method && r["path"].as_str().unwrap().ends_with(end);
        record["requests"].as_array().unwrap().iter().filter(is_it).cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<ProvidedSlice> {
        self.cloud.get(&id(name)).unwrap()
    }

    /// Looks until a slice is in a state.
    pub(crate) fn until(&self, name: &str, is_it: impl Fn(Option<&SliceState>) -> bool) -> Option<ProvidedSlice> {
        let started = Instant::now();
        loop {
            let found = self.get(name);
            if is_it(found.as_ref().map(|slice| &slice.state)) {
                return found;
            }
            assert!(started.elapsed() < LIMIT, "{name} is still {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn until_ready(&self, name: &str) -> ProvidedSlice {
        self.until(name, |state| state == Some(&SliceState::Ready)).unwrap()
    }

    /// Deletes as a caller does: until it is gone.
    pub(crate) fn delete(&self, name: &str) {
        let started = Instant::now();
        loop {
            self.cloud.delete(&id(name)).unwrap();
            if self.get(name).is_none() {
                return;
            }
            assert!(started.elapsed() < LIMIT, "{name} is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub(crate) fn id(name: &str) -> SliceId {
    SliceId { zone: ZONE.into(), name: name.into() }
}

pub(crate) fn request(name: &str) -> SliceRequest {
    SliceRequest {
        id: id(name),
        accelerator_type: "v5litepod-16".into(),
        runtime_version: "v2-alpha-tpuv5-lite".into(),
        capacity: Capacity::Spot,
        labels: BTreeMap::from([("job".into(), "test".into())]),
        ..plain_request()
    }
}

pub(crate) fn kind(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::NoCapacity(_) => "no capacity",
        ProviderError::Quota(_) => "quota",
        ProviderError::Taken(_) => "taken",
        ProviderError::Denied(_) => "denied",
        ProviderError::Invalid(_) => "invalid",
        ProviderError::Transient { .. } => "transient",
        ProviderError::Unknown(_) => "unknown",
    }
}
