//! What is known of one run: its curves, the newest lines, processes, goodput, alerts and reports.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Value, json};
use telemetry::{Goodput, TrainingRecord};

use super::alert_log::AlertLog;
use super::curve::Curve;
use super::processes::ProcessState;
use super::reports::{ReportFile, ReportFiles};
use crate::monitor::metric_number;

/// Metrics of a run that are drawn at most.
const MAX_METRICS: usize = 40;
/// Characters of a metric's name.
const MAX_NAME: usize = 100;
/// Lines that are kept for those who hear of them as they come.
const MAX_RECENT: usize = 256;
/// Reports that a run can have had.
const MAX_REPORTS: usize = 400;

/// A line of the metrics file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricsLine {
    step: u64,
    /// Seconds since 1970; 0 where they are not told.
    time: f64,
    values: Vec<(String, f64)>,
}

impl MetricsLine {
    /// Reads a line; `None` where it is none.
    pub(super) fn read(line: &[u8]) -> Option<MetricsLine> {
        let mut from = serde_json::Deserializer::from_slice(line);
        let read = from.deserialize_map(LineVisitor).ok()??;
        from.end().ok().map(|()| read)
    }
}

/// Reads the object of a line without making a map of it: a file can have millions.
struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Option<MetricsLine>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the metrics of a step")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut step, mut time, mut values) = (None, None, Vec::new());
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            match name.as_str() {
                "version" => {}
                "step" => step = value.as_u64(),
                "wall_time_seconds" => time = value.as_f64(),
                _ if name.len() > MAX_NAME || values.len() >= MAX_METRICS => {}
                _ => values.extend(metric_number(&value).map(|value| (name, value))),
            }
        }
        Ok(step.map(|step| MetricsLine { step, time: time.unwrap_or(0.0), values }))
    }
}

/// What a run's state is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RunPhase {
    /// Nothing is known of it.
    Empty,
    /// A process of it answers, or is alive.
    Running,
    /// It has processes, and none answers.
    NotAnswering,
    /// All its steps are done.
    Finished,
    /// It has no process, and steps are left, or it is not known how many there are.
    Stopped,
}

/// One run.
#[derive(Debug)]
pub(super) struct RunState {
    pub(super) folder: PathBuf,
    curves: BTreeMap<String, Curve>,
    step: Option<u64>,
    time: f64,
    first_time: f64,
    /// Changes when the metrics file is begun anew.
    pub(super) generation: u64,
    /// Number of the next line.
    pub(super) next_line: u64,
    recent: VecDeque<MetricsLine>,
    unreadable_lines: u64,
    pub(super) read_bytes: u64,
    pub(super) problem: Option<String>,
    pub(super) alerts: AlertLog,
    pub(super) processes: Vec<ProcessState>,
    pub(super) goodput: Vec<(usize, Goodput)>,
    pub(super) record: Option<TrainingRecord>,
    /// Each keeps its place, so that links stay.
    reports: Vec<(ReportFile, bool)>,
    pub(super) profiles: Vec<String>,
    /// Changes with anything of the above.
    pub(super) version: u64,
}

impl RunState {
    pub(super) fn new(folder: &Path) -> RunState {
        RunState {
            folder: folder.to_path_buf(),
            curves: BTreeMap::new(),
            step: None,
            time: 0.0,
            first_time: 0.0,
            generation: 0,
            next_line: 0,
            recent: VecDeque::new(),
            unreadable_lines: 0,
            read_bytes: 0,
            problem: None,
            alerts: AlertLog::default(),
            processes: Vec::new(),
            goodput: Vec::new(),
            record: None,
            reports: Vec::new(),
            profiles: Vec::new(),
            version: 1,
        }
    }

    /// Forgets what was read of the metrics file.
    pub(super) fn begin_anew(&mut self) {
        self.curves.clear();
        self.recent.clear();
        (self.step, self.time, self.first_time, self.unreadable_lines) = (None, 0.0, 0.0, 0);
        self.generation += 1;
    }

    pub(super) fn add_unreadable(&mut self) {
        self.unreadable_lines += 1;
    }

