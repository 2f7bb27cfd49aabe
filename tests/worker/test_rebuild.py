"""Which part of the topic a rebuild reads, with an in-memory consumer; tests/integration uses a real one."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata, OffsetAndTimestamp
from prometheus_client import REGISTRY

from glaim_stream.core.readings import InputRecord
from glaim_stream.core.settings import Settings
from glaim_stream.core.stamps import Tick, ticks_text
from glaim_stream.kafka import Commit, commits
from glaim_stream.kafka.offsets import METADATA_PREFIX
from glaim_stream.windows import ClockClose, history_ms
from glaim_stream.worker import rebuild
from tests.support import Record, catalogue

TP = TopicPartition("in", 3)
RULES = catalogue(sensors=1)
SETTINGS = Settings(consumer_group="group", imputer="interpolation")
SPAN_MS = history_ms(RULES, scored=SETTINGS.scored)


@dataclass
class Log:
    """One partition of a broker, with one record every `step_ms`."""

    oldest: int = 0
    end: int = 100
    step_ms: int = 1000
    compacted: set[int] = field(default_factory=set)
    commit: OffsetAndMetadata | None = None
    empty_polls: int = 0  # polls that return nothing before the first records
    per_poll: int = 7
    position: int = -1
    seeks: list[int] = field(default_factory=list)
    assigned: bool = False
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    recalled: list[Commit] = field(default_factory=list)

    def record(self, offset: int) -> Record:
        return Record(b"", offset, timestamp=offset * self.step_ms)


def fakes(log: Log) -> tuple[type, type]:
    """The parts of aiokafka's consumer and admin client that a rebuild uses."""

    class Consumer:
        def __init__(self, **options: Any) -> None:
            assert options["enable_auto_commit"] is False
            assert options["auto_offset_reset"] == "earliest"

        async def start(self) -> None:
            log.started.append("consumer")

        async def stop(self) -> None:
            log.stopped.append("consumer")

        def assign(self, tps: Sequence[TopicPartition]) -> None:
            assert tps == [TP]
            assert "consumer" in log.started
            log.assigned = True

        def seek(self, tp: TopicPartition, offset: int) -> None:
            assert log.assigned
            log.seeks.append(offset)
            log.position = offset

        async def position(self, tp: TopicPartition) -> int:
            return log.position

        async def beginning_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(tps, log.oldest)

        async def end_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(tps, log.end)

        async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
            later = [n for n in range(log.oldest, log.end) if log.record(n).timestamp >= times[TP]]
            return {TP: OffsetAndTimestamp(later[0], log.record(later[0]).timestamp) if later else None}

        async def getmany(
            self, *tps: TopicPartition, timeout_ms: int, max_records: int | None = None
        ) -> dict[TopicPartition, list[Record]]:
            if log.empty_polls:
                log.empty_polls -= 1
                return {}
            until = min(log.end, max(log.position, log.oldest) + (max_records or log.per_poll))
            found = [n for n in range(max(log.position, log.oldest), until) if n not in log.compacted]
            log.position = max(log.position, until)
            return {TP: [log.record(n) for n in found]} if found else {}

    class Admin:
        def __init__(self, **options: Any) -> None: ...
        async def start(self) -> None:
            log.started.append("admin")

        async def close(self) -> None:
            log.stopped.append("admin")

        async def list_consumer_group_offsets(self, group: str, partitions: Any) -> dict[TopicPartition, Any]:
            assert (group, partitions) == ("group", [TP])
            assert "admin" in log.started
            return {} if log.commit is None else {TP: log.commit}

    return Consumer, Admin


