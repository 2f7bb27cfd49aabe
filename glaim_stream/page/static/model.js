// Accuracy, weights of the experts, and versions of a group's model.

import { moment, number } from "./chart.js";
import { duration } from "./groups.js";

const EXPERTS = ["model", "gaussian", "baseline"];
const FEWEST = 20; // hidden readings of a sensor, below which its error says little

export class ModelPanel {
  constructor() {
    this.place = "first";
    this.event = null;
    this.newest = new Map(); // version: time of the newest value of the window that it made
    for (const place of ["first", "final"]) {
      document.getElementById(`show-${place}`).addEventListener("click", () => {
        this.place = place;
        for (const each of ["first", "final"])
          document.getElementById(`show-${each}`).setAttribute("aria-pressed", String(each === place));
        this.draw();
      });
    }
  }

  set(event) {
    this.event = event;
    this.draw();
  }

  draw() {
    const event = this.event;
    if (!event) return;
    const errors = event.errors[this.place], weights = event.weights;
    document.getElementById("model-about").textContent = event.model;
    const figures = [];
    if (event.coverage !== null) figures.push(["inside the 90 % band", percent(event.coverage)]);
    const gain = this.gain(errors, "blend");
    if (gain !== null) figures.push(["error beside the baseline's", `${gain > 0 ? "−" : "+"}${percent(Math.abs(gain))}`]);
    const judged = Object.values(errors).reduce((sum, each) => sum + each.count, 0);
    figures.push([event.since_start ? "hidden readings since the start" : "hidden readings, 10 min", judged.toLocaleString("en")]);
    list("model-figures", figures);
    this.drawMethods(errors);
    const body = document.getElementById("model-rows");
    while (body.rows.length > event.sensors.length) body.deleteRow(-1);
    event.sensors.forEach((sensor, at) => {
      const row = body.rows[at] || newRow(body), found = errors[sensor.id] || {};
      row.cells[0].firstChild.textContent = sensor.id;
      row.cells[0].lastChild.textContent = sensor.unit ? ` ${sensor.unit}` : "";
      const own = weights ? weights[this.place][at] : [];
      const told = [];
      for (const [place, expert] of EXPERTS.entries()) {
        const share = weights ? own[weights.experts.indexOf(expert)] || 0 : 0;
        row.cells[1].firstChild.children[place].style.width = `${100 * share}%`;
        if (share > 0.005) told.push(`${expert === "gaussian" ? "closed form" : expert} ${percent(share)}`);
      }
      row.cells[1].firstChild.title = told.join(", ");
      row.cells[1].firstChild.setAttribute("aria-label", told.join(", ") || "no weights yet");
      ["blend", ...EXPERTS].forEach((method, place) => {
        const cell = row.cells[2 + place], value = found[method];
        cell.textContent = value === undefined ? "–" : number(value);
        cell.className = found.count < FEWEST ? "n soft" : "n";
      });
    });
  }

  /** Take the window of the group that is shown. */
  setWindow(cells) {
    this.newest = new Map();
    for (const of of cells)
      for (const cell of of.values())
        for (const row of cell)
          if (row && row.version && row.ts > (this.newest.get(row.version) ?? -Infinity)) this.newest.set(row.version, row.ts);
    this.draw();
  }

