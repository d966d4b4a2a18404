//! `tpu ls`: slices of a project in any state, and what could be asked for.

use std::time::SystemTime;

use cloud::{CloudTpu, LABEL_MADE_BY, Listed, Listing, MADE_BY, requests};
use fleet::provider::SliceState;
use serde_json::json;

use super::slices::{SliceRecord, VERSION, account, capacity_word, pairs, show_requests, state_word};
use crate::args::{LsArgs, LsWhat};
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::{Align, Output, Table};

pub(crate) fn run(args: &LsArgs, output: &Output) -> Result<Answer, Failure> {
    let account = account(&args.project)?;
    let zone = args.zone.clone();
    let here = || {
        let found = zone.clone().or_else(|| account.zone.clone());
        found.ok_or_else(|| Failure::new("no zone is given").hint("give --zone; `tpu ls zones` lists them"))
    };
    if args.dry_run {
        let shown = match args.what {
            LsWhat::Slices => requests::to_list(&account, zone.as_deref().unwrap_or("-")),
            LsWhat::Types => requests::to_check(&account, &here()?)[..1].to_vec(),
            LsWhat::Versions => requests::to_check(&account, &here()?)[1..].to_vec(),
            LsWhat::Zones | LsWhat::Quotas => {
                return Err(Failure::new("--dry-run is for slices, types and versions"));
            }
        };
        show_requests(&shown, output)?;
        return Ok(Answer::Yes);
    }
    let cloud = CloudTpu::new(account.clone())?;
    match args.what {
        LsWhat::Slices => return slices(&cloud, args, output),
        LsWhat::Zones => names(output, "zones", &cloud.zones()?)?,
        LsWhat::Types => names(output, "types", &cloud.offers(&here()?)?.accelerator_types)?,
        LsWhat::Versions => names(output, "versions", &cloud.offers(&here()?)?.runtime_versions)?,
        LsWhat::Quotas => quotas(&cloud, zone.as_deref(), output)?,
    }
    Ok(Answer::Yes)
}

fn names(output: &Output, what: &str, names: &[String]) -> Result<(), Failure> {
    output.record(&json!({"version": VERSION, what: names}), || names.iter().map(|one| format!("{one}\n")).collect())
}

fn quotas(cloud: &CloudTpu, zone: Option<&str>, output: &Output) -> Result<(), Failure> {
    let found: Vec<_> =
        cloud.quotas()?.into_iter().filter(|q| zone.is_none() || q.location.as_deref() == zone).collect();
    let record = |q: &cloud::Quota| json!({"id": q.id, "metric": q.metric, "location": q.location, "limit": q.limit});
    let record = json!({"version": VERSION, "quotas": found.iter().map(record).collect::<Vec<_>>()});
    output.record(&record, || {
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Right]);
        table.row(["where", "what", "limit"]);
        for quota in &found {
            let limit = if quota.limit < 0 { "none".into() } else { quota.limit.to_string() };
            table.row([quota.location.clone().unwrap_or_else(|| "everywhere".into()), quota.metric.clone(), limit]);
        }
        table.render()
    })
}

fn slices(cloud: &CloudTpu, args: &LsArgs, output: &Output) -> Result<Answer, Failure> {
    let mut labels = pairs("label", &args.labels)?;
    if !args.all {
        labels.insert(LABEL_MADE_BY.into(), MADE_BY.into());
    }
    let Listing { mut slices, unreachable } = cloud.list_all(args.zone.as_deref().unwrap_or("-"))?;
    slices.retain(|one| labels.iter().all(|(key, value)| one.slice.labels.get(key) == Some(value)));
    let records: Vec<SliceRecord> = slices.iter().map(SliceRecord::new).collect();
    output.record(&json!({"version": VERSION, "slices": records, "unreachable": unreachable}), || table(&slices))?;
    for zone in &unreachable {
        eprintln!("warning: {zone} could not be asked; what is there is not shown");
    }
    if slices.iter().any(|one| matches!(one.slice.state, SliceState::Lost | SliceState::Failed { .. })) {
        eprintln!("hint: lost and failed slices count against the quota until `tpu down` deletes them");
    }
    Ok(if unreachable.is_empty() { Answer::Yes } else { Answer::No })
}

fn table(slices: &[Listed]) -> String {
    if slices.is_empty() {
        return "no slices\n".into();
    }
    let mut table = Table::new(&[Align::Left; 8]);
    table.row(["name", "zone", "type", "paid", "state", "workers", "age", "the cloud says"]);
    for one in slices {
        let slice = &one.slice;
        let age = slice.created.and_then(|time| SystemTime::now().duration_since(time).ok());
        let kind = if one.slices > 1 {
            format!("{} x {}", one.slices, one.accelerator_type)
        } else {
            one.accelerator_type.clone()
        };
        table.row([
            slice.id.name.clone(),
            slice.id.zone.clone(),
            kind,
            capacity_word(&one.capacity).into(),
            state_word(&slice.state).into(),
            slice.workers.len().to_string(),
            age.map_or_else(String::new, |age| human::seconds(age.as_secs_f64())),
            slice.detail.clone(),
        ]);
    }
    table.render()
}
