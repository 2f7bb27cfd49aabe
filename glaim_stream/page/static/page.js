// The page: events of the worker into panels, and keys. Names come from producers: all of them are set as text.

import { Chart, FINAL, Window, filled, moment, number } from "./chart.js";
import { FaultPanel, namesOf, wordsOf } from "./faults.js";
import { Groups, duration } from "./groups.js";
import { ModelPanel, list, percent } from "./model.js";
import { Connection } from "./stream.js";

const $ = id => document.getElementById(id);
const count = value => Math.round(value).toLocaleString("en");
const delay = ms => (ms < 9_500 ? `${count(ms)} ms` : `${count(ms / 1000)} s`);
const HOW = { polls: "polling: the stream does not get through", lost: "no connection to the worker",
  token: "the session has ended: reload and give the token" };

const model = new ModelPanel();
const faults = new FaultPanel();
const groups = new Groups(name => choose(name));
const connection = new Connection(take, state => { how = state; showHealth(); });
let how = "live", health = null, busy = "";
let group = null, shown = null, charts = [], picked = null;

const seen = new IntersectionObserver(entries => {
  for (const entry of entries) {
    const chart = charts.find(each => each.figure === entry.target);
    if (!chart) continue;
    chart.visible = entry.isIntersecting;
    if (chart.visible) chart.draw();
  }
}, { rootMargin: "200px" });
new ResizeObserver(() => charts.forEach(chart => chart.draw())).observe($("charts"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(() => charts.forEach(chart => chart.draw())));

function take(name, event) {
  if (name === "elsewhere") groups.setElsewhere(event);
  else if (name === "names") {
    groups.setNames(event);
    if (group === null && event.names.length) choose(wanted() ?? groups.names[groups.order[0]], { keep: true });
  } else if (name === "overview") showOverview(event);
  else if (name === "model") {
    $("model").hidden = !event.weights && !event.versions.length && !Object.keys(event.errors.first).length;
    model.set(event);
  }
  else if (name === "group") showGroup(event);
  else if (name === "faults") showFaults(event);
  else if (name === "gone" && event.group === group) showGone(event);
}

function wanted() {
  try {
    return location.hash.length > 1 ? decodeURIComponent(location.hash.slice(1)) : null;
  } catch {
    return null;
  }
}

function hashOf(name) {
  return "#" + encodeURIComponent(name.toWellFormed ? name.toWellFormed() : name);
}

function choose(name, { keep = false } = {}) {
  if (name === group) return;
  group = name;
  groups.select(name);
  if (!keep) history.replaceState(null, "", hashOf(name));
  $("group-title").textContent = name;
  $("group-about").textContent = "";
  $("group-note").textContent = "waiting for its rows";
  shown = null;
  $("other").hidden = true;
  faults.clear();
  connection.watch(name);
}

addEventListener("hashchange", () => {
  const name = wanted();
  if (name) choose(name, { keep: true });
});

function showOverview(event) {
  groups.setStates(event);
  health = event.health;
  busy = event.busy;
  showHealth();
  const figures = event.figures, latency = figures.latency_ms;
  const lines = [
    ["readings a second", figures.per_s.readings === null ? "…" : count(figures.per_s.readings)],
    ["rows a second", figures.per_s.rows === null ? "…" : count(figures.per_s.rows)],
    ["latency p50 / p99", latency.p50 === null ? "–" : `${delay(latency.p50)} / ${delay(latency.p99)}`],
    ["records waiting", count(figures.lag_records)],
    ["behind the clock", figures.behind_s === null ? "–" : duration(Math.max(0, figures.behind_s))],
    ["readings in", count(figures.total.readings)],
    ["holes filled", count(Object.entries(figures.filled).reduce(
      (sum, [name, each]) => sum + (name === "observed" || name === "none" ? 0 : each), 0))],
  ];
  if (figures.total.late) lines.push(["too late", count(figures.total.late)]);
  if (figures.total.dead_letters) lines.push(["dead letters", count(figures.total.dead_letters)]);
  list("figures", lines);
  const all = figures.partitions_of_topic, own = event.partitions || [];
  $("where").textContent = all > own.length && own.length
    ? `This worker has ${own.length} of ${all} partitions (${own.join(", ")}). Groups of the others are with other workers${groups.others.length ? ", which publish their accuracy: their live windows are on those workers' pages" : ""}.` : "";
  showOutages(event.outages);
  showFaulty(event.faults);
}

function showHealth() {
  const badge = $("health"), why = health ? Object.values(health.why_not || {}).flat() : [];
  const text = how !== "live" && how !== "polls" ? HOW[how] : busy || (why.length ? why[0] : how === "polls" ? HOW.polls : health ? "live" : "connecting");
  badge.textContent = text;
  badge.title = why.join("\n");
  badge.className = "badge" + (text === "live" ? " good" : health || how === "lost" ? " bad" : "");
}

function showOutages(outages) {
  const told = outages.filter(each => each.kind === "dark" || each.last_ts).reverse().slice(0, 6);
  $("outages").hidden = !told.length;
  const items = told.map(each => entry(
    `${each.group} ${each.kind === "dark" ? "went dark" : "is back"}, ${each.ts.slice(0, 16).replace("T", " ")}`));
  $("outage-list").replaceChildren(...items);
}

/** The newest events that go on; each opens its group. */
function showFaulty(events) {
  $("faulty").hidden = !events.length;
  $("faulty-list").replaceChildren(...events.map(each => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = hashOf(each.group);
    link.textContent = `${each.group} ${namesOf(each.going)}: ${wordsOf(each)}`;
    item.append(link, ` since ${moment(each.since_ms)}`);
    return item;
  }));
}

