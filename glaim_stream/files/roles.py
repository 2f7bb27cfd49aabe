"""Distinguishes sensors from the other columns of a file: groups, row numbers, flags, codes, places."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.times import NO_TIME
from glaim_stream.files.kinds import is_text
from glaim_stream.files.numbers import floats_of
from glaim_stream.files.quality import names_quality

SENSOR_WORDS = (
    *("sensor", "tag", "signal", "variable", "parameter", "metric", "channel", "measurement", "point"),
    *("entity_id", "_field", "tagname", "varname", "key"),  # Home Assistant, InfluxDB, historians, WinCC, ThingsBoard
)
VALUE_WORDS = ("value", "reading", "val", "measurement", "data", "_value", "state", "varvalue")
SEPARATORS = (".", "/", ":", "|")
_FLAG = re.compile(
    r"flag|status|quality|qualifier|grade|\bqf\b|_qf\b|_q$|\bqc|_qc|qc_|_qa$|\bqa\b|\bcd$|_cd$|code|state$|mode$|class|alarm|valid|event|label|"
    r"anomaly|changepoint|source$|holiday|weekday|workingday|season|error",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"^(lat|lon|lng|long|latitude|longitude|elev|elevation|altitude|easting|northing)(_.*|\b.*)?$", re.I
)
_COORDINATE = re.compile(r"^(lat|lon|lng|latitude|longitude)$", re.IGNORECASE)
_NUMBER = re.compile(
    r"(^|[_ .])(id|uid|uuid|no|nr|num|idx|index|record|recno|seq|row|rownum|entry)$|"
    r"^(id|index)[_ ]|^unnamed|_id$|[a-z]Id$|^#$",
)
_CONSTANT = re.compile(
    r"^(stn|stns?_?id|station.*|site.*|wmo.*|wban|usaf|imei|serial.*|node.*|device.*|logger.*|stationsnummer|stations_id|"
    r"(f_?)?port|_?numericid|channel|version|fw.*|firmware.*|schema.*|ms|msec|millis.*|milliseconds?)$",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"[(\[/ _](kwh|mwh|wh|gj|mj|m3|m\u00b3|l|kw|w|v|a|hz|bar|pa|ppm|\u00b0?c|\u00b0?f|%)[)\]]?$", re.IGNORECASE
)
_UNITS = re.compile(r"_?(units?|uom|units? of measure(ment)?|unit_of_measure(ment)?|einheit)", re.IGNORECASE)
_TIME = re.compile(r"time|date|zeit|stamp|epoch|msec|_ms$|sec|tick|clock|datum|fecha|heure|hora|serial", re.IGNORECASE)
_DAY_MS, _ZONES_MS = 86_400_000.0, 26 * 3_600_000.0
_EXCEL_MS = -25_569 * _DAY_MS
_CLOCKS = (  # milliseconds of a unit, and the time of 0: of Unix, spreadsheets, WinCC, Windows, Matlab, Julian days
    *((unit, 0.0) for unit in (1000.0, 1.0, 1e-3, 1e-6)),
    *((_DAY_MS, _EXCEL_MS), (_DAY_MS / 1e6, _EXCEL_MS), (1e-4, -11_644_473_600_000.0)),
    *((_DAY_MS, -719_529 * _DAY_MS), (_DAY_MS, -2_440_587.5 * _DAY_MS)),
)  # fmt: skip
_GROUP = re.compile(
    r"station|site|device|mote|node|machine|pump|unit|sensor|location|group|turbine|asset|equipment|building|meter|"
    r"_id$|^id$|[a-z]Id$|name|plant",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"station|site|device|mote|node|machine|pump|unit|location|group|turbine|asset|equipment|building|meter|plant|host",
    re.IGNORECASE,
)
_MOST_CODES = 5
_ENOUGH_ROWS = 20
_CLOCK_LIKE = r"^\s*\d{1,2}[:.h]\d{2}"
Ints = NDArray[np.int64]
_FEWEST = 3  # least rows of a series
_OVERLAP = 0.5  # share of the shorter of two spans
_IN_TURN = 0.4  # share of rows whose name differs from that of the row before
_TURNS_OF_MACHINES = 0.1  # the same where the column is called after machines or places
_MOST_CLASHES = 0.5  # share of a sensor's rows that clash with others of their time, above which none is an exception
_LEFT_CLASHES = 0.1  # share of the clashes that a group may leave, as of a clock that was set back
_STEADY, _UNSTEADY = 0.85, 0.75  # share of the steps that are within a tenth of the median


def unused_columns(
    numbers: Mapping[str, Any], all_columns: Sequence[str], groups: int, *, odd: Mapping[str, str]
) -> dict[str, str]:
    """The reasons why columns are not sensors, by column.

    Args:
        numbers: columns that hold numbers, except time and group.
        all_columns: columns of the file, except time and group.
        groups: number of groups in the file.
        odd: reasons why columns that mostly hold numbers cannot be read as numbers.
    """
    unused = {}
    for column in all_columns:
        if column in odd:
            unused[column] = odd[column]
        elif column not in numbers:
            unused[column] = "no numbers"
        else:
            reason = _reason(column, numbers[column], groups)
            if reason:
                unused[column] = reason
    return unused


def _reason(column: str, cells: Any, groups: int) -> str:
    values = floats_of(cells)
    known = values[np.isfinite(values)]
    if not len(known):
        return "no value at all"
    whole = bool((known == np.rint(known)).all())
    if whole and len(values) > 2 and len(known) == len(values) and (np.diff(values) == 1).all():
        return "counts the rows"
    levels = np.unique(known)
    plain = column.strip().strip('"')
    if _COORDINATE.match(plain) or (_PLACE.match(plain) and len(levels) <= max(groups, 1) * 2):
        return "a place"
    if not whole:
        return ""
    if _NUMBER.search(plain.lower() if not re.search(r"[a-z]Id$", plain) else plain) and not _is_count(plain, known):
        return "numbers that name something"
    if len(levels) == 1 and len(known) == len(values) and len(values) >= _ENOUGH_ROWS and _CONSTANT.match(plain):
        return "one number throughout, which names something"
    if len(levels) <= 20 and len(levels) < len(known) and _FLAG.search(plain):
        return "flags or codes"
    small = 1 < len(levels) <= _MOST_CODES and levels[0] >= 0 and levels[-1] <= 9
    if small and len(known) >= _ENOUGH_ROWS and pa.types.is_integer(cells.type):  # 1, not 1.0
        return "flags or codes"
    return ""


def _is_count(name: str, known: NDArray[np.float64]) -> bool:
    """Whether whole numbers are a meter's, whatever their column is called: they climb, and not by 1 a row."""
    steps = np.diff(known)
    if not len(steps) or (steps < 0).mean() > 0.02 or not (steps > 0).any():
        return bool(_UNIT.search(name))
    return (steps == 1).mean() < 0.5 and (len(np.unique(steps)) > 2 or bool(_UNIT.search(name)))


