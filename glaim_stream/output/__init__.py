"""Closed steps and filled values to the messages that leave: rows, dead letters and outages."""

from glaim_stream.output.announcements import DOCUMENT_TYPE, Announcement, announce, announce_health
from glaim_stream.output.intervals import (
    HalfWidths,
    bands,
    possible_range,
    publishable,
    reaching,
)
from glaim_stream.output.messages import Message, Origin, Output, Publisher, Sink
from glaim_stream.output.records import (
    CONTENT_TYPE,
    METHODS,
    SCHEMA,
    SCHEMA_VERSION,
    Method,
    Rows,
    encode,
    halves,
    newest_revisions,
    read_rows,
    without_dictionaries,
)
from glaim_stream.output.repair import published, repair
from glaim_stream.output.row_files import RowFile, joined_rows
from glaim_stream.output.sensor_tables import SensorTable, SensorTables

__all__ = [
    "CONTENT_TYPE",
    "DOCUMENT_TYPE",
    "METHODS",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Announcement",
    "HalfWidths",
    "Message",
    "Method",
    "Origin",
    "Output",
    "Publisher",
    "RowFile",
    "Rows",
    "SensorTable",
    "SensorTables",
    "Sink",
    "announce",
    "announce_health",
    "bands",
    "encode",
    "halves",
    "joined_rows",
    "newest_revisions",
    "possible_range",
    "publishable",
    "published",
    "reaching",
    "read_rows",
    "repair",
    "without_dictionaries",
]