async def read(log: Log, next_offset: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets that a rebuild up to `next_offset` applies."""
    consumer, admin = fakes(log)
    monkeypatch.setattr(rebuild, "AIOKafkaConsumer", consumer)
    monkeypatch.setattr(commits, "AIOKafkaAdminClient", admin)
    applied: list[int] = []

    async def apply(records: Sequence[InputRecord]) -> None:
        assert records
        applied.extend(record.offset for record in records)

    def recall(commit: Commit) -> None:
        assert not applied, "the records are judged by what is recalled"
        log.recalled.append(commit)

    await rebuild.KafkaRebuilder(SETTINGS, RULES).rebuild("in", 3, next_offset, apply, recall)
    return applied


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(f"glaim_{name}_total") or 0.0


def worker_commit(offset: int, rebuild_from: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, f"{METADATA_PREFIX}{rebuild_from}")


async def test_at_the_start_of_a_topic_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    assert await read(log, 0, monkeypatch) == []
    assert (log.seeks, log.stopped) == ([], [])


async def test_only_the_records_that_the_last_commit_needs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(commit=worker_commit(30, 17))
    before = counted("rebuilds"), counted("rebuilt_records"), counted("retention_shortfalls")
    assert await read(log, 30, monkeypatch) == list(range(17, 30))
    after = counted("rebuilds"), counted("rebuilt_records"), counted("retention_shortfalls")
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 13, 0]
    assert sorted(log.stopped) == ["admin", "consumer"]


@pytest.mark.parametrize("commit", [None, OffsetAndMetadata(-1, "")])
async def test_without_a_commit_all_available_records_are_read(
    commit: OffsetAndMetadata | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counted("retention_shortfalls")
    assert await read(Log(oldest=4, commit=commit), 9, monkeypatch) == [4, 5, 6, 7, 8]
    assert counted("retention_shortfalls") == before, "the group started at the oldest record"


async def test_a_commit_at_offset_0_is_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rebuild_from of 0 is below the oldest kept offset, which is reported only with a commit."""
    before = counted("retention_shortfalls")
    assert await read(Log(oldest=4, commit=worker_commit(0, 0)), 6, monkeypatch) == [4, 5]
    assert counted("retention_shortfalls") == before + 1


async def test_history_that_retention_has_deleted_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted("retention_shortfalls")
    assert await read(Log(oldest=20, commit=worker_commit(30, 17)), 23, monkeypatch) == [20, 21, 22]
    assert counted("retention_shortfalls") == before + 1
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "in-3: the windows need offset 17, but retention has kept only 20 and later" in line
    assert f"{SPAN_MS // 1000} s of event time" in line


async def test_history_that_is_just_long_enough_is_no_shortfall(monkeypatch: pytest.MonkeyPatch) -> None:
    before = counted("retention_shortfalls")
    assert await read(Log(oldest=17, commit=worker_commit(30, 17)), 19, monkeypatch) == [17, 18]
    assert counted("retention_shortfalls") == before


@pytest.mark.parametrize("metadata", ["", "kafka-consumer-groups"])
async def test_after_a_commit_by_another_tool_the_rebuild_uses_record_times(
    metadata: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    record time    | first                     ... | next_offset - 1
                     SPAN_MS before it
    """
    log = Log(step_ms=SPAN_MS // 10, commit=OffsetAndMetadata(50, metadata))
    assert await read(log, 50, monkeypatch) == list(range(39, 50))


@pytest.mark.parametrize("elsewhere", [20, 5000])
async def test_after_a_commit_that_a_mirror_has_translated_the_rebuild_uses_record_times(
    elsewhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata name offsets of the other Kafka, which are those of later records here, or of none."""
    written = Commit(50 + elsewhere, 30 + elsewhere, stamps=ticks_text([Tick(40 + elsewhere, 1_000_000)]))
    log = Log(step_ms=SPAN_MS // 10, commit=OffsetAndMetadata(50, written.metadata))
    assert await read(log, 50, monkeypatch) == list(range(39, 50))
    assert log.recalled == [Commit(50, 0)]


async def test_near_the_epoch_the_rebuild_starts_at_the_oldest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(step_ms=1, commit=OffsetAndMetadata(5, ""))
    assert await read(log, 5, monkeypatch) == [0, 1, 2, 3, 4]


async def test_an_empty_poll_does_not_end_the_search_for_the_record_before_the_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(step_ms=SPAN_MS // 10, commit=OffsetAndMetadata(50, ""), empty_polls=3)
    assert await read(log, 50, monkeypatch) == list(range(39, 50))


async def test_an_empty_topic_needs_no_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(oldest=50, end=50, commit=OffsetAndMetadata(50, ""))
    log.compacted = set(range(100))
    assert await read(log, 50, monkeypatch) == []
    assert log.seeks[0] == 49


async def test_compacted_records_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(commit=worker_commit(30, 10), compacted=set(range(12, 28)), per_poll=3, empty_polls=2)
    assert await read(log, 30, monkeypatch) == [10, 11, 28, 29]


@pytest.mark.parametrize("empty_polls", [0, 3])
async def test_a_log_that_was_cut_below_the_commit_is_read_to_its_end(
    empty_polls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(end=20, commit=worker_commit(50, 5), empty_polls=empty_polls)
    assert await asyncio.wait_for(read(log, 50, monkeypatch), 10) == list(range(5, 20))


async def test_a_failed_read_closes_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(commit=worker_commit(30, 10))
    consumer, admin = fakes(log)
    monkeypatch.setattr(rebuild, "AIOKafkaConsumer", consumer)
    monkeypatch.setattr(commits, "AIOKafkaAdminClient", admin)

    async def fail(records: Sequence[InputRecord]) -> None:
        raise OSError("cannot apply")

    with pytest.raises(OSError, match="cannot apply"):
        await rebuild.KafkaRebuilder(SETTINGS, RULES).rebuild("in", 3, 30, fail, lambda commit: None)
    assert sorted(log.stopped) == ["admin", "consumer"]


async def test_a_rebuild_logs_its_records_offsets_and_duration(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SimpleNamespace(perf_counter=iter([100.0, 102.5]).__next__)
    monkeypatch.setattr(rebuild, "time", clock)
    with caplog.at_level(logging.INFO, rebuild.log.name):
        await read(Log(commit=worker_commit(30, 17)), 30, monkeypatch)
    assert caplog.messages == ["in-3: windows rebuilt from 13 records, offsets 17 to 30, in 2.50 s"]


async def test_a_rebuild_reads_from_the_broker_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clients fall back to localhost:9092 when no address is given."""
    log = Log(commit=worker_commit(30, 17))
    addresses: list[Any] = []

    def noting(client: type) -> Callable[..., Any]:
        def make(**options: Any) -> Any:
            addresses.append(options.get("bootstrap_servers"))
            return client(**options)

        return make

    consumer, admin = fakes(log)
    monkeypatch.setattr(rebuild, "AIOKafkaConsumer", noting(consumer))
    monkeypatch.setattr(commits, "AIOKafkaAdminClient", noting(admin))

    async def apply(records: Sequence[InputRecord]) -> None: ...

    settings = Settings(consumer_group="group", imputer="interpolation", kafka="broker-a:9,broker-b:9")
    await rebuild.KafkaRebuilder(settings, RULES).rebuild("in", 3, 30, apply, lambda commit: None)
    assert addresses == [["broker-a:9", "broker-b:9"]] * 2


async def test_what_the_clock_judged_and_published_is_read_from_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    closes = (ClockClose(28, "m", 17), ClockClose(30, "m", 19))
    commit = Commit(30, 12, closes, ticks_text([Tick(12, 1_000_000), Tick(20, 1_300_000)]))
    log = Log(commit=OffsetAndMetadata(30, commit.metadata))
    assert (await read(log, 30, monkeypatch))[0] == 12
    await read(log, 29, monkeypatch)
    assert log.recalled == [commit, replace(commit, clock=())], "what was published beyond the records is not repeated"


async def test_without_a_commit_the_wall_clock_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    await read(log, 30, monkeypatch)
    assert log.recalled == []
