/**
 * Tables with filter, sorting, pages, choice of columns, and actions for chosen rows.
 *
 * A row keeps its element as long as its object is listed, and only texts that differ are written: nothing flickers, and
 * scroll position and selection are kept.
 */

import { h, fill, show } from "./dom.js";
import { count } from "./format.js";
import { preference, prefer } from "./preferences.js";

const SIZES = [50, 100, 250, 500];
const FILTER_MS = 250; // after the last key
const MOST = 500; // rows of a request

/**
 * A column. `cell` returns text or nodes. `sort` is the field the list is sorted by, with dots for parts; columns without
 * it cannot be sorted by. `number` aligns right. `shown: false` hides it until it is chosen. `always` cannot be hidden.
 * `wide` is left out on a phone. `sparse` is left out while its cells are empty on the whole page.
 * @typedef {{id: string, title: string, cell: (item) => any, sort?: string, number?: boolean, shown?: boolean,
 *   always?: boolean, wide?: boolean, sparse?: boolean, help?: string}} Column
 */

/** The number of shown rows and of all rows: `Displaying 50 of 1,200`. */
function displayed(shown, filtered, total) {
  const all = filtered === total ? "" : `, filtered from ${count(total)}`;
  return `Displaying ${count(shown)} of ${count(filtered)}${all}`;
}

/** The classes of a column's cells, by which a style sheet aligns or hides them. */
const kindOf = ({ id, number, wide }) => ({ class: [`column-${id}`, number ? "number" : "", wide ? "wide" : ""].join(" ") });

export class Table {
  #options;
  #rows = new Map();
  #selected = new Map();
  #isAllChosen = false; // the rows of other pages, too: they stay chosen while another page is shown
  #state;
  #last = { items: [], total: 0, filtered: 0, pages: 1 };

