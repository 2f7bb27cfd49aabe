"""Dead letters: unusable records, kept unchanged, with the reason in their headers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.positions import MAX_LISTED, Positions, decode_positions, encode_positions
from glaim_stream.decode.unreadable import UnreadableRecord


def key_text(record: InputRecord) -> str | None:
    """The record's key as text; None if it is absent, empty or not UTF-8."""
    try:
        return record.key.decode() if record.key else None
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message for the dead-letter topic or the late topic, with the key and value of the original record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    late: bool = False


HEADER_PREFIX = "glaim-"
RECEIPT_HEADER = HEADER_PREFIX + "receipt"  # marks a message among the letters that lists the requeued ones
REQUEUED_HEADER = HEADER_PREFIX + "requeued"  # how often a record was requeued; its next letter keeps it
MAX_DETAIL_CHARS = 500  # a detail quotes input of any length
_MAX_DETAIL_BYTES = 1_000


def letters_of(record: InputRecord, rejects: Sequence[Reject], *, topic: str, partition: int) -> list[DeadLetter]:
    """Make the dead letters of one record from its rejects: one, unless the positions need several.

    Headers added to those of the original: `glaim-cause` and `glaim-detail` (of the first reject), `glaim-topic`,
    `glaim-partition`, `glaim-offset`, `glaim-timestamp-ms`, for an unreadable batch `glaim-first-offset` (the offset is
    that of its last record), and, unless the whole record was rejected, the positions of
    the rejected readings in one of the forms of `glaim_stream.decode.positions` (`glaim-positions`, `glaim-ranges` or
    `glaim-bitmap`), the latter two with their number, `glaim-count`. A letter of readings that are too late also has
    `glaim-late-by-ms`, a JSON object with each reading's distance behind the watermark, by its position, or for more
    than MAX_LISTED readings `glaim-late-by-ms-range`, the least and the greatest distance.
    """
    first = rejects[0]
    detail = first.detail[:MAX_DETAIL_CHARS].encode(errors="backslashreplace")[:_MAX_DETAIL_BYTES]
    added = {
        "cause": first.cause.value,
        "detail": detail.decode(errors="ignore"),
        "topic": topic,
        "partition": str(partition),
        "offset": str(record.offset),
        "timestamp-ms": str(record.timestamp),
    }
    if isinstance(record, UnreadableRecord) and record.first_offset < record.offset:
        added["first-offset"] = str(record.first_offset)
    headers = [
        header for header in record.headers if not header[0].startswith(HEADER_PREFIX) or header[0] == REQUEUED_HEADER
    ]
    return [
        DeadLetter(
            record.key,
            record.value,
            headers + [(HEADER_PREFIX + name, text.encode()) for name, text in (added | places).items()],
            late=first.cause is DeadLetterCause.TOO_LATE,
        )
        for places in _places(rejects)
    ]


def _places(rejects: Sequence[Reject]) -> Iterator[dict[str, str]]:
    """The headers of each letter of a record that name the rejected readings; empty for the whole record."""
    if any(reject.position is None for reject in rejects):
        yield {}
        return
    if len(rejects) <= MAX_LISTED and all(reject.more is None for reject in rejects):
        yield _listed(rejects)  # ten times as fast for a record of one reading
        return
    positions, index = np.unique(np.concatenate([reject.positions for reject in rejects]), return_index=True)
    late_by_ms = np.concatenate([_late_by_ms(reject) for reject in rejects])[index]
    done = 0
    for part, form, text in encode_positions(positions):
        places = {form: text} if form == "positions" else {form: text, "count": str(len(part))}
        late = late_by_ms[done : done + len(part)]
        done += len(part)
        known = ~np.isnan(late)
        if known.any() and len(part) <= MAX_LISTED:
            by_position = zip(part[known].tolist(), late[known].astype(np.int64).tolist(), strict=True)
            places["late-by-ms"] = json.dumps(dict(by_position))
        elif known.any():
            places["late-by-ms-range"] = f"{int(np.nanmin(late))}-{int(np.nanmax(late))}"
        yield places


def _listed(rejects: Sequence[Reject]) -> dict[str, str]:
    places = {"positions": json.dumps(sorted({reject.position for reject in rejects if reject.position is not None}))}
    late_by_ms = {reject.position: reject.late_by_ms for reject in rejects if reject.late_by_ms is not None}
    if late_by_ms:
        places["late-by-ms"] = json.dumps(late_by_ms)
    return places


def _late_by_ms(reject: Reject) -> np.ndarray:
    first = np.array([np.nan if reject.late_by_ms is None else reject.late_by_ms])
    if reject.more is None:
        return first
    rest = reject.more.late_by_ms
    return np.append(first, np.full(len(reject.more.positions), np.nan) if rest is None else rest)


def dead_letters(
    records: Sequence[InputRecord], rejects: Sequence[Reject], *, topic: str, partition: int
) -> list[DeadLetter]:
    """Make the dead letters of a batch, in the order of its records.

    A record with readings that are too late and others that are unusable has letters for each of the two topics.
    """
    by_offset: dict[int, tuple[list[Reject], list[Reject]]] = {}
    for reject in rejects:
        by_offset.setdefault(reject.offset, ([], []))[reject.cause is DeadLetterCause.TOO_LATE].append(reject)
    if not by_offset:
        return []
    return [
        letter
        for record in records
        for part in by_offset.get(record.offset, ())
        if part
        for letter in letters_of(record, part, topic=topic, partition=partition)
    ]


def positions_of(headers: Sequence[tuple[str, bytes]]) -> Positions | None:
    """The rejected readings' positions in their record, ascending; None if the whole record was rejected.

    Raises:
        ValueError: the header has another form.
    """
    return decode_positions(
        {name.removeprefix(HEADER_PREFIX): text or b"" for name, text in headers if name.startswith(HEADER_PREFIX)}
    )
