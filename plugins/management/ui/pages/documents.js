/** The documents of this version of the broker, which brings them along. */

import { fill, h, router } from "../toolkit.js";
import { render } from "../core/markdown.js";
import { copyButton } from "./widgets.js";

/** The documents by file, in the order of the site. */
export const DOCUMENTS = {
  start: "Start in a minute", testing: "A broker for tests", migration: "Coming from RabbitMQ", troubleshooting: "Troubleshooting",
  operations: "Operations", security: "Security", "http-api": "HTTP API and metrics", federation: "Federation",
  topologies: "Federation by topology", growing: "Growing past one process", replication: "Replication", analysis: "The message log",
  plugins: "Plugins", measurements: "Measurements", decisions: "Decisions",
};

/** The address of a document, or of a part of it: "operations#logs". */
export function documentAddress(text) {
  const [name, at] = text.split("#");
  return router.address(["documents", name], at ? { at } : {});
}

/** The maker of links of a document: to its own parts, to other documents, and to other sites; no others are links. */
const linkIn = (document) => (target, children) => {
  const [, name, at = ""] = /^(?:(?:\.\.\/docs\/)?([\w-]+)\.md)?(?:#(.*))?$/.exec(target) ?? [];
  const isDocument = name === undefined ? at : name in DOCUMENTS;
  if (isDocument) return h("a", { href: documentAddress(`${name ?? document}#${at}`) }, children);
  return /^https?:/.test(target) ? h("a", { href: target, target: "_blank", rel: "noreferrer" }, children) : h("span", {}, children);
};

function create(context) {
  const { name } = context.params;
  const { at } = context.query;
  const article = h("article", {}, h("h1", {}, DOCUMENTS[name] ?? name));
  const contents = h("nav.documents", { "aria-label": "Documents" }, Object.entries(DOCUMENTS).map(([file, title]) =>
    h("a", { href: documentAddress(file), "aria-current": file === name ? "page" : null }, title)));
  const makers = {
    link: linkIn(name),
    image: (target, text) => h("img", { src: `docs/${target}`, alt: text }),
    code: (text) => h("div.code", {}, h("pre", { tabindex: 0 }, text), copyButton(text)),
  };
  let isShown = false;
  const refresh = async (signal) => {
    if (isShown) return; // a document does not change while its broker runs
    const response = await fetch(`docs/${name}.md`, { signal });
    if (!response.ok) {
      fill(article, h("h1", {}, DOCUMENTS[name] ?? name), h("p.empty", {}, "This document is not installed with the broker."));
      return;
    }
    article.replaceChildren(...render(await response.text(), makers));
    isShown = true;
    document.getElementById(at)?.scrollIntoView();
  };
  return { element: h("div.page.document", {}, contents, article), refresh };
}

export const documentPage = { route: "documents/:name", section: "documents", title: "Documentation", create };
