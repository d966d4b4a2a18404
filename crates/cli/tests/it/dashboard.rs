//! `tpu dashboard` in a browser, with a real training behind it: live points, keyboard, screen readers, runs that come and go.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use testkit::{Needed, repository, require};

use crate::browser::Browser;
use crate::harness::{Bench, arg};
use crate::metrics::{Running, answering};
use crate::train::bench;

/// Largest picture of the guide.
const MAX_PICTURE_BYTES: u64 = 150_000;

/// Starts the dashboard of some runs; where it is.
fn dashboard(bench: &Bench, runs: &[&str]) -> (Running, String) {
    let mut command = bench.command(&[&["dashboard", "--listen", "0"], runs].concat());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let running = Running(child);
    let url = line.trim().strip_prefix("dashboard at ").unwrap_or_else(|| panic!("{line}")).to_string();
    (running, url)
}

/// A training under way that is watched.
fn training(bench: &Bench) -> (Running, String) {
    let steps = ["--with", "train.steps=1000000", "--with", "train.save_every=100000", "--with", "train.eval_every=20"];
    let slower = ["--with", "optimizer.learning_rate=3e-3"];
    let args = ["train", "tiny.toml", "--folder", "runs/live", "-d", "cpu", "--metrics", "127.0.0.1:0"];
    answering(&mut bench.command(&[&args[..], &steps, &slower].concat()))
}

/// How the page says what it shows.
const POINTS: &str =
    "Number(document.querySelector('figure[data-metric=loss] figcaption span')?.textContent.replace(/[^0-9]/g, ''))";

/// The least contrast of a text with what is behind it, and of which text.
const CONTRAST: &str = r#"(() => {
  const channels = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    if (!text || !element.checkVisibility() || element.closest(".skip, .unseen, noscript")) continue;
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(channels(ink)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < least[0]) least = [contrast, text];
  }
  return least;
})()"#;

/// Presses Tab until an element that a selector names has the focus; the elements on the way.
fn tab_to(browser: &mut Browser, selector: &str) -> Vec<String> {
    let mut way = Vec::new();
    for _ in 0..80 {
        browser.press("Tab");
        let name = "document.activeElement.getAttribute('href') || document.activeElement.id || document.activeElement.className || document.activeElement.tagName";
        way.push(browser.eval(name).as_str().unwrap_or_default().to_string());
        if browser.eval(&format!("document.activeElement.matches({selector:?})")) == true {
            return way;
        }
    }
    panic!("no way to {selector} by Tab: {way:?}");
}

/// Keeps a picture for the guide when `UPDATE_GOLDEN` is set.
fn picture(browser: &mut Browser, name: &str) {
    let bytes = browser.screenshot();
    assert!(bytes.starts_with(b"\x89PNG"), "{name} is no picture");
    let path = repository().join("docs/images").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    assert!((1..MAX_PICTURE_BYTES).contains(&size), "{} has {size} bytes; UPDATE_GOLDEN=1 makes it", path.display());
}

/// Runs beside each other: one that has ended, with an alert and a report, and one under way.
fn runs(bench: &Bench) -> (Running, String) {
    let ended = ["train", "tiny.toml", "--folder", "runs/baseline", "-d", "cpu", "--with", "train.steps=300"];
    bench.expect(0, &[&ended[..], &["--with", "train.save_every=100", "--with", "train.eval_every=20"]].concat());
    let alert = serde_json::json!({
        "version": 1, "time_seconds": telemetry::now_seconds() - 100.0, "state": "firing", "alert": "data-bound",
        "severity": "warning", "metric": "tpubridge_training_data_wait_seconds_total", "labels": {}, "value": 0.41,
        "when": "rate > 0.3", "summary": "Steps wait for data.", "remedy": "raise data.workers", "process": 0,
    });
    bench.write("runs/baseline/alerts.jsonl", format!("{alert}\nno json\n"));
    bench.write("runs/baseline/fit.html", "<title>GPT-2 on v5e-4</title><h1>a report</h1>");
    training(bench)
}

