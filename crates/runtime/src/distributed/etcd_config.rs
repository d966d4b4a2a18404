//! Where etcd is, and how it knows us: `etcd://` or `etcds://` with hosts and a job, certificates and a password.

use std::fmt;
use std::io::Read;

use crate::error::Error;

const CA_FILE: &str = "TPUBRIDGE_ETCD_CA_FILE";
const CERTIFICATE_FILE: &str = "TPUBRIDGE_ETCD_CERT_FILE";
const KEY_FILE: &str = "TPUBRIDGE_ETCD_KEY_FILE";
const USER: &str = "TPUBRIDGE_ETCD_USER";
const PASSWORD: &str = "TPUBRIDGE_ETCD_PASSWORD";
const PASSWORD_FILE: &str = "TPUBRIDGE_ETCD_PASSWORD_FILE";
/// Bytes of a certificate's file or a password's at most.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// An etcd server or cluster, and a job in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `HOST:PORT` of each member that may be asked.
    pub endpoints: Vec<String>,
    /// What tells this program's keys from those of others.
    pub job: String,
    /// Whether and how connections are encrypted.
    pub encryption: Encryption,
    /// Name and password, where etcd asks for them.
    pub credentials: Option<Credentials>,
}

/// Whether and how connections to etcd are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all: for a server of the same machine.
    None,
    /// TLS.
    Tls {
        /// The authority that signed the server's certificate (PEM); `None` for those the machine trusts.
        authority: Option<Vec<u8>>,
        /// Our certificate and its key (PEM), where the server asks for one.
        identity: Option<Identity>,
    },
}

/// A certificate and its key, PEM. Not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(pub(super) Vec<u8>);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// Name and password of a user of etcd. The password is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) name: String,
    pub(super) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EtcdConfig {
    /// Reads what follows `etcd://` or `etcds://`; `None` where it is no list of hosts and a job. Files and the password
    /// come from the environment.
    pub(super) fn read(
        scheme: &str,
        rest: &str,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Result<Option<EtcdConfig>, Error> {
        let (hosts, job) = rest.split_once('/').unwrap_or((rest, ""));
        let job = if job.is_empty() { "default" } else { job.trim_end_matches('/') };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_host = |c: char| is_plain(c) || ":[]".contains(c);
        let endpoints: Vec<String> = hosts.split(',').map(|host| host.trim().to_string()).collect();
        let is_endpoint = |host: &String| host.contains(':') && host.chars().all(is_host);
        if !endpoints.iter().all(is_endpoint) || !job.chars().all(is_plain) {
            return Ok(None);
        }
        let file = |variable: &str| -> Result<Option<Vec<u8>>, Error> {
            let Some(path) = environment(variable) else { return Ok(None) };
            read_file(&path).map(Some).map_err(|why| Error::Distributed(format!("{variable} is `{path}`: {why}")))
        };
        let encryption = match scheme {
            "etcds" => {
                let identity = match (file(CERTIFICATE_FILE)?, file(KEY_FILE)?) {
                    (Some(certificate), Some(key)) => Some(Identity([certificate, b"\n".to_vec(), key].concat())),
                    (None, None) => None,
                    _ => {
                        let message = format!("of {CERTIFICATE_FILE} and {KEY_FILE} only one is set: set both");
                        return Err(Error::Distributed(message));
                    }
                };
                Encryption::Tls { authority: file(CA_FILE)?, identity }
            }
            _ => match [CA_FILE, CERTIFICATE_FILE, KEY_FILE].iter().find(|name| environment(name).is_some()) {
                // Who names certificates does not want to go without them.
                Some(name) => {
                    let message = format!("{name} is set, but the coordinator is etcd://: say etcds://");
                    return Err(Error::Distributed(message));
                }
                None => Encryption::None,
            },
        };
        let password = match (environment(PASSWORD), file(PASSWORD_FILE)?) {
            (Some(_), Some(_)) => {
                return Err(Error::Distributed(format!("{PASSWORD} and {PASSWORD_FILE} are both set: set one")));
            }
            (text, bytes) => text.or_else(|| Some(String::from_utf8_lossy(&bytes?).trim_end().to_string())),
        };
        let credentials = match (environment(USER), password) {
            (Some(name), Some(password)) => Some(Credentials { name, password }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(Error::Distributed(format!("{USER} is set without {PASSWORD_FILE} or {PASSWORD}")));
            }
            (None, Some(_)) => return Err(Error::Distributed(format!("a password for etcd is set without {USER}"))),
        };
        Ok(Some(EtcdConfig { endpoints, job: job.into(), encryption, credentials }))
    }
}

fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(format!("it has more than {MAX_FILE_BYTES} bytes")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(scheme: &str, rest: &str, environment: &[(&str, &str)]) -> Result<Option<EtcdConfig>, String> {
        let look = |wanted: &str| environment.iter().find(|(name, _)| *name == wanted).map(|(_, v)| v.to_string());
        EtcdConfig::read(scheme, rest, &look).map_err(|error| error.to_string())
    }

    #[test]
    fn places_and_jobs_are_read() {
        let config = read("etcds", "a:1, [::1]:2,c:3/job-7/", &[]).unwrap().unwrap();
        assert_eq!((config.endpoints, &*config.job), (vec!["a:1".into(), "[::1]:2".into(), "c:3".into()], "job-7"));
        assert_eq!(config.encryption, Encryption::Tls { authority: None, identity: None });
        assert_eq!(read("etcd", "a:1", &[]).unwrap().unwrap().job, "default");
        for wrong in ["", "a", "a:1,,b:2", "a:1/j b", "user@a:1", "a:1?x"] {
            assert_eq!(read("etcd", wrong, &[]), Ok(None), "{wrong}");
        }
    }

    #[test]
    fn passwords_and_certificates_come_in_pairs_and_are_not_shown() {
        let config = read("etcd", "a:1", &[(USER, "u"), (PASSWORD, "hidden")]).unwrap().unwrap();
        assert_eq!(config.credentials.as_ref().unwrap().password, "hidden");
        assert!(!format!("{config:?}").contains("hidden"));
        for (scheme, environment, part) in [
            ("etcd", &[(USER, "u")][..], PASSWORD_FILE),
            ("etcd", &[(PASSWORD, "p")], USER),
            ("etcd", &[(USER, "u"), (PASSWORD, "p"), (PASSWORD_FILE, "/dev/null")], "set one"),
            ("etcd", &[(CA_FILE, "/dev/null")], "say etcds://"),
            ("etcds", &[(CERTIFICATE_FILE, "/dev/null")], "set both"),
            ("etcds", &[(CA_FILE, "/nowhere")], "/nowhere"),
            ("etcds", &[(CA_FILE, "/dev/zero")], "more than"),
        ] {
            let message = read(scheme, "a:1", environment).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
