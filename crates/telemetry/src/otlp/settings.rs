//! Where OpenTelemetry's data goes: an address, and the environment variables that its specification names.

use std::fmt;
use std::time::Duration;

use super::record::OtlpSignal;

/// What a service is called unless somebody names it.
const SERVICE: &str = "tpubridge";

/// Attributes and headers at most.
const MAX_PAIRS: usize = 64;

/// Where and how data is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpSettings {
    /// The address of each signal; one without is not sent.
    addresses: [Option<String>; OtlpSignal::ALL.len()],
    /// Headers of each request: names in lower case, and values, which may be secrets.
    pub(super) headers: Vec<(String, String)>,
    /// How long a collector may take for an answer.
    pub(super) timeout: Duration,
    /// How often metrics are sent.
    pub(super) metrics_every: Duration,
    /// What is said of the process with everything it sends.
    pub(super) resource: Vec<(String, String)>,
}

/// Why data cannot be sent as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpSettingsError {
    /// The option or variable.
    pub setting: String,
    /// What is wrong with it. It holds no value of a header.
    pub why: String,
}

impl fmt::Display for OtlpSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.why)
    }
}

impl std::error::Error for OtlpSettingsError {}

impl OtlpSettings {
    /// From an address that was given, as `http://localhost:4318`, else from variables; `None` where neither asks for it.
    pub fn read(
        address: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<OtlpSettings>, OtlpSettingsError> {
        let variable = |name: &str| variable(name).map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
        if address.is_none() && variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let mut addresses = [None, None, None];
        for (signal, to) in OtlpSignal::ALL.into_iter().zip(&mut addresses) {
            let name = signal.name().to_ascii_uppercase();
            let own = format!("OTEL_EXPORTER_OTLP_{name}_ENDPOINT");
            let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
            *to = match address {
                Some(address) => Some(below("--otlp", address, signal)?),
                None => match (variable(&own), variable(base)) {
                    _ if variable(&format!("OTEL_{name}_EXPORTER")).as_deref() == Some("none") => None,
                    (Some(address), _) => Some(checked(&own, &address)?),
                    (None, Some(address)) => Some(below(base, &address, signal)?),
                    (None, None) => None,
                },
            };
        }
        if addresses.iter().all(Option::is_none) {
            return Ok(None);
        }
        if let Some(protocol) = variable("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|text| text != "http/protobuf")
            && address.is_none()
        {
            let why = format!("is `{}`; this program speaks http/protobuf", shown(&protocol));
            return Err(OtlpSettingsError { setting: "OTEL_EXPORTER_OTLP_PROTOCOL".into(), why });
        }
        let mut resource = pairs("OTEL_RESOURCE_ATTRIBUTES", &variable)?;
        if let Some(service) = variable("OTEL_SERVICE_NAME") {
            resource.retain(|(name, _)| name != "service.name");
            resource.push(("service.name".into(), service));
        }
        let mut headers = pairs("OTEL_EXPORTER_OTLP_HEADERS", &variable)?;
        for (name, value) in &mut headers {
            name.make_ascii_lowercase();
            let is_sound =
                http::HeaderName::from_bytes(name.as_bytes()).is_ok() && http::HeaderValue::from_str(value).is_ok();
            if !is_sound {
                let why = format!("has a header `{}` that cannot be sent", shown(name));
                return Err(OtlpSettingsError { setting: "OTEL_EXPORTER_OTLP_HEADERS".into(), why });
            }
        }
        let mut settings = OtlpSettings {
            addresses,
            headers,
            timeout: milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000, &variable)?,
            metrics_every: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 10_000, &variable)?,
            resource,
        };
        settings.say("service.name", SERVICE);
        settings.say("service.version", env!("CARGO_PKG_VERSION"));
        settings.say("host.name", &crate::host_name());
        settings.say("process.pid", &std::process::id().to_string());
        settings.say("telemetry.sdk.name", SERVICE);
        settings.say("telemetry.sdk.language", "rust");
        settings.say("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        Ok(Some(settings))
    }

    /// Says something of the process, unless the environment says it.
    pub fn say(&mut self, name: &str, value: &str) {
        if !self.resource.iter().any(|(known, _)| known == name) {
            self.resource.push((name.to_string(), value.to_string()));
        }
    }

    /// The hosts that data goes to, for people: without user names, paths and what else may be secret.
    pub fn places(&self) -> String {
        let mut places: Vec<String> = Vec::new();
        for address in self.addresses.iter().flatten() {
            let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let place = format!("{scheme}://{}", authority.rsplit_once('@').map_or(authority, |(_, host)| host));
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.join(", ")
    }

    pub(super) fn address(&self, signal: OtlpSignal) -> Option<&str> {
        self.addresses.get(signal as usize).and_then(Option::as_deref)
    }
}

/// The address of a signal below one of all signals.
fn below(setting: &str, address: &str, signal: OtlpSignal) -> Result<String, OtlpSettingsError> {
    let address = checked(setting, address)?;
    Ok(format!("{}/v1/{}", address.trim_end_matches('/'), signal.name()))
}

fn checked(setting: &str, address: &str) -> Result<String, OtlpSettingsError> {
    let is_sound = address.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    match is_sound {
        true => Ok(address.to_string()),
        // The address may hold a password.
        false => Err(OtlpSettingsError {
            setting: setting.to_string(),
            why: "is no address of HTTP, as in http://localhost:4318".into(),
        }),
    }
}

/// `name=value,name=value`, with values in percent encoding.
fn pairs(
    setting: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, OtlpSettingsError> {
    let wrong = |why: &str| OtlpSettingsError { setting: setting.to_string(), why: why.to_string() };
    let text = variable(setting).unwrap_or_default();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong("is not written as name=value,name=value"))?;
        let name = name.trim().to_string();
        let value = decoded(value.trim()).ok_or_else(|| wrong("has a value that is no percent encoding of UTF-8"))?;
        if name.is_empty() {
            return Err(wrong("is not written as name=value,name=value"));
        }
        pairs.retain(|(known, _)| *known != name);
        pairs.push((name, value));
    }
    match pairs.len() <= MAX_PAIRS {
        true => Ok(pairs),
        false => Err(wrong("has too many values")),
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn milliseconds(
    setting: &str,
    usual: u64,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Duration, OtlpSettingsError> {
    let Some(text) = variable(setting) else { return Ok(Duration::from_millis(usual)) };
    let known = text.parse().ok().filter(|milliseconds| (10..=3_600_000).contains(milliseconds));
    let why = format!("is `{}`, and not a number of milliseconds from 10 to 3600000", shown(&text));
    known.map(Duration::from_millis).ok_or_else(|| OtlpSettingsError { setting: setting.to_string(), why })
}

/// The beginning of a text that somebody set.
fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, OtlpSettingsError> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string());
        OtlpSettings::read(address, find)
    }

    #[track_caller]
    fn check(address: Option<&str>, variables: &[(&str, &str)], expected: [Option<&str>; 3]) {
        let settings = read(address, variables).unwrap();
        let addresses = settings.map_or([None, None, None], |settings| settings.addresses);
        assert_eq!(addresses.each_ref().map(Option::as_deref), expected);
    }

    #[test]
    fn an_address_that_is_given_wins_over_the_environment() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/otlp/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4318/x");
        let off = ("OTEL_SDK_DISABLED", "true");
        check(None, &[], [None; 3]);
        check(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], [None; 3]);
        check(None, &[base, off], [None; 3]);
        let of = |base: &str| ["metrics", "traces", "logs"].map(|name| format!("{base}/v1/{name}"));
        let (given, standard) = (of("http://a:1"), of("https://c/otlp"));
        check(Some("http://a:1"), &[base, own, off], given.each_ref().map(|text| Some(text.as_str())));
        let [metrics, _, logs] = standard.each_ref().map(|text| Some(text.as_str()));
        check(None, &[base, own], [metrics, Some("http://t:4318/x"), logs]);
        check(None, &[base, own, ("OTEL_LOGS_EXPORTER", "none")], [metrics, Some("http://t:4318/x"), None]);
        check(None, &[own], [None, Some("http://t:4318/x"), None]);
    }

    #[test]
    fn what_cannot_be_is_refused_without_telling_secrets() {
        let on = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
        for (variables, setting) in [
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:secret")][..], "OTEL_EXPORTER_OTLP_ENDPOINT"),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://secret")], "OTEL_EXPORTER_OTLP_ENDPOINT"),
            (&[on, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "OTEL_EXPORTER_OTLP_PROTOCOL"),
            (&[on, ("OTEL_EXPORTER_OTLP_HEADERS", "key=secret%")], "OTEL_EXPORTER_OTLP_HEADERS"),
            (&[on, ("OTEL_EXPORTER_OTLP_HEADERS", "key=secret%0a")], "OTEL_EXPORTER_OTLP_HEADERS"),
            (&[on, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")], "OTEL_EXPORTER_OTLP_HEADERS"),
            (&[on, ("OTEL_RESOURCE_ATTRIBUTES", "=x")], "OTEL_RESOURCE_ATTRIBUTES"),
            (&[on, ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1")], "OTEL_EXPORTER_OTLP_TIMEOUT"),
            (&[on, ("OTEL_METRIC_EXPORT_INTERVAL", "soon")], "OTEL_METRIC_EXPORT_INTERVAL"),
        ] {
            let error = read(None, variables).unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert_eq!(read(Some("nowhere"), &[]).unwrap_err().setting, "--otlp");
    }

    #[test]
    fn the_environment_names_the_service() {
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=x%2Cy, host.name=h");
        let resource = |variables: &[(&str, &str)], name: &str| {
            let settings = read(Some("http://c"), variables).unwrap().unwrap();
            settings.resource.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        assert_eq!(resource(&[], "service.name").as_deref(), Some("tpubridge"));
        assert_eq!(resource(&[attributes], "service.name").as_deref(), Some("a"));
        assert_eq!(resource(&[attributes, ("OTEL_SERVICE_NAME", "b")], "service.name").as_deref(), Some("b"));
        assert_eq!(resource(&[attributes], "team").as_deref(), Some("x,y"));
        assert_eq!(resource(&[attributes], "host.name").as_deref(), Some("h"));
    }

    #[test]
    fn places_tell_no_secrets() {
        let places = |address: &str| read(Some(address), &[]).unwrap().unwrap().places();
        assert_eq!(places("http://localhost:4318"), "http://localhost:4318");
        assert_eq!(places("https://me:secret@c.example:1/secret"), "https://c.example:1");
    }
}
