/** The overview: queued messages and rates over time, totals, nodes. */

import * as api from "../core/api.js";
import { rangeChooser, rangeQuery } from "../core/chart.js";
import { h } from "../core/dom.js";
import { lengthsChart, ratesChart } from "./rates.js";
import { section } from "./parts.js";

function create(context) {
  const lengths = lengthsChart();
  const rates = ratesChart();
  const element = h("div.page", {}, h("h1", {}, "Overview"),
    section("Totals", rangeChooser(context.refresh), h("div.charts", {}, lengths.element, rates.element)));
  return {
    element,
    async refresh(signal) {
      const overview = await api.get("overview", rangeQuery(["lengths", "msg_rates"]), signal);
      lengths.draw(overview.queue_totals);
      rates.draw(overview.message_stats);
    },
  };
}

export const overviewPage = { route: "overview", section: "overview", title: "Overview", create };
