"""Start of the demo: downloads, messages if Triton cannot run, and readiness of a worker."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.demo import stage
from deploy.demo.__main__ import main
from deploy.errors import FetchError, TritonUnavailable


def fails_with(error: Exception) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise error

    return call


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the programs that would have been downloaded; nothing is downloaded."""
    calls: list[str] = []
    for name in ("find_java", "kafka_jars", "install_triton"):
        monkeypatch.setattr(stage, name, lambda *_, name=name: calls.append(name))
    for name in ("GLAIM_KAFKA", "GLAIM_TRITON"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_unsupported_machine_is_a_reason_and_not_a_failure(fetched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "install_triton", fails_with(TritonUnavailable("the wheel is for Linux x86-64")))
    assert stage.fetch_parts("triton", print) == "the wheel is for Linux x86-64"


def test_failed_download_ends_the_demo_with_its_message(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        stage, "kafka_jars", fails_with(FetchError("org.example:thing [1.0] could not be fetched: try again"))
    )
    assert main(["--out", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert "error: org.example:thing [1.0] could not be fetched: try again" in shown
    assert "Traceback" not in shown


@pytest.mark.slow  # quicker: tests/test_purity.py has the worker, which the demo starts
def test_demo_does_not_import_torch() -> None:
    import subprocess

    code = "import deploy.demo.__main__, sys; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
