"""An internal error in a replay loses only the records that fail, as in a worker."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.feed.replay import partition
from glaim_stream.feed.replay.partition import Counts, PartitionReplay
from glaim_stream.feed.replay.sinks import OutageFile, Recorded
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.output import Announcement, Origin, Output
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import PartitionWindows
from tests.pipeline.test_faults import RULES, Failing, poisoned, rows_of, topic
from tests.support import MemoryPublisher, Record, header


class Written:
    """A sink that keeps the outputs."""

    guarantee = "none"

    def __init__(self, seen: list[Output]) -> None:
        self._seen = seen

    async def open(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        return offsets

    async def write(self, outputs: Sequence[Output]) -> None:
        self._seen.extend(outputs)

    async def close(self, *, complete: bool) -> None: ...


async def replayed(
    pipeline: Pipeline, records: Sequence[Record], cuts: Sequence[int], *, warm_up: int = 0
) -> tuple[MemoryPublisher, Counts]:
    publisher, counts = MemoryPublisher(), Counts()
    publisher.gate.set()
    replay = PartitionReplay(
        pipeline, publisher, counts, topic="in", partition=0, in_flight=2, now_ms=lambda: 1_000_000
    )
    start = 0
    for end in sorted({*cuts, len(records)}):
        if end > start:
            await replay.take(records[start:end], publish=start >= warm_up)
        start = end
    await replay.finish(close=True)
    return publisher, counts


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.sets(st.integers(0, 39), max_size=4),
    st.lists(st.integers(0, 39), max_size=6),
    st.sampled_from([1, 150, 10**6]),
)
def test_only_failing_records_are_lost(steps: list[int], poison: set[int], cuts: list[int], kept_bytes: int) -> None:
    import asyncio

    records = topic(sorted(steps), sorted(poison))
    bad = [offset for offset in sorted(poison) if offset < len(records)]
    with pytest.MonkeyPatch.context() as patch:  # copies after each batch, after some, after none
        patch.setattr(partition, "COPY_BYTES", kept_bytes)
        patch.setattr(partition, "COPY_BYTES_PER_GROUP", 0)
        found, counts = asyncio.run(replayed(poisoned(), records, [cut for cut in cuts if cut < len(records)]))
    good = [record for record in records if record.offset not in bad]
    whole = Pipeline(RULES, {}, Ladder([Interpolation()]))
    expected, _ = asyncio.run(replayed(whole, good, []))
    assert rows_of(found) == rows_of(expected)
    failed = [
        letter for letter in found.letters if header(letter.headers, "glaim-cause") == DeadLetterCause.PROCESSING.value
    ]
    assert sorted(int(header(letter.headers, "glaim-offset") or -1) for letter in failed) == bad
    assert (counts.faults > 0) == bool(bad)


async def test_an_error_while_warming_up_does_not_end_the_replay() -> None:
    found, counts = await replayed(poisoned(), topic(range(12), [2]), [4, 8], warm_up=8)
    assert counts.faults == 1
    assert counts.warm_up_records == 8
    assert found.letters == [], "the warm-up makes no output"
    assert rows_of(found)


async def test_an_imputer_that_raises_loses_no_row() -> None:
    failing = Pipeline(RULES, {}, Failing(RuntimeError("a bug")))
    found, counts = await replayed(failing, topic(range(12)), [6])
    expected, _ = await replayed(Pipeline(RULES, {}, Ladder([Interpolation()])), topic(range(12)), [6])
    assert [row[:3] for row in rows_of(found)] == [row[:3] for row in rows_of(expected)]
    assert counts.faults > 0


async def test_a_fault_in_closing_the_end_loses_only_the_open_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(windows: PartitionWindows) -> None:
        raise RuntimeError("a bug")

    expected, _ = await replayed(Pipeline(RULES, {}, Ladder([Interpolation()])), topic(range(12)), [6])
    monkeypatch.setattr(PartitionWindows, "close_end", fails)
    found, counts = await replayed(Pipeline(RULES, {}, Ladder([Interpolation()])), topic(range(12)), [6])
    assert counts.faults == 1
    assert 0 < len(rows_of(found)) < len(rows_of(expected))
    assert set(rows_of(found)) <= set(rows_of(expected))


async def test_outages_are_written_to_their_file_and_not_to_the_sink(tmp_path: Path) -> None:
    seen: list[Output] = []
    event = Announcement(b"g0", b'{"group": "g0", "kind": "dark"}')
    with OutageFile(tmp_path / "outages.jsonl") as file:
        await Recorded(Written(seen), None, file).publish(Output(0, Origin(1, 2), announcements=[event, event]))
    lines = (tmp_path / "outages.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["dark", "dark"]
    assert [list(each.announcements) for each in seen] == [[]]


async def test_a_replay_reports_the_groups_that_go_dark() -> None:
    from tests.support import json_record

    both = [
        json_record(offset, group=group, sensor="s0", ts=step * 1000, value=step)
        for offset, (step, group) in enumerate(
            (step, group) for step in range(20) for group in ("g0", "g1") if group == "g0" or step < 8
        )
    ]
    found, counts = await replayed(Pipeline(RULES, {}, Ladder([Interpolation()])), both, [9])
    documents = [json.loads(each.value) for each in found.announcements]
    assert ("g1", "dark") in [(each["group"], each["kind"]) for each in documents]
    assert counts.outages == len(documents)


async def test_a_replay_publishes_no_event_of_sensor_health() -> None:
    """The live worker has reported them; a second report would be taken for news."""
    seen: list[Output] = []

    event = Announcement(b"g1", b"{}")
    await Recorded(Written(seen), None, None).publish(Output(0, Origin(1, 2), announcements=[event], health=[event]))
    assert [(list(each.announcements), list(each.health)) for each in seen] == [([], [])]
