"""A real TorchScript, explained by hiding readings."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import Settings
from glaim_stream.operate.explain.estimates import Estimate
from glaim_stream.operate.explain.network import network_answers
from glaim_stream.operate.explain.parts import of_network
from tests.imputers.test_local import put
from tests.support import catalogue


def test_the_mean_of_a_sensor_loses_a_readings_distance_from_the_others(tmp_path: Path) -> None:
    put(tmp_path, 1)  # imputes the mean of the sensor's readings
    settings = Settings(model_repository=tmp_path)
    model, contract = catalogue().models[0], read_contract(tmp_path / "m")
    values = np.array([[1.0, 2.0, 3.0, 8.0, 0.0, 5.0], [9.0, 9.0, 9.0, 9.0, 9.0, 9.0]])
    observed = np.ones((2, 6), np.bool_)
    observed[0, 4] = False
    answers = network_answers(settings, model, contract, 0, 1)
    parts = of_network(answers, Estimate(1, np.nan, 1, 4, 1, 5_000, values, observed))
    readings = values[0, observed[0]]
    without = (readings.sum() - readings) / (len(readings) - 1)
    assert parts.value == pytest.approx(readings.mean())
    np.testing.assert_allclose(parts.contributions[0, observed[0]], readings.mean() - without, atol=1e-5)
    assert not parts.contributions[1].any()
    assert parts.total == pytest.approx(parts.value)
    assert [part.name for part in parts.parts] == ["not carried by any single reading"]
