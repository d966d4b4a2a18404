//! Preemption notices: Google's metadata server is asked to say when it takes the machine back.

mod http;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::http::{Response, get};
use crate::System;

/// Where the metadata server is, unless a variable says otherwise.
const DEFAULT_HOST: &str = "metadata.google.internal";
/// The variable that Google's own tools read.
const HOST_VARIABLE: &str = "GCE_METADATA_HOST";
/// What the machine's firmware says of itself.
const PRODUCT: &str = "/sys/class/dmi/id/product_name";
/// Seconds the server may wait for a change before it answers with what there is.
const WAIT_S: u64 = 60;
/// How much longer its answer may take.
const GRACE: Duration = Duration::from_secs(15);
/// Pauses after failures double between these.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Why a machine goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is preempted, within about half a minute.
    Preempted,
    /// Its host is maintained and it is ended for that.
    Maintenance,
}

impl Notice {
    const ALL: [Notice; 2] = [Notice::Preempted, Notice::Maintenance];

    fn path(self) -> &'static str {
        match self {
            Notice::Preempted => "/computeMetadata/v1/instance/preempted",
            Notice::Maintenance => "/computeMetadata/v1/instance/maintenance-event",
        }
    }

    /// Whether the answer says that the machine goes. A machine that moves to another host does not.
    fn is_given(self, body: &str) -> bool {
        match self {
            Notice::Preempted => body.eq_ignore_ascii_case("TRUE"),
            Notice::Maintenance => body == "TERMINATE_ON_HOST_MAINTENANCE",
        }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Notice::Preempted => "Google preempts this machine",
            Notice::Maintenance => "Google ends this machine for the maintenance of its host",
        })
    }
}

/// Whether a metadata server can be expected: on a machine of Google's, or where a variable names one.
pub fn is_expected(system: &System) -> bool {
    let is_google = system.read_text(PRODUCT).is_ok_and(|product| product.contains("Google"));
    is_google || system.var(HOST_VARIABLE).is_some()
}

/// The metadata server's host, with its port if it is not the usual one.
pub fn host(system: &System) -> String {
    system.text_var(HOST_VARIABLE).unwrap_or_else(|| DEFAULT_HOST.to_string())
}

/// Threads that wait for a notice. Dropped, they tell nothing more and end when their request does.
#[derive(Debug)]
pub struct Watch {
    is_over: Arc<AtomicBool>,
}

impl Watch {
    /// Asks a metadata server from threads of its own, and tells once for each kind of notice. A server that does not
    /// answer is asked again after growing pauses; a server that knows no such notice is not asked again.
    pub fn start(host: &str, told: impl Fn(Notice) + Send + Sync + 'static) -> std::io::Result<Watch> {
        let (is_over, told) = (Arc::new(AtomicBool::new(false)), Arc::new(told));
        for notice in Notice::ALL {
            let (is_over, told, host) = (is_over.clone(), told.clone(), host.to_string());
            let wait = move || watch(&host, notice, &is_over, &*told);
            std::thread::Builder::new().name("tpubridge-notice".into()).spawn(wait)?;
        }
        Ok(Watch { is_over })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn watch(host: &str, notice: Notice, is_over: &AtomicBool, told: &(dyn Fn(Notice) + Sync)) {
    let mut etag: Option<String> = None;
    let mut pause = PAUSES[0];
    while !is_over.load(Ordering::Relaxed) {
        // The first question is what is so now: a notice given before must not be waited for.
        let path = match &etag {
            None => notice.path().to_string(),
            Some(etag) => {
                format!("{}?wait_for_change=true&timeout_sec={WAIT_S}&last_etag={etag}", notice.path())
            }
        };
        match get(host, &path, Duration::from_secs(WAIT_S) + GRACE) {
            Ok(Response { status: 200, etag: new, body }) => {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                if notice.is_given(&body) {
                    return told(notice);
                }
                let is_new = new.is_some() && new != etag;
                // `0` is no tag of a value, so that a server without tags waits for any change.
                etag = Some(new.filter(|tag| !tag.is_empty()).unwrap_or_else(|| "0".into()));
                // An answer that came at once and says nothing new would be a busy loop.
                if !is_new {
                    std::thread::sleep(PAUSES[0]);
                }
                pause = PAUSES[0];
            }
            Ok(Response { status: 404, .. }) => return,
            Ok(_) | Err(_) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES[1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_server() {
        assert!(Notice::Preempted.is_given("TRUE") && !Notice::Preempted.is_given("FALSE"));
        assert!(!Notice::Maintenance.is_given("NONE") && !Notice::Maintenance.is_given("MIGRATE_ON_HOST_MAINTENANCE"));
        assert!(Notice::Maintenance.is_given("TERMINATE_ON_HOST_MAINTENANCE"));
    }
}
