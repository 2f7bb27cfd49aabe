"""Files as records of the input topic, with the keys, partitions and offsets of a producer."""

import asyncio
import json
from pathlib import Path

import pyarrow as pa
import pytest
from aiokafka.partitioner import DefaultPartitioner

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import plan_messages
from glaim_stream.feed.replay.files import Dealer, holds_messages, planned, raw_messages
from glaim_stream.feed.replay.run import Target, replay_messages
from glaim_stream.feed.sources import plant_source

CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 6, revise_after: 2, max_gap: 3, sensors: [{id: a}, {id: b}]}
groups: [{model: m, pattern: "g*"}]
"""


def arrow_stream(**columns: list[object]) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_records_get_the_partition_of_a_producer_and_consecutive_offsets() -> None:
    plan = plan_messages(plant_source(0.01, groups=5), InputFormat.STEP)
    dealt = list(Dealer(3, now_ms=7).deal(planned(plan), 11))
    records = [(partition, record) for partition, part, _ in dealt for record in part]
    assert len(records) == len(plan)
    assert {record.timestamp for _, record in records} == {7}
    assert [taken for _, _, taken in dealt][-1] == len(plan)
    for partition in range(3):
        offsets = [record.offset for number, record in records if number == partition]
        assert offsets == list(range(len(offsets)))
    assert len({partition for partition, _ in records}) > 1
    for partition, record in records:
        assert DefaultPartitioner()(record.key, [0, 1, 2], [0, 1, 2]) == partition


def test_each_line_is_a_message_with_its_group_as_key(tmp_path: Path) -> None:
    lines = [b'{"group": "g1", "sensor": "a"}', b"rubbish \xff", b'{"sensor": "a"}', b'{"group": 7}']
    path = tmp_path / "messages.jsonl"
    path.write_bytes(b"\n\n".join(lines) + b"\n")
    assert [(key, value) for key, value, _ in raw_messages(path)] == list(
        zip([b"g1", None, None, None], lines, strict=True)
    )


def test_a_file_may_contain_several_arrow_streams(tmp_path: Path) -> None:
    streams = [arrow_stream(group=["g1", "g1"], value=[1.0, 2.0]), arrow_stream(value=[3.0])]
    path = tmp_path / "messages.arrows"
    path.write_bytes(b"".join(streams))
    found = raw_messages(path)
    assert [(key, value) for key, value, _ in found] == [(b"g1", streams[0]), (None, streams[1])]
    assert all(dict(headers)["content-type"].endswith(b"arrow.stream") for _, _, headers in found)
    path.write_bytes(streams[0] + b"rubbish")
    with pytest.raises(SettingsError, match=rf"found none at byte {len(streams[0])}"):
        raw_messages(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.jsonl", None, "cannot be read: No such file"),
        ("empty.jsonl", b"\n \n", "expected messages, found none"),
        ("other.txt", b"x", "expected a name ending in .jsonl, .ndjson, .arrows"),
    ],
)
def test_a_file_without_messages_is_rejected(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        raw_messages(path)


def test_rows_of_the_output_topic_are_no_messages(tmp_path: Path) -> None:
    row = {"group": "g1", "sensor": "a", "ts": 5, "value": 1.0, "observed": False, "method": "gaussian"}
    reading = {"group": "g1", "sensor": "a", "ts": 5, "value": 1.0}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(reading)}\n{json.dumps(row)}\n")
    (tmp_path / "rows.arrows").write_bytes(arrow_stream(**{name: [each] for name, each in row.items()}))
    for name in ("rows.jsonl", "rows.arrows"):
        with pytest.raises(SettingsError, match="found filled rows"):
            raw_messages(tmp_path / name)


def test_a_replay_writes_all_rows_and_rejects_of_raw_messages(tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    start_ms = 1_700_000_000_000 // 60_000 * 60_000
    messages = [
        (b"g1", json.dumps({"group": "g1", "sensor": "a", "ts": start_ms + 60_000 * n, "value": n}).encode(), ())
        for n in range(6)
        if n != 2
    ]
    messages += [(None, b"\xff", ()), (b"x", b'{"group": "x", "sensor": "a", "ts": 1, "value": 1}', ())]
    settings = Settings(catalogue=tmp_path / "groups.yaml", model_repository=tmp_path, imputer="interpolation")
    target = Target("file", str(tmp_path / "rows.arrow"), rejects=tmp_path / "rejects.jsonl")
    progress: list[tuple[int, int]] = []
    report = asyncio.run(
        replay_messages(
            settings,
            iter(messages),
            partitions=1,
            total=len(messages),
            target=target,
            on_progress=lambda done, total: progress.append((done, total)),
        )
    )
    assert progress[-1] == (7, 7)
    assert (report.counts.records, report.counts.readings) == (7, 5)
    assert dict(report.counts.rejects) == {"undecodable": 1, "unknown-group": 1}
    assert report.failures == {}
    with pa.OSFile(str(target.where)) as file:
        rows = pa.ipc.open_file(file).read_all().to_pylist()
    assert len(rows) == report.counts.rows
    filled = {row["revision"]: row["value"] for row in rows if row["sensor"] == "a" and row["method"] != "observed"}
    assert filled == {0: 1.0, 1: 2.0}, "first the last value, finally the line between both neighbours"
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(each["cause"], each["offset"]) for each in rejects] == [("undecodable", "5"), ("unknown-group", "6")]
    assert rejects[0]["value_hex"] == "ff"
    assert list(tmp_path.glob("*.partial")) == []


def test_the_open_steps_of_a_file_are_published_only_with_close(tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    settings = Settings(catalogue=tmp_path / "groups.yaml", model_repository=tmp_path, imputer="interpolation")
    start_ms = 1_700_000_000_000 // 60_000 * 60_000
    value = json.dumps({"group": "g1", "sensor": "a", "ts": start_ms, "value": 1}).encode()
    rows = []
    for close in (True, False):
        target = Target("file", str(tmp_path / f"{close}.arrow"))
        report = asyncio.run(
            replay_messages(settings, iter([(b"g1", value, ())]), partitions=2, total=1, target=target, close=close)
        )
        rows.append(report.counts.rows)
    assert rows == [2, 0]


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        (['{"time": "2026-01-01T00:00:00Z", "flow": 1.5}', '{"time": "2026-01-01T00:01:00Z", "flow": null}'], False),
        (['{"tag": "flow", "time": 5, "value": 1.5}'], False),
        (['{"group": "g", "ts": 5, "values": {"flow": 1.5}}'], True),
        (['{"group": "g", "readings": []}'], True),
        (['{"flow": 1.5}', '{"group": "g", "sensor": "flow", "ts": 5, "value": 1.5}'], True),
        (["rubbish"], True),
        (["rubbish", '{"time": 5, "flow": 1.5}'], False),
    ],
)
def test_json_lines_are_a_table_where_none_has_the_names_of_a_message(
    tmp_path: Path, lines: list[str], messages: bool
) -> None:
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    assert holds_messages(tmp_path / "x.jsonl") == messages
