/** Refreshes the page at an interval: never two at a time, and not while the tab is hidden. */

let open = null; // the poll of the open page

/** Refresh the open page at once. */
export const refreshNow = () => open?.now();

export class Poll {
  #run;
  #timer = null;
  #running = null;
  #again = false;
  #stopped = false;

  /**
   * @param {(signal: AbortSignal) => Promise} run one refresh
   * @param {() => number} interval seconds between refreshes; 0 is never
   */
  constructor(run, interval) {
    this.#run = run;
    this.interval = interval;
    open = this;
    document.addEventListener("visibilitychange", this.#seen);
  }

  #seen = () => {
    if (document.hidden) clearTimeout(this.#timer);
    else this.now();
  };

  /** Refresh at once; while a refresh is under way, another one follows it. */
  async now() {
    if (this.#stopped) return;
    if (this.#running !== null) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#running = new AbortController();
    try {
      await this.#run(this.#running.signal);
    } finally {
      this.#running = null;
      this.#next();
    }
  }

  #next() {
    if (this.#stopped) return;
    if (this.#again) {
      this.#again = false;
      this.now();
    } else {
      clearTimeout(this.#timer);
      const seconds = this.interval();
      if (seconds && !document.hidden) this.#timer = setTimeout(() => this.now(), seconds * 1000);
    }
  }

  stop() {
    this.#stopped = true;
    if (open === this) open = null;
    clearTimeout(this.#timer);
    this.#running?.abort();
    document.removeEventListener("visibilitychange", this.#seen);
  }
}