function showFaults(event) {
  if (event.group !== group) return;
  const going = faults.set(event.events, event.unjudged);
  for (const chart of charts) chart.fault.textContent = (going.get(chart.about.id) || []).join(", ");
}

function showGroup(event) {
  if (event.group !== group) return;
  if (event.full || !shown) {
    if (!event.full) return;
    shown = new Window(event);
    charts = event.sensors.map((_, sensor) => new Chart(shown, sensor, pick));
    seen.disconnect();
    $("charts").replaceChildren(...charts.map(chart => chart.figure));
    charts.forEach(chart => seen.observe(chart.figure));
    clearPick();
  }
  shown.add(event.rows, event.end_ms);
  const head = shown.head;
  $("group-about").textContent = `${head.model} · partition ${head.partition} · ${head.window} steps of ${duration(head.step_ms / 1000)} up to ${moment(shown.endMs)}`;
  model.setWindow(shown.cells);
  const fills = shown.cells.some(cells => [...cells.values()].some(filled));
  $("group-note").textContent = fills ? "" : "No value of this window has been filled since the page began to watch; holes are drawn as they are filled.";
  for (const chart of charts) chart.draw();
}

/** A group that this worker does not have: its newest accuracy, where the quality topic has told of it. */
function showGone(event) {
  $("group-note").textContent = event.why;
  const record = event.record;
  $("other").hidden = !record;
  if (event.faults) faults.set(event.faults, "");
  else faults.clear();
  if (!record && !event.faults) return;
  shown = null;
  charts = [];
  $("charts").replaceChildren();
  clearPick();
  if (!record) return;
  const minutes = text => text.slice(0, 16).replace("T", " ");
  $("group-about").textContent = `${record.model} · partition ${record.partition} · ${minutes(record.from)} to ${minutes(record.to)}`;
  const lines = [["error beside the baseline's", record.scaled === null ? "–" : `× ${number(record.scaled)}`]];
  if (record.regret !== null) lines.push([`regret, best alone: ${record.best === "gaussian" ? "closed form" : record.best}`, percent(record.regret)]);
  list("other-figures", lines);
  $("other-rows").replaceChildren(...record.sensors.map(([name, readings, error, held]) => {
    const row = document.createElement("tr"), head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    row.append(head);
    for (const text of [count(readings), number(error), held === null ? "–" : percent(held)]) {
      const cell = row.insertCell();
      cell.className = "n";
      cell.textContent = text;
    }
    return row;
  }));
}

async function pick(chart, row) {
  clearPick();
  picked = row;
  chart.picked = row.ts;
  chart.draw();
  const word = row.kind === FINAL ? "final" : "provisional";
  const title = `${group} · ${chart.about.id} at ${moment(row.ts)}: ${word} ${number(row.value)} ${chart.about.unit}`;
  $("carried-about").textContent = title;
  const query = new URLSearchParams({ group, sensor: chart.sensor, ts: row.ts, kind: row.kind });
  let found;
  try {
    const answer = await fetch("/api/carried?" + query, { cache: "no-store" });
    found = await answer.json();
  } catch {
    found = { error: "no connection to the worker" };
  }
  if (picked !== row) return;
  if (found.error) {
    $("carried-notes").replaceChildren(entry(found.error));
    return;
  }
  const unit = chart.about.unit;
  const [base, ...rest] = found.parts.map(part => ({ name: part.name, value: part.value, part: true }));
  const lines = [
    ...(base ? [base] : []),
    ...found.sensors.map(each => ({ name: each.id, value: each.contribution, about: `${each.readings} readings` })),
    ...rest,
  ];
  const total = found.sensors.reduce((sum, each) => sum + Math.abs(each.contribution), 0);
  const largest = Math.max(...lines.filter(line => !line.part).map(line => Math.abs(line.value)), 1e-300);
  $("carried-list").replaceChildren(...lines.map(line => bar(line, largest, unit)));
  $("carried-notes").replaceChildren(...found.notes.map(entry));
  for (const each of found.sensors) {
    const own = charts.find(other => other.about.id === each.id);
    if (!own || !total) continue;
    own.share.textContent = `carried ${percent(Math.abs(each.contribution) / total)}`;
    own.figure.classList.toggle("carrier", Math.abs(each.contribution) / total >= 0.1);
  }
}

function clearPick() {
  picked = null;
  for (const chart of charts) {
    chart.picked = null;
    chart.share.textContent = "";
    chart.figure.classList.remove("carrier");
    chart.draw();
  }
  $("carried-about").textContent = "Click a filled value, or choose one with the arrow keys and Enter.";
  $("carried-list").replaceChildren();
  $("carried-notes").replaceChildren();
}

function bar(line, largest, unit) {
  const row = document.createElement("div"), name = document.createElement("span"), way = document.createElement("div");
  const fill = document.createElement("i"), value = document.createElement("span");
  row.className = line.part ? "bar part" : "bar";
  name.textContent = line.name;
  name.title = line.about || "";
  way.className = "way";
  value.className = "n";
  value.textContent = `${line.value >= 0 && !line.part ? "+" : ""}${number(line.value)} ${unit}`;
  if (!line.part) {
    const share = 50 * Math.abs(line.value) / largest;
    fill.style.width = `${share}%`;
    fill.style.left = line.value >= 0 ? "50%" : `${50 - share}%`;
    way.append(fill);
  }
  row.append(name, ...(line.part ? [] : [way]), value);
  return row;
}

function entry(text) {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}

addEventListener("keydown", event => {
  const typing = event.target.matches?.("input");
  if (event.key === "/" && !typing) {
    $("search").focus();
    event.preventDefault();
  } else if (event.key === "Escape") {
    if (typing && $("search").value) {
      $("search").value = "";
      groups.filter();
    } else if (picked) clearPick();
    else $("tiles").focus();
  }
});

connection.open();
