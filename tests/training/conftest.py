"""Fixtures of the training tests."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from training.data import Scale


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Use one thread: small tensors gain nothing from more."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def unit_scale() -> Scale:
    """Three sensors in very different units."""
    mean, std = np.array([0.0, 1013.0, -40.0]), np.array([1.0, 8.0, 0.05])
    return Scale(mean, std, mean - 5 * std, mean + 5 * std)


def write_wide(path: Path, rows: int = 900, sensors: int = 3, gaps: float = 0.03, seed: int = 0) -> Path:
    """Write a CSV of coupled sensors on one-minute steps with a few empty cells."""
    rng = np.random.default_rng(seed)
    drive = rng.standard_normal(rows).cumsum() / 6 + np.sin(np.arange(rows) / 15)
    names = [f"s{index}" for index in range(sensors)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *names])
        for row in range(rows):
            stamp = np.datetime64("2026-01-01T00:00", "m") + row
            cells = [
                f"{(index + 1) * drive[row] + 10 * index + 0.05 * rng.standard_normal():.4f}"
                for index in range(sensors)
            ]
            cells = ["" if rng.random() < gaps else cell for cell in cells]
            writer.writerow([f"{stamp}:00".replace("T", " "), *cells])
    return path


@pytest.fixture
def wide_csv(tmp_path: Path) -> Path:
    """A small CSV with one column per sensor."""
    return write_wide(tmp_path / "wide.csv")
