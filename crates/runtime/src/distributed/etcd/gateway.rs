//! Requests to etcd's JSON gateway: to any of its members, again until one answers or time is up.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pjrt::{Code, KeyValueError};
use serde_json::{Value, json};

use crate::distributed::etcd_config::{Encryption, EtcdConfig};
use crate::error::Error;

/// How long a connection may take, and a request with it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of an answer at most.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Numbers that gRPC gives to errors.
const UNAUTHENTICATED: i64 = 16;
const NOT_FOUND: i64 = 5;

/// How long an operation goes on: what is tried again meanwhile cannot have been done twice.
pub(super) struct Patience<'a> {
    pub(super) deadline: Instant,
    /// Asked before each try; its error ends the operation.
    pub(super) check: &'a dyn Fn() -> Result<(), KeyValueError>,
}

impl Patience<'_> {
    pub(super) fn until(deadline: Instant) -> Patience<'static> {
        Patience { deadline, check: &|| Ok(()) }
    }
}

/// Connections to etcd.
#[derive(Debug)]
pub(super) struct Gateway {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    config: EtcdConfig,
    /// The member that is asked first: the last that answered.
    favourite: AtomicUsize,
    /// What etcd gave for the password.
    token: Mutex<Option<String>>,
}

/// Why a try came to nothing.
enum Failed {
    /// Another try may succeed.
    Transient(String),
    /// The token that came with the request is not known (any more).
    Unauthenticated(String),
    Final(KeyValueError),
}

