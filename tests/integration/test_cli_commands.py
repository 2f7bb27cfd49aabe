"""The commands produce, worker, tail and audit in sequence on a real broker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import read_settings
from glaim_stream.feed.plant import SENSORS
from glaim_stream.operate.audit import audit
from tests.command_line import call

GLAIM = [sys.executable, "-m", "glaim_stream"]


@pytest.fixture
def environment(kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path) -> dict[str, str]:
    sensors = "".join(
        f"      - {{id: {sensor.id}, min: {sensor.minimum}, max: {sensor.maximum}}}\n" for sensor in SENSORS
    )
    catalogue = tmp_path / "groups.yaml"
    catalogue.write_text(
        "models:\n  - name: pump\n    step_s: 60\n    idle_timeout_s: 600\n    sensors:\n"
        f"{sensors}groups:\n  - {{model: pump, pattern: 'pump-*'}}\n"
    )
    return {
        "GLAIM_KAFKA": kafka.bootstrap_servers,
        "GLAIM_CATALOGUE": str(catalogue),
        "GLAIM_MODEL_REPOSITORY": str(tmp_path),
        "GLAIM_INPUT_TOPIC": topic_prefix + "in",
        "GLAIM_OUTPUT_TOPIC": topic_prefix + "out",
        "GLAIM_CONSUMER_GROUP": topic_prefix + "group",
        "GLAIM_METRICS_PORT": "0",
        "GLAIM_PARTITIONS": "2",
    }


def glaim(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command inside this process; worker and one tail run in processes of their own."""
    return call(*arguments, environment={**os.environ, **environment})


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    command = [*GLAIM, "worker", "--imputer", "interpolation", "--log-level", "warning"]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    try:
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)
    finally:
        process.kill()
        process.wait()


def test_produced_readings_are_filled_shown_and_audited(environment: dict[str, str], tmp_path: Path) -> None:
    hidden, out, report = tmp_path / "hidden.parquet", tmp_path / "out.parquet", tmp_path / "audit.json"
    plant = ["produce", "--plant", "--groups", "4", "--days", "0.2", "--drop", "0.1"]
    sent = glaim(environment, *plant, "--hidden", str(hidden))
    assert sent.returncode == 0, sent.stderr
    assert "8294 readings of 4 groups in 8294 messages" in sent.stdout
    with worker(environment):
        audited = glaim(environment, "audit", "--wait", "60", "--json", str(report))
        assert audited.returncode == 0, audited.stdout + audited.stderr
    found = json.loads(report.read_text())
    assert (found["clean"], found["lost"], found["counts"]["readings"]) == (True, 0, 8294)
    assert found["counts"]["found"] + found["counts"]["open"] == 8294
    assert found["counts"]["pending"] == 0
    require_stretches_are_audited(environment, found)

    shown = glaim(environment, "tail", "--from-beginning", "--only-imputed", "--limit", "3", "--timeout", "5")
    assert len(shown.stdout.splitlines()) == 4, shown.stdout + shown.stderr
    lines = glaim(environment, "tail", "--from-beginning", "--limit", "3", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["observed"] in (True, False) for line in lines] == [True] * 3
    written = glaim(environment, "tail", "--from-beginning", "--timeout", "2", "--newest-only", "--out", str(out))
    assert written.returncode == 0, written.stderr
    table = pq.read_table(out)
    keys = table.group_by(["group", "sensor", "ts"]).aggregate([([], "count_all")])
    assert keys.num_rows == table.num_rows
    # Every withheld reading of a closed step is filled.
    truth = pq.read_table(hidden, columns=["group", "sensor", "ts", "value"])
    joined = truth.rename_columns(["group", "sensor", "ts", "truth"]).join(
        table, ["group", "sensor", "ts"], join_type="inner"
    )
    assert joined.num_rows > 0.95 * truth.num_rows
    assert not pc.any(joined["observed"]).as_py()

    # A tail stopped by SIGTERM leaves a complete file.
    command = [*GLAIM, "tail", "--from-beginning", "--all-revisions", "--out", str(tmp_path / "out.csv")]
    with subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "out.csv.partial").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        assert process.wait(30) == 130
    assert (tmp_path / "out.csv").read_text().startswith('"group"')

    # Audit again from Python, with a foreign output message and an unanswered input record.
    settings = read_settings(**{name[6:].lower(): value for name, value in environment.items()})
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    producer.send(settings.output_topic, value=b"hello", partition=0).get(10)
    producer.send(settings.input_topic, value=b"{", partition=0).get(10)
    producer.close()
    damaged = audit(settings)
    assert damaged.problems["unreadable_output"].count == 1
    assert damaged.lost == 0  # rejected input after the last commit is pending
    with pytest.raises(SettingsError, match=f"found '{settings.consumer_group}x'; did you mean .*known: .*group"):
        audit(settings.model_copy(update={"consumer_group": settings.consumer_group + "x"}))
    require_names_are_known(environment)


