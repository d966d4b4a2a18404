// Shows runs as the server tells of them: hears of changes, keeps curves, and draws on the next frame.
import { Chart, duration, short } from "./chart.js";
import { fillAlerts, fillGoodput, fillProcesses, fillReports, fillRuns } from "./tables.js";

const percent = (share) => (share * 100).toPrecision(3) + " %";
/// Metrics in the order they are shown, with the words and the format for them. Others follow by name.
const METRICS = new Map([
  ["loss", ["Loss", short]],
  ["evaluation_loss", ["Validation loss", short]],
  ["learning_rate", ["Learning rate", short]],
  ["grad_norm", ["Gradient norm", short]],
  ["tokens_per_second", ["Tokens per second", short]],
  ["step_seconds", ["Step time", duration]],
  ["mfu", ["MFU", percent]],
]);
/// Buckets of a curve, fewer where many are drawn; with twice as many points the server is asked to join them.
const MAX_BUCKETS = 600;
const MIN_BUCKETS = 150;
const ALL_BUCKETS = 4800;
/// Between two requests for the curves of a run.
const RELOAD_MS = 1000;
/// From news of a run to the request for its curves.
const GATHER_MS = 50;
/// From news to its drawing.
const DRAW_MS = 150;

const runs = new Map();
const charts = new Map();
const byId = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const settings = {
  x: ["step", "elapsed", "clock"].includes(asked.get("x")) ? asked.get("x") : "step",
  smoothing: Math.min(0.99, Math.max(0, Number(asked.get("smoothing")) || 0)),
  isLog: asked.get("log") === "1",
};
const hidden = new Set((asked.get("hide") || "").split(",").filter(Boolean));

function announce(text) {
  byId("announce").textContent = text;
}

// What the reader chose is in the address, so that it can be kept and sent.
function keep() {
  const now = new URLSearchParams();
  if (settings.x !== "step") now.set("x", settings.x);
  if (settings.smoothing > 0) now.set("smoothing", settings.smoothing);
  if (settings.isLog) now.set("log", "1");
  if (hidden.size > 0) now.set("hide", [...hidden].join(","));
  history.replaceState(null, "", (now.size > 0 ? "?" + now : location.pathname) + location.hash);
}

/// The shortest ends of paths that tell all runs apart.
function nameRuns() {
  const all = [...runs.values()];
  const parts = (run) => run.summary.folder.split("/").filter(Boolean);
  for (const run of all) {
    const own = parts(run);
    for (let count = 1; count <= own.length; count++) {
      run.name = own.slice(-count).join("/");
      if (!all.some((other) => other !== run && parts(other).slice(-count).join("/") === run.name)) break;
    }
    run.name = run.name || run.summary.folder;
  }
}

let isDrawing = false;
/// Draws on the next frame: for what the reader does.
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    drawNow();
  });
}

let isDue = false;
/// Draws soon: for news, which can be many.
function drawSoon() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    draw();
  }, DRAW_MS);
}

function drawNow() {
  const all = [...runs.values()].sort((a, b) => a.id - b.id);
  const now = Date.now() / 1000;
  fillRuns(all, now, show);
  const shown = all.filter((run) => run.isShown);
  fillProcesses(shown, now);
  fillGoodput(shown);
  fillAlerts(shown, now);
  fillReports(shown);
  const metrics = new Set(shown.flatMap((run) => [...run.curves.keys()]));
  const known = [...METRICS.keys()].filter((metric) => metrics.has(metric));
  const order = [...known, ...[...metrics].filter((metric) => !METRICS.has(metric)).sort()];
  const place = byId("charts");
  for (const [metric, chart] of charts) {
    if (!metrics.has(metric)) {
      chart.figure.remove();
      charts.delete(metric);
    }
  }
  order.forEach((metric, at) => {
    if (!charts.has(metric)) charts.set(metric, new Chart(metric, ...(METRICS.get(metric) || [metric, short])));
    const { figure } = charts.get(metric);
    if (place.children[at] !== figure) place.insertBefore(figure, place.children[at] || null);
  });
  for (const metric of order) {
    const chart = charts.get(metric);
    const having = shown.filter((run) => run.curves.has(metric));
    const state = JSON.stringify([settings, having.map((run) => [run.id, run.name, run.drawn]), chart.plot.clientWidth]);
    // Charts are drawn again only where something changed.
    if (chart.state !== state) chart.draw(having, settings);
    chart.state = state;
  }
  byId("no-curves").hidden = order.length > 0;
}

function show(id, isShown) {
  const run = runs.get(id);
  if (!run) return;
  run.isShown = isShown;
  if (isShown) hidden.delete(String(id)); else hidden.add(String(id));
  if (isShown) load(run);
  keep();
  draw();
}

function onRun(summary) {
  let run = runs.get(summary.id);
  if (!run) {
    run = { id: summary.id, colour: summary.id % 8, dashes: (summary.id + Math.floor(summary.id / 8)) % 4, curves: new Map(), drawn: 0, nextLine: 0, generation: -1, isLoading: false };
    run.isShown = !hidden.has(String(summary.id));
    runs.set(summary.id, run);
  }
  const before = run.summary;
  const isNew = !before;
  run.summary = summary;
  run.firstTime = summary.first_time_seconds;
  if (isNew) {
    nameRuns();
    if (isConnected) announce(`Run ${run.name} appeared`);
  } else {
    const known = before.alerts.firing.map((alert) => JSON.stringify(alert));
    for (const alert of summary.alerts.firing) {
      if (!known.includes(JSON.stringify(alert))) announce(`Alert ${alert.alert} fires in run ${run.name}. ${alert.summary || ""}`);
    }
  }
  // Its curves were never got, or were those of a dashboard that is gone.
  if (run.generation < 0 && run.isShown) load(run);
  drawSoon();
}

