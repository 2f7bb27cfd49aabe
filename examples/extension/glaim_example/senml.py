"""SenML (RFC 8428): a JSON list of entries whose base name and base time hold for those that follow.

[{"bn": "pump-7/", "bt": 1485925200, "n": "flow", "v": 12.3}, {"n": "pressure", "t": -10, "v": 4.1}]
"""

import json
from collections.abc import Iterator

from glaim_stream.core.readings import InputRecord
from glaim_stream.decode import StatedReading, record_format


def detect(record: InputRecord) -> bool:
    """Whether a record is a JSON list: our own JSON records are objects."""
    return (record.value or b"").lstrip()[:1] == b"["


def read(record: InputRecord) -> Iterator[StatedReading]:
    """Yield the readings; the name is group/sensor, or the sensor alone with the group as the record's key."""
    base, base_s = "", 0.0
    for entry in json.loads(record.value or b""):
        base, base_s = entry.get("bn", base), entry.get("bt", base_s)
        group, _, sensor = (base + entry.get("n", "")).rpartition("/")
        yield StatedReading(sensor, round((base_s + entry.get("t", 0)) * 1000), entry["v"], group or None)


SENML = record_format("senml", detect, read)
