"""`glaim-stream explain` makes the values again that a worker published, and says where it cannot."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import text_of_ms
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY, simulate
from glaim_stream.form import ClosedForm, fit
from glaim_stream.kafka import ensure_topics
from glaim_stream.output import newest_revisions, read_rows
from tests.integration.pumps import SENSORS, first_sensors
from tests.integration.worker_process import WorkerProcess, call_command, small_settings, wait_until_committed

FITTED, STEPS, WINDOW = 400, 120, 24
CATALOGUE = f"""
models:
  - name: m
    step_s: 60
    window: {WINDOW}
    max_gap: 12
    revise_after: 4
    idle_timeout_s: 100000
    sensors: [{{id: s0, unit: l/s, resolution: 0.001}}, {{id: s1}}, {{id: s2}}]
groups:
  - {{model: m, pattern: "pump-*"}}
"""


def form_of(rows: int) -> ClosedForm:
    earlier = simulate(rows / STEPS_PER_DAY, groups=2, seed=11)
    values = earlier.values[:, :SENSORS].astype(np.float64)
    return fit(
        values, np.ones(values.shape, np.bool_), start_ms=int(earlier.times_ms[0]), step_ms=STEP_MS,
        sensors=[f"s{place}" for place in range(SENSORS)], steps=WINDOW,
    ).form  # fmt: skip


@dataclass(frozen=True)
class Filled:
    """A stream that a worker has filled, and its newest rows."""

    settings: Settings
    rows: list[dict[str, Any]]

    def one(self, **wanted: object) -> dict[str, Any]:
        """The last row with these columns."""
        return next(row for row in reversed(self.rows) if all(row[name] == value for name, value in wanted.items()))

    def explain(self, row: dict[str, Any], *more: str) -> dict[str, Any]:
        done = call_command(self.settings, "explain", *cell(row), "--json", *more)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def refusal(self, *arguments: str) -> str:
        done = call_command(self.settings, "explain", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr.splitlines()[-1]


def cell(row: dict[str, Any]) -> tuple[str, ...]:
    return ("--group", row["group"], "--sensor", row["sensor"], "--ts", text_of_ms(row["ts"]))


@pytest.fixture
def filled(kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path) -> Filled:
    (tmp_path / "models" / "m").mkdir(parents=True)
    form_of(FITTED).save(tmp_path / "models" / "m")
    settings = small_settings(
        kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE, imputer="gaussian",
        model_repository=tmp_path / "models", partitions=2,
    )  # fmt: skip
    whole = plant_source(days=(FITTED + STEPS) / STEPS_PER_DAY, groups=3, seed=11)
    whole = first_sensors(whole.between(int(whole.time_ms[-1]) - (STEPS - 1) * STEP_MS, None))
    ensure_topics(settings)
    assert produce(settings, whole.where(~hide(whole, 0.15, seed=2).mask)).failed_messages == 0
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings)
        assert worker.stop() == 0
    messages = [record for part in read_topic(settings, settings.output_topic).values() for record in part]
    table = newest_revisions([read_rows(record.value) for record in messages])
    table = table.set_column(table.column_names.index("ts"), "ts", table["ts"].cast("int64"))
    return Filled(settings, table.to_pylist())


@pytest.mark.slow  # quicker: tests/operate/explain, tests/commands/test_explain.py
def test_published_values_are_made_again_and_are_the_sum_of_their_parts(filled: Filled) -> None:
    final = [row for row in filled.rows if row["method"] == "gaussian" and row["revision"] == 1]
    provisional = [row for row in filled.rows if row["method"] == "gaussian" and row["revision"] == 0]
    chosen = [*final[:: len(final) // 6], *provisional[:2]]
    assert len({row["group"] for row in chosen}) > 1
    for row in chosen:
        found = filled.explain(row)
        assert found["value"] == row["value"]
        assert found["recomputed"] == pytest.approx(row["value"], rel=1e-9)
        assert found["notes"] == []
        assert {name: found[name] for name in ("revision", "model_version", "lower", "upper", "gap_age")} == {
            name: row[name] for name in ("revision", "model_version", "lower", "upper", "gap_age")
        }
        parts = [part["value"] for part in found["parts"]]
        assert sum(each["contribution"] for each in found["readings"]) + sum(parts) == pytest.approx(row["value"])
        assert sum(found["by_sensor"].values()) + sum(parts) == pytest.approx(row["value"])
        rounding = [part["value"] for part in found["parts"] if "rounding" in part["name"]]
        assert (len(rounding) == 1 and abs(rounding[0]) <= 0.0005) if row["sensor"] == "s0" else not rounding
        # Every contributing reading is in the topic under the group, with this value.
        observed = {(each["sensor"], text_of_ms(each["ts"])): each["value"] for each in filled.rows
                    if each["group"] == row["group"] and each["observed"]}  # fmt: skip
        assert all(observed[each["sensor"], each["ts"]] == each["reading"] for each in found["readings"])

    row = chosen[0]
    text = call_command(filled.settings, "explain", *cell(row), "--top", "3").stdout.splitlines()
    assert text[0].startswith(f"{row['group']}/{row['sensor']} at {text_of_ms(row['ts'])}: {row['value']:.8g}")
    assert text[1] == f"method gaussian ({row['model_version']}), revision 1, gap age {row['gap_age']}"
    assert len(text[text.index("the same by reading") :]) == 1 + 3 + 1 + 1  # with the others and the sum
    assert float(text[-1].split()[-1]) == pytest.approx(row["value"], rel=1e-3)

    # Another form than that of the row: both values, the reason, and a part that closes the sum.
    form_of(FITTED // 2).save(filled.settings.model_repository / "m")
    found = filled.explain(row)
    assert found["recomputed"] != row["value"]
    assert row["model_version"] in found["notes"][0]
    assert found["parts"][-1]["name"] == "difference from the published value"
    assert found["sum"] == pytest.approx(row["value"])

    measured = filled.one(observed=True)
    assert "was measured" in filled.refusal(*cell(measured))
    nothing = filled.refusal(*cell(measured | {"ts": measured["ts"] + 3_600_000}))
    assert f"found rows of {measured['group']} from" in nothing or "found rows of no group" in nothing
    unknown = filled.refusal(*cell(measured | {"group": "x"}))
    assert "expected a group of the catalogue, found 'x'; known: pump-*" in unknown
    unknown = filled.refusal(*cell(measured | {"sensor": "s9"}))
    assert "expected a sensor of m, found 's9'; known: s0, s1, s2" in unknown
    unknown = filled.refusal(*cell(measured | {"group": "pump-99"}))
    assert "expected rows of pump-99" in unknown
