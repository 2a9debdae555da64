/** The frame of all pages: sign-in, navigation, virtual host, refresh interval, banner, and the page of the address. */

import * as api from "./core/api.js";
import { keyboard } from "./core/keyboard.js";
import { Poll, refreshNow } from "./core/poll.js";
import * as router from "./core/router.js";
import * as session from "./core/session.js";
import * as tasks from "./core/tasks.js";
import { h, fill, show } from "./web/dom.js";
import { clock } from "./web/format.js";
import { preference, prefer } from "./web/preferences.js";
import * as theme from "./web/theme.js";
import { documentAddress } from "./pages/documents.js";
import { PAGES, SECTIONS, partAbout, routeOf } from "./pages/index.js";

const CHANGING = ["overview", "admin"]; // the sections in which virtual hosts are added and deleted
const INTERVALS = [[5, "every 5 s"], [10, "every 10 s"], [30, "every 30 s"], [0, "never"]];
const main = h("main", { id: "main", tabindex: -1 });
const banner = h("div.banner", { role: "alert", hidden: true });
const refreshed = h("small.refreshed");
let poll = null;
let leave = null; // ends the work of the open page
let overview = null;
let vhosts = []; // the names of the virtual hosts that the user sees
let entered = []; // and of those that the user may enter
let section = ""; // of the open page
const vhostChoice = h("select", { onchange: () => {
  prefer("vhost", vhostChoice.value);
  open();
} });

/**
 * The context of a page: the chosen virtual host ("" for all), the virtual hosts that the user sees and those that the user
 * may enter, the parts of the address, and `refresh`.
 */
function contextOf(params, query) {
  return {
    params, query, overview, vhosts, entered,
    get vhost() { return preference("vhost", ""); },
    refresh: refreshNow,
    title: (text) => { document.title = `${text} · ${overview.cluster_name}`; },
  };
}

function close() {
  poll?.stop();
  poll = null;
  leave?.();
  leave = null;
}

function open() {
  close();
  if (CHANGING.includes(section)) { // the forms of the page offer the virtual hosts there are now
    section = "";
    main.setAttribute("aria-busy", "true");
    loadVhosts().finally(open);
    return;
  }
  const { segments, query } = router.current();
  const match = router.match(PAGES, segments.length ? segments : ["overview"]);
  section = match?.page.section;
  for (const link of document.querySelectorAll("nav.sections a")) {
    if (link.dataset.section === section) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone they scroll
    } else link.removeAttribute("aria-current");
  }
  drawSide(section, match?.page);
  if (match === null || !(match.page.may?.() ?? true)) {
    main.removeAttribute("aria-busy");
    main.replaceChildren(h("h1", {}, "Not found"), h("p", {}, "There is no such page, or you have no right to see it."));
    return;
  }
  const context = contextOf(match.params, query);
  const page = match.page.create(context);
  const part = partAbout(match.page);
  const guide = part && h("a.guide", { href: documentAddress(part) }, "Documentation");
  main.replaceChildren(...[guide, page.element].filter(Boolean));
  main.setAttribute("aria-busy", "true");
  context.title(page.element.querySelector("h1")?.textContent ?? match.page.title);
  leave = page.leave ?? null;
  poll = new Poll((signal) => refresh(page, signal), () => preference("interval", 5));
  poll.now();
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

async function refresh(page, signal) {
  try {
    await page.refresh?.(signal);
    show(banner, false);
    main.removeAttribute("aria-busy");
    fill(refreshed, `refreshed ${clock(Date.now())} UTC`);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof api.APIError)) fill(banner, `This page has failed: ${error.message}. It will be loaded again.`);
    else if (error.status === 0) fill(banner, `${error.message}. This page will be loaded again.`);
    else if (error.status === 404) fill(banner, "This object does not exist any more, or you may not see it.");
    else fill(banner, `The broker refused a request: ${error.message}`);
    show(banner, true);
    main.removeAttribute("aria-busy");
    if (!(error instanceof api.APIError)) throw error; // for the console
  }
}

/** The aria-current of an entry of the menu: it is the open page, or the list of the open object's page. */
function currentIn(entry, page) {
  if (entry === page) return "page";
  return !page?.menu && entry.route === (page?.list ?? page?.route.split("/")[0]) ? "true" : null;
}

