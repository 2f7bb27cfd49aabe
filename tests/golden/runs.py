"""Run glaim-stream on the frozen input and read its output.

Only the command line, the settings of the environment, Kafka and the file formats are used: glaim_stream is never
imported, so that its modules may move.
"""

import atexit
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError

from tests.constants import SCORE_LEAST, program

FOLDER = Path(__file__).parent
MODEL_REPOSITORY = FOLDER.parents[1] / "model_repo"
CATALOGUE = FOLDER / "groups.yaml"
IMPUTERS = ("triton", "interpolation")
TOPIC = "topic"  # folder of the frozen output for the records in a topic
PARTITIONS = 4  # of the topic
_DEADLINE_S = 400  # per run; generous, because the machine may be busy
# With a fixed batch of the size that Triton serves, answers do not depend on other requests at the same time.
_TRITON_SETTINGS = {"triton_batch": 256, "triton_fixed_batch": True, "triton_deadline_s": 120}
_CONSTANTS = {SCORE_LEAST: 2}
_PREFIX = "glaim-"  # of the headers that the worker adds


@dataclass(frozen=True)
class FileRun:
    """A file of the input and its replay settings; the folder of its output has the same name."""

    name: str
    file: str
    partitions: int
    poll_records: int  # so that state is carried from batch to batch


FILE_RUNS = (FileRun("jsonl", "input.jsonl", 4, 1300), FileRun("arrows", "input.arrows", 2, 60))


@dataclass(frozen=True)
class Output:
    """Everything that a run published: rows, rejected readings, outage events."""

    rows: pa.Table
    rejects: Sequence[Mapping[str, Any]]
    outages: Sequence[Mapping[str, Any]]


# Settings ------------------------------------------------------------------------------------------------------------


def environment(**settings: object) -> dict[str, str]:
    """This process's environment with these GLAIM_ settings and no others."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("GLAIM_")}
    given = {"catalogue": CATALOGUE, "model_repository": MODEL_REPOSITORY, **settings}
    return bare | {f"GLAIM_{name.upper()}": str(value) for name, value in given.items()}


def extra_of(poll_records: int) -> str:
    """The option of the Kafka client for polls of this many records."""
    return json.dumps({"max_poll_records": poll_records})


def resolutions() -> dict[str, float]:
    """The resolution of each sensor: the catalogue's, or else the contract's."""
    steps: dict[str, float] = {}
    for model in yaml.safe_load(CATALOGUE.read_text())["models"]:
        contract = _contract(model["name"])
        contract_resolution = {sensor["id"]: sensor["resolution"] for sensor in contract["sensors"]}
        steps |= {
            sensor["id"]: sensor.get("resolution", contract_resolution[sensor["id"]]) for sensor in model["sensors"]
        }
    return steps


def model_digests() -> dict[str, str]:
    """The digests of the catalogue's models, and of the files of their closed forms."""
    names = [model["name"] for model in yaml.safe_load(CATALOGUE.read_text())["models"]]
    networks = {name: _contract(name)["torchscript_sha256"] for name in names}
    forms = {f"{name}/gaussian": _array_digest(MODEL_REPOSITORY / name / "gaussian.npz") for name in names}
    return networks | forms


def _array_digest(file: Path) -> str:
    """The digest of a closed form: of its arrays, without the habits of the sensors, which change no row."""
    found = hashlib.sha256()
    with np.load(file, allow_pickle=False) as arrays:
        for name in sorted(arrays):
            if name != "digest" and not name.startswith("health."):
                found.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
                found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def _contract(model: str) -> dict[str, Any]:
    contract: dict[str, Any] = json.loads((MODEL_REPOSITORY / model / "contract.json").read_text())
    return contract


