"""What an audit finds does not depend on how much of the topics it holds at once."""

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from glaim_stream.operate.audit.report import Findings
from tests.operate.audit.damage import damaged
from tests.operate.audit.partition_topics import audit_partition
from tests.operate.audit.test_partition import case, stream

SIZES = [(3, 1), (5, 40), (17, 9), (90, 3)]  # rows in a chunk, parts of input and output


def as_json(found: Findings) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(found)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_topics_have_the_same_findings_in_chunks_of_any_size(seed: int) -> None:
    made = damaged(seed)
    examples = 1 + seed % 6
    whole = as_json(audit_partition(made.given, made.columns, examples=examples))
    for chunk_rows, parts in SIZES[seed % 2 :: 2]:
        found = audit_partition(made.given, made.columns, examples=examples, chunk_rows=chunk_rows, parts=parts)
        assert as_json(found) == whole, (chunk_rows, parts)


def test_the_damage_breaks_every_rule() -> None:
    counts: dict[str, int] = {}
    for seed in range(12):
        made = damaged(seed)
        for name, finding in audit_partition(made.given, made.columns).problems.items():
            counts[name] = counts.get(name, 0) + finding.count
    assert len(counts) == 12
    assert {name for name, count in counts.items() if not count} == set()


def test_a_reading_of_a_slow_sensor_excuses_the_clocks_hole_in_a_later_chunk() -> None:
    """The wall clock published a hole at the end of an interval before the reading of its first step came."""
    made = case(stream(), sensors=[{"id": "a"}, {"id": "b", "cadence_s": 180}], revise_after=2)
    rows = made.given.rows
    first = np.flatnonzero(rows.observed & (rows.sensor == 1) & (rows.step % 3 == 0))[:-2]
    holes = made.appended(
        first, step=rows.step[first] + 2, observed=np.zeros(len(first), np.bool_), final=np.zeros(len(first), np.bool_)
    )
    assert len(first) > 5
    for chunk_rows in (3, 1000):
        found = audit_partition(replace(made.given, rows=holes), made.columns, chunk_rows=chunk_rows)
        assert found.problems["holes_not_final"].count == 0, chunk_rows