#[test]
fn a_browser_shows_runs_as_they_train() {
    const NAME: &str = "a_browser_shows_runs_as_they_train";
    let Some(chromium) = require(NAME, Needed::Chromium) else { return };
    let bench = bench();
    let (mut trains, _) = runs(&bench);
    let (_dashboard, url) = dashboard(&bench, &["runs", "later"]);
    let mut browser = Browser::start(&chromium, &bench.path("home"));
    browser.open(&url, 1200, 860);

    // Both runs, their curves, processes, goodput, alerts and reports.
    browser.wait_for("two runs", "document.querySelectorAll('#run-rows tr').length === 2");
    browser.wait_for("live", "document.getElementById('connection').textContent === 'Live'");
    let curve = |metric: &str, runs: usize| {
        let paths = format!("figure[data-metric={metric}] path.curve[data-run]");
        format!(
            "[...document.querySelectorAll('{paths}')].filter((path) => path.getAttribute('d').includes('L')).length === {runs}"
        )
    };
    for metric in ["loss", "evaluation_loss", "learning_rate", "grad_norm", "tokens_per_second", "step_seconds"] {
        browser.wait_for(metric, &curve(metric, 2));
    }
    let texts =
        ["running", "finished", "answers", "GPT-2 on v5e-4", "data-bound", "Alerts: 1 firing", "compile", "300 of 300"];
    for text in texts {
        browser.wait_for(text, &format!("document.body.innerText.includes({text:?})"));
    }
    browser.wait_for("what is waited for", "document.getElementById('waiting').textContent.includes('later')");

    // Points arrive without a new page.
    browser.eval("window.isSamePage = true");
    let points = browser.eval(POINTS).as_f64().unwrap();
    browser.wait_for("new points", &format!("window.isSamePage && {POINTS} > {points} + 5"));
    picture(&mut browser, "dashboard.png");
    browser.resize(1200, 640);
    browser.eval("document.getElementById('processes').scrollIntoView({ behavior: 'instant' })");
    picture(&mut browser, "dashboard-processes.png");

    // A report opens as a page of its own.
    let report = "document.querySelector('#report-rows a').href";
    let title = browser.eval(&format!("fetch({report}).then((a) => a.text())"));
    assert!(title.as_str().unwrap().contains("<h1>a report</h1>"), "{title}");

    // Garbage appears as a run beside the others, and goes.
    std::fs::create_dir_all(bench.path("later/garbage/metrics")).unwrap();
    bench.write(
        "later/garbage/metrics/metrics.jsonl",
        [&b"\xff\x00{]\n<img src=x onerror=alert(1)>\n"[..]; 20].concat(),
    );
    browser.wait_for("the new run", "document.querySelectorAll('#run-rows tr').length === 3");
    browser.wait_for("its lines", "document.body.innerText.includes('40 lines are no records')");
    browser
        .wait_for("the announcement", "document.getElementById('announce').textContent.includes('garbage appeared')");
    std::fs::remove_dir_all(bench.path("later")).unwrap();
    browser.wait_for("its end", "document.querySelectorAll('#run-rows tr').length === 2");

    // A process that is gone is told.
    let _ = trains.0.kill();
    let _ = trains.0.wait();
    browser.wait_for("the end of the process", "document.body.innerText.includes('it has ended without a word')");
    browser.wait_for("the state", "document.querySelector('#run-rows').innerText.includes('not answering')");
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

#[test]
fn the_page_needs_no_pointer_and_no_eyes() {
    const NAME: &str = "the_page_needs_no_pointer_and_no_eyes";
    let Some(chromium) = require(NAME, Needed::Chromium) else { return };
    let bench = bench();
    let ended = ["train", "tiny.toml", "-d", "cpu", "--with", "train.steps=30", "--folder"];
    bench.expect(0, &[&ended[..], &["runs/a"]].concat());
    bench.expect(0, &[&ended[..], &["runs/b", "--with", "optimizer.learning_rate=1e-3"]].concat());
    bench.write("runs/a/fit.html", "<title>A fit</title>");
    let (_dashboard, url) = dashboard(&bench, &["runs/*"]);
    let mut browser = Browser::start(&chromium, &bench.path("home"));
    browser.open(&url, 1100, 800);
    browser.wait_for(
        "curves of both",
        "document.querySelectorAll('figure[data-metric=loss] path.curve[data-run]').length === 2",
    );
    browser.wait_for("the report", "document.querySelector('#report-rows a')");

    // The accessibility tree: landmarks, names of all that takes the focus, tables with captions.
    let tree = browser.accessible();
    let has = |role: &str, name: &str| tree.iter().any(|node| node.0 == role && node.1.contains(name));
    for (role, name) in [
        ("banner", ""),
        ("navigation", "Sections"),
        ("main", ""),
        ("region", "Runs"),
        ("region", "Curves"),
        ("region", "Hosts and processes"),
        ("checkbox", "a"),
        ("radio", "time since the start"),
        ("slider", "Smoothing"),
        ("group", "Loss"),
        ("table", "Runs with their newest values"),
        ("columnheader", "Validation loss"),
        ("rowheader", "b"),
        ("link", "A fit"),
        ("status", ""),
    ] {
        assert!(has(role, name), "no {role} `{name}` in {tree:#?}");
    }
    let is_named = |node: &&(String, String, bool)| !node.1.trim().is_empty() || node.0 == "RootWebArea";
    let nameless: Vec<_> = tree.iter().filter(|node| node.2 && !is_named(node)).collect();
    assert!(nameless.is_empty(), "{nameless:?}");

    // By keyboard: past the navigation, a run off and on, along a curve, into the table behind it.
    let way = tab_to(&mut browser, "a.skip");
    assert_eq!(way, ["#curves"]);
    let way = tab_to(&mut browser, "#run-rows input");
    assert_eq!(way[..6], ["#runs", "#curves", "#processes", "#goodput", "#alerts", "#reports"], "{way:?}");
    let drawn = "document.querySelectorAll('figure[data-metric=loss] path.curve[data-run]').length";
    browser.press(" ");
    browser.wait_for("one curve", &format!("{drawn} === 1"));
    assert!(browser.eval("location.search").as_str().unwrap().contains("hide="));
    browser.press(" ");
    browser.wait_for("both curves", &format!("{drawn} === 2"));
    tab_to(&mut browser, "input[name=x]");
    browser.press("ArrowRight");
    browser.wait_for("the axis of time", "document.querySelector('figure').innerHTML.includes('Loss by time')");
    browser.press("ArrowLeft");
    browser.wait_for("the axis of steps", "document.querySelector('figure').innerHTML.includes('Loss by step')");
    tab_to(&mut browser, "#log");
    browser.press(" ");
    browser.wait_for("the scale", "location.search.includes('log=1')");
    tab_to(&mut browser, "figure[data-metric=loss] .plot");
    let outline = browser.eval("getComputedStyle(document.activeElement).outlineWidth");
    assert_eq!(outline, "3px", "the focus is seen");
    let readout = "document.querySelector('figure[data-metric=loss] .readout').textContent";
    browser.press("Home");
    let first = browser.eval(readout).as_str().unwrap().to_string();
    assert!(first.starts_with("step 1: a ") && first.contains(", b "), "{first}");
    browser.press("ArrowRight");
    assert!(browser.eval(readout).as_str().unwrap().starts_with("step 2: "));
    browser.press("End");
    assert!(browser.eval(readout).as_str().unwrap().starts_with("step 30: "));
    tab_to(&mut browser, "figure[data-metric=loss] summary");
    browser.press("Enter");
    browser.wait_for("the table", "document.querySelectorAll('figure[data-metric=loss] tbody tr').length === 24");

    // Contrast of all texts, light and dark; nothing moves for those who do not want it.
    for scheme in ["light", "dark"] {
        let feature = |name: &str, value: &str| serde_json::json!({ "name": name, "value": value });
        let features = [feature("prefers-color-scheme", scheme), feature("prefers-reduced-motion", "reduce")];
        browser.call("Emulation.setEmulatedMedia", serde_json::json!({ "features": features }));
        let least = browser.eval(CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
        let moving = browser.eval("document.getAnimations().length");
        assert_eq!(moving, 0, "{scheme}");
    }
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

#[test]
fn a_page_finds_the_dashboard_again() {
    const NAME: &str = "a_page_finds_the_dashboard_again";
    let Some(chromium) = require(NAME, Needed::Chromium) else { return };
    let bench = Bench::bare();
    std::fs::create_dir_all(bench.path("run/metrics")).unwrap();
    bench.write("run/metrics/metrics.jsonl", "{\"step\":1,\"wall_time_seconds\":5.0,\"loss\":2.0}\n");
    let (first, url) = dashboard(&bench, &["run"]);
    let mut browser = Browser::start(&chromium, &bench.path("home"));
    browser.open(&url, 800, 600);
    browser.wait_for("a point", &format!("{POINTS} === 1"));
    browser.eval("window.isSamePage = true");
    drop(first);
    browser.wait_for("the loss", "document.getElementById('connection').className === 'lost'");
    bench.write(
        "run/metrics/metrics.jsonl",
        "{\"step\":1,\"loss\":2.0}\n{\"step\":2,\"loss\":\"NaN\"}\n{\"step\":3,\"loss\":1.0}\n",
    );
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap().to_string();
    let mut again = bench.command(&["dashboard", "--listen", &port, "run"]);
    let _again = Running(again.stderr(Stdio::null()).spawn().unwrap());
    browser.wait_for("the page to be live", "document.getElementById('connection').className === 'live'");
    browser.wait_for("what was missed", &format!("window.isSamePage && {POINTS} === 3"));
    browser.wait_for("the NaN", "document.querySelectorAll('figure[data-metric=loss] .not-finite').length === 1");
}

#[test]
fn what_cannot_be_shown_is_told_with_what_to_do() {
    let bench = Bench::bare();
    bench.write("file", "");
    let refused = |args: &[&str], parts: &[&str]| {
        let ran = bench.expect(2, &[&["dashboard"], args].concat());
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    };
    refused(&[], &["<RUN>"]);
    refused(&[arg(&bench.path("file"))], &["is no folder", "hint: give folders of `tpu train`"]);
    refused(&["run", "--listen", "nowhere"], &["`nowhere` is no address", "HOST:PORT"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["run", "--listen", &address], &["cannot listen on", "hint: choose another port"]);

    // A record for programs; a signal ends it well.
    let mut command = bench.command(&["dashboard", "run", "--listen", "0", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut running = Running(child);
    let mut text = String::new();
    let mut lines = BufReader::new(stdout);
    while serde_json::from_str::<serde_json::Value>(&text).is_err() {
        assert!(lines.read_line(&mut text).unwrap() > 0, "{text}");
    }
    assert!(text.contains("http://127.0.0.1:"), "{text}");
    let _ = Command::new("kill").args(["-INT", &running.0.id().to_string()]).status();
    assert!(running.0.wait().unwrap().success());
}
