"""Start of the demo: downloads, messages if Triton cannot run, and readiness of a worker."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.demo import stage
from deploy.demo.__main__ import main
from deploy.errors import FetchError, TritonUnavailable
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.core.settings import read_settings


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


def test_kafka_and_triton_are_downloaded_before_the_start(fetched: list[str]) -> None:
    assert stage.fetch_parts("triton", print) is None
    assert fetched == ["find_java", "kafka_jars", "install_triton"]


def test_external_servers_are_not_downloaded(fetched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", "a:1")
    monkeypatch.setenv("GLAIM_TRITON", "b:2")
    assert stage.fetch_parts("triton", print) is None
    assert fetched == []


def test_local_model_needs_no_triton(fetched: list[str]) -> None:
    stage.fetch_parts("local", print)
    assert "install_triton" not in fetched


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


def test_worker_without_metrics_is_not_ready() -> None:
    settings = read_settings(metrics_port=choose_port(), kafka=f"{LOOPBACK}:{choose_port()}")
    assert "metrics do not respond" in (stage._worker_missing(settings) or "")


def test_demo_does_not_import_torch() -> None:
    import subprocess

    code = "import deploy.demo.__main__, sys; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
