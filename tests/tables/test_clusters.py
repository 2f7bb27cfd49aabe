"""Hundreds of sensors are divided by their correlation, and each cluster has a form of its own."""

import numpy as np
import pytest

from glaim_stream import Imputer
from glaim_stream.tables import closed_form
from glaim_stream.tables.closed_form import clusters_of


def two_waves(rows: int, each: int) -> np.ndarray:
    """Sensors [2 * each, rows] that follow one of two random walks in turns."""
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(2, rows)).cumsum(axis=1)
    return np.tile(walks, (each, 1)) + rng.normal(size=(2 * each, rows)) / 4


def test_correlated_sensors_are_together():
    values = two_waves(500, 30)
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    found = sorted(clusters_of([values[:, :250], values[:, 250:]]))
    assert found == [list(range(0, 60, 2)), list(range(1, 60, 2))]
    assert clusters_of([values[:40]]) == [list(range(40))]


def test_silent_and_constant_sensors_have_a_cluster_too():
    values = two_waves(100, 25)
    values[3], values[4] = np.nan, 1.0
    assert sorted(place for each in clusters_of([values]) for place in each) == list(range(50))


def test_every_cluster_fills_its_sensors_before_and_after_a_save(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(closed_form, "MOST_TOGETHER", 2)
    monkeypatch.setattr(closed_form, "_CLUSTER", 2)
    rows = two_waves(200, 2).T
    rows[np.random.default_rng(1).random(rows.shape) < 0.1] = np.nan
    imputer = Imputer()
    out = imputer.fit_transform(rows)
    assert np.isfinite(out).all()
    assert list(imputer.method_.values()) == ["gaussian"] * 4
    imputer.save(tmp_path / "saved.npz")
    assert np.array_equal(Imputer.load(tmp_path / "saved.npz").transform(rows), out)
