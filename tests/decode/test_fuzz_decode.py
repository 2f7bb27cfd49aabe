"""The input topic may contain anything: each record becomes readings or rejects, independently of its neighbours."""

import asyncio
import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.dead_letters import dead_letters
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.operate.dlq.description import value_text
from glaim_stream.operate.dlq.letters import read_letter
from glaim_stream.operate.dlq.subset import keep_readings
from glaim_stream.pipeline import Pipeline
from tests.fuzzing import NOW_MS, records
from tests.support import Record, catalogue

CATALOGUE = catalogue(sensors=[{"id": "s0", "min": -100, "max": 100}, {"id": "s1"}])


def numbered(given_records: list[Record]) -> list[Record]:
    """Records with ascending offsets and gaps, as in a partition."""
    return [replace(record, offset=7 + 3 * place) for place, record in enumerate(given_records)]


def comparable(index: GroupIndex, readings: Readings, rejects: list[Reject]) -> list[tuple[Any, ...]]:
    """Sorted tuples of all readings and rejects."""
    rows = zip(
        *(getattr(readings, name).tolist() for name in ("offset", "position", "sensor", "event_time_ms", "quality")),
        [index.names[code] for code in readings.group.tolist()],
        [value.tobytes() if value == value else b"nan" for value in readings.value],
        readings.requeued.tolist(),
        strict=True,
    )
    return sorted([*rows], key=repr) + sorted(
        ((each.offset, -1 if each.position is None else each.position, each.cause) for each in rejects), key=repr
    )


@given(st.lists(records, min_size=1, max_size=6))
def test_every_record_becomes_readings_or_rejects_independently_of_its_neighbours(batch: list[Record]) -> None:
    batch = numbered(batch)
    index = GroupIndex(CATALOGUE)
    readings, rejects = Decoder(index).decode(batch, now_ms=NOW_MS)
    assert (np.diff(readings.offset) >= 0).all()
    assert not np.isinf(readings.value).any()
    read = {(offset, position) for offset, position in zip(readings.offset, readings.position, strict=True)}
    rejected = {(each.offset, each.position) for each in rejects}
    assert len(read) == len(readings)
    assert len(rejected) == len(rejects)
    assert not read & rejected
    assert {offset for offset, _ in read | rejected} == {record.offset for record in batch}
    whole = {offset for offset, position in rejected if position is None}
    assert not whole & {offset for offset, _ in read}, "a record is rejected as a whole or by reading"
    assert {each.cause for each in rejects} <= set(DeadLetterCause) - {DeadLetterCause.PROCESSING}
    parts = [Decoder(index).decode([record], now_ms=NOW_MS) for record in batch]
    every = [
        np.concatenate([getattr(part, column.name) for part, _ in parts]) for column in dataclasses.fields(Readings)
    ]
    alone = comparable(index, Readings(*every), [reject for _, rejects_alone in parts for reject in rejects_alone])
    assert comparable(index, readings, rejects) == alone


@given(st.lists(records, min_size=1, max_size=5))
def test_the_pipeline_handles_any_records(batch: list[Record]) -> None:
    batch = numbered(batch)
    pipeline = Pipeline(CATALOGUE, {}, Ladder([Interpolation()]))
    applied = pipeline.apply(pipeline.windows(), batch, now_ms=NOW_MS)
    for message in pipeline.messages(asyncio.run(pipeline.fill(applied.closed))):
        pa.ipc.open_stream(message.value).read_all().validate(full=True)
    for letter in dead_letters(batch, applied.rejects, topic="in", partition=0):
        stored = Record(letter.value, 1, letter.key, letter.headers, NOW_MS)
        object.__setattr__(stored, "partition", 0)
        found = read_letter(stored)
        assert found is not None
        assert isinstance(found.group, str | None)
        assert isinstance(value_text(letter.value or b"", letter.headers), str)
        if found.positions is not None and letter.value is not None:
            part = replace(
                batch[0], value=keep_readings(letter.value, found.headers, found.positions), headers=found.headers
            )
            decoded, rejects = Decoder(pipeline.index).decode([replace(part, key=letter.key)], now_ms=NOW_MS)
            assert len(decoded) + len(rejects) >= 1
