"""The audit of topics in memory: partitions without a commit, unknown groups, and stretches of time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.decode.dead_letters import letters_of
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.kafka import Commit
from glaim_stream.operate.audit import run
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.run import AuditRequest, audit
from glaim_stream.pipeline import Pipeline
from tests.kafka.topics import Kafka
from tests.operate.audit.test_partition import NOW_MS, START_MS, STEP_MS, Record, catalogue, stream

SETTINGS = Settings(input_topic="in", output_topic="out", consumer_group="workers", imputer="interpolation")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """An input and what a worker made of it."""
    values = stream()
    records = [
        Record(offset, value, timestamp=START_MS + 60 * STEP_MS * offset // len(values))
        for offset, value in enumerate(values)
    ]
    pipeline = Pipeline(catalogue(), {}, Ladder([Interpolation()]))
    windows = pipeline.windows()
    applied = pipeline.apply(windows, records, now_ms=NOW_MS)
    rows = [each.value for each in pipeline.messages(asyncio.run(pipeline.fill(applied.closed)))]
    letters = [
        letter
        for offset in sorted({reject.offset for reject in applied.rejects})
        for letter in letters_of(
            records[offset], [each for each in applied.rejects if each.offset == offset], topic="in", partition=0
        )
    ]
    made = Kafka(
        {
            "in": records,
            "out": [Record(offset, value, timestamp=NOW_MS) for offset, value in enumerate(rows)],
            SETTINGS.dlq_topic: [Record(n, each.value, each.key, list(each.headers)) for n, each in enumerate(letters)],
        }
    )
    commit = Commit(len(records), windows.rebuild_from(len(records)))
    made.commits["workers"] = {TopicPartition("in", 0): OffsetAndMetadata(commit.offset, commit.metadata)}

    @asynccontextmanager
    async def client(settings: Settings) -> AsyncIterator[Kafka]:
        yield made

    monkeypatch.setattr(run, "reader", client)
    monkeypatch.setattr(run, "admin_client", client)
    monkeypatch.setattr(run, "_model_columns", lambda settings: ModelColumns(catalogue(), {}))
    return made


def test_a_partition_that_never_committed_is_no_problem_and_none_of_a_clean_output(kafka: Kafka) -> None:
    report = audit(SETTINGS)
    assert {name: found for name, found in report.problems.items() if found.count} == {}
    assert report.counts["records"] == len(kafka.topics["in"])
    assert [(each.partition, each.committed) for each in report.partitions] == [(0, len(kafka.topics["in"])), (1, None)]


def test_an_unknown_group_is_named_with_those_that_read_the_input(kafka: Kafka) -> None:
    kafka.commits["others"] = {}
    with pytest.raises(SettingsError, match=r"found 'worker'; did you mean workers\?") as found:
        audit(SETTINGS.model_copy(update={"consumer_group": "worker"}))
    assert "others" not in str(found.value)
    kafka.commits["starting"] = {}
    assert audit(SETTINGS.model_copy(update={"consumer_group": "starting"})).partitions[0].committed is None


def test_an_audit_waits_for_the_commit_of_what_was_read(kafka: Kafka) -> None:
    kafka.commits["workers"][TopicPartition("in", 0)] = OffsetAndMetadata(5, "")
    audit(SETTINGS, AuditRequest(wait_s=0.3))
    assert kafka.asked > 1


def test_a_stretch_without_readings_is_an_error_and_not_clean(kafka: Kafka) -> None:
    middle_ms = START_MS + 30 * STEP_MS
    since, until = audit(SETTINGS, AuditRequest(since_ms=middle_ms)), audit(SETTINGS, AuditRequest(until_ms=middle_ms))
    assert since.counts["keys"] + until.counts["keys"] == audit(SETTINGS).counts["keys"]
    for request in (AuditRequest(since_ms=NOW_MS), AuditRequest(until_ms=START_MS - 10**9)):
        with pytest.raises(SettingsError, match="expected readings whose time lies"):
            audit(SETTINGS, request)
    kafka.topics = {"in": [], "out": []}
    assert audit(SETTINGS).counts["records"] == 0
