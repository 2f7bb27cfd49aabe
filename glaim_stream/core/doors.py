"""Doors of packages whose modules take long to import: a name is imported when it is first used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^    from ([\w.]+) import (\([^)]*\)|[^\n]+)", re.MULTILINE)


def opened(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports each name of its `__all__` on first use.

    The package's own imports under `TYPE_CHECKING` say where a name comes from, so that type checkers, the lint of the
    layers and this function read the same lines. `tests/test_doors.py` checks that no name is also that of a module of
    the package, because Python would bind the module to it.

    Args:
        package: the `__name__` of the package.
    """
    homes: dict[str, str] = {}

    def find(name: str) -> Any:
        module = sys.modules[package]
        if name.startswith("__") or name not in module.__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not homes:
            # No `ast`: before Python 3.12 two threads that parse at once may end in a SystemError.
            source = module.__loader__.get_source(package) or ""  # type: ignore[union-attr]
            # At once: another thread must not find half of the names.
            homes.update(
                {shown: home for home, names in _IMPORT.findall(source) for shown in re.findall(r"\w+", names)}
            )
        found = getattr(import_module(homes[name]), name)
        setattr(module, name, found)
        return found

    return find