def tells_time(column: str, cells: Any, times_ms: Ints) -> bool:
    """Whether numbers are the times of their rows in another writing, such as serial days times a million.

    Args:
        column: name of the column.
        cells: Arrow column of numbers.
        times_ms: int64 [R], NO_TIME where a row has none.
    """
    values = floats_of(cells)
    known = np.isfinite(values) & (times_ms != NO_TIME)
    values, times = values[known], times_ms[known].astype(np.float64)
    if len(values) < _FEWEST or not (_TIME.search(column) or np.abs(values).min() > 1e9):
        return False
    span = float(np.ptp(times))
    return any(
        bool((np.abs(values * unit_ms + epoch_ms - times) < _ZONES_MS).all())
        and abs(float(np.ptp(values)) * unit_ms - span) <= 0.01 * span
        for unit_ms, epoch_ms in _CLOCKS
    )


def name_separator(names: Sequence[str], stated: str = "") -> str:
    """The separator of group and sensor in all names, stated or found by equal sensors; "" without one."""
    if stated and all(all(name.partition(stated)) for name in names):
        return stated
    for separator in SEPARATORS:
        pairs = [tuple(name.split(separator, 1)) for name in names]
        if all(len(pair) == 2 and all(pair) for pair in pairs):
            groups, sensors = {pair[0] for pair in pairs}, {pair[-1] for pair in pairs}
            if len(groups) > 1 and len(set(pairs)) == len(groups) * len(sensors):
                return separator
    return ""


