//! `tpu down`: delete slices in any state, with their place in the queue, and see that they are gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cloud::{CloudTpu, LABEL_MADE_BY, MADE_BY, requests};
use fleet::provider::{Provider, ProviderError, SliceId, SliceState};
use serde_json::json;

use super::slices::{VERSION, account, look_for, pairs, show_requests};
use crate::args::DownArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::stop;

/// Deletions of large slices take minutes.
const LIMIT: Duration = Duration::from_secs(15 * 60);
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LONGEST_LOOK: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &DownArgs, output: &Output) -> Result<Answer, Failure> {
    let account = account(&args.slice.project)?;
    if args.dry_run {
        let mut shown = Vec::new();
        // Where it is not said, a list tells the zone and the names first.
        if args.slice.zone.is_none() || args.all {
            shown.extend(requests::to_list(&account, args.slice.zone.as_deref().unwrap_or("-")));
        }
        let zone = args.slice.zone.clone().unwrap_or_else(|| "ZONE".into());
        for name in &args.names {
            shown.extend(requests::to_delete(&account, &SliceId { zone: zone.clone(), name: name.clone() })?);
        }
        show_requests(&shown, output)?;
        return Ok(Answer::Yes);
    }
    let cloud = CloudTpu::new(account)?;
    let stop = stop::on_signal();
    let mut answer = Answer::Yes;
    let mut ids = Vec::new();
    if args.all {
        let mut labels = pairs("label", &args.labels)?;
        labels.insert(LABEL_MADE_BY.into(), MADE_BY.into());
        let listing = cloud.list_all(args.slice.zone.as_deref().unwrap_or("-"))?;
        for zone in &listing.unreachable {
            eprintln!("warning: {zone} could not be asked; what is there is not deleted");
            answer = Answer::No;
        }
        let slices = listing.slices.into_iter().map(|one| one.slice);
        ids.extend(slices.filter(|s| labels.iter().all(|(k, v)| s.labels.get(k) == Some(v))).map(|s| s.id));
    } else {
        for name in &args.names {
            match look_for(&cloud, name, &args.slice)? {
                Some(found) => ids.push(found.slice.id),
                None => eprintln!("{name} is not there"),
            }
        }
    }
    for id in &ids {
        cloud.delete(id)?;
    }
    let mut gone = Vec::new();
    for id in &ids {
        if !args.no_wait && !is_gone(&cloud, id, &stop)? {
            eprintln!("{id} is being deleted; the same command waits on");
            return Ok(Answer::Preempted);
        }
        gone.push(json!({"zone": id.zone, "name": id.name}));
    }
    let what = if args.no_wait { "is being deleted" } else { "is gone" };
    let record = json!({"version": VERSION, "waited": !args.no_wait, "deleted": gone});
    output.record(&record, || ids.iter().map(|id| format!("{id} {what}\n")).collect())?;
    Ok(answer)
}

/// Looks until it is gone, and deletes it again where the deletion failed; false where the command is to stop.
fn is_gone(cloud: &CloudTpu, id: &SliceId, stop: &AtomicBool) -> Result<bool, ProviderError> {
    let (started, mut wait) = (Instant::now(), FIRST_LOOK);
    while let Some(slice) = cloud.get(id)? {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if slice.state != SliceState::Deleting {
            cloud.delete(id)?;
        }
        if started.elapsed() > LIMIT {
            let what = format!("{id} is still there after {} minutes: {}", LIMIT.as_secs() / 60, slice.detail);
            return Err(ProviderError::Transient { what, retry_after: None });
        }
        std::thread::sleep(wait);
        wait = (wait * 3 / 2).min(LONGEST_LOOK);
    }
    Ok(true)
}
