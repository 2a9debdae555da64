/** Requests to the HTTP API of this node. */

import * as session from "./session.js";

const BASE = new URL("api/", document.baseURI);

/** A refused request, with the status and the reason that the API gave. Status 0: no node has answered. */
export class APIError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

/** Listeners for the end of the session: the API has refused the credentials. */
export const refused = new EventTarget();

/** Build a path from a template; values are encoded as one segment each: path`queues/${vhost}/${name}`. */
export function path(texts, ...values) {
  return texts.reduce((whole, text, at) => whole + encodeURIComponent(values[at - 1]) + text);
}

/** The name of the default exchange in paths, because a segment cannot be empty. */
export const DEFAULT_EXCHANGE = "amq.default";

const DOTS = /(^|\/)\.\.?(\/|$)/; // names that a browser would remove from a path, encoded or not

function urlOf(target, query) {
  const url = new URL(DOTS.test(target) ? "warren/path" : target, BASE);
  if (DOTS.test(target)) url.searchParams.set("path", target);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Wait for a response or its body, which may be incomplete. Raises APIError. */
async function arrival(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new APIError(0, "The broker does not answer");
  }
}

/** Ask for a file of the user interface, such as a document; the response may be a refusal. Raises APIError. */
export const file = (target, signal) => arrival(fetch(new URL(target, document.baseURI), { signal }));

async function reasonOf(response) {
  const text = await arrival(response.text());
  try {
    const { reason, error } = JSON.parse(text);
    const cause = reason ?? error ?? text;
    return typeof cause === "string" ? cause : JSON.stringify(cause);
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}

/**
 * Send a request and return the response. Raises APIError if the node refuses it or does not answer.
 * The browser's own credentials are left out, so that it never shows its password dialog.
 */
export async function send(method, target, { query, body, signal, headers: more = {} } = {}) {
  const authorization = session.authorization();
  const headers = authorization === null ? { ...more } : { authorization, ...more };
  if (body !== undefined) headers["content-type"] = "application/json";
  const encoded = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const options = { method, headers, body: encoded, signal, credentials: "omit", cache: "no-store" };
  const response = await arrival(fetch(urlOf(target, query), options));
  if (response.ok) return response;
  const error = new APIError(response.status, await reasonOf(response));
  // 401 is also the answer to a request that the user has no right to make.
  if (response.status === 401 && /^not_authori[sz]ed$/i.test(error.message)) refused.dispatchEvent(new Event("refused"));
  throw error;
}

async function json(response) {
  const text = await arrival(response.text());
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    throw new APIError(0, "The answer is not from the broker: a proxy, perhaps");
  }
}

/** GET; returns the decoded body. */
export const get = async (target, query, signal) => json(await send("GET", target, { query, signal }));

/** PUT with a JSON body. */
export const put = async (target, body = {}, signal) => json(await send("PUT", target, { body, signal }));

/** PUT of an object; true if it is new, false if one was there. */
export const set = async (target, body = {}) => (await send("PUT", target, { body })).status === 201;

/** POST with a JSON body; returns the decoded body. */
export const post = async (target, body = {}, query, signal) => json(await send("POST", target, { body, query, signal }));

/** DELETE. */
export const remove = async (target, query, signal) => json(await send("DELETE", target, { query, signal }));

/**
 * GET of a stream of lines: calls `take` with each line until the stream ends or the signal aborts it.
 * `opened` is called once the stream has begun.
 */
export async function lines(target, query, signal, take, opened = () => {}) {
  const response = await send("GET", target, { query, signal });
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    parts.forEach(take);
  }
}

export default { get, put, set, post, remove, send, lines, file };
