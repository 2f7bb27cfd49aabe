// The connection to the worker: one stream of events while the tab is visible, short polls where no stream gets through.

const SILENT_MS = 15_000; // the worker sends something every 5 s
const POLL_MS = 2_000;
const RETRY_STREAM_MS = 60_000;
const NAMES = ["names", "overview", "group", "gone"];

export class Connection {
  /** onEvent(name, document) for every event, onState("live" | "polls" | "lost" | "token") as the connection changes. */
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.group = null;
    this.source = null;
    this.polling = null;
    this.position = "";
    this.heard = 0;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.open()));
    setInterval(() => this.check(), 3_000);
  }

  watch(group) {
    this.group = group;
    this.position = "";
    this.open();
  }

  open() {
    this.pause();
    if (document.hidden) return;
    this.heard = Date.now();
    this.source = new EventSource("/api/stream" + this.query({}));
    for (const name of NAMES) {
      this.source.addEventListener(name, event => {
        this.heard = Date.now();
        this.position = event.lastEventId;
        this.onState("live");
        this.onEvent(name, JSON.parse(event.data));
      });
    }
    this.source.addEventListener("error", () => {
      if (this.source && this.source.readyState === EventSource.CLOSED) this.startPolling();
    });
  }

  pause() {
    if (this.source) this.source.close();
    clearTimeout(this.polling);
    this.source = this.polling = null;
  }

  check() {
    if (this.source && !document.hidden && Date.now() - this.heard > SILENT_MS) this.startPolling();
  }

  startPolling() {
    this.pause();
    this.streamAt = Date.now() + RETRY_STREAM_MS;
    this.poll();
  }

  async poll() {
    const group = this.group;
    try {
      const answer = await fetch("/api/state" + this.query({ position: this.position }), { cache: "no-store" });
      if (answer.status === 401) return this.onState("token");
      if (!answer.ok) throw new Error(answer.statusText);
      const found = await answer.json();
      if (group !== this.group) return;
      this.position = found.position;
      this.onState("polls");
      for (const [name, data] of found.events) this.onEvent(name, data);
    } catch {
      this.onState("lost");
    }
    if (this.source || document.hidden) return;
    if (Date.now() > this.streamAt) this.open();
    else this.polling = setTimeout(() => this.poll(), POLL_MS);
  }

  query(more) {
    const given = new URLSearchParams(more);
    if (this.group !== null) given.set("group", this.group);
    return "?" + given;
  }
}
