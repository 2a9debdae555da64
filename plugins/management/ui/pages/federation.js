/** All pages of federation, in the order of the menu. */

import { setPage, setsPage } from "./federation_sets.js";
import { linkPage, statusPage } from "./federation_status.js";
import { upstreamPage, upstreamsPage } from "./federation_upstreams.js";

export const FEDERATION_PAGES = [statusPage, linkPage, upstreamsPage, upstreamPage, setsPage, setPage];
