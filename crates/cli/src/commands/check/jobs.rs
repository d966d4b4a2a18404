//! Work in threads of its own: bounded in number and time, and no panic ends more than its own job.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that run jobs are called this; the panic hook knows them by it.
const THREAD_NAME: &str = "check-job";
/// Regions and calls of a program nest on the stack. Only what is touched takes memory.
const STACK_BYTES: usize = 256 << 20;
/// How long a job that was told to stop may take to notice, before its thread is left behind.
const GRACE: Duration = Duration::from_secs(2);

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<T> {
    Done(T),
    Panicked(String),
    TimedOut,
}

/// Jobs in flight.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    limit: Duration,
    in_flight: Vec<InFlight>,
    sender: Sender<(u64, Ended<T>)>,
    receiver: Receiver<(u64, Ended<T>)>,
    started: u64,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    stop: Arc<AtomicBool>,
    deadline: Instant,
}

impl InFlight {
    fn was_told_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl<T: Send + 'static> Jobs<T> {
    /// No jobs yet; each may take this long.
    pub(crate) fn new(limit: Duration) -> Self {
        record_panics_of_jobs();
        let (sender, receiver) = mpsc::channel();
        Jobs { limit, in_flight: Vec::new(), sender, receiver, started: 0 }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Starts a job, which should end soon after its flag is set. Gives its id.
    pub(crate) fn start(&mut self, work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static) -> std::io::Result<u64> {
        let id = self.started;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, flag) = (self.sender.clone(), Arc::clone(&stop));
        thread::Builder::new().name(THREAD_NAME.into()).stack_size(STACK_BYTES).spawn(move || {
            let ended = match panic::catch_unwind(AssertUnwindSafe(|| work(flag))) {
                Ok(result) => Ended::Done(result),
                Err(payload) => Ended::Panicked(last_panic(&*payload)),
            };
            // Nobody listens any more once the command ends early.
            let _ = sender.send((id, ended));
        })?;
        self.started += 1;
        // A limit beyond what the clock can tell is none.
        let far = Duration::from_secs(u64::from(u32::MAX));
        let deadline = Instant::now() + self.limit.min(far);
        self.in_flight.push(InFlight { id, stop, deadline });
        Ok(id)
    }

    /// Waits until a job ends or patience does.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<(u64, Ended<T>)> {
        let until = Instant::now() + patience;
        loop {
            let now = Instant::now();
            for job in self.in_flight.iter_mut().filter(|job| job.deadline <= now && !job.was_told_to_stop()) {
                job.stop.store(true, Ordering::Relaxed);
                job.deadline = now + GRACE;
            }
            if let Some(left) = self.in_flight.iter().position(|job| job.deadline <= now) {
                return Some((self.in_flight.swap_remove(left).id, Ended::TimedOut));
            }
            let next = self.in_flight.iter().map(|job| job.deadline).min().map_or(until, |d| d.min(until));
            match self.receiver.recv_timeout(next.saturating_duration_since(now)) {
                Ok((id, ended)) => {
                    // A job that is no longer here was left behind and has been answered for.
                    let Some(at) = self.in_flight.iter().position(|job| job.id == id) else { continue };
                    let job = self.in_flight.swap_remove(at);
                    return Some((id, if job.was_told_to_stop() { Ended::TimedOut } else { ended }));
                }
                Err(_) if Instant::now() >= until => return None,
                Err(_) => {}
            }
        }
    }
}

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic in a job becomes its result instead of text on standard error.
fn record_panics_of_jobs() {
    let otherwise = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some(THREAD_NAME) {
            LAST_PANIC.set(Some(info.to_string()));
        } else {
            otherwise(info);
        }
    }));
}

fn last_panic(payload: &(dyn Any + Send)) -> String {
    let said = || payload.downcast_ref::<&str>().map(ToString::to_string).or_else(|| payload.downcast_ref().cloned());
    LAST_PANIC.take().or_else(said).unwrap_or_else(|| "panicked without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(600);

    #[test]
    fn a_panic_is_the_result_of_its_job_only() {
        let mut jobs = Jobs::new(PATIENCE);
        let panics = jobs.start(|_| panic!("out of {}", "range")).unwrap();
        let (id, ended) = jobs.wait(PATIENCE).unwrap();
        assert_eq!(id, panics);
        assert!(
            matches!(&ended, Ended::Panicked(why) if why.contains("out of range") && why.contains("jobs.rs")),
            "{ended:?}"
        );
        let works = jobs.start(|_| 7).unwrap();
        assert_eq!(jobs.wait(PATIENCE), Some((works, Ended::Done(7))));
        assert_eq!(jobs.in_flight(), 0);
    }

    #[test]
    fn a_job_past_its_limit_is_told_to_stop() {
        let mut jobs = Jobs::new(Duration::ZERO);
        let endless = jobs
            .start(|stop| {
                while !stop.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            })
            .unwrap();
        assert_eq!(jobs.wait(PATIENCE), Some((endless, Ended::TimedOut)));
    }

    #[test]
    fn a_job_that_does_not_stop_is_left_behind() {
        let mut jobs = Jobs::new(Duration::ZERO);
        let (release, held) = mpsc::channel::<()>();
        let deaf = jobs.start(move |_| held.recv().is_ok()).unwrap();
        assert_eq!(jobs.wait(PATIENCE), Some((deaf, Ended::TimedOut)));
        drop(release);
    }
}