def columns_of(sensors: Sequence[str], columns: Sequence[str], stated: str = "") -> list[str]:
    """The columns of sensors: columns with their names, or else `<group><separator><sensor>` of all groups."""
    if not {*sensors} <= {*columns}:
        for separator in [stated] if stated else SEPARATORS:
            found = [name for name in columns if name.partition(separator)[2] in sensors]
            complete = {*sensors} == {name.partition(separator)[2] for name in found}
            if complete and name_separator(found, stated) == separator:
                return found
    return list(sensors)


def telling_columns(table: Mapping[str, Any], numbers: Mapping[str, Any], times: np.ndarray[Any, Any]) -> list[str]:
    """Columns of names that distinguish the rows of one time: groups, or sensors of a long file.

    Columns of names that each have their own clock count too.
    """
    distinct = len(np.unique(times))
    found = []
    for column, cells in table.items():
        codes = _codes(column, cells, numbers)
        if codes is None:
            continue
        pairs = len(np.unique(_paired(times, codes)))
        told = distinct < len(times) and (pairs > distinct * 1.5 or pairs == len(times))
        if told or have_own_clocks(times, codes) or (column.lower() in SENSOR_WORDS and len(numbers) == 1):
            found.append(column)
    return found


def looks_like_clock(cells: Any) -> bool:
    """Whether most cells begin with a time of day such as 12:15."""
    if not pa.types.is_string(cells.type):
        return False
    names = pc.unique(cells.drop_null())
    return bool(len(names)) and pc.sum(pc.match_substring_regex(names, _CLOCK_LIKE)).as_py() > 0.9 * len(names)


