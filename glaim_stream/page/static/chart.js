// One sensor's window: what was observed, what was filled and with which band, and what came late.

export const OBSERVED = 0, PROVISIONAL = 1, FINAL = 2, LATE = 3;
const LEFT = 4, RIGHT = 58, TOP = 6, BOTTOM = 18;

/** The rows of a group, folded by cell as they arrive: rows[sensor] maps a time to its row of each kind. */
export class Window {
  constructor(head) {
    this.head = head;
    this.cells = head.sensors.map(() => new Map());
    this.endMs = head.end_ms;
  }

  add(lines, endMs) {
    this.endMs = Math.max(this.endMs, endMs);
    for (const [sensor, ts, kind, value, lower, upper, method, revision, gapAge, version] of lines) {
      const cells = this.cells[sensor], cell = cells.get(ts) || [];
      cell[kind] = { ts, kind, value, lower, upper, method, revision, gapAge, version };
      cells.set(ts, cell);
    }
    const oldest = this.startMs;
    for (const cells of this.cells) for (const ts of cells.keys()) if (ts < oldest) cells.delete(ts);
  }

  get startMs() {
    return this.endMs - this.head.window * this.head.step_ms;
  }
}

/** The row that counts for a cell: a late reading, else the reading, else the final value, else the first estimate. */
export function best(cell) {
  return cell && (cell[LATE] || cell[OBSERVED] || cell[FINAL] || cell[PROVISIONAL]);
}

export function filled(cell) {
  return cell && (cell[FINAL] || cell[PROVISIONAL]);
}

export class Chart {
  constructor(window, sensor) {
    this.window = window;
    this.sensor = sensor;
    this.about = window.head.sensors[sensor];
    this.cursor = null; // time of the step below pointer or keys
    this.visible = false;
    this.figure = document.createElement("figure");
    const caption = document.createElement("figcaption"), name = document.createElement("b");
    this.fault = document.createElement("span");
    this.fault.className = "fault";
    this.now = document.createElement("span");
    this.canvas = document.createElement("canvas");
    this.line = document.createElement("output");
    const unit = document.createElement("span");
    name.textContent = this.about.id;
    unit.textContent = this.about.unit;
    unit.className = "soft small";
    this.now.className = "now";
    caption.append(name, unit, this.fault, this.now);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.figure.append(caption, this.canvas, this.line);
    this.canvas.addEventListener("pointermove", event => this.point(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.move(null));
    this.canvas.addEventListener("click", event => this.point(event.offsetX));
    this.canvas.addEventListener("keydown", event => this.key(event));
  }

  get cells() {
    return this.window.cells[this.sensor];
  }

  key(event) {
    const { step_ms: step } = this.window.head, end = this.window.endMs;
    const at = this.cursor ?? end - step;
    if (event.key === "ArrowLeft") this.move(Math.max(this.window.startMs, at - step));
    else if (event.key === "ArrowRight") this.move(Math.min(end - step, this.cursor === null ? at : at + step));
    else if (event.key === "Home") this.move(this.window.startMs);
    else if (event.key === "End") this.move(end - step);
    else return;
    event.preventDefault();
  }

  point(x) {
    const { step_ms: step } = this.window.head;
    this.move(this.window.startMs + Math.floor((x - LEFT) / this.pitch) * step);
  }

  move(ts) {
    if (this.cursor === ts) return;
    this.cursor = ts;
    this.draw();
  }

  draw() {
    this.describe();
    if (!this.visible) return;
    const { canvas } = this, scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const pen = canvas.getContext("2d"), ink = colours();
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const { step_ms: step, window: steps } = this.window.head, start = this.window.startMs;
    this.pitch = (width - LEFT - RIGHT) / steps;
    const [low, high] = this.range();
    const x = ts => LEFT + ((ts - start) / step + 0.5) * this.pitch;
    const y = value => TOP + ((high - value) / (high - low)) * (height - TOP - BOTTOM);
    this.axes(pen, ink, x, y, low, high, width, height);
    const order = [...this.cells.keys()].sort((one, other) => one - other);
    if (this.cursor !== null) this.mark(pen, ink, x, height);
    this.band(pen, ink, x, y, order, step);
    pen.lineJoin = pen.lineCap = "round";
    this.path(pen, x, y, order, step, ink.filled, 2, row => true, row => !isReading(row));
    this.path(pen, x, y, order, step, ink.observed, 1.4, isReading, () => false);
    const size = Math.max(1.6, Math.min(3.4, this.pitch * 0.42));
    for (const ts of order) {
      const cell = this.cells.get(ts);
      if (cell[OBSERVED] && this.pitch > 7) dot(pen, x(ts), y(cell[OBSERVED].value), 1.5, ink.observed);
      if (has(cell[PROVISIONAL])) ring(pen, x(ts), y(cell[PROVISIONAL].value), size, ink.filled, ink.card);
      if (has(cell[FINAL])) dot(pen, x(ts), y(cell[FINAL].value), size, ink.filled);
      if (has(cell[LATE])) diamond(pen, x(ts), y(cell[LATE].value), size + 1.2, ink.late);
    }
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const cell of this.cells.values())
      for (const row of cell) if (has(row)) [low, high] = [Math.min(low, row.value), Math.max(high, row.value)];
    if (low > high) return [0, 1];
    const room = (high - low || Math.abs(high) || 1) * 0.6; // a wide band does not flatten the curve
    let [wide, tall] = [low, high];
    for (const cell of this.cells.values()) {
      const row = best(cell);
      if (!isReading(row) && row.lower !== null && row.upper !== null)
        [wide, tall] = [Math.min(wide, row.lower), Math.max(tall, row.upper)];
    }
    [low, high] = [Math.max(wide, low - room), Math.min(tall, high + room)];
    const edge = (high - low || Math.abs(high) || 1) * 0.06;
    return [low - edge, high + edge];
  }

