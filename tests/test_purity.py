"""The core imports no broker, no server, no torch; the worker imports no training. Asked of a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

EDGES = ("aiokafka", "faust", "kafka", "tritonclient", "grpc", "torch", "training")
CORE = [
    "catalogue", "clock", "closing", "contract", "deadletters", "decode", "decode_arrow", "decode_json", "errors",
    "faults", "groups", "imputers.baselines", "imputers.ladder", "imputers.protocol", "imputers.simple", "offsets",
    "parsed", "partition", "pipeline", "plant", "quality", "readings", "records", "repair", "rings", "status",
    "windows",
]  # fmt: skip
ARITHMETIC = ["clock", "closing", "offsets", "readings", "rings", "status", "imputers.baselines"]


def imported_by(*modules: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after importing these."""
    program = f"import sys, {', '.join(f'glaim_stream.{name}' for name in modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_core_imports_no_edge() -> None:
    assert not imported_by(*CORE) & set(EDGES)


def test_the_arithmetic_needs_numpy_alone() -> None:
    assert not imported_by(*ARITHMETIC) & {*EDGES, "pyarrow", "msgspec", "pydantic", "prometheus_client", "asyncio"}


@pytest.mark.parametrize("module", ["worker", "cli"])
def test_the_worker_imports_neither_torch_nor_training(module: str) -> None:
    assert not imported_by(module) & {"torch", "training"}
