/** Lists of objects on a page: their filter, sorting and page are in its address, and the page loads them. */

import { refreshNow } from "./poll.js";
import * as router from "./router.js";
import { Table, whole } from "../web/table.js";

/** The state of a list that the query of the address has. */
function stateOf({ name, use_regex, sort, sort_reverse, page }) {
  return {
    ...(name !== undefined && { name }), use_regex: use_regex === "true", ...(sort !== undefined && { sort }),
    sort_reverse: sort_reverse === "true", page: Number(page) || 1,
  };
}

export class List extends Table {
  #inAddress;

  /**
   * @param {Object} options the options of Table, and `local: true` for one of several lists of a page, whose state is not
   *   in the address; without `load` the page calls `show`, and `text` returns what the filter compares
   */
  constructor(options) {
    const inAddress = !options.small && !options.local;
    const load = whole(() => this.items, options.text);
    super({ load, ...options, state: inAddress ? stateOf(router.current().query) : {} });
    this.#inAddress = inAddress;
    this.items = [];
  }

  /** Show objects that the page has loaded. */
  show(items) {
    this.items = items;
    return this.refresh();
  }

  changed({ name, use_regex, sort, sort_reverse, page }) {
    if (this.#inAddress) {
      router.remember({ name, use_regex: use_regex || "", sort, sort_reverse: sort_reverse || "", page: page > 1 ? page : "" });
    }
    refreshNow();
  }
}

/** Load pages of a list of the API: `paged(get, () => "queues")`. */
export function paged(get, target, more = {}) {
  return async (query, signal) => {
    const answer = await get(target(), { ...query, ...more }, signal);
    return { items: answer.items, total: answer.total_count, filtered: answer.filtered_count, pages: answer.page_count };
  };
}
