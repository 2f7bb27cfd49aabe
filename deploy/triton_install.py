"""Sets up a real Triton server from a PyPI wheel, and an interpreter with TorchScript for its python backend.

The wheel holds `tritonserver`, the python backend, and a stub of that backend for each Python version. It is unpacked,
not installed: nothing in our own environment depends on it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import CHECKOUT, cache_dir, exclusive
from deploy.errors import FetchError, TritonUnavailable

WHEEL_REQUIREMENTS = CHECKOUT / "requirements" / "triton-wheel.txt"
SERVING_REQUIREMENTS = CHECKOUT / "requirements" / "serving.txt"

# Of the wheel's tag, manylinux_2_35; Debian 12 and Ubuntu 22.04 have it.
_MINIMUM_GLIBC = (2, 35)
# numpy must stay below 2 (requirements/serving.in), and numpy 1.26 has wheels for these.
_PYTHONS = ((3, 11), (3, 12))

Report = Callable[[str], None]


@dataclass(frozen=True)
class TritonInstallation:
    """A server that is ready to run."""

    server: Path
    backends: Path
    environment: dict[str, str]


def unsupported_reason() -> str | None:
    """Why this machine cannot run the wheel's Triton, in words; None if it can. Costs nothing, fetches nothing."""
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
    """Bring the server and its interpreter, once; later calls take a few milliseconds.

    Raises:
        TritonUnavailable: If this machine cannot run it; says why.
        FetchError: If the wheel or a package of the interpreter did not come.
    """
    reason = unsupported_reason()
    if reason is not None:
        raise TritonUnavailable(reason)
    with exclusive(cache_dir() / "triton" / ".lock"):
        root = _unpack_wheel(report)
        venv = _serving_venv(report)
        environment = _server_environment(root, venv)
        _check_libraries(root, environment)
    return TritonInstallation(
        root / "pytriton" / "tritonserver" / "bin" / "tritonserver", root / "backends", environment
    )


def _unpack_wheel(report: Report) -> Path:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    root = cache_dir() / "triton" / f"server-{tag}-{_digest(WHEEL_REQUIREMENTS)}"
    if (root / ".ready").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    started = time.monotonic()
    report(f"Triton: fetching the server's wheel (55 MB) into {root}")
    # Copied, not hard-linked: we change modes below, and those of the installer's cache are not ours.
    _uv("pip", "install", "--target", str(root), "--link-mode", "copy", "--no-deps", "--require-hashes", "-r",
        str(WHEEL_REQUIREMENTS))  # fmt: skip
    packed = root / "pytriton" / "tritonserver"
    backend = root / "backends" / "python"
    backend.mkdir(parents=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = packed / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise TritonUnavailable(f"the Triton wheel has no python backend for Python {version}")
    # Linked, not copied: libtriton_python.so and the stub find the wheel's libraries relative to where they really are.
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
    """The interpreter that loads TorchScript: numpy below 2, hence not our own environment."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    venv = cache_dir() / "triton" / f"serving-{tag}-{_digest(SERVING_REQUIREMENTS)}"
    if (venv / ".ready").exists() and (venv / "bin" / "python3").exists():
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    started = time.monotonic()
    report(
        f"Triton: making the environment that runs TorchScript (torch is linked from the installer's cache) in {venv}"
    )
    _uv("venv", "--quiet", "--python", sys.executable, str(venv))
    _uv("pip", "install", "--python", str(venv / "bin" / "python3"), "--require-hashes", "-r",
        str(SERVING_REQUIREMENTS))  # fmt: skip
    (venv / ".ready").touch()
    report(f"Triton: environment ready after {time.monotonic() - started:.1f} s")
    return venv


def _server_environment(root: Path, venv: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # The stub embeds an isolated interpreter that takes its prefix from the first `python3` on PATH.
    environment["PATH"] = os.pathsep.join([str(venv / "bin"), environment.get("PATH", os.defpath)])
    environment["VIRTUAL_ENV"] = str(venv)
    libpython = _libpython_dir()
    libraries = [str(root / "nvidia_pytriton.libs"), *([str(libpython)] if libpython is not None else [])]
    inherited = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([*libraries, *([inherited] if inherited else [])])
    return environment


def _check_libraries(root: Path, environment: dict[str, str]) -> None:
    """Name the system libraries that are missing, once, instead of a server that ends without a word."""
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
        return set()  # no ldd: the server itself will say what it lacks
    return {line.split("=>")[0].strip() for line in listing.splitlines() if "not found" in line}


def _libpython_dir() -> Path | None:
    """The directory of this Python version's shared library: the interpreter's own, else the system's."""
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


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _uv(*arguments: str) -> None:
    """Run the pinned installer; its progress goes to the terminal."""
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.exists() else shutil.which("uv")
    if program is None:
        raise FetchError("the installer uv is not there: run `make setup`, which brings it")
    if _run([program, *arguments]) != 0:
        raise FetchError(
            f"`uv {' '.join(arguments)}` failed, see above. Try again; behind a proxy set HTTPS_PROXY (and "
            "SSL_CERT_FILE for its certificate); with a package mirror of your own set UV_DEFAULT_INDEX to its address"
        )


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False).returncode