    pub(super) fn add(&mut self, line: MetricsLine) {
        for (name, value) in &line.values {
            if let Some(curve) = self.curves.get_mut(name) {
                curve.push(line.step, line.time, *value);
            } else if self.curves.len() < MAX_METRICS {
                self.curves.insert(name.clone(), Curve::new(line.step, line.time, *value));
            }
        }
        self.step = Some(line.step);
        self.time = line.time;
        if self.first_time == 0.0 {
            self.first_time = line.time;
        }
        self.next_line += 1;
        self.recent.push_back(line);
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
        }
    }

    /// Takes what was found in the folder.
    pub(super) fn set_reports(&mut self, found: ReportFiles) {
        for (report, is_there) in &mut self.reports {
            *is_there = found.reports.iter().any(|now| now == report);
        }
        for report in found.reports {
            if self.reports.len() < MAX_REPORTS && !self.reports.iter().any(|(known, _)| *known == report) {
                self.reports.push((report, true));
            }
        }
        self.profiles = found.profiles;
    }

    /// The report in a place, if it is there.
    pub(super) fn report(&self, place: usize) -> Option<&ReportFile> {
        self.reports.get(place).filter(|(_, is_there)| *is_there).map(|(report, _)| report)
    }

    fn phase(&self) -> RunPhase {
        let steps = self.record.as_ref().map_or(0, |record| record.steps);
        if !self.processes.is_empty() {
            let is_alive = self.processes.iter().any(ProcessState::is_alive);
            return if is_alive { RunPhase::Running } else { RunPhase::NotAnswering };
        }
        match self.step {
            Some(step) if steps > 0 && step >= steps => RunPhase::Finished,
            None if self.goodput.is_empty() && self.record.is_none() => RunPhase::Empty,
            _ => RunPhase::Stopped,
        }
    }

    /// What the page shows of it, curves left out.
    pub(super) fn summary(&self, id: u64) -> Value {
        let goodput = self.goodput.iter().map(|(process, goodput)| {
            let parts: Vec<_> = goodput.parts().into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
            json!({
                "process": process,
                "ratio": goodput.ratio(),
                "elapsed_seconds": goodput.elapsed_seconds,
                "attempts": goodput.attempts,
                "parts": parts,
            })
        });
        let reports = self.reports.iter().enumerate().filter(|(_, (_, is_there))| *is_there);
        let reports =
            reports.map(|(place, (report, _))| json!({ "place": place, "path": report.path, "title": report.title }));
        let newest: BTreeMap<&String, Value> =
            self.curves.iter().map(|(name, curve)| (name, number(curve.newest()))).collect();
        json!({
            "id": id,
            "folder": self.folder.display().to_string(),
            "state": self.phase(),
            "generation": self.generation,
            "step": self.step,
            "steps": self.record.as_ref().map(|record| record.steps).filter(|steps| *steps > 0),
            "time_seconds": self.time,
            "first_time_seconds": self.first_time,
            "newest": newest,
            "lines": self.next_line,
            "unreadable_lines": self.unreadable_lines,
            "read_bytes": self.read_bytes,
            "problem": self.problem,
            "training": self.record,
            "processes": self.processes,
            "goodput": goodput.collect::<Vec<_>>(),
            "alerts": self.alerts,
            "reports": reports.collect::<Vec<_>>(),
            "profiles": self.profiles,
        })
    }

    /// All curves, each with so many buckets at most, and the number of the line that follows them.
    pub(super) fn curves(&self, id: u64, buckets: usize) -> Value {
        let curves: BTreeMap<&String, _> =
            self.curves.iter().map(|(name, curve)| (name, curve.drawn(buckets))).collect();
        json!({ "id": id, "generation": self.generation, "next_line": self.next_line, "curves": curves })
    }

    /// The lines from a number on; `None` where they are no longer kept.
    pub(super) fn lines_from(&self, id: u64, line: u64) -> Option<Value> {
        let back = usize::try_from(self.next_line.checked_sub(line)?).ok()?;
        let skipped = self.recent.len().checked_sub(back)?;
        let of = |line: &MetricsLine| {
            let values: serde_json::Map<String, Value> =
                line.values.iter().map(|(name, value)| (name.clone(), number(*value))).collect();
            json!([line.step, line.time, values])
        };
        let lines: Vec<Value> = self.recent.iter().skip(skipped).map(of).collect();
        Some(json!({ "id": id, "generation": self.generation, "first_line": line, "lines": lines }))
    }
}

