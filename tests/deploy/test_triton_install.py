"""Where the wheel's Triton cannot run, that is said plainly and typed, before anything is fetched."""

from __future__ import annotations

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
    """A machine that could run it, with an empty cache and an installer that must not be asked."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(triton_install, "_libpython_dir", lambda: tmp_path)
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))

    def refuse(command: object) -> int:
        raise AssertionError(f"nothing may be fetched: {command}")

    monkeypatch.setattr(triton_install, "_run", refuse)


def test_a_supported_machine_has_no_reason() -> None:
    assert unsupported_reason() is None


def test_another_operating_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(TritonUnavailable, match="for Linux x86-64, this is Darwin arm64"):
        install_triton()


def test_another_processor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "aarch64" in str(unsupported_reason())


@pytest.mark.parametrize("libc", [("glibc", "2.31"), ("", "")])
def test_an_old_or_another_libc_is_named(libc: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    assert "needs glibc 2.35 or later" in str(unsupported_reason())


def test_a_python_without_a_stub_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    assert "needs Python 3.11 or 3.12" in str(unsupported_reason())


def test_a_python_without_its_shared_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_install, "_libpython_dir", lambda: None)
    assert "Debian and Ubuntu: the package libpython3" in str(unsupported_reason())


def test_the_server_refuses_with_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(TritonUnavailable, match="aarch64"):
        LocalTriton(tmp_path, models=["any"]).start()


def test_a_failed_fetch_says_what_to_do_and_is_tried_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(command: list[str]) -> int:
        calls.append(command)
        return 1

    monkeypatch.setattr(triton_install, "_run", fail)
    for _ in range(2):
        with pytest.raises(FetchError, match=r"(?s)uv pip install.*failed.*HTTPS_PROXY.*UV_DEFAULT_INDEX"):
            install_triton(lambda line: None)
    assert len(calls) == 2


def test_the_wheel_is_pinned_by_checksum_and_names_no_host() -> None:
    text = triton_install.WHEEL_REQUIREMENTS.read_text()
    assert "nvidia-pytriton==" in text
    assert "--hash=sha256:" in text
    assert "://" not in text
