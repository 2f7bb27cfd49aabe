"""Outages as messages: one JSON document each time a group goes dark or sends again, keyed by group.

    {"group": "pump-7", "model": "plant-pump", "kind": "dark", "ts": "2026-11-21T05:00:00Z",
     "last_ts": "2026-11-21T04:59:00Z", "by_clock": false}

`kind` is `dark`, or `speaks` when a group sends again or for the first time. `ts` is the start of the step at which the
group went dark, or of the first step with an observation. `last_ts` is the start of the last step before it with an
observation, null if the window has none. `by_clock` is true if no reading advanced event time that far, so that the
event follows from the wall clock alone; the group's next event confirms or revokes it. After a crash an event may be
published twice: its key is (group, kind, ts, by_clock).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from glaim_stream.core.times import text_of_ms
from glaim_stream.windows import UNKNOWN_MS, Outage

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
