//! The live view: chips of all hosts with bars and curves, what is wrong, and runs, on a terminal of any size.

use std::collections::{BTreeMap, VecDeque};

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};

use super::devices::DeviceRecord;
use super::format::{bar, bytes_of, percent, seconds, sparkline};
use super::run::WatchedRun;
use super::screen::Key;
use super::snapshot::{HostState, HostsSnapshot};
use super::table::{host_notes, run_line};

/// Values of a curve that are kept.
const HISTORY: usize = 64;
/// Widths of columns that do not depend on their contents.
const BAR: usize = 10;
const CURVE: usize = 16;

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Red, yellow and green beside what is said in words anyway.
    On,
    /// None, as `NO_COLOR` asks.
    Off,
}

/// What is on the screen.
pub(super) struct View {
    colours: Colours,
    /// How often hosts are asked, as it is told.
    every: f64,
    snapshot: Option<HostsSnapshot>,
    /// Duty cycles by host and device.
    duty: BTreeMap<(String, u32), VecDeque<f64>>,
    /// The first line of the body that is shown.
    first: usize,
    /// Lines that fitted at the last frame.
    page: usize,
}

impl View {
    pub(super) fn new(every: f64, colours: Colours) -> View {
        View { colours, every, snapshot: None, duty: BTreeMap::new(), first: 0, page: 1 }
    }

    /// Takes what hosts told.
    pub(super) fn hear(&mut self, snapshot: HostsSnapshot) {
        for host in &snapshot.hosts {
            for device in &host.devices {
                let curve = self.duty.entry((host.host.clone(), device.sample.device)).or_default();
                if curve.len() == HISTORY {
                    curve.pop_front();
                }
                curve.push_back(device.sample.duty_cycle.unwrap_or(f64::NAN));
            }
        }
        self.snapshot = Some(snapshot);
    }

    /// Moves through the body.
    pub(super) fn press(&mut self, key: Key) {
        let page = self.page.saturating_sub(1).max(1);
        self.first = match key {
            Key::Up => self.first.saturating_sub(1),
            Key::Down => self.first + 1,
            Key::PageUp => self.first.saturating_sub(page),
            Key::PageDown => self.first + page,
            Key::Top => 0,
            Key::Bottom => usize::MAX / 2,
            Key::Quit | Key::Refresh => self.first,
        };
    }

