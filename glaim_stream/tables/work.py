"""Work on the groups of a table: in this process or in several, with results that a later run takes up.

Groups are independent once their sensors are fitted. Neighbouring groups make a part, by their sizes alone, so parts
do not depend on the number of processes, and results come in the order of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from glaim_stream.core.errors import ModelError
from glaim_stream.core.jobs import shared_out
from glaim_stream.core.unfinished import Unfinished
from glaim_stream.form import artefact
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.groups import Group, Progress
from glaim_stream.tables.saved import arrays_of

_PART_CELLS = 20_000  # least cells of a part: a twentieth of a second of work
_MOST_PARTS = 1_000  # of a table, each a file of the folder

# Takes the fit, a group and what else is asked of it; returns arrays of plain numbers.
Task = Callable[..., artefact.Arrays]


@dataclass(frozen=True)
class Work:
    """How the groups of a table are worked on.

    jobs: number of processes; 1 works in this one.
    unfinished: folder with the results of finished parts; None keeps none.
    """

    WORTH: ClassVar = 4_000_000  # cells of a table below which processes take longer to start than they save

    jobs: int = 1
    unfinished: Unfinished | None = None

    def each(
        self,
        name: str,
        task: Task,
        fitted: SensorFits,
        groups: Sequence[tuple[Group, *tuple[Any, ...]]],
        progress: Progress | None = None,
    ) -> list[artefact.Arrays]:
        """Apply a task to each group, and return its results in their order.

        Args:
            name: name of the task, for progress, messages and the folder.
            task: function of a module, called with the fit and the entries of one of `groups`.
            fitted: fit of the sensors; results of another fit are not taken up.
            groups: each group, and what else the task needs for it.
            progress: called with the numbers of finished and of all groups.

        Raises:
            SettingsError: a process has died; the message names the groups that it worked on.
        """
        parts = _parts([each[0] for each in groups])
        found: dict[int, list[artefact.Arrays]] = {}
        digest = ""
        if self.unfinished is not None:
            digest = artefact.digest_of(arrays_of(fitted, {}))
            for number, part in enumerate(parts):
                kept = _read(self.unfinished, name, number, digest)
                if kept is not None and len(kept) == len(part):
                    found[number] = kept

        def report() -> None:
            if progress is not None:
                progress(sum(map(len, found.values())), len(groups))

        report()
        left = [number for number in range(len(parts)) if number not in found]
        asked = [[groups[at] for at in parts[number]] for number in left]
        folder = None if self.unfinished is None else self.unfinished.folder
        with shared_out(
            partial(_each, task, fitted), asked, jobs=self.jobs, died=lambda part, how: _died(name, part, how, folder)
        ) as results:
            for place, result in results:
                found[left[place]] = result
                if self.unfinished is not None:
                    _keep(self.unfinished, name, left[place], digest, result)
                report()
        return [each for number in range(len(parts)) for each in found[number]]


def _each(
    task: Task, fitted: SensorFits, part: Sequence[tuple[Any, ...]], _tell: Callable[[int], object]
) -> list[artefact.Arrays]:
    return [task(fitted, *each) for each in part]


def _parts(groups: Sequence[Group]) -> list[range]:
    """Neighbouring groups as parts of about equal size."""
    least = max(_PART_CELLS, sum(group.values.size for group in groups) // _MOST_PARTS)
    out, first, cells = [], 0, 0
    for place, group in enumerate(groups):
        cells += group.values.size
        if cells >= least or place == len(groups) - 1:
            out.append(range(first, place + 1))
            first, cells = place + 1, 0
    return out


def _died(name: str, part: Sequence[tuple[Any, ...]], how: str, folder: Path | None) -> str:
    names = [repr(each[0].name) for each in part]
    which = f"group {names[0]}" if len(names) == 1 else f"groups {names[0]} to {names[-1]}"
    kept = f"; what is finished is in {folder}, and the same command goes on from there" if folder else ""
    return f"{name} {which}: its process ended by {how}: give fewer --jobs, or --jobs 1{kept}"


def _read(unfinished: Unfinished, name: str, number: int, digest: str) -> list[artefact.Arrays] | None:
    """The arrays of each group of a part; None if it is not finished, damaged, or of another digest."""
    path = unfinished.path(name, number, "npz")
    try:
        arrays = artefact.from_bytes(path.read_bytes(), str(path))
        text = artefact.text_of(arrays)
    except (OSError, ModelError):
        return None
    if text.get("digest") != digest:
        return None
    out: list[artefact.Arrays] = [{} for _ in range(text["groups"])]
    for key, array in arrays.items():
        place, known, rest = key.partition(".")
        if known:
            out[int(place)][rest] = array
    return out


def _keep(unfinished: Unfinished, name: str, number: int, digest: str, groups: Sequence[artefact.Arrays]) -> None:
    arrays = {f"{place}.{key}": array for place, group in enumerate(groups) for key, array in group.items()}
    content = artefact.to_bytes(artefact.with_text(arrays, {"digest": digest, "groups": len(groups)}))
    unfinished.write(unfinished.path(name, number, "npz"), content)