def processor() -> str:
    """Name and vector instructions of the processor; the last bits of a network's answers may depend on them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE) or [platform.machine()]
    flags = (re.findall(r"^flags\s*: (.*)$", text, re.MULTILINE) or [""])[0].split()
    return " ".join([names[0], *sorted(flag for flag in flags if re.match("avx|amx|fma", flag))])


# Files ---------------------------------------------------------------------------------------------------------------


def rows_file(folder: Path, imputer: str) -> Path:
    """The file of the rows that an imputer filled."""
    return folder / f"rows-{imputer}.parquet"


def frozen(name: str, imputer: str) -> Output:
    """The frozen output of a run."""
    folder = FOLDER / name
    return Output(
        _without_file_metadata(pq.read_table(rows_file(folder, imputer))),
        _documents(folder / "rejects.jsonl"),
        _documents(folder / "outages.jsonl"),
    )


def replay_file(run: FileRun, imputer: str, folder: Path, *, triton: str | None = None) -> Output:
    """Replay one of the frozen files through `glaim-stream replay`."""
    given = environment(imputer=imputer, kafka_extra=extra_of(run.poll_records), **_imputer_settings(imputer, triton))
    output = _replay(given, folder, str(inputs() / run.file), "--partitions", str(run.partitions))
    # Messages of a file carry the time of the replay.
    rejects = [{name: text for name, text in each.items() if name != "timestamp-ms"} for each in output.rejects]
    return Output(output.rows, rejects, output.outages)


@lru_cache(maxsize=1)
def inputs() -> Path:
    """The folder of the three inputs, made anew by this process."""
    from tests.golden.make import write_input  # it freezes the output with the functions of this module

    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_input(folder)
    return folder


def input_digests() -> dict[str, str]:
    """The SHA-256 of each input, of the topic's that of its records, because Parquet names its writer's version."""
    contents = {name: (inputs() / name).read_bytes() for name in ("input.jsonl", "input.arrows")}
    contents[TOPIC] = repr(_frozen_records()).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def _imputer_settings(imputer: str, triton: str | None) -> dict[str, object]:
    return {"triton": triton, **_TRITON_SETTINGS} if imputer == "triton" else {}


def _replay(given: dict[str, str], folder: Path, *arguments: str) -> Output:
    folder.mkdir(parents=True, exist_ok=True)
    rows, rejects, outages = (folder / name for name in ("rows.parquet", "rejects.jsonl", "outages.jsonl"))
    files = ["--out", str(rows), "--all-revisions", "--rejects", str(rejects), "--outages", str(outages)]
    done = subprocess.run(
        [sys.executable, *program(_CONSTANTS), "replay", *arguments, *files],
        env=given, capture_output=True, text=True, check=False, timeout=_DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return Output(_without_file_metadata(pq.read_table(rows)), _documents(rejects), _documents(outages))


def _without_file_metadata(table: pa.Table) -> pa.Table:
    kept = {name: value for name, value in (table.schema.metadata or {}).items() if name.startswith(b"glaim")}
    return table.replace_schema_metadata(kept)


def _documents(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# The topic -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Topic:
    """An input topic for the frozen records, with its output topics."""

    kafka: str  # bootstrap servers
    prefix: str  # of the names of topics and consumer group
    imputer: str
    triton: str | None = None  # gRPC address

    def send(self) -> None:
        """Create all topics, and send each record to its partition with its original time."""
        _send(self.kafka, self._names, _frozen_records())

    def work(self, log: Path) -> Output:
        """Run a worker over all records and return what it publishes."""
        sent = _frozen_records()
        _work(self._environment, self.kafka, self._consumer_group, self._names["in"], len(sent), log)
        return _published(self.kafka, self._names, sent)

    def replay(self, folder: Path) -> Output:
        """Run `glaim-stream replay` on the topic and return its output."""
        output = _replay(self._environment, folder)
        return Output(output.rows, [_without_topic(each) for each in output.rejects], output.outages)

    @property
    def _names(self) -> dict[str, str]:
        return {name: self.prefix + name for name in ("in", "out", "dlq", "late", "outages")}

    @property
    def _consumer_group(self) -> str:
        return self.prefix + "worker"

    @property
    def _environment(self) -> dict[str, str]:
        names = self._names
        return environment(
            kafka=self.kafka,
            input_topic=names["in"],
            output_topic=names["out"],
            topic_names=json.dumps({"dead_letters": names["dlq"], "late": names["late"], "outages": names["outages"]}),
            consumer_group=self._consumer_group,
            imputer=self.imputer,
            kafka_extra=extra_of(700),
            metrics_port=0,
            **_imputer_settings(self.imputer, self.triton),
        )


def _frozen_records() -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = pq.read_table(inputs() / "topic.parquet").to_pylist()
    return sent


def _send(kafka: str, topics: Mapping[str, str], sent: Sequence[Mapping[str, Any]]) -> None:
    record_time = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=record_time) for topic in topics.values()])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka, linger_ms=20)
    futures = [
        producer.send(
            topics["in"], partition=each["partition"], key=each["key"], value=each["value"],
            timestamp_ms=each["timestamp_ms"], headers=[(name["name"], name["value"]) for name in each["headers"]],
        )
        for each in sent
    ]  # fmt: skip
    producer.flush()
    for future in futures:
        future.get(timeout=30)
    producer.close()


def _work(given: dict[str, str], kafka: str, group: str, topic: str, records: int, log: Path) -> None:
    """Run a worker until it has committed this many records."""
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    with log.open("wb") as file:
        worker = subprocess.Popen(
            [sys.executable, *program(_CONSTANTS), "worker"], env=given, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        end_s = time.monotonic() + _DEADLINE_S
        while (done := _committed(admin, group, topic)) < records:
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < end_s, f"{done} of {records} records committed; {log.read_text()}"
            time.sleep(0.2)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
        admin.close()


def _committed(admin: KafkaAdminClient, group: str, topic: str) -> int:
    try:
        commits = admin.list_group_offsets(group).get(group, {})
    except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
        return 0  # the broker is still creating the topic that holds the commits
    return sum(max(0, commit.offset) for partition, commit in commits.items() if partition.topic == topic)


def _published(kafka: str, topics: Mapping[str, str], sent: Sequence[Mapping[str, Any]]) -> Output:
    """The content of a worker's output topics, in the form of a replay's files."""
    partition_of = {each["key"]: each["partition"] for each in sent}
    tables = []
    for record in _read(kafka, topics["out"]):
        headers = dict(record.headers)
        assert headers["content-type"] == b"application/vnd.apache.arrow.stream"
        table = _plain(pa.ipc.open_stream(record.value).read_all())
        groups = set(table["group"].to_pylist())
        assert {partition_of[group.encode()] for group in groups} == {record.partition}, (
            "rows must stay in the partition of their group"
        )
        assert headers["glaim-input-partition"] == str(record.partition).encode()
        tables.append(table)
    letters = [
        (record, record.topic == topics["late"]) for name in ("dlq", "late") for record in _read(kafka, topics[name])
    ]
    outages = []
    for record in _read(kafka, topics["outages"]):
        document = json.loads(record.value)
        assert (record.key, record.partition) == (document["group"].encode(), partition_of[record.key])
        outages.append(document)
    originals = _by_position(sent)
    return Output(pa.concat_tables(tables), [_reject(*each, topics["in"], originals) for each in letters], outages)


def _read(kafka: str, topic: str) -> list[ConsumerRecord]:
    consumer = KafkaConsumer(bootstrap_servers=kafka, enable_auto_commit=False)
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        records: list[ConsumerRecord] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for part in consumer.poll(1000).values():
                records += part
        return sorted(records, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def _plain(table: pa.Table) -> pa.Table:
    """The table with names as strings instead of dictionaries, as in files."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _by_position(sent: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], Mapping[str, Any]]:
    records: dict[tuple[int, int], Mapping[str, Any]] = {}
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for each in sent:
        records[each["partition"], ends[each["partition"]]] = each
        ends[each["partition"]] += 1
    return records


