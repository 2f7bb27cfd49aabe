"""Outages as messages of the outage topic."""

import json

import pytest

from glaim_stream.output.announcements import announce
from glaim_stream.windows import UNKNOWN_MS, Outage


@pytest.mark.parametrize(("last_ms", "last"), [(0, "1970-01-01T00:00:00Z"), (UNKNOWN_MS, None)])
@pytest.mark.parametrize("by_clock", [False, True])
def test_an_outage_is_one_json_document_keyed_by_its_group(last_ms: int, last: str | None, *, by_clock: bool) -> None:
    message = announce(Outage(0, 3, "dark", 60_250, last_ms, by_clock), group="g\u00e9", model="m")
    assert message.key == "g\u00e9".encode()
    assert "g\u00e9".encode() in message.value
    assert json.loads(message.value) == {
        "group": "g\u00e9",
        "model": "m",
        "kind": "dark",
        "ts": "1970-01-01T00:01:00.250Z",
        "last_ts": last,
        "by_clock": by_clock,
    }
