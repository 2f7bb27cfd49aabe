"""Outages as messages: one JSON document for each time that a group goes dark or speaks again, keyed by group.

    {"group": "pump-7", "model": "plant-pump", "kind": "dark", "ts": "2026-11-21T05:00:00Z",
     "last_ts": "2026-11-21T04:59:00Z", "by_clock": false}

`ts` is the start of the step at which the group went dark, or of the first in which it speaks; `last_ts` that of the
last step before it in which the group was heard, null when the window holds none. A group that is new speaks, too.
`by_clock` says that no reading of anybody moved event time that far: the wall clock claims it, and the group's next
event confirms that or takes it back. After a crash an event may come twice: (group, kind, ts, by_clock) is its key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from glaim_stream.times import text_of_ms
from glaim_stream.windows.outages import UNKNOWN_MS, Outage

CONTENT_TYPE = b"application/json"


@dataclass(frozen=True, slots=True)
class Announcement:
    """One message for the outage topic."""

    key: bytes
    value: bytes


def announce(outage: Outage, *, group: str, model: str) -> Announcement:
    """The message that tells of an outage."""
    document = {
        "group": group,
        "model": model,
        "kind": outage.kind,
        "ts": text_of_ms(outage.ts_ms),
        "last_ts": None if outage.last_ts_ms == UNKNOWN_MS else text_of_ms(outage.last_ts_ms),
        "by_clock": outage.by_clock,
    }
    return Announcement(group.encode(), json.dumps(document, ensure_ascii=False).encode())
