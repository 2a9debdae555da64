/** All pages of federation, in the order of the menu. */

import { setPage, setsPage } from "./federation_sets.js";
import { linkPage, statusPage } from "./federation_status.js";
import { topologyPage } from "./federation_topology.js";
import { upstreamPage, upstreamsPage } from "./federation_upstreams.js";
import { wizardPage } from "./federation_wizard.js";

export const FEDERATION_PAGES = [statusPage, linkPage, topologyPage, upstreamsPage, upstreamPage, setsPage, setPage, wizardPage];
