"""Dropouts: single readings, silent sensors and silent groups, in exactly the requested share."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.feed.dropouts import KINDS, LONGEST_RUN, hide, write_hidden
from glaim_stream.feed.sources import plant_source

SOURCE = plant_source(0.5, groups=3)
READING, SENSOR, GROUP = range(3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [0.001, 0.3, 0.9])
def test_exactly_the_requested_share_is_hidden(rate: float, seed: int) -> None:
    hidden = hide(SOURCE, rate, seed=seed)
    assert hidden.mask.sum() == round(rate * len(SOURCE))
    assert (hidden.mask == (hidden.kind >= 0)).all()
    assert set(hidden.kind.tolist()) <= {-1, READING, SENSOR, GROUP}


@pytest.mark.parametrize("rate", [-0.001, 1.0, 1.5])
def test_shares_out_of_range_are_rejected(rate: float) -> None:
    with pytest.raises(SettingsError, match="0 to below 1"):
        hide(SOURCE, rate)


def test_all_sensors_of_a_silent_group_are_silent() -> None:
    hidden = hide(SOURCE, 0.1, seed=2)
    group = SOURCE.group_of_cell[SOURCE.cell]
    silent = 0
    for code in range(3):
        for time_ms in np.unique(SOURCE.time_ms[(hidden.kind == GROUP) & (group == code)]).tolist():
            kinds = hidden.kind[(group == code) & (SOURCE.time_ms == time_ms)]
            assert (kinds == GROUP).all()
            silent += 1
    assert silent > 10


def test_a_silent_sensor_is_silent_for_several_readings() -> None:
    """Runs have 2 to 24 readings; an overlapping silent group or run may make them look shorter or longer."""
    hidden = hide(SOURCE, 0.05, seed=1)
    lengths = []
    for cell in range(len(SOURCE.cells)):
        silent = np.append(hidden.kind[SOURCE.cell == cell] == SENSOR, False)
        edges = np.flatnonzero(np.diff(np.append(False, silent).astype(int)))
        lengths += (edges[1::2] - edges[::2]).tolist()
    assert 2 <= np.median(lengths) <= LONGEST_RUN
    assert np.mean(np.array(lengths) >= 2) > 0.9


def test_the_file_holds_the_kind_and_time_of_each_hidden_reading(tmp_path: Path) -> None:
    hidden = hide(SOURCE, 0.2, seed=3)
    path = tmp_path / "hidden.parquet"
    assert write_hidden(SOURCE, hidden, path) == hidden.mask.sum()
    table = pq.read_table(path)
    assert table["kind"].to_pylist() == [KINDS[code] for code in hidden.kind[hidden.mask].tolist()]
    assert table["ts"].cast("int64").to_pylist() == SOURCE.time_ms[hidden.mask].tolist()
    assert [each.name for each in tmp_path.iterdir()] == ["hidden.parquet"]