impl Gateway {
    pub(super) fn open(config: &EtcdConfig) -> Result<Gateway, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::Distributed(format!("reaching etcd at {}: {error}", config.endpoints.join(",")))
        };
        if config.encryption == Encryption::None
            && let Some(address) = addresses(config).find(|address| !address.ip().to_canonical().is_loopback())
        {
            return Err(failed(&format!(
                "{address} is not on the loopback interface, and etcd:// is not encrypted: say etcds://, with the server's \
                 authority in TPUBRIDGE_ETCD_CA_FILE"
            )));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        weights::choose_cryptography();
        // Inside the network of the job: a proxy for the world has no business here, and nobody sends us elsewhere.
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT);
        if let Encryption::Tls { authority, identity } = &config.encryption {
            builder = builder.https_only(true);
            if let Some(pem) = authority {
                let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| failed(&error))?;
                if certificates.is_empty() {
                    return Err(failed(&"the authority's file holds no certificate (PEM)"));
                }
                builder = builder.tls_certs_only(certificates);
            }
            if let Some(identity) = identity {
                let identity = reqwest::Identity::from_pem(&identity.0);
                builder = builder.identity(identity.map_err(|error| failed(&compile::with_causes(&error)))?);
            }
        }
        Ok(Gateway {
            client: builder.build().map_err(|error| failed(&compile::with_causes(&error)))?,
            runtime,
            config: config.clone(),
            favourite: AtomicUsize::new(0),
            token: Mutex::default(),
        })
    }

    /// The address of this machine towards etcd.
    pub(super) fn local_address(&self) -> Option<IpAddr> {
        let connected =
            addresses(&self.config).find_map(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok());
        Some(connected?.local_addr().ok()?.ip())
    }

    /// A request, tried again until it is answered or `patience` ends.
    fn call(&self, method: &str, body: &Value, patience: &Patience<'_>) -> Result<Value, KeyValueError> {
        // A token that has just been given may be refused once, by a member that has not heard of it.
        let mut refused = 0;
        loop {
            (patience.check)()?;
            let token = match self.token(patience) {
                Ok(token) => token,
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Transient(why) | Failed::Unauthenticated(why)) => {
                    self.pause(method, &why, patience)?;
                    continue;
                }
            };
            match self.try_once(method, body, token.as_deref(), patience.deadline) {
                Ok(answer) => return Ok(answer),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Unauthenticated(why)) => {
                    refused += 1;
                    if self.config.credentials.is_none() || refused > 3 {
                        return Err(KeyValueError::new(Code::PermissionDenied, self.said(method, &why)));
                    }
                    *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    self.pause(method, &why, patience)?;
                }
                Err(Failed::Transient(why)) => self.pause(method, &why, patience)?,
            }
        }
    }

    /// A pause before the next try, at the next member; an error where there is none.
    fn pause(&self, method: &str, why: &str, patience: &Patience<'_>) -> Result<(), KeyValueError> {
        if Instant::now() + RETRY_PAUSE >= patience.deadline {
            return Err(KeyValueError::new(Code::Unavailable, self.said(method, why)));
        }
        self.favourite.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(RETRY_PAUSE);
        Ok(())
    }

    fn said(&self, method: &str, why: &str) -> String {
        format!("etcd at {}: {method}: {why}", self.config.endpoints.join(","))
    }

    /// The token for the password; `None` where there is none.
    fn token(&self, patience: &Patience<'_>) -> Result<Option<String>, Failed> {
        let Some(credentials) = &self.config.credentials else { return Ok(None) };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_none() {
            let body = json!({ "name": credentials.name, "password": credentials.password });
            let answer = self.try_once("auth/authenticate", &body, None, patience.deadline)?;
            let given = answer["token"].as_str().ok_or_else(|| Failed::Final(self.odd("auth/authenticate")))?;
            *token = Some(given.to_string());
        }
        Ok(token.clone())
    }

    fn try_once(&self, method: &str, body: &Value, token: Option<&str>, deadline: Instant) -> Result<Value, Failed> {
        let endpoints = &self.config.endpoints;
        let endpoint = &endpoints[self.favourite.load(Ordering::Relaxed) % endpoints.len()];
        let scheme = if self.config.encryption == Encryption::None { "http" } else { "https" };
        let left = deadline.saturating_duration_since(Instant::now()).max(RETRY_PAUSE).min(REQUEST_TIMEOUT);
        let request = self.client.post(format!("{scheme}://{endpoint}/v3/{method}")).timeout(left);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let request = match token {
            Some(token) => request.header("authorization", token),
            None => request,
        };
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
        let (status, bytes) = answer.map_err(|error| {
            let why = compile::with_causes(&error);
            // A certificate does not become good by waiting, ours or theirs.
            match why.to_lowercase().contains("certificate") {
                true => Failed::Final(KeyValueError::new(Code::PermissionDenied, self.said(method, &why))),
                false => Failed::Transient(why),
            }
        })?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|_| Failed::Final(self.odd(method)));
        }
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = said["message"].as_str().or_else(|| said["error"].as_str()).unwrap_or_default();
        let why = format!("{status}: {text}");
        let code = number(&said["code"]).unwrap_or_default();
        if code == UNAUTHENTICATED || status.as_u16() == 401 {
            return Err(Failed::Unauthenticated(why));
        }
        if status.is_server_error() || status.as_u16() == 429 {
            return Err(Failed::Transient(why));
        }
        let code = match code {
            NOT_FOUND => Code::NotFound,
            _ if status.as_u16() == 403 => Code::PermissionDenied,
            _ => Code::FailedPrecondition,
        };
        Err(Failed::Final(KeyValueError::new(code, self.said(method, &why))))
    }

    /// A lease that runs out after so many seconds without a sign of life.
    pub(super) fn grant(&self, seconds: u64, patience: &Patience<'_>) -> Result<i64, KeyValueError> {
        let answer = self.call("lease/grant", &json!({ "TTL": seconds.to_string() }), patience)?;
        number(&answer["ID"]).ok_or_else(|| self.odd("lease/grant"))
    }

    /// A sign of life; false where the lease has run out.
    pub(super) fn keep_alive(&self, lease: i64, patience: &Patience<'_>) -> Result<bool, KeyValueError> {
        let answer = self.call("lease/keepalive", &json!({ "ID": lease.to_string() }), patience)?;
        Ok(number(&answer["result"]["TTL"]).is_some_and(|seconds| seconds > 0))
    }

    /// Ends a lease and the keys that hang on it.
    pub(super) fn revoke(&self, lease: i64, patience: &Patience<'_>) -> Result<(), KeyValueError> {
        self.call("lease/revoke", &json!({ "ID": lease.to_string() }), patience).map(|_| ())
    }

    /// Sets a key that does not exist; false where it has another value. A second try finds what the first has done.
    pub(super) fn create(
        &self,
        key: &str,
        value: &[u8],
        lease: i64,
        patience: &Patience<'_>,
    ) -> Result<bool, KeyValueError> {
        let absent = json!({
            "key": STANDARD.encode(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"
        });
        let put = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value), "lease": lease.to_string() });
        let body = json!({
            "compare": [absent],
            "success": [{ "request_put": put }],
            "failure": [{ "request_range": { "key": STANDARD.encode(key) } }],
        });
        let answer = self.call("kv/txn", &body, patience)?;
        if answer["succeeded"].as_bool().unwrap_or(false) {
            return Ok(true);
        }
        Ok(self.first_value(&answer["responses"][0]["response_range"])?.as_deref() == Some(value))
    }

    pub(super) fn get(&self, key: &str, patience: &Patience<'_>) -> Result<Option<Vec<u8>>, KeyValueError> {
        self.first_value(&self.call("kv/range", &json!({ "key": STANDARD.encode(key) }), patience)?)
    }

    fn first_value(&self, answer: &Value) -> Result<Option<Vec<u8>>, KeyValueError> {
        let Some(found) = answer["kvs"].as_array().and_then(|list| list.first()) else { return Ok(None) };
        // An empty value is left out of the answer.
        let value = STANDARD.decode(found["value"].as_str().unwrap_or_default());
        value.map(Some).map_err(|_| self.odd("kv/range"))
    }

    /// Keys that begin with a prefix.
    pub(super) fn keys(&self, prefix: &str, patience: &Patience<'_>) -> Result<Vec<String>, KeyValueError> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            // Keys are ASCII: there is a next character.
            *last += 1;
        }
        let body = json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end), "keys_only": true });
        let answer = self.call("kv/range", &body, patience)?;
        let list = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let key = |found: &Value| String::from_utf8(STANDARD.decode(found["key"].as_str()?).ok()?).ok();
        list.iter().map(key).collect::<Option<Vec<_>>>().ok_or_else(|| self.odd("kv/range"))
    }

    fn odd(&self, method: &str) -> KeyValueError {
        let message = self.said(method, "an answer that this version does not read");
        KeyValueError::new(Code::Internal, message)
    }
}

/// The addresses of all members whose names have some now.
fn addresses(config: &EtcdConfig) -> impl Iterator<Item = SocketAddr> {
    config.endpoints.iter().flat_map(|endpoint| endpoint.to_socket_addrs().into_iter().flatten())
}

/// Numbers of 64 bits come as text.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}
