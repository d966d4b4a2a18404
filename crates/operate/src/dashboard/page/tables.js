// The tables of the page: rows stay the same elements while what they say changes, so that focus and reading places stay.
import { duration, make, short, svg } from "./chart.js";

/// Makes the rows of a list: new ones are made, those that are gone removed, the others changed in place.
function rows(body, items, make, change) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  items.forEach(([key, item], place) => {
    let row = known.get(key);
    if (!row) {
      row = make(item);
      row.dataset.key = key;
    }
    known.delete(key);
    change(row, item);
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
  });
  for (const row of known.values()) row.remove();
}

function say(element, text, title = "") {
  if (element.textContent !== text) element.textContent = text;
  if (element.title !== title) element.title = title;
}

function tag(cell, text, kind) {
  let mark = cell.firstElementChild;
  if (!mark) cell.append((mark = make("span")));
  say(mark, text);
  mark.className = `tag ${kind}`;
}

/// A row of cells; the first names it. Kinds: `n` numbers, `text` prose.
function row(kinds) {
  return () => make("tr", {}, make("th", { scope: "row" }), ...kinds.map((kind) => make("td", kind ? { class: kind } : {})));
}

/// Shows a table only where it has rows.
function fill(id, none, items, make, change) {
  const body = document.getElementById(id);
  rows(body, items, make, change);
  body.closest(".wide").hidden = items.length === 0;
  document.getElementById(none).hidden = items.length > 0;
}

const percent = (share) => (typeof share === "number" ? (share * 100).toFixed(1) + " %" : "–");
const bytes = (count) => (count >= 2 ** 30 ? (count / 2 ** 30).toFixed(2) + " GiB" : (count / 2 ** 20).toFixed(1) + " MiB");

export function key(run) {
  return svg("svg", { class: `key r${run.colour}`, viewBox: "0 0 30 12", "aria-hidden": "true" },
    svg("path", { class: `curve dash${run.dashes}`, d: "M0 6H30" }));
}

const STATES = {
  running: ["running", "good"], finished: ["finished", ""], stopped: ["stopped", "warn"],
  "not-answering": ["not answering", "bad"], empty: ["nothing written yet", ""],
};

function ago(seconds, now) {
  return seconds > 0 ? duration(Math.max(0, now - seconds)) + " ago" : "–";
}

export function fillRuns(runs, now, onShow) {
  const made = (run) => {
    const box = make("input", { type: "checkbox" });
    box.addEventListener("change", () => onShow(run.id, box.checked));
    const line = row(["", "n", "n", "n", "n", "n", "n", "n", "n", ""])();
    line.cells[0].append(make("label", {}, box, key(run), make("span")));
    return line;
  };
  rows(document.getElementById("run-rows"), runs.map((run) => [String(run.id), run]), made, (line, run) => {
    const [name, state, step, loss, validation, tokens, time, mfu, goodput, alerts, newest] = line.cells;
    const { summary } = run;
    const box = name.querySelector("input");
    if (box.checked !== run.isShown) box.checked = run.isShown;
    say(name.querySelector("label span"), run.name, summary.folder);
    tag(state, ...(STATES[summary.state] || [summary.state, ""]));
    say(step, summary.step === null ? "–" : summary.steps ? `${summary.step} of ${summary.steps}` : String(summary.step));
    say(loss, short(summary.newest.loss));
    say(validation, short(summary.newest.evaluation_loss));
    say(tokens, short(summary.newest.tokens_per_second));
    say(time, typeof summary.newest.step_seconds === "number" ? duration(summary.newest.step_seconds) : "–");
    say(mfu, percent(summary.newest.mfu));
    say(goodput, summary.goodput.length > 0 ? percent(summary.goodput[0].ratio) : "–");
    const firing = summary.alerts.firing.length;
    tag(alerts, firing === 0 ? "none" : `${firing} firing`, firing === 0 ? "" : "bad");
    const unreadable = summary.unreadable_lines > 0 ? `; ${summary.unreadable_lines} lines are no records` : "";
    say(newest, (summary.problem || ago(summary.time_seconds, now)) + unreadable);
  });
}

export function fillProcesses(runs, now) {
  const items = runs.flatMap((run) => run.summary.processes.map((process, n) => [`${run.id}/${process.process ?? n}`, { run, process }]));
  fill("process-rows", "no-processes", items, row(["n", "", "n", "text", "", "n", "n", "n", "n"]), (line, { run, process }) => {
    const [name, number, host, pid, state, phase, step, since, hbm, recompilations] = line.cells;
    say(name, run.name);
    say(number, String(process.process ?? "–"));
    say(host, process.host || process.address || "–");
    say(pid, String(process.pid ?? "–"));
    tag(state, process.problem || "answers", process.is_alive ? (process.problem ? "warn" : "good") : "bad");
    say(phase, process.phase ? `${process.phase} for ${duration(process.phase_seconds)}` : "–");
    say(step, String(process.step ?? "–"));
    say(since, duration(process.step_age_seconds ?? NaN));
    const limit = process.hbm_limit_bytes ? ` of ${bytes(process.hbm_limit_bytes)}` : "";
    say(hbm, process.hbm_used_bytes === null ? "–" : bytes(process.hbm_used_bytes) + limit);
    say(recompilations, String(process.recompilations ?? "–"));
  });
}

