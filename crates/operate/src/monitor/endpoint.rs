//! The metrics endpoint of a training: where it is, and single values of what it tells.

use std::fmt;
use std::time::Duration;

use telemetry::{MetricFamily, Sample, SampleValue};

use crate::ask::{self, AskError};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    authority: String,
    path: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

impl Endpoint {
    /// By its address, `http://HOST:PORT` with a path or without.
    pub(super) fn new(text: &str) -> Result<Endpoint, String> {
        let rest = text.strip_prefix("http://").ok_or("an endpoint begins with http://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
        if !authority.contains(':') || !is_plain(authority) || !is_plain(path) {
            return Err("give it as http://HOST:PORT".into());
        }
        let path = if path.is_empty() { "metrics" } else { path };
        Ok(Endpoint { authority: authority.to_string(), path: format!("/{path}") })
    }

    /// Its metrics now.
    pub(super) fn read(&self) -> Result<Vec<MetricFamily>, AskError> {
        ask::get(&self.authority, &self.path, PATIENCE).map(|text| telemetry::from_text(&text))
    }
}

/// The value of a metric; of several series the sum. Of a histogram the mean.
pub(super) fn value(families: &[MetricFamily], name: &str) -> Option<f64> {
    let family = families.iter().find(|family| family.name == name)?;
    let of_sample = |sample: &Sample| match &sample.value {
        SampleValue::Number(value) => Some(*value),
        SampleValue::Buckets(buckets) => (buckets.count() > 0).then(|| buckets.sum / buckets.count() as f64),
    };
    family.samples.iter().filter_map(of_sample).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Endpoint::new("http://h:1").unwrap().to_string(), "http://h:1/metrics");
        assert_eq!(Endpoint::new("http://h:1/").unwrap().to_string(), "http://h:1/metrics");
        assert_eq!(Endpoint::new("http://h:1/x").unwrap().to_string(), "http://h:1/x");
        for wrong in ["https://h:1", "http://h", "http://h:1/a b", "http://h:1/\r\nX: y"] {
            assert!(Endpoint::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_read_and_what_is_none_is_told() {
        let server = telemetry::HttpServer::start("127.0.0.1:0", |request| match request.path.as_str() {
            "/metrics" => telemetry::HttpAnswer::new("text/plain", "tpubridge_training_mfu 0.5\n"),
            _ => telemetry::HttpAnswer::not_found(),
        })
        .unwrap();
        let at = |path: &str| Endpoint::new(&format!("http://{}{path}", server.address())).unwrap();
        assert_eq!(value(&at("").read().unwrap(), "tpubridge_training_mfu"), Some(0.5));
        assert!(at("/x").read().unwrap_err().to_string().contains("404"));
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(Endpoint::new(&format!("http://{nobody}")).unwrap().read().is_err());
    }
}
