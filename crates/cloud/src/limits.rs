//! How long is waited, and how often is asked again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// Time limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// For one answer.
    pub attempt: Duration,
    /// For all attempts at one request.
    pub request: Duration,
    /// For a long-running operation that was started.
    pub operation: Duration,
    /// Before the second attempt; twice as long before each further one.
    pub first_wait: Duration,
    /// The longest wait between attempts, unless the API asks for more.
    pub longest_wait: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(30),
            request: Duration::from_secs(90),
            operation: Duration::from_secs(20),
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(20),
        }
    }
}

/// The waits between the attempts at one request.
#[derive(Debug)]
pub(crate) struct Waits {
    limits: RetryLimits,
    ends: Instant,
    attempts: u32,
}

impl Waits {
    pub(crate) fn new(limits: RetryLimits) -> Self {
        Self { limits, ends: Instant::now() + limits.request, attempts: 0 }
    }

    /// The time to wait before the next attempt; none when there is no time for one. What the API asks for is the least.
    pub(crate) fn next(&mut self, retry_after: Option<u64>) -> Option<Duration> {
        let RetryLimits { first_wait, longest_wait, .. } = self.limits;
        let most = first_wait.saturating_mul(1 << self.attempts.min(16)).min(longest_wait);
        self.attempts += 1;
        // Everybody was refused at the same moment, and is not to come back at the same moment.
        let wait = most.mul_f64(0.5 + 0.5 * (random() >> 11) as f64 / (1u64 << 53) as f64);
        let wait = wait.max(Duration::from_secs(retry_after.unwrap_or(0)));
        (Instant::now() + wait < self.ends).then_some(wait)
    }
}

/// Not a secret, and never the same twice: the standard library's seed of a hash map.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A request's id, a random UUID.
pub(crate) fn request_id() -> String {
    let bits = (u128::from(random()) << 64) | u128::from(random());
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let text = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_end() {
        let (first_wait, longest_wait) = (Duration::from_secs(1), Duration::from_secs(8));
        let patience =
            RetryLimits { request: Duration::from_secs(1000), first_wait, longest_wait, ..RetryLimits::default() };
        let mut waits = Waits::new(patience);
        for most in [1, 2, 4, 8, 8, 8] {
            let wait = waits.next(None).unwrap();
            assert!(wait <= Duration::from_secs(most) && wait * 2 >= Duration::from_secs(most), "{wait:?}");
        }
        assert!(waits.next(Some(30)).unwrap() >= Duration::from_secs(30));
        assert_eq!(waits.next(Some(2000)), None);
    }

    #[test]
    fn request_ids_are_random_uuids() {
        let (a, b) = (request_id(), request_id());
        assert_ne!(a, b);
        for id in [a, b] {
            assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }
}
