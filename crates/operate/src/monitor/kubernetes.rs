//! Hosts by a selector of Kubernetes: the pods that `kubectl`, as the user has set it up, lists.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::runtime_metrics::DEFAULT_PORT;

use super::collect::MonitorError;
use super::targets::MonitorTarget;

/// How long `kubectl` may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes of its answer at most.
const MAX_BYTES: u64 = 64 << 20;

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Labels, as in `jobset.sigs.k8s.io/jobset-name=train`.
    pub labels: String,
    /// The namespace; `None` for that of the user's configuration.
    pub namespace: Option<String>,
    /// The program that is asked.
    pub kubectl: String,
}

impl Selector {
    /// Pods with these labels, by the `kubectl` on `$PATH`.
    pub fn new(labels: &str, namespace: Option<&str>) -> Selector {
        Selector { labels: labels.into(), namespace: namespace.map(Into::into), kubectl: "kubectl".into() }
    }

    /// Asks for the pods. Those that are not running are targets without an address.
    pub fn targets(&self) -> Result<Vec<MonitorTarget>, MonitorError> {
        let failed = |why: String| MonitorError::Kubectl { why };
        let mut command = Command::new(&self.kubectl);
        command
            .args(["get", "pods", "--output=json", "--request-timeout=10s"])
            .arg(format!("--selector={}", self.labels));
        if let Some(namespace) = &self.namespace {
            command.arg(format!("--namespace={namespace}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| failed(format!("{} cannot be started: {error}", self.kubectl)))?;
        let read = |pipe: Option<Box<dyn Read + Send>>, limit: u64| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(pipe) = pipe {
                    let _ = pipe.take(limit).read_to_end(&mut bytes);
                }
                bytes
            })
        };
        let output = read(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), MAX_BYTES);
        let errors = read(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), 4 << 10);
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                outcome => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(match outcome {
                        Err(error) => error.to_string(),
                        Ok(_) => format!("no answer within {} s", PATIENCE.as_secs()),
                    }));
                }
            }
        };
        let errors = String::from_utf8_lossy(&errors.join().unwrap_or_default()).trim().to_string();
        if !status.success() {
            return Err(failed(if errors.is_empty() { status.to_string() } else { errors }));
        }
        let pods = pods(&output.join().unwrap_or_default()).map_err(failed)?;
        match pods.is_empty() {
            true => Err(failed(format!("no pod has the labels {}", self.labels))),
            false => Ok(pods),
        }
    }
}

/// Pods of a list as targets, by their names.
fn pods(json: &[u8]) -> Result<Vec<MonitorTarget>, String> {
    let list: Value = serde_json::from_slice(json).map_err(|error| format!("its answer is no JSON: {error}"))?;
    let items = list.get("items").and_then(Value::as_array).ok_or("its answer is no list of pods")?;
    let text = |pod: &Value, path: &str| pod.pointer(path).and_then(Value::as_str).map(ToString::to_string);
    let mut targets: Vec<MonitorTarget> = Vec::new();
    for pod in items {
        let Some(name) = text(pod, "/metadata/name") else { continue };
        let phase = text(pod, "/status/phase").unwrap_or_else(|| "Unknown".into());
        let address = text(pod, "/status/podIP").filter(|_| phase == "Running");
        // The address is not believed to be one.
        let address =
            address.and_then(|address| MonitorTarget::new(&format!("[{address}]:{DEFAULT_PORT}")).ok()?.address);
        let note = match &address {
            Some(_) => None,
            None => Some(format!("the pod has no address: its phase is {phase}")),
        };
        let shown = |text: &str| text.chars().filter(|c| !c.is_control()).take(253).collect();
        targets.push(MonitorTarget { name: shown(&name), address, note: note.as_deref().map(shown) });
    }
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_become_targets() {
        let json = br#"{"items": [
            {"metadata": {"name": "train-1"}, "status": {"phase": "Running", "podIP": "10.0.0.3"}},
            {"metadata": {"name": "train-0"}, "status": {"phase": "Running", "podIP": "fd00::3"}},
            {"metadata": {"name": "train-2"}, "status": {"phase": "Pending"}},
            {"metadata": {"name": "bad"}, "status": {"phase": "Running", "podIP": "$(reboot)"}},
            {"metadata": 7}]}"#;
        let targets = pods(json).unwrap();
        let shown: Vec<_> = targets.iter().map(|target| (target.name.as_str(), target.address.as_deref())).collect();
        let expected =
            [("bad", None), ("train-0", Some("[fd00::3]:8431")), ("train-1", Some("10.0.0.3:8431")), ("train-2", None)];
        assert_eq!(shown, expected);
        assert!(targets[3].note.as_deref().unwrap().contains("Pending"));
        assert!(pods(b"{}").unwrap_err().contains("no list"));
        assert!(pods(b"\xff").unwrap_err().contains("no JSON"));
    }

    #[test]
    fn a_kubectl_that_is_missing_or_fails_is_told() {
        let missing = Selector { kubectl: "/nowhere/kubectl".into(), ..Selector::new("a=b", None) };
        assert!(missing.targets().unwrap_err().to_string().contains("cannot be started"));
        let fails = Selector { kubectl: "false".into(), ..Selector::new("a=b", Some("n")) };
        assert!(fails.targets().unwrap_err().to_string().contains("exit status: 1"));
        let odd = Selector { kubectl: "echo".into(), ..Selector::new("a=b", Some("n")) };
        assert!(odd.targets().unwrap_err().to_string().contains("no JSON"));
    }
}