  /** Published values and every method alone: its versions, what they were made of, their age, and the live error. */
  drawMethods(errors) {
    const versions = this.event.versions, now = Date.now();
    const error = method => {
      const gain = this.gain(errors, method);
      return gain === null ? "–" : `× ${(1 - gain).toFixed(2)}`;
    };
    const answering = new Map(["model", "gaussian"].map(method => [method, this.answering(method)]));
    const newest = answering.get("model")?.version;
    const beside = version => {
      const pair = this.event.compared.find(each => each.version === version && each.against === newest);
      if (!pair) return ["–"];
      const errors = pair[this.place], times = ratio(errors, "own", "other");
      const count = Object.values(errors).reduce((sum, each) => sum + each.count, 0).toLocaleString("en");
      return times === null ? ["–", `${count} hidden readings so far`]
        : [`× ${times.toFixed(2)} of version ${newest}`, `on the same ${count} hidden readings; below 1 it is the better one`];
    };
    const rows = [["published", "", "all methods by their weights", error("blend"), ""]];
    if (!versions.some(each => each.method === "model") && error("model") !== "–")
      rows.push(["model", "", "a version whose contract is not known", error("model"), ""]);
    for (const each of versions) {
      const age = each.made_ms ? `, ${duration(Math.max(0, now - each.made_ms) / 1000)} ago` : "";
      const until = each.until_ms ? `, of readings up to ${moment(each.until_ms)}` : "";
      const seen = each.refused ? `out of service: ${each.refused}`
        : this.newest.has(each.version) ? moment(this.newest.get(each.version)) : "none";
      const scored = answering.get(each.method) === each;  // the error is the method's, whichever version answered
      const [told, title] = scored ? [error(each.method)] : each.method === "model" ? beside(each.version) : ["–"];
      rows.push([each.method === "gaussian" ? "closed form" : each.method, each.version, each.source + age + until,
        told, seen, title || ""]);
    }
    rows.push(["baseline", "", "last value, interpolation", "× 1.00", ""]);
    const body = document.getElementById("method-rows");
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach(([...texts], at) => {
      const row = body.rows[at] || body.insertRow(), title = texts.splice(5)[0] || "";
      texts.forEach((text, place) => {
        const cell = row.cells[place] || row.insertCell();
        if (place === 3) cell.className = "n";
        if (place === 3 && cell.title !== title) cell.title = title;
        if (cell.textContent !== text) cell.textContent = text;
      });
    });
  }

  /** The version of a method that filled the newest value of the window; before it has one, the newest one in service. */
  answering(method) {
    const last = each => this.newest.get(each.version) ?? -Infinity;
    return this.event.versions
      .filter(each => each.method === method && !each.refused)
      .reduce((best, each) => best && last(best) >= last(each) ? best : each, null);
  }

  /** By how much a method's errors are below the baseline's: one less the geometric mean of the sensors' ratios. */
  gain(errors, method) {
    const times = ratio(errors, method, "baseline");
    return times === null ? null : 1 - times;
  }
}

/** One error over another: the geometric mean of the sensors' ratios, of those with enough readings; null without. */
function ratio(errors, one, other) {
  const ratios = Object.values(errors)
    .filter(each => each.count >= FEWEST && each[one] > 0 && each[other] > 0)
    .map(each => Math.log(each[one] / each[other]));
  return ratios.length ? Math.exp(ratios.reduce((sum, each) => sum + each, 0) / ratios.length) : null;
}

function newRow(body) {
  const row = body.insertRow(), head = document.createElement("th"), unit = document.createElement("span");
  const stack = document.createElement("div");
  head.scope = "row";
  unit.className = "soft small";
  head.append(document.createElement("span"), unit);
  row.append(head);
  stack.className = "stack";
  stack.setAttribute("role", "img");
  for (const name of EXPERTS) {
    const part = document.createElement("i");
    part.className = name;
    stack.append(part);
  }
  row.insertCell().append(stack);
  for (let at = 0; at < 4; at++) row.insertCell();
  return row;
}

export function percent(share) {
  return `${(100 * share).toFixed(share > 0.1 ? 0 : 1)} %`;
}

/** Names and values as a list of definitions, changed in place. */
export function list(id, figures) {
  const box = document.getElementById(id);
  while (box.children.length > figures.length) box.lastChild.remove();
  figures.forEach(([name, value], at) => {
    if (!box.children[at]) {
      const pair = document.createElement("div");
      pair.append(document.createElement("dt"), document.createElement("dd"));
      box.append(pair);
    }
    const [term, text] = box.children[at].children;
    if (term.textContent !== name) term.textContent = name;
    if (text.textContent !== value) text.textContent = value;
  });
}
