/** Charts over time, drawn by uPlot, with the current value of each series beside its name. */

import { h, fill, show } from "./dom.js";
import { preference, prefer } from "./preferences.js";
import * as theme from "./theme.js";

/** The ranges that can be chosen: label, age and step in seconds, as the API samples them. */
export const RANGES = [
  ["last minute", 60, 5], ["last 10 minutes", 600, 5], ["last hour", 3600, 60], ["last 8 hours", 28800, 600], ["last day", 86400, 1800],
];
const HEIGHT = 180;
const LABEL_WIDTH = 56; // of a time
const CHARACTER_WIDTH = 7; // of a label, at most on average
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power); // of an axis of bytes
const COLOURS = 11; // --series-0 to --series-10 in the style sheet

/** Return the query of a range for samples of these families: "lengths", "msg_rates", "data_rates", "node_stats". */
export function rangeQuery(families) {
  const [, age, step] = RANGES[preference("range", 0)] ?? RANGES[0];
  return Object.fromEntries(families.flatMap((family) => [[`${family}_age`, age], [`${family}_incr`, step]]));
}

/** A choice of the range of all charts. */
export function rangeChooser(changed) {
  const select = h("select", { "aria-label": "Time range of the charts", onchange: () => {
    prefer("range", Number(select.value));
    changed();
  } }, RANGES.map(([label], at) => h("option", { value: at, selected: at === preference("range", 0) }, label)));
  return select;
}

/** The colour of a variable of the style sheet in the scheme of now; a canvas cannot resolve it. */
function colour(name) {
  const probe = h("i", { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Points of a counter's samples: changes a second between neighbours; of a level: the values themselves. */
function pointsOf(details, asRate) {
  const samples = [...(details?.samples ?? [])].sort((one, other) => one.timestamp - other.timestamp);
  if (!asRate) return samples.map(({ timestamp, sample }) => [timestamp / 1000, sample]);
  return samples.slice(1).map(({ timestamp, sample }, at) => {
    const before = samples[at];
    return [timestamp / 1000, Math.max(0, ((sample - before.sample) * 1000) / (timestamp - before.timestamp))];
  });
}

/** The times of an axis in the reader's zone, with seconds if they are less than a minute apart. */
function timesOfAxis(times) {
  const second = times[1] - times[0] < 60 ? "2-digit" : undefined;
  return times.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second, hourCycle: "h23" }));
}

/** The width of the axis with these values, none of which is cut off. */
const widthOfLabels = (_, labels) =>
  Math.max(LABEL_WIDTH, 16 + CHARACTER_WIDTH * Math.max(0, ...(labels ?? []).map((label) => label.length)));

const charts = new WeakMap(); // by element, so that those of pages that were left can be freed

theme.changed.addEventListener("changed", () => {
  for (const element of document.querySelectorAll("figure.chart")) charts.get(element).redraw();
});

export class Chart {
  #plot = null;
  #data = null;
  #series;
  #format;
  #rates;
  #binary;

  /**
   * @param {string} title
   * @param {Array<[string, string]>} series label and field of each; the samples of `field` are in `field_details`
   * @param {{rates?: boolean, binary?: boolean, format: (value: number) => string}} options `rates`: the fields are
   *   counters; `binary`: they are bytes
   */
  constructor(title, series, { rates = false, binary = false, format }) {
    this.#series = series.map(([label, field], at) => ({ label, field, at, shown: preference(`chart.${title}.${field}`, true) }));
    this.#format = format;
    this.#rates = rates;
    this.#binary = binary;
    this.title = title;
    this.drawing = h("div.drawing", { role: "img", "aria-label": title });
    this.legend = h("ul.legend");
    for (const one of this.#series) {
      one.value = h("b");
      one.button = h("button", {
        type: "button", "aria-pressed": String(one.shown), title: "show or hide", onclick: () => this.#toggle(one),
      }, h(`i.key.series-${one.at % COLOURS}`), ` ${one.label} `, one.value);
      one.entry = h("li", {}, one.button);
      this.legend.append(one.entry);
    }
    this.nothing = h("p.empty", {}, "nothing yet");
    this.element = h("figure.chart", {}, h("figcaption", {}, title), this.nothing, this.drawing, this.legend);
    charts.set(this.element, this);
    new ResizeObserver(() => this.#resize()).observe(this.drawing);
  }

  #toggle(one) {
    one.shown = !one.shown;
    prefer(`chart.${this.title}.${one.field}`, one.shown);
    one.button.setAttribute("aria-pressed", String(one.shown));
    this.#plot?.setSeries(one.at + 1, { show: one.shown });
  }

  /** Draw the same data in the colours of now. */
  redraw() {
    this.#plot?.destroy();
    this.#plot = null;
    if (this.#data !== null) this.plot(this.#data);
  }

  #resize() {
    const width = this.drawing.clientWidth;
    if (this.#plot !== null && width) this.#plot.setSize({ width, height: HEIGHT });
  }

  /** Draw the samples of an object, for example its `message_stats`. */
  draw(stats) {
    const all = this.#series.map((one) => new Map(pointsOf(stats?.[`${one.field}_details`], this.#rates)));
    for (const one of this.#series) {
      const current = this.#rates ? stats?.[`${one.field}_details`]?.rate : stats?.[one.field];
      fill(one.value, current === undefined ? "" : this.#format(current));
      show(one.entry, current !== undefined); // the API leaves out what never happened
    }
    const said = this.#series.map((one) => `${one.label} ${one.value.textContent || "unknown"}`).join(", ");
    this.drawing.setAttribute("aria-label", `${this.title}: ${said}`);
    const times = [...new Set(all.flatMap((points) => [...points.keys()]))].sort((one, other) => one - other);
    this.plot([times, ...all.map((points) => times.map((at) => points.get(at) ?? null))]);
  }

  /** Draw columns: the times in seconds, and the values of each series. */
  plot(data) {
    this.#data = data;
    show(this.nothing, data[0].length === 0);
    show(this.drawing, data[0].length > 0);
    if (!this.drawing.clientWidth) return;
    if (this.#plot === null) {
      this.#plot = new window.uPlot(this.#options(), data, this.drawing);
    } else this.#plot.setData(data);
  }

  #options() {
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    return {
      width: this.drawing.clientWidth, height: HEIGHT, padding: [null, LABEL_WIDTH / 2, null, null],
      legend: { show: false }, cursor: { drag: { setScale: false } },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.05)] } },
      axes: [{ ...axis, space: LABEL_WIDTH + 14, size: 32, values: (_, times) => timesOfAxis(times) }, {
        ...axis, size: widthOfLabels, values: (_, values) => values.map((value) => this.#format(value)),
        ...(this.#binary ? { incrs: BINARY_STEPS } : {}),
      }],
      series: [{}, ...this.#series.map((one) => ({
        label: one.label, stroke: colour(`--series-${one.at % COLOURS}`), width: 2,
        show: one.shown, spanGaps: true, points: { show: false },
        value: (_, value) => (value === null ? "" : this.#format(value)),
      }))],
    };
  }
}