/// Numbers that are not finite are texts, as in the metrics file.
fn number(value: f64) -> Value {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::alert_log::ToldAlert;

    fn line(step: u64, loss: &str) -> MetricsLine {
        let text = format!(r#"{{"version":1,"step":{step},"wall_time_seconds":{step}.5,"loss":{loss}}}"#);
        MetricsLine::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in ["", "{", "[]", "{}", "{\"step\":-1}", "{\"step\":\"1\"}", "{\"step\":1.5}", "\u{0}\u{0}"] {
            assert_eq!(MetricsLine::read(text.as_bytes()), None, "{text}");
        }
        // What has no meaning here is left out.
        let odd = MetricsLine::read(br#"{"step":1,"loss":"NaN","a":[1],"b":null,"c":"x","d":{}}"#).unwrap();
        assert_eq!((odd.step, odd.time, odd.values.len()), (1, 0.0, 1));
        // Nests too deep, names too long and values too many.
        assert_eq!(MetricsLine::read("[".repeat(100_000).as_bytes()), None);
        let many: Vec<String> = (0..1000).map(|n| format!("\"m{n}\":{n}")).collect();
        let many = format!("{{\"step\":1,\"{}\":1,{}}}", "x".repeat(1000), many.join(","));
        assert_eq!(MetricsLine::read(many.as_bytes()).unwrap().values.len(), MAX_METRICS);
    }

    #[test]
    fn damaged_lines_are_read_or_are_none() {
        let text = br#"{"version":1,"step":3,"wall_time_seconds":1.5,"loss":"NaN","mfu":0.5}"#.to_vec();
        let mut mutator = testkit::Mutator::new(20, vec![text]);
        let mut run = RunState::new(Path::new("r"));
        for _ in 0..10_000 {
            let damaged = mutator.next_input();
            MetricsLine::read(&damaged).into_iter().for_each(|line| run.add(line));
            let _ = ToldAlert::read(&damaged);
        }
        assert!(run.curves(0, 100)["curves"].as_object().unwrap().len() <= MAX_METRICS);
    }

    #[test]
    fn lines_are_handed_on_as_they_come() {
        let mut run = RunState::new(Path::new("r"));
        (1..=1000).for_each(|step| run.add(line(step, "2.0")));
        assert_eq!(run.lines_from(7, 1000).unwrap()["lines"], json!([]));
        run.add(line(1001, "\"NaN\""));
        let told = run.lines_from(7, 1000).unwrap();
        assert_eq!(told["lines"], json!([[1001, 1001.5, { "loss": "NaN" }]]));
        assert!(run.lines_from(7, 1001 - MAX_RECENT as u64).is_some());
        assert!(run.lines_from(7, 1000 - MAX_RECENT as u64).is_none() && run.lines_from(7, 1002).is_none());
        let curves = run.curves(7, 10);
        assert_eq!(
            (curves["next_line"].as_u64(), curves["curves"]["loss"]["points"].as_u64()),
            (Some(1001), Some(1001))
        );
        run.begin_anew();
        assert_eq!((run.generation, run.summary(7)["step"].is_null()), (1, true));
    }

    #[test]
    fn a_run_has_a_state() {
        let mut run = RunState::new(Path::new("r"));
        let state = |run: &RunState| run.summary(0)["state"].as_str().unwrap().to_string();
        assert_eq!(state(&run), "empty");
        run.add(line(5, "1.0"));
        assert_eq!(state(&run), "stopped");
        run.record = Some(TrainingRecord { steps: 5, ..TrainingRecord::default() });
        assert_eq!(state(&run), "finished");
        run.processes.push(ProcessState::default());
        assert_eq!(state(&run), "not-answering");
    }

    #[test]
    fn reports_keep_their_places() {
        let mut run = RunState::new(Path::new("r"));
        let report = |path: &str| ReportFile { path: path.into(), title: path.into() };
        let found =
            |paths: &[&str]| ReportFiles { reports: paths.iter().map(|p| report(p)).collect(), profiles: vec![] };
        run.set_reports(found(&["b"]));
        run.set_reports(found(&["a", "b"]));
        assert_eq!((run.report(0), run.report(1)), (Some(&report("b")), Some(&report("a"))));
        run.set_reports(found(&["a"]));
        assert_eq!((run.report(0), run.report(1), run.report(2)), (None, Some(&report("a")), None));
        assert_eq!(run.summary(0)["reports"].as_array().unwrap().len(), 1);
    }
}