    /// Draws a frame.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let body = self.body(usize::from(area.width));
        let head = self.head();
        self.page = usize::from(area.height.saturating_sub(1));
        self.first = self.first.min(body.len().saturating_sub(self.page));
        let line = |y: u16| Rect { x: area.x, y: area.y + y, width: area.width, height: 1 };
        if area.height > 0 {
            frame.render_widget(head, line(0));
        }
        for (y, text) in (1..area.height).zip(body.into_iter().skip(self.first)) {
            frame.render_widget(text, line(y));
        }
    }

    fn style(&self, colour: Color) -> Style {
        match self.colours {
            Colours::On => Style::new().fg(colour),
            Colours::Off => Style::new(),
        }
    }

    fn head(&self) -> Line<'static> {
        let told = match &self.snapshot {
            None => "asking …".to_string(),
            Some(snapshot) => {
                let up = snapshot.hosts.iter().filter(|host| host.state == HostState::Up).count();
                let devices: usize = snapshot.hosts.iter().map(|host| host.devices.len()).sum();
                let time = snapshot.time_seconds as u64 % 86_400;
                let (hours, minutes, seconds) = (time / 3600, time / 60 % 60, time % 60);
                let all = snapshot.hosts.len();
                format!("{up} of {all} hosts, {devices} devices, {hours:02}:{minutes:02}:{seconds:02} UTC")
            }
        };
        let text = format!("tpu monitor  {told}  every {} s  q quits, arrows scroll", self.every);
        Line::from(Span::styled(text, Style::new().add_modifier(Modifier::BOLD)))
    }

    fn body(&self, width: usize) -> Vec<Line<'static>> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let mut lines = Vec::new();
        let names = snapshot.hosts.iter().map(|host| host.host.chars().count()).max().unwrap_or(0).clamp(4, 28);
        // A narrow terminal has no curves; one that is narrower still has no bars.
        let (has_bar, has_curve) = (width >= names + 60, width >= names + 60 + CURVE);
        if snapshot.hosts.iter().any(|host| !host.devices.is_empty()) {
            lines.push(self.heads(names, has_bar, has_curve));
        }
        for host in &snapshot.hosts {
            for (n, device) in host.devices.iter().enumerate() {
                let name = if n == 0 { host.host.as_str() } else { "" };
                let curve = self.duty.get(&(host.host.clone(), device.sample.device));
                lines.push(self.device(name, device, curve, (names, has_bar, has_curve)));
            }
            let colour = if host.state == HostState::Up { Color::Yellow } else { Color::Red };
            lines.extend(host_notes(host).into_iter().map(|note| Line::from(Span::styled(note, self.style(colour)))));
        }
        for run in &snapshot.runs {
            lines.push(Line::default());
            lines.extend(self.run(run, width));
        }
        lines
    }

    fn heads(&self, names: usize, has_bar: bool, has_curve: bool) -> Line<'static> {
        let bar = if has_bar { BAR + 1 } else { 0 };
        let curve = if has_curve { CURVE + 1 } else { 0 };
        let text = format!(
            "{:<names$} {:>4} {:<hbm$} {:<duty$} {:>6} {:>5} {:>10}",
            "HOST",
            "DEV",
            "HBM",
            "DUTY",
            "TC",
            "QUEUE",
            "EXEC P50",
            hbm = bar + 17,
            duty = curve + 5,
        );
        Line::from(Span::styled(text, Style::new().add_modifier(Modifier::DIM)))
    }

    fn device(
        &self,
        name: &str,
        device: &DeviceRecord,
        curve: Option<&VecDeque<f64>>,
        (names, has_bar, has_curve): (usize, bool, bool),
    ) -> Line<'static> {
        let sample = &device.sample;
        let name: String = name.chars().take(names).collect();
        let mut spans = vec![Span::raw(format!("{name:<names$} {:>4} ", sample.device))];
        let used =
            sample.hbm_used_bytes.zip(sample.hbm_total_bytes).map(|(used, total)| used as f64 / total.max(1) as f64);
        if has_bar {
            let style = self.style(if used.is_some_and(|used| used > 0.95) { Color::Red } else { Color::Cyan });
            spans.push(Span::styled(format!("{} ", bar(used.unwrap_or(0.0), BAR)), style));
        }
        spans.push(Span::raw(format!("{:<17} ", bytes_of(sample.hbm_used_bytes, sample.hbm_total_bytes))));
        if has_curve {
            let values: Vec<f64> = curve.into_iter().flatten().copied().collect();
            let line = sparkline(&values, CURVE, Some((0.0, 1.0)));
            spans.push(Span::styled(format!("{line:>CURVE$} "), self.style(Color::Green)));
        }
        spans.push(Span::raw(format!(
            "{:>5} {:>6} {:>5} {:>10}",
            percent(sample.duty_cycle),
            percent(sample.tensorcore_utilization),
            sample.queue_size.map_or("-".into(), |size| size.to_string()),
            device.execution_p50_seconds.map_or("-".into(), seconds),
        )));
        Line::from(spans)
    }

    fn run(&self, run: &WatchedRun, width: usize) -> Vec<Line<'static>> {
        let mut lines = vec![Line::from(Span::styled(run_line(run), Style::new().add_modifier(Modifier::BOLD)))];
        let curve = |name: &str, values: &[f64]| {
            let line = sparkline(values, width.saturating_sub(12).min(120), None);
            Line::from(vec![Span::raw(format!("{name:>10}  ")), Span::styled(line, self.style(Color::Blue))])
        };
        if run.losses.len() > 1 {
            lines.push(curve("loss", &run.losses));
        }
        if run.step_times.len() > 1 {
            lines.push(curve("step time", &run.step_times));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;
    use telemetry::runtime_metrics::DeviceSample;

    use super::super::snapshot::{HostRecord, MONITOR_VERSION};
    use super::*;

    fn host(name: &str, devices: u32) -> HostRecord {
        let device = |device| DeviceRecord {
            sample: DeviceSample {
                device,
                hbm_total_bytes: Some(16 << 30),
                hbm_used_bytes: Some(12 << 30),
                duty_cycle: Some(0.97),
                queue_size: Some(1),
                ..DeviceSample::default()
            },
            execution_p50_seconds: Some(0.0123),
            ..DeviceRecord::default()
        };
        HostRecord {
            host: name.into(),
            address: None,
            state: if devices > 0 { HostState::Up } else { HostState::Gone },
            error: (devices == 0).then(|| "no answer".into()),
            gone_seconds: (devices == 0).then_some(12.0),
            answer_seconds: None,
            clock_ahead_seconds: None,
            devices: (0..devices).map(device).collect(),
            chips: Vec::new(),
            cores: Vec::new(),
            metrics: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn snapshot(hosts: Vec<HostRecord>) -> HostsSnapshot {
        let run = WatchedRun {
            run: "out/gpt2".into(),
            step: Some(1200),
            loss: Some(3.2),
            losses: vec![5.0, 4.0, 3.2],
            ..WatchedRun::default()
        };
        HostsSnapshot { version: MONITOR_VERSION, time_seconds: 3723.0, hosts, runs: vec![run] }
    }

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
        (0..height).map(row).collect()
    }

    #[test]
    fn chips_hosts_and_runs_are_on_the_screen() {
        let mut view = View::new(2.0, Colours::On);
        assert!(drawn(&mut view, 100, 5)[0].contains("asking"), "before the first answer");
        for _ in 0..3 {
            view.hear(snapshot(vec![host("t-0", 2), host("t-1", 0)]));
        }
        let expected = [
            "tpu monitor  1 of 2 hosts, 2 devices, 01:02:03 UTC  every 2 s  q quits, arrows scroll",
            "HOST  DEV HBM                          DUTY                       TC QUEUE   EXEC P50",
            "t-0     0 ████████░░ 12.00/16.0 GiB                 ███  97 %      -     1    12.3 ms",
            "        1 ████████░░ 12.00/16.0 GiB                 ███  97 %      -     1    12.3 ms",
            "t-1: gone for 12.0 s: no answer",
            "",
            "run out/gpt2: step 1200, loss 3.2000",
            "      loss  █▄▁",
            "",
        ];
        assert_eq!(drawn(&mut view, 100, 9), expected);
    }

    #[test]
    fn a_terminal_of_any_size_shows_what_fits() {
        let mut view = View::new(2.0, Colours::Off);
        view.hear(snapshot((0..30).map(|n| host(&format!("t-{n}"), 4)).collect()));
        for (width, height) in [(1, 1), (5, 2), (20, 3), (60, 10), (79, 24), (300, 80)] {
            drawn(&mut view, width, height);
        }
        // Narrow: without bars and curves, the numbers stay.
        let narrow = drawn(&mut view, 60, 10);
        assert!(narrow[2].contains("12.00/16.0 GiB") && narrow[2].contains("97 %") && !narrow[2].contains('█'));
        view.press(Key::Bottom);
        assert!(drawn(&mut view, 100, 10).iter().any(|line| line.contains("run out/gpt2")));
        view.press(Key::Top);
        assert!(drawn(&mut view, 100, 10)[2].starts_with("t-0 "));
        view.press(Key::PageDown);
        view.press(Key::Down);
        view.press(Key::Up);
        assert!(drawn(&mut view, 100, 10)[1].contains("t-2") || !drawn(&mut view, 100, 10)[1].contains("HOST"));
    }

    #[test]
    fn without_colours_there_are_none() {
        let mut view = View::new(2.0, Colours::Off);
        view.hear(snapshot(vec![host("t-0", 2), host("t-1", 0)]));
        let mut terminal = Terminal::new(TestBackend::new(100, 9)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        assert!(terminal.backend().buffer().content().iter().all(|cell| cell.fg == Color::Reset));
    }
}
