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
    // None runs, and perhaps goes, before all have joined.
    let joined = std::sync::Barrier::new(processes);
    std::thread::scope(|scope| {
        let (run, joined) = (&run, &joined);
        let start = |id: usize| {
            scope.spawn(move || {
                let session = Session::join(&config(processes, id, coordinator));
                joined.wait();
                run(id, session.unwrap())
            })
        };
        let threads: Vec<_> = (0..processes).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
