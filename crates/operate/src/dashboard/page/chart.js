// One chart of a metric: curves of several runs, their extremes, a cursor for pointer and keyboard, and a table behind it.
const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 58, right: 12, top: 10, bottom: 24 };
const TABLE_ROWS = 24;

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/// A number for people: four digits.
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e9 || size < 1e-4) return value.toExponential(2);
  if (size >= 1e6) return (value / 1e6).toPrecision(4) + "M";
  if (size >= 1e4) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const sign = seconds < 0 ? "-" : "";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 0.1) return sign + Number((size * 1000).toPrecision(3)) + " ms";
  if (size < 10) return sign + size.toFixed(2).replace(/\.?0+$/, "") + " s";
  if (size < 120) return sign + Math.round(size) + " s";
  if (size < 7200) return sign + Math.floor(size / 60) + " min " + Math.round(size % 60) + " s";
  if (size < 172800) return sign + Math.floor(size / 3600) + " h " + Math.round((size % 3600) / 60) + " min";
  return sign + (size / 86400).toFixed(1) + " d";
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

const AXES = {
  step: { of: (run, curve, at) => curve.step[at], text: (x) => "step " + Math.round(x), tick: (x) => short(x), name: "step" },
  elapsed: { of: (run, curve, at) => curve.time[at] - run.firstTime, text: duration, tick: duration, name: "time" },
  clock: { of: (run, curve, at) => curve.time[at], text: clock, tick: clock, name: "time of day" },
};

/// A place in a picture: a tenth of a point is enough.
function tenth(place) {
  return Math.round(place * 10) / 10;
}

function smooth(values, weight) {
  if (weight === 0) return values;
  let sum = 0, share = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return sum / share;
  });
}

function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw) || raw;
  const found = [];
  for (let at = Math.ceil(low / size); at * size <= high + size * 1e-9 && found.length < 20; at++) found.push(at * size);
  return found;
}

function logTicks(low, high) {
  const found = [];
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const every = Math.max(1, Math.ceil((last - first) / 6));
  for (let power = first; power <= last; power += every) {
    for (const n of last - first <= 2 ? [1, 2, 5] : [1]) found.push(n * 10 ** power);
  }
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  return inside.length > 1 ? inside : ticks(low, high, 4).filter((value) => value > 0);
}

