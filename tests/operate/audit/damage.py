"""Topics of a partition that a worker has processed, damaged at random: by the same seed in the same way."""

from dataclasses import replace

import numpy as np

from glaim_stream.core.vocabulary import Method
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.outages import OutageEvent
from glaim_stream.operate.audit.output_rows import OutputRows
from tests.operate.audit.test_partition import START_MS, STEP_MS, Case, case, reading

SENSORS = [{"id": "a", "max": 1000, "resolution": 0.01}, {"id": "b"}, {"id": "c", "cadence_s": 180}]


def damaged(seed: int, *, always_whole: bool = False) -> Case:
    """A case with late, repeated, rejected and requeued readings, whose topics then lose and gain at random.

    `always_whole`: the input begins with the topic.
    """
    rng = np.random.default_rng(seed)
    made = case(
        _stream(rng), batches=int(rng.integers(1, 12)), commit=-1 if rng.random() < 0.8 else None, sensors=SENSORS,
        bucket="mean" if rng.random() < 0.3 else "last", lateness_s=int(rng.choice([0, 60, 150])),
        revise_after=int(rng.choice([0, 3])),
    )  # fmt: skip
    given = made.given
    rows = _damaged_rows(rng, given.rows)
    readings = replace(given.readings, requeued=rng.random(len(given.readings)) < rng.choice([0, 0.002]))
    commit = given.commit
    if commit is not None and rng.random() < 0.5:
        offset = int(rng.integers(0, 2 * given.end))
        commit = GroupCommit(offset, int(rng.integers(0, offset + 1)))
    letters = replace(
        given.letters,
        whole={each: cause for each, cause in given.letters.whole.items() if rng.random() < 0.8},
        single={each: cause for each, cause in given.letters.single.items() if rng.random() < 0.8},
    )
    for offset in rng.integers(0, given.end, 5).tolist():
        letters.single[offset, 0] = "x"  # a letter that nothing explains
    outages = {each for each in sorted(given.outages or ()) if rng.random() < 0.8}
    for _ in range(3):
        at = START_MS + int(rng.integers(0, 100)) * STEP_MS
        outages.add(OutageEvent(at, int(rng.integers(0, 4)), str(rng.choice(["dark", "speaks"]))))
    whole = rng.random() < 0.8 or always_whole
    begin = 0 if whole else int(rng.integers(1, given.end))
    kept = readings.where(readings.offset >= begin)
    return Case(
        made.columns,
        replace(
            given, begin=begin, complete=whole, readings=kept, commit=commit, letters=letters, rows=rows,
            rejects=[reject for reject in given.rejects if reject.offset >= begin],
            outages=None if rng.random() < 0.2 else outages,
            judge_until=None if rng.random() < 0.8 else int(rng.integers(0, given.end)),
        ),
    )  # fmt: skip


def _stream(rng: np.random.Generator) -> list[bytes]:
    """Four groups of which some fall silent; readings come late, repeatedly, without a value, and unusable."""
    out: list[bytes] = []
    dark = {f"g{number}": sorted(rng.integers(0, 120, 2).tolist()) for number in range(4)}
    for step in range(100):
        for group, (first, until) in dark.items():
            for sensor in ("a", "b", "c"):
                if rng.random() < (0.2 if sensor != "c" else 0.6) or first <= step < until:
                    continue
                ts_ms = START_MS + step * STEP_MS + int(rng.integers(0, STEP_MS))
                value = None if rng.random() < 0.03 else round(float(rng.normal()), 3)
                message = reading(group, sensor, ts_ms, value, "Uncertain" if rng.random() < 0.1 else "good")
                out += [message] * (2 if rng.random() < 0.05 else 1)
                if rng.random() < 0.05:
                    out.append(reading(group, sensor, ts_ms - int(rng.integers(0, 25 * STEP_MS)), 7.5))
                if rng.random() < 0.01:
                    out += [b"{", reading(group, "a", ts_ms, 5000.0), reading("unknown", "a", ts_ms, 1.0)]
    return out


def _damaged_rows(rng: np.random.Generator, rows: OutputRows) -> OutputRows:
    """Drop some rows, repeat some, the repeated ones often with another value, method, revision or step."""
    kept = rows.where(rng.random(len(rows)) > rng.choice([0, 0.02, 0.5]))
    count = int(rng.integers(0, 60)) if len(kept) else 0
    again = kept.where(rng.integers(0, len(kept), count)) if count else kept.where(np.zeros(len(kept), np.bool_))
    changed = rng.integers(0, 8, count)
    again = replace(
        again,
        value=again.value + np.where(changed == 0, 1.0, 0.0),
        observed=again.observed ^ (changed == 1),
        final=again.final ^ (changed == 2),
        method=np.where(changed == 3, np.int8(Method.BLEND), again.method).astype(np.int8),
        revision=(again.revision + (changed == 4)).astype(np.int32),
        step=again.step - np.where(changed == 5, 400, 0),
        once=again.once | (changed >= 6),
    )
    blended = replace(kept, method=np.where(rng.random(len(kept)) < 0.3, Method.BLEND, kept.method).astype(np.int8))
    parts = [blended if rng.random() < 0.5 else kept, again]
    whole = OutputRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in OutputRows.__slots__))
    transactional = rng.random(len(whole)) < rng.choice([0, 0.5])
    whole = replace(whole, once=whole.once | transactional)
    return whole.where(rng.permutation(len(whole))) if rng.random() < 0.2 else whole
