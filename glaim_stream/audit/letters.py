"""Dead letters and late readings, and the rule that everything that was rejected is among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.audit.keys import Ints
from glaim_stream.audit.model_columns import ModelColumns
from glaim_stream.audit.report import Finding, Findings, Offence
from glaim_stream.decode.dead_letters import HEADER_PREFIX, RECEIPT_HEADER, InputRecord, Reject, positions_of
from glaim_stream.decode.readings import Readings

_MAX_POSITIONS = 1 << 24  # readings of one record: far above what fits into one


@dataclass(slots=True)
class Letters:
    """Dead letters of one partition's records."""

    whole: dict[int, str] = field(default_factory=dict)  # cause by offset: the whole record was rejected
    single: dict[tuple[int, int], str] = field(default_factory=dict)  # cause by (offset, position)

    def __len__(self) -> int:
        return len(self.whole) + len(self.single)

    def holds(self, offset: Ints, position: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Where a reading is a dead letter, by its record or by itself; bool [n].

        Args:
            offset: of its record, int64 [n].
            position: of the reading in the record, -1 for a whole record, integer [n].
        """
        found = np.isin(offset, np.fromiter(self.whole, np.int64, len(self.whole)))
        if self.single:
            places = np.array(list(self.single), np.int64)
            found |= np.isin(offset * _MAX_POSITIONS + position, places[:, 0] * _MAX_POSITIONS + places[:, 1])
        return found


def collect_letter(record: InputRecord, letters: dict[int, Letters], *, topic: str) -> bool:
    """Add one dead letter to those of its record's partition; False when it is not a letter of `topic`."""
    texts = {name: value for name, value in record.headers if name.startswith(HEADER_PREFIX)}
    if RECEIPT_HEADER in texts:
        return True  # a receipt: names the letters that were sent back
    try:
        if texts[HEADER_PREFIX + "topic"].decode() != topic:
            return False
        partition = int(texts[HEADER_PREFIX + "partition"])
        offset = int(texts[HEADER_PREFIX + "offset"])
        cause = texts[HEADER_PREFIX + "cause"].decode()
        positions = positions_of(record.headers)
    except (KeyError, ValueError, AttributeError):  # a forged header may have no value
        return False
    of_partition = letters.setdefault(partition, Letters())
    if positions is None:
        of_partition.whole[offset] = cause
    else:
        of_partition.single.update({(offset, position): cause for position in positions.tolist()})
    return True


def check_letters(
    letters: Letters,
    rejects: Sequence[Reject],
    too_late: Readings,
    *,
    partition: int,
    committed: int,
    columns: ModelColumns,
    examples: int,
) -> Findings:
    """Every reject below the commit, and every reading that came too late, must be a letter.

    Args:
        letters: of the partition, from both topics.
        rejects: what the decoder rejected.
        too_late: readings below the commit that are older than the window and are not among the letters.
        partition: number of the partition.
        committed: offset of the commit.
        columns: the catalogue.
        examples: the most offences of a finding.
    """
    below = [reject for reject in rejects if reject.offset < committed]
    counts = np.array([reject.count for reject in below], np.int64)
    offsets = np.repeat(np.array([reject.offset for reject in below], np.int64), counts)
    positions = np.concatenate([np.empty(0, np.int64), *(reject.positions for reject in below)])
    reject_of = np.repeat(np.arange(len(below)), counts)
    lost = [below[number] for number in reject_of[~letters.holds(offsets, positions)].tolist()]
    offences = [
        Offence(partition, offset=reject.offset, detail=f"{reject.cause.value}: {reject.detail}")
        for reject in lost[:examples]
    ]
    for row in range(min(len(too_late), examples - len(offences))):
        group, sensor = columns.names(int(too_late.group[row]), int(too_late.sensor[row]))
        event_time_ms, offset = int(too_late.event_time_ms[row]), int(too_late.offset[row])
        offences.append(Offence(partition, group, sensor, event_time_ms, offset, detail="too late for its window"))
    return Findings(
        {"rejected": sum(reject.count for reject in rejects), "dead_letters": len(letters)},
        {"missing_dead_letters": Finding(len(lost) + len(too_late), offences)},
    )
