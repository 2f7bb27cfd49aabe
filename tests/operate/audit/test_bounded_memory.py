"""What an audit finds does not depend on how much of the topics it holds at once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from glaim_stream.operate.audit.report import Findings
from tests.operate.audit.damage import damaged
from tests.operate.audit.partition_topics import audit_partition

SIZES = [  # rows in a run, rows in a chunk, parts of input and output
    (1, 1, 1),
    (3, 2, 40),
    (50, 7, 9),
    (1000, 60, 3),
]


def as_json(found: Findings) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(found)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_topics_have_the_same_findings_in_chunks_of_any_size(seed: int) -> None:
    made = damaged(seed)
    examples = 1 + seed % 6
    whole = as_json(audit_partition(made.given, made.columns, examples=examples))
    for run_rows, chunk_rows, parts in SIZES[seed % 2 :: 2]:
        found = audit_partition(
            made.given, made.columns, examples=examples, run_rows=run_rows, chunk_rows=chunk_rows, parts=parts
        )
        assert as_json(found) == whole, (run_rows, chunk_rows, parts)


def test_the_damage_breaks_every_rule() -> None:
    counts: dict[str, int] = {}
    for seed in range(12):
        made = damaged(seed)
        for name, finding in audit_partition(made.given, made.columns).problems.items():
            counts[name] = counts.get(name, 0) + finding.count
    assert len(counts) == 12
    assert {name for name, count in counts.items() if not count} == set()
