/** What a reader has chosen: refresh interval, virtual host, columns, page sizes. They outlive the tab, never a secret. */

const PREFIX = "warren.";

/** Return a stored choice, or `otherwise`. */
export function preference(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Store a choice; without storage it holds until the page is left. */
export function prefer(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // storage is full or forbidden
  }
}
