"""Decodes the records of `sensor-readings` into columns and rejects what cannot be used.

Each record is read by the first registered format that detects it (`core/registry.py`), in this order: the formats of
other distributions by name, Arrow IPC streams, JSON. Bad input raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.readings import InputRecord, Readings, concatenated, no_readings
from glaim_stream.core.registry import FORMATS
from glaim_stream.core.rejects import DeadLetterCause, MoreReadings, Reject, alike
from glaim_stream.core.stamps import PartitionStamps
from glaim_stream.core.times import EARLIEST_MS, LATEST_MS
from glaim_stream.core.vocabulary import Quality
from glaim_stream.decode.arrow_streams import Claim
from glaim_stream.decode.dead_letters import MAX_DETAIL_CHARS, REQUEUED_HEADER
from glaim_stream.decode.format import Format
from glaim_stream.decode.groups import NO_GROUP, GroupIndex
from glaim_stream.decode.parsed import Parsed, joined
from glaim_stream.decode.reading_records import ReadingRecords
from glaim_stream.decode.time_units import TimeUnit, found_units
from glaim_stream.decode.unreadable import UnreadableRecord

_WEIGHT = 4  # a value takes several times its bytes once decoded: four in the common case of JSON
_UNREADABLE = -1  # in place of a format


@dataclass(frozen=True, slots=True)
class Decoded:
    """The usable readings of some records of a batch, and the rejects.

    `until` is the number of the batch's records up to and with the last of them.
    """

    readings: Readings
    rejects: list[Reject]
    until: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """The records of a batch, and the facts known of each before its value is decoded; every array has length r."""

    records: Sequence[InputRecord]
    offset: NDArray[np.int64]
    produced_ms: NDArray[np.int64]  # production times, not beyond `believed_ms`
    believed_ms: NDArray[np.int64] | None  # see Stamps.believed_until
    requeued: NDArray[np.bool_]


class Decoder:
    """A decoder of batches of records for one catalogue."""

    def __init__(self, index: GroupIndex, budget: Budget = DEFAULT) -> None:
        """Find the registered formats."""
        self._index, self._budget = index, budget
        self._added = len(FORMATS.added)  # they are asked about records without headers too
        names = [*FORMATS.added, *(name for name in FORMATS.names if name not in FORMATS.added)]
        self._formats: list[Format] = [FORMATS.find(name) for name in names]
        self._max_ahead_ms = np.array([index.catalogue.max_ahead_ms(model) for model in index.catalogue.models])

    def decode(
        self, records: Sequence[InputRecord], *, now_ms: int, stamps: PartitionStamps | None = None
    ) -> tuple[Readings, list[Reject]]:
        """Decode records of one partition in order, all at once.

        Args:
            records: Kafka records.
            now_ms: wall time, epoch milliseconds, used for records without a time of production.
            stamps: judges the times of the records; None: all are believed, as in a topic that was read before.

        Returns:
            The usable readings in order of arrival, and the rejects.
        """
        parts = list(self.decode_parts(records, now_ms=now_ms, stamps=stamps))
        rejects = [reject for part in parts for reject in part.rejects]
        if len(parts) == 1:
            return parts[0].readings, rejects
        return concatenated([part.readings for part in parts]), rejects

    def decode_parts(
        self, records: Sequence[InputRecord], *, now_ms: int, stamps: PartitionStamps | None = None
    ) -> Iterator[Decoded]:
        """Decode records in parts that fit the budget of a batch, one after the other; see `decode`."""
        if not records:
            yield Decoded(no_readings(), [], 0)
            return
        if isinstance(records, ReadingRecords) and records.exact and not self._added:
            yield self._decoded(records, now_ms, stamps)
            return
        early: list[Reject] = []
        headed = [place for place, record in enumerate(records) if record.headers]
        unreadable = _reject_unreadable(records, headed, early)
        of_format = np.full(len(records), len(self._formats) - 1, np.int8)
        of_format[list(unreadable)] = _UNREADABLE
        for place in range(len(records)) if self._added else headed:
            if place not in unreadable:
                of_format[place] = next(i for i, each in enumerate(self._formats) if each.detect(records[place]))
        sizes = [len(record.value or b"") for record in records]
        claims: dict[int, Claim] = {}
        for number, form in enumerate(self._formats):
            if form.measure is not None:
                places = np.flatnonzero(of_format == number).tolist()
                claims |= form.measure(records, places, self._budget, early)
                of_format[[place for place in places if place not in claims]] = _UNREADABLE
        most = self._budget.record_json_bytes
        for place in [place for place, size in enumerate(sizes) if size > most] if max(sizes) > most else ():
            if place not in claims and of_format[place] != _UNREADABLE:
                name = self._formats[of_format[place]].name.upper()
                detail = f"expected at most {most} bytes of {name} in one record, found {sizes[place]}"
                early.append(Reject(records[place].offset, DeadLetterCause.TOO_LARGE, detail))
                of_format[place] = _UNREADABLE
        early.sort(key=lambda reject: reject.offset)
        batch = _batch(records, headed, now_ms, stamps)
        for start, end in self._parts(sizes, claims):
            rejects = [reject for reject in early if reject.offset <= records[end - 1].offset]
            early = early[len(rejects) :] if len(rejects) < len(early) else []
            yield Decoded(self._decode(batch, start, of_format[start:end], rejects), rejects, end)

    def _decoded(self, records: ReadingRecords, now_ms: int, stamps: PartitionStamps | None) -> Decoded:
        """Records whose readings are known."""
        offset = records.offset + np.arange(len(records))
        produced_ms = np.full(len(records), records[0].timestamp)
        believed_ms = None if stamps is None else stamps.believed_until(records, offset, produced_ms, now_ms)
        if believed_ms is not None:
            produced_ms = np.minimum(produced_ms, believed_ms)
        batch = _Batch(records, offset, produced_ms, believed_ms, np.zeros(len(records), np.bool_))
        rejects: list[Reject] = []
        return Decoded(self._usable(records.parsed(self._index), batch, rejects), rejects, len(records))

    def _parts(self, sizes: Sequence[int], claims: Mapping[int, Claim]) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of runs of records that fit the budget of a batch together, or that are one record."""
        budget = self._budget
        if not claims and sum(sizes) * _WEIGHT <= budget.batch_bytes:
            yield 0, len(sizes)
            return
        start = size_bytes = readings = 0
        for place, size in enumerate(sizes):
            claim = claims.get(place) or Claim(size * _WEIGHT, 0)
            size_bytes += claim.size_bytes
            readings += claim.readings
            if place > start and (size_bytes > budget.batch_bytes or readings > budget.batch_readings):
                yield start, place
                start, size_bytes, readings = place, claim.size_bytes, claim.readings
        yield start, len(sizes)

    def _decode(self, batch: _Batch, start: int, of_format: NDArray[np.int8], rejects: list[Reject]) -> Readings:
        """Decode the records from `start` on, each of which has the index of its format."""
        parts: list[Parsed] = []
        for number, form in enumerate(self._formats):
            places = (start + np.flatnonzero(of_format == number)).tolist()
            if places:
                parts += form.parse(batch.records, places, self._index, rejects, self._budget)
        return self._usable(joined(parts), batch, rejects) if parts else no_readings()

    def _usable(self, parsed: Parsed, batch: _Batch, rejects: list[Reject]) -> Readings:
        """Select the usable readings and add the others to the rejects."""
        index, believed_ms = self._index, batch.believed_ms
        offset, produced_ms = batch.offset[parsed.record], batch.produced_ms[parsed.record]
        value, quality = _agreeing(parsed)
        model = index.models(parsed.group)
        sensor = index.rows(model, parsed.sensor)
        known = (parsed.group >= 0) & (sensor >= 0)
        # NaN compares false both ways: a missing time is rejected here, and a dropout exceeds no limit below.
        timed = (parsed.time_ms >= EARLIEST_MS) & (parsed.time_ms <= LATEST_MS)
        unit = _stated_units(parsed, produced_ms)
        # Ahead of the record's time: a rebuild reads the same records later and must reject the same readings.
        ahead = parsed.time_ms >= produced_ms + (self._max_ahead_ms[model] + 1)
        # A record that lies beyond the wall clock is believed up to it, and allows no reading further ahead.
        doubted = None if believed_ms is None else parsed.time_ms > believed_ms[parsed.record]
        if doubted is not None:
            ahead |= doubted
        outside = (value < index.limits_low[model, sensor]) | (value > index.limits_high[model, sensor])
        outside |= np.isinf(value)
        faulty = parsed.faulty & np.isnan(value)
        if parsed.quality is not None:  # the value of a bad reading does not count
            faulty &= parsed.quality != Quality.BAD
        inexact = parsed.inexact & ~np.isnan(value)
        good = known & timed & ~ahead & ~faulty & ~inexact & ~outside
        if unit is not None:
            good &= unit == TimeUnit.MILLISECONDS
        all_good = bool(good.all())
        if not all_good:
            bad = np.flatnonzero(~good)
            reason: NDArray[np.int64] = np.select(
                [parsed.group < 0, ~known, ~timed, ahead, faulty, inexact], [parsed.group, 0, 1, 2, 3, 4], 5
            )
            # Readings of one record that fail alike share a detail; the unit and the doubt are part of it.
            reason = reason * len(TimeUnit) + (0 if unit is None else unit)
            reason = reason * 2 + (0 if doubted is None else doubted)
            for rows in alike(bad, parsed.record[bad], reason[bad]):
                row = int(rows[0])
                cause, detail = self._cause(
                    parsed,
                    row,
                    timed=bool(timed[row]),
                    ahead=bool(ahead[row]),
                    doubted=doubted is not None and bool(doubted[row]),
                    faulty=bool(faulty[row]),
                    inexact=bool(inexact[row]),
                    unit=TimeUnit.MILLISECONDS if unit is None else TimeUnit(unit[row]),
                )
                more = MoreReadings(parsed.position[rows[1:]]) if len(rows) > 1 else None
                rejects.append(Reject(int(offset[row]), cause, detail, int(parsed.position[row]), more=more))
        readings = Readings(
            model,
            parsed.group.astype(np.int32),
            sensor,
            np.floor(parsed.time_ms if all_good else np.where(timed, parsed.time_ms, 0)).astype(np.int64),
            value,
            offset,
            parsed.position.astype(np.int32),
            quality,
            produced_ms,
            batch.requeued[parsed.record],
        )
        return readings if all_good else readings.where(good)

    def _cause(
        self,
        parsed: Parsed,
        row: int,
        *,
        timed: bool,
        ahead: bool,
        doubted: bool,
        faulty: bool,
        inexact: bool,
        unit: TimeUnit,
    ) -> tuple[DeadLetterCause, str]:
        group, sensor, time, fault = parsed.said(row)
        code = int(parsed.group[row])
        if code == NO_GROUP or group is None or sensor is None:
            missing = "group, neither in the record nor as its key" if group is None else "sensor"
            return DeadLetterCause.MALFORMED, fault or f"no {missing}"
        if code < 0:
            return DeadLetterCause.UNKNOWN_GROUP, f"group {group[:MAX_DETAIL_CHARS]!r} is not in the catalogue"
        model = self._index.catalogue.models[self._index.model_of_group[code]]
        found = next((each for each in model.sensors if each.id == sensor), None)
        sensor = sensor[:MAX_DETAIL_CHARS]
        if found is None:
            return DeadLetterCause.UNKNOWN_SENSOR, f"sensor {sensor!r} is not one of group {group!r}"
        time = time[:MAX_DETAIL_CHARS] if isinstance(time, str) else time
        if unit is not TimeUnit.MILLISECONDS:
            return DeadLetterCause.TS_UNIT, f"expected epoch milliseconds, found {unit.text}: {time!r}"
        if not timed:
            return DeadLetterCause.BAD_TIME, f"expected epoch milliseconds or ISO 8601 with a zone, found {time!r}"
        if ahead:
            of = "the wall clock, as is its record" if doubted else "when it was produced"
            return DeadLetterCause.FUTURE, f"{time!r} is too far ahead of {of}"
        if faulty:
            return DeadLetterCause.MALFORMED, fault
        if inexact:
            detail = (
                f"an integer of {sensor} that a float of 64 bits cannot hold, the nearest is {parsed.value[row]:.0f}"
            )
            return DeadLetterCause.INEXACT, detail
        low, high = found.limits
        return DeadLetterCause.OUT_OF_LIMITS, f"{parsed.value[row].item()!r} of {sensor} is outside [{low}, {high}]"


