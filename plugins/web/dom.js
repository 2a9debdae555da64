/** Elements made from data: every text is set as text, never parsed as HTML. */

const listeners = new WeakMap(); // by element and type of the event, so that an element can take over the listeners of another

/** Listen for events of an element; a later listener for the same type replaces this one. */
function listen(element, type, listener) {
  if (!listeners.has(element)) listeners.set(element, {});
  const known = listeners.get(element);
  if (!(type in known)) element.addEventListener(type, (event) => known[type](event));
  known[type] = listener;
}

/**
 * Make an element.
 * @param {string} tag the tag, with classes after dots: `"div.card.wide"`
 * @param {Object} [attributes] attributes; names that begin with `on` are listeners, `data` is an object of data
 *   attributes; null, undefined and false are left out
 * @param {...(Node|string|number|Array|null|undefined|false)} children texts and nodes; arrays are flattened
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  if (name === "button") element.type = "button"; // unless an attribute says that it sends a form
  return filled(element, attributes, children);
}

/** Give a new element its attributes and children. */
function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) listen(element, key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "value") element[element.matches("input, textarea") ? "defaultValue" : "value"] = value; // the value of an emptied form
    else if (key === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  return append(element, children);
}

/** Append texts and nodes; arrays are flattened, null, undefined and false are left out. */
export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** True for an element with inputs, which the reader may have changed. */
const hasFields = (element) => element.matches("input, select, textarea") || element.querySelector("input, select, textarea") !== null;

/** True if two elements differ at most in their children. */
const isLike = (one, other) =>
  one instanceof Element && other instanceof Element && one.cloneNode(false).isEqualNode(other.cloneNode(false));

/** Take over the listeners of another element. */
function takeListeners(element, other) {
  for (const [type, listener] of Object.entries(listeners.get(other) ?? {})) listen(element, type, listener);
}

/** Make the children of an element equal to the children of another; equal nodes stay, with focus and selection. */
function update(element, other) {
  const old = [...element.childNodes];
  const given = [...other.childNodes];
  given.forEach((node, at) => {
    const existing = old[at];
    if (existing === undefined) element.append(node);
    else if (isLike(existing, node) && !hasFields(existing)) {
      takeListeners(existing, node);
      update(existing, node);
    } else if (existing instanceof Element || !existing.isEqualNode(node)) existing.replaceWith(node);
  });
  old.slice(given.length).forEach((node) => node.remove());
}

/**
 * Set the content of an element. Nodes equal to the present ones are not inserted: the present ones stay, with the new
 * listeners, so that nothing flickers or loses the focus. Nodes that refer to each other need `replaceChildren`.
 */
export function fill(element, ...children) {
  const flat = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  if (flat.every((child) => !(child instanceof Node))) {
    const text = flat.join("");
    if (element.childElementCount > 0 || element.textContent !== text) element.textContent = text;
  } else if (flat.length !== element.childNodes.length || flat.some((child, at) => child !== element.childNodes[at])) {
    update(element, append(document.createElement("div"), flat));
  }
  return element;
}

/** Show or hide an element. */
export function show(element, visible) {
  element.hidden = !visible;
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an SVG element. */
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** A name that may be longer than its cell: it is cut there, and its title has the whole. */
export const short = (name) => h("span.name", { title: name }, name);

/** Rows of name and value; values are texts or nodes. Unknown values are left out. */
export function facts(rows) {
  return h("dl.facts", {}, rows.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
