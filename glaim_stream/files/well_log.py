"""Well logs in the format LAS (Log ASCII Standard, versions 1.2 and 2.0, unwrapped lines).

A file has sections that begin with `~`: version, well, curves and readings. Readings are lines of blank-separated
numbers, the depth first. The curve section names the columns with their units. The well section states the number for
missing values.

Source: Canadian Well Logging Society, "LAS Version 2.0: A Digital Standard for Logs", 2017 revision.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from glaim_stream.core.errors import SettingsError

# "MNEM.UNIT  DATA : DESCRIPTION": the first point ends the mnemonic, the first blank after it ends the unit, and the
# last colon ends the data.
_LINE = re.compile(r"^\s*([^.]+?)\s*\.(\S*)\s*(.*?)\s*(?::[^:]*)?$")
_VERSIONS = ("1.2", "2.0")


@dataclass(frozen=True, slots=True)
class WellLog:
    """The contents of the sections above the readings.

    names, units: names and units of the curves, the depth first; a unit may be "".
    missing: number that means a missing value; None without one.
    rows: lines of readings, counted from 0.
    """

    version: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    missing: float | None
    rows: tuple[int, ...]


def well_log(lines: Sequence[str], name: str) -> WellLog | None:
    """Read the sections of a well log; None if the lines are not a well log.

    Raises:
        SettingsError: the log has another version or wrapped lines, or its sections do not name the columns.
    """
    first = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if not first.upper().startswith("~V"):
        return None
    sections: dict[str, list[tuple[str, str, str]]] = {}
    section, rows = "", []
    for at, line in enumerate(lines):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("~") and section != "A":
            section = text[1:2].upper()
            sections.setdefault(section, [])
        elif section == "A":
            rows.append(at)
        elif section in "VWC" and (found := _LINE.match(line)):
            sections[section].append((found[1].strip(), found[2], found[3]))
    stated = {mnemonic.upper(): data for part in "VW" for mnemonic, _, data in sections.get(part, [])}
    version = stated.get("VERS", "").strip()
    if version not in _VERSIONS:
        raise SettingsError(f"{name}: expected a well log of LAS {' or '.join(_VERSIONS)}, found {version or 'none'}")
    if stated.get("WRAP", "NO").strip().upper().startswith("Y"):
        raise SettingsError(f"{name}: expected a well log with a line for each depth (WRAP NO), found wrapped lines")
    curves = sections.get("C", [])
    if len(curves) < 2:
        raise SettingsError(f"{name}: expected a curve section with the depth and a curve, found {len(curves)} curves")
    missing = None
    if stated.get("NULL"):
        try:
            missing = float(stated["NULL"])
        except ValueError as error:
            raise SettingsError(f"{name}: expected a number as NULL value, found {stated['NULL']!r}") from error
    return WellLog(
        version, tuple(each[0] for each in curves), tuple(each[1] for each in curves), missing, tuple(rows)
    )  # fmt: skip
