// The page: events of the worker into panels, and keys. Names come from producers: all of them are set as text.

import { Chart, Window, filled, moment } from "./chart.js";
import { Groups, duration } from "./groups.js";
import { Connection } from "./stream.js";

const $ = id => document.getElementById(id);
const HOW = { polls: "polling: the stream does not get through", lost: "no connection to the worker",
  token: "the session has ended: reload and give the token" };
const DETECTORS = { runs: "frozen or at its limit", silence: "silent", gaps: "more gaps than usual",
  jumps: "spiking or jumping", drift: "drifting", clock: "stuttering clock" };
const UNJUDGED = {
  off: "Sensor health is not judged: that needs GLAIM_HEALTH_TOPIC=sensor-health (chart: kafka.healthTopic) and windows of 48 steps.",
  habits: "Sensor health is not judged: the closed form of this model has no habits of the sensors. `glaim-stream learn` writes them, and so does training.fit.",
};

const groups = new Groups(name => choose(name));
const connection = new Connection(take, state => { how = state; showHealth(); });
let how = "live", health = null, busy = "";
let group = null, shown = null, charts = [], nowMs = 0, firstEndMs = 0;
const OLD_MS = 86_400_000; // event time that is further behind the clock is of a replay, or of a stream that has ended

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
  if (name === "names") {
    groups.setNames(event);
    $("groups").classList.toggle("empty", !event.names.length);
    if (group === null && !event.names.length) {
      $("group-title").textContent = "No group yet";
      $("group-note").textContent = "No usable reading has arrived since the worker was given its partitions.";
    }
    if (group === null && event.names.length) choose(wanted() ?? groups.names[groups.order[0]], { keep: true });
  } else if (name === "overview") showOverview(event);
  else if (name === "group") showGroup(event);
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
  for (const id of ["group-about", "faults-note"]) $(id).textContent = "";
  $("group-note").textContent = "waiting for its rows";
  shown = null;
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
  const own = event.partitions || [], held = Object.keys((health && health.partitions) || {}).length;
  const others = event.input_partitions > held ? "; those of others are on the pages of their workers" : "";
  $("where").textContent = own.length
    ? `Groups of ${own.length === 1 ? "partition" : "partitions"} ${own.join(", ")}${others}.` : "";
  showRejected(event.rejected);
  showOutages(event.outages);
  nowMs = event.at_ms;
}

function showHealth() {
  const badge = $("health"), why = health ? [...Object.values(health.why_not || {}).flat(), ...(health.degraded || [])] : [];
  const text = how !== "live" && how !== "polls" ? HOW[how] : busy || (why.length ? why[0] : how === "polls" ? HOW.polls : health ? "live" : "connecting");
  badge.textContent = text;
  badge.title = why.join("\n");
  badge.className = "badge" + (text === "live" ? " good" : health || how === "lost" ? " bad" : "");
}

function showRejected(rejected) {
  $("rejected").hidden = !rejected.length;
  $("rejected-list").replaceChildren(...rejected.map(each => {
    const item = document.createElement("li"), cause = document.createElement("b"), example = document.createElement("p");
    cause.textContent = each.cause;
    example.textContent = example.title = `partition ${each.partition} offset ${each.offset}: ${each.detail}`;
    example.className = "soft";
    item.append(cause, ` ${each.count.toLocaleString("en")}`, example);
    return item;
  }));
}

function showOutages(outages) {
  const told = outages.filter(each => each.kind === "dark" || each.last_ts).reverse().slice(0, 6);
  $("outages").hidden = !told.length;
  $("outage-list").replaceChildren(...told.map(each => {
    const item = document.createElement("li");
    item.textContent = `${each.group} ${each.kind === "dark" ? "went dark" : "is back"}, ${each.ts.slice(0, 16).replace("T", " ")}`;
    return item;
  }));
}

function showGroup(event) {
  if (event.group !== group) return;
  if (event.full || !shown) {
    if (!event.full) return;
    shown = new Window(event);
    firstEndMs = shown.endMs;
    charts = event.sensors.map((_, sensor) => new Chart(shown, sensor));
    seen.disconnect();
    $("charts").replaceChildren(...charts.map(chart => chart.figure));
    charts.forEach(chart => seen.observe(chart.figure));
  }
  shown.add(event.rows, event.end_ms);
  const head = shown.head;
  $("group-about").textContent = `${head.model} · partition ${head.partition} · ${head.window} steps of ${duration(head.step_ms / 1000)} up to ${moment(shown.endMs)}${age(shown.endMs)}`;
  const fills = shown.cells.some(cells => [...cells.values()].some(filled));
  $("group-note").textContent = fills ? "" : "No value of this window has been filled since the page began to watch; holes are drawn as they are filled.";
  const faulty = Object.keys(event.faulty).length;
  $("faults-note").textContent = UNJUDGED[event.unjudged]
    ?? (faulty ? `${faulty} faulty: until 48 steps have passed without an alarm` : "all sensors are well");
  for (const chart of charts) {
    chart.fault.textContent = (event.faulty[chart.about.id] || []).map(each => DETECTORS[each] || each).join(", ");
    chart.draw();
  }
}

/** How long ago old event time was; where it moves all the same, the stream is replayed. */
function age(endMs) {
  if (nowMs - endMs < OLD_MS) return "";
  return `, ${endMs > firstEndMs ? "replayed from " : ""}${duration((nowMs - endMs) / 1000)} ago`;
}

function showGone(event) {
  $("group-note").textContent = event.why;
  shown = null;
  charts = [];
  $("charts").replaceChildren();
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
    } else $("tiles").focus();
  }
});

connection.open();
