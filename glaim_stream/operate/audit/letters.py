"""Dead letters and late readings, and the rule that everything that was rejected is among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.readings import InputRecord, Readings
from glaim_stream.core.rejects import Reject
from glaim_stream.decode import HEADER_PREFIX, RECEIPT_HEADER, positions_of
from glaim_stream.operate.audit.keys import Ints
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.report import Finding, Offence
from glaim_stream.operate.database import Database

_MAX_POSITIONS = 1 << 24  # most readings of one record: far above what fits into one
_MOST_WAITING = 1 << 14
_WHOLE = -(1 << 62)  # position that stands for a whole record
_NONE = np.empty(0, np.int64)
_COLUMNS = ("partition", "offset", "position", "cause")


class Letters:
    """Dead letters of some records of a partition, sorted once for many look-ups."""

    def __init__(self, whole: Ints = _NONE, single: tuple[Ints, Ints] = (_NONE, _NONE)) -> None:
        """Sort the letters.

        Args:
            whole: offsets of records that were rejected whole.
            single: offsets and positions of single readings.
        """
        self.whole = np.unique(whole)
        self._places = np.unique(single[0] * _MAX_POSITIONS + single[1])

    @property
    def single(self) -> tuple[Ints, Ints]:
        """Offsets and positions of the single readings, ascending, each once."""
        return self._places // _MAX_POSITIONS, self._places % _MAX_POSITIONS

    def holds(self, offset: Ints, position: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """True for readings that are dead letters, by their record or by themselves; bool [n].

        Args:
            offset: offset of the record, int64 [n].
            position: position of the reading in the record, -1 for a whole record, integer [n].
        """
        return _among(offset, self.whole) | _among(offset * _MAX_POSITIONS + position, self._places)


def _among(values: Ints, ordered: Ints) -> NDArray[np.bool_]:
    """True where values are among ascending ones; bool [n]."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[place] == values
    return found


class LetterTable:
    """The dead letters of all partitions, in a database."""

    def __init__(self, database: Database, topic: str, judged: Mapping[int, range] | None = None) -> None:
        """Begin a table.

        Args:
            database: a database without a table of letters.
            topic: letters of other topics are not added.
            judged: offsets whose letters are counted, by partition; None for all.
        """
        self._topic, self._judged = topic, judged
        self._database = database
        database.run('CREATE TABLE letters(partition INTEGER, "offset" BIGINT, position BIGINT, cause INTEGER)')
        self._causes: dict[str, int] = {}
        self._waiting: list[tuple[int, int, int, int]] = []
        self.by_cause: dict[str, int] = {}
        self.by_partition: dict[int, int] = {}

    def add(self, record: InputRecord) -> bool:
        """Add one dead letter; False if the record is no letter of the topic."""
        texts = {name: value for name, value in record.headers if name.startswith(HEADER_PREFIX)}
        if RECEIPT_HEADER in texts:
            return True  # a receipt, which names the letters that were sent back
        try:
            if texts[HEADER_PREFIX + "topic"].decode() != self._topic:
                return False
            partition = int(texts[HEADER_PREFIX + "partition"])
            offset = int(texts[HEADER_PREFIX + "offset"])
            cause = texts[HEADER_PREFIX + "cause"].decode()
            positions = positions_of(record.headers)
        except (KeyError, ValueError, AttributeError):  # a forged header may have no value
            return False
        if not (0 <= partition < 1 << 31 and 0 <= offset < 1 << 38):  # a forged header may have any number
            return False
        code = self._causes.setdefault(cause, len(self._causes))
        found = [_WHOLE] if positions is None else positions.tolist()
        self._waiting += [(partition, offset, position, code) for position in found]
        if len(self._waiting) > _MOST_WAITING:
            self._flush()
        return True

    def close(self) -> None:
        """Sort and count the letters, each place once; no more are added."""
        self._flush()
        # The last of several letters of one place counts.
        self._database.run(
            """CREATE TABLE sorted_letters AS
            SELECT partition, "offset", position, arg_max(cause, rowid) AS cause
            FROM letters GROUP BY ALL ORDER BY partition, "offset" """,
            "DROP TABLE letters",
        )
        judged = [
            f'(partition = {partition} AND "offset" >= {offsets.start} AND "offset" < {offsets.stop})'
            for partition, offsets in (self._judged or {}).items()
        ]
        counted = "true" if self._judged is None else " OR ".join(["false", *judged])
        names = list(self._causes)
        causes, partitions = (
            self._database.rows(
                f"SELECT {by}, count(*) FROM sorted_letters WHERE {counted} GROUP BY {by} ORDER BY {by}"
            )
            for by in ("cause", "partition")
        )
        self.by_cause = {names[code]: count for code, count in causes}
        self.by_partition = dict(partitions)

    def between(self, partition: int, first: int, end: int) -> Letters:
        """The letters of a partition's records `[first, end)`."""
        found = self._database.read(
            f"""SELECT "offset", position FROM sorted_letters
            WHERE partition = {partition} AND "offset" >= {first} AND "offset" < {end}"""
        )
        whole = found["position"] == _WHOLE
        offset = found["offset"]
        return Letters(offset[whole], (offset[~whole], found["position"][~whole]))

    def _flush(self) -> None:
        columns = np.array(self._waiting, np.int64).reshape(-1, len(_COLUMNS)).T
        self._database.add("letters", dict(zip(_COLUMNS, columns, strict=True)))
        self._waiting = []


def missing_rejects(letters: Letters, rejects: Sequence[Reject], *, partition: int, examples: int) -> Finding:
    """Every reject must be a letter.

    Args:
        letters: letters of the records.
        rejects: rejects of the decoder, of records below the commit.
        partition: number of the partition.
        examples: most offences of a finding.
    """
    counts = np.array([reject.count for reject in rejects], np.int64)
    offsets = np.repeat(np.array([reject.offset for reject in rejects], np.int64), counts)
    positions = np.concatenate([np.empty(0, np.int64), *(reject.positions for reject in rejects)])
    reject_of = np.repeat(np.arange(len(rejects)), counts)
    lost = [rejects[number] for number in reject_of[~letters.holds(offsets, positions)].tolist()]
    lost.sort(key=lambda reject: reject.offset)  # the decoder sorts them by cause
    return Finding(
        len(lost),
        [
            Offence(partition, offset=reject.offset, detail=f"{reject.cause.value}: {reject.detail}")
            for reject in lost[:examples]
        ],
    )


def missing_late(too_late: Readings, *, partition: int, columns: ModelColumns, examples: int) -> Finding:
    """Readings that came too late and are not among the letters.

    Args:
        too_late: readings below the commit that are older than the window, without those that are letters.
        partition: number of the partition.
        columns: the catalogue.
        examples: most offences of a finding.
    """
    offences = []
    for row in range(min(len(too_late), examples)):
        group, sensor = columns.names(int(too_late.group[row]), int(too_late.sensor[row]))
        event_time_ms, offset = int(too_late.event_time_ms[row]), int(too_late.offset[row])
        offences.append(Offence(partition, group, sensor, event_time_ms, offset, detail="too late for its window"))
    return Finding(len(too_late), offences)
