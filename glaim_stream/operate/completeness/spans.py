"""The stretch of time in which each group of a topic owes rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glaim_stream.operate.completeness.row_file import NEVER_MS, RowFile

FORGET_MS = 7 * 86_400_000  # as for `glaim_dark_groups`: a group taken out of operation is not expected for ever


@dataclass(frozen=True, slots=True)
class GroupSpan:
    """A group, by its code, and the stretch in which it is expected, epoch ms."""

    group: int
    first_ms: int
    end_ms: int


def spans_of(
    file: RowFile, *, since_ms: int | None, until_ms: int | None, retained_ms: int | None
) -> Iterator[GroupSpan]:
    """Yield the groups that are expected in the range.

    A group is expected from its first row on, and from the beginning of the range if it was present before. It is
    expected up to the newest row of the topic: a silent group owes rows. A group without a row in the range counts if
    it was present within the week before, or if the catalogue names it and it was never present.

    Args:
        file: all rows, with at least one in the range.
        since_ms: requested beginning, epoch ms.
        until_ms: requested end, epoch ms.
        retained_ms: time before which retention may have removed rows.
    """
    starts = [each for each in (since_ms, retained_ms) if each is not None]
    begin_ms = max(starts) if starts else file.earliest_ms
    named = {file.index.group(name) for rule in file.catalogue.groups for name in rule.ids}
    for group in range(len(file.index.names)):
        first_ms, last_ms = file.there(group)
        if (
            not file.has_rows(group)
            and last_ms < begin_ms - FORGET_MS
            and not (first_ms == NEVER_MS and group in named)
        ):
            continue
        first_ms = begin_ms if first_ms == NEVER_MS else max(first_ms, begin_ms)
        end_ms = file.end_ms(group)
        end_ms = end_ms if until_ms is None else min(end_ms, until_ms)
        if first_ms < end_ms:
            yield GroupSpan(group, first_ms, end_ms)
