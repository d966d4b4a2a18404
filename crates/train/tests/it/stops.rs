//! What a stop saves and says: never a state that was not looked at, however often saves failed before.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tensor::{DType, Literal, Spec};
use train::data::{DataError, Dataset};
use train::trainer::{Ended, StopTime, TrainEvent, TrainOptions, Trained, Trainer};

use crate::trainer::{Lines, Regression, State, backend, options};

/// Lines, one batch of which is NaN, and which ask for a stop when a batch is prepared.
struct Spoiled {
    lines: Lines,
    nan_at: u64,
    stop_at: u64,
    stop: Arc<AtomicBool>,
}

impl Dataset for Spoiled {
    fn specs(&self) -> Vec<Spec> {
        self.lines.specs()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        if step == self.stop_at {
            self.stop.store(true, Ordering::Relaxed);
        }
        let mut batch = self.lines.batch(step)?;
        if step == self.nan_at {
            let nan = [f32::NAN; 4].iter().flat_map(|value| value.to_le_bytes()).collect();
            batch[1] = Literal::new(DType::F32, [4], nan).unwrap();
        }
        Ok(batch)
    }

    fn describe(&self) -> String {
        "spoiled lines".into()
    }
}

fn manager(folder: &Path) -> weights::CheckpointManager {
    weights::CheckpointManager::open(&folder.join("checkpoints").display().to_string()).unwrap()
}

/// Trains with no record and no save before the end, but for those asked for.
fn train(folder: &Path, nan_at: u64, stop_at: u64) -> Trained<State> {
    let stop = Arc::new(AtomicBool::new(false));
    let data = Arc::new(Spoiled { lines: Lines { seed: 9, broken_at: None }, nan_at, stop_at, stop: stop.clone() });
    let options =
        TrainOptions { log_every: 100_000, save_every: Some(5), eval_every: None, ..options(Some(folder), 1_000_000) };
    Trainer::new(&backend(), Regression { rate: 0.05 }, options).train(data, None, &stop, &mut |_| {}).unwrap()
}

/// The last steps before a stop are looked at too, wherever in them the NaN is.
#[test]
fn a_stop_does_not_save_a_state_that_a_nan_has_spoiled() {
    let never = 1_000_000;
    for nan_at in 6..10 {
        let folder = tempfile::tempdir().unwrap();
        let ended = train(folder.path(), nan_at, 9);
        // Batches are prepared ahead: the stop may come before the step with the NaN is dispatched, and then nothing is wrong.
        match ended.ended {
            Ended::Diverged { step } => {
                assert_eq!(step, nan_at + 1);
                assert_eq!(manager(folder.path()).latest().unwrap(), Some(5));
            }
            Ended::Stopped => {
                assert!(ended.step <= nan_at, "{} steps, NaN at {nan_at}", ended.step);
                assert_eq!(manager(folder.path()).latest().unwrap(), Some(ended.step));
            }
            Ended::Finished => panic!("it ended at {}", ended.step),
        }
    }
    // The stop comes long after the NaN, before any record.
    let folder = tempfile::tempdir().unwrap();
    let ended = train(folder.path(), 1, 4);
    assert!(matches!(ended.ended, Ended::Diverged { step: 2 }) || ended.step <= 1, "{:?}", ended.ended);
    // And without a NaN the state of the last step is saved.
    let folder = tempfile::tempdir().unwrap();
    let ended = train(folder.path(), never, 17);
    assert_eq!(ended.ended, Ended::Stopped);
    assert_eq!(manager(folder.path()).latest().unwrap(), Some(ended.step));
}

#[test]
fn a_nan_is_found_although_no_record_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let ended = train(folder.path(), 12, 900_000);
    assert_eq!(ended.ended, Ended::Diverged { step: 13 });
    assert!(ended.last.unwrap().loss().unwrap().is_nan());
    assert_eq!(manager(folder.path()).steps().unwrap(), [5, 10]);
}

/// Trains on plain lines and gives what was said.
fn hear(options: TrainOptions) -> (Trained<State>, Vec<TrainEvent>) {
    let mut heard = Vec::new();
    let data = Arc::new(Lines { seed: 4, broken_at: None });
    let trainer = Trainer::new(&backend(), Regression { rate: 0.05 }, options);
    let never = AtomicBool::new(false);
    let trained = trainer.train(data, None, &never, &mut |event| heard.push(event.clone())).unwrap();
    (trained, heard)
}