def _paired(times: np.ndarray[Any, Any], codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    place = np.unique(times, return_inverse=True)[1]
    return np.asarray(place * (int(codes.max()) + 1) + codes)


def _codes(column: str, cells: Any, numbers: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    """Codes of the names in a column; None if it holds measurements."""
    if column in numbers and not (pa.types.is_integer(numbers[column].type) and _GROUP.search(column)):
        return None
    if column in numbers:
        cells = numbers[column]
    elif not (is_text(cells.type) or pa.types.is_dictionary(cells.type)):
        return None
    codes, size = _name_codes(cells)
    return None if size < 2 or size > max(2, len(cells) / 2) else codes


def _name_codes(cells: Any) -> tuple[Ints, int]:
    """The code of the name in each row, and the number of names, which is the code of rows without one."""
    cells = cells.cast(pa.string()) if pa.types.is_dictionary(cells.type) else cells
    encoded = cells.dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    size = len(encoded.dictionary)
    return np.asarray(encoded.indices.fill_null(size), np.int64), size


def layout(
    telling: Sequence[str], measures: Sequence[str], table: Mapping[str, Any], times: np.ndarray[Any, Any],
    numbers: Mapping[str, Any], *, name: str,
) -> tuple[str, str, str, str]:  # fmt: skip
    """The layout, and the columns of groups, sensors and values; "" without one.

    Raises:
        SettingsError: the column of the group or of the sensor is ambiguous.
    """
    telling = _without_units(telling, table, numbers)
    if not telling:
        return "wide", "", "", ""
    value = next((each for word in VALUE_WORDS for each in measures if each.lower() == word), "")
    sensor = next((each for word in SENSOR_WORDS for each in telling if each.lower() == word), "")
    if len(measures) == 1 and (value or sensor):
        value = value or measures[0]
    if value and (sensor or len(measures) == 1):
        names = [each for each in telling if each not in numbers]
        if not sensor and len(telling) == 1:
            sensor = telling[0]
        others = [each for each in telling if each != sensor]
        if sensor:
            group = group_beside(sensor, value, table, numbers, times, name=name)
            if len(others) > 1:
                others = [*_independent(sensor, others, table, numbers)]
            if group or len(others) <= 1:
                return "long", group or "".join(others), sensor, value
        raise SettingsError(
            f"{name}: columns {', '.join(names or telling)} distinguish the rows of a time, and it is unclear which "
            f"is the sensor: call its column 'sensor' and that of {value!r} 'value'"
        )
    if len(telling) > 1:
        telling = _simplest(telling, table, numbers, times)
    if len(telling) > 1:
        raise SettingsError(
            f"{name}: columns {listed(list(telling))} distinguish the rows of a time, and it is unclear which is the "
            "group: give --group COLUMN"
        )
    return "wide", telling[0], "", ""


def _without_units(telling: Sequence[str], table: Mapping[str, Any], numbers: Mapping[str, Any]) -> list[str]:
    """The columns without those of units, which follow from another column: each sensor has one unit."""
    codes = {column: _codes(column, table[column], numbers) for column in telling}
    return [
        column for column, mine in codes.items()
        if mine is None or not _UNITS.fullmatch(column.strip()) or not any(
            len(np.unique(_paired(other, mine))) == len(np.unique(other))
            for each, other in codes.items() if each != column and other is not None
        )
    ]  # fmt: skip


def group_beside(
    sensor: str, value: str, table: Mapping[str, Any], numbers: Mapping[str, Any], times: Ints, *, name: str
) -> str:
    """The column of groups of a file whose rows are one reading each; "" without one.

    Rows of one time and sensor clash where their readings differ. The group is the column of names that ends the
    clashes, or the one whose names have clocks of their own. Columns that divide the rows equally count as one. Names
    of one sensor each are groups only where no other column is.

    Args:
        sensor: column of the sensors.
        value: column of the readings.
        table: Arrow columns by name, without those of the time.
        numbers: columns that hold numbers, as numbers.
        times: int64 [R], times of the rows.
        name: name of the file, for messages.

    Raises:
        SettingsError: several columns could be the group, or most rows of a sensor clash and no column is the group.
    """
    codes = {
        column: code for column, code in _independent(sensor, [*table], table, numbers).items()
        if column != value and not names_quality(column) and (_MACHINE.search(column) or not _TIME.search(column))
    }  # fmt: skip
    if not codes:
        return ""
    sensors = _name_codes(table[sensor])[0]
    keys, readings = _paired(times, sensors), np.unique(floats_of(numbers[value]), return_inverse=True)[1]
    clash = _clashes(keys, readings)
    count = np.bincount(sensors)
    throughout = bool((np.bincount(sensors, clash, len(count)) > np.maximum(_MOST_CLASHES * count, _FEWEST)).any())
    if clash.any():
        found = [
            column for column, code in codes.items()
            # A few rows also clash where a clock is set back, or where readings are corrected.
            if (throughout or _MACHINE.search(column))
            and _clashes(_paired(keys, code), readings).sum() <= _LEFT_CLASHES * clash.sum()
        ]  # fmt: skip
    else:
        found = [column for column, code in codes.items() if _on_own_clocks(column, times, sensors, code)]
    found = [each for each in found if _most_sensors(codes[each], sensors) > 1] or found
    different = list[str]()
    for each in sorted(found, key=lambda column: _UNITS.fullmatch(column.strip()) is not None):
        if not any(_divide_equally(codes[each], codes[other]) for other in different):
            different.append(each)
    if len(different) == 1 or not (different or throughout):
        return "".join(different)
    same = f"{clash.sum():,} of {len(times):,} rows have the time and {sensor!r} of another, and another {value!r}"
    if different:
        why = same if clash.any() else f"rows of one {sensor!r} have several clocks"
        raise SettingsError(
            f"{name}: {why}: it is unclear which of {listed(different)} is the group: give --group COLUMN"
        )
    raise SettingsError(
        f"{name}: {same}: expected a column that distinguishes them, found {listed([*codes])}, none of which does so "
        "alone: join columns into one, and give --group COLUMN"
    )


def _clashes(keys: Ints, readings: Ints) -> NDArray[np.bool_]:
    """Rows that share their key with a row of another reading."""
    found, place = np.unique(keys, return_inverse=True)
    one = np.zeros(len(found), np.int64)
    one[place] = readings
    out = np.zeros(len(found), np.bool_)
    out[place[readings != one[place]]] = True
    return np.asarray(out[place])


def _independent(
    sensor: str, columns: Sequence[str], table: Mapping[str, Any], numbers: Mapping[str, Any]
) -> dict[str, Ints]:
    """Codes of the columns of names that do not follow from the sensor, as its unit does."""
    sensors = _name_codes(table[sensor])[0]
    codes = {column: _codes(column, table[column], numbers) for column in columns if column != sensor}
    return {
        column: mine for column, mine in codes.items()
        if mine is not None and len(np.unique(_paired(sensors, mine))) > len(np.unique(sensors))
    }  # fmt: skip


def _divide_equally(one: Ints, other: Ints) -> bool:
    return len(np.unique(_paired(one, other))) == len(np.unique(one)) == len(np.unique(other))


def _most_sensors(codes: Ints, sensors: Ints) -> int:
    """The largest number of sensors of a name."""
    return int(np.unique(np.unique(np.stack([codes, sensors]), axis=1)[0], return_counts=True)[1].max())


def _on_own_clocks(column: str, times: Ints, sensors: Ints, codes: Ints) -> bool:
    """Whether the names of a column have clocks of their own in each sensor that several of them have."""
    order = np.argsort(sensors, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(sensors[order])) + 1)
    shared = [rows for rows in parts if len(np.unique(codes[rows])) > 1]
    machines = _MACHINE.search(column) is not None
    return bool(shared) and all(have_own_clocks(times[rows], codes[rows], machines=machines) for rows in shared)


def _simplest(
    telling: Sequence[str], table: Mapping[str, Any], numbers: Mapping[str, Any], times: np.ndarray[Any, Any]
) -> list[str]:
    """The first of columns that divide the rows equally (number and name of each station), else all."""
    found = {column: _codes(column, table[column], numbers) for column in telling}
    codes = {column: each for column, each in found.items() if each is not None}
    first = telling[0]
    for column in telling[1:]:
        one, other = codes[first], codes[column]
        together = len(np.unique(_paired(one, other)))
        if together != max(len(np.unique(one)), len(np.unique(other))):
            return list(telling)
    return [max(telling, key=lambda column: len(np.unique(codes[column])))]


def have_own_clocks(times: Ints, codes: Ints, *, machines: bool = False) -> bool:
    """Whether rows of different times, grouped by a name, are series over the same span.

    They are in two cases. Rows run back in time only where the name changes: one series stands below the other. Or the
    steps of each series are steady and those of all rows are not: the clocks are seconds apart.

    Args:
        times: int64 [rows], times of the rows that have one, in the order of the table.
        codes: int64 [rows], codes of the names.
        machines: the names are of machines or places, whose steps need not be steady.
    """
    counts = np.unique(codes, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < _FEWEST:
        return False
    parts = np.split(times[np.argsort(codes, kind="stable")], np.cumsum(counts)[:-1])
    spans = np.array([[part.min(), part.max()] for part in parts], np.float64)
    common = spans[:, 1].min() - spans[:, 0].max()
    if common < _OVERLAP * (spans[:, 1] - spans[:, 0]).min():
        return False
    ordered = all((np.diff(part) >= 0).all() for part in parts)
    if ordered and (np.diff(times) < 0).any():
        return True
    # Lasting states are not series, such as those of a machine that is sampled more often while it runs.
    in_turn = float((np.diff(codes[np.argsort(times, kind="stable")]) != 0).mean())
    if machines and in_turn >= _TURNS_OF_MACHINES:
        return True
    return (
        in_turn >= _IN_TURN and _steadiness(times) < _UNSTEADY and min(_steadiness(part) for part in parts) >= _STEADY
    )


def _steadiness(times: Ints) -> float:
    """Share of the steps between sorted times that are within a tenth of their median."""
    gaps = np.diff(np.sort(times))
    return float((np.abs(gaps - np.median(gaps)) <= 0.1 * np.median(gaps)).mean())