const PARTS = {
  productive: ["productive", 9], lost_work: ["lost work", 1], restart: ["restart", 4], initialize: ["initialize", 5], compile: ["compile", 3],
  data: ["data", 6], checkpoint_save: ["checkpoint save", 0], checkpoint_restore: ["checkpoint restore", 2], evaluation: ["evaluation", 7], other: ["other", 8],
};

export function fillGoodput(runs) {
  const items = runs.flatMap((run) => run.summary.goodput.map((goodput) => [`${run.id}/${goodput.process}`, { run, goodput }]));
  const legend = document.getElementById("goodput-legend");
  legend.hidden = items.length === 0;
  if (legend.childElementCount === 0) {
    for (const [text, colour] of Object.values(PARTS)) legend.append(make("span", {}, make("i", { class: `swatch r${colour}` }), text));
  }
  fill("goodput-rows", "no-goodput", items, row(["n", "n", "n", "n", "", "text"]), (line, { run, goodput }) => {
    const [name, process, ratio, elapsed, attempts, shares, rest] = line.cells;
    say(name, run.name);
    say(process, String(goodput.process));
    say(ratio, percent(goodput.ratio));
    say(elapsed, duration(goodput.elapsed_seconds));
    say(attempts, String(goodput.attempts));
    const share = (seconds) => seconds / Math.max(goodput.elapsed_seconds, 1e-9);
    let at = 0;
    const bars = goodput.parts.map(([part, seconds]) => {
      const width = share(seconds) * 240;
      const bar = svg("rect", { class: `part r${(PARTS[part] || PARTS.other)[1]}`, x: at.toFixed(2), y: 0, width: width.toFixed(2), height: 16 });
      at += width;
      return bar;
    });
    const text = goodput.parts.filter(([part, seconds]) => part !== "productive" && share(seconds) >= 0.0005).sort((a, b) => b[1] - a[1])
      .map(([part, seconds]) => `${(PARTS[part] || [part])[0]} ${percent(share(seconds))}`).join(", ");
    if (rest.textContent !== text || shares.childElementCount === 0) {
      shares.replaceChildren(svg("svg", { class: "shares", viewBox: "0 0 240 16", preserveAspectRatio: "none", "aria-hidden": "true" }, ...bars));
    }
    say(rest, text || "nothing");
  });
}

export function fillAlerts(runs, now) {
  const firing = runs.flatMap((run) => run.summary.alerts.firing.map((alert) => ({ run, alert, isFiring: true })));
  const told = runs.flatMap((run) => run.summary.alerts.recent.map((alert) => ({ run, alert, isFiring: false })));
  const isFiring = ({ alert }) => firing.some((other) => other.alert.time_seconds === alert.time_seconds && other.alert.alert === alert.alert);
  const recent = told.filter((item) => !isFiring(item)).sort((a, b) => b.alert.time_seconds - a.alert.time_seconds).slice(0, 20);
  const name = ({ run, alert }) => `${run.id}/${alert.alert}/${alert.state}/${alert.time_seconds}/${alert.process}/${JSON.stringify(alert.labels)}`;
  const items = [...firing, ...recent].map((item) => [name(item), item]);
  say(document.getElementById("alerts-title"), firing.length === 0 ? "Alerts" : `Alerts: ${firing.length} firing`);
  fill("alert-rows", "no-alerts", items, row(["", "", "", "", "", "n", "text"]), (line, { run, alert, isFiring }) => {
    const [title, state, severity, where, when, rule, value, meaning] = line.cells;
    say(title, alert.alert);
    tag(state, isFiring ? "firing" : alert.state === "firing" ? "fired" : alert.state, isFiring ? "bad" : "");
    say(severity, alert.severity || "–");
    say(where, run.name + (typeof alert.process === "number" ? `, process ${alert.process}` : ""));
    say(when, ago(alert.time_seconds, now));
    say(rule, [alert.metric, alert.when].filter(Boolean).join(" "));
    say(value, short(alert.value));
    say(meaning, [alert.summary, alert.remedy].filter(Boolean).join(" → ") || "–");
  });
}

export function fillReports(runs) {
  const links = runs.flatMap((run) => run.summary.reports.map((report) => [`${run.id}/${report.place}`, { run, report }]));
  const profiles = runs.flatMap((run) => run.summary.profiles.map((path) => [`${run.id}/p/${path}`, { run, path }]));
  document.getElementById("no-reports").hidden = links.length + profiles.length > 0;
  const made = ({ run, report, path }) => {
    if (!report) return make("li", {}, `${run.name}: profile `, make("code", {}, `tpu profile report '${run.summary.folder}/${path}'`));
    const link = make("a", { href: `runs/${run.id}/reports/${report.place}`, target: "_blank", rel: "noopener" }, report.title);
    return make("li", {}, `${run.name}: `, link, ` (${report.path})`);
  };
  rows(document.getElementById("report-rows"), [...links, ...profiles], made, () => {});
}
