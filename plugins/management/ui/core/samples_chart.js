/** Charts of the samples that the API keeps, and the choice of their time range. */

import { Chart } from "../web/chart.js";
import { h } from "../web/dom.js";
import { preference, prefer } from "../web/preferences.js";

/** The ranges that can be chosen: label, age and step in seconds, as the API samples them. */
const RANGES = [
  ["last minute", 60, 5], ["last 10 minutes", 600, 5], ["last hour", 3600, 60], ["last 8 hours", 28800, 600], ["last day", 86400, 1800],
];

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

/** Points of a counter's samples: changes a second between neighbours; of a level: the values themselves. */
function pointsOf(details, asRate) {
  const samples = [...(details?.samples ?? [])].sort((one, other) => one.timestamp - other.timestamp);
  if (!asRate) return samples.map(({ timestamp, sample }) => [timestamp / 1000, sample]);
  return samples.slice(1).map(({ timestamp, sample }, at) => {
    const before = samples[at];
    return [timestamp / 1000, Math.max(0, ((sample - before.sample) * 1000) / (timestamp - before.timestamp))];
  });
}

export class SamplesChart extends Chart {
  #fields;
  #rates;
  #format;

  /**
   * @param {string} title
   * @param {Array<[string, string]>} series label and field of each; the samples of `field` are in `field_details`
   * @param {{rates?: boolean, format: (value: number) => string, steps?: number[]}} options `rates`: the fields are counters
   */
  constructor(title, series, { rates = false, format, steps }) {
    super(title, series.map(([label]) => label), { format, steps });
    this.#fields = series.map(([, field]) => field);
    this.#rates = rates;
    this.#format = format;
  }

  /** Draw the samples of an object, for example its `message_stats`. The API leaves out counters that never counted. */
  draw(stats) {
    const lines = this.#fields.map((field) => new Map(pointsOf(stats?.[`${field}_details`], this.#rates)));
    const current = this.#fields.map((field) => (this.#rates ? stats?.[`${field}_details`]?.rate : stats?.[field]));
    const times = [...new Set(lines.flatMap((points) => [...points.keys()]))].sort((one, other) => one - other);
    const values = lines.map((points) => times.map((at) => points.get(at) ?? null));
    this.plot([times, ...values], current.map((value) => (value === undefined ? undefined : this.#format(value))));
  }
}
