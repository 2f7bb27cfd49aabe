"""`glaim-stream schema`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

_INPUT = """\
INPUT: topic sensor-readings, key: the group (keeps a group in one partition)

One reading, JSON:
  {"group": "station-7", "sensor": "PM2.5", "ts": "2017-02-01T05:00:00Z", "value": 12.3}
One step of a group, JSON:
  {"group": "station-7", "ts": 1485925200000, "values": {"PM2.5": 12.3, "TEMP": -1.5}}
Many readings, JSON; the fastest, for gateways:
  {"group": "station-7", "readings": [{"sensor": "PM2.5", "ts": 1485925200000, "value": 12.3}]}
Arrow IPC stream, header content-type: application/vnd.apache.arrow.stream:
  long (group, sensor, ts, value) or wide (group, ts, one column per sensor); without a group column the key is used

ts: ISO 8601 with a zone, or epoch milliseconds; in Arrow a timestamp with a zone, or epoch milliseconds.
value: null, NaN or "quality": "bad" is a reported dropout; no reading at all is silence. An observed value leaves with
the bits of the float64 that was sent; an integer that no float64 equals (2**53 + 1) is unusable.
quality: optional; good, uncertain or bad, an OPC UA name that begins with one of them (Bad_SensorFailure), or a
StatusCode.
Unusable records go unchanged to sensor-readings-dlq, with the reason in headers glaim-*.
Readings older than the window go to sensor-readings-late in the same way; the header glaim-late-by-ms states how far
behind the watermark they were, as a JSON object that maps the reading's position in the record to milliseconds.
"""

_OUTPUT = """\
OUTPUT: topic imputed-readings, one Arrow IPC stream per message, in the partition of the input; schema version 3
headers: content-type, glaim-schema-version, glaim-model, glaim-input-partition, glaim-input-offset,
         glaim-input-timestamp-ms (of the newest record that the rows include)
"""

_NOTES = {
    "group": "which machine or station",
    "sensor": "which of its sensors",
    "ts": "start of the step",
    "event_time": "time of the reading used for the step; null unless observed",
    "value": "in the sensor's unit; null where there is no value",
    "observed": "true: a reading arrived; false: filled",
    "method": "observed, model, blend, gaussian, interpolation, last_value or none",
    "quality": "good (observed), uncertain (filled, or reported as uncertain), bad (null): the severity of status",
    "status": "OPC UA StatusCode, see below",
    "lower": "interval of a value imputed by the model, else null",
    "upper": "",
    "gap_age": "steps since the sensor's last reading",
    "revision": "starts at 0; the highest replaces the others of its (group, sensor, ts), the later row if equal",
    "final": "false: a better value follows once later readings have arrived",
    "model_version": "empty unless the model or the closed form (gaussian-...) imputed the value",
}

_STATUS = {
    "GOOD": "observed",
    "UNCERTAIN": "observed, and reported as uncertain",
    "UNCERTAIN_SENSOR_NOT_ACCURATE": "observed, and the value stands apart from all else in its window",
    "UNCERTAIN_SUBSTITUTE_VALUE": "filled by the model, the blend or interpolation",
    "UNCERTAIN_LAST_USABLE_VALUE": "filled with the last value",
    "BAD_NO_COMMUNICATION": "null: silent for longer than max_gap",
    "BAD_SENSOR_FAILURE": "null: silent for longer than max_gap, and a reading reported a dropout at this step",
    "BAD_NO_DATA": "null: no reading of the sensor in the whole window",
    "BAD_AGGREGATE_INVALID_INPUTS": "null: the value's interval is wider than the sensor's max_interval",
    "BAD_DATA_UNAVAILABLE": "null: no imputer returned a value",
}

_READ = """
READ, with only kafka-python and pyarrow:
  for message in KafkaConsumer(
      "imputed-readings", bootstrap_servers="localhost:9092", isolation_level="read_committed"
  ):
      table = pyarrow.ipc.open_stream(message.value).read_all()
With this package: glaim_stream.output.records.read_rows(message.value), and newest_revisions(tables), which keeps only
the newest revision of each row.
"""


_OUTAGES = """
OUTAGES: topic imputed-readings-outages, JSON, key: the group; one message when it goes dark, one when it sends again
  {"group": "pump-7", "model": "plant-pump", "kind": "dark", "ts": "2026-11-21T05:00:00Z",
   "last_ts": "2026-11-21T04:59:00Z", "by_clock": false}
