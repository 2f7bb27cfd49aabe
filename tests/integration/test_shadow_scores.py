"""Two versions of a network, scored beside each other by a worker on a real broker and a real Triton."""

import re
import shutil
import time
import urllib.request
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.settings import Settings
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import read_rows
from tests.integration.bad_versions import wait_until_served
from tests.integration.two_versions import FORMER, MODEL, NEWEST, with_a_worse_version
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed

pytestmark = [
    pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason())),
    pytest.mark.slow,  # quicker: tests/imputers/test_other_version.py, tests/pipeline/test_shadow.py
]

STEP_MS = 60_000
SERIES = re.compile(r"^(\w+)\{(.*)\} (\S+)$")


def sums(url: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The series of a metric by their labels."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        found = [SERIES.match(line) for line in answer.read().decode().splitlines()]
    return {
        tuple(re.findall(r'(\w+)="([^"]*)"', each[2])): float(each[3])
        for each in found
        if each is not None and each[1] == name
    }


def total(url: str, name: str, **labels: str) -> float:
    return sum(value for key, value in sums(url, name).items() if labels.items() <= dict(key).items())


def imputed(triton: LocalTriton, version: str) -> float:
    """Windows that a version of the model has imputed."""
    return total(triton.metrics_url, "nv_inference_count", model=MODEL, version=version)


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    tables = [read_rows(each.value) for part in read_topic(settings, settings.output_topic).values() for each in part]
    rows = pa.concat_tables([table.cast(tables[0].schema) for table in tables]).to_pylist()
    return sorted(rows, key=lambda row: (row["group"], row["sensor"], row["ts"], row["revision"]))


def test_both_versions_are_scored_and_the_rows_are_those_of_a_worker_without_scores(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    repository = with_a_worse_version(tmp_path)
    with LocalTriton(repository, control_mode="poll", poll_s=1) as triton:
        wait_until_served(triton.grpc_url, MODEL, FORMER, NEWEST)

        def settings_of(name: str) -> Settings:
            return plant_settings(
                kafka.bootstrap_servers, topic_prefix, partitions=1, triton=triton.grpc_url,
                kafka_extra={"auto_commit_interval_ms": 200},
                triton_deadline_s=30, metrics_host=LOOPBACK, metrics_port=choose_port(),
            ).model_copy(update={
                "model_repository": repository, "output_topic": f"{topic_prefix}out-{name}",
                "consumer_group": f"{topic_prefix}worker-{name}",
            })  # fmt: skip

        settings, alone = settings_of("beside"), settings_of("alone")
        ensure_topics(settings)
        ensure_topics(alone)
        url = f"http://{LOOPBACK}:{settings.metrics_port}/metrics"
        whole = plant_source(groups=4, days=200 / 1440, seed=3)
        source = whole.where(~hide(whole, 0.15, seed=3).mask)
        start_ms, sent = int(source.time_ms[0]), 0

        def send(first: int, last: int) -> None:
            nonlocal sent
            for start, end in pairwise(range(first, last + 1, 10)):
                part = source.between(start_ms + start * STEP_MS, start_ms + end * STEP_MS)
                assert produce(settings, part).failed_messages == 0
                sent += len(part)
                wait_until_committed(settings, total=sent)

        before = {each: imputed(triton, each) for each in (FORMER, NEWEST)}  # the warm-up
        with WorkerProcess(settings, tmp_path / "worker.log") as worker:
            send(0, 20)
            give_up = time.monotonic() + 60
            while not sums(url, "glaim_model_info").get((("model", MODEL), ("version", FORMER))):
                assert time.monotonic() < give_up, "the former version must be found"
                time.sleep(0.5)
            send(20, 150)
            time.sleep(2)  # the last call
            scored, failed, skipped = (
                total(url, "glaim_shadow_windows_total", outcome=each) for each in ("scored", "failed", "skipped")
            )
            asked = total(url, "glaim_shadow_questions_total", version=FORMER)
            of_former, of_newest = (
                total(url, "glaim_shadow_error_total", version=one, against=other, sensor="flow")
                for one, other in ((FORMER, NEWEST), (NEWEST, FORMER))
            )
            by_triton = {each: imputed(triton, each) - before[each] for each in (FORMER, NEWEST)}
            print(f"windows scored {scored:.0f}, failed {failed:.0f}, skipped {skipped:.0f}; readings {asked:.0f}")
            print(f"imputed by Triton: {by_triton}; summed error of flow {of_former:.1f} and {of_newest:.1f}")
            assert failed == 0
            assert scored > 100
            assert asked > 100
            assert of_newest > 1.2 * of_former > 0, "the operator sees that the new version is worse"
            assert by_triton[FORMER] == scored
            assert by_triton[NEWEST] > scored
            shutil.rmtree(repository / MODEL / FORMER)
            wait_until_served(triton.grpc_url, MODEL, NEWEST)
            send(150, 200)
            time.sleep(12)  # the worker looks every 10 s
            assert total(url, "glaim_shadow_windows_total", outcome="scored") >= scored
            assert total(url, "glaim_worker_faults_total") == 0
            assert worker.stop() == 0
        with WorkerProcess(alone, tmp_path / "alone.log") as worker:
            wait_until_committed(alone, total=sent)
            assert worker.stop() == 0
    beside = rows_of(settings)
    assert {row["model_version"] for row in beside} == {"", NEWEST}
    # The wall clock has closed the newest steps of the first worker while the test waited.
    closed = datetime.fromtimestamp(start_ms / 1000 + 180 * 60, UTC)
    compared = [[row for row in rows if row["ts"] < closed] for rows in (beside, rows_of(alone))]
    assert compared[0] == compared[1]
    assert sum(row["model_version"] == NEWEST for row in compared[0]) > 300
    report = audit(settings)
    assert report.clean, report.problems
