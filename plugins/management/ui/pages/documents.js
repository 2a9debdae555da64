/** The documents of this version of the broker, which brings them along. */

import { api, fill, h, path, router } from "../toolkit.js";
import { render } from "../core/markdown.js";
import { copyButton } from "./widgets.js";

// The first ones of the list, in the order in which one reads them
const FIRST = ["start", "tutorials", "testing", "compare", "migration", "troubleshooting", "operations", "security", "http-api", "federation"];

/** The address of a document, or of a part of it: "operations#logs". */
export function documentAddress(text) {
  const [name, at] = text.split("#");
  return router.address(["documents", name], at ? { at } : {});
}

const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

/** The maker of links of a document: to its own parts, to other documents, and to other sites; no others are links. */
const linkIn = (document, titles) => (target, children) => {
  const [, name, at = ""] = /^(?:(?:\.\.\/docs\/)?([\w-]+)\.md)?(?:#(.*))?$/.exec(target) ?? [];
  if (name === undefined ? at : name in titles) return h("a", { href: documentAddress(`${name ?? document}#${at}`) }, children);
  return /^https?:/.test(target) ? h("a", { href: target, target: "_blank", rel: "noreferrer" }, children) : h("span", {}, children);
};

const image = (target, text) => h("img", { src: `docs/${target}`, alt: text });
const code = (text) => h("div.code", {}, h("pre", { tabindex: 0 }, text), copyButton(text));

function create(context) {
  const { name } = context.params;
  const article = h("article", {}, h("h1", {}, "Documentation"));
  const contents = h("nav.documents", { "aria-label": "Documents" });
  let isShown = false;
  const refresh = async (signal) => {
    if (isShown) return; // a document does not change while its broker runs
    const titles = await (await api.file("docs/titles.json", signal)).json();
    const names = Object.keys(titles).sort((one, other) => rank(one) - rank(other));
    fill(contents, names.map((one) => h("a", { href: documentAddress(one), "aria-current": one === name ? "page" : null }, titles[one])));
    const response = await api.file(path`docs/${name}.md`, signal);
    const text = response.ok ? await response.text() : "# Not found\n\nThis document is not installed with the broker.";
    article.replaceChildren(...render(text, { link: linkIn(name, titles), image, code }));
    context.title(article.querySelector("h1").textContent);
    isShown = true;
    document.getElementById(context.query.at)?.scrollIntoView();
  };
  return { element: h("div.page.document", {}, contents, article), refresh };
}

export const documentPage = { route: "documents/:name", section: "documents", title: "Documentation", create };
