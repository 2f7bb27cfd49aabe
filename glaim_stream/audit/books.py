"""What of a partition is not a row, held against its input: dead letters, the commit, outages. Pure."""

from __future__ import annotations

import numpy as np

from glaim_stream.audit.keys import Bools, Ints, PartitionKeys
from glaim_stream.audit.outages import expected_outages, judged_groups, outage_findings
from glaim_stream.audit.report import Offence
from glaim_stream.decode.readings import Readings


class PartitionBooks(PartitionKeys):
    """The rules beside the rows'; `_closable`, by model, is what the input up to the commit has closed."""

    _closable: Ints

    def _outages(self, heard: Bools, on_time: Bools) -> None:
        """Groups that went dark and spoke again, against what the outage topic says."""
        told = self._given.told
        if told is None or self._given.judge_until is not None:
            return
        readings = self._readings.where(heard)
        expected = expected_outages(readings, self._step[heard], on_time[heard], self._closable, self._cells)
        judged = judged_groups(readings, on_time[heard])
        self._count(outages=len(told), outages_judged=len(expected))
        self.audit.problems |= outage_findings(
            expected, told, judged, self._cells,
            partition=self._given.partition, whole=self._committed == self._given.end, examples=self._examples,
        )  # fmt: skip

    def _letters_of(self, too_late: Bools) -> None:
        """Every refused record, and every reading older than the window, must be a dead letter."""
        given = self._given
        below = [reject for reject in given.rejects if reject.offset < self._committed]
        rejected = np.array([(r.offset, -1 if r.position is None else r.position) for r in below], np.int64)
        rejected = rejected.reshape(-1, 2)
        held = given.letters.holds(rejected[:, 0], rejected[:, 1])
        lost = [below[row] for row in np.flatnonzero(~held).tolist()]
        late = self._readings.where(too_late)
        offences = [
            Offence(given.partition, offset=reject.offset, detail=f"{reject.cause.value}: {reject.detail}")
            for reject in lost[: self._examples]
        ]
        for row in range(min(len(late), self._examples - len(offences))):
            group, sensor = self._cells.names(int(late.group[row]), int(late.sensor[row]))
            offences.append(
                Offence(
                    given.partition, group, sensor, int(late.event_time_ms[row]), int(late.offset[row]),
                    detail="too late for its window",
                )
            )  # fmt: skip
        self._problem("missing_dead_letters", len(lost) + len(late), offences)
        self._count(rejected=len(given.rejects), dead_letters=len(given.letters))

    def _commit_of(self, readings: Readings, fed: Bools) -> None:
        """The commit must lie inside the input, and say from where the windows can be rebuilt."""
        given, commit = self._given, self._given.commit
        if commit is None:
            return
        ahead = max(0, commit.offset - given.end)
        detail = f"committed {commit.offset}, the input ends at {given.end}"
        self._problem("committed_beyond_input", ahead, [Offence(given.partition, offset=commit.offset, detail=detail)])
        if commit.rebuild_from is None:
            return
        needs = fed & (self._step >= (self._closable - self._cells.window)[readings.model])
        needed = int(readings.offset[needs].min()) if needs.any() else commit.offset
        short = max(0, commit.rebuild_from - needed)
        detail = f"the commit at {commit.offset} rebuilds from {commit.rebuild_from}, its windows need {needed}"
        self._problem("rebuild_too_late", short, [Offence(given.partition, offset=needed, detail=detail)])
