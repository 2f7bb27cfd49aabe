"""The order of the test files of a run with several processes. pytest-xdist deals files out in the order of collection.

Files that wait for servers alternate with files that compute, so that the processes rarely wait at the same time. Both
kinds begin with their long files: a long file that is dealt out last would run alone at the end.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

WAITING = ("chaos", "integration", "cluster", "monitoring")  # folders whose tests mostly wait, the slowest first
COMPUTING = ("training", "files", "deploy", "helm", "tables", "commands")  # folders with long computations
WAITING_SHARE = 0.7  # of the run: the files that wait are dealt out evenly over it


def in_order(items: Sequence[pytest.Item], root: Path) -> list[pytest.Item]:
    """Return the tests in the order described above; tests of a file stay together and in their order."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = _ranked([file for file in files if folder_of(file, root) in WAITING], WAITING, root)
    computing = _ranked([file for file in files if folder_of(file, root) not in WAITING], COMPUTING, root)
    places = {file: WAITING_SHARE * place / len(waiting) for place, file in enumerate(waiting)}
    places |= {file: place / len(computing) for place, file in enumerate(computing)}
    return [item for file in sorted(places, key=places.__getitem__) for item in files[file]]


def folder_of(file: Path, root: Path) -> str:
    """Return the folder of tests/ that a file is in."""
    return file.relative_to(root).parts[1] if file.is_relative_to(root) else ""


def _ranked(files: Sequence[Path], folders: Sequence[str], root: Path) -> list[Path]:
    return sorted(files, key=lambda file: (*folders, folder_of(file, root)).index(folder_of(file, root)))
