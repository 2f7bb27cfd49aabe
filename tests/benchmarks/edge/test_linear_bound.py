"""The linear bound of the newest step finds linear relations despite a few outliers."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.edge.linear import least_absolute, main


def test_true_coefficients_are_found_despite_outliers() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 3))
    y = x @ np.array([0.5, -2.0, 1.0]) + 0.01 * rng.standard_normal(2000)
    y[::20] += 50
    np.testing.assert_allclose(least_absolute(x, y), [0.5, -2.0, 1.0], atol=0.01)


def test_a_sensor_that_follows_another_is_predicted_better_than_by_its_last_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    first = rng.standard_normal(1500)
    rows = [f"{1_700_000_000 + 3600 * i},{a:.4f},{2 * a:.4f}" for i, a in enumerate(first)]
    (tmp_path / "data.csv").write_text("time,a,b\n" + "\n".join(rows))
    config = tmp_path / "run.toml"
    config.write_text(f'name = "x"\n[data]\nfile = "{tmp_path / "data.csv"}"\ntime = "time"\n[export]\nname = "x"\n')
    assert main([str(config), "--rows", "400"]) == 0
    mean = capsys.readouterr().out.splitlines()[-1].split()
    assert float(mean[1]) < 0.05 * float(mean[2])
