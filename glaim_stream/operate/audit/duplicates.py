"""The rules of duplicate rows: rows of one (group, sensor, ts, revision) must be the same.

The later one wins where they may differ: where the wall clock closed a step, and where another imputer filled it. Two
transactions never publish the same row; a worker with at-least-once delivery may have published one of the two.
"""

from __future__ import annotations

import numpy as np

from glaim_stream.core.vocabulary import UPGRADED, Method
from glaim_stream.operate.audit.expected import Expected
from glaim_stream.operate.audit.keys import Bools, Ints, Keys
from glaim_stream.operate.audit.output_rows import OutputRows, same_values
from glaim_stream.operate.audit.report import Findings
from glaim_stream.operate.database import Database
from glaim_stream.windows import HORIZON

_RESOLUTION_SLACK = 1.001  # allowance for rounding of the difference itself
_RELATIVE_TOLERANCE = 1e-5  # tolerance of values that are not rounded


class Fallbacks:
    """The steps at which a fallback made a row, of each model, in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.run("CREATE TABLE fallbacks(model INTEGER, step BIGINT)")

    def add(self, rows: OutputRows) -> None:
        """Add the steps of these rows."""
        fallback = np.isin(rows.method, (Method.GAUSSIAN, Method.INTERPOLATION, Method.LAST_VALUE))
        self._database.insert(
            "INSERT INTO fallbacks SELECT DISTINCT model, step FROM given",
            {"model": rows.model[fallback], "step": rows.step[fallback]},
        )

    def any_between(self, model: int, first: Ints, last: Ints) -> Bools:
        """True where a fallback made a row of the model in the steps `[first, last]`; bool [n]."""
        steps = f"model = {model} AND step BETWEEN {first.min()} AND {last.max()}"
        found: Bools = self._database.read(
            f"""SELECT coalesce(step <= last, false) AS found
            FROM given ASOF LEFT JOIN (SELECT DISTINCT step FROM fallbacks WHERE {steps}) ON first <= step
            ORDER BY place""",
            {"place": np.arange(len(first)), "first": first, "last": last},
        )["found"]
        return found


def check_duplicates(
    expected: Expected, rows: OutputRows, row_key: Ints, keys: Keys, *, fallbacks: Fallbacks, examples: int
) -> Findings:
    """Compare each row with the next one of its key and revision.

    Args:
        expected: the keys with a reading.
        rows: the output.
        row_key: key of each row.
        keys: keys of the partition.
        fallbacks: steps at which a fallback made a row.
        examples: most offences of a finding.
    """
    order = np.lexsort((np.arange(len(row_key)), rows.revision, row_key))
    twins = (np.diff(row_key[order]) == 0) & (np.diff(rows.revision[order]) == 0)
    first, second = order[:-1][twins], order[1:][twins]
    repeated = np.flatnonzero(rows.once[first] & rows.once[second])
    repeats = keys.finding(row_key[first[repeated]], lambda _: "twice in transactions", examples=examples)
    alike = same_rows(rows, first, second, keys.columns.resolution[rows.model[first], rows.sensor[first]])
    first, second = first[~alike], second[~alike]
    # A step that the wall clock closed is not a function of the topic: a worker that reads the topic again closes
    # it by event time, and what follows for that key counts differently.
    by_clock = ~rows.final[first] | ~rows.final[second]
    by_clock |= np.isin(row_key[first], row_key[first][by_clock])
    # The same for readings: the clock may publish a step before its last reading.
    by_clock |= rows.observed[first] & rows.observed[second] & both_read(expected, rows, row_key, first, second)
    imputed = ~rows.observed[first] & ~rows.observed[second]
    filled_otherwise = (rows.method[first] != rows.method[second]) | may_differ(rows, first, second, keys, fallbacks)
    other_method = ~by_clock & imputed & filled_otherwise
    conflicting = np.flatnonzero(~by_clock & ~other_method)

    def detail(number: int) -> str:
        one, other = first[conflicting[number]], second[conflicting[number]]
        return f"revision {int(rows.revision[one])} has {float(rows.value[one])!r} and {float(rows.value[other])!r}"

    return Findings(
        {
            "rows": len(rows),
            "identical_duplicates": int(alike.sum()),
            "closed_by_clock_duplicates": int(by_clock.sum()),
            "other_method_duplicates": int(other_method.sum()),
        },
        {"conflicting": keys.finding(row_key[first[conflicting]], detail, examples=examples), "repeated": repeats},
    )


def same_rows(rows: OutputRows, first: Ints, second: Ints, resolution: np.ndarray) -> Bools:
    """True where two rows are the same; imputed values may differ by one step of the sensor's resolution.

    Args:
        rows: the output.
        first: index of one row, int64 [n].
        second: index of the other row, int64 [n].
        resolution: resolution of the sensor, 0 where its values are not rounded, [n].
    """
    one, other = rows.value[first], rows.value[second]
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.abs(one - other)
        spacing = np.spacing(other)
    tolerance = np.where(resolution > 0, resolution * _RESOLUTION_SLACK, _RELATIVE_TOLERANCE * np.abs(other))
    close = difference <= np.maximum(tolerance, np.abs(spacing))
    equal = same_values(one, other) | (np.isnan(one) & np.isnan(other))
    same: Bools = np.where(rows.observed[first], equal, equal | close)
    for column in (rows.observed, rows.final, rows.gap_age, rows.event_time_ms, rows.quality):
        same &= column[first] == column[second]
    return same


def may_differ(rows: OutputRows, first: Ints, second: Ints, keys: Keys, fallbacks: Fallbacks) -> Bools:
    """True where imputed rows may differ though they name the same method; bool [n].

    An upgrade is made when the model is back, which is not in the topic. A version or a closed form may be replaced
    between a crash and the restart; each row names its own. And a blend's weights follow from the model's errors of the
    last HORIZON steps: while a fallback stood in they were not known, and a rebuild knows them.
    """
    out: Bools = np.equal(rows.revision[second], UPGRADED) | (rows.version[first] != rows.version[second])
    blended = np.flatnonzero((rows.method[first] == Method.BLEND) & (rows.method[second] == Method.BLEND))
    for model in np.unique(rows.model[second[blended]]).tolist():
        here = blended[rows.model[second[blended]] == model]
        step = rows.step[second[here]]
        earliest = step - HORIZON - int(keys.columns.window[model])
        latest = step + int(keys.columns.revise_after[model])
        out[here] |= fallbacks.any_between(model, earliest, latest)
    return out


def both_read(expected: Expected, rows: OutputRows, row_key: Ints, first: Ints, second: Ints) -> Bools:
    """True where both values are readings of a key that has several, or its means; bool [n]."""
    out = np.zeros(len(first), np.bool_)
    place = np.searchsorted(expected.key, row_key[first])
    for number, at in enumerate(place.tolist()):
        if at < len(expected.key) and expected.key[at] == row_key[first[number]] and expected.count[at] > 1:
            pair = [first[number], second[number]]
            out[number] = bool(expected.mean[at]) or bool(np.isin(rows.value[pair], expected.readings_of(at)).all())
    return out