function drawSide(section, page) {
  const side = document.querySelector("nav.side");
  const pages = PAGES.filter((one) => one.section === section && one.menu && (one.may?.() ?? true));
  show(side, pages.length > 1);
  side.replaceChildren(...pages.map((one) =>
    h("a", { href: router.address(one.route.split("/")), "aria-current": currentIn(one, page) }, one.menu)));
}

/** Offer the present virtual hosts. If the chosen one was deleted, all are chosen. */
async function loadVhosts() {
  try {
    [vhosts, entered] = await Promise.all([api.get("vhosts", { columns: "name" }), api.get("warren/rights")]);
    vhosts = vhosts.map((one) => one.name);
  } catch (error) {
    if (!(error instanceof api.APIError)) throw error;
    return; // the page shows the error
  }
  document.body.classList.toggle("one-vhost", vhosts.length === 1);
  if (!vhosts.includes(preference("vhost", ""))) prefer("vhost", "");
  vhostChoice.replaceChildren(h("option", { value: "" }, "all virtual hosts"), ...vhosts.map((name) => h("option", { value: name }, name)));
  vhostChoice.value = preference("vhost", "");
}

function header() {
  const interval = h("select", { onchange: () => {
    prefer("interval", Number(interval.value));
    poll?.now();
  } }, INTERVALS.map(([seconds, label]) => h("option", { value: seconds, selected: seconds === preference("interval", 5) }, label)));
  const links = SECTIONS.filter((one) => one.may?.() ?? true).map((one) =>
    h("a", { href: router.address(routeOf(one).split("/")), data: { section: one.name }, title: `keys: g ${one.key}` }, one.title));
  return h("header", {},
    h("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
    h("div.brand", {}, h("a", { href: "#/overview" }, h("b", {}, "Warren")), h("small", {}, ` ${overview.product_version}`),
      h("span.cluster", { title: "the name of this cluster" }, overview.cluster_name)),
    h("div.choices", {}, refreshed, h("label", {}, "Refresh ", interval), h("label.vhost", {}, "Virtual host ", vhostChoice),
      h("label", {}, "Theme ", theme.chooser()),
      h("span.user", {}, session.user.name), h("button", { onclick: signOut }, "Log out")),
    h("nav.sections", { "aria-label": "Sections" }, links));
}

function footer() {
  return h("footer", {}, h("a", { href: documentAddress("start") }, "Documentation"), " · ",
    h("a", { href: "api/", target: "_blank" }, "HTTP API"), " · ", h("small", {}, "Times are in UTC."));
}

/** Show the page to sign in, which then starts. `reason` says why the user `user` is here again. */
function signIn(reason, user) {
  document.title = "Sign in · Warren";
  const name = h("input", {
    id: "user", name: "username", autocomplete: "username", required: true, spellcheck: "false", autocapitalize: "none",
    value: user,
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
    start("", name.value);
  });
  document.body.replaceChildren(h("main.sign-in", {}, h("h1", {}, "Warren"), form));
  (user ? password : name).focus();
}

function signOut() {
  session.forget();
  location.reload(); // so that nothing of this user is left in the page
}

/** Show the page of the address, or the page to sign in with its reason and the name of the user who is known. */
async function start(reason = "", user = "") {
  close();
  if (session.authorization() === null) return signIn(reason, user);
  try {
    session.setUser(await api.get("whoami"));
    overview = await api.get("overview");
    await loadVhosts();
    const frame = h("div.frame", {}, h("nav.side", { "aria-label": "Pages" }), main);
    document.body.replaceChildren(header(), banner, frame, footer(), tasks.element);
    open();
  } catch (error) {
    if (!(error instanceof api.APIError)) throw error;
    if (error.status === 401) {
      session.forget();
      return signIn("Sign-in failed: the name or the password is wrong, or the user has no tag that allows management.", user);
    }
    document.body.replaceChildren(h("main.sign-in", {}, h("h1", {}, "Warren"), h("p.problem", { role: "alert" }, error.message),
      h("button", { onclick: () => start() }, "Try again")));
    setTimeout(() => { if (overview === null) start(); }, 5000);
  }
}

api.refused.addEventListener("refused", () => {
  if (session.user === null) return;
  const { name } = session.user;
  session.forget();
  start("You were logged out: the broker does not accept the password any more.", name);
});
window.addEventListener("hashchange", () => {
  if (main.isConnected) open(); // until then the sign-in or the start shows, which opens the page at its end
});
keyboard(SECTIONS, routeOf);
start();
