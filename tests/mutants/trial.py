"""Runs a module's unit tests on mutants of it, in a copy of the checkout."""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import importlib
import multiprocessing
import os
import py_compile
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT

# Importing these in each process would cost seconds per mutant.
_PRELOADED = (
    "hypothesis", "msgspec", "numpy", "pandas", "pyarrow.compute", "pyarrow.parquet", "pydantic_settings",
    "prometheus_client", "tritonclient.grpc", "kafka", "torch", "faust", "typer", "rich.table",
)  # fmt: skip
_PROJECT_PACKAGES = ("tests", "glaim_stream", "training", "deploy", "benchmarks", "conftest")
_SERVERS = {"kafka", "triton"}
_TEST_TIMEOUT_S = 60  # of one test; the slowest takes a few seconds
_PASSED = {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
_FORK = multiprocessing.get_context("fork")

SURVIVED, KILLED, TIMED_OUT, NO_TESTS = "survived", "killed", "timed out", "no tests"


def unit_tests_of(module: Path) -> list[Path]:
    """The test files of a module, by convention: the folder of tests/ that mirrors its package.

    `test_<module>.py` comes first, because a mutant's tests end with the first failure.
    """
    package = Path(*module.parts[1:-1]) if module.parts[0] == "glaim_stream" else module.parent
    folder, direct_test = Path("tests") / package, f"test_{module.stem}.py"
    if package == Path():
        files = [folder / direct_test]
    else:
        files = sorted((CHECKOUT / folder).glob("test_*.py"), key=lambda path: (path.name != direct_test, path.name))
    return [folder / path.name for path in files if (CHECKOUT / folder / path.name).exists()]


def digest_of(module: Path) -> str:
    """Identifies what a trial depends on: the module and its unit tests."""
    content = b"".join((CHECKOUT / path).read_bytes() for path in [module, *unit_tests_of(module)])
    return hashlib.sha256(content).hexdigest()[:16]


def preload() -> None:
    """Import the large libraries, which every mutant's process then inherits."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CI": "mutants"}  # fixed hypothesis examples
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class Copy:
    """A copy of the checkout in which modules may be changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        ignored = shutil.ignore_patterns(
            ".git", ".venv", ".cache", "build", "dist", "demo-output", "__pycache__", ".*_cache"
        )
        shutil.copytree(CHECKOUT, root, ignore=ignored, dirs_exist_ok=True)
        # Checked by content, because two mutants may have the same size and modification time.
        compileall.compile_dir(root, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        self._baselines: dict[frozenset[Path], float] = {}

    def baseline_s(self, module: Path) -> float:
        """How long the unit tests of an unchanged module take.

        Raises:
            RuntimeError: If they fail, because then mutants show nothing.
        """
        tests = frozenset(unit_tests_of(module))  # the same for all modules of a package
        if tests not in self._baselines:
            started = time.monotonic()
            outcome = self._run(module, timeout_s=600)
            if outcome not in (SURVIVED, NO_TESTS):
                raise RuntimeError(f"the unit tests of the unchanged {module} fail ({outcome})")
            self._baselines[tests] = time.monotonic() - started
        return self._baselines[tests]

    def trial(self, module: Path, source: str) -> str:
        """Run the unit tests on a mutant: `SURVIVED`, `KILLED`, `TIMED_OUT` or `NO_TESTS`."""
        timeout_s = 10 + 4 * self.baseline_s(module)
        file = self._root / module
        original = file.read_bytes()
        file.write_text(source)
        try:
            return self._run(module, timeout_s)
        finally:
            file.write_bytes(original)

    def _run(self, module: Path, timeout_s: float) -> str:
        tests = unit_tests_of(module)
        if not tests:
            return NO_TESTS
        process = _FORK.Process(target=_child, args=(self._root, [str(path) for path in tests]))
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            assert process.pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return TIMED_OUT
        if process.exitcode == pytest.ExitCode.NO_TESTS_COLLECTED:
            return NO_TESTS
        return SURVIVED if process.exitcode == 0 else KILLED


class _WithoutServers:
    """A pytest plugin that deselects tests which need a broker or a Triton."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not _SERVERS & set(getattr(item, "fixturenames", ()))]


def _child(root: Path, tests: list[str]) -> None:
    os.setsid()  # so that a timeout also kills the processes that the tests started
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir(root)
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in _PROJECT_PACKAGES]:
        del sys.modules[name]
    sys.path[:] = [str(root), *(path for path in sys.path if path not in ("", str(CHECKOUT)))]
    os.environ["PYTHONPATH"] = str(root)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={root}", "--tb=no", "--assert=plain"]
    options += ["-m", "not slow and not chaos and not cluster"]
    options += [f"--basetemp={root}.tmp", f"--timeout={_TEST_TIMEOUT_S}"]
    codes: set[int] = set()
    for files in (tests[:1], tests[1:]):  # the module's own file kills most mutants: do not import the others for those
        if files and codes <= _PASSED:
            codes.add(pytest.main([*options, *files], plugins=[_WithoutServers()]))
    os._exit(max(codes - _PASSED, default=min(codes)))
