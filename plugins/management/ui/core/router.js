/** Addresses of pages: `#/queues/%2F/name?tab=x`, which can be shared, and which the browser keeps in its history. */

/** Return the address of a page; each segment is encoded. */
export function address(segments, query = {}) {
  const search = new URLSearchParams(query).toString();
  return `#/${segments.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Return the segments and the query of the address that is open now. */
export function current() {
  const [way, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const segments = way.split("/").filter(Boolean).map((text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  });
  return { segments, query: Object.fromEntries(new URLSearchParams(search)) };
}

/**
 * Find the page of an address.
 * @param {Array<{route: string}>} pages with routes such as "queues/:vhost/:name"
 * @returns {{page, params}|null}
 */
export function match(pages, segments) {
  for (const page of pages) {
    const parts = page.route.split("/").filter(Boolean);
    if (parts.length !== segments.length) continue;
    const params = {};
    const fits = parts.every((part, at) => {
      if (!part.startsWith(":")) return part === segments[at];
      params[part.slice(1)] = segments[at];
      return true;
    });
    if (fits) return { page, params };
  }
  return null;
}

/** Open the page with this address. */
export function go(segments, query) {
  location.hash = address(segments, query);
}

/** Change the query of the open address without a new entry in the browser's history. */
export function remember(query) {
  const { segments, query: old } = current();
  const kept = Object.entries({ ...old, ...query }).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  history.replaceState(null, "", address(segments, Object.fromEntries(kept)));
}
