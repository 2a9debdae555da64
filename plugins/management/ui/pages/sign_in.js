/** The page to sign in. */

import * as session from "../core/session.js";
import { h } from "../web/dom.js";

/** Show the page; call `start` after the credentials were entered. `reason` says why the user is here again. */
export function signIn(start, reason) {
  document.title = "Sign in · Warren";
  const name = h("input", {
    id: "user", name: "username", autocomplete: "username", required: true, spellcheck: "false", autocapitalize: "none",
  });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password" });
  const form = h("form", { "aria-label": "Sign in" },
    reason ? h("p.problem", { role: "alert" }, reason) : null,
    h("div.field", {}, h("label", { for: "user" }, "User"), name),
    h("div.field", {}, h("label", { for: "password" }, "Password"), password),
    h("div.buttons", {}, h("button.primary", { type: "submit" }, "Sign in")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    session.remember(name.value, password.value);
    start();
  });
  document.body.replaceChildren(h("main.sign-in", {}, h("h1", {}, "Warren"), form));
  name.focus();
}
