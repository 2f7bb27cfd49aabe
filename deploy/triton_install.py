"""Installs a real Triton server from a PyPI wheel, and an interpreter with TorchScript for its python backend.

The wheel contains `tritonserver`, the python backend, and a stub of that backend for each Python version. It is
unpacked into the cache instead of installed, so the project's own environment does not depend on it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import CHECKOUT, Report, cache_dir, exclusive, file_sha256
from deploy.errors import FetchError, TritonUnavailable
from deploy.uv import find_uv
from glaim_stream.imputers.local import UnfitError, install

WHEEL_REQUIREMENTS = CHECKOUT / "requirements" / "triton-wheel.txt"
SERVING_REQUIREMENTS = CHECKOUT / "requirements" / "serving.txt"

# From the wheel's tag, manylinux_2_35; Debian 12 and Ubuntu 22.04 have it.
_MINIMUM_GLIBC = (2, 35)
# numpy must stay below 2 (requirements/serving.in), and numpy 1.26 has wheels for these versions.
_PYTHONS = ((3, 11), (3, 12))


@dataclass(frozen=True)
class TritonInstallation:
    """An installed server, its backends and the environment to run it in."""

    server: Path
    backends: Path
    environment: dict[str, str]


def unsupported_reason() -> str | None:
    """Why this machine cannot run the Triton wheel, or None if it can. Fast, and downloads nothing."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"the Triton wheel is for Linux x86-64, this is {platform.system()} {platform.machine()}"
    libc, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if libc != "glibc" or numbers < _MINIMUM_GLIBC:
        return f"the Triton wheel needs glibc 2.35 or later, this is {libc or 'another libc'} {version}".rstrip()
    if sys.version_info[:2] not in _PYTHONS:
        wanted = " or ".join(f"{major}.{minor}" for major, minor in _PYTHONS)
        return f"the local Triton needs Python {wanted}, this is {platform.python_version()}"
    if _libpython_dir() is None:
        name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
        return (
            f"the local Triton needs the shared library {name}, and this Python was built without it: install it "
            f"(Debian and Ubuntu: the package {name.split('.so')[0]}) or use a Python built with --enable-shared"
        )
    return None


def install_triton(report: Report = print) -> TritonInstallation:
    """Install the server and its interpreter, unless they are in the cache; later calls take a few milliseconds.

    Raises:
        TritonUnavailable: This machine cannot run it; the message gives the reason.
        FetchError: The wheel or a package of the interpreter could not be downloaded.
    """
    reason = unsupported_reason()
    if reason is not None:
        raise TritonUnavailable(reason)
    with exclusive(cache_dir() / "triton" / ".lock"):
        root = _unpack_wheel(report)
        venv = _serving_venv(report)
        environment = _server_environment(root, venv)
        _check_libraries(root, environment)
        environment |= _kernel(report)
    return TritonInstallation(
        root / "pytriton" / "tritonserver" / "bin" / "tritonserver", root / "backends", environment
    )


