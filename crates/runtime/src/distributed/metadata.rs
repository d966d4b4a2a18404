//! What the metadata server of a Cloud TPU virtual machine says of its slice, as the variables that GKE would set.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::config::MAX_PROCESSES;
use super::tpu::{HOSTNAMES, MEGASCALE_COORDINATOR, NUM_SLICES, SKIP_METADATA, SLICE_ID, WORKER_ID};
use crate::error::Error;
use crate::host::tpu_chips;

/// Where it is on Google's machines; Google's own clients and libtpu look here.
const ADDRESS: &str = "169.254.169.254";
/// Variables that say where it is, the first of them that is set.
const ADDRESS_VARIABLES: [&str; 2] = ["GCE_METADATA_HOST", "GCE_METADATA_IP"];

/// How long a question may take: the server is on the same machine.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Times to ask while the server is starting.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(300);
/// Bytes of an answer at most.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Variables of the slice by name.
pub(super) type Said = BTreeMap<&'static str, String>;

/// Whether the server is worth asking: on a machine with TPUs, or where a variable names it; not where the environment has
/// the hosts already, or says not to ask.
pub(super) fn is_wanted(environment: &impl Fn(&str) -> Option<String>, tpu_chips: impl FnOnce() -> usize) -> bool {
    let is_set = |variable: &str| environment(variable).is_some_and(|text| !text.trim().is_empty());
    if is_set(HOSTNAMES) || is_set(SKIP_METADATA) {
        return false;
    }
    ADDRESS_VARIABLES.iter().any(|variable| is_set(variable)) || tpu_chips() > 0
}

/// The address that the environment names, else the usual one.
pub(super) fn address(environment: &impl Fn(&str) -> Option<String>) -> String {
    let named = ADDRESS_VARIABLES.iter().find_map(|variable| environment(variable));
    named.map(|text| text.trim().to_string()).filter(|text| !text.is_empty()).unwrap_or_else(|| ADDRESS.to_string())
}

/// Asks the server. Empty where there is none, or where it is not that of a TPU slice; what it says is checked.
pub(super) fn read(address: &str) -> Result<Said, Error> {
    // A thread of its own: the caller may be inside a runtime, which must not wait for another.
    let asked = std::thread::scope(|scope| scope.spawn(|| ask(address)).join());
    match asked {
        Ok(answers) => answers.and_then(|answers| answers.map_or(Ok(Said::new()), |answers| answers.checked(address))),
        Err(_) => Err(Error::Distributed(format!("asking the metadata server at {address} ended in a panic"))),
    }
}

/// The attributes as they came.
struct Answers {
    worker: String,
    endpoints: String,
    /// Lines of `NAME: 'value'`; absent on some machines.
    tpu_env: String,
}

/// The zone of this machine, such as `us-central2-b`, where it is one of Google's with TPUs, or a variable names its metadata
/// server. Nothing depends on it: what fails is `None`.
pub fn machine_zone() -> Option<String> {
    let environment = |variable: &str| std::env::var(variable).ok().filter(|text| !text.trim().is_empty());
    let is_named = ADDRESS_VARIABLES.iter().any(|variable| environment(variable).is_some());
    if environment(SKIP_METADATA).is_some() || !is_named && tpu_chips(Path::new("/")) == 0 {
        return None;
    }
    let address = address(&environment);
    let asked = || -> Option<String> {
        let (runtime, client) = client().ok()?;
        let said = runtime.block_on(value(&client, &address, "zone")).ok()??;
        let zone = said.trim().rsplit('/').next()?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ((1..=64).contains(&zone.len()) && zone.chars().all(is_plain)).then(|| zone.to_string())
    };
    // A thread of its own: the caller may be inside a runtime.
    std::thread::scope(|scope| scope.spawn(asked).join()).ok()?
}

fn client() -> Result<(tokio::runtime::Runtime, reqwest::Client), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    weights::choose_cryptography();
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT);
    Ok((runtime, client.build()?))
}

fn ask(address: &str) -> Result<Option<Answers>, Error> {
    let (runtime, client) = client().map_err(|error| {
        Error::Distributed(format!("asking the metadata server at {address}: {}", compile::with_causes(&*error)))
    })?;
    let attribute = |name: &str| runtime.block_on(value(&client, address, &format!("attributes/{name}")));
    // Machines without a slice do not have this one.
    let worker = match attribute("agent-worker-number") {
        Ok(Some(worker)) => worker,
        Ok(None) => return Ok(None),
        Err(why) => {
            tracing::warn!(address, why, "the metadata server does not say which hosts the slice has");
            return Ok(None);
        }
    };
    let needed = |name: &str| {
        attribute(name).map_err(|why| Error::Distributed(format!("the metadata server at {address}: {name}: {why}")))
    };
    let endpoints = needed("worker-network-endpoints")?.unwrap_or_default();
    let tpu_env = needed("tpu-env")?.unwrap_or_default();
    Ok(Some(Answers { worker, endpoints, tpu_env }))
}

