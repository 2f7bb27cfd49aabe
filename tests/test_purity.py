"""In a fresh interpreter, the core imports no broker, server or torch, and the worker imports no training."""

import subprocess
import sys

import pytest

EDGES = ("aiokafka", "faust", "kafka", "tritonclient", "grpc", "torch", "training")
CORE = [
    "blend.scores", "core.catalogue", "core.contract", "decode.decoder", "form.form", "imputers.ladder",
    "models.served", "output.repair", "output.row_files", "pipeline.pipeline", "windows.partition",
]  # fmt: skip
ARITHMETIC = ["core.readings", "core.vocabulary", "form"]  # of windows, the lint knows: its door imports the catalogue


def imported_by(*modules: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after importing these modules."""
    program = f"import sys, {', '.join(f'glaim_stream.{name}' for name in modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_core_imports_no_broker_server_or_torch() -> None:
    assert not imported_by(*CORE) & set(EDGES)


def test_the_arithmetic_imports_only_numpy() -> None:
    assert not imported_by(*ARITHMETIC) & {*EDGES, "pyarrow", "msgspec", "pydantic", "prometheus_client", "asyncio"}


@pytest.mark.parametrize("module", ["worker.app", "worker.run", "commands.main"])
def test_the_worker_imports_neither_torch_nor_training(module: str) -> None:
    assert not imported_by(module) & {"torch", "training"}