def _stated_units(parsed: Parsed, produced_ms: NDArray[np.int64]) -> NDArray[np.int8] | None:
    """The TimeUnit of each reading's time; None if all are milliseconds.

    Text and Arrow's timestamps state their unit, so a time of long ago can be sent in them.
    """
    unit = found_units(parsed.time_ms, produced_ms)
    if unit is None:
        return None
    unit[np.broadcast_to(parsed.typed_time, len(unit))] = TimeUnit.MILLISECONDS
    suspected = np.flatnonzero(unit)
    stated = [row for row in suspected.tolist() if isinstance(parsed.said(row).time, str)]
    unit[stated] = TimeUnit.MILLISECONDS
    return unit if len(stated) < len(suspected) else None


def _reject_unreadable(records: Sequence[InputRecord], headed: Sequence[int], rejects: list[Reject]) -> set[int]:
    """The places of the records that the driver could not read; each becomes a reject."""
    unreadable = set()
    for place in headed:
        record = records[place]
        if isinstance(record, UnreadableRecord):
            rejects.append(Reject(record.offset, DeadLetterCause.UNREADABLE, record.reason))
            unreadable.add(place)
    return unreadable


def _batch(
    records: Sequence[InputRecord], headed: Sequence[int], now_ms: int, stamps: PartitionStamps | None
) -> _Batch:
    """Look at the records of a batch; `headed` are the indices of those with headers."""
    offset = np.array([record.offset for record in records], np.int64)
    produced_ms = np.array([record.timestamp for record in records], np.int64)
    produced_ms = np.where(produced_ms < 0, now_ms, produced_ms)
    believed_ms = None if stamps is None else stamps.believed_until(records, offset, produced_ms, now_ms)
    if believed_ms is not None:
        produced_ms = np.minimum(produced_ms, believed_ms)
    requeued = np.zeros(len(records), np.bool_)
    for place in headed:
        requeued[place] = any(name == REQUEUED_HEADER for name, _ in records[place].headers)
    return _Batch(records, offset, produced_ms, believed_ms, requeued)


def _agreeing(parsed: Parsed) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Values and qualities that agree: the value of a bad reading becomes NaN, and a reading without value is bad."""
    value = parsed.value
    if parsed.quality is None:
        return value, np.where(np.isnan(value), np.int8(Quality.BAD), np.int8(Quality.GOOD))
    value = np.where(parsed.quality == Quality.BAD, np.nan, value)
    return value, np.where(np.isnan(value), np.int8(Quality.BAD), parsed.quality)