/// Gets the curves of a run, at most so often.
function load(run) {
  run.isStale = run.isLoading;
  if (run.isLoading) return;
  run.isLoading = true;
  get(run).finally(() => setTimeout(() => {
    run.isLoading = false;
    if (run.isStale && runs.get(run.id) === run) load(run);
  }, RELOAD_MS));
}

async function get(run) {
  // Runs that are told together are counted together.
  await new Promise((done) => setTimeout(done, GATHER_MS));
  const shown = [...runs.values()].filter((other) => other.isShown).length;
  run.buckets = Math.round(Math.min(MAX_BUCKETS, Math.max(MIN_BUCKETS, ALL_BUCKETS / Math.max(1, shown))));
  const answer = await fetch(`api/runs/${run.id}/curves?buckets=${run.buckets}`).catch(() => null);
  const told = answer && answer.ok ? await answer.json().catch(() => null) : null;
  if (!told || runs.get(run.id) !== run) return;
  run.curves = new Map(Object.entries(told.curves));
  run.generation = told.generation;
  run.nextLine = told.next_line;
  run.drawn += 1;
  drawSoon();
}

const NOT_FINITE = new Set(["NaN", "Infinity", "-Infinity"]);

function onLines({ id, generation, first_line, lines }) {
  const run = runs.get(id);
  if (!run || !run.isShown) return;
  if (run.generation !== generation || first_line > run.nextLine) {
    load(run);
    return;
  }
  let isLong = false;
  lines.forEach(([step, time, values], n) => {
    if (first_line + n < run.nextLine) return;
    for (const [metric, value] of Object.entries(values)) {
      if (!run.curves.has(metric)) run.curves.set(metric, { step: [], time: [], mean: [], min: [], max: [], not_finite: [], points: 0 });
      const curve = run.curves.get(metric);
      const isFinite = !NOT_FINITE.has(value);
      curve.step.push(step);
      curve.time.push(time);
      curve.mean.push(isFinite ? value : null);
      if (curve.min.length > 0) {
        curve.min.push(isFinite ? value : null);
        curve.max.push(isFinite ? value : null);
      }
      if (!isFinite) curve.not_finite.push(curve.mean.length - 1);
      curve.points += 1;
      isLong = isLong || curve.step.length > 2 * run.buckets;
    }
  });
  run.nextLine = Math.max(run.nextLine, first_line + lines.length);
  run.drawn += 1;
  if (isLong) load(run);
  drawSoon();
}

function onGone({ id }) {
  const run = runs.get(id);
  if (!run) return;
  runs.delete(id);
  nameRuns();
  announce(`Run ${run.name} is gone`);
  drawSoon();
}

function onSources({ waiting, has_more }) {
  const notice = byId("waiting");
  const texts = [];
  if (waiting.length > 0) texts.push(`Waiting for a run in ${waiting.join(", ")}.`);
  if (has_more) texts.push("There are more runs than are shown; name fewer folders.");
  notice.textContent = texts.join(" ");
  notice.hidden = texts.length === 0;
}

let isConnected = false;
function say(state, text) {
  isConnected = state === "live";
  const place = byId("connection");
  place.className = state;
  if (place.textContent !== text) place.textContent = text;
}

let source = null;
let heard = new Set();
function connect() {
  if (source || document.hidden) return;
  source = new EventSource("api/events");
  const on = (name, hear) => source.addEventListener(name, (event) => hear(JSON.parse(event.data)));
  source.addEventListener("open", () => {
    heard = new Set();
    // What a new connection does not tell of is gone; what was missed is asked for again.
    setTimeout(() => {
      for (const id of [...runs.keys()]) if (!heard.has(id)) onGone({ id });
      say("live", "Live");
    }, 500);
    for (const run of runs.values()) {
      run.generation = -1;
      if (run.isShown) load(run);
    }
  });
  on("run", (summary) => {
    heard.add(summary.id);
    onRun(summary);
  });
  on("lines", onLines);
  on("reload", ({ id }) => runs.has(id) && runs.get(id).isShown && load(runs.get(id)));
  on("gone", onGone);
  on("sources", onSources);
  source.addEventListener("error", () => {
    say("lost", "The dashboard does not answer; trying again");
    // A refused connection is not tried again by the browser.
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(connect, 2000);
    }
  });
}

// A page nobody looks at leaves its connection to others.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && source) {
    source.close();
    source = null;
  }
  connect();
});

for (const input of document.querySelectorAll("input[name=x]")) {
  input.checked = input.value === settings.x;
  input.addEventListener("change", () => {
    settings.x = input.value;
    keep();
    draw();
  });
}
const smoothing = byId("smoothing");
smoothing.value = settings.smoothing;
byId("smoothing-value").textContent = settings.smoothing;
smoothing.addEventListener("input", () => {
  settings.smoothing = Number(smoothing.value);
  byId("smoothing-value").textContent = settings.smoothing;
  keep();
  draw();
});
byId("log").checked = settings.isLog;
byId("log").addEventListener("change", () => {
  settings.isLog = byId("log").checked;
  keep();
  draw();
});
byId("settings").addEventListener("submit", (event) => event.preventDefault());
byId("show-all").addEventListener("click", () => [...runs.keys()].forEach((id) => show(id, true)));
byId("show-none").addEventListener("click", () => [...runs.keys()].forEach((id) => show(id, false)));
addEventListener("resize", draw);
// Ages grow without news.
setInterval(draw, 5000);
connect();
