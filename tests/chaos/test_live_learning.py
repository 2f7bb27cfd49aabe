"""Workers that learn a model while they run, and are killed while they do."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.trust import Trust
from glaim_stream.core.vocabulary import UPGRADED
from glaim_stream.models import read_sealed_form
from glaim_stream.models.form_manifest import FORM_MANIFEST
from glaim_stream.output import read_rows
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import Scenario, wait_for
from tests.chaos.stream import GROUPS, messages, send_steadily
from tests.integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
MODEL = "stranger"
STEPS, WINDOW = 900, 24
PER_STEP = round(3 * GROUPS * 0.87)  # of which 15 % are missing and 2 % repeated
CATALOGUE = f"""
models:
  - name: {MODEL}
    learn: true
    step_s: 60
    window: {WINDOW}
    lateness_s: 90
    revise_after: 4
    max_gap: 12
    idle_timeout_s: 100000
    sensors: [{{id: s0, min: -50, max: 50}}, {{id: s1}}, {{id: s2}}]
groups:
  - {{model: learn, pattern: "g*"}}
"""
TAKEN_UP = re.compile(r"now has the closed form (gaussian-\w+)")
PLACED = re.compile(r"the closed form (\w+) is placed")


def learning(scenario: MakeScenario, kafka: str, fault: str, directory: Path, **changes: object) -> Scenario:
    catalogue = directory / "learn.yaml"
    catalogue.write_text(CATALOGUE)
    return scenario(
        kafka, fault, catalogue=catalogue, model_repository=directory / "models", imputer="triton",
        triton="localhost:1", triton_deadline_s=0.2, **changes,
    )  # fmt: skip


class Feed:
    """Readings that are sent step by step until something has happened, however slow the machine is."""

    def __init__(self, run: Scenario, seed: int) -> None:
        self._run, self._left = run, messages(steps=STEPS, seed=seed)
        self.sent = 0

    def until(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            assert self._left, f"{STEPS} steps were sent, waiting for {what}"
            self.send(1)
            time.sleep(0.3)

    def send(self, steps: int) -> None:
        part, self._left = self._left[: PER_STEP * steps], self._left[PER_STEP * steps :]
        send_steadily(self._run.settings, part, rate_per_s=10_000)
        self.sent += len(part)


def learning_of(worker: WorkerProcess) -> list[int]:
    """The ids of the processes in which the worker learns: one or none."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"learn" in command_of(int(pid)).split(b"\0")]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def logged(worker: WorkerProcess, pattern: re.Pattern[str]) -> list[str]:
    return pattern.findall(worker.log.read_text())


def versions_of(run: Scenario) -> set[str]:
    """The `model_version` of all rows, without the empty one."""
    records = read_topic(run.settings, run.settings.output_topic)
    found = {name for part in records.values() for each in part for name in column(each.value)}
    return found - {""}


def column(message: bytes) -> list[str]:
    names: list[str] = read_rows(message)["model_version"].to_pylist()
    return names


