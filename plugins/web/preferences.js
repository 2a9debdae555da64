/** The choices of a reader, such as refresh interval, virtual host and columns. They are stored, and are never secrets. */

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

/** Store a choice; without storage it is lost when the page is closed. */
export function prefer(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // storage is full or forbidden
  }
}
