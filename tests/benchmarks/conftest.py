"""Fixtures of the benchmarks' tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Use one thread: small tensors gain nothing from more."""
    torch.set_num_threads(1)
