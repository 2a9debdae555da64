/**
 * All pages, by route, and the sections of the navigation.
 *
 * A page has `route` (segments, `:name` for a variable one), `section`, `title`, `menu` (its name in the menu of the
 * section), `list` (of an object's page: the route of its list, where that is not its own first segment), `may` (whether
 * this user may see it), and `create(context)`, which returns `{element, refresh(signal), leave?}`: the element is shown
 * at once, `refresh` loads what it shows and is called again at the chosen interval, `leave` ends the work that the page has
 * started.
 */

import * as session from "../core/session.js";
import { channelPage, channelsPage, consumersPage } from "./channels.js";
import { clusterPages } from "./cluster.js";
import { connectionPage, connectionsPage } from "./connections.js";
import { documentPage } from "./documents.js";
import { exchangePage, exchangesPage } from "./exchanges.js";
import { setPage, setsPage } from "./federation_sets.js";
import { linkPage, statusPage } from "./federation_status.js";
import { topologyPage } from "./federation_topology.js";
import { upstreamPage, upstreamsPage } from "./federation_upstreams.js";
import { wizardPage } from "./federation_wizard.js";
import { limitsPage } from "./limits.js";
import { nodePage } from "./nodes.js";
import { overviewPage } from "./overview.js";
import { operatorPolicyPage, policiesPage, policyPage } from "./policies.js";
import { queuePage } from "./queue.js";
import { queuesPage } from "./queues.js";
import { reportPage, reportsPage } from "./reports.js";
import { tracePage } from "./trace.js";
import { userPage, usersPage } from "./users.js";
import { vhostPage, vhostsPage } from "./vhosts.js";

const mayFederate = () => session.may.monitor() || session.may.makePolicies();

export const SECTIONS = [
  { name: "overview", title: "Overview", route: "overview", key: "o" },
  { name: "connections", title: "Connections", route: "connections", key: "c" },
  { name: "channels", title: "Channels", route: "channels", key: "h" },
  { name: "exchanges", title: "Exchanges", route: "exchanges", key: "e" },
  { name: "queues", title: "Queues", route: "queues", key: "q" },
  { name: "federation", title: "Federation", route: "federation", key: "f", may: mayFederate },
  { name: "messages", title: "Messages", route: "trace", key: "m", may: session.may.monitor },
  { name: "admin", title: "Admin", route: "users", key: "a" },
];

export const PAGES = [
  overviewPage, nodePage,
  connectionsPage, connectionPage, channelsPage, channelPage, consumersPage,
  exchangesPage, exchangePage,
  queuesPage, queuePage,
  statusPage, linkPage, topologyPage, upstreamsPage, upstreamPage, setsPage, setPage, wizardPage,
  tracePage, reportsPage, reportPage,
  usersPage, userPage, vhostsPage, vhostPage, policiesPage, policyPage, operatorPolicyPage, limitsPage, ...clusterPages,
  documentPage,
];

// By route, or by its first segment
const PARTS = {
  overview: "operations#what-to-watch", nodes: "operations#what-to-watch", connections: "troubleshooting#clients-are-refused-closed-or-wait",
  channels: "troubleshooting#clients-are-refused-closed-or-wait", consumers: "troubleshooting#clients-are-refused-closed-or-wait",
  exchanges: "plugins", queues: "operations#when-memory-is-low", federation: "federation#how-an-exchange-link-works",
  "federation/topology": "topologies#which-one", "federation/wizard": "topologies#which-one",
  "federation-upstreams": "federation#upstreams", "federation-upstream-sets": "federation#upstreams",
  trace: "analysis#one-message", reports: "analysis#the-analysis", users: "security#users-and-permissions",
  vhosts: "security#users-and-permissions", policies: "federation#upstreams", "operator-policies": "security#limits",
  limits: "security#limits", parameters: "federation#upstreams", features: "migration#what-is-accepted-without-effect",
  cluster: "federation", configuration: "operations#reload-and-the-wait-for-a-start", log: "operations#logs",
};

/** The part of the documentation about a page, such as "operations#logs". */
export const partAbout = ({ route }) => PARTS[route] ?? PARTS[route.split("/")[0]];

/** The route of a section: that of its first page in the menu that the user may see, if there is a menu. */
export function routeOf(section) {
  const pages = PAGES.filter((page) => page.section === section.name && page.menu);
  return (pages.find((page) => page.may?.() ?? true) ?? section).route;
}
