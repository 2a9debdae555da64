/** The user of this tab. The credentials are stored in the tab, until it is closed or the user logs out. */

const KEY = "warren.credentials";

/** The user of this tab: `{name, tags}`, or null before the sign-in. */
export let user = null;

/** The header Authorization, or null. */
export const authorization = () => sessionStorage.getItem(KEY);

/** Remember the credentials of this tab. */
export function remember(name, password) {
  const encoded = new TextEncoder().encode(`${name}:${password}`);
  sessionStorage.setItem(KEY, `Basic ${btoa(String.fromCharCode(...encoded))}`);
}

/** Set the user as GET /whoami describes it. */
export function setUser(described) {
  const tags = Array.isArray(described.tags) ? described.tags : String(described.tags ?? "").split(",");
  user = { name: described.name, tags: tags.map((tag) => tag.trim()).filter(Boolean) };
}

/** Forget user and credentials. */
export function forget() {
  user = null;
  sessionStorage.removeItem(KEY);
}

const has = (...tags) => user !== null && tags.some((tag) => user.tags.includes(tag));

/** What the tags of the user allow, as in the HTTP API. */
export const may = {
  administer: () => has("administrator"),
  monitor: () => has("administrator", "monitoring"),
  makePolicies: () => has("administrator", "policymaker"),
};
