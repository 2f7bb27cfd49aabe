// All groups at a glance: a map with one cell a group, and tiles of which only the visible ones exist.

const STATES = ["whole", "holes", "dark", "new"];
const FAULTY = STATES.length; // a filter beside the states: groups with faulty sensors
const URGENCY = [3, 2, 0, 4]; // of whole, with holes, dark, new; groups with faulty sensors come after the dark ones
const WORDS = { whole: "whole", holes: "with holes", dark: "dark", new: "new", faulty: "with faulty sensors" };
const TILE = { width: 132, height: 40, gap: 6 };
const MAP_FROM = 40; // groups
const UNKNOWN = 2 ** 32 - 1;

export class Groups {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.names = []; // of this worker's groups
    this.order = []; // places in `names`, sorted by urgency, then by name
    this.rank = []; // place of each name in the alphabet
    this.urgency = []; // of each group, as it was sorted last
    this.shown = []; // of these, the ones that pass search and state
    this.state = this.missing = this.behind = this.faulty = null;
    this.version = -1;
    this.only = null;
    this.chosen = null;
    this.active = 0; // place in `shown`
    this.box = document.getElementById("tiles");
    this.map = document.getElementById("map");
    this.search = document.getElementById("search");
    this.space = document.createElement("div");
    this.space.className = "space";
    this.box.append(this.space);
    this.pool = [];
    this.chips = this.makeChips();
    this.box.addEventListener("scroll", () => this.later());
    this.box.addEventListener("keydown", event => this.key(event));
    this.box.addEventListener("click", event => {
      const tile = event.target.closest(".tile");
      if (tile) this.choose(Number(tile.dataset.at));
    });
    this.search.addEventListener("input", () => this.filter());
    this.search.addEventListener("keydown", event => {
      if (event.key === "Enter" && this.shown.length) this.choose(0);
      if (event.key === "ArrowDown") this.box.focus();
    });
    this.map.addEventListener("click", event => {
      const box = this.map.getBoundingClientRect();
      const at = Math.floor((event.clientY - box.top) / this.cell) * this.across + Math.floor((event.clientX - box.left) / this.cell);
      if (at < this.shown.length) this.choose(at);
    });
    new ResizeObserver(() => this.later()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.later());
  }

  setNames(event) {
    this.names = event.names;
    this.version = event.version;
    this.state = null;
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    this.order = [...this.names.keys()].sort((one, other) => compare(this.names[one], this.names[other]));
    this.order.forEach((place, at) => (this.rank[place] = at));
    this.urgency = [];
    this.filter();
  }

  /** Sorts by urgency and filters, if a group's urgency has changed; otherwise the tiles stay where they are. */
  sort() {
    const urgency = Array.from(this.state, (code, place) => (code !== 2 && this.faulty[place] ? 1 : URGENCY[code]));
    if (urgency.every((each, place) => each === this.urgency[place])) return false;
    const active = this.shown[this.active];
    this.urgency = urgency;
    this.order.sort((one, other) => urgency[one] - urgency[other] || this.rank[one] - this.rank[other]);
    this.filter();
    this.active = Math.max(0, this.shown.indexOf(active));
    return true;
  }

  setStates(event) {
    if (event.version !== this.version) return;
    this.state = bytes(event.state);
    this.missing = bytes(event.missing);
    this.behind = new Uint32Array(bytes(event.behind_s).buffer);
    this.faulty = bytes(event.faulty);
    const counts = [...STATES, "faulty"].map(() => 0);
    for (const each of this.state) counts[each]++;
    for (const each of this.faulty) if (each) counts[FAULTY]++;
    counts.forEach((_, code) => {
      this.chips[code].count.textContent = counts[code].toLocaleString("en");
      this.chips[code].button.hidden = counts[code] === 0 && this.only !== code;
    });
    document.getElementById("count").textContent = this.names.length.toLocaleString("en");
    if (this.sort()) return;
    if (this.only === null) this.later();
    else this.filter();
  }

  select(name) {
    this.chosen = name;
    this.later();
  }

  filter() {
    const wanted = this.search.value.trim().toLocaleLowerCase();
    this.shown = this.order.filter(place =>
      (this.only === null || (this.state && (this.only === FAULTY ? this.faulty[place] : this.state[place] === this.only))) &&
      (!wanted || this.names[place].toLocaleLowerCase().includes(wanted)));
    this.active = Math.min(this.active, Math.max(0, this.shown.length - 1));
    this.later();
  }

  makeChips() {
    const row = document.getElementById("states");
    return [...STATES, "faulty"].map((name, code) => {
      const button = document.createElement("button"), dot = document.createElement("i");
      const count = document.createElement("span");
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      dot.className = name;
      button.append(dot, WORDS[name] + " ", count);
      button.addEventListener("click", () => {
        this.only = this.only === code ? null : code;
        this.chips.forEach((each, at) => each.button.setAttribute("aria-pressed", String(this.only === at)));
        this.filter();
      });
      row.append(button);
      return { button, count };
    });
  }

  key(event) {
    const columns = this.columns || 1;
    const page = Math.max(1, Math.floor(this.box.clientHeight / (TILE.height + TILE.gap))) * columns;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page, PageDown: page,
      Home: -Infinity, End: Infinity };
    if (event.key === "Enter" || event.key === " ") this.choose(this.active);
    else if (event.key in moves) {
      this.active = Math.max(0, Math.min(this.shown.length - 1, this.active + moves[event.key]));
      const top = Math.floor(this.active / columns) * (TILE.height + TILE.gap);
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      const over = top + TILE.height - this.box.scrollTop - this.box.clientHeight;
      if (over > 0) this.box.scrollTop += over;
      this.later();
    } else return;
    event.preventDefault();
  }

  choose(at) {
    if (at >= this.shown.length) return;
    this.active = at;
    this.onChoose(this.names[this.shown[at]]);
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const width = this.box.clientWidth, high = TILE.height + TILE.gap;
    this.columns = Math.max(1, Math.floor((width + TILE.gap) / (TILE.width + TILE.gap)));
    const wide = (width + TILE.gap) / this.columns - TILE.gap;
    const rows = Math.ceil(this.shown.length / this.columns);
    this.space.style.height = rows * high + "px";
    this.box.style.height = Math.max(high, rows * high) + "px";
    const first = Math.floor(this.box.scrollTop / high) * this.columns;
    const last = Math.min(this.shown.length, first + (Math.ceil(this.box.clientHeight / high) + 1) * this.columns);
    let used = 0;
    for (let at = first; at < last; at++, used++) {
      const tile = this.pool[used] || this.newTile(used), place = this.shown[at], name = this.names[place];
      tile.dataset.at = at;
      tile.style.left = (at % this.columns) * (wide + TILE.gap) + "px";
      tile.style.top = Math.floor(at / this.columns) * high + "px";
      tile.style.width = wide + "px";
      tile.hidden = false;
      const code = this.state ? this.state[place] : 3;
      tile.className = `tile s${code}` + (at === this.active ? " active" : "");
      tile.setAttribute("aria-selected", String(name === this.chosen));
      if (tile.firstChild.textContent !== name) tile.firstChild.textContent = tile.title = name;
      const text = this.about(code, place), faulty = this.state && this.faulty[place] ? `${this.faulty[place]} faulty` : "";
      const [about, mark] = tile.lastChild.children;
      if (about.textContent !== text) about.textContent = text;
      if (mark.textContent !== faulty) mark.textContent = faulty;
      if (at === this.active) this.box.setAttribute("aria-activedescendant", tile.id);
    }
    for (; used < this.pool.length; used++) this.pool[used].hidden = true;
    this.drawMap();
  }

  about(code, place) {
    if (!this.state || code === 3) return "no step closed yet";
    const behind = this.behind[place];
    if (code === 2) return behind === UNKNOWN ? "dark" : `dark for ${duration(behind)}`;
    return code === 0 ? "whole" : `${this.missing[place]} % missing`;
  }

  newTile(at) {
    const tile = document.createElement("div");
    tile.id = `tile-${at}`;
    tile.setAttribute("role", "option");
    const line = document.createElement("div");
    line.append(document.createElement("span"), document.createElement("em"));
    tile.append(document.createElement("b"), line);
    this.box.append(tile);
    this.pool.push(tile);
    return tile;
  }

  drawMap() {
    this.map.hidden = this.names.length < MAP_FROM;
    if (this.map.hidden || !this.state) return;
    const width = this.box.clientWidth, count = Math.max(1, this.shown.length);
    this.cell = Math.max(2, Math.min(12, Math.floor(Math.sqrt((width * 190) / count))));
    this.across = Math.max(1, Math.floor(width / this.cell));
    const height = Math.ceil(count / this.across) * this.cell, scale = devicePixelRatio || 1;
    this.map.width = width * scale;
    this.map.height = height * scale;
    this.map.style.width = width + "px";
    this.map.style.height = height + "px";
    const pen = this.map.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colours = STATES.map(name => style.getPropertyValue(`--${name}`));
    pen.scale(scale, scale);
    const gap = this.cell > 4 ? 1 : 0.5;
    // One pass for each state: changing the colour for each of 10,000 cells would take most of the time.
    colours.forEach((colour, code) => {
      pen.fillStyle = colour;
      this.shown.forEach((place, at) => {
        if (this.state[place] !== code) return;
        pen.globalAlpha = code === 1 ? 0.35 + 0.65 * Math.min(1, this.missing[place] / 50) : code === 0 ? 0.55 : 1;
        pen.fillRect((at % this.across) * this.cell, Math.floor(at / this.across) * this.cell, this.cell - gap, this.cell - gap);
      });
    });
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--late");
    const dot = Math.max(1, Math.floor(this.cell / 2)) - gap / 2;
    this.shown.forEach((place, at) => {
      if (this.faulty[place]) pen.fillRect((at % this.across) * this.cell, Math.floor(at / this.across) * this.cell, dot, dot);
    });
  }
}

function bytes(text) {
  return Uint8Array.from(atob(text), each => each.charCodeAt(0));
}

/** Seconds in words, with one unit. */
export function duration(seconds) {
  for (const [unit, size] of [["y", 31_557_600], ["d", 86_400], ["h", 3_600], ["min", 60]])
    if (seconds >= 2 * size) return `${Math.round(seconds / size).toLocaleString("en")} ${unit}`;
  return `${Math.round(seconds)} s`;
}
