"""Random faults, many at a time, and an audit of what is left: the seeds of `randomised/seeds.txt`, or others by name.

GLAIM_CHAOS_SEED names other seeds, such as 7 or 1-10. `python -m tests.chaos.randomised` runs more of them.
"""

import json
import os
from pathlib import Path

import pytest

from deploy.triton_install import unsupported_reason
from tests.chaos.randomised import run as random_run
from tests.chaos.randomised.__main__ import seeds_of

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

KEPT = Path(__file__).with_name("randomised") / "seeds.txt"


def seeds() -> list[int]:
    kept = ",".join(line.partition("#")[0].strip() for line in KEPT.read_text().splitlines() if line[:1].isdigit())
    return seeds_of(os.environ.get("GLAIM_CHAOS_SEED") or kept)


@pytest.mark.parametrize("seed", seeds())
def test_every_reading_is_found_once_after_random_faults(seed: int, tmp_path: Path, results: Path) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    result = random_run.run(seed, tmp_path)
    counts = result.counts
    line = {
        "family": "random_faults",
        "delivery": "exactly_once",
        "fault": f"exactly once: {counts['faults']} random faults in a minute, seed {seed}",
        "readings": counts["readings"],
        "rows": counts["rows"],
        "lost": len(result.problems.get("without an observed row", ())),
        "identical_duplicates": len(result.problems.get("twice", ())),
        "other_duplicates": 0,
        "dead_letters": counts["causes"],
        "restarts": counts["starts"],
        "seconds": counts["seconds"],
    }
    with results.open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert not result.problems, result.text()
    assert counts["committed_by_then"] > 0, "the faults must hit a stream that flows"
