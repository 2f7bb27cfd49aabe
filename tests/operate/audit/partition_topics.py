"""One partition's topics in memory, and their audit by `PartitionAudit` in parts of any size."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import Reject
from glaim_stream.operate.audit import letters as product
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.judged_steps import JudgedSteps
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.outages import OutageEvent
from glaim_stream.operate.audit.output_rows import OutputRows
from glaim_stream.operate.audit.partition import Given, PartitionAudit
from glaim_stream.operate.audit.report import Findings
from glaim_stream.operate.database import database


@dataclass(slots=True)
class Letters:
    """Causes of dead letters: by the offset of a whole record, and by offset and position of a reading."""

    whole: dict[int, str] = field(default_factory=dict)
    single: dict[tuple[int, int], str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.whole) + len(self.single)

    def of_audit(self) -> product.Letters:
        """As the audit has them."""
        places = np.array(list(self.single), np.int64).reshape(-1, 2)
        return product.Letters(np.array(list(self.whole), np.int64), (places[:, 0], places[:, 1]))


@dataclass(frozen=True, slots=True)
class PartitionTopics:
    """Everything known of one partition."""

    partition: int
    begin: int
    end: int
    complete: bool
    readings: Readings
    rejects: Sequence[Reject]
    letters: Letters
    rows: OutputRows
    commit: GroupCommit | None
    judge_until: int | None = None
    outages: set[OutageEvent] | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def audit_partition(
    topics: PartitionTopics, columns: ModelColumns, *, examples: int = 5, chunk_rows: int = 1 << 15, parts: int = 1
) -> Findings:
    """Audit topics that are read in `parts` and judged in chunks of `chunk_rows`."""
    given = Given(
        topics.partition, topics.begin, topics.end, topics.complete, topics.commit,
        JudgedSteps.between(topics.since_ms, topics.until_ms, columns), range(topics.begin, topics.end),
        topics.judge_until,
    )  # fmt: skip
    letters = topics.letters.of_audit()
    with database(None) as own:
        audit = PartitionAudit(given, columns, own, examples=examples, chunk_rows=chunk_rows)
        # Parts end between records.
        cuts = np.linspace(topics.begin, topics.end, parts + 1).astype(int).tolist()
        for first, end in pairwise(cuts):
            inside = (topics.readings.offset >= first) & (topics.readings.offset < end)
            rejects = [reject for reject in topics.rejects if first <= reject.offset < end]
            audit.add_input(topics.readings.where(inside), rejects, letters)
        for part in np.array_split(np.arange(len(topics.rows)), parts):
            audit.add_rows(topics.rows.where(part))
        for event in topics.outages or ():
            audit.add_outages([event])
        return audit.findings(dead_letters=len(topics.letters), outages_known=topics.outages is not None)
