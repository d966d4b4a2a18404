//! Several processes in one: each is a thread with a session of its own.

use std::net::TcpListener;
use std::time::Duration;

use runtime::distributed::{MultiHostConfig, Session};

/// What hangs longer is a failure; what works is much quicker.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

pub(crate) fn config(processes: usize, id: usize, coordinator: &str) -> MultiHostConfig {
    let config = MultiHostConfig::new(processes, id, coordinator).unwrap();
    MultiHostConfig { heartbeat_timeout: Duration::from_secs(5), join_timeout: PATIENCE, ..config }
}

/// Joins as all processes at once, each in a thread, and runs something in each.
pub(crate) fn together<T: Send>(
    processes: usize,
    coordinator: &str,
    run: impl Fn(usize, Session) -> T + Sync,
) -> Vec<T> {
    together_as(processes, |id| config(processes, id, coordinator), run)
}

/// As [`together`], with configurations of the caller's.
pub(crate) fn together_as<T: Send>(
    processes: usize,
    config: impl Fn(usize) -> MultiHostConfig + Sync,
    run: impl Fn(usize, Session) -> T + Sync,
) -> Vec<T> {
    // None runs, and perhaps goes, before all have joined.
    let joined = std::sync::Barrier::new(processes);
    std::thread::scope(|scope| {
        let (run, joined, config) = (&run, &joined, &config);
        let start = |id: usize| {
            scope.spawn(move || {
                let session = Session::join(&config(id));
                joined.wait();
                run(id, session.unwrap())
            })
        };
        let threads: Vec<_> = (0..processes).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
