"""The output for a frozen input has not changed: rows, cells, rejected readings and outages.

`tests/golden/make.py` made the input, and the output from the code at that time. These tests repeat the runs through
the command line and compare by key: the same number of rows, and every column equal. TorchScript made the values of the
network. The last bits of answers differ between it and the kernel, and between processors, and may change a rounding:
values and intervals of the methods `model`, `blend` and `gaussian` may differ by one step of the sensor's resolution,
and nothing else may differ.

Revision 2, a final made again after an outage of Triton, does not occur, because an outage is not in the input.
"""

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import ExternalTriton, LocalTriton
from tests.golden.compare import FLOATS, differences, sorted_rows
from tests.golden.runs import (
    FILE_RUNS,
    FOLDER,
    IMPUTERS,
    TOPIC,
    FileRun,
    Output,
    Topic,
    frozen,
    input_digests,
    inputs,
    model_digests,
    replay_file,
    resolutions,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MADE = json.loads((FOLDER / "made.json").read_text())
RUNS = [*(run.name for run in FILE_RUNS), TOPIC]
for_each_file = pytest.mark.parametrize("run", FILE_RUNS, ids=lambda run: run.name)


def assert_frozen(found: Output, name: str, imputer: str) -> None:
    """Assert that the output equals the frozen one."""
    tolerances = resolutions() if imputer == "triton" else None  # interpolation gives the same bits everywhere
    problems = differences(found, frozen(name, imputer), tolerances)
    assert not problems, "\n".join(problems)


@for_each_file
def test_a_file_filled_by_interpolation_gives_the_frozen_rows(run: FileRun, tmp_path: Path) -> None:
    assert_frozen(replay_file(run, "interpolation", tmp_path), run.name, "interpolation")


@for_each_file
def test_a_file_filled_by_the_models_gives_the_frozen_rows(
    run: FileRun, triton: LocalTriton | ExternalTriton, tmp_path: Path
) -> None:
    assert model_digests() == MADE["models"], "the models have changed: regenerate the frozen output"
    assert_frozen(replay_file(run, "triton", tmp_path, triton=triton.grpc_url), run.name, "triton")


def test_a_topic_filled_by_interpolation_gives_the_frozen_rows_in_worker_and_replay(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    topic = Topic(kafka.bootstrap_servers, topic_prefix, "interpolation")
    topic.send()
    assert_frozen(topic.work(tmp_path / "worker.log"), TOPIC, "interpolation")
    assert_frozen(topic.replay(tmp_path), TOPIC, "interpolation")


def test_a_topic_filled_by_the_models_gives_the_frozen_rows(
    kafka: LocalKafka | ExternalKafka, triton: LocalTriton | ExternalTriton, topic_prefix: str, tmp_path: Path
) -> None:
    assert model_digests() == MADE["models"], "the models have changed: regenerate the frozen output"
    topic = Topic(kafka.bootstrap_servers, topic_prefix, "triton", triton.grpc_url)
    topic.send()
    assert_frozen(topic.work(tmp_path / "worker.log"), TOPIC, "triton")


# The frozen output covers all kinds of rows --------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_the_frozen_output_has_rows_of_every_kind(name: str) -> None:
    rows = frozen(name, "triton").rows
    methods = Counter(rows["method"].to_pylist())
    assert methods.keys() == {"observed", "model", "gaussian", "blend", "interpolation", "last_value", "none"}
    assert min(methods.values()) > 100
    assert set(rows["quality"].to_pylist()) == {"good", "uncertain", "bad"}
    assert {f"{code:#010x}" for code in rows["status"].to_pylist()} == {
        "0x00000000", "0x40000000", "0x40900000", "0x40910000", "0x80310000", "0x808c0000", "0x809b0000", "0x80d60000",
        *(["0x40930000"] if name == "arrows" else []),  # two of these readings stand apart from their windows
    }  # fmt: skip
    assert {0, 1, 3, 4, 5} <= set(rows["revision"].to_pylist())
    assert set(rows["final"].to_pylist()) == {True, False}
    by_model = Counter(rows.filter(pc.equal(rows["method"], "model"))["sensor"].to_pylist())
    assert {"flow", "speed", "PM2.5", "TEMP"} <= by_model.keys(), "both models must have filled rows"
    slow = rows.filter(pc.equal(rows["sensor"], "vibration"))
    assert set(pc.divide(slow["ts"].cast(pa.int64()), 60_000).to_numpy() % 5) == {4}
    observed = rows.filter(rows["observed"])
    assert not pc.equal(observed["event_time"], observed["ts"]).to_numpy().all(), "some readings must lie inside a step"
    by_interpolation = set(frozen(name, "interpolation").rows["method"].to_pylist())
    assert by_interpolation == methods.keys() - {"model", "gaussian", "blend"}


@pytest.mark.parametrize("name", RUNS)
def test_the_frozen_output_has_rejects_and_outages_of_every_kind(name: str) -> None:
    output = frozen(name, "triton")
    assert {reject["cause"] for reject in output.rejects} == {
        "undecodable", "malformed", "unknown-group", "unknown-sensor", "bad-time", "future", "out-of-limits",
        "too-late", *(["ts-unit"] if name != "arrows" else []),  # the times of these Arrow messages state their unit
    }  # fmt: skip
    kinds = Counter((event["kind"], event["last_ts"] is None) for event in output.outages)
    assert kinds.keys() == {("speaks", True), ("dark", False), ("speaks", False)}, "a group appears, goes dark, returns"
    assert {event["model"] for event in output.outages} == {"plant-pump", "beijing-air"}


def test_the_input_is_that_of_the_frozen_output() -> None:
    assert input_digests() == MADE["input"]


def test_the_frozen_records_use_all_partitions_and_some_are_stamped_ahead() -> None:
    records = pq.read_table(inputs() / "topic.parquet").to_pylist()
    assert min(Counter(record["partition"] for record in records).values()) > 100
    assert {record["partition"] for record in records} == {0, 1, 2, 3}
    stamped = re.compile(rb'{"group":"[^"]*","sensor":"[^"]*","ts":([0-9]{13}),')
    singles = [(stamped.match(record["value"] or b""), record["timestamp_ms"]) for record in records]
    ahead_ms = [int(found[1]) - produced_ms for found, produced_ms in singles if found]
    assert {100_000, 239_999, 240_000, 240_001} <= set(ahead_ms), "the catalogue allows 240 s"
    assert any(record["value"] is None for record in records)


# The comparison detects differences ----------------------------------------------------------------------------------


def test_the_frozen_output_equals_itself_in_any_order() -> None:
    output = frozen("arrows", "triton")
    shuffled = output.rows.take(np.random.default_rng(1).permutation(len(output.rows)))
    assert differences(Output(shuffled, output.rejects[::-1], output.outages), output) == []


def changed(rows: pa.Table, name: str, row: int, cell: object) -> pa.Table:
    """A copy with one cell replaced."""
    column = rows[name].combine_chunks()
    cells = pa.chunked_array([column.slice(0, row), pa.array([cell], column.type), column.slice(row + 1)])
    return rows.set_column(rows.column_names.index(name), rows.field(name), cells)


def smallest_change(cell: Any) -> Any:
    """The cell with the smallest possible change."""
    if isinstance(cell, float):
        return np.nextafter(cell, np.inf).item()
    if isinstance(cell, datetime):
        return cell + timedelta(milliseconds=1)
    return cell + "x" if isinstance(cell, str) else type(cell)(cell + 1) if cell is not True else False


def test_one_changed_cell_is_detected_in_every_column() -> None:
    output = frozen("arrows", "triton")
    rows = sorted_rows(output.rows)
    for name in rows.column_names:
        interval = name in ("lower", "upper")
        row = rows["method"].to_pylist().index("model" if interval else "observed", 1000)
        cell = rows[name][row].as_py()
        wrong = replace(output, rows=changed(rows, name, row, smallest_change(cell)))
        assert differences(wrong, output), name
        assert interval or differences(wrong, output, resolutions()), name
        if rows.field(name).nullable:
            wrong = replace(output, rows=changed(rows, name, row, None))
            assert differences(wrong, output, resolutions()), name


def test_an_extra_missing_or_duplicate_row_is_detected() -> None:
    output = frozen("arrows", "interpolation")
    rows = output.rows
    for wrong in (rows.slice(1), rows.slice(0, len(rows) - 1), pa.concat_tables([rows, rows.slice(5, 1)])):
        assert differences(replace(output, rows=wrong), output)
        assert differences(output, replace(output, rows=wrong))


def test_another_column_type_or_schema_version_is_detected() -> None:
    output = frozen("arrows", "interpolation")
    narrower = output.rows.set_column(4, "value", output.rows["value"].cast(pa.float32(), safe=False))
    earlier = output.rows.replace_schema_metadata({"glaim-schema-version": "2"})
    for wrong in (narrower, earlier, output.rows.drop_columns(["upper"])):
        assert differences(replace(output, rows=wrong), output)


def test_a_computed_value_may_differ_by_at_most_one_allowed_step() -> None:
    output = frozen("arrows", "triton")
    rows, tolerances = sorted_rows(output.rows), resolutions()
    computed, exact = ("model", "blend", "gaussian"), ("interpolation", "observed")
    for method, allowed in (*((each, True) for each in computed), *((each, False) for each in exact)):
        row = rows["method"].to_pylist().index(method)
        step = tolerances[rows["sensor"][row].as_py()]
        for name in FLOATS if allowed else ["value"]:
            cell = rows[name][row].as_py()
            near, far = (replace(output, rows=changed(rows, name, row, cell + steps * step)) for steps in (1, 2.5))
            assert bool(differences(near, output, tolerances)) != allowed
            assert differences(far, output, tolerances)
            assert differences(near, output)


@pytest.mark.parametrize("imputer", IMPUTERS)
@pytest.mark.parametrize("name", RUNS)
def test_a_changed_reject_or_outage_is_detected(name: str, imputer: str) -> None:
    output = frozen(name, imputer)
    for rejects in (output.rejects[1:], [*output.rejects, output.rejects[0]], [{**output.rejects[0], "offset": "x"}]):
        assert differences(replace(output, rejects=rejects), output)
    for outages in (output.outages[1:], [{**output.outages[0], "by_clock": True}, *output.outages[1:]]):
        assert differences(replace(output, outages=outages), output)
    assert differences(replace(output, outages=output.outages[::-1]), output), "the order of a group's outages counts"
