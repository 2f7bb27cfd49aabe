"""Decodes `sensor-readings` into columns of readings; unusable input becomes dead letters."""

from glaim_stream.decode.arrow_records import ARROW_CONTENT_TYPE
from glaim_stream.decode.arrow_streams import claim_of, read_bounded
from glaim_stream.decode.dead_letters import (
    HEADER_PREFIX,
    RECEIPT_HEADER,
    REQUEUED_HEADER,
    DeadLetter,
    dead_letters,
    positions_of,
)
from glaim_stream.decode.decoder import Decoded, Decoder
from glaim_stream.decode.format import Format, StatedReading, record_format
from glaim_stream.decode.groups import UNKNOWN_GROUP, UNKNOWN_SENSOR, GroupIndex
from glaim_stream.decode.positions import shown
from glaim_stream.decode.reading_records import ReadingRecords
from glaim_stream.decode.unreadable import UnreadableRecord

__all__ = [
    "ARROW_CONTENT_TYPE",
    "HEADER_PREFIX",
    "RECEIPT_HEADER",
    "REQUEUED_HEADER",
    "UNKNOWN_GROUP",
    "UNKNOWN_SENSOR",
    "DeadLetter",
    "Decoded",
    "Decoder",
    "Format",
    "GroupIndex",
    "ReadingRecords",
    "StatedReading",
    "UnreadableRecord",
    "claim_of",
    "dead_letters",
    "positions_of",
    "read_bounded",
    "record_format",
    "shown",
]
