"""On a machine that cannot run the wheel's Triton, a typed error is raised before anything is downloaded."""

import platform
import sys
from pathlib import Path

import pytest

from deploy import triton_install
from deploy.errors import FetchError, TritonUnavailable
from deploy.triton import LocalTriton
from deploy.triton_install import install_triton, unsupported_reason


@pytest.fixture(autouse=True)
def supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supported machine with an empty cache, and an installer that must not be called."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(triton_install, "_libpython_dir", lambda: tmp_path)
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))

    def fail(command: object) -> int:
        raise AssertionError(f"nothing may be fetched: {command}")

    monkeypatch.setattr(triton_install, "_run", fail)


def test_supported_machine_has_no_reason() -> None:
    assert unsupported_reason() is None


def test_another_operating_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(TritonUnavailable, match="for Linux x86-64, this is Darwin arm64"):
        install_triton()


@pytest.mark.parametrize("libc", [("glibc", "2.31"), ("", "")])
def test_old_or_different_libc_is_named(libc: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    assert "needs glibc 2.35 or later" in str(unsupported_reason())


def test_unsupported_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    assert "needs Python 3.11 or 3.12" in str(unsupported_reason())


def test_python_without_its_shared_library_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_install, "_libpython_dir", lambda: None)
    assert "Debian and Ubuntu: the package libpython3" in str(unsupported_reason())


def test_server_raises_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(TritonUnavailable, match="aarch64"):
        LocalTriton(tmp_path, models=["any"]).start()


def test_failed_fetch_names_the_settings_and_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(command: list[str]) -> int:
        calls.append(command)
        return 1

    monkeypatch.setattr(triton_install, "_run", fail)
    for _ in range(2):
        with pytest.raises(FetchError, match=r"(?s)uv pip install.*failed.*HTTPS_PROXY.*UV_DEFAULT_INDEX"):
            install_triton(lambda line: None)
    assert len(calls) == 2