  /**
   * @param {Object} options
   * @param {string} options.name names the stored choice of columns: unique within a page
   * @param {string} options.label for screen readers: "Queues"
   * @param {Column[]} options.columns
   * @param {(item) => string|string[]} options.key the identity of an item: a name, or several that are one together
   * @param {(query, signal) => Promise<{items, total, filtered, pages}>} options.load `paged(path)` or `whole(load)`
   * @param {Array<{label, run: (items) => Promise, danger?: boolean}>} [options.actions] for chosen rows
   * @param {string|(() => Node|Array|string)} [options.empty] what an empty list says; a function makes it with each refresh
   * @param {boolean} [options.small] no filter, pages or stored state: a list within a page
   * @param {Object} [options.state] the filter, sorting and page to begin with
   * @param {string} [options.filtered] the text that the filter compares: "name"
   */
  constructor(options) {
    this.#options = { actions: [], empty: "nothing here", filtered: "name", ...options };
    this.#state = {
      name: "", use_regex: false, sort: options.sort ?? "", sort_reverse: false, page: 1, page_size: preference("page_size", 100),
      ...options.state,
    };
    this.#make();
  }

  #make() {
    const { name, label, actions, small } = this.#options;
    const stored = preference(`columns.${name}`, {});
    this.visible = new Map(this.#options.columns.map((column) => [column.id,
      column.always || (stored[column.id] ?? column.shown ?? true)]));
    this.head = h("thead");
    this.body = h("tbody");
    this.table = h("table", { "aria-label": label }, this.head, this.body);
    this.summary = h("span.summary", { role: "status" });
    this.pages = h("nav.pages", { "aria-label": `${label}: pages` });
    this.empty = h("p.empty", { hidden: true });
    this.more = h("button.quick", { hidden: true, onclick: () => this.#chooseAll() });
    this.bar = h("div.actions", { hidden: true }, h("span", {}), this.more, actions.map((action) => h(
      action.danger ? "button.danger" : "button", { onclick: () => this.#act(action) }, action.label)));
    this.element = h(small ? "div" : "section.list", {}, small ? null : this.#tools(), this.bar,
      h("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, this.table), this.empty, small ? null : this.pages);
    this.#drawHead();
  }

  #tools() {
    const { label, filtered } = this.#options;
    let timer;
    this.filter = h("input.filter", { type: "search", placeholder: `Filter by ${filtered}`, "aria-label": `${label}: filter by ${filtered}`,
      value: this.#state.name, title: "press / to come here" });
    const pattern = h("input", { type: "checkbox", checked: this.#state.use_regex });
    const changed = () => {
      Object.assign(this.#state, { name: this.filter.value, use_regex: pattern.checked, page: 1 });
      this.#chooseNone();
      this.#changed();
    };
    this.filter.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(changed, FILTER_MS);
    });
    pattern.addEventListener("change", changed);
    const size = h("select", { "aria-label": `${label}: rows of a page`, onchange: () => {
      this.#state.page_size = Number(size.value);
      this.#state.page = 1;
      prefer("page_size", this.#state.page_size);
      this.#changed();
    } }, SIZES.map((one) => h("option", { value: one, selected: one === this.#state.page_size }, `${one} rows`)));
    const regex = h("label", { title: "the filter is a regular expression" }, pattern, " Regex");
    return h("div.tools", {}, this.filter, regex, size, this.#columnChooser(), this.summary);
  }

  #columnChooser() {
    const { name, columns } = this.#options;
    const boxes = columns.filter((column) => !column.always).map((column) => h("label", {}, h("input", {
      type: "checkbox", checked: this.visible.get(column.id), onchange: (event) => {
        this.visible.set(column.id, event.target.checked);
        prefer(`columns.${name}`, Object.fromEntries(this.visible));
        this.#redraw();
      },
    }), ` ${column.title}`));
    return h("details.columns", {}, h("summary", {}, "Columns"), h("div.menu", {}, boxes));
  }

  get #columns() {
    return this.#options.columns.filter((column) => this.visible.get(column.id));
  }

  get #selectable() {
    return this.#options.actions.length > 0;
  }

  #drawHead() {
    const { sort, sort_reverse } = this.#state;
    const cells = this.#columns.map((column) => {
      const sorted = column.sort && column.sort === sort ? (sort_reverse ? "descending" : "ascending") : null;
      const arrow = { ascending: " ▲", descending: " ▼" }[sorted] ?? "";
      const title = column.sort
        ? h("button.sort", { onclick: () => this.#sortBy(column) }, column.title, arrow) : column.title;
      return h("th", { ...kindOf(column), scope: "col", title: column.help, "aria-sort": sorted }, title);
    });
    if (this.#selectable) {
      this.all = h("input", { type: "checkbox", "aria-label": "Choose all rows of this page", onchange: () => {
        if (this.#isAllChosen) this.#chooseNone();
        for (const row of this.#rows.values()) {
          row.box.checked = this.all.checked;
          this.#choose(row);
        }
        this.#drawBar();
      } });
      cells.unshift(h("th.choose", { scope: "col" }, this.all));
    }
    this.head.replaceChildren(h("tr", {}, cells));
  }

  #sortBy(column) {
    const { sort, sort_reverse } = this.#state;
    const again = sort === column.sort;
    Object.assign(this.#state, { sort: column.sort, sort_reverse: again ? !sort_reverse : Boolean(column.number), page: 1 });
    this.#drawHead();
    this.#changed();
  }

  #changed() {
    this.changed(this.#state);
  }

  /** Called after each choice of the reader. */
  changed() {
    this.refresh();
  }

  get #query() {
    const { name, use_regex, sort, sort_reverse, page, page_size } = this.#state;
    return { page, page_size, name, use_regex: use_regex ? "true" : "", sort, sort_reverse: sort_reverse ? "true" : "" };
  }

  /** Load the page of the list that is chosen now, and show it. */
  async refresh(signal) {
    const query = this.#query;
    const { page } = query;
    try {
      this.#last = await this.#options.load(query, signal);
    } catch (error) {
      if (error.status !== 400 || page === 1) throw error;
      this.#state.page = 1; // objects were deleted, and the page is beyond the last one
      this.#last = await this.#options.load({ ...query, page: 1 }, signal);
    }
    this.draw();
  }

  /** Show the items again, for example after their texts have changed. */
  draw() {
    const { key } = this.#options;
    const { items, total, filtered } = this.#last;
    const idOf = (item) => JSON.stringify(key(item));
    const listed = new Map(items.map((item) => [idOf(item), item]));
    for (const [id, row] of this.#rows) {
      if (!listed.has(id)) {
        row.element.remove();
        this.#rows.delete(id);
        if (!this.#isAllChosen) this.#selected.delete(id);
      }
    }
    let before = null;
    for (const [id, item] of listed) {
      const row = this.#rows.get(id) ?? this.#addRow(id, [key(item)].flat().join("/"));
      row.item = item;
      if (this.#selected.has(id)) this.#selected.set(id, item);
      if (row.box) row.box.checked = this.#selected.has(id);
      this.#columns.forEach((column, at) => fill(row.cells[at], column.cell(item)));
      const expected = before ? before.nextSibling : this.body.firstChild;
      if (row.element !== expected) this.body.insertBefore(row.element, expected);
      before = row.element;
    }
    this.#hideSparse(items.length > 0);
    fill(this.empty, this.#emptyText());
    show(this.empty, items.length === 0);
    show(this.table, items.length > 0);
    fill(this.summary, displayed(items.length, filtered, total));
    this.#drawBar();
    if (!this.#options.small) this.#drawPages();
  }

  #emptyText() {
    const { empty, label } = this.#options;
    if (!this.#state.name || this.#last.total === 0) return typeof empty === "function" ? empty() : empty;
    return [`no ${label.toLowerCase()} match the filter `, h("button.quick", { onclick: () => {
      this.filter.value = "";
      this.filter.dispatchEvent(new Event("input"));
      this.filter.focus();
    } }, "Clear the filter")];
  }

  /** Hide the sparse columns that have no text in any row. */
  #hideSparse(isListed) {
    if (!isListed) return;
    this.#columns.forEach((column, at) => {
      if (!column.sparse) return;
      const cells = [...this.#rows.values()].map((row) => row.cells[at]);
      const isEmpty = cells.every((cell) => cell.textContent === "");
      for (const cell of [this.head.querySelector(`.column-${column.id}`), ...cells]) show(cell, !isEmpty);
    });
  }

  #addRow(id, name) {
    const cells = this.#columns.map((column) => h("td", { ...kindOf(column), data: { title: column.title } }));
    const row = { id, cells, element: null, box: null, item: null };
    if (this.#selectable) {
      row.box = h("input", { type: "checkbox", "aria-label": `Choose ${name}`, onchange: () => {
        this.#choose(row);
        this.#drawBar();
      } });
    }
    row.element = h("tr", {}, row.box ? h("td.choose", {}, row.box) : null, cells);
    this.#rows.set(id, row);
    return row;
  }

  #redraw() {
    this.#rows.clear();
    this.body.replaceChildren();
    this.#chooseNone();
    this.#drawHead();
    this.draw();
  }

  #choose(row) {
    if (row.box.checked) this.#selected.set(row.id, row.item);
    else this.#selected.delete(row.id);
  }

  /** Choose the rows of all pages that the filter shows. */
  async #chooseAll() {
    const query = { ...this.#query, page_size: MOST };
    this.more.disabled = true;
    try {
      const chosen = new Map();
      for (let page = 1, pages = 1; page <= pages; page += 1) {
        const answer = await this.#options.load({ ...query, page });
        pages = answer.pages;
        for (const item of answer.items) chosen.set(JSON.stringify(this.#options.key(item)), item);
      }
      if (query.name !== this.#state.name || this.bar.hidden) return; // the reader has gone on meanwhile
      this.#selected = chosen;
      this.#isAllChosen = true;
      this.draw();
    } catch (error) {
      fill(this.summary, error.message);
    } finally {
      this.more.disabled = false;
    }
  }

  #chooseNone() {
    this.#selected.clear();
    this.#isAllChosen = false;
  }

  #drawBar() {
    const number = this.#selected.size;
    if (number === 0) this.#isAllChosen = false;
    const { filtered } = this.#last;
    const isPageChosen = number > 0 && [...this.#rows.keys()].every((id) => this.#selected.has(id));
    show(this.bar, number > 0);
    fill(this.bar.firstChild, `${count(number)} chosen`);
    show(this.more, isPageChosen && !this.#isAllChosen && filtered > number);
    fill(this.more, `Choose all ${count(filtered)}`);
    if (this.all) this.all.checked = isPageChosen;
  }

  async #act(action) {
    const chosen = new Map(this.#selected);
    await action.run([...chosen.values()]);
    for (const id of chosen.keys()) { // others may have been chosen meanwhile
      this.#selected.delete(id);
      if (this.#rows.has(id)) this.#rows.get(id).box.checked = false;
    }
    this.#drawBar();
    this.#changed();
  }

  #drawPages() {
    const { pages } = this.#last;
    const { page } = this.#state;
    const shown = [...new Set([1, page - 1, page, page + 1, pages])].filter((one) => one >= 1 && one <= pages);
    show(this.pages, pages > 1);
    if (this.drawn === `${page}/${pages}`) return;
    this.drawn = `${page}/${pages}`;
    this.pages.replaceChildren(...shown.map((one) => h("button", {
      "aria-current": one === page ? "page" : null, onclick: () => {
        this.#state.page = one;
        this.#changed();
      },
    }, count(one))));
  }
}

const part = (item, field) => field.split(".").reduce((value, name) => value?.[name], item);

const isMissing = (value) => value === null || value === undefined;

/** The order of two values; missing values are last in both directions. */
function compare(one, other, isReverse) {
  if (isMissing(one) || isMissing(other)) return isMissing(one) - isMissing(other);
  const order = typeof one === "number" && typeof other === "number" ? one - other
    : String(one).localeCompare(String(other), undefined, { numeric: true });
  return isReverse ? -order : order;
}

/** Filter, sort and cut a list that is loaded as a whole, by its field `name` or the result of `text`. */
export function whole(load, text = (item) => item.name ?? "") {
  return async (query, signal) => {
    const all = await load(signal);
    let wanted = (name) => name.toLowerCase().includes(query.name.toLowerCase());
    if (query.use_regex) {
      try {
        const pattern = new RegExp(query.name, "i");
        wanted = (name) => pattern.test(name);
      } catch {
        wanted = () => false;
      }
    }
    const items = query.name ? all.filter((item) => wanted(text(item))) : [...all];
    if (query.sort) {
      items.sort((one, other) => compare(part(one, query.sort), part(other, query.sort), Boolean(query.sort_reverse)));
    }
    const first = (query.page - 1) * query.page_size;
    return {
      items: items.slice(first, first + query.page_size), total: all.length, filtered: items.length,
      pages: Math.max(1, Math.ceil(items.length / query.page_size)),
    };
  };
}
