/** Forms made from a list of fields, and tables of typed arguments. */

import { confirm } from "./dialog.js";
import { h } from "../web/dom.js";

let serial = 0;

/**
 * Make the row of a field: label, input and an explanation.
 * @param {{name, label, type?, value?, options?, help?, required?, placeholder?, min?, max?}} field
 *   `type`: text (default), number, password, checkbox, select, area, list (texts to choose from, or others), file;
 *   `hidden` fields keep their value
 */
export function fieldRow(field) {
  const id = `field-${(serial += 1)}`;
  const { name, label, type = "text", value = "", options = [], help, required, hidden = false, ...more } = field;
  const common = { id, name, required, "aria-describedby": help ? `${id}-help` : null, autocomplete: "off", ...more };
  let input;
  if (type === "select") {
    input = h("select", common, options.map((option) => {
      const [given, text] = Array.isArray(option) ? option : [option, option];
      return h("option", { value: given, selected: given === value }, text);
    }));
  } else if (type === "area") input = h("textarea", { rows: 5, spellcheck: "false", ...common, value });
  else if (type === "checkbox") input = h("input", { type, checked: value === true, ...common });
  else if (type === "list") {
    input = h("input", { type: "text", list: `${id}-list`, ...common, value });
  } else input = h("input", { type, spellcheck: "false", ...common, ...(type === "file" ? {} : { value }) });
  const choices = type === "list" ? h("datalist", { id: `${id}-list` }, options.map((option) => h("option", { value: option }))) : null;
  return h("div.field", { data: { field: name }, hidden }, h("label", { for: id }, label), input, choices,
    help ? h("small", { id: `${id}-help` }, help) : null);
}

/** Return the entered values: texts, numbers (of number fields; empty ones are left out), booleans, files. */
function valuesOf(form) {
  const values = {};
  for (const input of form.elements) {
    if (!input.name) continue;
    if (input.type === "checkbox") values[input.name] = input.checked;
    else if (input.type === "file") values[input.name] = input.files[0] ?? null;
    else if (input.type === "number") {
      if (input.value !== "") values[input.name] = Number(input.value);
    } else values[input.name] = input.value;
  }
  return values;
}

const INPUTS = "input, select, textarea";
const saved = new WeakMap(); // by form: the content of its fields as it is stored, or when the form was made

const inputsOf = (field) => (field.matches(INPUTS) ? [field] : [...field.querySelectorAll(INPUTS)]);
const contentOf = (field) => JSON.stringify(inputsOf(field).map((input) => [input.value, input.checked]));

/** The list of a form: the element with its rows, each of which has its name in its first input; null if there is none. */
const listOf = (form) => form.querySelector("[data-rows]");

/** The fields of a form by name: its inputs, and the rows of its list. */
function fieldsOf(form) {
  const fields = new Map([...form.elements].filter((input) => input.name).map((input) => [input.name, input]));
  for (const row of listOf(form)?.children ?? []) fields.set(`row ${row.querySelector("input").value.trim()}`, row);
  return fields;
}

/** What is entered in a form, by field. */
const contentsOf = (form) => new Map([...fieldsOf(form)].map(([name, field]) => [name, contentOf(field)]));