  axes(pen, ink, x, y, low, high, width, height) {
    pen.strokeStyle = ink.grid;
    pen.fillStyle = ink.soft;
    pen.lineWidth = 1;
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (const value of ticks(low, high, 2)) {
      const at = Math.round(y(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, at);
      pen.lineTo(width - RIGHT, at);
      pen.stroke();
      pen.fillText(number(value), width - RIGHT + 5, Math.max(7, at));
    }
    pen.textBaseline = "alphabetic";
    const { step_ms: step, window: steps } = this.window.head, start = this.window.startMs;
    const every = Math.max(1, Math.round(110 / this.pitch));
    let right = -Infinity;
    for (let at = start + step * Math.max(1, Math.round(every / 3)); at < this.window.endMs - step * every / 4; at += every * step) {
      const text = clock(at, step * steps), half = pen.measureText(text).width / 2;
      if (x(at) - half < right + 12 || x(at) - half < 0) continue;
      pen.textAlign = "center";
      pen.fillText(text, x(at), height - 4);
      right = x(at) + half;
    }
  }

  mark(pen, ink, x, height) {
    if (this.cursor < this.window.startMs) return;
    const wide = Math.max(3, this.pitch);
    pen.fillStyle = ink.grid;
    pen.fillRect(x(this.cursor) - wide / 2, 0, wide, height - BOTTOM + 2);
  }

  band(pen, ink, x, y, order, step) {
    pen.fillStyle = ink.band;
    let run = [];
    const flush = () => {
      if (!run.length) return;
      const half = this.pitch / 2;
      pen.beginPath();
      pen.moveTo(x(run[0].ts) - half, y(run[0].upper));
      for (const row of run) pen.lineTo(x(row.ts), y(row.upper));
      pen.lineTo(x(run.at(-1).ts) + half, y(run.at(-1).upper));
      pen.lineTo(x(run.at(-1).ts) + half, y(run.at(-1).lower));
      for (const row of [...run].reverse()) pen.lineTo(x(row.ts), y(row.lower));
      pen.lineTo(x(run[0].ts) - half, y(run[0].lower));
      pen.fill();
      run = [];
    };
    for (const ts of order) {
      const row = filled(this.cells.get(ts));
      if (!row || row.lower === null || row.upper === null || (run.length && ts !== run.at(-1).ts + step)) flush();
      if (row && row.lower !== null && row.upper !== null) run.push(row);
    }
    flush();
  }

  /** Lines between neighbouring steps whose rows pass `takes`; with `needs`, at least one of the two must pass that. */
  path(pen, x, y, order, step, colour, width, takes, needs) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    let before = null;
    for (const ts of order) {
      const row = best(this.cells.get(ts));
      if (!has(row) || !takes(row)) {
        before = null;
        continue;
      }
      const near = before && ts - before.ts === step;
      if (near && (takes === isReading || needs(row) || needs(before))) {
        pen.moveTo(x(before.ts), y(before.value));
        pen.lineTo(x(ts), y(row.value));
      }
      before = row;
    }
    pen.stroke();
  }

