//! Whose TPUs: the project, the zone and the addresses of the APIs, from flags or from where `gcloud` keeps them.

use std::path::PathBuf;

use fleet::System;

use crate::Error;

/// Google's address of the Cloud TPU API.
const TPU: &str = "https://tpu.googleapis.com";
/// Google's address of the Cloud Quotas API.
const QUOTAS: &str = "https://cloudquotas.googleapis.com";
/// A configuration file of `gcloud` is a few lines.
const LIMIT_BYTES: u64 = 1 << 20;

/// A project and how its APIs are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The project's id.
    pub project: String,
    /// The zone that is meant where none is named.
    pub zone: Option<String>,
    /// The address of the Cloud TPU API.
    pub endpoint: String,
    /// The address of the Cloud Quotas API.
    pub quota_endpoint: String,
    /// No credentials are sent: for a stand-in.
    pub anonymous: bool,
}

impl Account {
    /// A project at Google, with the credentials that Google's libraries find.
    pub fn new(project: impl Into<String>) -> Self {
        let (endpoint, quota_endpoint) = (TPU.into(), QUOTAS.into());
        Self { project: project.into(), zone: None, endpoint, quota_endpoint, anonymous: false }
    }

    /// A project on a stand-in, without credentials.
    pub fn at(project: impl Into<String>, endpoint: impl Into<String>) -> Self {
        let endpoint = endpoint.into();
        Self { endpoint: endpoint.clone(), quota_endpoint: endpoint, anonymous: true, ..Self::new(project) }
    }

    /// What a person means: a flag, else the environment (`GOOGLE_CLOUD_PROJECT`, and `gcloud`'s `CLOUDSDK_*`), else the
    /// active configuration of `gcloud`.
    pub fn of(system: &System, project: Option<&str>) -> Result<Self, Error> {
        let gcloud = Gcloud::of(system);
        let var = |name: &str| system.text_var(name).filter(|text| !text.is_empty());
        let project = project
            .map(str::to_owned)
            .or_else(|| var("GOOGLE_CLOUD_PROJECT"))
            .or_else(|| var("CLOUDSDK_CORE_PROJECT"))
            .or_else(|| gcloud.get("core", "project"))
            .ok_or(Error::NoProject)?;
        let zone = var("CLOUDSDK_COMPUTE_ZONE").or_else(|| gcloud.get("compute", "zone"));
        let address = |name: &str| {
            let key = format!("CLOUDSDK_API_ENDPOINT_OVERRIDES_{}", name.to_uppercase());
            let text = var(&key).or_else(|| gcloud.get("api_endpoint_overrides", name))?;
            Some(text.trim_end_matches('/').to_owned())
        };
        let endpoint = address("tpu");
        let quota_endpoint = address("cloudquotas").or_else(|| endpoint.clone()).unwrap_or_else(|| QUOTAS.into());
        let anonymous = var("CLOUDSDK_AUTH_DISABLE_CREDENTIALS").or_else(|| gcloud.get("auth", "disable_credentials"));
        let anonymous =
            anonymous.is_some_and(|text| ["1", "true", "yes", "on"].contains(&text.to_lowercase().as_str()));
        let account =
            Self { project, zone, endpoint: endpoint.unwrap_or_else(|| TPU.into()), quota_endpoint, anonymous };
        account.check()?;
        Ok(account)
    }

    /// Credentials are not sent in the clear.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for endpoint in [&self.endpoint, &self.quota_endpoint] {
            if !self.anonymous && !endpoint.starts_with("https://") {
                return Err(Error::InsecureEndpoint { endpoint: endpoint.clone() });
            }
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-:.".contains(c);
        if self.project.is_empty() || !self.project.chars().all(is_plain) {
            return Err(Error::BadProject { project: self.project.clone() });
        }
        Ok(())
    }

    /// The zones' parent.
    pub(crate) fn area(&self, zone: &str) -> String {
        format!("projects/{}/locations/{zone}", self.project)
    }
}

/// The active configuration of `gcloud`: sections of `key = value`.
struct Gcloud(Vec<(String, String, String)>);

impl Gcloud {
    fn of(system: &System) -> Self {
        let folder = match system.var("CLOUDSDK_CONFIG") {
            Some(folder) => PathBuf::from(folder),
            None => system.var("HOME").map(|home| PathBuf::from(home).join(".config/gcloud")).unwrap_or_default(),
        };
        let read = |path: PathBuf| {
            use std::io::Read;
            let mut text = String::new();
            let file = std::fs::File::open(system.path(path)).ok()?;
            file.take(LIMIT_BYTES).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let active = system.text_var("CLOUDSDK_ACTIVE_CONFIG_NAME").or_else(|| read(folder.join("active_config")));
        let active = active.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let name = active.unwrap_or_else(|| "default".into());
        let text = read(folder.join("configurations").join(format!("config_{name}"))).unwrap_or_default();
        let (mut section, mut found) = (String::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = title.trim().to_owned();
            } else if let Some((key, value)) = line.split_once('=') {
                found.push((section.clone(), key.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Self(found)
    }

    fn get(&self, section: &str, key: &str) -> Option<String> {
        let found = self.0.iter().find(|(s, k, v)| s == section && k == key && !v.is_empty());
        found.map(|(_, _, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_found_where_gcloud_keeps_it() {
        let home = std::env::temp_dir().join(format!("tpubridge-gcloud-{}", std::process::id()));
        let folder = home.join("root/.config/gcloud");
        std::fs::create_dir_all(folder.join("configurations")).unwrap();
        std::fs::write(folder.join("active_config"), "work\n").unwrap();
        let text = "[core]\nproject = from-file\n\n[compute]\nzone = us-west4-a\n";
        std::fs::write(folder.join("configurations/config_work"), text).unwrap();
        let system = System::new(&home, []).with_var("HOME", "/root");
        let account = Account::of(&system, None).unwrap();
        assert_eq!((account.project.as_str(), account.zone.as_deref()), ("from-file", Some("us-west4-a")));
        assert_eq!(account.endpoint, TPU);
        let system =
            system.with_var("GOOGLE_CLOUD_PROJECT", "from-env").with_var("CLOUDSDK_COMPUTE_ZONE", "us-east5-b");
        let account = Account::of(&system, None).unwrap();
        assert_eq!((account.project.as_str(), account.zone.as_deref()), ("from-env", Some("us-east5-b")));
        assert_eq!(Account::of(&system, Some("flag")).unwrap().project, "flag");
        std::fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn credentials_are_not_sent_in_the_clear() {
        let system = System::new("/nowhere", [])
            .with_var("GOOGLE_CLOUD_PROJECT", "test")
            .with_var("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", "http://127.0.0.1:1/");
        assert!(matches!(Account::of(&system, None), Err(Error::InsecureEndpoint { .. })));
        let account = Account::of(&system.with_var("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "True"), None).unwrap();
        assert_eq!(account, Account::at("test", "http://127.0.0.1:1"));
        assert!(matches!(Account::of(&System::new("/nowhere", []), None), Err(Error::NoProject)));
        assert!(matches!(Account::of(&System::new("/nowhere", []), Some("a/b")), Err(Error::BadProject { .. })));
    }
}
