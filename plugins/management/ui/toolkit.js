/** The parts of which pages are made: requests, lists, forms, dialogs, charts, elements and texts. */

export { default as api, DEFAULT_EXCHANGE, path } from "./core/api.js";
export { NAMED, confirm, dialog } from "./core/dialog.js";
export { argumentsTable, fieldRow, follow, form, typed } from "./core/form.js";
export { List, paged } from "./core/list.js";
export { refreshNow } from "./core/poll.js";
export * as router from "./core/router.js";
export { SamplesChart, rangeChooser, rangeQuery } from "./core/samples_chart.js";
export { may } from "./core/session.js";
export * as tasks from "./core/tasks.js";
export { BYTE_STEPS, COUNT_STEPS } from "./web/chart.js";
export { facts, fill, h, short, show, svg } from "./web/dom.js";
export * as format from "./web/format.js";
export { prefer, preference } from "./web/preferences.js";
export { whole } from "./web/table.js";