export class Chart {
  constructor(metric, title, format) {
    this.metric = metric;
    this.title = title;
    this.format = format;
    this.at = null;
    this.series = [];
    const id = "chart-" + metric.replace(/[^A-Za-z0-9_-]/g, "_");
    this.points = make("span");
    this.says = make("p", { class: "unseen", id: id + "-says" });
    this.picture = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.plot = make("div", {
      class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart", "aria-labelledby": id, "aria-describedby": id + "-says",
    }, this.picture);
    this.readout = make("p", { class: "readout", role: "status" });
    this.table = make("table", {}, make("caption", { class: "unseen" }, title), make("thead"), make("tbody"));
    this.details = make("details", {}, make("summary", {}, "Table: " + title), make("div", { class: "wide" }, this.table));
    this.figure = make("figure", { "data-metric": metric },
      make("figcaption", {}, make("h3", { id }, title), this.points), this.plot, this.says, this.readout, this.details);
    this.details.addEventListener("toggle", () => this.fillTable());
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.move(null));
    this.plot.addEventListener("blur", () => this.move(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  draw(runs, settings) {
    this.settings = settings;
    this.axis = AXES[settings.x];
    this.series = runs.map((run) => {
      const curve = run.curves.get(this.metric);
      const xs = curve.step.map((_, at) => this.axis.of(run, curve, at));
      return { run, curve, xs, ys: smooth(curve.mean, settings.smoothing) };
    });
    const points = this.series.reduce((sum, { curve }) => sum + curve.points, 0);
    this.points.textContent = points === 1 ? "1 point" : points.toLocaleString("en-US") + " points";
    this.size = { width: Math.max(240, this.plot.clientWidth), height: Math.max(120, this.plot.clientHeight) };
    this.picture.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    this.scale();
    const parts = [...this.drawAxes()];
    for (const series of this.series) parts.push(...this.drawSeries(series));
    this.marks = svg("g");
    this.picture.replaceChildren(...parts, this.marks);
    this.drawCursor();
    this.describe();
    if (this.details.open) this.fillTable();
  }

  scale() {
    const isLog = this.settings.isLog;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    const see = (y) => {
      if (y === null || (isLog && y <= 0)) return;
      y0 = Math.min(y0, y);
      y1 = Math.max(y1, y);
    };
    for (const { curve, xs, ys } of this.series) {
      for (const x of xs) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
      for (const list of [ys, curve.mean, curve.min, curve.max]) list.forEach(see);
    }
    if (x0 > x1) [x0, x1] = [0, 1];
    if (x0 === x1) [x0, x1] = [x0 - 0.5, x1 + 0.5];
    if (y0 > y1) [y0, y1] = isLog ? [0.1, 1] : [0, 1];
    if (y0 === y1) [y0, y1] = isLog ? [y0 / 2, y1 * 2] : [y0 - (Math.abs(y0) || 1) * 0.1, y1 + (Math.abs(y1) || 1) * 0.1];
    else if (!isLog) { const more = (y1 - y0) * 0.04; [y0, y1] = [y0 - more, y1 + more]; }
    this.range = { x0, x1, y0, y1 };
    const { width, height } = this.size;
    const value = isLog ? Math.log : (y) => y;
    const [low, high] = [value(y0), value(y1)];
    this.x = (x) => MARGIN.left + ((x - x0) / (x1 - x0)) * (width - MARGIN.left - MARGIN.right);
    this.y = (y) => height - MARGIN.bottom - ((value(y) - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
    this.isDrawn = (y) => y !== null && y !== undefined && (!isLog || y > 0);
  }

  drawAxes() {
    const { x0, x1, y0, y1 } = this.range;
    const { width, height } = this.size;
    const parts = [];
    for (const y of this.settings.isLog ? logTicks(y0, y1) : ticks(y0, y1, 4)) {
      const at = tenth(this.y(y));
      parts.push(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      parts.push(svg("text", { x: MARGIN.left - 6, y: Number(at) + 4, "text-anchor": "end" }, this.format(y)));
    }
    for (const x of ticks(x0, x1, Math.max(2, Math.floor(width / 130)))) {
      const anchor = this.x(x) > width - 40 ? "end" : "middle";
      parts.push(svg("text", { x: tenth(this.x(x)), y: height - 6, "text-anchor": anchor }, this.axis.tick(x)));
    }
    return parts;
  }

  line(xs, ys) {
    let text = "", isDown = false;
    ys.forEach((y, at) => {
      if (!this.isDrawn(y)) { isDown = false; return; }
      text += (isDown ? "L" : "M") + tenth(this.x(xs[at])) + " " + tenth(this.y(y));
      isDown = true;
    });
    return text;
  }

  drawSeries({ run, curve, xs, ys }) {
    const parts = [];
    const look = `r${run.colour}`;
    if (curve.min.length > 0) {
      const seen = xs.map((_, at) => at).filter((at) => this.isDrawn(curve.min[at]) && this.isDrawn(curve.max[at]));
      const edge = (list) => list.map(([x, y]) => tenth(this.x(x)) + " " + tenth(this.y(y)));
      const outline = [...edge(seen.map((at) => [xs[at], curve.max[at]])), ...edge(seen.reverse().map((at) => [xs[at], curve.min[at]]))];
      if (outline.length > 0) parts.push(svg("path", { class: `band ${look}`, d: "M" + outline.join("L") + "Z" }));
    } else if (this.settings.smoothing > 0) {
      parts.push(svg("path", { class: `curve raw ${look}`, d: this.line(xs, curve.mean) }));
    }
    parts.push(svg("path", { class: `curve ${look} dash${run.dashes}`, d: this.line(xs, ys), "data-run": run.id }));
    if (xs.length === 1 && this.isDrawn(ys[0])) {
      parts.push(svg("circle", { class: `lone ${look}`, cx: this.x(xs[0]), cy: this.y(ys[0]), r: 3 }));
    }
    for (const at of curve.not_finite.slice(0, 200)) {
      const x = tenth(this.x(xs[at]));
      parts.push(svg("path", { class: "not-finite", d: `M${x} ${MARGIN.top}m-3 -3l6 6m0 -6l-6 6` }));
    }
    return parts;
  }

  value({ curve, ys }, at) {
    return curve.not_finite.includes(at) ? (ys[at] === null ? "not finite" : this.format(ys[at]) + " (some not finite)") : this.format(ys[at]);
  }

  describe() {
    const { x0, x1 } = this.range;
    const lines = this.series.map((series) => {
      const known = series.ys.filter((y) => y !== null);
      if (known.length === 0) return `${series.run.name}: no finite value`;
      const last = this.value(series, series.ys.length - 1);
      return `${series.run.name}: from ${this.format(known[0])} to ${last}, least ${this.format(Math.min(...known))}, most ${this.format(Math.max(...known))}`;
    });
    const text = `${this.title} by ${this.axis.name}, ${this.axis.text(x0)} to ${this.axis.text(x1)}. ${lines.join(". ")}. ` +
      "Left and right arrow keys move along the curves, Home and End go to the ends.";
    if (this.says.textContent !== text) this.says.textContent = text;
  }

  /// The place in a series that is nearest.
  nearest({ xs }, x) {
    let [low, high] = [0, xs.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && Math.abs(xs[low - 1] - x) <= Math.abs(xs[low] - x) ? low - 1 : low;
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    const inside = (event.clientX - box.left) * (this.size.width / box.width) - MARGIN.left;
    const share = inside / (this.size.width - MARGIN.left - MARGIN.right);
    this.move(this.range.x0 + Math.min(1, Math.max(0, share)) * (this.range.x1 - this.range.x0));
  }

  key(event) {
    const longest = this.series.reduce((best, series) => (best && best.xs.length >= series.xs.length ? best : series), null);
    if (!longest || longest.xs.length === 0) return;
    const last = longest.xs.length - 1;
    const now = this.at === null ? last : this.nearest(longest, this.at);
    const step = Math.max(1, Math.round(last / 50));
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - step, PageDown: now + step, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.move(to === null ? null : longest.xs[Math.min(last, Math.max(0, this.at === null && event.key.startsWith("Arrow") ? now : to))]);
  }

  move(x) {
    this.at = x;
    this.drawCursor();
  }

  drawCursor() {
    if (this.at === null || this.series.length === 0) {
      this.marks.replaceChildren();
      this.readout.textContent = "";
      return;
    }
    const x = tenth(this.x(this.at));
    const parts = [svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: this.size.height - MARGIN.bottom })];
    const values = [];
    for (const series of this.series) {
      const at = this.nearest(series, this.at);
      if (series.xs[at] === undefined) continue;
      if (this.isDrawn(series.ys[at])) {
        parts.push(svg("circle", { class: `dot r${series.run.colour}`, cx: tenth(this.x(series.xs[at])), cy: tenth(this.y(series.ys[at])), r: 4 }));
      }
      values.push(`${series.run.name} ${this.value(series, at)}`);
    }
    this.marks.replaceChildren(...parts);
    this.readout.textContent = `${this.axis.text(this.at)}: ${values.join(", ")}`;
  }

  fillTable() {
    const [head, body] = [this.table.tHead, this.table.tBodies[0]];
    const longest = this.series.reduce((best, series) => (best && best.xs.length >= series.xs.length ? best : series), null);
    if (!this.details.open || !longest) return;
    const heads = this.series.map(({ run }) => make("th", { scope: "col", class: "n" }, run.name));
    head.replaceChildren(make("tr", {}, make("th", { scope: "col" }, this.axis.name), ...heads));
    const last = longest.xs.length - 1;
    const count = Math.min(TABLE_ROWS, last + 1);
    const rows = Array.from({ length: count }, (_, n) => {
      const x = longest.xs[count === 1 ? 0 : Math.round((n * last) / (count - 1))];
      const cells = this.series.map((series) => {
        const at = this.nearest(series, x);
        const isInside = series.xs.length > 0 && x >= series.xs[0] && x <= series.xs[series.xs.length - 1];
        return make("td", { class: "n" }, isInside ? this.value(series, at) : "–");
      });
      return make("tr", {}, make("th", { scope: "row" }, this.axis.text(x)), ...cells);
    });
    body.replaceChildren(...rows);
  }
}
