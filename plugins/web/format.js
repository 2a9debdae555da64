/** Texts of numbers, sizes, rates, durations and times. Unknown values are empty texts; times are in UTC, with 24 hours. */

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const significant = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const fine = new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** A count with thousands separators. */
export const count = (value) => (isNumber(value) ? whole.format(value) : "");

/** A number with three significant digits, or as an integer if it has more before the point. */
export const number = (value) => (isNumber(value) ? (Math.abs(value) < 100 ? significant : whole).format(value) : "");

/** A count with its noun: `1 queue`, `2 queues`, `3 policies`. `many` is given where it has another ending than s. */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Messages a second: `12/s`, `0.40/s`. */
export function rate(value) {
  if (!isNumber(value)) return "";
  return `${value > 0 && value < 10 ? fine.format(value) : whole.format(Math.round(value))}/s`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes: `312 B`, `1.5 MiB`. */
export function bytes(value) {
  if (!isNumber(value)) return "";
  let power = 0;
  while (Math.abs(value) >= 1024 && power < SIZES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${(power ? short : whole).format(value)} ${SIZES[power]}`;
}

/** Bytes a second. */
export const byteRate = (value) => (isNumber(value) ? `${bytes(value)}/s` : "");

/** A duration given in seconds: `3.16 µs`, `3 ms`, `4.2 s`, `5 min 3 s`, `2 d 4 h`. */
export function duration(seconds) {
  if (!isNumber(seconds)) return "";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 60) {
    const [size, unit] = seconds < 1e-3 ? [1e-6, "µs"] : seconds < 1 ? [1e-3, "ms"] : [1, "s"];
    return `${significant.format(seconds / size)} ${unit}`;
  }
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const parts = [];
  let rest = Math.floor(seconds);
  for (const [unit, size] of units.slice(first, first + 2)) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.join(" ");
}

/** An age in whole seconds, of which 0 is less than an interval of the statistics. */
export const age = (seconds) => (seconds === 0 ? "a few seconds" : duration(seconds));

/** A point in time, `2026-11-24 09:05:07`; given as a number of milliseconds or an ISO text. */
export function time(value) {
  if (value === null || value === undefined || value === "") return "";
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? String(value) : date.toISOString().slice(0, 19).replace("T", " ");
}

/** The time of day, `09:05:07`. */
export const clock = (value) => time(value).slice(11);

/**
 * A time in seconds as the time of day, with seconds if the times of the axis are less than a minute apart, or as a day if
 * they are days apart.
 */
export function axisTime(at, step) {
  const date = new Date(at * 1000);
  if (step >= 86400) return date.toLocaleString([], { timeZone: "UTC", day: "2-digit", month: "short" });
  return clock(date).slice(0, step < 60 ? 8 : 5);
}

/** A share of 1 as a percentage. */
export const percent = (value) => (isNumber(value) ? `${short.format(value * 100)} %` : "");

/** A value of a table: texts as they are, others as JSON. */
export const value = (given) => (typeof given === "string" ? given : JSON.stringify(given));

// Characters that have no shape of their own, or change the direction of text around them.
const UNSEEN = /[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/g;
const hexadecimal = (code) => (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`);

/** A text of a log with control characters and the like as `\x00` or `\u202e`. */
export const visible = (text) => text.replace(UNSEEN, (one) => hexadecimal(one.codePointAt(0)));

const SECRET = /passw|passphrase|secret|token|credential/i; // names of parameters, as in the broker's log
const HIDDEN = "[redacted]";

/** A URI without its password and without secret parameters. */
export function uri(text) {
  const start = text.indexOf("://");
  const colon = text.indexOf(":", start + 3);
  const at = text.lastIndexOf("@");
  const shown = start >= 0 && start < colon && colon < at ? `${text.slice(0, colon + 1)}${HIDDEN}${text.slice(at)}` : text;
  return shown.replace(/([?&])([^=&?]+)=([^&]+)/g, (whole, mark, name) => (SECRET.test(name) ? `${mark}${name}=${HIDDEN}` : whole));
}
