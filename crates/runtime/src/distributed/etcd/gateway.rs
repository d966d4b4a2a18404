//! Requests to etcd's JSON gateway.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pjrt::{Code, KeyValueError};
use serde_json::{Value, json};

use crate::error::Error;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer at most.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A connection to etcd.
#[derive(Debug)]
pub(super) struct Gateway {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    address: String,
}

impl Gateway {
    pub(super) fn open(address: &str) -> Result<Gateway, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Distributed(format!("reaching etcd at {address}: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        // Inside the network of the job: a proxy for the world has no business here.
        weights::choose_cryptography();
        let client = reqwest::Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build();
        Ok(Gateway { client: client.map_err(|error| failed(&error))?, runtime, address: address.to_string() })
    }

    fn call(&self, method: &str, body: &Value) -> Result<Value, KeyValueError> {
        let failed = |error: &dyn std::fmt::Display| {
            KeyValueError::new(Code::Unavailable, format!("etcd at {}: {method}: {error}", self.address))
        };
        let url = format!("http://{}/v3/{method}", self.address);
        let request = self.client.post(url).header("content-type", "application/json").body(body.to_string());
        let answer = self.runtime.block_on(async {
            let mut response = request.send().await?;
            let status = response.status();
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                    break;
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok::<_, reqwest::Error>((status, bytes))
        });
        let (status, bytes) = answer.map_err(|error| failed(&compile::with_causes(&error)))?;
        if !status.is_success() {
            return Err(failed(&format!("{status}: {}", String::from_utf8_lossy(&bytes).trim())));
        }
        serde_json::from_slice(&bytes).map_err(|error| failed(&error))
    }

    /// A lease that runs out after so many seconds without a sign of life.
    pub(super) fn grant(&self, seconds: u64) -> Result<i64, KeyValueError> {
        let answer = self.call("lease/grant", &json!({ "TTL": seconds.to_string() }))?;
        number(&answer["ID"]).ok_or_else(|| self.odd("lease/grant"))
    }

    /// A sign of life; false where the lease has run out.
    pub(super) fn keep_alive(&self, lease: i64) -> Result<bool, KeyValueError> {
        let answer = self.call("lease/keepalive", &json!({ "ID": lease.to_string() }))?;
        Ok(number(&answer["result"]["TTL"]).is_some_and(|seconds| seconds > 0))
    }

    /// Ends a lease and the keys that hang on it.
    pub(super) fn revoke(&self, lease: i64) -> Result<(), KeyValueError> {
        self.call("lease/revoke", &json!({ "ID": lease.to_string() })).map(|_| ())
    }

    pub(super) fn put(&self, key: &str, value: &[u8], lease: i64) -> Result<(), KeyValueError> {
        self.call("kv/put", &put(key, value, lease)).map(|_| ())
    }

    /// Sets a key that does not exist; false where it does.
    pub(super) fn create(&self, key: &str, value: &[u8], lease: i64) -> Result<bool, KeyValueError> {
        let absent = json!({
            "key": STANDARD.encode(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"
        });
        let body = json!({ "compare": [absent], "success": [{ "request_put": put(key, value, lease) }] });
        Ok(self.call("kv/txn", &body)?["succeeded"].as_bool().unwrap_or(false))
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        let answer = self.call("kv/range", &json!({ "key": STANDARD.encode(key) }))?;
        let Some(found) = answer["kvs"].as_array().and_then(|list| list.first()) else { return Ok(None) };
        // An empty value is left out of the answer.
        let value = STANDARD.decode(found["value"].as_str().unwrap_or_default());
        value.map(Some).map_err(|_| self.odd("kv/range"))
    }

    /// Keys that begin with a prefix.
    pub(super) fn keys(&self, prefix: &str) -> Result<Vec<String>, KeyValueError> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            // Keys are ASCII: there is a next character.
            *last += 1;
        }
        let body = json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end), "keys_only": true });
        let answer = self.call("kv/range", &body)?;
        let list = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let key = |found: &Value| String::from_utf8(STANDARD.decode(found["key"].as_str()?).ok()?).ok();
        list.iter().map(key).collect::<Option<Vec<_>>>().ok_or_else(|| self.odd("kv/range"))
    }

    fn odd(&self, method: &str) -> KeyValueError {
        let message = format!("etcd at {} answers {method} in a way this version does not read", self.address);
        KeyValueError::new(Code::Internal, message)
    }
}

fn put(key: &str, value: &[u8], lease: i64) -> Value {
    json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value), "lease": lease.to_string() })
}

/// Numbers of 64 bits come as text.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}