  describe() {
    const newest = best(this.cells.get(Math.max(...this.cells.keys())));
    this.now.textContent = has(newest) ? `${number(newest.value)}${isReading(newest) ? "" : " " + how(newest)}` : "–";
    const cell = this.cursor === null ? null : this.cells.get(this.cursor);
    this.line.textContent = this.cursor === null ? "" : `${moment(this.cursor)}  ${told(cell)}`;
    this.canvas.setAttribute("aria-label", `${this.about.id} ${this.about.unit}. ${this.line.textContent || "newest: " + this.now.textContent}`);
  }
}

const WORDS = { model: "model", blend: "blend", gaussian: "closed form", interpolation: "interpolation",
  last_value: "last value", none: "no value", observed: "observed" };

function how(row) {
  return WORDS[row.method] || row.method;
}

function told(cell) {
  if (!cell) return "no row yet";
  const parts = []; // what counts comes first: a narrow screen cuts the line
  if (cell[LATE]) parts.push(`late correction ${number(cell[LATE].value)}`);
  if (cell[OBSERVED]) parts.push(`observed ${number(cell[OBSERVED].value)}`);
  for (const [kind, word] of [[FINAL, "final"], [PROVISIONAL, "provisional"]]) {
    const row = cell[kind];
    if (!row) continue;
    const range = row.lower === null ? "" : ` [${number(row.lower)}, ${number(row.upper)}]`;
    parts.push(row.value === null ? `${word} no value` : `${word} ${number(row.value)}${range} by ${how(row)}`);
  }
  return parts.join(" · ");
}

function isReading(row) {
  return row.kind === OBSERVED || row.kind === LATE;
}

function has(row) {
  return row && row.value !== null;
}

function dot(pen, x, y, size, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, size, 0, 7);
  pen.fill();
}

function ring(pen, x, y, size, colour, inside) {
  dot(pen, x, y, size, inside);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.3;
  pen.stroke();
}

function diamond(pen, x, y, size, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x, y - size);
  pen.lineTo(x + size, y);
  pen.lineTo(x, y + size);
  pen.lineTo(x - size, y);
  pen.fill();
}

function ticks(low, high, wanted) {
  const power = 10 ** Math.floor(Math.log10(high - low));
  const lines = step => Math.floor(high / step) - Math.ceil(low / step) + 1;
  const step = [5, 2, 1, 0.5, 0.2, 0.1].map(each => each * power).find(each => lines(each) >= wanted) || power / 10;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high && found.length < 9; at += step) found.push(at);
  return found;
}

let palette = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (palette = null));

function colours() {
  if (!palette) {
    const style = getComputedStyle(document.documentElement);
    palette = Object.fromEntries(["observed", "filled", "band", "late", "grid", "soft", "card"]
      .map(name => [name, style.getPropertyValue(`--${name}`)]));
  }
  return palette;
}

/** A number with four digits that count. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2);
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

function clock(ts, spanMs) {
  const text = new Date(ts).toISOString();
  return spanMs > 2 * 86_400_000 ? text.slice(5, 10) : spanMs > 600_000 ? text.slice(11, 16) : text.slice(11, 19);
}

/** A moment in UTC, to the second. */
export function moment(ts) {
  return new Date(ts).toISOString().slice(0, 19).replace("T", " ").replace(/:00$/, "") + " UTC";
}
