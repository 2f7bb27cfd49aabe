"""Outages and events of sensor health as messages, keyed by group.

An outage is one JSON document each time a group goes dark or sends again.

    {"group": "pump-7", "model": "plant-pump", "kind": "dark", "ts": "2026-11-21T05:00:00Z",
     "last_ts": "2026-11-21T04:59:00Z", "by_clock": false}

`kind` is `dark`, or `speaks` when a group sends again or for the first time. `ts` is the start of the step at which the
group went dark, or of the first step with an observation. `last_ts` is the start of the last step before it with an
observation, null if the window has none. `by_clock` is true if no reading advanced event time that far, so that the
event follows from the wall clock alone; the group's next event confirms or revokes it. After a crash an event may be
published twice: its key is (group, kind, ts, by_clock).

Sensor health is one JSON document when sensors begin to be faulty, one when they cease to be.

    {"id": "b40a3f0c52a1d7e8", "group": "pump-7", "model": "plant-pump", "state": "begin", "detector": "runs",
     "kind": "frozen", "sensors": ["flow"], "ts": "2026-11-21T05:07:00Z", "since": "2026-11-21T04:42:00Z",
     "until": null, "strength": 1.3, "measured": {"sensor": "flow", "value": 26, "threshold": 19.8, "usual": 6}}

`ts` is the start of the step that made it an event. `since` is the start of the fault's first step, as far back as the
window goes; `until` is the start of the first step after it. `kind` and `measured` are null at the end. An end has
the detector and the sensors of its beginnings, of which several may end at once: group, detector and sensor pair them.
`id` is a function of the rest, so an event that is published twice, as after a crash, has the same one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.times import text_of_ms
from glaim_stream.windows import UNKNOWN_MS, Outage, SensorEvent

_DIGITS = 16
DOCUMENT_TYPE = b"application/json"


@dataclass(frozen=True, slots=True)
class Announcement:
    """One message for the outage topic."""

    key: bytes
    value: bytes


def announce(outage: Outage, *, group: str, model: str) -> Announcement:
    """Make the message of an outage."""
    document = {
        "group": group,
        "model": model,
        "kind": outage.kind,
        "ts": text_of_ms(outage.ts_ms),
        "last_ts": None if outage.last_ts_ms == UNKNOWN_MS else text_of_ms(outage.last_ts_ms),
        "by_clock": outage.by_clock,
    }
    return Announcement(group.encode(), json.dumps(document, ensure_ascii=False).encode())


def document_of(event: SensorEvent, group: str, catalogue: Catalogue) -> dict[str, object]:
    """Return the JSON document of an event."""
    model = catalogue.models[event.model_index]
    begins = event.kind is not None
    document: dict[str, object] = {
        "group": group,
        "model": model.name,
        "state": event.state,
        "detector": event.detector,
        "kind": None if event.kind is None else str(event.kind),
        "sensors": [model.sensor_ids[place] for place in event.sensors],
        "ts": text_of_ms(event.ts_ms),
        "since": None if event.since_ms is None else text_of_ms(event.since_ms),
        "until": None if event.until_ms is None else text_of_ms(event.until_ms),
        "strength": round(event.statistic / event.threshold, 2) if begins else None,
        "measured": {
            "sensor": model.sensor_ids[event.strongest],
            "value": _rounded(event.statistic),
            "threshold": _rounded(event.threshold),
            "usual": _rounded(event.usual),
        }
        if begins
        else None,
    }
    identity = [document[name] for name in ("group", "model", "state", "detector", "sensors", "ts")]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return {"id": digest[:_DIGITS], **document}


def announce_health(event: SensorEvent, group: str, catalogue: Catalogue) -> Announcement:
    """Make the message of an event, keyed by group."""
    document = document_of(event, group, catalogue)
    return Announcement(group.encode(), json.dumps(document, ensure_ascii=False).encode())


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
