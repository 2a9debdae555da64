/** Charts over time, drawn by uPlot, with a value of each line beside its name: that of the time below the cursor. */

import { h, fill, show } from "./dom.js";
import { axisTime } from "./format.js";
import { preference, prefer } from "./preferences.js";
import * as theme from "./theme.js";

const HEIGHT = 180;
const LABEL_WIDTH = 56; // of a time
const CHARACTER_WIDTH = 7; // of a label, at most on average
const COLOURS = 11; // --series-0 to --series-10 in the style sheet
const ALONE_S = 60; // the time that a chart with one sample shows

const powers = (count, first = 1) => Array.from({ length: count }, (_, power) => first * 2 ** power);

/** The steps of an axis of counts, which have no fractions. */
export const COUNT_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();
/** The steps of an axis of bytes. */
export const BYTE_STEPS = powers(60);
/** The steps of an axis of seconds: multiples of minutes and hours rather than of a hundred seconds. */
export const SECOND_STEPS = [
  ...[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1].flatMap((one) => [one, 2 * one, 5 * one]),
  ...[1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200], ...powers(12, 86400),
];

/** The colour of a variable of the style sheet in the present scheme, which a canvas cannot resolve. */
function colour(name) {
  const probe = h("i", { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const resolved = getComputedStyle(probe).color;
  probe.remove();
  return resolved;
}

/** The width of the axis with these values, none of which is cut off. */
const widthOfLabels = (_, labels) =>
  Math.max(LABEL_WIDTH, 16 + CHARACTER_WIDTH * Math.max(0, ...(labels ?? []).map((label) => label.length)));

const charts = new WeakMap(); // by element, so that the charts of closed pages can be freed

/** Draw all charts of the page again, in the present colours and widths. */
export function redraw() {
  for (const element of document.querySelectorAll("figure.chart")) charts.get(element).redraw();
}

theme.changed.addEventListener("changed", redraw);

export class Chart {
  #plot = null;
  #data = null;
  #lines;
  #options;

  /**
   * @param {string} title
   * @param {Array<string>} labels of the lines
   * @param {{format: (value: number) => string, steps?: number[], gaps?: boolean, stored?: boolean,
   *   label?: (text) => Node|string}} options `steps` of the axis of values; lines have `gaps` where values are null; hidden
   *   lines are `stored` as a preference; `label` makes the element of a label
   */
  constructor(title, labels, options) {
    this.#options = { stored: true, label: (text) => text, ...options };
    this.title = title;
    this.drawing = h("div.drawing", { role: "img", "aria-label": title });
    this.#lines = labels.map((label, at) => this.#line(label, at));
    this.nothing = h("p.empty", {}, "nothing yet");
    this.legend = h("ul.legend", {}, this.#lines.map((line) => line.entry));
    this.element = h("figure.chart", {}, h("figcaption", {}, title), this.nothing, this.drawing, this.legend);
    charts.set(this.element, this);
    new ResizeObserver(() => this.#resize()).observe(this.drawing);
  }

  /** A line with its entry in the legend; `text` is shown while the cursor is elsewhere. */
  #line(label, at) {
    const { stored } = this.#options;
    const line = { label, at, text: "", isQuiet: false, value: h("b"), shown: stored ? preference(`chart.${this.title}.${label}`, true) : true };
    line.button = h("button", { "aria-pressed": String(line.shown), title: "show or hide", onclick: () => {
      line.shown = !line.shown;
      if (stored) prefer(`chart.${this.title}.${label}`, line.shown);
      line.button.setAttribute("aria-pressed", String(line.shown));
      this.#plot?.setSeries(at + 1, { show: line.shown });
    } }, h(`i.key.series-${at % COLOURS}`), " ", this.#options.label(label), " ", line.value);
    line.entry = h("li", {}, line.button);
    return line;
  }

  /**
   * Draw columns: the times in seconds, and the values of each line.
   * @param {Array<number[]>} data
   * @param {Array<string|undefined>} texts beside the labels; lines without a text are left out of the legend
   */
  plot(data, texts) {
    this.#data = data;
    for (const line of this.#lines) {
      line.text = texts[line.at] ?? "";
      line.isQuiet = data[line.at + 1].every((value) => !value);
      line.entry.classList.toggle("quiet", line.isQuiet);
      fill(line.value, line.text);
      show(line.entry, texts[line.at] !== undefined);
    }
    this.#orderLegend();
    const values = this.#lines.map((line) => `${line.label} ${line.text || "unknown"}`).join(", ");
    this.drawing.setAttribute("aria-label", `${this.title}: ${values}`);
    show(this.nothing, data[0].length === 0);
    show(this.drawing, data[0].length > 0);
    if (this.#plot !== null) this.#plot.setData(data);
    else if (this.drawing.clientWidth) this.#plot = new window.uPlot(this.#plotOptions(), data, this.drawing);
  }

  /** Put lines that are zero all the time after the others; an entry with the focus keeps it. */
  #orderLegend() {
    const ordered = [...this.#lines].sort((one, other) => one.isQuiet - other.isQuiet || one.at - other.at).map((line) => line.entry);
    if (ordered.every((entry, at) => entry === this.legend.children[at])) return;
    const focused = document.activeElement;
    this.legend.append(...ordered);
    if (this.legend.contains(focused)) focused.focus();
  }

  redraw() {
    this.#plot?.destroy();
    this.#plot = null;
    if (this.#data === null || !this.drawing.clientWidth) return;
    this.#plot = new window.uPlot(this.#plotOptions(), this.#data, this.drawing);
  }

  #resize() {
    const width = this.drawing.clientWidth;
    if (this.#plot === null) this.redraw(); // the chart was in a closed section
    else if (width && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  /** Show the values at a place of the time axis, or the texts of the legend if it is null. */
  #showAt(place) {
    const [times] = this.#data;
    const at = typeof place === "number" && place < times.length ? ` at ${axisTime(times[place], 0)}` : null;
    for (const line of this.#lines) {
      const value = this.#data[line.at + 1][place] ?? null;
      fill(line.value, at === null ? line.text : `${value === null ? "none" : this.#options.format(value)}${at}`);
    }
  }

  #plotOptions() {
    const { format, steps, gaps } = this.#options;
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    const colours = Array.from({ length: COLOURS }, (_, at) => colour(`--series-${at}`));
    const quiet = colour("--series-quiet");
    return {
      width: this.drawing.clientWidth, height: HEIGHT, padding: [12, LABEL_WIDTH / 2, null, null],
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      legend: { show: false }, cursor: { y: false, drag: { setScale: false } },
      hooks: { setCursor: [(plot) => this.#showAt(plot.cursor.idx)] },
      scales: {
        x: { range: (_, first, last) => (this.#data[0].length === 1 ? [first - ALONE_S, first] : [first, last]) },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0) * 1.05, Math.max(0, high ?? 0) * 1.05 || 1] },
      },
      axes: [
        { ...axis, space: LABEL_WIDTH + 20, size: 32, values: (_, times) => times.map((at) => axisTime(at, times[1] - times[0])) },
        { ...axis, size: widthOfLabels, values: (_, values) => values.map((value) => format(value)), ...(steps && { incrs: steps }) },
      ],
      series: [{}, ...this.#lines.map((line) => ({
        stroke: () => (line.isQuiet ? quiet : colours[line.at % COLOURS]), width: 2, show: line.shown, spanGaps: !gaps,
        points: { show: gaps && this.#data[0].length < 3, size: 5 },
      }))],
    };
  }
}
