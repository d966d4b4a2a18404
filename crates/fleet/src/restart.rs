//! Whether a run that ended is started again, after which pause, or given up: one rule for a process and for a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The pause before the first restart; it doubles with each run that brings nothing.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Runs in a row that may end without a newer checkpoint: what fails twice at the same place fails again.
const MAX_FRUITLESS: u32 = 2;

/// Restarts so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Restarts there may be.
    pub restarts: u32,
    /// Those that were used.
    pub used: u32,
    /// Runs in a row that brought no newer checkpoint.
    pub fruitless: u32,
}

/// Why a run ended, as far as it matters for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The program ended with an error of its own, which it told.
    Refused,
    /// The program crashed, hung or was stopped.
    Failed,
    /// A machine failed. It says nothing about the program, but counts as a restart.
    Machine,
    /// Capacity was taken or changed, or the supervisor was. It counts as nothing.
    Taken,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartVerdict {
    /// Another run, after a pause.
    Again {
        /// The pause.
        pause: Duration,
    },
    /// No other run.
    GiveUp {
        /// Why not.
        why: String,
    },
}

impl RestartPolicy {
    /// So many restarts, none of them used.
    pub fn new(restarts: u32) -> RestartPolicy {
        RestartPolicy { restarts, used: 0, fruitless: 0 }
    }

    /// A run ended, with or without a checkpoint that is newer than those before.
    pub fn ended(&mut self, end: RunEnd, has_progress: bool) -> RestartVerdict {
        let says_nothing = matches!(end, RunEnd::Machine | RunEnd::Taken);
        match (has_progress, says_nothing) {
            (true, _) => self.fruitless = 0,
            (false, true) => {}
            (false, false) => self.fruitless += 1,
        }
        // An error that is told and comes before any checkpoint is one of the settings: it would come again.
        let why = if end == RunEnd::Refused && !has_progress {
            "it made no progress before the error above".to_string()
        } else if self.fruitless >= MAX_FRUITLESS {
            format!("{} runs in a row ended without a newer checkpoint", self.fruitless)
        } else if end != RunEnd::Taken && self.used >= self.restarts {
            format!("all {} restarts are used", self.restarts)
        } else {
            if end != RunEnd::Taken {
                self.used += 1;
            }
            let pause = (FIRST_PAUSE * 2u32.saturating_pow(self.fruitless)).min(MAX_PAUSE);
            return RestartVerdict::Again { pause };
        };
        RestartVerdict::GiveUp { why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_repeated_until_they_bring_nothing() {
        let again = |seconds| RestartVerdict::Again { pause: Duration::from_secs(seconds) };
        let gives_up = |verdict, why: &str| match verdict {
            RestartVerdict::GiveUp { why: found } => assert!(found.contains(why), "{found}"),
            RestartVerdict::Again { .. } => panic!("not given up: {why}"),
        };
        let mut policy = RestartPolicy::new(3);
        assert_eq!(policy.ended(RunEnd::Failed, false), again(2));
        assert_eq!(policy.ended(RunEnd::Failed, true), again(1));
        assert_eq!(policy.ended(RunEnd::Refused, true), again(1));
        gives_up(policy.clone().ended(RunEnd::Failed, true), "all 3 restarts are used");
        // Preemptions are free, however many and however fruitless.
        for _ in 0..100 {
            assert_eq!(policy.ended(RunEnd::Taken, false), again(1));
        }
        assert_eq!(policy.used, 3);
        gives_up(policy.ended(RunEnd::Machine, true), "all 3 restarts are used");
        let mut policy = RestartPolicy::new(9);
        gives_up(policy.clone().ended(RunEnd::Refused, false), "no progress before the error");
        assert_eq!(policy.ended(RunEnd::Failed, false), again(2));
        assert_eq!(policy.ended(RunEnd::Machine, false), again(2));
        gives_up(policy.ended(RunEnd::Failed, false), "2 runs in a row");
    }
}
