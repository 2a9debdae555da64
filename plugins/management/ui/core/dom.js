/** Elements made from data: every text is set as text, never parsed as HTML. */

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
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "value") element.value = value;
    else if (key === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Append texts and nodes; arrays are flattened, null, undefined and false are left out. */
export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Replace the content of an element. If it is the same text or the same nodes, it is left alone, so that nothing flickers. */
export function fill(element, ...children) {
  const flat = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  if (flat.length && flat.length === element.childNodes.length && flat.every((child, at) => child === element.childNodes[at])) return element;
  if (flat.every((child) => !(child instanceof Node))) {
    const text = flat.join("");
    if (element.childElementCount === 0 && element.textContent === text) return element;
    element.textContent = text;
    return element;
  }
  const fresh = document.createElement("div");
  append(fresh, flat);
  if (fresh.innerHTML === element.innerHTML && !fresh.querySelector("button, input, select")) return element;
  element.replaceChildren(...fresh.childNodes);
  return element;
}

/** Show or hide an element. */
export function show(element, visible) {
  element.hidden = !visible;
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, String(value));
  }
  append(element, children);
  return element;
}