def test_a_worker_killed_while_it_learns_or_takes_up_a_form_loses_nothing(
    kafka: Kafka, scenario: MakeScenario, tmp_path: Path
) -> None:
    run = learning(scenario, kafka.bootstrap_servers, "worker and its learning killed", tmp_path)
    folder = tmp_path / "models" / MODEL
    folder.mkdir(parents=True)
    abandoned = folder / f".{FORM_FILE}.abcdefgh"
    abandoned.write_bytes(b"half of a")
    os.utime(abandoned, (0, 0))
    feed = Feed(run, seed=31)
    with run.streaming([]):
        worker = run.worker()
        feed.until(lambda: bool(learning_of(worker)), "a learning")
        (child,) = learning_of(worker)
        worker.kill()
        wait_for(lambda: not command_of(child), "the learning to end with its worker", [worker])

        run.restart(worker)
        feed.until(lambda: bool(learning_of(worker)), "a learning")
        os.kill(learning_of(worker)[0], signal.SIGKILL)
        wait_for(lambda: "could not be learned: exit status -9" in worker.log.read_text(), "the failure", [worker])
        worker.kill()  # it would try again in a minute
        run.restart(worker)

        feed.until(lambda: bool(logged(worker, TAKEN_UP)), "a form")  # logged before its first rows
        worker.kill()
        file = folder / FORM_FILE
        file.write_bytes(file.read_bytes()[:1000])
        taken_up = len(logged(worker, TAKEN_UP))
        run.restart(worker)
        wait_for(lambda: "a closed form is refused" in worker.log.read_text(), "the refusal", [worker])
        feed.until(lambda: len(logged(worker, TAKEN_UP)) > taken_up, "another form")
        feed.send(WINDOW)
        run.wait(total=feed.sent)
    run.stop()
    run.end()
    assert read_sealed_form(folder, Trust(require_manifest=True))
    assert sorted(path.name for path in folder.iterdir()) == [FORM_MANIFEST, FORM_FILE]
    assert versions_of(run)
    assert versions_of(run) <= set(logged(worker, TAKEN_UP))


def test_workers_that_share_a_repository_learn_for_one_another(
    kafka: Kafka, scenario: MakeScenario, tmp_path: Path
) -> None:
    run = learning(scenario, kafka.bootstrap_servers, "two workers learn, one killed", tmp_path, partitions=2)
    folder = tmp_path / "models" / MODEL
    feed = Feed(run, seed=32)
    with run.streaming([]):
        workers = [run.worker(number) for number in range(2)]

        def both_have_two() -> bool:
            return len(set(logged(workers[0], TAKEN_UP)) & set(logged(workers[1], TAKEN_UP))) > 1

        feed.until(both_have_two, "two forms that both use")
        feed.send(WINDOW)
        workers[0].kill()
        feed.send(WINDOW)
        run.wait(total=feed.sent)
    run.stop()
    run.end()  # rows that were published again are the same, or name another form
    placed = [each for worker in workers for each in logged(worker, PLACED)]
    assert len(placed) == len(set(placed))
    learned = {f"gaussian-{each}" for each in placed}
    for worker in workers:
        assert set(logged(worker, TAKEN_UP)) <= learned
    assert versions_of(run) <= learned
    assert sorted(path.name for path in folder.iterdir()) == [FORM_MANIFEST, FORM_FILE]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_holes_from_before_the_first_form_are_published_again_with_its_values(
    kafka: Kafka, scenario: MakeScenario, tmp_path: Path, delivery: str
) -> None:
    run = learning(scenario, kafka.bootstrap_servers, f"a first form, {delivery}", tmp_path, delivery=delivery)
    feed = Feed(run, seed=33)
    with run.streaming([]):
        worker = run.worker()
        feed.until(lambda: bool(logged(worker, TAKEN_UP)), "a form")
        # One step is a batch: after one of many steps, half of no window would be held.
        feed.until(lambda: bool(run.wait(total=feed.sent) and by_form(run)), "rows that are made again")
    run.stop()
    run.end()
    rows = upgraded(run)
    placed = {f"gaussian-{each}" for each in logged(worker, PLACED)}
    assert {row["model_version"] for row in by_form(run)} <= placed
    assert all(row["final"] and not row["observed"] and row["lower"] <= row["value"] <= row["upper"] for row in rows)
    keys = [(row["group"], row["sensor"], row["ts"]) for row in rows]
    assert len(set(keys)) == len(keys), "each once"


def upgraded(run: Scenario) -> list[dict[str, Any]]:
    """The rows of revision 2."""
    records = read_topic(run.settings, run.settings.output_topic)
    rows = [row for part in records.values() for each in part for row in read_rows(each.value).to_pylist()]
    return [row for row in rows if row["revision"] == UPGRADED]


def by_form(run: Scenario) -> list[dict[str, Any]]:
    """Those in which the form has a part: where a baseline had smaller errors, the row is made by it again."""
    return [row for row in upgraded(run) if row["method"] in ("gaussian", "blend")]
