"""Training loads the readings that were produced: from the topic through `glaim-stream dump` into its reader."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.commands.moments import moment_or_ago_ms
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.feed import plant_source, produce
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import call_command
from training.data import DataSpec, load

STEP_MS = 60_000


@pytest.fixture
def settings(kafka: LocalKafka | ExternalKafka, topic_prefix: str) -> Settings:
    settings = Settings(
        kafka=kafka.bootstrap_servers,
        catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
        model_repository=CHECKOUT / "model_repo",
        input_topic=topic_prefix + "in",
        partitions=3,
        replication_factor=1,
    )
    ensure_topics(settings)
    return settings


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_training_loads_the_readings_that_were_produced(settings: Settings, tmp_path: Path, ending: str) -> None:
    source = plant_source(groups=5, days=200 / 1440, seed=3)
    rng = np.random.default_rng(1)
    sent = source.where(rng.random(len(source)) < 0.8)
    assert produce(settings, sent).failed_messages == 0
    again = sent.where(np.arange(len(sent)) < 40)
    again = replace(again, value=again.value + 1)
    assert produce(settings, again).failed_messages == 0  # of two readings with the same time the later one wins
    out = tmp_path / f"readings{ending}"
    run = call_command(settings, "dump", "--out", str(out), "--since", "1h")
    assert run.returncode == 0, run.stderr
    assert f"{len(sent)} readings of 5 groups of plant-pump" in run.stdout
    assert "left out, as the worker does: 40 too late for their window (--with-late writes them)" in run.stdout
    run = call_command(settings, "dump", "--out", str(out), "--since", "1h", "--with-late")
    assert run.returncode == 0, run.stderr
    assert f"{len(sent) + len(again)} readings of 5 groups of plant-pump" in run.stdout
    assert [path.name for path in tmp_path.iterdir()] == [out.name]

    series = load(DataSpec(file=str(out), step_s=60.0), out)
    expected = np.full(series.values.shape, np.nan, np.float32)
    for part in (sent, again):
        cells = [part.cells[code] for code in part.cell.tolist()]
        group = [series.groups.index(group) for group, _ in cells]
        sensor = [series.sensors.index(sensor) for _, sensor in cells]
        expected[group, sensor, (part.time_ms - series.times_ms[0]) // STEP_MS] = part.value
    np.testing.assert_array_equal(series.values, expected)


@pytest.mark.slow  # quicker: the dump that a training loads, above
def test_keep_preserves_an_existing_dump_and_an_empty_range_writes_none(settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "readings.parquet"
    empty = call_command(settings, "dump", "--out", str(out))
    assert empty.returncode == 2
    assert "expected readings of the groups of plant-pump in 0 records" in empty.stderr
    assert list(tmp_path.iterdir()) == []
    source = plant_source(groups=2, days=20 / 1440, seed=3)
    assert produce(settings, source).failed_messages == 0
    dry = call_command(settings, "dump", "--out", str(out), "--dry-run")
    assert (dry.returncode, list(tmp_path.iterdir())) == (0, [])
    assert call_command(settings, "dump", "--out", str(out)).returncode == 0
    rows = pq.read_metadata(out).num_rows
    assert rows == len(source)
    assert produce(settings, source).failed_messages == 0
    kept = call_command(settings, "dump", "--out", str(out), "--keep")
    assert kept.stdout == f"{out}: exists, left as it is\n"
    assert pq.read_metadata(out).num_rows == rows
    future = call_command(settings, "dump", "--out", str(tmp_path / "f.csv"), "--since", "2099-01-01")
    assert future.returncode == 2


@pytest.mark.slow  # quicker: the dump that a training loads, above
def test_a_clock_that_sends_seconds_or_years_ago_is_left_out(settings: Settings, tmp_path: Path) -> None:
    source = plant_source(groups=2, days=120 / 1440, seed=3)
    assert produce(settings, source).failed_messages == 0
    wrong = source.where(np.arange(len(source)) >= len(source) - 16)
    for times in (wrong.time_ms // 1000, wrong.time_ms - 24 * 31_557_600_000):
        assert produce(settings, replace(wrong, time_ms=times)).failed_messages == 0
    out = tmp_path / "readings.parquet"
    run = call_command(settings, "dump", "--out", str(out))
    assert run.returncode == 0, run.stderr
    assert pq.read_metadata(out).num_rows == len(source)
    assert "from 2026-01-01T00:00:00Z to 2026-01-01T01:59:00Z" in run.stdout
    series = load(DataSpec(file=str(out)), out)
    assert (series.rows, series.stray) == (120, 0)


def test_times_are_moments_or_durations_before_now() -> None:
    now_ms = 1_800_000_000_000
    assert moment_or_ago_ms("30d", now_ms) == now_ms - 30 * 86_400_000
    assert moment_or_ago_ms("1.5h", now_ms) == now_ms - 5_400_000
    assert moment_or_ago_ms("2026-11-21T00:00:00Z", now_ms) == 1_795_219_200_000
    with pytest.raises(SettingsError, match="such as 30d, 12h or 45m, found '30 days'"):
        moment_or_ago_ms("30 days", now_ms)
