"""The rules of observed rows: each reading has one, with the right value, and none is without a reading."""

from __future__ import annotations

import numpy as np

from glaim_stream.core.times import text_of_ms
from glaim_stream.core.vocabulary import QUALITIES
from glaim_stream.operate.audit.expected import Expected
from glaim_stream.operate.audit.keys import Bools, Ints, Keys, distinct, is_among, run_starts
from glaim_stream.operate.audit.output_rows import NO_EVENT_TIME_MS, OutputRows, same_values
from glaim_stream.operate.audit.report import Finding, Findings


def check_presence(
    expected: Expected,
    found: Bools,
    judged: Bools,
    closed: Bools,
    keys: Keys,
    *,
    committed: int,
    examples: int,
) -> Findings:
    """Every key whose step is closed, with a reading below the commit, must have an observed row.

    Args:
        expected: the keys.
        found: True where there is an observed row, bool [k].
        judged: True for keys to judge, bool [k].
        closed: True where the readings below the commit close the step, bool [k].
        keys: keys of the partition.
        committed: offset of the commit.
        examples: most offences of a finding.
    """
    processed = expected.first_offset < committed
    absent = judged & ~found
    missing = absent & processed & closed
    detail = "no observed row in the output"
    return Findings(
        {
            "keys": int(judged.sum()),
            "found": int((judged & found).sum()),
            "open": int((absent & processed & ~closed).sum()),
            "pending": int((absent & ~processed).sum()),
        },
        {
            "missing": keys.finding(
                expected.key[missing], detail, examples=examples, offset=expected.first_offset[missing]
            )
        },
    )


def check_values(
    expected: Expected, comparable: Bools, rows: OutputRows, row_key: Ints, keys: Keys, *, examples: int
) -> Finding:
    """The newest row of a key must be observed, with the value, time and quality that the input gives.

    Args:
        expected: the keys.
        comparable: True for expected keys that have an observed row and are known in full, bool [k].
        rows: the output.
        row_key: key of each row.
        keys: keys of the partition.
        examples: most offences of a finding.
    """
    newest = newest_rows(rows, row_key)
    at = np.flatnonzero(comparable)
    row = newest[np.searchsorted(row_key[newest], expected.key[at])]
    value, event_time_ms, quality = expected.value[at], expected.event_time_ms[at], expected.quality[at]
    same = same_values(rows.value[row], value)
    same &= (rows.event_time_ms[row] == event_time_ms) & (rows.quality[row] == quality)
    wrong = np.flatnonzero(~same | ~rows.observed[row])

    def detail(number: int) -> str:
        each, found = wrong[number], row[wrong[number]]
        return (
            f"input gives {_text(value[each], event_time_ms[each], quality[each])}, the newest row has "
            f"{_text(rows.value[found], rows.event_time_ms[found], rows.quality[found])}"
        )

    return keys.finding(expected.key[at[wrong]], detail, examples=examples, offset=expected.first_offset[at[wrong]])


def check_invented(read: Ints, rows: OutputRows, row_key: Ints, keys: Keys, *, examples: int) -> Finding:
    """An observed row must come from a reading, even if that reading became a dead letter as well.

    Args:
        read: keys of all readings, ascending.
        rows: the output.
        row_key: key of each row.
        keys: keys of the partition.
        examples: most offences of a finding.
    """
    observed = distinct(row_key[rows.observed])
    return keys.finding(observed[~is_among(observed, read)], "an observed row without a reading", examples=examples)


def newest_rows(rows: OutputRows, row_key: Ints) -> Ints:
    """Index of the row that counts for each key, keys ascending: the highest revision, the later row on a tie."""
    order = np.lexsort((np.arange(len(row_key)), rows.revision, row_key))
    start = run_starts(row_key[order])
    newest: Ints = order[np.append(start[1:], len(order))[: len(start)] - 1]
    return newest


def _text(value: np.float64, event_time_ms: np.int64, quality: np.int8) -> str:
    time = "no time" if event_time_ms == NO_EVENT_TIME_MS else text_of_ms(int(event_time_ms))
    return f"{float(value)!r} ({QUALITIES[quality]}, {time})"
