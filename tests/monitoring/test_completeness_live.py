"""The queries of docs/completeness.md beside the report, on what a real worker published and a real Prometheus scraped.

A day of the queries begins before the first reading, and they are asked at the moment of the last scrape: nothing is
extrapolated, so the figures are exact.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.prometheus import LocalPrometheus
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.output import read_rows
from tests.integration.worker_process import WorkerProcess, call_command, small_settings, wait_until_committed
from tests.monitoring.panels import panel
from tests.monitoring.system import asked, query_prometheus, wait_until
from tests.monitoring.watched_plant import require_prometheus
from tests.operate.completeness.test_live import PAGE, query

pytestmark = pytest.mark.slow  # quicker: tests/operate/completeness, and test_dashboard.py for the queries

START_MS = 1_700_000_040_000  # 2023-11-14T22:14:00Z
STEP_MS = 60_000
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 16, revise_after: 3, max_gap: 6, lateness_s: 60, idle_timeout_s: 100000,
     sensors: [{id: flow}, {id: temp}]}
groups: [{model: m, pattern: "p*"}]
"""


def readings() -> Iterator[dict[str, Any]]:
    """An hour of three groups: holes, one that stays null, readings that come late, and p3 goes dark."""
    for minute in range(60):
        for group in ("p1", "p2", "p3"):
            values: dict[str, float] = {}
            if not (group == "p1" and minute in (2, 10, 11, 20)) and not (group == "p2" and minute == 3):
                values["flow"] = minute % 7 + 0.5
            if not (group == "p2" and 30 <= minute < 45):  # longer than max_gap, so that its end is null
                values["temp"] = 20.5
            if not (group == "p3" and minute >= 40):
                yield {"group": group, "ts": START_MS + minute * STEP_MS, "values": values}
        if minute == 24:  # of a step that closed; and two that are older than the window
            for group, late in (("p1", 20), ("p1", 2), ("p2", 3)):
                yield {"group": group, "ts": START_MS + late * STEP_MS, "values": {"flow": 3.5}}


def send(settings: Settings) -> int:
    """Send the readings; returns their number."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    sent = [producer.send(settings.input_topic, json.dumps(each).encode(), partition=0) for each in readings()]
    producer.close()
    return len(sent)


@dataclass(frozen=True)
class Day:
    """What the queries, the panel and the report say of the same stream."""

    live: dict[str, list[dict[str, Any]]]  # by figure of the page, and "panel"
    report: dict[str, Any]
    methods: Counter[str]  # rows of the output topic
    took_s: float  # from the first reading to the last row

    def figure(self, name: str) -> float:
        ((_, value),) = [each["value"] for each in self.live[name]]
        return float(value)


FIGURES = (
    "expected", "arrived, as a share", "too late", "rows by method", "groups that are dark",
    "delay, from the record that closed the step",
)  # fmt: skip


@pytest.fixture(scope="module")
def day(kafka: LocalKafka | ExternalKafka, tmp_path_factory: pytest.TempPathFactory) -> Day:
    require_prometheus()
    folder = tmp_path_factory.mktemp("completeness")
    settings = small_settings(
        kafka.bootstrap_servers, f"completeness-{uuid.uuid4().hex[:8]}-", folder, CATALOGUE,
        metrics_port=choose_port(), metrics_host=LOOPBACK,
    )  # fmt: skip
    ensure_topics(settings)
    target = {"targets": [f"{settings.metrics_host}:{settings.metrics_port}"]}
    scrape = {"job_name": "glaim-stream-worker", "scrape_interval": "1s", "static_configs": [target]}
    with WorkerProcess(settings, folder / "worker.log"), LocalPrometheus({"scrape_configs": [scrape]}) as prometheus:
        rows = "sum(glaim_rows_total)"
        wait_until(lambda: bool(query_prometheus(prometheus, rows)), 60, "a scrape", lambda: "none")
        assert float(query_prometheus(prometheus, rows)[0]["value"][1]) == 0, "the counters are there before a reading"
        begun_s = time.monotonic()
        wait_until_committed(settings, total=send(settings))
        took_s = time.monotonic() - begun_s
        methods = rows_by_method(settings)

        def scraped() -> list[dict[str, Any]]:
            return query_prometheus(prometheus, rows)

        wait_until(lambda: float(scraped()[0]["value"][1]) == methods.total(), 30, "all rows", scraped)
        time.sleep(2)  # scrapes of all metrics after that
        (at,) = query_prometheus(prometheus, "max(timestamp(glaim_rows_total))")
        (of_panel,) = panel("Arrived, share of the last day")
        queries = {name: query(name) for name in FIGURES} | {"panel": of_panel}
        live = {
            name: asked(prometheus, "query", query=each, time=at["value"][1])["result"]
            for name, each in queries.items()
        }  # fmt: skip
    return Day(live, reported(settings, folder / "report.json"), methods, took_s)


def rows_by_method(settings: Settings) -> Counter[str]:
    records = [record for part in read_topic(settings, settings.output_topic).values() for record in part]
    return Counter(name for record in records for name in read_rows(record.value)["method"].to_pylist())


def reported(settings: Settings, out: Path) -> dict[str, Any]:
    done = call_command(settings, "report", "--json", str(out))
    assert done.returncode == 0, done.stderr
    total: dict[str, Any] = json.loads(out.read_text())["total"]
    return total


def test_the_cells_that_were_expected(day: Day) -> None:
    of_dark = day.report["without_row"]
    assert of_dark > 0
    assert day.figure("expected") == pytest.approx(day.report["expected"] - of_dark, rel=1e-3)


def test_the_share_that_arrived_in_the_query_and_on_the_dashboard(day: Day) -> None:
    share = day.report["arrived"] / (day.report["expected"] - day.report["without_row"])
    assert 0.8 < share < 0.97
    assert day.figure("arrived, as a share") == pytest.approx(share, rel=1e-3)
    assert day.figure("panel") == pytest.approx(share, rel=1e-3)


def test_the_readings_that_came_too_late(day: Day) -> None:
    assert day.report["too_late"] == 2
    assert day.figure("too late") == pytest.approx(2, rel=1e-3)


def test_the_rows_by_method(day: Day) -> None:
    live = {each["metric"]["method"]: float(each["value"][1]) for each in day.live["rows by method"]}
    assert {"observed", "interpolation", "last_value", "none"} <= set(day.methods)
    assert {name: count for name, count in live.items() if count} == pytest.approx(dict(day.methods), rel=1e-3)


def test_the_groups_that_are_dark(day: Day) -> None:
    assert day.figure("groups that are dark") == 1


def test_the_delay_from_the_record_that_closed_the_step(day: Day) -> None:
    assert 0 < day.figure("delay, from the record that closed the step") < day.took_s


def test_the_page_has_no_other_figures() -> None:
    assert PAGE.read_text().split("| figure of the last day |")[1].split("\n\n")[0].count("\n|") - 1 == len(FIGURES)