/** Show in a field what another one shows; it keeps its node and the focus if it has as many inputs. */
function copy(field, other) {
  const inputs = inputsOf(field);
  const fresh = inputsOf(other);
  if (inputs.length !== fresh.length) return field.replaceWith(other);
  inputs.forEach((input, at) => Object.assign(input, { value: fresh[at].value, checked: fresh[at].checked }));
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/**
 * Show an object as it is stored now in the form that changes it. A field whose content differs from the stored value
 * keeps it, and a row that was removed is not added again.
 * @param {HTMLFormElement} form
 * @param {HTMLFormElement} fresh a form of the same fields that was made for the object
 */
export function follow(form, fresh) {
  const fields = fieldsOf(form);
  const freshFields = fieldsOf(fresh);
  const before = saved.get(form);
  saved.set(form, contentsOf(fresh));
  for (const [name, field] of fields) {
    if (contentOf(field) !== before.get(name)) continue;
    if (!freshFields.has(name)) field.remove();
    else if (contentOf(freshFields.get(name)) !== before.get(name)) copy(field, freshFields.get(name));
  }
  for (const [name, row] of freshFields) if (!fields.has(name) && !before.has(name)) listOf(form).append(row);
}

/**
 * Make a form ready for the next object, which is often of the same virtual host and type: selects keep their choice, and
 * fields and rows that were changed after the form was sent keep their content.
 */
function empty(element, sent) {
  for (const [name, field] of fieldsOf(element)) {
    if (contentOf(field) !== sent.get(name)) continue;
    if (!field.matches(INPUTS)) field.remove();
    else if (field.type === "checkbox") field.checked = field.defaultChecked;
    else if (field.type === "file") field.value = "";
    else if (!field.matches("select")) field.value = field.defaultValue;
  }
}

/**
 * Make a form. A refusal is shown below it; while it is being sent its button is disabled.
 * @param {{fields: Array, submit: string, run: (values, stored) => Promise, extra?: Node[],
 *   danger?: boolean, label?: string, keep?: boolean, clear?: () => void, latest?: () => Promise<Object>,
 *   replaced?: (values) => Promise<string>}} options
 *   `fields` may contain nodes among the fields; after `run` the form is emptied, except its selects and later entries,
 *   unless `keep` is set; `clear` empties the inputs of `extra`, unless something was entered meanwhile; `latest` lets the
 *   form follow the object that it changes, and returns the object, before the values are read; `replaced` names the object
 *   that these values would replace, or returns "": the user is asked first
 */
export function form({ fields, submit, run, extra = [], danger = false, label, keep = false, clear = () => {}, latest, replaced }) {
  const problem = h("p.problem", { role: "alert", hidden: true });
  const button = h(danger ? "button.danger" : "button.primary", { type: "submit" }, submit);
  const rows = fields.map((field) => (field instanceof Node ? field : fieldRow(field)));
  const element = h("form", { "aria-label": label ?? submit }, rows, extra, problem, h("div.buttons", {}, button));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    const isFocused = document.activeElement === button; // a disabled button loses the focus
    button.disabled = true;
    problem.hidden = true;
    try {
      const stored = await latest?.();
      const sent = contentsOf(element);
      const values = valuesOf(element);
      const existing = await replaced?.(values);
      if (existing && !await confirm(`Replace ${existing}?`, "It exists. All its settings are replaced by those of the form.", [], "Replace")) return;
      await run(values, stored);
      saved.set(element, sent);
      if (keep) return;
      const entered = JSON.stringify([...contentsOf(element)]) !== JSON.stringify([...sent]);
      empty(element, sent);
      if (!entered) clear();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      button.disabled = false;
      if (isFocused && document.activeElement === document.body) button.focus();
    }
  });
  saved.set(element, contentsOf(element));
  return element;
}

const TYPES = [["string", "String"], ["number", "Number"], ["boolean", "Boolean"], ["json", "List or map (JSON)"]];

/** Return the value that a text stands for. Raises Error with a sentence for the reader. */
export function typed(type, text, name = "value") {
  if (type === "string") return text;
  if (type === "number") {
    const number = Number(text);
    if (text.trim() === "" || !Number.isFinite(number)) throw new Error(`${name}: ${text || "nothing"} is not a number`);
    return number;
  }
  if (type === "boolean") {
    if (/^(true|false)$/i.test(text.trim())) return text.trim().toLowerCase() === "true";
    throw new Error(`${name}: a boolean is true or false`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`);
  }
}

/**
 * Rows of key, type and value, for arguments and policy definitions.
 * @param {{label: string, known?: Array<{key, type, help, group?}>, value?: Object}} options `known` keys are offered as buttons
 * @returns {{element: HTMLElement, read: () => Object, write: (value: Object) => void}}
 */
export function argumentsTable({ label, known = [], value = {} }) {
  const rows = h("div.arguments", { data: { rows: label } });
  const add = (key = "", type = "string", text = "", help = "") => {
    const types = TYPES.map(([given, shown]) => h("option", { value: given, selected: given === type }, shown));
    const row = h("div.argument", {},
      h("input", { type: "text", value: key, "aria-label": `${label}: key`, spellcheck: "false", placeholder: "key" }),
      h("input", { type: "text", value: text, "aria-label": `${label}: value`, spellcheck: "false", placeholder: help || "value" }),
      h("select", { "aria-label": `${label}: type` }, types),
      h("button", { title: "Remove", "aria-label": `${label}: remove`, onclick: () => row.remove() }, "×"));
    rows.append(row);
    return row;
  };
  const write = (given) => {
    rows.replaceChildren();
    for (const [key, one] of Object.entries(given ?? {})) {
      const type = ["string", "number", "boolean"].includes(typeof one) ? typeof one : "json";
      add(key, type, type === "json" ? JSON.stringify(one) : String(one));
    }
  };
  const offer = ({ key, type, help }) =>
    h("button.quick", { title: help, onclick: () => add(key, type, "", help).querySelectorAll("input")[1].focus() }, key);
  const groups = Map.groupBy ? Map.groupBy(known, (one) => one.group ?? "") : new Map([["", known]]);
  write(value);
  const element = h("fieldset.field", { data: { field: label } }, h("legend", {}, label), rows,
    [...groups].map(([group, ones]) => h("div.offers", {}, group ? h("span", {}, group) : null, ones.map(offer))),
    h("div.offers", {}, h("button.quick", { onclick: () => add().querySelector("input").focus() }, known.length ? "another key" : "add a key")));
  const read = () => {
    const result = {};
    for (const row of rows.children) {
      const [key, text] = [...row.querySelectorAll("input")].map((input) => input.value);
      if (key.trim()) result[key.trim()] = typed(row.querySelector("select").value, text, key);
    }
    return result;
  };
  return { element, read, write };
}