def _reject(
    letter: ConsumerRecord, late: bool, topic: str, originals: Mapping[tuple[int, int], Mapping[str, Any]]
) -> dict[str, Any]:
    """A dead letter as a line of `replay --rejects`; checks that key, value and headers equal the original's."""
    metadata = {name.removeprefix(_PREFIX): text.decode() for name, text in letter.headers if name.startswith(_PREFIX)}
    original = originals[int(metadata["partition"]), int(metadata["offset"])]
    original_headers = [
        (each["name"], each["value"]) for each in original["headers"] if not each["name"].startswith(_PREFIX)
    ]
    assert (letter.key, letter.value) == (original["key"], original["value"])
    assert [header for header in letter.headers if not header[0].startswith(_PREFIX)] == original_headers
    assert metadata["timestamp-ms"] == str(original["timestamp_ms"])
    assert metadata["topic"] == topic
    assert late == (metadata["cause"] == "too-late")
    try:
        value = {"value": None if letter.value is None else letter.value.decode()}
    except UnicodeDecodeError:
        value = {"value_hex": letter.value.hex()}
    return _without_topic(metadata | value)


def _without_topic(reject: Mapping[str, Any]) -> dict[str, Any]:
    """The reject without the topic name, which differs from run to run."""
    return {name: text for name, text in reject.items() if name != "topic"}