/// One value of the machine; `None` where the server has none of that name.
async fn value(client: &reqwest::Client, address: &str, name: &str) -> Result<Option<String>, String> {
    let url = format!("http://{address}/computeMetadata/v1/instance/{name}");
    let mut last = String::new();
    for attempt in 0..TRIES {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let request = client.get(&url).header("Metadata-Flavor", "Google");
        let mut response = request.send().await.map_err(|error| compile::with_causes(&error))?;
        let status = response.status();
        if status.is_server_error() {
            last = format!("it answers {status}");
            continue;
        }
        // Anything else that listens there is not the server.
        if response.headers().get("Metadata-Flavor").is_none_or(|flavor| flavor != "Google") {
            return Err("what answers is no metadata server".into());
        }
        if status == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(format!("it answers {status}"));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| compile::with_causes(&error))? {
            if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(format!("an answer of more than {MAX_ANSWER_BYTES} bytes"));
            }
            bytes.extend_from_slice(&chunk);
        }
        return String::from_utf8(bytes).map(Some).map_err(|_| "an answer that is no text".into());
    }
    Err(last)
}

impl Answers {
    fn checked(&self, address: &str) -> Result<Said, Error> {
        let odd = |attribute: &str, why: &str| {
            Error::Distributed(format!("the metadata server at {address}: {attribute}: {why}"))
        };
        let worker = self.worker.trim();
        let is_number = |text: &str| text.parse::<usize>().is_ok_and(|number| number < MAX_PROCESSES);
        if !is_number(worker) {
            return Err(odd("agent-worker-number", &format!("{:?} is not a worker number", shown(worker))));
        }
        let hosts = hosts(&self.endpoints).map_err(|why| odd("worker-network-endpoints", &why))?;
        let mut said = Said::from([(WORKER_ID, worker.to_string()), (HOSTNAMES, hosts.join(","))]);
        for (name, value) in lines(&self.tpu_env) {
            let Some(known) = [NUM_SLICES, SLICE_ID, MEGASCALE_COORDINATOR].into_iter().find(|known| *known == name)
            else {
                continue;
            };
            if value.is_empty() {
                continue;
            }
            let is_good = if known == MEGASCALE_COORDINATOR { is_host(value) } else { is_number(value) };
            if !is_good {
                return Err(odd("tpu-env", &format!("{known} is {:?}", shown(value))));
            }
            said.insert(known, value.to_string());
        }
        Ok(said)
    }
}

/// `NAME: 'value'`, line by line.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let line = |line: &'_ str| -> Option<(usize, usize)> { line.find(':').map(|at| (at, at + 1)) };
    text.lines().filter_map(move |text| {
        let (end, start) = line(text)?;
        Some((text[..end].trim(), text[start..].trim().trim_matches(['\'', '"'])))
    })
}

/// Hosts of the slice, by worker: names, or in the older form `name:id:ip`.
fn hosts(endpoints: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for worker in endpoints.trim().split(',').map(str::trim) {
        let parts: Vec<&str> = worker.splitn(4, ':').collect();
        let host = match parts[..] {
            [host] => host,
            [_, _, address] => address,
            _ => "",
        };
        if !is_host(host) || host.contains(':') {
            return Err(format!("{:?} names no host", shown(worker)));
        }
        if hosts.len() == MAX_PROCESSES {
            return Err(format!("more than {MAX_PROCESSES} hosts"));
        }
        hosts.push(host.to_string());
    }
    Ok(hosts)
}

/// Whether a text can be a host, with a port or without.
fn is_host(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    (1..=259).contains(&text.len()) && text.chars().all(is_plain)
}

/// So much of a text as an error may show.
fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(worker: &str, endpoints: &str, tpu_env: &str, expected: Result<&[(&str, &str)], &str>) {
        let answers = Answers { worker: worker.into(), endpoints: endpoints.into(), tpu_env: tpu_env.into() };
        match (answers.checked("m"), expected) {
            (Ok(said), Ok(expected)) => {
                let said: Vec<(&str, &str)> = said.iter().map(|(name, value)| (*name, value.as_str())).collect();
                assert_eq!(said, expected);
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (said, expected) => panic!("{said:?}, not {expected:?}"),
        }
    }

    #[test]
    fn answers_of_the_server() {
        check("1\n", "t-0,t-1", "", Ok(&[(HOSTNAMES, "t-0,t-1"), (WORKER_ID, "1")]));
        check(
            "0",
            "t:0:10.0.0.2,t:1:10.0.0.3",
            "ZONE: 'z'\n",
            Ok(&[(HOSTNAMES, "10.0.0.2,10.0.0.3"), (WORKER_ID, "0")]),
        );
        let slices = "TYPE: 'V4'\nMEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\n: \nno colon\n\
                      MEGASCALE_COORDINATOR_ADDRESS: '10.0.0.2:8080'\n";
        let expected = [
            (MEGASCALE_COORDINATOR, "10.0.0.2:8080"),
            (NUM_SLICES, "2"),
            (SLICE_ID, "1"),
            (HOSTNAMES, "a"),
            (WORKER_ID, "0"),
        ];
        check("0", "a", slices, Ok(&expected));
    }

    #[test]
    fn hostile_answers() {
        check("first", "a", "", Err("agent-worker-number"));
        check("99999999999", "a", "", Err("agent-worker-number"));
        check("0", "", "", Err("names no host"));
        check("0", "a,,b", "", Err("names no host"));
        check("0", "a:b", "", Err("names no host"));
        check("0", "a b", "", Err("names no host"));
        check("0", "a:0:1:2:3", "", Err("names no host"));
        check("0", &"a,".repeat(5000), "", Err("more than"));
        check("0", "a", "MEGASCALE_NUM_SLICES: 'many'", Err("MEGASCALE_NUM_SLICES"));
        check("0", "a", "MEGASCALE_COORDINATOR_ADDRESS: '$(reboot)'", Err("MEGASCALE_COORDINATOR_ADDRESS"));
    }
}