def require_stretches_are_audited(environment: dict[str, str], whole: dict[str, Any]) -> None:
    """`--since` and `--until` judge input and output of a stretch; where nothing lies in it, that is an error."""
    rows = glaim(environment, "tail", "--from-beginning", "--timeout", "2", "--format", "jsonl")
    moments = sorted({json.loads(line)["ts"] for line in rows.stdout.splitlines()})
    middle = moments[len(moments) // 2]
    counted = []
    for flag in ("--since", "--until"):
        report = Path(environment["GLAIM_MODEL_REPOSITORY"]) / f"{flag}.json"
        done = glaim(environment, "audit", flag, middle, "--json", str(report))
        assert done.returncode == 0, done.stdout + done.stderr
        counted.append(json.loads(report.read_text())["counts"])
    for name in ("readings", "keys", "found", "rows"):
        parts = [each[name] for each in counted]
        assert sum(parts) == whole["counts"][name], name
        assert min(parts) > 0.4 * whole["counts"][name], name
    empty = glaim(environment, "audit", "--until", "2001-01-01T00:00:00Z")
    assert empty.returncode == 2
    assert "expected readings whose time lies until 2001-01-01T00:00:00Z, found readings up to 20" in empty.stderr
    elsewhere = glaim(environment, "audit", "--temp-folder", "/nowhere")
    assert elsewhere.returncode == 2
    assert "expected a folder for temporary files in /nowhere" in elsewhere.stderr


def require_names_are_known(environment: dict[str, str]) -> None:
    """An unknown name ends each command with the known ones; patterns, ages and offsets choose rows."""

    def tail(*arguments: str) -> subprocess.CompletedProcess[str]:
        return glaim(environment, "tail", *arguments)

    for flag, name, near in (("--group", "pmup-1", "pump-1"), ("--sensor", "flwo", "flow"), ("--group", "fan-*", "")):
        done = tail(flag, name, "--timeout", "2")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"found '{name}'" in done.stderr
        assert f"did you mean {near}" in done.stderr if near else "did you mean" not in done.stderr
        assert "known: " in done.stderr
    for arguments, groups in (
        (["--group", "pump-[12]", "--from-beginning"], {"pump-1", "pump-2"}),
        (["--group", "pump-1", "--since", "1h"], {"pump-1"}),
        (["--group", "pump-*", "--from-offset", "0", "--sensor", "fl*"], {f"pump-{number}" for number in range(1, 5)}),
    ):
        rows = [
            json.loads(line) for line in tail(*arguments, "--timeout", "2", "--format", "jsonl").stdout.splitlines()
        ]
        assert {row["group"] for row in rows} == groups
    one = tail("--partition", "1", "--from-beginning", "--timeout", "2", "--format", "jsonl").stdout.splitlines()
    both = tail("--from-beginning", "--timeout", "2", "--format", "jsonl").stdout.splitlines()
    assert 0 < len(one) < len(both)
    nothing = tail("--timeout", "0.5")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "expected rows, found none within 0.5 s" in nothing.stderr
    for arguments, problem in (
        (["--from-offset", "99999999"], "up to "),
        (["--partition", "7"], "has the partitions [0, 1], not [7]"),
        (["--since", "yesterday"], "how long ago"),
        (["--output-topic", environment["GLAIM_OUTPUT_TOPIC"] + "s"], "did you mean"),
    ):
        done = tail(*arguments, "--timeout", "1")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert problem in done.stderr


def test_an_absent_topic_is_reported(environment: dict[str, str]) -> None:
    absent = {**environment, "GLAIM_OUTPUT_TOPIC": "absent", "GLAIM_INPUT_TOPIC": "absent"}
    for command in (["tail", "--timeout", "1"], ["audit"]):
        done = glaim(absent, *command)
        assert done.returncode == 2
        assert f"there is no topic 'absent' at {environment['GLAIM_KAFKA']} yet; known: " in done.stderr
    # `tail` has waited for it.
    waited = "there is no topic 'absent' yet; waiting 1 s for a worker to create it\n"
    assert glaim(absent, "tail", "--timeout", "1").stderr.startswith(waited)


def test_tail_waits_for_the_topic_of_a_worker_that_has_only_just_started(
    environment: dict[str, str], topic_prefix: str
) -> None:
    late = {**environment, "GLAIM_OUTPUT_TOPIC": f"{topic_prefix}later"}
    tail = subprocess.Popen(
        [sys.executable, "-m", "glaim_stream", "tail", "--timeout", "20"],
        env=os.environ | late, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert tail.stderr is not None
    assert "waiting 20 s" in tail.stderr.readline()
    admin = KafkaAdminClient(bootstrap_servers=environment["GLAIM_KAFKA"])
    admin.create_topics([NewTopic(late["GLAIM_OUTPUT_TOPIC"], 1, 1)])
    admin.close()
    time.sleep(3)
    assert tail.poll() is None
    tail.send_signal(signal.SIGTERM)
    _, rest = tail.communicate(timeout=30)
    assert "there is no topic" not in rest
