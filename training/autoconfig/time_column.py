"""Finds the columns that hold a file's times, and reports how they were read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import NO_TIME, text_of_ms
from glaim_stream.files import said, times_of
from training.data import columns_of
from training.errors import DataError


def time_column(table: pa.Table, file: Path, *, order: str) -> tuple[str, list[str]]:
    """The time column, or several joined by `+`, and how it was read.

    Raises:
        DataError: there is none, or its times can be read in two ways.
    """
    columns, numbers = columns_of(table)
    try:
        times, stamp, notes = times_of(columns, numbers, wanted="", order=order, name=file.name)
    except SettingsError as error:
        hint = "; where each row is a step, give --set data.time= --set data.step_s=SECONDS"
        raise DataError(f"{error}{hint if 'a column of times' in str(error) else ''}") from error
    known = stamp.ms[stamp.ms != NO_TIME]
    if stamp.how not in ("typed", "ymd") and len(known):
        notes = [f"its first time is {text_of_ms(int(known[0]))}, read as {said(stamp)}", *notes]
    missing = len(stamp.ms) - len(known)
    if missing:
        notes.append(f"{missing} rows without a time are left out")
    return times.label, notes