#[test]
fn a_save_that_failed_cancels_neither_the_next_nor_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    std::fs::create_dir(&checkpoints).unwrap();
    // A file where the folder of a checkpoint goes.
    std::fs::write(checkpoints.join("step-00000010"), "in the way").unwrap();
    let (_, heard) = hear(TrainOptions { eval_every: None, ..options(Some(folder.path()), 25) });
    assert_eq!(manager(folder.path()).steps().unwrap(), [20, 25]);
    let failed: Vec<&String> = heard
        .iter()
        .filter_map(|event| if let TrainEvent::SaveFailed(message) = event { Some(message) } else { None })
        .collect();
    assert!(failed.len() == 1 && failed[0].contains("step-00000010"), "{failed:?}");
    let saved: Vec<u64> = heard
        .iter()
        .filter_map(|event| if let TrainEvent::Saved { step, .. } = event { Some(*step) } else { None })
        .collect();
    assert_eq!(saved, [20, 25]);
}

#[test]
fn a_last_save_that_fails_is_an_error_and_a_place_that_cannot_be_written_is_told_early() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    std::fs::create_dir_all(checkpoints.join(".probe/in the way")).unwrap();
    std::fs::write(checkpoints.join("step-00000025"), "in the way").unwrap();
    let mut heard = Vec::new();
    let data = Arc::new(Lines { seed: 4, broken_at: None });
    let options = TrainOptions { eval_every: None, ..options(Some(folder.path()), 25) };
    let trainer = Trainer::new(&backend(), Regression { rate: 0.05 }, options);
    let never = AtomicBool::new(false);
    let error = trainer.train(data, None, &never, &mut |event| heard.push(event.clone())).unwrap_err();
    assert!(compile::with_causes(&error).contains("step-00000025"), "{}", compile::with_causes(&error));
    assert_eq!(manager(folder.path()).latest().unwrap(), Some(20));
    let place = |found: fn(&TrainEvent) -> bool| heard.iter().position(found);
    let warned =
        place(|event| matches!(event, TrainEvent::SaveWarning(message) if message.contains("may not be written")));
    assert!(warned.is_some() && warned < place(|event| matches!(event, TrainEvent::Step(_))), "{heard:?}");
}

#[test]
fn what_cannot_be_deleted_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let keep = weights::Keep::newest(1);
    let options = TrainOptions { keep, eval_every: None, ..options(Some(folder.path()), 20) };
    let in_the_way = folder.path().join("checkpoints/step-00000010/in the way");
    let mut warnings = Vec::new();
    let data = Arc::new(Lines { seed: 4, broken_at: None });
    let trainer = Trainer::new(&backend(), Regression { rate: 0.05 }, options);
    trainer
        .train(data, None, &AtomicBool::new(false), &mut |event| match event {
            // A name that no checkpoint has is not deleted.
            TrainEvent::Saved { step: 10, .. } => std::fs::write(&in_the_way, "x").unwrap(),
            TrainEvent::SaveWarning(message) => warnings.push(message.clone()),
            _ => {}
        })
        .unwrap();
    assert_eq!(manager(folder.path()).latest().unwrap(), Some(20));
    assert!(warnings.len() == 1 && warnings[0].contains("step-00000010"), "{warnings:?}");
}

#[test]
fn how_long_a_stop_takes_is_told_once_and_only_where_something_is_saved() {
    let times = |heard: &[TrainEvent]| -> Vec<StopTime> {
        let time = |event: &TrainEvent| if let TrainEvent::StopTime(time) = event { Some(*time) } else { None };
        heard.iter().filter_map(time).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let (_, heard) = hear(TrainOptions { eval_every: None, ..options(Some(folder.path()), 12) });
    let [told] = times(&heard)[..] else { panic!("{heard:?}") };
    assert!(told.step_seconds > 0.0 && told.save_seconds > 0.0 && !told.is_measured, "{told:?}");
    assert_eq!(told.seconds(), told.steps as f64 * told.step_seconds + told.save_seconds);
    // Before the first record: two steps are enough.
    let place = |found: fn(&TrainEvent) -> bool| heard.iter().position(found).unwrap();
    assert!(place(|e| matches!(e, TrainEvent::StopTime(_))) < place(|e| matches!(e, TrainEvent::Step(_))));
    // What was written to estimate it is gone.
    let names: Vec<String> = std::fs::read_dir(folder.path().join("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("step-"))
        .collect();
    assert!(!names.iter().any(|name| name.contains("probe")), "{names:?}");
    let (_, heard) = hear(TrainOptions { eval_every: None, ..options(None, 12) });
    assert_eq!(times(&heard), []);
}
