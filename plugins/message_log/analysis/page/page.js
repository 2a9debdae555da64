/* Charts over time, drawn by uPlot when they come into view; tables that sort and filter. */
"use strict";
(() => {
  const HEIGHT = 220, LABEL_WIDTH = 62, CHARACTER_WIDTH = 7;
  const element = document.getElementById("figures");
  const figures = element ? JSON.parse(element.textContent) : { charts: {} };

  const short = (value) => (value === 0 || Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));
  const scaled = (units) => (value) => {
    if (value === 0) return "0";
    const [unit, size] = units.find(([, one, least = one]) => Math.abs(value) >= least) ?? units[units.length - 1];
    return `${short(value / size)} ${unit}`;
  };
  const seconds = scaled([["d", 86400, 2 * 86400], ["h", 3600, 2 * 3600], ["min", 60, 120], ["s", 1], ["ms", 1e-3], ["µs", 1e-6]]);
  // Steps of axes whose labels are durations: multiples of minutes and hours rather than of a hundred seconds.
  const DURATIONS = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1].flatMap((one) => [one, 2 * one, 5 * one])
    .concat([1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200], Array.from({ length: 12 }, (_, power) => 86400 * 2 ** power));
  const BYTES = Array.from({ length: 60 }, (_, power) => 2 ** power);
  const FORMATS = {
    s: seconds, us: (value) => seconds(value / 1e6), count: short, per_s: (value) => `${short(value)}/s`,
    bytes: scaled([["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]]),
  };
  const clock = (at, options) => new Date(at * 1000).toLocaleString("en-GB", { timeZone: "UTC", hourCycle: "h23", ...options });
  const times = (values) => {
    const step = values[1] - values[0];
    return values.map((at) => clock(at, step >= 86400 ? { day: "2-digit", month: "short" } : { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined }));
  };

  /** The colour of a variable of the style sheet in the scheme of now, which a canvas cannot resolve. */
  const colour = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  class Chart {
    constructor(figure) {
      const { unit, lines } = figures.charts[figure.dataset.chart];
      this.place = figure.querySelector(".drawing");
      this.format = FORMATS[unit];
      this.incrs = { bytes: BYTES, s: DURATIONS, us: DURATIONS.map((one) => one * 1e6) }[unit];
      this.data = [lines[0].map((_, at) => figures.start + at * figures.step), ...lines];
      this.values = [...figure.querySelectorAll(".legend b")];
      this.buttons = [...figure.querySelectorAll(".legend button")];
      this.buttons.forEach((button, at) => button.addEventListener("click", () => {
        const show = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(show));
        this.plot?.setSeries(at + 1, { show });
      }));
      new ResizeObserver(() => this.#resize()).observe(this.place);
    }

    draw() {
      this.plot?.destroy();
      this.plot = null;
      if (!this.place.clientWidth) return;
      this.plot = new uPlot(this.#options(), this.data, this.place);
    }

    #resize() {
      const width = this.place.clientWidth;
      if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    }

    #show(at) {
      this.values.forEach((value, line) => {
        const held = at === null || at === undefined ? undefined : this.data[line + 1][at];
        const time = held === undefined ? "" : clock(this.data[0][at], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
        value.textContent = held === undefined ? value.dataset.peak : `${held === null ? "none" : this.format(held)} at ${time}`;
      });
    }

    #options() {
      const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
      const width = (_, labels) => Math.max(LABEL_WIDTH, 18 + CHARACTER_WIDTH * Math.max(0, ...(labels ?? []).map((label) => label.length)));
      return {
        width: this.place.clientWidth, height: HEIGHT, padding: [12, LABEL_WIDTH / 2, null, null],
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
        legend: { show: false }, cursor: { y: false, drag: { setScale: false } },
        hooks: { setCursor: [(plot) => this.#show(plot.cursor.idx)] },
        scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0) * 1.05, Math.max(0, high ?? 0) * 1.05 || 1] } },
        axes: [{ ...axis, space: LABEL_WIDTH + 20, size: 34, values: (_, values) => times(values) }, { ...axis, size: width, ...(this.incrs && { incrs: this.incrs }), values: (_, values) => values.map(this.format) }],
        series: [{}, ...this.data.slice(1).map((_, at) => ({
          stroke: colour(`--s${at % 11}`), width: 1.5, spanGaps: false, points: { show: this.data[0].length < 3, size: 5 },
          show: this.buttons[at].getAttribute("aria-pressed") === "true",
        }))],
      };
    }
  }

  const charts = new Map();
  const figuresOnPage = [...document.querySelectorAll("figure.chart")];
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting && !charts.get(target).plot) charts.get(target).draw();
  }, { rootMargin: "300px" });
  for (const figure of figuresOnPage) {
    charts.set(figure, new Chart(figure));
    seen.observe(figure);
  }
  const redraw = () => charts.forEach((chart) => chart.plot && chart.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    charts.forEach((chart) => chart.draw());
  });

  for (const box of document.querySelectorAll(".table")) {
    const body = box.querySelector("tbody"), rows = [...body.rows], heads = [...box.querySelectorAll("th")];
    const key = (row, at) => {
      const { value } = row.cells[at].dataset;
      if (row.cells[at].classList.contains("number")) return value === undefined ? null : Number(value);
      return row.cells[at].firstElementChild?.title || row.cells[at].textContent;
    };
    heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "none" ? head.classList.contains("number") : head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? (down ? "descending" : "ascending") : "none"));
      const order = (one, other) => {
        const [first, second] = [key(one, at), key(other, at)];
        if (first === null || second === null) return (first === null) - (second === null); // without a value: last
        return (down ? -1 : 1) * (typeof first === "number" ? first - second : first.localeCompare(second, "en", { numeric: true }));
      };
      body.append(...rows.sort(order));
    }));
    const search = box.querySelector("input");
    search?.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        const text = [...row.cells].map((cell) => cell.firstElementChild?.title || cell.textContent).join(" ").toLowerCase();
        row.hidden = !text.includes(wanted);
        shown += !row.hidden;
      }
      box.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
    });
  }
})();