kind: dark, or speaks when the group sends again or for the first time. ts: start of that step. last_ts: start of the
step with the group's last reading, null if the window has none. by_clock: event time stands still, so the event follows
from the wall clock; the group's next event confirms or revokes it. An event may be published twice; its key is
(group, kind, ts, by_clock).
READ:
  for message in KafkaConsumer(
      "imputed-readings-outages", bootstrap_servers="localhost:9092", isolation_level="read_committed"
  ):
      outage = json.loads(message.value)
"""

_QUALITY = """
QUALITY: topic GLAIM_QUALITY_TOPIC, compacted, JSON, key: [group, source, slot]; a message without a value deletes it
  {"group": "pump-7", "model": "plant-pump", "source": "hidden", "from": "2026-11-21T04:48:00Z",
   "to": "2026-11-21T05:36:00Z", "steps": 48,
   "regret": {"count": 61, "scaled_mae": {"model": 0.41, "gaussian": 0.4, "baseline": 1.0, "published": 0.39},
              "best": "gaussian", "share": -0.025},
   "sensors": [{"sensor": "flow", "position": "edge", "gap_age": "2-4", "intervals": 9, "coverage": 0.89, "width": 6.2,
                "methods": {"published": {"count": 9, "mae": 1.7}, ...}}, ...]}
position: edge, interior, row_edge, row_interior (the whole group was silent).
source: hidden (readings that were hidden from the methods) or late (readings that came after their cell was filled).
A record covers the steps [from, to); a newer message with the same from replaces it, another from is another stretch.
Over stretches, mae is added with its count as the weight, coverage and width with intervals.
"""

_HEALTH = """
HEALTH: topic GLAIM_HEALTH_TOPIC, JSON, key: the group; one message when sensors begin to be faulty, one when they cease
  {"id": "5b1c...", "group": "pump-7", "model": "plant-pump", "sensors": ["flow"], "state": "begin", "detector": "runs",
   "kind": "frozen", "ts": "2026-11-21T05:36:00Z", "since": "2026-11-21T04:48:00Z", "until": null, ...}
state: begin or end. detector: runs, silence, gaps, jumps, drift or clock.
Group, detector and sensors pair an end with its beginning.
An event may be published twice; its id is the same then.
"""


def _document() -> dict[str, Any]:
    """What a program needs of the formats."""
    from glaim_stream.core.vocabulary import Method, Status
    from glaim_stream.output import SCHEMA, SCHEMA_VERSION

    columns = [
        {"name": field.name, "type": _type_name(field), "nullable": field.nullable, "meaning": _meaning(field.name)}
        for field in SCHEMA
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "message": "Arrow IPC stream",
        "columns": columns,
        "methods": [method.name.lower() for method in Method],
        "statuses": [
            {"name": Status[name].symbol, "code": int(Status[name]), "meaning": meaning}
            for name, meaning in _STATUS.items()
        ],
    }


def _type_name(field: Any) -> str:
    return str(field.type).replace(", ordered=0", "")


def _meaning(column: str) -> str:
    return _NOTES[column] or _NOTES["lower"]  # upper has the note of the line above it


def schema(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the rows' columns and the status codes as one JSON document.")
    ] = False,
) -> None:
    """Print the formats of input and output, with examples."""
    if as_json:
        print(json.dumps(_document(), indent=2))
        return
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.vocabulary import Status
    from glaim_stream.output import SCHEMA

    print(_INPUT)
    print(_OUTPUT)
    table = Table("column", "type", "null", "meaning")
    for field in SCHEMA:
        table.add_row(field.name, _type_name(field), "yes" if field.nullable else "no", _NOTES[field.name])
    result_console().print(table)
    table = Table("status", "number", "meaning: the row is")
    for name, meaning in _STATUS.items():
        status = Status[name]
        table.add_row(status.symbol, f"0x{status:08X}", meaning)
    result_console().print(table)
    print(_READ, end="")
    print(_OUTAGES, end="")
    print(_QUALITY, end="")
    print(_HEALTH, end="")