def _unpack_wheel(report: Report) -> Path:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    root = cache_dir() / "triton" / f"server-{tag}-{file_sha256(WHEEL_REQUIREMENTS)[:12]}"
    if (root / ".ready").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    started = time.monotonic()
    report(f"Triton: fetching the server's wheel (55 MB) into {root}")
    # Copied, not hard-linked: the modes change below, and the files in uv's cache must keep theirs.
    _uv("pip", "install", "--target", str(root), "--link-mode", "copy", "--no-deps", "--require-hashes", "-r",
        str(WHEEL_REQUIREMENTS))  # fmt: skip
    packed = root / "pytriton" / "tritonserver"
    backend = root / "backends" / "python"
    backend.mkdir(parents=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = packed / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise TritonUnavailable(f"the Triton wheel has no python backend for Python {version}")
    # Linked, not copied: libtriton_python.so and the stub locate the wheel's libraries relative to their real paths.
    for source in (
        stub,
        packed / "backends" / "python" / "libtriton_python.so",
        packed / "backends" / "python" / "triton_python_backend_utils.py",
    ):
        (backend / source.name).symlink_to(os.path.relpath(source, backend))
    for program in (stub, packed / "bin" / "tritonserver"):
        program.chmod(0o755)
    (root / ".ready").touch()
    report(f"Triton: server ready to start after {time.monotonic() - started:.1f} s")
    return root


def _serving_venv(report: Report) -> Path:
    """The environment that loads TorchScript; separate from the project's because it needs numpy below 2."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    venv = cache_dir() / "triton" / f"serving-{tag}-{file_sha256(SERVING_REQUIREMENTS)[:12]}"
    if (venv / ".ready").exists() and (venv / "bin" / "python3").exists():
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    started = time.monotonic()
    report(
        f"Triton: creating the environment that runs TorchScript (torch is linked from the installer's cache) in {venv}"
    )
    _uv("venv", "--quiet", "--python", sys.executable, str(venv))
    _uv("pip", "install", "--python", str(venv / "bin" / "python3"), "--require-hashes", "-r",
        str(SERVING_REQUIREMENTS))  # fmt: skip
    (venv / ".ready").touch()
    report(f"Triton: environment ready after {time.monotonic() - started:.1f} s")
    return venv


def _kernel(report: Report) -> dict[str, str]:
    """Compile the network in C++ and return the variable that names it; without a compiler TorchScript answers."""
    try:
        return {"GLAIM_KERNEL": str(install(cache_dir() / "triton"))}
    except UnfitError as error:
        report(f"Triton: TorchScript answers, not the kernel: {error}")
        return {}


def _server_environment(root: Path, venv: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # The stub embeds an isolated interpreter, which derives its prefix from the first `python3` on PATH.
    environment["PATH"] = os.pathsep.join([str(venv / "bin"), environment.get("PATH", os.defpath)])
    environment["VIRTUAL_ENV"] = str(venv)
    libpython = _libpython_dir()
    libraries = [str(root / "nvidia_pytriton.libs"), *([str(libpython)] if libpython is not None else [])]
    inherited = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([*libraries, *([inherited] if inherited else [])])
    return environment


def _check_libraries(root: Path, environment: dict[str, str]) -> None:
    """Check once for missing system libraries, without which the server would end without a message.

    Raises:
        TritonUnavailable: Libraries are missing; the message names them.
    """
    checked = root / ".libraries-checked"
    if checked.exists():
        return
    missing: set[str] = set()
    for program in (root / "backends" / "python").iterdir():
        if program.suffix != ".py":
            missing |= _missing_libraries(program.resolve(), environment)
    missing |= _missing_libraries(root / "pytriton" / "tritonserver" / "bin" / "tritonserver", environment)
    if missing:
        raise TritonUnavailable(
            f"the Triton wheel needs shared libraries that are missing: {', '.join(sorted(missing))}"
        )
    checked.touch()


def _missing_libraries(program: Path, environment: dict[str, str]) -> set[str]:
    try:
        listing = subprocess.run(["ldd", program], env=environment, capture_output=True, text=True, check=False).stdout  # noqa: S607
    except FileNotFoundError:
        return set()  # no ldd: leave the error to the server
    return {line.split("=>")[0].strip() for line in listing.splitlines() if "not found" in line}


def _libpython_dir() -> Path | None:
    """The directory of this Python version's shared library: the interpreter's own, or the system's."""
    name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    multiarch = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    for directory in (
        sysconfig.get_config_var("LIBDIR"),
        f"{sys.base_prefix}/lib",
        f"/usr/lib/{multiarch}",
        f"/lib/{multiarch}",
        "/usr/local/lib",
        "/usr/lib64",
        "/usr/lib",
    ):
        if directory and (Path(directory) / name).exists():
            return Path(directory)
    return None


def _uv(*arguments: str) -> None:
    """Run the pinned installer; its progress goes to the terminal."""
    if _run([find_uv(), *arguments]) != 0:
        raise FetchError(
            f"`uv {' '.join(arguments)}` failed, see above. Try again; behind a proxy set HTTPS_PROXY (and "
            "SSL_CERT_FILE for its certificate); to use a package mirror set UV_DEFAULT_INDEX to its address"
        )


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False).returncode
