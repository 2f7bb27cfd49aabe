"""Events of sensor health as messages."""

import json
from dataclasses import replace

from glaim_stream.health import Fault
from glaim_stream.output.announcements import announce_health
from glaim_stream.windows import SensorEvent
from tests.support import catalogue

BEGIN = SensorEvent(0, 7, "runs", Fault.FROZEN, (0, 1), 300_000, 240_000, None, 1, 26.0000004, 19.8, 6.0)


def test_the_beginning_and_the_end_of_a_fault_are_documents_whose_ids_stay_the_same() -> None:
    message = announce_health(BEGIN, "gé", catalogue())
    assert message.key == "gé".encode()
    assert json.loads(message.value) == {
        "id": "d697f031b4998632",
        "group": "gé", "model": "m", "state": "begin", "detector": "runs", "kind": "frozen", "sensors": ["s0", "s1"],
        "ts": "1970-01-01T00:05:00Z", "since": "1970-01-01T00:04:00Z", "until": None, "strength": 1.31,
        "measured": {"sensor": "s1", "value": 26, "threshold": 19.8, "usual": 6},
    }  # fmt: skip
    end = json.loads(
        announce_health(replace(BEGIN, kind=None, since_ms=None, until_ms=290_000), "gé", catalogue()).value
    )
    assert end["id"] == "5a379e48d64eefe3"
    assert (end["kind"], end["state"], end["until"]) == (None, "end", "1970-01-01T00:04:50Z")
    assert (end["strength"], end["measured"]) == (None, None)
