"""The queries of docs/completeness.md give the figures of the report, from the counters that the pipeline keeps.

tests/monitoring/test_completeness_live.py asks all of them of a real Prometheus.
"""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.output import SCHEMA
from tests.command_line import call
from tests.operate.completeness.topic_rows import START_MS, sums_of_messages

PAGE = Path(__file__).parents[3] / "docs" / "completeness.md"
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 16, revise_after: 3, max_gap: 6, lateness_s: 60, sensors: [{id: flow}, {id: temp}]}
groups: [{model: m, pattern: "p*"}]
"""
QUERY = re.compile(r'sum\(increase\((glaim_\w+)(?:\{method="(\w+)"\})?\[1d\]\)\)')


def query(name: str) -> str:
    (found,) = re.findall(rf"^\| {name} \| `(.*)` \|$", PAGE.read_text(), re.MULTILINE)
    return found


def test_every_metric_of_the_page_is_one_of_the_worker() -> None:
    assert metrics.rows is not None
    known = {
        sample
        for each in REGISTRY.collect()
        for sample in (each.name, f"{each.name}_total", f"{each.name}_sum", f"{each.name}_count")
    }
    named = set(re.findall(r"glaim_\w+", "".join(re.findall(r"\| `(.*)` \|$", PAGE.read_text(), re.MULTILINE))))
    assert len(named) >= 5
    assert named <= known


def counted(metric: str, method: str = "") -> float:
    """A counter's sum over its series, or its series of one method."""
    return sum(
        sample.value
        for each in REGISTRY.collect()
        for sample in each.samples
        if sample.name == metric and (not method or sample.labels.get("method") == method)
    )


def messages() -> list[dict[str, object]]:
    """An hour of two groups with holes of some steps, one that stays null, and readings that come late."""
    out = []
    for minute in range(60):
        for group in ("p1", "p2"):
            values: dict[str, float] = {}
            if not (group == "p1" and minute in (10, 11, 20)):
                values["flow"] = minute % 7 + 0.5
            if not (group == "p2" and 30 <= minute < 45):  # longer than max_gap, so that its end is null
                values["temp"] = 20.5
            if values:
                out.append({"group": group, "ts": START_MS + minute * 60_000, "values": values})
        if minute == 24:  # of a step that closed; and one that is older than the window
            out.append({"group": "p1", "ts": START_MS + 20 * 60_000, "values": {"flow": 3.5}})
            out.append({"group": "p1", "ts": START_MS + 2 * 60_000, "values": {"flow": 9.5}})
    return out


@pytest.mark.parametrize("name", ["expected", "arrived, as a share"])
def test_the_queries_give_the_figures_of_the_report(name: str, tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(CATALOGUE)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in messages()))
    rows = tmp_path / "rows.parquet"
    series = sorted(set(QUERY.findall(query(name))))
    before = {each: counted(*each) for each in series}
    done = call(
        "replay", str(tmp_path / "in.jsonl"), "--out", str(rows), "--all-revisions", "--imputer", "interpolation",
        "--catalogue", str(tmp_path / "groups.yaml"), "--partitions", "1", environment={},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    increase = {each: counted(*each) - before[each] for each in series}
    live = eval(QUERY.sub(lambda part: repr(increase[part[1], part[2] or ""]), query(name)), {})

    sums = sums_of_messages(read_catalogue(tmp_path / "groups.yaml"), stream_of(rows))
    found = [each.total for each in sums.values()]
    expected, arrived = (sum(each[figure] for each in found) for figure in ("expected", "arrived"))
    assert expected == 240
    assert sum(each["late"] for each in found) == 1
    assert sum(each["null"] for each in found) > 0
    assert live == pytest.approx(expected if name == "expected" else arrived / expected)


def stream_of(rows: Path) -> bytes:
    """A file of rows as one message."""
    sink = pa.BufferOutputStream()
    table = pq.read_table(rows).cast(SCHEMA).combine_chunks()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
