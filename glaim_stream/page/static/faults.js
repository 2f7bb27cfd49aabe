// Sensor health: which sensors of a group are judged faulty, since when, and what was measured.

import { moment, number } from "./chart.js";

const MOST_NAMES = 4; // sensors of an event that are named
const WORDS = { frozen: "frozen", limit: "at its limit", silent: "silent", outage: "silent together",
  missingness: "more gaps than usual", spiking: "spiking", chatter: "jumping to and fro",
  drift: "drifting", shift: "drifting together", clock: "stuttering clock" };
const DETECTORS = { runs: "frozen or at its limit", silence: "silent", gaps: "more gaps than usual",
  jumps: "spiking or jumping", drift: "drifting", clock: "stuttering clock" };
const MEASURES = { runs: "equal readings", silence: "steps", gaps: "gaps in a window", jumps: "units of jumps",
  drift: "off its estimate", clock: "steps between stamps" };
const WHY = {
  off: "Sensor health is not judged: set GLAIM_HEALTH_TOPIC=sensor-health (chart: kafka.healthTopic) and start the worker again.",
  window: "Sensor health is not judged: the windows of this model are shorter than 48 steps.",
  habits: "Sensor health is not judged: the closed form of this model has no habits of the sensors. `glaim-stream learn` writes them, and so does training.fit.",
};

export class FaultPanel {
  constructor() {
    this.box = document.getElementById("faults");
  }

  clear() {
    this.box.hidden = true;
  }

  /** Show the events of a group; returns what is wrong with each sensor now, by its name. */
  set(events, unjudged) {
    this.box.hidden = false;
    const going = new Map();
    for (const event of events)
      for (const name of event.going) going.set(name, [...new Set([...(going.get(name) || []), wordsOf(event)])]);
    const text = unjudged ? WHY[unjudged] || ""
      : going.size ? "A sensor counts as faulty until 48 steps have passed without an alarm."
      : events.length ? "" : "No sensor of this group is judged faulty, and no event of it is known.";
    document.getElementById("faults-note").textContent = text;
    document.getElementById("faults-about").textContent = unjudged ? ""
      : going.size ? `${going.size} ${going.size === 1 ? "sensor is" : "sensors are"} faulty` : "all sensors are well";
    document.getElementById("faults-table").hidden = !events.length;
    document.getElementById("faults-rows").replaceChildren(...events.map(rowOf));
    return going;
  }
}

/** What is wrong, in words. */
export function wordsOf(event) {
  return (event.kind === null ? DETECTORS[event.detector] : WORDS[event.kind]) || event.kind || event.detector;
}

/** The sensors of an event, as text of bounded length. */
export function namesOf(sensors) {
  const more = sensors.length - MOST_NAMES;
  return sensors.slice(0, MOST_NAMES).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function rowOf(event) {
  const row = document.createElement("tr"), head = document.createElement("th");
  head.scope = "row";
  head.textContent = namesOf(event.sensors);
  head.title = event.sensors.join(", ");
  row.append(head);
  row.className = event.going.length ? "going" : "soft";
  for (const text of [wordsOf(event), event.since_ms === null ? "before the known events" : moment(event.since_ms),
    untilOf(event), measuredOf(event)]) row.insertCell().textContent = text;
  return row;
}

function untilOf(event) {
  const going = event.going.length;
  if (going) return going === event.sensors.length ? "still going" : `still going for ${namesOf(event.going)}`;
  return event.until_ms === null ? "over" : moment(event.until_ms);
}

function measuredOf(event) {
  const found = event.measured;
  if (!found) return "";
  const of = event.sensors.length > 1 ? `${found.sensor}: ` : "";
  return `${of}${number(found.value)} ${MEASURES[event.detector] || ""}, limit ${number(found.threshold)}, usual up to ${number(found.usual)}`;
}
