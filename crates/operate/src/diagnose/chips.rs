//! What is wrong by what the metric services of hosts tell: errors of cores, throttling, links, memory, and chips without work.

use telemetry::runtime_metrics::{MetricReading, MetricValue, names};

use super::checks::HBM_SHARE;
use super::report::{Issue, IssueKind};
use crate::monitor::{HostRecord, HostState};

/// A chip that executes less than this share of the time has too little to do.
const DUTY_SHARE: f64 = 0.5;

/// Issues of a host. `is_alone`: nobody else tells of the program that uses its chips.
pub(super) fn all(host: &HostRecord, is_alone: bool) -> Vec<Issue> {
    let mut issues = Vec::new();
    issues.extend(silent(host));
    issues.extend(host.cores.iter().filter_map(|core| {
        let what = format!("core {} of {} reports: {}", core.core, host.host, core.error.as_ref()?);
        Some(Issue::new(IssueKind::CoreError, what, "keep the message; take the host out if it reports again"))
    }));
    let metric = |name: &str| host.metrics.iter().find(|metric| metric.name == name);
    issues.extend(metric(names::THROTTLE_SCORE).and_then(worst).map(|(at, score)| {
        let what = format!("{at} of {} is throttled: its score is {score} of 10", host.host);
        Issue::new(IssueKind::Throttled, what, "report the host to its owner, or move the training to another one")
    }));
    issues.extend(metric(names::ICI_LINK_HEALTH).and_then(worst).map(|(at, score)| {
        let meaning = match score {
            10.. => "it cannot be used",
            6..=9 => "its trouble lasts",
            _ => "its trouble may pass",
        };
        let what = format!("link {at} of {} is not healthy: {score} of 10, {meaning}", host.host);
        Issue::new(
            IssueKind::IciUnhealthy,
            what,
            "save, and move the training to another slice: collectives wait for it",
        )
    }));
    if is_alone {
        issues.extend(hbm(host));
        issues.extend(duty(host));
    }
    issues
}

fn silent(host: &HostRecord) -> Option<Issue> {
    if host.state == HostState::Up {
        return None;
    }
    let what = format!("{}: {}", host.host, host.error.as_deref().unwrap_or("no answer"));
    Some(Issue::new(IssueKind::ProcessSilent, what, "`tpu hang` says whether it is gone, stopped or cut off"))
}

fn hbm(host: &HostRecord) -> Option<Issue> {
    let used = host.devices.iter().filter_map(|device| {
        let (used, total) = (device.sample.hbm_used_bytes?, device.sample.hbm_total_bytes.filter(|total| *total > 0)?);
        Some((device.sample.device, used as f64 / total as f64))
    });
    let (device, share) = used.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (share >= HBM_SHARE).then(|| super::checks::hbm_nearly_full(&format!("device {device} of {}", host.host), share))
}

fn duty(host: &HostRecord) -> Option<Issue> {
    let duties: Vec<f64> = host.devices.iter().filter_map(|device| device.sample.duty_cycle).collect();
    let busiest = duties.iter().copied().max_by(f64::total_cmp)?;
    if busiest >= DUTY_SHARE {
        return None;
    }
    let what = format!("the busiest chip of {} executes {:.0} % of the time", host.host, busiest * 100.0);
    let remedy = "a profile says what it waits for: data, the host, saves (`tpu profile HOST:PORT`)";
    Some(Issue::new(IssueKind::DeviceIdle, what, remedy).costs(1.0 - busiest, None))
}

/// Where a score of 0 to 10, of which 0 is well, is worst; `None` where all is well.
fn worst(metric: &MetricReading) -> Option<(String, i64)> {
    let scored = metric.series.iter().filter_map(|series| {
        let (at, score) = match &series.value {
            MetricValue::Text(text) => {
                let (at, score) = crate::monitor::located(text)?;
                (at.to_string(), score)
            }
            value => {
                let place = series.labels.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>().join(" ");
                let device = series.device.map(|device| format!("device {device}"));
                (device.unwrap_or(place), value.as_f64()?)
            }
        };
        Some((at, score as i64))
    });
    scored.max_by_key(|(_, score)| *score).filter(|(_, score)| *score > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::DeviceRecord;
    use telemetry::runtime_metrics::{CoreState, DeviceSample, Series};

    fn host() -> HostRecord {
        let device = |device| DeviceRecord {
            sample: DeviceSample {
                device,
                hbm_total_bytes: Some(100),
                hbm_used_bytes: Some(50),
                duty_cycle: Some(0.9),
                ..DeviceSample::default()
            },
            ..DeviceRecord::default()
        };
        HostRecord {
            host: "t-0".into(),
            address: None,
            state: HostState::Up,
            error: None,
            gone_seconds: None,
            answer_seconds: None,
            clock_ahead_seconds: None,
            devices: vec![device(0), device(1)],
            chips: Vec::new(),
            cores: vec![CoreState::default()],
            metrics: vec![
                metric(names::THROTTLE_SCORE, MetricValue::Integer(0)),
                metric(names::ICI_LINK_HEALTH, MetricValue::Text("tray1.chip3.ici0.int: 0".into())),
            ],
            failed: Vec::new(),
        }
    }

    fn metric(name: &str, value: MetricValue) -> MetricReading {
        let series = vec![Series { device: Some(3), labels: Vec::new(), time: None, value }];
        MetricReading { name: name.into(), description: String::new(), series, unreadable: 0 }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut HostRecord), kind: IssueKind, part: &str) {
        let mut host = host();
        change(&mut host);
        let issues = all(&host, true);
        let [issue] = &issues[..] else { panic!("{issues:?}") };
        assert_eq!(issue.kind, kind, "{issue:?}");
        assert!(issue.what.contains(part) && !issue.remedy.is_empty(), "{issue:?}");
    }

    #[test]
    fn each_cause_is_named_and_nothing_of_a_host_that_is_well() {
        assert_eq!(all(&host(), true), []);
        check(
            |host| host.cores[0].error = Some("halted".into()),
            IssueKind::CoreError,
            "core 0 of t-0 reports: halted",
        );
        check(|host| host.devices[1].sample.hbm_used_bytes = Some(97), IssueKind::HbmNearlyFull, "device 1 of t-0");
        check(
            |host| host.devices.iter_mut().for_each(|device| device.sample.duty_cycle = Some(0.2)),
            IssueKind::DeviceIdle,
            "20 %",
        );
        check(
            |host| host.metrics[0] = metric(names::THROTTLE_SCORE, MetricValue::Number(4.0)),
            IssueKind::Throttled,
            "device 3 of t-0 is throttled: its score is 4",
        );
        let link = MetricValue::Text("tray1.chip3.ici1.int: 10".into());
        check(
            |host| host.metrics[1] = metric(names::ICI_LINK_HEALTH, link),
            IssueKind::IciUnhealthy,
            "link tray1.chip3.ici1.int of t-0 is not healthy: 10 of 10, it cannot be used",
        );
        check(
            |host| (host.state, host.error) = (HostState::Unreachable, Some("no route".into())),
            IssueKind::ProcessSilent,
            "t-0: no route",
        );
        // Where processes tell of their memory and time, hosts do not tell it again.
        let mut full = host();
        full.devices[0].sample.hbm_used_bytes = Some(100);
        assert_eq!(all(&full, false), []);
    }
}
