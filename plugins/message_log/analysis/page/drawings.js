/** Drawings in SVG: a heat map of latencies over time, and flows of messages as ribbons between boxes. */

import { h, svg } from "../../../web/dom.js";
import { axisTime, count, counted, duration, visible } from "../../../web/format.js";

const COLUMNS = 80; // of the heat map at most
const SHADES = 8;
const CELL_WIDTH = 10, CELL_HEIGHT = 18, LEFT = 110, BOTTOM = 24;
const WIDTH = 1200, BOX_WIDTH = 12, GAP = 8, TOP = 34, LINE_HEIGHT = 14; // of a flow
const LABEL = 32; // characters of a name

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

const cut = (text) => (text.length <= LABEL ? text : `${text.slice(0, LABEL - 1)}…`);

function picture(width, height, label, parts) {
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, svg("svg", {
    class: width > 400 ? "broad" : "narrow", role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height,
  }, parts));
}

/** The acknowledged messages by time and latency; `start` and `step` are of the time axis, in seconds. */
export function heatMap({ from_us, messages }, start, step) {
  const steps = messages[0].length;
  const merged = Math.ceil(steps / COLUMNS);
  const rows = messages.map((row) =>
    Array.from({ length: Math.ceil(steps / merged) }, (_, at) => sum(row.slice(at * merged, (at + 1) * merged))));
  const columns = rows[0].length;
  const most = Math.max(...rows.flat());
  const height = rows.length * CELL_HEIGHT;
  const timeOf = (column, spacing) => axisTime(start + column * merged * step, spacing);
  const cells = rows.flatMap((row, place) => {
    const y = height - (place + 1) * CELL_HEIGHT;
    const from = `from ${duration(from_us[place] / 1e6)}`;
    return [svg("text", { x: LEFT - 6, y: y + 13, "text-anchor": "end" }, from), ...row.map((number, column) => {
      if (number === 0) return null;
      const shade = most > 1 ? 1 + Math.floor(((SHADES - 1) * Math.log(number)) / Math.log(most)) : SHADES;
      return svg("rect", { class: "heat", "fill-opacity": shade / SHADES, x: LEFT + column * CELL_WIDTH, y, width: CELL_WIDTH, height: CELL_HEIGHT },
        svg("title", {}, `${timeOf(column, 0)}: ${counted(number, "message")} ${from}`));
    })];
  });
  const shares = columns >= 40 ? [0, 0.25, 0.5, 0.75] : [0];
  const times = shares.map((share) => Math.round(columns * share)).map((column) =>
    svg("text", { x: LEFT + column * CELL_WIDTH, y: height + 16 }, timeOf(column, (steps * step) / 4)));
  return picture(LEFT + columns * CELL_WIDTH, height + BOTTOM, "Acknowledged messages by latency and time", [...cells, ...times]);
}

/** A box of a flow. `drawnIn` and `drawnOut` are the heights of its ribbons so far, in pixels. */
class Box {
  entered = 0;
  left = 0;
  place = 0; // in its column
  drawnIn = 0;
  drawnOut = 0;

  constructor(column, name) {
    this.column = column;
    this.name = name;
  }

  get messages() {
    return Math.max(this.entered, this.left);
  }
}

/** Order the boxes of a column: by messages in the first one, in the others by the place of their sources. */
function order(boxes, ribbons) {
  boxes.sort((one, other) => other.messages - one.messages || one.name.localeCompare(other.name));
  const weights = new Map(boxes.map((box) => {
    const into = ribbons.filter((ribbon) => ribbon.target === box);
    const messages = sum(into.map((ribbon) => ribbon.messages));
    return [box, messages ? sum(into.map((ribbon) => ribbon.source.place * ribbon.messages)) / messages : Infinity];
  }));
  if (boxes[0]?.column > 0) boxes.sort((one, other) => (weights.get(one) === weights.get(other) ? 0 : weights.get(one) - weights.get(other)));
  boxes.forEach((box, place) => { box.place = place; });
  return boxes;
}

/** Messages between the columns of boxes with these titles, as ribbons that are as thick as their messages. */
export function flow({ titles, edges, height: fullHeight }) {
  const boxes = new Map();
  const boxOf = (column, name) => {
    const key = JSON.stringify([column, name]);
    if (!boxes.has(key)) boxes.set(key, new Box(column, name));
    return boxes.get(key);
  };
  const ribbons = edges.map(([sourceColumn, source, targetColumn, target, messages]) =>
    ({ source: boxOf(sourceColumn, source), target: boxOf(targetColumn, target), messages }));
  for (const { source, target, messages } of ribbons) {
    source.left += messages;
    target.entered += messages;
  }
  const columns = titles.map((_, column) => order([...boxes.values()].filter((box) => box.column === column), ribbons));
  const scale = fullHeight / (Math.max(...columns.map((column) => sum(column.map((box) => box.messages)))) || 1);
  let bottom = 0;
  for (const column of columns) {
    let top = TOP;
    for (const box of column) {
      box.top = top;
      box.height = Math.max(1, box.messages * scale);
      top += Math.max(box.height, LINE_HEIGHT) + GAP;
    }
    bottom = Math.max(bottom, top);
  }
  const distance = (WIDTH - BOX_WIDTH) / Math.max(1, titles.length - 1);
  const heads = titles.map((title, column) => svg("text", {
    class: "title", x: column * distance + (column ? BOX_WIDTH : 0), y: 16, "text-anchor": column ? "end" : "start",
  }, title));
  ribbons.sort((one, other) => one.source.top - other.source.top || one.target.top - other.target.top);
  return picture(WIDTH, bottom, `Flow of messages: ${titles.join(" to ")}`, [
    ...heads, ...ribbons.map((ribbon) => ribbonOf(ribbon, scale, distance)),
    ...[...boxes.values()].map((box) => boxElement(box, distance, box.column === titles.length - 1)),
  ]);
}

function ribbonOf({ source, target, messages }, scale, distance) {
  const thick = Math.max(0.5, messages * scale);
  const [left, right] = [source.column * distance + BOX_WIDTH, target.column * distance];
  const middle = (left + right) / 2;
  const [y, z] = [source.top + source.drawnOut, target.top + target.drawnIn];
  source.drawnOut += thick;
  target.drawnIn += thick;
  const path = `M${left},${y}C${middle},${y} ${middle},${z} ${right},${z}v${thick}C${middle},${z + thick} ${middle},${y + thick} ${left},${y + thick}z`;
  return svg("path", { class: `ribbon-${source.column}`, d: path },
    svg("title", {}, `${visible(source.name)} → ${visible(target.name)}: ${counted(messages, "message")}`));
}

function boxElement(box, distance, isLast) {
  const x = box.column * distance;
  const name = visible(box.name);
  return svg("g", {}, svg("title", {}, `${name}: ${counted(box.entered, "message")} in, ${count(box.left)} out`),
    svg("rect", { x, y: box.top, width: BOX_WIDTH, height: box.height }),
    svg("text", {
      x: isLast ? x - 5 : x + BOX_WIDTH + 5, y: box.top + Math.max(box.height / 2, 5) + 4, "text-anchor": isLast ? "end" : "start",
    }, `${cut(name)} ${count(box.messages)}`));
}
