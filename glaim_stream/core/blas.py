"""The number of threads of numpy's BLAS, while many small systems are solved."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np

_MAPS = Path("/proc/self/maps")
_PREFIXES, _SUFFIXES = ("", "scipy_"), ("", "64_")
_lock = Lock()
_depth = 0
_before: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep OpenBLAS to one thread in this block, or in the decorated function; then restore its number.

    The closed form solves many small systems, which several threads slow down, and by a factor of 10 where other work
    keeps the cores busy: each waits for the others. The number belongs to the process, so other threads that compute
    meanwhile have one thread, too. Without an OpenBLAS nothing happens.
    """
    global _depth
    with _lock:
        if _depth == 0:
            _before[:] = [get() for get, _ in _controls()]
            _set([1] * len(_before))
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _set(_before)


def threads() -> int:
    """The number of threads of OpenBLAS at present; 0 if there is none."""
    return max((get() for get, _ in _controls()), default=0)


def _set(numbers: list[int]) -> None:
    for (get, put), number in zip(_controls(), numbers, strict=True):
        if get() != number:
            put(number)


@cache
def _controls() -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """Functions that get and set the number of threads, for each OpenBLAS of numpy."""
    found: list[tuple[Callable[[], int], Callable[[int], None]]] = []
    for library in map(ctypes.CDLL, _libraries()):
        for name in (f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in _PREFIXES for suffix in _SUFFIXES):
            if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
                put = library[name.format("set")]
                put.argtypes, put.restype = [ctypes.c_int], None
                found.append((library[name.format("get")], put))
                break
    return found


def _libraries() -> list[str]:
    """Paths of the OpenBLAS that are loaded; without a map of the process, those that numpy brings along."""
    if _MAPS.exists():
        paths = (line.split(maxsplit=5)[-1].strip() for line in _MAPS.read_text().splitlines() if "openblas" in line)
        return sorted({path for path in paths if path.startswith("/")})
    folder = Path(np.__file__).parent
    return sorted(
        str(each) for each in (*folder.glob(".dylibs/*openblas*"), *folder.parent.glob("numpy.libs/*openblas*"))
    )
